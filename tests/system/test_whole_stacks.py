# SPDX-License-Identifier: MIT
"""Stacks are whole: of programs whose ways are known, in several languages, built and linked as programs are."""

import collections
import itertools
import re
import subprocess
import time
from pathlib import Path

import pytest

from harness import until
from machine import needs

# The functions of each way, the outermost first; the last one calls burn_WAY.
C = {
    "plain": ["main", "plain_outer", "plain_inner"],
    "far": ["main", "far_outer", "far_inner"],
    "callback": ["main", "callback_outer", "qsort", "compare"],
    "grown": ["main", "grown_outer"],
    "aligned": ["main", "aligned_outer"],
    "signal": ["main", "signal_outer", "raise", "handler"],
    "restorer": ["main", "restorer_outer", "raise", "restorer_handler"],
    "alternate": ["[cut]", "raise", "alternate_handler"],
    "deep": ["main", "deep_outer"] + ["deep_each"] * 120,
    "deeper": ["[cut]"] + ["deeper_each"] * 40,
    "wide": ["main", "wide_outer"],
    "vast": ["[cut]", "vast_outer"],
    "context": ["context_entry"],
    "thread": ["thread_entry"],
}
CXX = {
    "virtual": ["main", "virtual_outer", "virtual_call"],
    "template": ["main", "template_outer"] + ["template_each"] * 21,
    "lambda": ["main", "lambda_outer", "lambda_less"],
    "function": ["main", "function_outer"],
    "destructor": ["main", "destructor_outer", "destructor_inner", "Guard"],
    "caught": ["main", "destructor_outer"],
    "thread": ["thread_entry"],
    # In the unwinder, while an exception is in flight.
    "thrown": ["main"],
}
RUST = {
    "plain": ["main", "plain_outer", "plain_inner"],
    "object": ["main", "object_outer", "object_call"],
    "closure": ["main", "closure_outer", "merge_sort", "closure_less"],
    "dropped": ["main", "dropped_outer", "dropped_inner", "Guard"],
    "thread": ["thread_entry"],
}
GO = {
    "plain": ["main.main", "main.plain_outer", "main.plain_inner"],
    "object": ["main.main", "main.object_outer", "object_call"],
    "closure": ["main.main", "main.closure_outer", "sort.Slice", "main.closure_outer.func1"],
    "deferred": ["main.main", "main.deferred_outer", "main.deferred_inner", "runtime.gopanic"],
    "goroutine": ["runtime.goexit", "main.goroutine_entry"],
    "deep": ["main.main", "main.deep_outer"] + ["main.deep_each"] * 100,
    # Go's functions and C's are on two stacks.
    "c": ["main.main", "main.c_outer", "c_inner"],
    "back": ["main.main", "main.back_outer", "runtime.cgocallback", "back_from_c"],
}

# Its functions in C have no names.
STRIPPED_GO = {way: functions for way, functions in GO.items() if way != "c"}

GCC = ["gcc", "-O2", "-fomit-frame-pointer", "ways.c", "-pthread"]
GXX = ["g++", "-O2", "-fomit-frame-pointer", "ways.cc", "-pthread"]
CLANG = ["clang", "-O2", "-fomit-frame-pointer", "ways.c", "-pthread"]
CLANGXX = ["clang++", "-O2", "-fomit-frame-pointer", "ways.cc", "-pthread"]
PROGRAMS = {
    "gcc": (C, GCC),
    "gcc-pointers": (C, [*GCC, "-fno-omit-frame-pointer"]),
    "gcc-lto": (C, [*GCC, "-O3", "-flto"]),
    "gcc-static": (C, [*GCC, "-static"]),
    # Code in two segments, far apart.
    "gcc-far": (C, [*GCC, "-Wl,--section-start=.far=0x40200000"]),
    "gcc-mold": (C, [*GCC, "-fuse-ld=mold"]),
    "g++": (CXX, GXX),
    "rust": (RUST, ["rustc", "-O", "ways.rs"]),
    "go": (GO, ["go", "build", "ways.go"]),
}
DEEP = {
    "go-stripped": (STRIPPED_GO, ["go", "build", "-ldflags=-s -w", "ways.go"]),
    "go-stripped-pie": (STRIPPED_GO, ["go", "build", "-ldflags=-s -w", "-buildmode=pie", "ways.go"]),
    "gcc-static-pie": (C, [*GCC, "-static-pie"]),
    "gcc-lld": (C, [*GCC, "-fuse-ld=lld"]),
    "g++-lto": (CXX, [*GXX, "-O3", "-flto"]),
    "g++-pointers": (CXX, [*GXX, "-fno-omit-frame-pointer"]),
    "g++-static": (CXX, [*GXX, "-static"]),
    "clang": (C, CLANG),
    "clang-pointers": (C, [*CLANG, "-fno-omit-frame-pointer"]),
    "clang-lto": (C, [*CLANG, "-O3", "-flto", "-fuse-ld=lld"]),
    "clang++": (CXX, CLANGXX),
    "clang++-lto": (CXX, [*CLANGXX, "-O3", "-flto", "-fuse-ld=lld"]),
}
# Programs, by their options.
LINKERS = {"-fuse-ld=mold": "mold", "-fuse-ld=lld": "ld.lld"}
# Functions of the C library that have other names inside.
LIKE = {"qsort": "sort", "raise": "kill"}

names = (f"ways-{number}" for number in itertools.count())


def parameters():
    for name, (ways, command) in (PROGRAMS | DEEP).items():
        tools = [command[0], *(LINKERS[option] for option in command if option in LINKERS)]
        marks = [needs(*tools), *([pytest.mark.deep] if name in DEEP else [])]
        yield pytest.param(ways, command, id=name, marks=marks)


def is_there(wanted, frame):
    """Other languages than C have it within a longer name."""
    return frame == wanted or ("_" in wanted or wanted[0].isupper() or "." in wanted) and wanted in frame \
        or wanted in LIKE and LIKE[wanted] in frame


def is_whole(functions, frames):
    """Are all functions of the way there, in their order? By frame pointers it may go on where the copy ends, and is
    whole then."""
    if functions[0] == "[cut]" and "main" in frames:
        if functions[1] == "deeper_each":
            return frames.count("deeper_each") == 80 and "deeper_outer" in frames
        frames = ["[cut]" if frame == "main" else frame for frame in frames]
    left = iter(frames)
    return all(any(is_there(wanted, frame) for frame in left) for wanted in functions)


def find_way(ways, frames):
    """Its name, and where it ends."""
    for at, frame in enumerate(frames):
        if found := re.search(r"(?:^|\.|::)burn_([a-z]+)(?:$|\()", frame):
            return found[1], at
    thrown = any(name in frame for name in ("throw_each", "thrown_outer", "_Unwind_") for frame in frames)
    return ("thrown", len(frames)) if thrown and "thrown" in ways else (None, 0)


def read_stacks(text):
    """(frames, samples) of each stack of a folded profile."""
    for line in text.splitlines():
        stack, number = line.rsplit(" ", 1)
        yield [frame if frame.startswith("[") else frame.split(" [")[0].split("+")[0]
               for frame in stack.split(";")], int(number)


def stacks_of(daemon, command, since):
    """Of the program's stacks since then."""
    answer = daemon.get("/api/v1/profile", params={"format": "folded", "from": str(since), "command": command})
    assert answer.status_code == 200, answer.text
    return read_stacks(answer.text)


def run(daemon, group, program, seconds):
    """When it has begun."""
    since = time.time()
    subprocess.run(["sh", "-c", f"echo $$ >{group.path}/cgroup.procs; exec {program} {seconds}"], check=True)
    until(lambda: daemon.metrics().value("perfmond_profile_waiting_bytes") == 0, "no stack waits for a table")
    return since


def count_stacks(stacks, ways):
    """Samples of each way, and of those the whole ones; and one stack that is not."""
    seen, whole, broken = collections.Counter(), collections.Counter(), {}
    for frames, number in stacks:
        way, end = find_way(ways, frames)
        if way is None:
            continue
        seen[way] += number
        if is_whole(ways[way], frames[:end]):
            whole[way] += number
        else:
            broken[way] = frames
    return seen, whole, broken


def count(daemon, ways, command, since):
    return count_stacks(stacks_of(daemon, command, since), ways)


def build(folder, command):
    here = Path(__file__).parent
    program = folder / next(names)
    parts = [str(here / part) if part.startswith("ways.") else part for part in command]
    # Go wants all options before the files.
    parts[2:2] = ["-o", str(program)]
    subprocess.run(parts, check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "GO111MODULE": "off"})
    return program


@pytest.mark.parametrize("ways, command", parameters())
def test_known_ways(perfmond, cgroups, tmp_path, ways, command):
    """99 % of the samples have all callers of their way. Tables are known before. Those of other programs are not made:
    on a busy machine that may take minutes."""
    group = cgroups.make("ways")
    daemon = perfmond(f"[profiles]\nrate = 99\ninclude = {group.label}\n")
    program = build(tmp_path, command)
    until(lambda: count(daemon, ways, program.name, run(daemon, group, program, 0.3))[1], "tables are known")
    since = run(daemon, group, program, 2)
    # On a busy machine that takes longer.
    until(lambda: sum(count(daemon, ways, program.name, since)[0].values()) > 50 or not run(daemon, group, program, 2),
          "there are samples")

    def are_whole():
        seen, whole, broken = found[:] = count(daemon, ways, program.name, since)
        return set(seen) == set(ways) and sum(whole.values()) >= 0.99 * sum(seen.values())

    found = []
    try:
        until(are_whole, "names are known")
    except AssertionError:
        pytest.fail(f"not whole: {found}")
    ends = daemon.json("/api/v1/profile", command=program.name, **{"from": str(since)})["stack_ends"]
    assert ends["lost"] + ends["no_table"] + ends["frame_pointers"] <= 0.02, ends
    assert ends["whole"] > 0.5


@needs("gcc")
def test_a_program_that_was_replaced(perfmond, cgroups, tmp_path):
    """Its stacks are whole by its own table, though its path has another file, whose frames are others."""
    group = cgroups.make("ways")
    daemon = perfmond(f"[profiles]\nrate = 99\ninclude = {group.label}\n")
    program, other = build(tmp_path, GCC), build(tmp_path, [*GCC, "-fno-omit-frame-pointer", "-O0"])
    process = subprocess.Popen(["sh", "-c", f"echo $$ >{group.path}/cgroup.procs; exec 3<{program}; "
                                f"mv {other} {program}; exec /proc/self/fd/3 600"])
    try:
        begun = time.time()
        until(lambda: count(daemon, C, "3", begun)[1], "its table is known")
        since = time.time()

        def are_whole():
            seen, whole, broken = found[:] = count(daemon, C, "3", since)
            return set(seen) == set(C) and sum(whole.values()) >= max(50, 0.99 * sum(seen.values()))

        found = []
        try:
            until(are_whole, "stacks are whole")
        except AssertionError:
            pytest.fail(f"not whole: {found}")
    finally:
        process.kill()
        process.wait()


@needs("gcc")
def test_ends_are_counted(perfmond, cgroups, tmp_path):
    daemon = perfmond("[profiles]\nrate = 99\n")
    run(daemon, cgroups.make("ways"), build(tmp_path, GCC), 1)
    until(lambda: all(daemon.metrics().value("perfmond_profile_stacks_total", end=end) > 0 for end in ("whole", "cut")),
          "both ends are counted")
    assert daemon.metrics().value("perfmond_profile_table_bytes") > 0
    until(lambda: daemon.metrics().value("perfmond_profile_list_bytes") > 0, "functions are listed")
