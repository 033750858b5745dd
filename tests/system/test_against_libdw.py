# SPDX-License-Identifier: MIT
"""Callers of samples are those that libdw finds by the same registers and copies of stacks (against-libdw.c)."""

import json
import subprocess

import pytest

from machine import needs
from test_whole_stacks import DEEP, PROGRAMS, build
from tree import build as build_tree

pytestmark = [pytest.mark.once, needs("perf-cpus", "gcc")]

SAMPLES = 400

# Those of the gate are known to have no code without call-frame information but the way back from a handler.
GATE = ("gcc", "gcc-pointers", "g++")


def parameters():
    for name, (_, command) in (PROGRAMS | DEEP).items():
        # Goroutines change stacks in ways that libdw does not know; stripped programs in Go have no rules for it.
        if command[0] != "go":
            marks = [needs(command[0]), *([] if name in GATE else [pytest.mark.deep])]
            yield pytest.param(command, id=name, marks=marks)


def compare(program, *options):
    tool = build_tree("default", "tests/system/against-libdw") / "tests/system/against-libdw"
    done = subprocess.run([tool, *options, str(SAMPLES), program, "1000"], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("command", parameters())
def test_same_callers(tmp_path, command):
    """99 % of the stacks are equal; most of them to their end, others to code that libdw has no rules for."""
    told, differences = compare(build(tmp_path, command))
    print(told, differences)
    assert told["compared"] == SAMPLES
    assert told["equal"] + told["equal_to_code_without_rules"] >= 0.99 * SAMPLES, f"{told}\n{differences}"
    assert told["equal"] >= 0.8 * SAMPLES
    # They are no stacks of one frame, and lead to the end of the copy or of the stack.
    assert told["frames"] > 5 * SAMPLES
    assert told["whole"] + told["cut"] >= 0.98 * SAMPLES
