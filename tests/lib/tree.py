# SPDX-License-Identifier: MIT
"""Where things are, for all suites: the source tree, what is built below build/, and what ./dev fetches.

Tests build and fetch through ./dev, which does nothing twice. What can't be had is a reason to skip.
"""

import functools
import os
import subprocess
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
BUILD = TOP / "build"


def place(variable, default):
    """A path that the environment can name; else it is one below build/."""
    return Path(os.environ.get(variable, BUILD / default))


def dev(*args):
    return subprocess.run([TOP / "dev", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)


@functools.lru_cache
def build(tree, *targets):
    """Builds in build/TREE; returns that folder. A failure fails the test."""
    done = dev("build", tree, *targets)
    if done.returncode:
        pytest.fail(f"./dev build {tree} {' '.join(targets)} failed:\n{done.stdout[-6000:]}", pytrace=False)
    return BUILD / tree


@functools.lru_cache
def why_not_provided(thing):
    done = dev("provide", thing)
    lines = done.stdout.strip().splitlines() or ["no word of it"]
    told = [line for line in lines if line.startswith(("E: ", "dev: "))]
    return (told or lines)[-1] if done.returncode else None


def provide(thing):
    """Packages and files that a suite needs (./dev provide): the test is skipped where they can't be had."""
    if why := why_not_provided(thing):
        pytest.skip(f"needs {thing}: {why}")


def git(*words):
    return subprocess.run(["git", "-C", TOP, *words], capture_output=True, text=True, check=True).stdout.splitlines()


def changed_files():
    """Those that differ from the last commit; in a clean tree, those that the last commit changed."""
    names = git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    names = names or git("diff", "--name-only", "HEAD~1", "HEAD")
    return [name for name in names if (TOP / name).exists()]


def check(*command, **kwargs):
    """A test that is one command: its output is the reason why it failed."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", check=False, **kwargs)
    if done.returncode:
        words = " ".join(map(str, command))
        pytest.fail(f"exit status {done.returncode} of {words[:300]}:\n{done.stdout[-8000:]}", pytrace=False)
    return done.stdout
