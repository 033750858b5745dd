# SPDX-License-Identifier: MIT
#
# Packages of the tree, as distributions make them: of the tarball, and without a network. Part of ./dev.
#
# `./dev package` leaves Debian's in build/package; the suite `package` tests them.
# shellcheck shell=bash

# make_tarball FOLDER: of the tree.
make_tarball()
{
	build_tree default
	make -s -C "$build/default" dist
	rm -rf "$1"
	mkdir -p "$1"
	mv "$build"/default/perfmond-*.tar.xz "$1"
}

# debian_package TARBALL FOLDER: the source package and the binary packages, in that folder.
debian_package()
{
	local tarball=$1 folder=$2 name

	name=$(basename "$tarball" .tar.xz)
	rm -rf "$folder"
	mkdir -p "$folder"
	cp "$tarball" "$folder/${name/-/_}.orig.tar.xz"
	tar -C "$folder" -xf "$tarball"
	cp -a "$folder/$name/packaging/debian" "$folder/$name/debian"
	(cd "$folder/$name" && dpkg-buildpackage --no-sign)
}

# What Debian's rpmbuild lacks: the macros of systemd, packages of debug symbols, and a bash for a script of its own,
# which is not for dash. The packages to build with have other names there (--nodeps).
rpm_on_debian=(--nodeps
	--define "_unitdir /usr/lib/systemd/system"
	--define "systemd_requires %{nil}"
	--define 'systemd_post() systemctl --no-reload preset %{*} || :'
	--define 'systemd_preun() [ $1 -gt 0 ] || systemctl --no-reload disable --now %{*} || :'
	--define 'systemd_postun_with_restart() [ $1 -eq 0 ] || systemctl try-restart %{*} || :'
	--define "__os_install_post bash /usr/lib/rpm/brp-compress; strip %{buildroot}%{_sbindir}/perfmond")

# rpm_package TARBALL FOLDER: the source package and the binary packages, below that folder.
rpm_package()
{
	local options=()

	[ ! -e /etc/debian_version ] || options=("${rpm_on_debian[@]}")
	rm -rf "$2"
	mkdir -p "$2/SOURCES"
	cp "$1" "$2/SOURCES"
	rpmbuild -ba --define "_topdir $2" "${options[@]}" "$top/packaging/rpm/perfmond.spec"
}

# rpmlint_all FOLDER: of rpm_package().
rpmlint_all()
{
	rpmlint --strict --config "$top/packaging/rpm/rpmlint.toml" "$top/packaging/rpm/perfmond.spec" \
		"$1"/SRPMS/*.src.rpm "$1"/RPMS/*/*.rpm
}
