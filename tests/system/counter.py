# SPDX-License-Identifier: MIT
"""Perf events of the tests' own, as a second opinion: page faults and context switches of a cgroup, or of CPUs; and
what the daemon says of a moment or of an interval, compared with them.

Nobody can read two counters at the same time. Each of the daemon's numbers therefore stands between two readings of
the tests' own, one from before and one from after it, however long a busy machine takes in between.
"""

import collections
import ctypes
import errno
import itertools
import math
import os
import platform
import signal
import struct
import threading
import time
from pathlib import Path

from harness import leeway, until

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}[platform.machine()]
PERF_TYPE_SOFTWARE, PERF_TYPE_BREAKPOINT, ATTR_SIZE = 1, 5, 112
EVENTS = {"page_faults": 2, "context_switches": 3}  # PERF_COUNT_SW_…
TASK_CLOCK = {"task_clock": 1}  # ns
PID_CGROUP, CLOEXEC = 4, 8


class Counter:
    """Of the cgroup with that folder, or of all that runs, on these CPUs or all; or of the threads of a process, and
    those that they make. pmu: its type number."""

    def __init__(self, folder=None, cpus=None, process=None, pmu=PERF_TYPE_SOFTWARE, events=EVENTS):
        self.pmu, self.events, self.fds = pmu, events, {name: [] for name in events}
        cpus = range(os.cpu_count()) if cpus is None else cpus
        if folder:
            pid = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            self._open([pid], cpus, PID_CGROUP)
            os.close(pid)
        elif process:
            self._open([int(task) for task in os.listdir(f"/proc/{process}/task")], [-1])
        else:
            self._open([-1], cpus)

    def _open(self, pids, cpus, flags=0):
        for name, config in self.events.items():
            attr = bytearray(struct.pack("=IIQ", self.pmu, ATTR_SIZE, config).ljust(ATTR_SIZE, b"\0"))
            if cpus == [-1]:
                attr[40] |= 2  # inherit
            for pid, cpu in itertools.product(pids, cpus):
                fd = ctypes.CDLL(None, use_errno=True).syscall(PERF_EVENT_OPEN, bytes(attr), pid, cpu, -1,
                                                               CLOEXEC | flags)
                # A thread can have ended since it was listed.
                assert fd >= 0 or ctypes.get_errno() == errno.ESRCH, os.strerror(ctypes.get_errno())
                self.fds[name] += [fd] if fd >= 0 else []

    def read(self):
        return {name: sum(struct.unpack("=Q", os.read(fd, 8))[0] for fd in fds) for name, fds in self.fds.items()}

    def close(self):
        for fds in self.fds.values():
            for fd in fds:
                os.close(fd)


class Keeper:
    """On some virtual machines process 1 is the machine's keeper: not even root may look into it, and switches from its
    threads are hidden from tracing. The engine bpf credits what they count to a cgroup that runs beside."""

    def __init__(self):
        self.counter = Counter(process=1, events=EVENTS | TASK_CLOCK) if self.is_there() else None

    @staticmethod
    def is_there():
        try:
            os.readlink("/proc/1/exe")
        except OSError:
            return os.geteuid() == 0
        return False

    def most(self, event):
        """By how many a cgroup's count of that event can be too high for what the keeper has done since this was
        made."""
        return self.counter.read()[event] if self.counter else 0

    def close(self):
        if self.counter:
            self.counter.close()


class Breakpoints:
    """Accesses of an address, of all that runs on all CPUs: what this machine shows to anybody. Some machines, virtual
    ones among them, lose a breakpoint's trap now and then, in one in some thousands of accesses; then every event of
    that breakpoint loses it."""

    WRITE, READ_WRITE = 2, 3  # HW_BREAKPOINT_W, HW_BREAKPOINT_RW

    def __init__(self, address, length, access):
        attr = bytearray(ATTR_SIZE)
        struct.pack_into("=II", attr, 0, PERF_TYPE_BREAKPOINT, ATTR_SIZE)
        struct.pack_into("=I", attr, 52, access)          # bp_type
        struct.pack_into("=QQ", attr, 56, address, length)  # bp_addr, bp_len
        self.fds = []
        for cpu in range(os.cpu_count()):
            fd = ctypes.CDLL(None, use_errno=True).syscall(PERF_EVENT_OPEN, bytes(attr), -1, cpu, -1, CLOEXEC)
            assert fd >= 0, os.strerror(ctypes.get_errno())
            self.fds.append(fd)

    def read(self):
        return sum(struct.unpack("=Q", os.read(fd, 8))[0] for fd in self.fds)

    def close(self):
        while self.fds:
            os.close(self.fds.pop())


class Recorder:
    """Reads a Counter all the time, in a thread of its own, to know later what it had come to at some moment."""

    Row = collections.namedtuple("Row", "before counts after")  # time.time() around the reading

    def __init__(self, counter, period=0.02):
        self.counter, self.rows, self.ending = counter, [], threading.Event()
        self.thread = threading.Thread(target=self._run, args=(period,), daemon=True)
        self.thread.start()

    def _run(self, period):
        while not self.ending.wait(period):
            self.rows.append(self.Row(time.time(), self.counter.read(), time.time()))

    def between(self, name, start, end):
        """What an event had come to at a moment of which no more is known than this: (at least, at most)."""
        return (max(row.counts[name] for row in self.rows if row.after <= start),
                min(row.counts[name] for row in self.rows if row.before >= end))

    def stop(self):
        self.ending.set()
        self.thread.join()
        self.counter.close()


class Intervals:
    """The rates that the daemon says, asked for again and again: where the answer changes, an interval has ended
    between the question before and this one. From one such edge to the next the rate has to be that of a Counter.

    Where the machine was too busy for questions to come often enough, more than one interval may have ended in
    between: such an edge only begins the next one.
    """

    Reading = collections.namedtuple("Reading", "time count")
    Edge = collections.namedtuple("Edge", "low high")

    def __init__(self, daemon, group, interval, event="context_switches"):
        self.daemon, self.group, self.interval, self.event = daemon, group, interval, event
        self.counter = Counter(group.path)
        self.asked, self.rate, self.edge = None, None, None
        self.rates, self.checked = [], []  # all that were said; the lengths of the intervals that were compared
        self.poll()

    def read(self):
        return self.Reading(time.monotonic(), self.counter.read()[self.event])

    def row(self):
        rows = self.daemon.json("/api/v1/snapshot", cgroup=self.group.label)["cgroups"]
        return rows[0]["events"][self.event] if rows else {"rate": None}

    def poll(self, still=None):
        """Asks once, and returns whether an interval has ended. `still`: a reading up to which none can have."""
        low, rate, high = self.read(), self.row()["rate"], self.read()
        ended = rate != self.rate
        if ended:
            assert rate is not None and math.isfinite(rate) and rate >= 0
            self.rates.append(rate)
            edge = self.Edge(still or self.asked, high) if self.asked else None
            self._check(edge, rate, 0 if still is None else still.time - self.asked.time)
            self.edge = edge
        self.asked, self.rate = low, rate
        return ended

    def _check(self, edge, rate, stopped):
        """Of the interval that an edge ends. The daemon was stopped for so many seconds of it."""
        if not self.edge or not edge or max(e.high.time - e.low.time for e in (self.edge, edge)) > self.interval / 2 \
                or edge.high.time - self.edge.low.time - stopped > self.interval * 1.75:
            return
        least = (edge.low.count - self.edge.high.count) / (edge.high.time - self.edge.low.time)
        most = (edge.high.count - self.edge.low.count + leeway(self.event)) / (edge.low.time - self.edge.high.time)
        assert least <= rate * 1.000001 and rate <= most * 1.000001, f"{rate} is not from {least} to {most}"
        self.checked.append(edge.low.time - self.edge.high.time)

    def follow(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.poll()
            time.sleep(0.01)

    def _stop_after_an_edge(self):
        """SIGSTOP, at a moment when the next interval's end is not near."""
        until(self.poll, "an interval ends")
        self.daemon.process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self.daemon.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
        return self.edge and time.monotonic() - self.edge.low.time < self.interval / 2

    def stop_daemon(self, seconds):
        """With SIGSTOP, for so long, within an interval that is compared then."""
        while not self._stop_after_an_edge():
            self.daemon.process.send_signal(signal.SIGCONT)
        try:
            time.sleep(seconds)
        finally:
            still = self.read()
            self.daemon.process.send_signal(signal.SIGCONT)
        checked = len(self.checked)
        self.poll(still)
        return len(self.checked) > checked

    def close(self):
        self.counter.close()
