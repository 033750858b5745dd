#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the running daemon costs: CPU at the default config, and scrapes of growing size.

usage: bench.py PERFMOND

Everything is the real daemon on the real kernel. Series beyond what the limit of open files allows to
count come from removed cgroups that linger. Prints figures and judges nothing.
"""

import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

LINGER = """
[daemon]
interval = 1h
[web]
listen = 127.0.0.1:0
[cpu]
groups = software
[cgroup]
groups = tasks
include = /perfmond-bench/**
max = 100000
linger = 1h
"""


def cgroup_mount():
    """The hierarchy that perf's cgroups are in."""
    mounts = [line.split() for line in open("/proc/self/mountinfo")]
    for version, option in (("cgroup", "perf_event"), ("cgroup2", "")):
        for m in mounts:
            kind, _, options = m[m.index("-") + 1 : m.index("-") + 4]
            if kind == version and (not option or option in options.split(",")):
                return m[4]
    sys.exit("bench.py: no cgroup hierarchy is mounted")


ROOT = os.path.join(cgroup_mount(), "perfmond-bench")


class Daemon:
    def __init__(self, binary, config):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".conf")
        self.file.write(config)
        self.file.flush()
        self.process = subprocess.Popen(
            [binary, "-c", self.file.name], stderr=subprocess.PIPE, text=True
        )
        for line in self.process.stderr:
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            sys.exit("bench.py: the daemon did not start")
        self.settle()

    def settle(self):
        while not self.get("/-/ready").startswith(b"HTTP/1.1 200"):
            time.sleep(0.05)

    def get(self, path):
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            parts = []
            while part := s.recv(1 << 20):
                parts.append(part)
        return b"".join(parts)

    def metric(self, name):
        return float(re.search(rb"^" + re.escape(name.encode()) + rb" (\S+)$", self.get("/metrics"), re.M)[1])

    def wait_for(self, cgroups):
        """Until so many are counted."""
        while self.metric('perfmond_cgroups{state="counted"}') != cgroups:
            time.sleep(0.02)

    def cpu(self):
        """Seconds on a CPU so far, to the nanosecond."""
        return int(open(f"/proc/{self.process.pid}/schedstat").read().split()[0]) / 1e9

    def resident(self):
        return int(open(f"/proc/{self.process.pid}/statm").read().split()[1]) * 4096

    def stop(self):
        self.process.terminate()
        self.process.communicate()


def share(binary, cgroups, seconds=15):
    make(cgroups)
    daemon = Daemon(binary, "[web]\nlisten = 127.0.0.1:0\n")
    time.sleep(2)
    cpu, start = daemon.cpu(), time.monotonic()
    time.sleep(seconds)
    used = (daemon.cpu() - cpu) / (time.monotonic() - start)
    print(
        f"default config, {cgroups} cgroups, interval 1 s: {100 * used:.3f} % of a core, "
        f"{daemon.resident() / 1e6:.1f} MB resident"
    )
    daemon.stop()
    remove(cgroups)


def make(nr, first=0):
    os.makedirs(ROOT, exist_ok=True)
    for i in range(first, first + nr):
        os.mkdir(f"{ROOT}/c{i}")


def remove(nr, first=0):
    for i in range(first, first + nr):
        os.rmdir(f"{ROOT}/c{i}")
    if not any(entry.is_dir() for entry in os.scandir(ROOT)):
        os.rmdir(ROOT)


def scrapes(daemon, rounds=15):
    walls, cpus = [], []
    for _ in range(rounds):
        time.sleep(0.12)  # so that each reads the counters afresh
        cpu, start = daemon.cpu(), time.perf_counter()
        answer = daemon.get("/metrics")
        walls.append(time.perf_counter() - start)
        cpus.append(daemon.cpu() - cpu)
    body = answer.split(b"\r\n\r\n", 1)[1]
    series = sum(1 for line in body.splitlines() if line and not line.startswith(b"#"))
    open_events = daemon.metric("perfmond_open_events")
    print(
        f"{series:>7} series ({len(body) / 1e6:.2f} MB, {open_events:.0f} events open): "
        f"{1e3 * statistics.median(walls):.2f} ms a scrape, {1e3 * statistics.median(cpus):.2f} ms CPU, "
        f"{1e9 * statistics.median(cpus) / series:.0f} ns CPU a series, "
        f"{daemon.resident() / 1e6:.1f} MB resident (medians of {rounds})"
    )


def main():
    binary = sys.argv[1]
    for nr in (0, 100):
        share(binary, nr)

    daemon = Daemon(binary, LINGER)
    scrapes(daemon)
    daemon.stop()

    os.makedirs(ROOT, exist_ok=True)
    daemon = Daemon(binary, LINGER)
    done = alive = 0
    # A cgroup is 5 events, 2 times and an info: 8 series. The last thousand stay
    # alive, the others linger: 20,000 open files are the limit of many machines.
    for series in (1000, 10000, 100000):
        while done < series / 8:
            batch = min(500, int(series / 8) - done + 1)
            make(batch, done)
            alive += batch
            daemon.wait_for(alive)
            if done + batch < 11500:
                remove(batch, done)
                alive -= batch
                daemon.wait_for(alive)
            done += batch
        scrapes(daemon)
    daemon.stop()
    remove(alive, done - alive)


if __name__ == "__main__":
    main()
