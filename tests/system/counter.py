# SPDX-License-Identifier: MIT
"""Perf events of the tests' own, as a second opinion: page faults and context switches of a cgroup, or of CPUs."""

import ctypes
import os
import platform
import struct

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}[platform.machine()]
PERF_TYPE_SOFTWARE, ATTR_SIZE = 1, 112
EVENTS = {"page_faults": 2, "context_switches": 3}  # PERF_COUNT_SW_…
PID_CGROUP, CLOEXEC = 4, 8


class Counter:
    """Of the cgroup with that folder, on all CPUs; or of all that runs on these CPUs."""

    def __init__(self, folder=None, cpus=None):
        self.fds = {name: [] for name in EVENTS}
        pid = os.open(folder, os.O_RDONLY | os.O_DIRECTORY) if folder else -1
        for name, config in EVENTS.items():
            attr = struct.pack("=IIQ", PERF_TYPE_SOFTWARE, ATTR_SIZE, config).ljust(ATTR_SIZE, b"\0")
            for cpu in range(os.cpu_count()) if cpus is None else cpus:
                fd = ctypes.CDLL(None, use_errno=True).syscall(PERF_EVENT_OPEN, attr, pid, cpu, -1,
                                                               CLOEXEC | (PID_CGROUP if folder else 0))
                assert fd >= 0, os.strerror(ctypes.get_errno())
                self.fds[name].append(fd)
        if folder:
            os.close(pid)

    def read(self):
        return {name: sum(struct.unpack("=Q", os.read(fd, 8))[0] for fd in fds) for name, fds in self.fds.items()}

    def close(self):
        for fds in self.fds.values():
            for fd in fds:
                os.close(fd)
