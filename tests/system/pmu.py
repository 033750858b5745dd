#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The PMU of this machine, as the kernel tells: events are opened, and counted with.

As a program it says whether there is one: the exit status is 0, or 77 with the reason, as automake's tests have it.
"""

import ctypes
import errno
import os
import platform
import struct
import sys
import time

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, ATTR_SIZE, PID_CGROUP, CLOEXEC = 0, 3, 112, 4, 8
TIMES = 1 | 2  # PERF_FORMAT_TOTAL_TIME_ENABLED, …_RUNNING
PINNED, EXCLUDE_KERNEL = 1 << 2, 1 << 5

# The default config's, as PERF_COUNT_HW_….
EVENTS = {"cycles": 0, "instructions": 1, "cache-misses": 3, "branch-misses": 5}
NUMBERS = {**EVENTS, "branches": 4}

# What the kernel answers where there is no PMU, or none that it may count with.
ABSENT = (errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV, errno.ENOSYS, errno.EACCES, errno.EPERM)


class Event:
    """One hardware event: of all that runs on a CPU, or in user mode of a cgroup's tasks there, or of the caller. A
    pinned one has a counter at all times, or none: then there is nothing to read."""

    def __init__(self, name, cpu=None, pinned=False, folder=None):
        user = cpu is None or folder
        attr = struct.pack("=IIQQQQQ", PERF_TYPE_HARDWARE, ATTR_SIZE, NUMBERS[name], 0, 0, TIMES,
                           (EXCLUDE_KERNEL if user else 0) | (PINNED if pinned else 0))
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY) if folder else None
        pid, cpu = (0, -1) if cpu is None else (-1 if directory is None else directory, cpu)
        self.fd = ctypes.CDLL(None, use_errno=True).syscall(
            PERF_EVENT_OPEN[platform.machine()], attr.ljust(ATTR_SIZE, b"\0"), pid, cpu, -1,
            CLOEXEC | (PID_CGROUP if folder else 0))
        number = ctypes.get_errno()
        if folder:
            os.close(directory)
        if self.fd < 0:
            raise OSError(number, f"perf_event_open of PERF_COUNT_HW_{name.replace('-', '_').upper()}: "
                          f"{errno.errorcode[number]} ({os.strerror(number)})")

    def read(self):
        """(count, enabled, running); None of a pinned event without a counter."""
        reading = os.read(self.fd, 24)
        return struct.unpack("=QQQ", reading) if reading else None

    def had_room(self):
        """Has it run all the time?"""
        end = self.read()
        return bool(end) and end[2] >= 0.995 * end[1]

    def close(self):
        os.close(self.fd)


def opens(name, cpu):
    """Does the kernel count this one of EVENTS on the CPU?"""
    try:
        Event(name, cpu).close()
    except OSError as error:
        if error.errno not in ABSENT:
            raise
        return False
    return True


def first_count(name):
    """(count, enabled, running) of the caller's own work in user mode, as soon as something is counted; or after a
    second, since others may have the PMU for a moment. Pinned: what is not would wait for an exclusive group of the
    CPU's, as the daemon has where the PMU lies, for good."""
    end, reading = time.monotonic() + 1, None
    while not (reading and reading[0]) and time.monotonic() < end:
        event = Event(name, pinned=True)
        sum(bytearray(b"work") * 100000)  # it takes instructions, and more memory than a cache has near the CPU
        reading = event.read()
        event.close()
    return reading or (0, 0, 0)


def counts(name):
    return first_count(name)[0] > 0


def why_none():
    """Why nothing can be counted with a PMU here; None where something can."""
    if platform.machine() not in PERF_EVENT_OPEN:
        return f"perf_event_open: its number is not known on {platform.machine()}"
    try:
        count, enabled, running = first_count("instructions")
    except OSError as error:
        if error.errno not in ABSENT:
            raise
        return f"no PMU: {error.strerror}"
    return None if count else \
        f"no PMU that counts: PERF_COUNT_HW_INSTRUCTIONS opens, and counts 0 " \
        f"(enabled {enabled} ns, running {running} ns)"


if __name__ == "__main__":
    REASON = why_none()
    print(REASON or "there is a PMU")
    sys.exit(77 if REASON else 0)
