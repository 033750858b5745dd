# SPDX-License-Identifier: MIT
"""Packages of the tree, as distributions make them: of the tarball, and without a network."""

import os
import shutil
import subprocess
from pathlib import Path

from tree import BUILD, TOP, build, check

PACKAGE = BUILD / "package"
SPEC = TOP / "packaging/rpm/perfmond.spec"

# What Debian's rpmbuild lacks: the macros of systemd, packages of debug symbols, and a bash for a script of its own,
# which is not for dash. The packages to build with have other names there (--nodeps).
RPM_ON_DEBIAN = ["--nodeps",
                 "--define", "_unitdir /usr/lib/systemd/system",
                 "--define", "systemd_requires %{nil}",
                 "--define", "systemd_post() systemctl --no-reload preset %{*} || :",
                 "--define", "systemd_preun() [ $1 -gt 0 ] || systemctl --no-reload disable --now %{*} || :",
                 "--define", "systemd_postun_with_restart() [ $1 -eq 0 ] || systemctl try-restart %{*} || :",
                 "--define", "__os_install_post bash /usr/lib/rpm/brp-compress; strip %{buildroot}%{_sbindir}/perfmond"]


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def make_tarball():
    made = next(build("default", "dist").glob("perfmond-*.tar.xz"))
    return shutil.copy(made, fresh(BUILD / "tarball"))


def debian_package(tarball, folder, **environment):
    """The source package and the binary packages, in that folder. The unit tests are not run again."""
    name = Path(tarball).name.removesuffix(".tar.xz")
    shutil.copy(tarball, fresh(folder) / f"{name.replace('-', '_')}.orig.tar.xz")
    subprocess.run(["tar", "-C", folder, "-xf", tarball], check=True)
    shutil.copytree(folder / name / "packaging/debian", folder / name / "debian")
    options = f"nocheck parallel={os.cpu_count()}"
    check("dpkg-buildpackage", "--no-sign", cwd=folder / name,
          env={**os.environ, "DEB_BUILD_OPTIONS": options, **environment})


def rpm_package(tarball, folder):
    """The source package and the binary packages, below that folder."""
    (fresh(folder) / "SOURCES").mkdir()
    shutil.copy(tarball, folder / "SOURCES")
    options = RPM_ON_DEBIAN if Path("/etc/debian_version").exists() else []
    check("rpmbuild", "-ba", "--define", f"_topdir {folder}", *options, SPEC)
