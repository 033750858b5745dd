# SPDX-License-Identifier: MIT
"""Names of functions in profiles, of programs whose names are not in their own files, or in none."""

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import harness
import profiling
from harness import PATIENCE, until
from machine import needs
from profiling import ask

FUNCTIONS = {"warm_function_of_test", "cold_function_of_test"}

pytestmark = needs("objcopy", "strip", "nm")


def run(*command):
    subprocess.run([str(part) for part in command], check=True)


def symbols_of(program):
    """The offsets of its functions, by name: the linker has addresses be offsets in code."""
    output = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    return {name: int(address, 16) for address, name in re.findall(r"^(\w+) T (\w+)$", output, re.M)}


@pytest.fixture
def daemon(shared_perfmond, shared_cgroups):
    """Names of others would take time."""
    return profiling.start_daemon(shared_perfmond, rate=499, extra=f"include = {shared_cgroups.label}/**\n")


def rows(daemon, cgroup, module):
    """The innermost functions of a file: {name: reason why it is no name, or None}."""
    found = ask(daemon, "/api/v1/profile/top", cgroup=cgroup.label + "*", **{"from": "-1h"})["rows"]
    return {row["name"]: row["missing"] for row in found if Path(row["module"] or "").name == module and row["self"]}


def wait_for(daemon, cgroup, module, names):
    """Until the file's functions have these names, or are shown so."""
    def named():
        found = rows(daemon, cgroup, module)
        return found if names <= set(found) else None
    return until(named, f"{module} has the functions {names}", 4 * PATIENCE)


def test_places_in_stripped_code_are_put_together_by_function(daemon, own_cgroup, burner, tmp_path):
    """Without any names, as offsets in the file, with the reason."""
    group = own_cgroup.make("stripped")
    burner("burn-twin", group, hot=2).kill()
    run("strip", "-o", tmp_path / "burn-stripped", tmp_path / "burn-twin")
    burner("burn-stripped", group)
    offsets = symbols_of(tmp_path / "burn-twin")
    names = {f"burn-stripped+{offsets[name]:#x}" for name in FUNCTIONS}
    found = wait_for(daemon, group, "burn-stripped", names)
    assert {found[name] for name in names} == {"the file is stripped, and has no debug symbols here"}
    # What is left is where places have not been looked up yet, and code around the two.
    until(lambda: len(rows(daemon, group, "burn-stripped")) < 8, "few functions", 4 * PATIENCE)


@needs("xz", "readelf")
def test_names_come_from_debuglink_and_debugdata(daemon, own_cgroup, burner, tmp_path):
    """By the name of a file in .gnu_debuglink, and compressed in .gnu_debugdata."""
    groups = {name: own_cgroup.make(name) for name in ("linked", "compressed")}
    burner("burn-twin", groups["linked"], hot=2).kill()
    (tmp_path / ".debug").mkdir()
    for command in (("objcopy", "--only-keep-debug", "burn-twin", ".debug/burn.debug"),
                    ("strip", "-o", "stripped", "burn-twin"),
                    ("objcopy", "--add-gnu-debuglink=.debug/burn.debug", "stripped", "burn-linked"),
                    ("xz", "--keep", ".debug/burn.debug"),
                    ("objcopy", "--add-section", ".gnu_debugdata=.debug/burn.debug.xz", "stripped",
                     "burn-compressed")):
        subprocess.run(command, check=True, cwd=tmp_path)
    for name, group in groups.items():
        burner(f"burn-{name}", group)
    wait_for(daemon, groups["linked"], "burn-linked", FUNCTIONS)

    needed = subprocess.run(["readelf", "--dynamic", harness.PERFMOND], check=True, capture_output=True,
                            text=True).stdout
    if "liblzma" in needed:
        wait_for(daemon, groups["compressed"], "burn-compressed", FUNCTIONS)
    else:
        until(lambda: "the file's compressed symbols can't be read" in
              rows(daemon, groups["compressed"], "burn-compressed").values(), "the reason", 4 * PATIENCE)


CLOCK = """
#include <time.h>
int main(void)
{
	struct timespec now;
	for (;;)
		clock_gettime(CLOCK_MONOTONIC, &now);
}
"""


def test_functions_of_the_vdso_have_names(daemon, own_cgroup, tmp_path):
    """Functions of the code that the kernel maps into each process."""
    group = own_cgroup.make("vdso")
    (tmp_path / "clock.c").write_text(CLOCK, encoding="utf-8")
    run("cc", "-O1", "-o", tmp_path / "clock", tmp_path / "clock.c")
    process = subprocess.Popen([tmp_path / "clock"], preexec_fn=lambda: group.add(os.getpid()))
    try:
        until(lambda: any("clock_gettime" in name and not missing
                          for name, missing in rows(daemon, group, "[vdso]").items()),
              "clock_gettime() of the vDSO has its name", 4 * PATIENCE)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def burn_inside(group, burner, tmp_path):
    """Runs a file that only the process itself sees, in the place of another one."""
    burner("burn", group, hot=2).kill()
    inside = tmp_path / "inside"
    inside.mkdir()
    shutil.copy("/bin/true", inside / "burn-inside")
    script = f"mount -t tmpfs tmpfs {inside} && cp {tmp_path}/burn {inside}/burn-inside && exec {inside}/burn-inside"
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", script], preexec_fn=lambda: group.add(os.getpid()))
    try:
        yield
    finally:
        process.kill()
        process.wait()


@needs("mount-namespace")
def test_names_in_another_mount_namespace(daemon, own_cgroup, burner, tmp_path):
    group = own_cgroup.make("inside")
    with burn_inside(group, burner, tmp_path):
        wait_for(daemon, group, "burn-inside", FUNCTIONS)


@contextlib.contextmanager
def burn_from(file, group):
    """Runs the program in an open file."""
    process = subprocess.Popen([f"/proc/self/fd/{file}"], pass_fds=[file], preexec_fn=lambda: group.add(os.getpid()))
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("what", ["deleted", "replaced", "memfd"])
def test_a_program_without_a_path_is_named_through_its_process(daemon, own_cgroup, burner, tmp_path, what):
    """Never by the file that has its path now."""
    group = own_cgroup.make(what)
    burner("burn-twin", group, hot=2).kill()
    program = tmp_path / f"burn-{what}"
    if what == "memfd":
        file, shown = os.memfd_create(program.name), f"memfd:{program.name} (deleted)"
        os.write(file, (tmp_path / "burn-twin").read_bytes())
    else:
        shutil.copy(tmp_path / "burn-twin", program)
        file, shown = os.open(program, os.O_RDONLY), f"{program.name} (deleted)"
        program.unlink()
    if what == "replaced":
        shutil.copy("/bin/true", program)
    try:
        with burn_from(file, group):
            wait_for(daemon, group, shown, FUNCTIONS)
    finally:
        os.close(file)


@needs("g++")
def test_names_of_cxx_are_as_they_are_written(daemon, own_cgroup, tmp_path):
    """And pprof has the symbols too."""
    group = own_cgroup.make("mangled")
    (tmp_path / "burn.cc").write_text("""
        #include <vector>
        namespace works {
        volatile unsigned sum;
        template <typename T> struct Mill {
            __attribute__((noinline)) void turn(const std::vector<T> &of) { for (T x : of) sum = sum + x; }
        };
        }
        int main() { std::vector<int> of(1000000, 1); works::Mill<int> mill; for (;;) mill.turn(of); }
        """)
    run("g++", "-O1", "-o", tmp_path / "burn-mangled", tmp_path / "burn.cc")
    program = subprocess.Popen(["sh", "-c", f"echo $$ >{group.path}/cgroup.procs; exec {tmp_path}/burn-mangled"])
    try:
        name = "works::Mill<int>::turn(std::vector<int, std::allocator<int> > const&)"
        assert wait_for(daemon, group, "burn-mangled", {name, "main"})[name] is None
        answer = daemon.get("/api/v1/profile", params={"format": "pprof", "cgroup": f"{group.label}*", "from": "-1h"})
        functions = profiling.Pprof(answer).symbols
        assert functions[name] == "_ZN5works4MillIiE4turnERKSt6vectorIiSaIiEE"
        assert functions["main"] == "main"
    finally:
        program.kill()
        program.wait()
