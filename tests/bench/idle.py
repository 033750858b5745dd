#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The cost of cgroups that do not run: the daemon's CPU an interval beside many of them, and by rooms.

usage: idle.py FOLDER [CGROUPS...]

FOLDER is the build folder. Of so many cgroups (200 and 10,000 of them unless others are given) 200 run in each
interval. The daemon has the default config without profiles, and an fd store (tests/system/fdstore.py), so that images
are saved. Where there is perf, samples of the loop's thread tell which rooms take the time. Prints figures and judges
nothing.
"""

import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from bench import ROOT, Daemon, cgroup_mount
from crediting import RUNNER

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / folder) for folder in ("lib", "system")]

from fdstore import FdStore  # noqa: E402 (its folder has to be known)

CONFIG = """
[web]
listen = 127.0.0.1:0
[cgroup]
engine = bpf
include = /perfmond-bench/**
max = 12000
[profiles]
enabled = no
"""

RUNNING = 200
SECONDS = 20
RATE = 20000  # samples in a second of CPU time


def loop_seconds(daemon):
    """CPU seconds of the loop's thread so far."""
    return int(open(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/schedstat").read().split()[0]) / 1e9


class Running:
    """In so many of the cgroups a task runs in each second."""

    def __init__(self, paths):
        self.process = subprocess.Popen([sys.executable, "-c", RUNNER, cgroup_mount(), "1000000"],
                                        stdin=subprocess.PIPE, text=True)
        self.process.stdin.write("\n".join(paths))
        self.process.stdin.close()

    def stop(self):
        self.process.terminate()
        self.process.wait()


def files_of(binary, addresses):
    """The function at each address, as its file."""
    listed = subprocess.run(["addr2line", "-a", "-i", "-e", binary], input="\n".join(map(hex, addresses)), text=True,
                            capture_output=True, check=True).stdout
    parts = [part.splitlines() for part in re.split(r"^0x", listed, flags=re.M)[1:]]
    return {int(part[0], 16): part[-1] for part in parts}


def room_of(stack, files):
    """The innermost room that is not of base/, whose functions work for others."""
    rooms = [found[1] for found in (re.search(r"/daemon/(.*)/", files[at]) for at in stack) if found]
    return next((room for room in rooms if not room.startswith("base/")), rooms[0] if rooms else "none")


def rooms(binary, process, seconds):
    """The CPU seconds of the loop's thread that each room takes in a second."""
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/perf.data"
        subprocess.run(["perf", "record", "-q", "-o", data, "-e", "cpu-clock", "-F", str(RATE), "--call-graph",
                        "dwarf,2048", "-t", str(process), "sleep", str(seconds)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        script = subprocess.run(["perf", "script", "-i", data, "-F", "ip,dso", "--no-inline"], check=True,
                                capture_output=True, text=True).stdout
    # Without inlined functions perf tells addresses within the file.
    stacks = [[int(at, 16) for at in re.findall(r"^\s*([0-9a-f]+) \([^)]*/perfmond\)$", sample, re.M)]
              for sample in script.strip().split("\n\n")]
    files = files_of(binary, sorted({at for stack in stacks for at in stack}))
    return {room: nr / RATE / seconds
            for room, nr in collections.Counter(room_of(stack, files) for stack in stacks).most_common()}


@contextlib.contextmanager
def cgroups(nr):
    paths = [f"{ROOT}/s{i % 10}/c{i}" for i in range(nr)]
    for path in paths:
        os.makedirs(path, exist_ok=True)
    yield paths
    for path in paths:
        os.rmdir(path)
    for i in range(min(10, nr)):
        os.rmdir(f"{ROOT}/s{i}")
    os.rmdir(ROOT)


def measure(folder, nr):
    with cgroups(nr) as paths, tempfile.TemporaryDirectory() as place:
        store = FdStore(pathlib.Path(place))
        os.environ["NOTIFY_SOCKET"] = store.address
        daemon = Daemon(f"{folder}/perfmond", CONFIG)
        # What it says later is not read by anybody else.
        threading.Thread(target=daemon.process.stderr.read, daemon=True).start()
        while daemon.metric('perfmond_cgroups{state="waiting"}'):
            time.sleep(0.05)
        running = Running(paths[::max(1, nr // RUNNING)])
        time.sleep(5)
        begin, start = loop_seconds(daemon), time.monotonic()
        time.sleep(SECONDS)
        used, took = loop_seconds(daemon) - begin, time.monotonic() - start
        print(f"{nr} cgroups, of which {RUNNING} run: {1e3 * used / took:.2f} ms of the loop's CPU a second",
              flush=True)
        if shutil.which("perf"):
            for room, cpu in rooms(f"{folder}/perfmond", daemon.process.pid, SECONDS).items():
                print(f"  {1e3 * cpu:6.3f} ms {room}", flush=True)
        running.stop()
        daemon.process.send_signal(signal.SIGTERM)
        daemon.process.wait()
        store.close()
        del os.environ["NOTIFY_SOCKET"]
    return used / took


def main():
    folder, *sizes = sys.argv[1:]
    sizes = [int(size) for size in sizes] or [RUNNING, 10000]
    costs = [measure(folder, nr) for nr in sizes]
    if len(sizes) > 1:
        print(f"a cgroup that does not run: {1e9 * (costs[-1] - costs[0]) / (sizes[-1] - sizes[0]):.0f} ns a second")


if __name__ == "__main__":
    main()
