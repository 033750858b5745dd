# SPDX-License-Identifier: MIT
"""What `make dist` packs: all that git has, and nothing else; and that it can be built and its tests be started.

The tree that the tarball is made of is the one that this file is in.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import PurePath

import pytest

import harness
from machine import needs
from tree import TOP, build, check

# Of git's files: what is about git.
LEFT_OUT = {".gitignore"}

# What autoreconf makes of them, the manual pages, and the commit.
MADE = re.compile(r"aclocal\.m4|configure|Makefile\.in|sources\.am|build-aux/[\w.-]+|doc/man/[\w.-]+\.[578]|revision")


@pytest.fixture(scope="session")
def tarball():
    """Of a tree of its own: several tests may make one."""
    folder = build("default", "dist")
    return next(folder.glob("perfmond-*.tar.xz"))


@pytest.fixture(scope="session")
def packed(tarball):
    """The files in the tarball, as paths below its one folder."""
    with tarfile.open(tarball) as tar:
        names = [PurePath(member.name) for member in tar if not member.isdir()]
    assert len({name.parts[0] for name in names}) == 1
    return {str(PurePath(*name.parts[1:])) for name in names}


@pytest.fixture(scope="session")
def tracked():
    """What git has. A file is git's once it has been added."""
    if not (TOP / ".git").exists() or not shutil.which("git"):
        pytest.skip(f"nobody says what git has: {TOP} has no .git, or there is no git")
    done = subprocess.run(["git", "-C", TOP, "ls-files", "-z"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"git does not say what it has: {done.stderr.strip()}")
    return set(done.stdout.split("\0")) - {""}


def test_all_that_git_has_is_in_the_tarball(packed, tracked):
    missing = sorted(tracked - packed - LEFT_OUT)
    assert not missing, f"name them in Makefile.am (EXTRA_DIST, or the sources of a program): {' '.join(missing)}"


def test_nothing_else_is_in_the_tarball(packed, tracked):
    more = sorted(name for name in packed - tracked if not MADE.fullmatch(name))
    assert not more, f"git does not have them: {' '.join(more)}"


def test_the_tarball_names_its_commit(tarball, tracked):
    assert tracked
    head = subprocess.run(["git", "-C", TOP, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    with tarfile.open(tarball) as tar:
        (name,) = (member for member in tar.getnames() if PurePath(member).parts[1:] == ("revision",))
        revision = tar.extractfile(name).read().decode()
    assert revision.removesuffix("\n").removesuffix("-dirty") == head.strip()


# --- the suites, in the unpacked tarball

@pytest.fixture(scope="session")
def unpacked(tarball, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(tarball) as tar:
        tar.extractall(folder)
    return next(folder.iterdir())


def run_pytest(unpacked, *args):
    """With the daemon that is built already."""
    env = {**os.environ, "PERFMOND": harness.PERFMOND, "WORK": harness.WORK}
    return check(sys.executable, "-m", "pytest", f"--rootdir={unpacked}/tests", "-c", unpacked / "tests/pytest.ini",
                 *args, cwd=unpacked, env=env)


def test_configure_of_the_tarball_succeeds(unpacked, tmp_path):
    check(unpacked / "configure", "-q", "--enable-werror", cwd=tmp_path)
    assert (tmp_path / "Makefile").exists()


def test_all_tests_of_the_tarball_are_found(unpacked):
    """All of them, and what they import."""
    said = run_pytest(unpacked, "--collect-only", unpacked / "tests")
    suites = {path.parent.name for path in TOP.glob("tests/*/test_*.py")}
    found = set(re.findall(r"^(?:tests/)?(\w+)/test_\w+\.py", said, re.M))
    assert found == suites, f"no tests of {suites - found}"


@pytest.mark.deep
def test_distcheck_passes():
    """All is built from the tarball without optional parts, installed, and uninstalled without a rest. Of the unit
    tests, those run that read files of the source folder, which is another one here."""
    tests = "tests/unit/config/test-config tests/unit/event/test-encoding tests/unit/http/test-web"
    check("make", "-s", "-C", build("default", "perfmond"), f"-j{os.cpu_count()}", "distcheck", f"TESTS={tests}",
          f"check_PROGRAMS=tests/system/work {tests}")


@pytest.mark.deep
@needs("root")
def test_the_tests_of_the_tarball_run(unpacked):
    """The whole way of who unpacks it: configured and built by ./dev; with the daemon, the sources and the documents
    beside them."""
    said = check("./dev", "test", "service", "system/test_documents.py", cwd=unpacked)
    assert re.fullmatch(r"[1-9]\d* passed, 0 failed, \d+ skipped", said.splitlines()[-1]), said
