# SPDX-License-Identifier: MIT
"""A bare Debian with a systemd of its own, in a container without a network, for the packages that were built.

DEBIAN is its root folder, over which the container has a layer in memory: nothing is changed in it. PACKAGE is the
folder with the packages, which the container sees as /packages.
"""

import pytest

from booted import booted
from packages import PACKAGE, debian_package, make_tarball
from tree import BUILD, provide

DEBIAN = BUILD / "debian"


@pytest.fixture(scope="session")
def tarball():
    return make_tarball()


@pytest.fixture(scope="session")
def built(tarball):
    """The Debian package, in build/package."""
    provide("packaging")
    debian_package(tarball, PACKAGE)


@pytest.fixture(scope="session")
def machine(built, tmp_path_factory):
    provide("debian")
    provide("nspawn")
    folder = tmp_path_factory.mktemp("package")
    with booted(DEBIAN, folder / "log", "--volatile=overlay", f"--bind-ro={PACKAGE}:/packages",
                "--hostname=perfmond-package") as machine:
        yield machine
