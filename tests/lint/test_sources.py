# SPDX-License-Identifier: MIT
"""The sources are clean: clang's warnings, clang-tidy, clang-format, shellcheck, and the project's own rules."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from machine import needs
from tree import BUILD, TOP, build, changed_files, check

# Of clang-format, another version formats otherwise.
CLANG_FORMAT = "14"

# The most steps that clang's analyzer takes in a function. With its default (225000) clang-tidy takes five times as
# long, to follow more paths through the functions that have many.
ANALYZER_STEPS = 20000

SCRIPTS = ["dev", ".ci/run", "tests/guest/fetch", "tests/package/fetch", "tests/guest/init",
           "tests/lib/link-options", "tests/lib/list-sources", "conf/completion/perfmond",
           "packaging/debian/perfmond.postrm", "packaging/debian/perfmond.prerm", "packaging/debian/tests/service",
           "packaging/debian/tests/upgrade"]


def is_made(path):
    return path.name.endswith(("-data.c", ".skel.h"))


def sources(*patterns):
    return sorted(path for pattern in patterns for path in TOP.glob(pattern) if not is_made(path))


def has_skeleton():
    """The BPF engine includes a skeleton, which is made where there is all that it takes."""
    build("default", "skeletons")
    return (BUILD / "default/daemon/counting/engine/bpf/credit.skel.h").exists()


def compiler_options():
    return ["-std=gnu17", "-D_GNU_SOURCE", '-DPACKAGE_VERSION=""', '-DSYSCONFDIR=""', '-DBUILD_REVISION=""',
            '-DBUILD_FEATURES=""', f"-I{TOP}/daemon", f"-I{BUILD}/default/daemon",
            *subprocess.check_output(["pkg-config", "--cflags-only-I", "mount"], text=True).split()]


def tidy(paths):
    """A line for each finding; on standard error clang-tidy only counts what it left out. BPF programs are for another
    compiler."""
    if not has_skeleton():
        paths = [path for path in paths if path.parent.name != "bpf"]
    options = [*compiler_options(), "-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={ANALYZER_STEPS}"]

    def one(path):
        return subprocess.run(["clang-tidy", "--quiet", path, "--", *options], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [done.stdout for done in pool.map(one, paths) if done.returncode]
    assert not failed, "\n".join(failed)


@needs("clang-tidy", "git")
def test_clang_tidy_finds_nothing_in_what_changed():
    if not (TOP / ".git").exists():
        pytest.skip("needs a clone: nothing says what changed")
    tidy([TOP / name for name in changed_files() if re.fullmatch(r"daemon/.*(?<!\.bpf)\.c", name)])


@pytest.mark.deep
@needs("clang-tidy")
def test_clang_tidy_finds_nothing():
    tidy([path for path in sources("daemon/**/*.c") if not path.name.endswith(".bpf.c")])


@needs("clang-format")
def test_the_format_is_that_of_clang_format():
    version = re.search(r"version (\d+)", subprocess.check_output(["clang-format", "--version"], text=True))[1]
    if version != CLANG_FORMAT:
        pytest.skip(f"the tree is formatted with clang-format {CLANG_FORMAT}, and this one is {version}")
    check("clang-format", "--dry-run", "-Werror", *sources("daemon/**/*.[ch]", "tests/**/*.[ch]"))


@needs("shellcheck")
def test_shellcheck_finds_nothing():
    """Through dev it sees all parts of ./dev (.shellcheckrc)."""
    check("shellcheck", *SCRIPTS, cwd=TOP)


def test_no_rule_is_broken():
    check(TOP / "tests/lib/list-sources")
    print(check(sys.executable, TOP / "tests/lib/rules.py", TOP))


def test_rooms_keep_to_their_boundaries():
    pytest.importorskip("clang.cindex", reason="no module clang of Python")
    if not has_skeleton():
        pytest.skip("needs the skeleton of the BPF engine")
    print(check(sys.executable, TOP / "tests/lib/boundaries.py", TOP, *compiler_options()))


@pytest.mark.deep
def test_clang_builds_all_without_a_warning():
    """And without libpfm; the unit tests pass when another compiler has optimized them."""
    where = build("clang", "all", "test-programs")
    check(where / "tests/unit/event/test-pfm-none")
    check("make", "-s", "-C", where, f"-j{os.cpu_count()}", "check-TESTS")
