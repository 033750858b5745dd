# SPDX-License-Identifier: MIT
"""The packages of Debian and RPM are built, clean, and the same each time."""

import hashlib
import os

import pytest

from packages import PACKAGE, SPEC, debian_package, rpm_package
from tree import BUILD, TOP, check, provide

pytestmark = [pytest.mark.deep, pytest.mark.usefixtures("built")]


def sums(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.deb")}


def test_the_debian_package_is_clean_for_lintian():
    check("lintian", "--fail-on", "error,warning", "--info", "--allow-root", *PACKAGE.glob("*.changes"))


def test_the_debian_package_is_the_same_built_elsewhere(tarball):
    """In another folder and time zone, and with another locale and umask."""
    before = os.umask(0o027)
    try:
        debian_package(tarball, BUILD / "package-again/elsewhere", TZ="Asia/Kolkata", LC_ALL="C.UTF-8")
    finally:
        os.umask(before)
    assert sums(PACKAGE) and sums(PACKAGE) == sums(BUILD / "package-again/elsewhere")


def test_the_rpm_is_clean_for_rpmlint(tarball):
    provide("packaging")
    folder = BUILD / "rpm"
    rpm_package(tarball, folder)
    check("rpmlint", "--strict", "--config", TOP / "packaging/rpm/rpmlint.toml", SPEC, *folder.glob("SRPMS/*.src.rpm"),
          *folder.glob("RPMS/*/*.rpm"))
