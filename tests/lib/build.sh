# SPDX-License-Identifier: MIT
#
# Ways to build, each in a folder below build/ that is named after it. Part of ./dev.
#
# configure is made and run again only where what it depends on has changed, among that the lists of sources
# (list-sources); make finds out the rest.
# shellcheck shell=bash

# pkg_config_of ROOT: the variables of configure with which it looks for libraries in the folder of an arm64 system.
pkg_config_of()
{
	echo "PKG_CONFIG=$(command -v pkg-config) PKG_CONFIG_SYSROOT_DIR=$1" \
		"PKG_CONFIG_LIBDIR=$1/usr/lib/aarch64-linux-gnu/pkgconfig:$1/usr/share/pkgconfig"
}

# The options that configure takes for each way to build. The one of `make distcheck` is without optional parts.
configure_options()
{
	case $1 in
	default) echo "--enable-werror --prefix=$build/default/root" ;;
	asan) echo "--enable-werror --enable-sanitizers" ;;
	clang) echo "--enable-werror CC=clang --without-libpfm --prefix=/usr --sysconfdir=/etc" ;;
	fuzz) echo "--enable-fuzzers CC=clang" ;;
	coverage) echo "--enable-coverage" ;;
	arm64) echo "--enable-werror --host=aarch64-linux-gnu $(pkg_config_of "$build/guest/arm64")" ;;
	esac
}

# CFLAGS for each way to build: apart from configure_options(), since they have spaces in them.
configure_cflags()
{
	case $1 in
	asan | fuzz) echo "-g -O1" ;;
	coverage) echo "-g -O0" ;;
	arm64) echo "-g -O2 --sysroot=$build/guest/arm64" ;;
	*) echo "-g -O2" ;;
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
	local name=$1 dir=$build/$1 options stamp

	shift
	bootstrap
	options=$(configure_options "$name")
	# Configured again with other options, and when cmocka, which may have been missing, is there.
	stamp="$options, cmocka $(pkg-config --modversion cmocka 2>/dev/null || true)"
	if [ ! -e "$dir/Makefile" ] || [ "$top/configure" -nt "$dir/config.status" ] ||
		[ "$(cat "$dir/configured" 2>/dev/null)" != "$stamp" ]; then
		mkdir -p "$dir"
		# shellcheck disable=SC2086 # they are several words
		(cd "$dir" && "$top/configure" -q $options CFLAGS="$(configure_cflags "$name")")
		echo "$stamp" >"$dir/configured"
	fi
	make -s -C "$dir" -j"$jobs" "$@"
}
