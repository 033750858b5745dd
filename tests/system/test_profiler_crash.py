# SPDX-License-Identifier: MIT
"""Known processes outlive a crash of the profiler: the daemon is another user, to whom /proc shows none but
its own, as in the shipped unit."""

import os
import signal
from pathlib import Path

import pytest

from harness import PATIENCE, as_user, readable, run, until
from machine import needs
from profiling import ask, folded, start_daemon

HIDDEN = ["unshare", "--mount", "--propagation", "private", "sh", "-e", "-c",
          'mount -t proc -o hidepid=invisible proc /proc; exec "$@"', "sh", *as_user(65534, "+perfmon")]

TABLES = 4, 5

pytestmark = needs("mount-namespace", "setpriv")


def profiler_of(daemon):
    """Its pid, or None: the keeper's child."""
    found = [daemon.process.pid]
    for pid in found:
        try:
            if "--profiler" in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0"):
                return pid
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += map(int, (task / "children").read_text(encoding="ascii").split())
        except OSError:
            pass
    return None


def tables_of(profiler):
    try:
        return b"".join(Path(f"/proc/{profiler}/fd/{fd}").read_bytes() for fd in TABLES)
    except OSError:
        return b""


@pytest.fixture
def start(perfmond, binary_for_all, tmp_path):
    """Starts a daemon, and gives it the list of the processes that run."""
    readable(tmp_path)
    options = binary_for_all(HIDDEN)

    def begin(group):
        env = {**options["env"], "RUNTIME_DIRECTORY": str(tmp_path)}
        daemon = start_daemon(perfmond, rate=499, extra=f"include = {group.label}/**\n", **{**options, "env": env})
        assert run(f"--save-processes={tmp_path}/processes").returncode == 0
        os.chmod(tmp_path / "processes", 0o444)
        return daemon
    return begin


def crash(daemon):
    """The next profiler has begun, without samples."""
    before = until(lambda: profiler_of(daemon), "the profiler")
    os.kill(before, signal.SIGKILL)
    until(lambda: profiler_of(daemon) not in (before, None), "the next profiler")
    until(lambda: daemon.get("/api/v1/profile").status_code == 200, "its answers")


def functions_of(daemon, group, command):
    """The functions of the test in samples with that command."""
    stacks = folded(daemon, cgroup=group.label + "*", **{"from": "-1h"})
    named = [stack.split(";") for stack in stacks if f";{command};" in stack]
    return {name for stack in named for name in stack if name.endswith("_function_of_test")}


def wait_named(daemon, group, command):
    until(lambda: functions_of(daemon, group, command) == {"warm_function_of_test", "cold_function_of_test"},
          f"functions of {command}", 4 * PATIENCE)


def test_a_program_is_named_after_a_crash(start, own_cgroup, burner):
    """That has started between root's list and the crash; over several crashes."""
    group = own_cgroup.make("named")
    daemon = start(own_cgroup)
    burner("burn-between", group)
    wait_named(daemon, group, "burn-between")
    for _ in range(2):
        until(lambda: b"burn-between" in tables_of(profiler_of(daemon)), "it is in a table")
        crash(daemon)
        wait_named(daemon, group, "burn-between")
    commands = {row["name"] for row in ask(daemon, "/api/v1/profile/top", by="command", cgroup=group.label + "*",
                                           **{"from": "-1h"})["rows"]}
    assert commands == {"burn-between"}
