# SPDX-License-Identifier: MIT
"""The packages have the version of the source, and are built with all that it is built with."""

import re
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
VERSION = re.search(r"^AC_INIT\(\[perfmond\], \[([^]]+)\]", (TOP / "configure.ac").read_text(encoding="utf-8"), re.M)[1]


@pytest.mark.parametrize("file, pattern", [
    ("packaging/debian/changelog", r"\Aperfmond \(([^)]+)-\d+\) "),
    ("packaging/rpm/perfmond.spec", r"^Version: +(\S+)$"),
    ("packaging/rpm/perfmond.spec", r"%changelog\n\* .* - (\S+)-\d+$"),
])
def test_version(file, pattern):
    assert re.search(pattern, (TOP / file).read_text(encoding="utf-8"), re.M)[1] == VERSION


# Each build of a package has them, or a release needs them no more.
GIVEN = {"autoconf", "automake", "gcc", "libc6-dev", "make", "python3-markdown-it"}


def test_build_depends():
    """./dev knows by which packages the daemon is built."""
    script = f'. {TOP}/tests/lib/packages.sh && echo "${{packages_build[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    control = (TOP / "packaging/debian/control").read_text(encoding="utf-8")
    depends = re.search(r"^Build-Depends: (.*(?:\n .*)*)", control, re.M)[1]
    named = {re.match(r"\s*(\S+)", word)[1] for word in depends.split(",")}
    assert set(done.stdout.split()) - GIVEN == named - {"debhelper-compat", "libcmocka-dev"}
