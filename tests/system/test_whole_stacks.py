# SPDX-License-Identifier: MIT
"""Stacks are whole: of a program whose ways are known, built without frame pointers, as nearly all programs are."""

import collections
import subprocess
import time
from pathlib import Path

import pytest

from harness import until
from machine import needs

WAYS = {
    "plain": ["main", "plain_outer", "plain_inner"],
    "callback": ["main", "callback_outer", "qsort", "compare"],
    "grown": ["main", "grown_outer"],
    "aligned": ["main", "aligned_outer"],
    "signal": ["main", "signal_outer", "raise", "handler"],
    "deep": ["main", "deep_outer"] + ["deep_each"] * 120,
    "deeper": ["[cut]"] + ["deeper_each"] * 40,
    "wide": ["main", "wide_outer"],
    "vast": ["[cut]", "vast_outer"],
    "context": ["context_entry"],
    "thread": ["thread_entry"],
}
# Functions of the C library that have other names inside.
LIKE = {"qsort": "sort", "raise": "kill"}


def is_there(wanted, frame):
    return frame == wanted or (wanted in LIKE and LIKE[wanted] in frame)


def is_whole(way, frames):
    """Are all functions of the way there, in their order, and no more? By frame pointers it may go on where the copy
    ends, and is whole then."""
    if way == "deeper" and "main" in frames:
        return frames.count("deeper_each") == 80 and "deeper_outer" in frames
    left = iter(["[cut]" if way == "vast" and frame == "main" else frame for frame in frames])
    return all(any(is_there(wanted, frame) for frame in left) for wanted in WAYS[way])


def stacks_of(daemon, since):
    """(frames, samples) of the program's stacks since then."""
    text = daemon.get("/api/v1/profile", params={"format": "folded", "from": str(since)}).text
    for line in text.splitlines():
        stack, number = line.rsplit(" ", 1)
        yield [frame if frame.startswith("[") else frame.split(" [")[0].split("+")[0]
               for frame in stack.split(";")], int(number)


def build(folder, *flags, compiler="cc"):
    program = folder / "ways"
    subprocess.run([compiler, *flags, "-o", program, Path(__file__).with_name("ways.c"), "-pthread"], check=True)
    return program


def count(daemon, group, program, seconds):
    """Samples of each way, and of those the whole ones; and one stack that is not."""
    since = time.time()
    subprocess.run(["sh", "-c", f"echo $$ >{group.path}/cgroup.procs; exec {program} {seconds}"], check=True)
    until(lambda: daemon.metrics().value("perfmond_profile_waiting_bytes") == 0, "no stack waits for a table")
    seen, whole, broken = collections.Counter(), collections.Counter(), {}
    for frames, number in stacks_of(daemon, since):
        way = next((frame[5:] for frame in frames if frame.startswith("burn_")), None)
        if way is None:
            continue
        seen[way] += number
        if is_whole(way, frames[:frames.index(f"burn_{way}")]):
            whole[way] += number
        else:
            broken[way] = frames
    return seen, whole, broken


@needs("cc")
@pytest.mark.parametrize("flags", [["-O2", "-fomit-frame-pointer"], ["-O2", "-fno-omit-frame-pointer"],
                                   ["-O3", "-flto"], ["-O2", "-static"]], ids=" ".join)
def test_known_ways(perfmond, cgroups, tmp_path, flags):
    """99 % of the samples have all callers of their way. Names and tables are known before. Those of other programs are
    not made: on a busy machine it may take minutes."""
    group = cgroups.make("ways")
    daemon = perfmond(f"[profiles]\nrate = 99\ninclude = {group.label}\n")
    program = build(tmp_path, *flags)
    until(lambda: count(daemon, group, program, 0.5)[1]["callback"], "names and tables are known")
    seen, whole, broken = count(daemon, group, program, 3)
    assert sum(seen.values()) > 100
    assert sum(whole.values()) >= 0.99 * sum(seen.values()), (seen, whole, broken)
    metrics = daemon.metrics()
    assert metrics.value("perfmond_profile_stacks_total", end="whole") > 0
    assert metrics.value("perfmond_profile_stacks_total", end="cut") > 0
    assert metrics.value("perfmond_profile_table_bytes") > 0
