# SPDX-License-Identifier: MIT
#
# Debian packages. Part of ./dev.
#
# need() installs the packages that are missing; fetch() takes only the files out of one, below build/, where the
# package itself would start a server. Both do nothing where all is there, so nothing is downloaded in most runs. On
# other systems than Debian need() takes it that everything is there.
# shellcheck shell=bash

packages_build=(autoconf automake bpftool clang gcc libbpf-dev libc6-dev libcap-dev libcrypt-dev libelf-dev
	libgnutls28-dev libinih-dev libjansson-dev libmicrohttpd-dev libmount-dev libpfm4-dev libsystemd-dev make
	pkg-config uthash-dev zlib1g-dev)
packages_test=("${packages_build[@]}" curl gcovr iproute2 jq libclang-rt-14-dev libcmocka-dev linux-perf
	openssl procps python3 python3-jsonschema python3-prometheus-client python3-pytest python3-requests systemd
	systemd-container util-linux xz-utils)
packages_lint=("${packages_build[@]}" clang-format clang-tidy libcmocka-dev python3 python3-pytest shellcheck)
packages_guest=(cpio gcc-aarch64-linux-gnu python3-pytest-xdist qemu-system-arm)
packages_browser=(chromium chromium-driver fonts-inter python3-selenium)
packages_container=(libcap2-bin runc)

as_root()
{
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "as root, please: $*"
	fi
}

apt()
{
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null
}

is_installed()
{
	[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# patiently COMMAND ARGUMENT...: tries it again up to twice, with pauses, since networks fail.
patiently()
{
	local pause

	for pause in 5 30; do
		! "$@" || return 0
		echo "dev: $*: failed, and is tried again in $pause s" >&2
		sleep "$pause"
	done
	"$@"
}

install_packages()
{
	apt update && apt install --no-install-recommends "$@"
}

download()
{
	apt-get -q download "$1" 2>/dev/null || { apt update && apt-get -q download "$1"; }
}

# need PACKAGE...: installs the missing ones.
need()
{
	local package missing=()

	if ! command -v dpkg-query >/dev/null; then
		echo "dev: not a Debian system: what is needed has to be there already ($*)" >&2
		return
	fi
	for package; do
		is_installed "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0

	say "installing ${missing[*]}"
	mkdir -p "$build"
	# Suites that run side by side may both install something.
	(
		flock 9
		patiently install_packages "${missing[@]}"
	) 9>"$build/apt.lock"
}

# need_or_skip WHAT COMMAND...: quietly runs a command that gets the packages of a suite. Where it fails, the suite is
# skipped: WHAT can't be had.
need_or_skip()
{
	local what=$1 log=$results/$suite/packages.log

	shift
	if ! ("$@") >"$log" 2>&1; then
		tail -n 20 "$log"
		record SKIP "$suite" "$what can't be had: $(grep -m 1 '^[EW]: ' "$log" || tail -n 1 "$log")"
		return 1
	fi
}

# fetch PACKAGE: unpacks it into build/PACKAGE. Installed, it would start a server on all interfaces.
fetch()
{
	local package=$1

	[ ! -d "$build/$package" ] || return 0

	say "fetching $package"
	rm -rf "$build/$package.tmp"
	mkdir -p "$build/$package.tmp"
	(
		cd "$build/$package.tmp"
		patiently download "$package"
		dpkg -x "$package"_*.deb .
		rm "$package"_*.deb
	)
	mv "$build/$package.tmp" "$build/$package"
}
