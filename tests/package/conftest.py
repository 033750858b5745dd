# SPDX-License-Identifier: MIT
"""A bare Debian with a systemd of its own, in a container without a network, for the packages that were built.

DEBIAN is its root folder, over which the container has a layer in memory: nothing is changed in it. PACKAGE is the
folder with the packages, which the container sees as /packages.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "nspawn"))
from machine import booted  # noqa: E402 (the service's tests have the same container)

DEBIAN, PACKAGE = Path(os.environ.get("DEBIAN", "/nonexistent")), Path(os.environ.get("PACKAGE", "/nonexistent"))


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    for folder in (DEBIAN, PACKAGE):
        if not folder.is_dir():
            pytest.skip(f"there is no {folder}: ./dev test package makes it")
    folder = tmp_path_factory.mktemp("package")
    with booted(DEBIAN, folder / "log", "--volatile=overlay", f"--bind-ro={PACKAGE}:/packages",
                "--hostname=perfmond-package") as machine:
        yield machine
