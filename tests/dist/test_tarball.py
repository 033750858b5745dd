# SPDX-License-Identifier: MIT
"""What `make dist` has packed: all that git has, and nothing else; and that the test suites start from it.

The environment says what is tested: TARBALL, and PERFMOND and WORK, of which the unpacked tests are given those that
are built already. The tree that the tarball was made of is the one that this file is in.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path, PurePath

import pytest

TOP = Path(__file__).resolve().parents[2]
TARBALL = Path(os.environ["TARBALL"])

# Of git's files: what is about git.
LEFT_OUT = {".gitignore"}

# What autoreconf makes of them, the manual pages, and the commit.
MADE = re.compile(r"aclocal\.m4|configure|Makefile\.in|sources\.am|build-aux/[\w.-]+|doc/man/[\w.-]+\.[578]|revision")

# Modules that are Debian packages, and are installed by the suites that want them.
INSTALLED_LATER = ("selenium",)


def packed():
    """The files in the tarball, as paths below its one folder."""
    with tarfile.open(TARBALL) as tar:
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


def test_all_that_git_has_is_in_it(tracked):
    missing = sorted(tracked - packed() - LEFT_OUT)
    assert not missing, f"name them in Makefile.am (EXTRA_DIST, or the sources of a program): {' '.join(missing)}"


def test_nothing_else_is_in_it(tracked):
    more = sorted(name for name in packed() - tracked if not MADE.fullmatch(name))
    assert not more, f"git does not have them: {' '.join(more)}"


def test_it_names_its_commit(tracked):
    assert tracked
    head = subprocess.run(["git", "-C", TOP, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    with tarfile.open(TARBALL) as tar:
        (name,) = (member for member in tar.getnames() if PurePath(member).parts[1:] == ("revision",))
        revision = tar.extractfile(name).read().decode()
    assert revision.removesuffix("\n").removesuffix("-dirty") == head.strip()


# --- the suites, in the unpacked tarball

@pytest.fixture(scope="session")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(TARBALL) as tar:
        tar.extractall(folder)
    return next(folder.iterdir())


def problems(done):
    """What pytest complains of, each once and in one line, and below it all that it said."""
    said = done.stdout + done.stderr
    lines = re.findall(r"^(?:E +\w*Error: .*|(?:ERROR|FAILED) .*)$", said, re.M)
    return "; ".join(dict.fromkeys(re.sub("^E +", "", line) for line in lines)) + f"\n{said}"


def run_pytest(unpacked, *args):
    """What the suites are given by ./dev; nothing of it is run where tests are only collected."""
    env = {**os.environ, "DEST": "/nonexistent", "GUEST": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           f"--rootdir={unpacked}/tests", *args], cwd=unpacked, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("suite", sorted({path.parent.name for path in TOP.glob("tests/*/test_*.py")}))
def test_a_suite_is_collected(unpacked, suite):
    """All of its tests are found, and what they import."""
    done = run_pytest(unpacked, "--collect-only", unpacked / "tests" / suite)
    if lacks := re.search(r"No module named '(\w+)'", done.stdout + done.stderr):
        if lacks[1] in INSTALLED_LATER:
            pytest.skip(f"needs Python's module {lacks[1]}")
    assert done.returncode == 0, problems(done)
    assert re.search(r"^\d+ tests? collected", done.stdout, re.M), done.stdout


def test_system_tests_run(unpacked):
    """Some that take no time: with the daemon, the sources and the documents beside them."""
    tests = [unpacked / "tests/system" / test for test in
             ("test_config.py::test_a_bad_file_is_named_with_its_line", "test_doc.py::test_modifiers",
              "test_doc.py::test_states", "test_doc.py::test_units_and_states_of_metrics", "test_documents.py")]
    done = run_pytest(unpacked, *tests)
    assert done.returncode == 0 and re.search(r"^\d+ passed in ", done.stdout, re.M), problems(done)


def test_dev_runs_a_suite(unpacked):
    """The whole way: configured, built, installed and verified, with what the tarball has."""
    done = subprocess.run(["./dev", "test", "service"], cwd=unpacked, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert re.fullmatch(r"[1-9]\d* passed, 0 failed, \d+ skipped", done.stdout.splitlines()[-1]), done.stdout
