#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What the running daemon costs: CPU at the default config, and scrapes of growing size, plain and compressed; and
beside it, where it is given, Debian's prometheus-node-exporter with its perf collector.

usage: bench.py PERFMOND [NODE_EXPORTER]

Everything is the real daemon on the real kernel. Series beyond what the limit of open files allows to
count come from removed cgroups that linger. The two exporters count the same: the same tracepoints on each CPU.
Prints figures and judges nothing.
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


# How many tracepoints both exporters count, of subsystems in which nothing happens all the time.
TRACEPOINTS = 500
QUIET = ("xfs", "btrfs", "ext4", "kvm", "f2fs", "writeback", "clk", "jbd2", "dma", "regulator")

SAME = """
[daemon]
interval = 1s
[web]
listen = 127.0.0.1:0
[cpu]
groups = same
[cgroup]
groups =
[group "same"]
events = {}
"""

ROOT = os.path.join(cgroup_mount(), "perfmond-bench")


class Server:
    """A process that answers on a port of 127.0.0.1."""

    def get(self, path, headers=""):
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n".encode())
            parts = []
            while part := s.recv(1 << 20):
                parts.append(part)
        return b"".join(parts)

    def cpu(self):
        """Seconds on a CPU so far, of all threads, to the nanosecond."""
        tasks = f"/proc/{self.process.pid}/task"
        return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1e9

    def resident(self):
        return int(open(f"/proc/{self.process.pid}/statm").read().split()[1]) * 4096

    def stop(self):
        self.process.terminate()
        self.process.communicate()


class Daemon(Server):
    def __init__(self, binary, config, prefix=(), fds=()):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".conf")
        self.file.write(config)
        self.file.flush()
        self.process = subprocess.Popen(
            [*prefix, binary, "-c", self.file.name], stderr=subprocess.PIPE, text=True, pass_fds=fds
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

    def metric(self, name):
        return float(re.search(rb"^" + re.escape(name.encode()) + rb" (\S+)$", self.get("/metrics"), re.M)[1])

    def wait_for(self, cgroups):
        """Until so many are counted."""
        while self.metric('perfmond_cgroups{state="counted"}') != cgroups:
            time.sleep(0.02)

class NodeExporter(Server):
    def __init__(self, binary, tracepoints):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        command = [binary, "--collector.disable-defaults", "--collector.perf", "--web.disable-exporter-metrics",
                   f"--web.listen-address=127.0.0.1:{self.port}"]
        command += [f"--collector.perf.tracepoint={name}" for name in tracepoints]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(200):
            time.sleep(0.1)
            if self.process.poll() is not None:
                sys.exit("bench.py: node_exporter did not start")
            try:
                if self.get("/metrics").startswith(b"HTTP/1.1 200"):
                    return
            except ConnectionError:
                pass


def quiet_tracepoints():
    events = "/sys/kernel/debug/tracing/events"
    names = [f"{system}:{name}" for system in QUIET if os.path.isdir(f"{events}/{system}")
             for name in sorted(os.listdir(f"{events}/{system}")) if os.path.isdir(f"{events}/{system}/{name}")]
    return names[:TRACEPOINTS]


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


KINDS = (("plain", ""), ("gzip", "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n"
                                 "Accept-Encoding: gzip\r\n"))


def make(nr, first=0):
    os.makedirs(ROOT, exist_ok=True)
    for i in range(first, first + nr):
        os.mkdir(f"{ROOT}/c{i}")


def remove(nr, first=0):
    for i in range(first, first + nr):
        os.rmdir(f"{ROOT}/c{i}")
    if not any(entry.is_dir() for entry in os.scandir(ROOT)):
        os.rmdir(ROOT)


def series_in(answer):
    body = answer.split(b"\r\n\r\n", 1)[1]
    return sum(1 for line in body.splitlines() if line and not line.startswith(b"#"))


def scrape(server, headers, rounds=15):
    """Medians of seconds on the clock and on a CPU, and the size of an answer."""
    walls, cpus = [], []
    for _ in range(rounds):
        time.sleep(0.12)  # so that each reads the counters afresh
        cpu, start = server.cpu(), time.perf_counter()
        answer = server.get("/metrics", headers)
        walls.append(time.perf_counter() - start)
        cpus.append(server.cpu() - cpu)
    return statistics.median(walls), statistics.median(cpus), len(answer)


def scrapes_per_second(server, headers, seconds=2):
    """One after the other, by one client, which wants no fresher counters than there are."""
    start, nr = time.monotonic(), 0
    while (took := time.monotonic() - start) < seconds:
        server.get("/metrics", headers)
        nr += 1
    return nr / took


def scrapes(server, what, others=None):
    """Plain, and as Prometheus asks for it, beside what a series costs another. Returns the CPU seconds a series of
    each, and the memory."""
    series = series_in(server.get("/metrics"))
    costs = []
    for i, (kind, headers) in enumerate(KINDS):
        wall, cpu, size = scrape(server, headers)
        costs.append(cpu / series)
        beside = f" (1/{others[i] / costs[i]:.1f} of node_exporter's)" if others else ""
        print(
            f"{what}, {series:>6} series, {kind:>5} ({size / 1e6:.2f} MB): {1e3 * wall:.2f} ms a scrape, "
            f"{1e3 * cpu:.2f} ms CPU, {1e9 * cpu / series:.0f} ns CPU a series{beside}, "
            f"{scrapes_per_second(server, headers):.0f} scrapes a second, {server.resident() / 1e6:.1f} MB resident",
            flush=True
        )
    return costs, server.resident()


def compare(binary, node_exporter):
    tracepoints = quiet_tracepoints()
    other = NodeExporter(node_exporter, tracepoints)
    theirs, their_memory = scrapes(other, "node_exporter")
    other.stop()
    daemon = Daemon(binary, SAME.format(", ".join(tracepoints)))
    if series_in(daemon.get("/metrics")) < 2 * len(tracepoints):
        sys.exit("bench.py: perfmond does not count the tracepoints")
    _, our_memory = scrapes(daemon, "perfmond     ", theirs)
    daemon.stop()
    print(f"resident memory: {our_memory / their_memory:.2f} of node_exporter's")
    return theirs


def enter_namespace():
    """The whole bench has mounts of its own, with debugfs and tracing in it, where node_exporter looks."""
    if "PERFMOND_BENCH" in os.environ:
        return
    os.environ["PERFMOND_BENCH"] = "in a mount namespace"
    mounts = "mount -t debugfs nodev /sys/kernel/debug && ls /sys/kernel/debug/tracing/events >/dev/null"
    os.execvp("unshare", ["unshare", "--mount", "sh", "-c", mounts + ' && exec "$@"', "sh", sys.executable, *sys.argv])


def main():
    enter_namespace()
    binary = sys.argv[1]
    theirs = compare(binary, sys.argv[2]) if len(sys.argv) > 2 else None
    for nr in (0, 100):
        share(binary, nr)

    daemon = Daemon(binary, LINGER)
    scrapes(daemon, "perfmond", theirs)
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
        scrapes(daemon, f"perfmond, {daemon.metric('perfmond_open_events'):.0f} events open", theirs)
    daemon.stop()
    remove(alive, done - alive)


if __name__ == "__main__":
    main()
