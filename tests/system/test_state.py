# SPDX-License-Identifier: MIT
"""The state directory (STATE_DIRECTORY), without systemd's fd store: it is one daemon's at a time, and the log tells
what becomes of the totals."""

import fcntl
import os
import signal
import time

import pytest

from fdstore import saved
from harness import run, until

CONFIG = """
[web]
listen = 127.0.0.1:0
[cpu]
groups = work
[cgroup]
groups = work
include = /perfmond-none/**
[group "work"]
events = page-faults
"""
FAULTS = "perf_cpu_page_faults_total"


@pytest.fixture
def env(state):
    return {"STATE_DIRECTORY": str(state)}


def faults(daemon):
    return sum(value for _, value in daemon.fresh().all(FAULTS))


def test_totals_go_on_after_a_stop(perfmond, env):
    """No CPU has been offline, and no log says so."""
    total = 0
    for i in range(2):
        daemon = perfmond(CONFIG, env=env)
        assert "offline" not in daemon.log, daemon.log
        assert i == 0 or "totals go on from" in daemon.log
        assert faults(daemon) >= total
        total = faults(daemon)
        daemon.stop()


def test_a_second_daemon_with_the_same_state_directory_is_refused(perfmond, new_service, env, state):
    first = perfmond(CONFIG, env=env)
    before = faults(first)
    second = new_service(state=state)
    second.fail(CONFIG, f"the state directory {state} is in use by another perfmond")
    assert "listening" not in second.daemon.log
    assert faults(first) >= before
    # With a folder of its own, or none, there is room for both.
    other = state.with_name("other")
    other.mkdir()
    for own in ({"STATE_DIRECTORY": str(other)}, {}):
        daemon = perfmond(CONFIG, env=own)
        daemon.stop()
    first.stop()
    assert saved(state) == ["totals"]


def test_check_and_once_leave_the_state_directory_alone(perfmond, env, tmp_path):
    """They look, and count for themselves; what a daemon has is left alone."""
    perfmond(CONFIG, env=env)
    path = tmp_path / "other.conf"
    path.write_text(CONFIG)
    for args in (["--check"], ["--once", "--duration=100ms"]):
        done = run(f"--config={path}", *args, env={**os.environ, **env})
        assert done.returncode == 0, done.stderr


def hold(state):
    """The lock on the folder, as a daemon has it."""
    folder = os.open(state, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    return folder


def test_a_daemon_waits_for_the_end_of_the_one_before_it(perfmond, new_service, env, state):
    """Its totals go on, also those that it saves while the next one waits for the state directory."""
    first = perfmond(CONFIG, env=env)
    before = faults(first)
    first.stop()

    def starts_beside(daemon):
        """Is it one that has begun to wait, and was given the folder in time? It waits for 5 s; a test that itself
        was kept waiting longer than that has only seen it being refused."""
        until(lambda: daemon.process.poll() is not None or str(state) in daemon.files().values(), "it opens the folder")
        (state / "saved").rename(state / "totals")
        os.close(lock)
        until(lambda: daemon.process.poll() is not None or "listening" in daemon.log, "it starts, or is refused")
        return daemon.process.poll() is None

    for _ in range(10):
        lock = hold(state)
        (state / "totals").rename(state / "saved")
        second = new_service(state=state)
        if starts_beside(second.start(CONFIG, ready=False)):
            break
        assert second.daemon.end() == 1 and "is in use by another perfmond" in second.daemon.log, second.daemon.log
    else:
        pytest.fail("each daemon was refused")
    second.daemon.wait_ready()
    assert "totals go on from" in second.daemon.log
    assert faults(second.daemon) >= before


@pytest.mark.deep
@pytest.mark.alone
def test_a_daemon_waits_for_one_that_is_stopped_for_a_moment(perfmond, env, state):
    """The first one ends within the 5 s for which the second one waits."""
    first = perfmond(CONFIG, env=env)
    before = faults(first)
    os.kill(first.pid, signal.SIGSTOP)
    second = perfmond(CONFIG, env=env, ready=False)
    until(lambda: str(state) in second.files().values(), "it wants the folder")
    time.sleep(0.5)
    assert second.process.poll() is None and not second.url
    first.process.terminate()
    os.kill(first.pid, signal.SIGCONT)
    second.wait_ready()
    assert "totals go on from" in second.log
    assert faults(second) >= before


def test_a_killed_daemon_does_not_hold_the_state_directory(perfmond, new_service, env, state):
    """A file that it has begun to save is removed."""
    first = new_service(state=state)
    first.start(CONFIG)
    first.kill()
    (state / "totals.perfmond-x1Y2z3").write_text("half")
    (state / "totals.backup").write_text("mine")
    perfmond(CONFIG, env=env)
    assert {file.name for file in state.iterdir()} == {"totals.backup", "running"}


def test_the_log_says_that_totals_begin_at_zero(perfmond, new_service, env, state):
    """Where there were some; not at the very first start, and not when they go on."""
    first, third = new_service(state=state), new_service(state=state)
    first.start(CONFIG)
    assert "zero" not in first.daemon.log
    first.kill()
    second = perfmond(CONFIG, env=env)
    assert "totals begin at zero: the perfmond before this one was killed, or crashed, before it could save them in " \
        f"{state}" in second.log
    second.stop()
    assert saved(state) == ["totals"]
    third.start(CONFIG)
    assert "totals go on from" in third.daemon.log and "zero" not in third.daemon.log
    third.kill()
    # As it would be after another boot.
    (state / "running").write_text("c0ffee00-0000-0000-0000-000000000000")
    fourth = perfmond(CONFIG, env=env)
    assert "totals begin at zero: the machine was restarted" in fourth.log


def test_without_the_folder_it_counts_and_says_so(perfmond, tmp_path):
    """It counts, and says what is wrong."""
    daemon = perfmond(CONFIG, env={"STATE_DIRECTORY": str(tmp_path / "none")})
    assert "can't be claimed: No such file or directory" in daemon.log
