# SPDX-License-Identifier: MIT
"""Many tracepoints at once. The kernel takes tens of milliseconds to close the last event of each: nobody waits for it,
neither when they are tried nor when they are dropped."""

import ctypes
import os
import struct
import time

import pytest

from counter import ATTR_SIZE, CLOEXEC, PERF_EVENT_OPEN
from harness import until

PERF_TYPE_TRACEPOINT = 2
NR = 100
# What others may be counting beside these tests, and what has no event for perf.
LEFT_OUT = ("ftrace", "sched", "syscalls", "raw_syscalls", "exceptions", "block")


@pytest.fixture(scope="module")
def tracepoints(tracefs):
    """(name, id) of many."""
    found = []
    for folder in sorted((tracefs / "events").iterdir()):
        if folder.is_dir() and folder.name not in LEFT_OUT:
            found += [(f"{folder.name}:{event.parent.name}", int(event.read_text()))
                      for event in sorted(folder.glob("*/id"))]
    if len(found) < 2 * NR + 5:
        pytest.skip(f"this kernel has {len(found)} tracepoints only, beside those that others may count")
    return found


@pytest.fixture(scope="module")
def close_seconds(tracepoints):
    """How long it takes here to close a tracepoint's last event."""
    took = []
    for _, number in tracepoints[-5:]:
        attr = struct.pack("=IIQ", PERF_TYPE_TRACEPOINT, ATTR_SIZE, number).ljust(ATTR_SIZE, b"\0")
        fd = ctypes.CDLL(None, use_errno=True).syscall(PERF_EVENT_OPEN, attr, -1, 0, -1, CLOEXEC)
        assert fd >= 0, os.strerror(ctypes.get_errno())
        start = time.monotonic()
        os.close(fd)
        took.append(time.monotonic() - start)
    least = min(took)
    if least < 0.005:
        pytest.skip(f"this kernel closes a tracepoint in {least * 1000:.1f} ms: there is nothing to wait for")
    return least


def config(top, cpu, cgroup=()):
    """Counts these tracepoints, by name, and page faults."""
    def group(name, tracepoints):
        events = ",\n  ".join(name for name, _ in tracepoints) or "page-faults"
        return f'[group "{name}"]\nalone = yes\nevents = {events}\n'

    return ("[web]\nlisten = 127.0.0.1:0\n[profiles]\nenabled = no\n"
            f"[cpu]\ngroups = faults {'traced' if cpu else ''}\n"
            f"[cgroup]\ngroups = {'tasks' if cgroup else ''}\ninclude = {top.label}/**\n"
            '[group "faults"]\nevents = page-faults\n' + group("traced", cpu) + group("tasks", cgroup))


def perf_fds(daemon):
    folder = f"/proc/{daemon.pid}/fd"
    nr = 0
    for name in os.listdir(folder):
        try:
            nr += os.readlink(f"{folder}/{name}") == "anon_inode:[perf_event]"
        except FileNotFoundError:
            pass  # it was closed meanwhile
    return nr


def all_closed(daemon):
    """What was opened to try it is closed by now, and so is what was dropped."""
    metrics = daemon.fresh()
    return perf_fds(daemon) == metrics.value("perfmond_open_events")


def longest_turn(daemon):
    return daemon.fresh().value("perfmond_loop_lag_seconds")


def assert_counted(daemon, tracepoints, scope):
    states = {event["text"]: event["state"] for event in daemon.json("/api/v1/events")["events"]
              if event["scope"] == scope}
    assert {states[name] for name, _ in tracepoints} == {"ok"}


@pytest.mark.deep
@pytest.mark.alone
def test_a_reload_does_not_wait_for_tracepoints_to_close(perfmond, cgroups, tracepoints, close_seconds):
    """Both of CPUs and of cgroups; and one that drops them, and adds them while they are still being closed."""
    cgroups.make("traced")
    cpu, cgroup = tracepoints[:NR], tracepoints[NR:2 * NR]
    daemon = perfmond(config(cgroups, ()))
    daemon.wait_ready()

    slow = NR * close_seconds  # of either scope
    for events in ((cpu, cgroup), ((), ()), (cpu, cgroup), (cpu[:1], cgroup[:1])):
        start = time.monotonic()
        daemon.reload(config(cgroups, *events))
        took = time.monotonic() - start
        counted = daemon.metrics().value("perfmond_open_events")
        # Who has waited has none left to close.
        assert took < slow or perf_fds(daemon) > counted, \
            f"a reload took {took:.2f} s; to close what it tried would be {slow:.2f} s"
        if events[0]:
            until(lambda: daemon.fresh().all("perf_cgroup_group_enabled_seconds_total") or
                  daemon.fresh().value("perfmond_cgroups", state="counted") == 1, "the cgroup is counted")
            assert_counted(daemon, events[0], "cpu")
            assert_counted(daemon, events[1], "cgroup")
    turn = longest_turn(daemon)
    print(f"longest turn of the loop {turn * 1000:.0f} ms; one tracepoint is closed in {close_seconds * 1000:.0f} ms")
    assert turn < slow
    until(lambda: all_closed(daemon), "all is closed that is not counted", 60)


@pytest.mark.deep
@pytest.mark.alone
def test_a_start_does_not_wait_for_tracepoints_to_close(perfmond, cgroups, tracepoints, close_seconds):
    start = time.monotonic()
    perfmond(config(cgroups, ()))
    few = time.monotonic() - start
    start = time.monotonic()
    daemon = perfmond(config(cgroups, tracepoints[:NR]))
    daemon.wait_ready()
    took = time.monotonic() - start - few
    assert took < NR * close_seconds, f"{took:.2f} s longer than with none"
    assert_counted(daemon, tracepoints[:NR], "cpu")
    until(lambda: all_closed(daemon), "what was tried is closed", 60)
