# SPDX-License-Identifier: MIT
"""An event that can't be counted because something is short says so. It is tried again every 10 s, and nothing else is
touched by that."""

import ctypes
import os
import platform
import struct
import time

import pytest

from harness import run, until
from machine import needs

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
        self.taken = len(self.fds)

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
        assert taken[-1].fds, f"no breakpoint is free: errno {taken[-1].errors[0]}"
        return taken[-1]

    yield breakpoints
    for one in taken:
        one.close()


def perf_fds(daemon):
    """The numbers of the open perf events."""
    return {fd for fd, file in daemon.files().items() if "perf_event" in file}


def said(daemon, text):
    return [line for line in daemon.lines if text in line]


@needs("two-cpus")
def test_an_event_that_one_cpu_lacks_is_tried_again(take, perfmond, cpus):
    """What is open on the other CPUs goes on, and the one that lacked room is counted when there is some."""
    breakpoints = take(cpus[1:2])
    daemon = perfmond(CONFIG)
    before = daemon.fresh()
    fds = perf_fds(daemon)
    assert before.get("perf_cpu_watched_total", cpu=str(cpus[0])) == 0
    assert before.get("perf_cpu_watched_total", cpu=str(cpus[1])) is None
    until(lambda: daemon.fresh().state("watched") == "failed", "an interval has ended")

    breakpoints.close()
    after = until(lambda: (m := daemon.fresh()).state("watched") == "ok" and m, "it is tried again")
    assert after.get("perf_cpu_watched_total", cpu=str(cpus[1])) == 0
    assert len(perf_fds(daemon) - fds) == 1 and fds < perf_fds(daemon)


@pytest.mark.deep
def test_an_event_that_all_cpus_lack_is_tried_again(take, perfmond, cpus):
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
    after = until(lambda: (m := daemon.fresh()).state("watched") == "ok" and m, "it is tried again")
    assert [value for _, value in after.all("perf_cpu_watched_total")] == [0] * len(switches)
    for cpu, value in switches.items():
        assert after.value("perf_cpu_context_switches_total", cpu=cpu) >= value
    assert fds < perf_fds(daemon), "what was counted has been left open"
    daemon.wait_log(r" ok: mem:0x")
    # Each event once when it fails, and once when it is counted again: not for each CPU, nor for each try.
    lines = said(daemon, "mem:0x")
    assert len(lines) == 2 and "failed" in lines[0] and " ok: " in lines[1], lines
    assert len(said(daemon, "nopmu/x/")) == 1


# --- cgroups: each takes a breakpoint of each CPU

def of_cgroups(top, groups):
    return f"""
[daemon]
interval = 200ms
[cpu]
groups =
[cgroup]
groups = {groups}
include = {top.label}/*
[group "software"]
events = context-switches
[group "bp"]
events = watched=mem:0x7ff000000000/8:rw
[profiles]
enabled = no
"""


@pytest.fixture
def free(take, cpus):
    """How many cgroups find a breakpoint."""
    breakpoints = take(cpus)
    breakpoints.close()
    return breakpoints.taken // len(cpus)


def watched(daemon):
    """The cgroups' event, as /api/v1/events has it."""
    return next(event for event in daemon.json("/api/v1/events")["events"]
                if (event["scope"], event["event"]) == ("cgroup", "watched"))


def with_watched(daemon):
    """The cgroups that have the series."""
    return {labels["cgroup"] for labels, _ in daemon.fresh().all("perf_cgroup_watched_total")}


def assert_two_lack_it(daemon, cgroups, nr):
    until(lambda: watched(daemon)["state"] == "failed", "an interval has ended")
    reason, lacking = watched(daemon)["reason"], f"2 of {nr} cgroups lack it: {cgroups.label}/c"
    assert lacking in reason and "breakpoints of CPU 0 are in use (ENOSPC)" in reason
    assert len(with_watched(daemon)) == nr - 2
    assert daemon.fresh().state("watched", "cgroup") == "failed"
    problems = daemon.json("/api/v1/status")["problems"]
    assert any("1 of 2 events per cgroup are missing in some cgroups" in problem for problem in problems), problems
    assert not any("not counted" in problem for problem in problems), problems
    daemon.wait_log(rf"per cgroup, failed: mem:0x\w+/8:rw: {lacking}")
    daemon.wait_log(rf"counting .* 2 of 2 events in {nr} of \d+ cgroups, of which 2 lack some")


def test_cgroups_that_lack_an_event_are_named(free, perfmond, cgroups):
    """Its other events are counted. A cgroup whose only event is missing is not counted. --check says it too."""
    made = [cgroups.make(f"c{i}") for i in range(free + 2)]
    daemon = perfmond(of_cgroups(cgroups, "software bp"))
    assert_two_lack_it(daemon, cgroups, len(made))
    daemon.reload(of_cgroups(cgroups, "bp"))
    daemon.wait_log(rf"2 cgroups are not counted, failed: for example {cgroups.label}/c\d: {cgroups.label}/c\d, "
                    r"CPU 0, 'mem:0x.*are in use \(ENOSPC\)")
    daemon.configure(of_cgroups(cgroups, "software bp"))
    daemon.stop()
    made.pop().remove()
    assert_checked(daemon)


def assert_checked(daemon):
    """There is one cgroup too many."""
    checked = run("--check", f"--config={daemon.config_path}")
    assert checked.returncode == 2
    assert "1 cgroup lacks some events" in checked.stdout
    assert ", 0 left out" in checked.stdout and "cgroups are left out" not in checked.stdout
    assert "can't be counted" not in checked.stdout.split("open files:")[1]


@pytest.mark.deep
def test_cgroups_that_lack_an_event_are_tried_again(free, perfmond, cgroups):
    made = [cgroups.make(f"c{i}") for i in range(free + 2)]
    daemon = perfmond(of_cgroups(cgroups, "software bp"))
    assert_two_lack_it(daemon, cgroups, len(made))

    # When there is room again, nothing is wrong any more.
    for cgroup in [one for one in made if one.label in with_watched(daemon)][:2]:
        cgroup.remove()
    until(lambda: watched(daemon)["state"] == "ok", "it is tried again")
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
    assert len(said(daemon, "lack it")) == 1


@pytest.mark.deep
def test_cgroups_that_fail_are_logged_once(free, perfmond, cgroups):
    """With an example, however often they are tried again; and when all are counted."""
    made = [cgroups.make(f"c{i}") for i in range(free + 1)]
    daemon = perfmond(of_cgroups(cgroups, "bp"))
    daemon.wait_log(rf"1 cgroup is not counted, failed: for example {cgroups.label}/c\d: {cgroups.label}/c\d, CPU 0, "
                    r"'mem:0x.*are in use \(ENOSPC\)")
    # At least once it is tried in vain.
    time.sleep(12)
    statuses = {one["cgroup"]: one["status"] for one in daemon.json("/api/v1/cgroups")["cgroups"]}
    next(one for one in made if statuses[one.label] == "counted").remove()
    daemon.wait_log("no cgroup is failed any more")
    assert len(said(daemon, "not counted, failed")) == 1
