# SPDX-License-Identifier: MIT
#
# Debian packages. Part of ./dev.
#
# need() installs the packages that are missing; fetch() takes only the files out of one, below build/, where the
# package itself would start a server. Both do nothing where all is there, so nothing is downloaded in most runs. On
# other systems than Debian need() takes it that everything is there.
# shellcheck shell=bash

packages_build=(autoconf automake bpftool clang gcc libbpf-dev libc6-dev libcap-dev libcrypt-dev libdw-dev
	libelf-dev libgnutls28-dev libiberty-dev libinih-dev libjansson-dev liblzma-dev libmicrohttpd-dev libmount-dev
	libpfm4-dev libsystemd-dev libyaml-dev make pkg-config python3-markdown-it uthash-dev zlib1g-dev)
# The gate's.
packages_test=("${packages_build[@]}" chromium chromium-driver clang-format clang-tidy curl fonts-inter groff-base
	iproute2 jq jsonnet libclang-rt-14-dev libcmocka-dev linux-perf man-db mandoc openssl procps python3
	python3-clang python3-editorconfig python3-jsonschema python3-prometheus-client python3-pytest
	python3-pytest-xdist python3-requests python3-selenium python3-yaml shellcheck systemd util-linux xz-utils zsh)
packages_guest=(cpio gcc-aarch64-linux-gnu qemu-system-arm)
# Inside of it, where the tests run there too.
packages_guest_tests=(python3 python3-jsonschema python3-prometheus-client python3-pytest python3-requests python3-yaml)
axe_core=(axe-core 4.14.1 e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745)
# The schema of its files.
speedscope=(speedscope 1.25.0 2831f1e0d26df914b477e522d78b8485511495a6af81a0b88158f8b48f9e0d03)
# The libraries are podman's, which is only unpacked.
packages_container=(binutils libcap2-bin libdevmapper1.02.1 libgpgme11 runc umoci)
packages_runtimes=(conmon containerd docker.io libsubid4 podman)
# Programs that are sampled, unpacked, and the libraries of these; cmake is sampled too.
packages_sampled=(apache2-utils nginx postgresql-15 redis-tools ripgrep)
packages_sampled_need=(cmake libapr1 libaprutil1 libatomic1 libicu72 libjemalloc2 libldap-2.5-0 liblz4-1 liblzf1
	libpcre2-8-0 libpq5 libssl3 libxml2)
packages_package=(debhelper dpkg-dev)
packages_package_test=("${packages_package[@]}" lintian mmdebstrap rpm rpmlint)
# Of the system in which packages are installed: the ones that are there, and the libraries of perfmond.
packages_bare=(autopkgtest curl dbus man-db systemd-sysv)
packages_runtime=(libbpf1 libcap2 libcrypt1 libdw1 libelf1 libgnutls30 libinih1 libjansson4 liblzma5 libmicrohttpd12
	libmount1 libpfm4 libsystemd0 libyaml-0-2 zlib1g)

# --- `./dev provide THING`: a function for each thing that tests want; `all` is all of them

provide_prometheus() { fetch prometheus; }
provide_speedscope() { fetch_npm "${speedscope[@]}"; }
provide_axe() { fetch_npm "${axe_core[@]}"; }
provide_pprof() { fetch golang-1.19-go '*/pkg/tool/*/pprof'; }
provide_languages() { need g++ golang-go lld mold nodejs rustc; }
provide_java() { need openjdk-17-jdk-headless; }
provide_protoc() { fetch golang-github-google-pprof-dev '*/pprof/proto/profile.proto' && need protobuf-compiler; }
provide_nspawn() { need systemd-container; }
provide_containers() { need "${packages_container[@]}"; }
provide_docker_profile() { fetch golang-github-docker-docker-dev; }
provide_schemas() { fetch_npm_lock schemas "$top/tests/container/schemas"; }
provide_packaging() { need "${packages_package_test[@]}"; }

# Docker, podman and containerd, unpacked.
provide_runtimes()
{
	local package

	for package in "${packages_runtimes[@]}"; do
		fetch "$package" || return
	done
}

provide_sampled()
{
	local package

	need "${packages_sampled_need[@]}" || return
	for package in "${packages_sampled[@]}"; do
		fetch "$package" || return
	done
}

# A bare Debian 12.
provide_debian()
{
	need mmdebstrap && "$top/tests/package/fetch" "$build/debian" "${packages_bare[@]}" -- "${packages_runtime[@]}"
}

# The compiler, the emulator and the guest's system: it has the libraries that the daemon is built with, but for libpfm,
# so that the daemon is tested without it too; and more packages.
get_guest()
{
	local folder=$1 package libraries=()

	shift
	for package in "${packages_build[@]}"; do
		[[ $package != *-dev || $package == libpfm* ]] || libraries+=("$package")
	done
	need "${packages_guest[@]}" && "$top/tests/guest/fetch" "$folder" "${libraries[@]}" "$@"
}

provide_guest() { get_guest "$build/guest"; }

# One that can't be had does not keep the others from it: the tests that want it are skipped. Each is a process of its
# own, since after `||` no command ends a function.
provide_all()
{
	local thing

	need "${packages_test[@]}"
	for thing in prometheus speedscope axe pprof languages java protoc nspawn containers docker_profile schemas \
		packaging runtimes sampled debian guest; do
		"$top/dev" provide "$thing" || echo "dev: $thing can't be had: the tests that need it are skipped" >&2
	done
}

# --- how

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

# fetch PACKAGE [PATTERN...]: unpacks it, or such files of it, into build/PACKAGE. Installed, it would start a server on
# all interfaces, or be large.
fetch()
{
	local package=$1

	shift
	[ ! -d "$build/$package" ] || return 0

	say "fetching $package"
	rm -rf "$build/$package.tmp"
	mkdir -p "$build/$package.tmp"
	(
		cd "$build/$package.tmp"
		patiently download "$package"
		dpkg-deb --fsys-tarfile "$package"_*.deb | tar -x --wildcards "$@"
		rm "$package"_*.deb
	)
	mv "$build/$package.tmp" "$build/$package"
}

# fetch_npm PACKAGE VERSION SHA256: unpacks it into build/PACKAGE. npm only downloads it, and runs nothing of it.
fetch_npm()
{
	local package=$1 version=$2 sum=$3

	[ ! -f "$build/$package/$version" ] || return 0
	command -v npm >/dev/null || die "npm is not installed"

	say "fetching $package $version"
	rm -rf "$build/$package.tmp"
	mkdir -p "$build/$package.tmp"
	# Also where errexit is off, nothing goes on after a wrong sum.
	(
		cd "$build/$package.tmp" &&
			patiently npm pack --silent "$package@$version" &&
			sha256sum --check --quiet <<<"$sum  $package-$version.tgz" &&
			tar -xzf "$package-$version.tgz" --strip-components=1 &&
			touch "$version"
	) || return
	rm -rf "${build:?}/$package"
	mv "$build/$package.tmp" "$build/$package"
}

# fetch_npm_lock NAME FOLDER: into build/NAME, all packages of FOLDER/package-lock.json, whose sums npm checks. It runs
# nothing of them.
fetch_npm_lock()
{
	local dir=$build/$1 source=$2

	! cmp -s "$source/package-lock.json" "$dir/complete" || return 0
	command -v npm >/dev/null || die "npm is not installed"

	say "fetching the packages of $source"
	mkdir -p "$dir"
	cp "$source"/package*.json "$dir"
	(
		cd "$dir" &&
			patiently npm ci --ignore-scripts --no-audit --no-fund &&
			cp package-lock.json complete
	)
}
