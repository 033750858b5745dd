# SPDX-License-Identifier: MIT
#
# Ways to build, each in a folder below build/ that is named after it. Part of ./dev.
#
# configure is made and run again only where what it depends on has changed, among that the lists of sources
# (list-sources); make finds out the rest.
# shellcheck shell=bash

# Sets options to those that configure takes for a way to build. The one of `make distcheck` is without optional parts.
choose_options()
{
	local root=$build/guest/arm64

	case $1 in
	default) options=(--enable-werror CFLAGS="-g -O2" --prefix="$build/default/root") ;;
	asan) options=(--enable-werror CFLAGS="-g -O1" --enable-sanitizers) ;;
	clang) options=(--enable-werror CFLAGS="-g -O2" CC=clang --without-libpfm --prefix=/usr --sysconfdir=/etc) ;;
	fuzz) options=(--enable-fuzzers CFLAGS="-g -O1" CC=clang) ;;
	coverage) options=(--enable-coverage CFLAGS="-g -O0") ;;
	arm64) options=(--enable-werror CFLAGS="-g -O2 --sysroot=$root" --host=aarch64-linux-gnu
		PKG_CONFIG="$(command -v pkg-config)" PKG_CONFIG_SYSROOT_DIR="$root"
		PKG_CONFIG_LIBDIR="$root/usr/lib/aarch64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig") ;;
	esac
}

# Writes the lists of sources, and makes configure where it is missing or older than configure.ac.
bootstrap()
{
	"$top/tests/lib/list-sources"
	if [ ! -e "$top/configure" ] || [ "$top/configure.ac" -nt "$top/configure" ]; then
		(cd "$top" && autoreconf --force --install)
	fi
}

# build_tree NAME [TARGET...]: configures and builds in build/NAME. Suites that run side by side may want the same tree:
# one builds it, and the other waits.
build_tree()
{
	mkdir -p "$build"
	(
		flock 9
		build_locked_tree "$@"
	) 9>"$build/$1.lock"
}

build_locked_tree()
{
	local name=$1 dir=$build/$1 stamp options=()

	shift
	bootstrap
	choose_options "$name"
	# Configured again with other options, and when cmocka, which may have been missing, is there.
	stamp="${options[*]}, cmocka $(pkg-config --modversion cmocka 2>/dev/null || true)"
	if [ ! -e "$dir/Makefile" ] || [ "$top/configure" -nt "$dir/config.status" ] ||
		[ "$(cat "$dir/configured" 2>/dev/null)" != "$stamp" ]; then
		mkdir -p "$dir"
		(cd "$dir" && "$top/configure" -q "${options[@]}")
		echo "$stamp" >"$dir/configured"
	fi
	make -s -C "$dir" -j"$jobs" "$@"
}
