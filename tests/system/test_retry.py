# SPDX-License-Identifier: MIT
"""What can't be counted because something is short is tried again, and nothing else is touched by that."""

import ctypes
import os
import platform
import struct
import time

import pytest

from harness import run, until

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("debug_registers")]

SYS_perf_event_open = {"x86_64": 298, "aarch64": 241}
PERF_TYPE_BREAKPOINT, HW_BREAKPOINT_W = 5, 2

# An address in no process.
CONFIG = """
[cpu]
groups = watch software lacking
[cgroup]
groups =
[group "watch"]
events = watched=mem:0x7ff000000000/8:w
[group "software"]
events = context-switches
[group "lacking"]
events = nopmu/x/
[profiles]
enabled = no
"""


class Breakpoints:
    """All hardware breakpoints of some CPUs."""

    def __init__(self, cpus):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fds = []
        self.errors = []
        for cpu in cpus:
            while (fd := self.open(cpu, 0x7ff000001000 + 8 * len(self.fds))) >= 0 and len(self.fds) < 1000:
                self.fds.append(fd)
            self.errors.append(ctypes.get_errno())

    def open(self, cpu, address):
        # perf_event_open(2): type, size, config …, bp_type at 52, bp_addr and bp_len after it; 128 bytes in all.
        attr = bytearray(128)
        struct.pack_into("=II", attr, 0, PERF_TYPE_BREAKPOINT, len(attr))
        struct.pack_into("=IQQ", attr, 52, HW_BREAKPOINT_W, address, 8)
        buffer = (ctypes.c_char * len(attr)).from_buffer(attr)
        return self.libc.syscall(SYS_perf_event_open[platform.machine()], buffer, -1, cpu, -1, 0)

    def close(self):
        for fd in self.fds:
            os.close(fd)
        self.fds = []


@pytest.fixture
def take(privileged):
    """Takes all breakpoints of some CPUs."""
    taken = []

    def breakpoints(cpus):
        taken.append(Breakpoints(cpus))
        if not taken[-1].fds:
            pytest.skip(f"this CPU has no hardware breakpoints (errno {taken[-1].errors[0]})")
        return taken[-1]

    yield breakpoints
    for one in taken:
        one.close()


def perf_fds(daemon):
    """The numbers of the open perf events."""
    return {fd for fd, file in daemon.files().items() if "perf_event" in file}


@pytest.mark.deep
def test_counted_when_there_is_room_again(take, perfmond, cpus):
    breakpoints = take(cpus)
    daemon = perfmond(CONFIG)
    fds = perf_fds(daemon)
    assert len(fds) == len(cpus)
    before = daemon.fresh()
    assert before.state("watched") == "failed"
    assert before.all("perf_cpu_watched_total") == []
    reason = next(event for event in daemon.json("/api/v1/events")["events"] if event["event"] == "watched")["reason"]
    assert "breakpoints of CPU 0 are in use (ENOSPC)" in reason
    switches = dict((labels["cpu"], value) for labels, value in before.all("perf_cpu_context_switches_total"))

    breakpoints.close()
    after = until(lambda: (m := daemon.fresh()).state("watched") == "ok" and m, "it is tried again", timeout=40)
    assert [value for _, value in after.all("perf_cpu_watched_total")] == [0] * len(switches)
    for cpu, value in switches.items():
        assert after.value("perf_cpu_context_switches_total", cpu=cpu) >= value
    assert fds < perf_fds(daemon), "what was counted has been left open"
    daemon.wait_log(r" ok: mem:0x")
    # Each event once when it fails, and once when it is counted again: not for each CPU, nor for each try.
    said = [line for line in daemon.lines if "mem:0x" in line]
    assert len(said) == 2 and "failed" in said[0] and " ok: " in said[1], said
    assert len([line for line in daemon.lines if "nopmu/x/" in line]) == 1


def test_one_cpu_is_short(take, perfmond, cpus):
    """What is open on the other CPUs goes on, and the one that lacked room is counted when there is some."""
    if len(cpus) < 2:
        pytest.skip("this machine has one CPU")
    breakpoints = take(cpus[1:2])
    daemon = perfmond(CONFIG)
    before = daemon.fresh()
    fds = perf_fds(daemon)
    assert before.get("perf_cpu_watched_total", cpu=str(cpus[0])) == 0
    assert before.get("perf_cpu_watched_total", cpu=str(cpus[1])) is None
    until(lambda: daemon.fresh().state("watched") == "failed", "an interval has ended")

    breakpoints.close()
    after = until(lambda: (m := daemon.fresh()).state("watched") == "ok" and m, "it is tried again", timeout=40)
    assert after.get("perf_cpu_watched_total", cpu=str(cpus[1])) == 0
    assert len(perf_fds(daemon) - fds) == 1 and fds < perf_fds(daemon)


def watched(daemon):
    """The cgroups' event, as /api/v1/events has it."""
    return next(event for event in daemon.json("/api/v1/events")["events"]
                if (event["scope"], event["event"]) == ("cgroup", "watched"))


def with_watched(daemon):
    """The cgroups that have the series."""
    return {labels["cgroup"] for labels, _ in daemon.fresh().all("perf_cgroup_watched_total")}


@pytest.mark.deep
def test_some_cgroups_are_short(take, perfmond, cgroups, cpus):
    """Each cgroup takes a breakpoint of each CPU: those that find none are told, and what is counted is shown."""
    breakpoints = take(cpus)
    free = len(breakpoints.fds) // len(cpus)
    breakpoints.close()
    made = [cgroups.make(f"c{i}") for i in range(free + 2)]
    text = f"""
[daemon]
interval = 200ms
[cpu]
groups =
[cgroup]
groups = software bp
include = {cgroups.label}/*
[group "software"]
events = context-switches
[group "bp"]
events = watched=mem:0x7ff000000000/8:rw
[profiles]
enabled = no
"""
    daemon = perfmond(text)
    until(lambda: watched(daemon)["state"] == "failed", "an interval has ended")
    event = watched(daemon)
    assert f"2 of {len(made)} cgroups lack it: {cgroups.label}/c" in event["reason"]
    assert "breakpoints of CPU 0 are in use (ENOSPC)" in event["reason"]
    assert len(with_watched(daemon)) == free
    assert daemon.fresh().state("watched", "cgroup") == "failed"
    problems = daemon.json("/api/v1/status")["problems"]
    assert any("1 of 2 events per cgroup are missing in some cgroups" in problem for problem in problems), problems
    assert not any("not counted" in problem for problem in problems), problems
    daemon.wait_log(rf"per cgroup, failed: mem:0x\w+/8:rw: 2 of {len(made)} cgroups lack it: {cgroups.label}/c")
    daemon.wait_log(rf"counting .* 2 of 2 events in {len(made)} of \d+ cgroups, of which 2 lack some")

    # When there is room again, nothing is wrong any more.
    for cgroup in [one for one in made if one.label in with_watched(daemon)][:2]:
        cgroup.remove()
    until(lambda: watched(daemon)["state"] == "ok", "it is tried again", timeout=40)
    assert watched(daemon)["reason"] is None
    until(lambda: len(with_watched(daemon)) >= free, "all are shown")
    daemon.wait_log(r"per cgroup, ok: mem:0x")
    assert not any("some cgroups" in problem for problem in daemon.json("/api/v1/status")["problems"])

    # A cgroup that comes and goes does not fill the log.
    for _ in range(3):
        one = cgroups.make("coming")
        until(lambda: watched(daemon)["state"] == "failed", "there is one too many")
        one.remove()
        until(lambda: watched(daemon)["state"] == "ok", "it has gone")
    assert len([line for line in daemon.lines if "lack it" in line]) == 1
    daemon.stop()

    made.append(cgroups.make("more"))
    checked = run("--check", f"--config={daemon.config_path}")
    assert checked.returncode == 2
    assert "1 cgroup lacks some events" in checked.stdout
    assert ", 0 left out" in checked.stdout and "cgroups are left out" not in checked.stdout
    assert "can't be counted" not in checked.stdout.split("open files:")[1]


def test_cgroups_that_fail_are_logged(take, perfmond, cgroups, cpus):
    """With an example, once, however often they are tried again; and when all are counted."""
    breakpoints = take(cpus)
    free = len(breakpoints.fds) // len(cpus)
    breakpoints.close()
    made = [cgroups.make(f"c{i}") for i in range(free + 1)]
    daemon = perfmond(CONFIG.replace("groups = watch software lacking", "groups =").replace(
        "[cgroup]\ngroups =", f"[cgroup]\ngroups = watch\ninclude = {cgroups.label}/*"))
    daemon.wait_log(rf"1 cgroup is not counted, failed: for example {cgroups.label}/c\d: {cgroups.label}/c\d, CPU 0, "
                    r"'mem:0x.*are in use \(ENOSPC\)")
    # At least once it is tried in vain.
    time.sleep(12)
    statuses = {one["cgroup"]: one["status"] for one in daemon.json("/api/v1/cgroups")["cgroups"]}
    next(one for one in made if statuses[one.label] == "counted").remove()
    daemon.wait_log("no cgroup is failed any more", timeout=40)
    assert len([line for line in daemon.lines if "not counted, failed" in line]) == 1
