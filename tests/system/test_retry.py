# SPDX-License-Identifier: MIT
"""What can't be counted because something is short is tried again, and nothing else is touched by that."""

import ctypes
import os
import platform
import struct

import pytest

from harness import until

SYS_perf_event_open = {"x86_64": 298, "aarch64": 241}
PERF_TYPE_BREAKPOINT, HW_BREAKPOINT_W = 5, 2

# An address in no process.
CONFIG = """
[cpu]
groups = watch software
[cgroup]
groups =
[group "watch"]
events = watched=mem:0x7ff000000000/8:w
[group "software"]
events = context-switches
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
def breakpoints(privileged, cpus):
    taken = Breakpoints(cpus)
    yield taken
    taken.close()


def test_counted_when_there_is_room_again(breakpoints, perfmond):
    if not breakpoints.fds:
        pytest.skip(f"this CPU has no hardware breakpoints (errno {breakpoints.errors[0]})")
    daemon = perfmond(CONFIG)
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
    # Once for the event: not for each CPU, nor for each try.
    said = [line for line in daemon.lines if "watched" in line or "mem:" in line]
    assert len(said) <= 2, said
