#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How long the daemon's loop is held by its dearest answers: the largest CPU time of a turn, as the daemon tells it.

usage: loop.py PERFMOND [CGROUPS]...

Each kind of answer is asked of a daemon of its own, thrice, when the turns of its start are more than a minute old; so
the figure is of these answers, of sending them, and of the readings in that minute. Prints figures and judges nothing.
"""

import os
import sys
import time

import bench

# Below the hierarchy of version 2: perf's cgroups are there unless version 1 has them.
ROOT = os.path.join(bench.cgroup_mount(), "perfmond-test-loop")

CONFIG = """
[web]
listen = 127.0.0.1:0
[cgroup]
include = /perfmond-test-loop/**
max = {max}
[profiles]
enabled = no
"""

OPENMETRICS = "Accept: application/openmetrics-text;version=1.0.0\r\n"
GZIP = "Accept-Encoding: gzip\r\n"

# Points of the history are bounded: the more cgroups, the fewer seconds.
KINDS = (
    ("nothing", "/-/healthy", ""),
    ("/metrics", "/metrics", ""),
    ("OpenMetrics", "/metrics", OPENMETRICS),
    ("OpenMetrics, gzip", "/metrics", OPENMETRICS + GZIP),
    ("snapshot in JSON", "/api/v1/snapshot", ""),
    ("snapshot in JSON, gzip", "/api/v1/snapshot", GZIP),
    ("list of cgroups", "/api/v1/cgroups", ""),
    ("history in JSON", "/api/v1/history?scope=cgroup&from=-{seconds}s", ""),
    ("history in OpenMetrics", "/api/v1/history?scope=cgroup&from=-{seconds}s", OPENMETRICS),
)


def loop_seconds(daemon):
    """CPU seconds of the loop's thread so far."""
    return int(open(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/schedstat").read().split()[0]) / 1e9


def ask(daemon, path, headers):
    """The status, the size and the seconds of an answer, and the CPU seconds that it takes of the loop."""
    before, start = loop_seconds(daemon), time.monotonic()
    answer = daemon.get(path, headers)
    took = time.monotonic() - start
    return answer.split()[1].decode(), len(answer), took, loop_seconds(daemon) - before


def longest_turn(daemon):
    text = daemon.get("/metrics?scope=self").decode()
    return float(next(line for line in text.splitlines() if line.startswith("perfmond_loop_cpu_seconds")).split()[1])


def measure(binary, cgroups):
    os.makedirs(ROOT, exist_ok=True)
    for i in range(cgroups):
        os.makedirs(f"{ROOT}/c{i}", exist_ok=True)
    daemons = [bench.Daemon(binary, CONFIG.format(max=cgroups + 100)) for _ in KINDS]
    time.sleep(70)
    for daemon, (name, path, headers) in zip(daemons, KINDS):
        answers = []
        for _ in range(3):
            answers.append(ask(daemon, path.format(seconds=max(2, 15000 // max(cgroups, 1000))), headers))
            time.sleep(0.2)
        status, size, took, held = max(answers, key=lambda answer: answer[3])
        print(f"{cgroups} cgroups, {name}: {status}, {size / 1e6:.2f} MB in {1e3 * took:.0f} ms, "
              f"{1e3 * held:.1f} ms of the loop's CPU time; its longest turn {1e3 * longest_turn(daemon):.1f} ms",
              flush=True)
        daemon.stop()


def main():
    sizes = [int(text) for text in sys.argv[2:]] or [1000]
    try:
        for cgroups in sizes:
            measure(sys.argv[1], cgroups)
    finally:
        for name in os.listdir(ROOT):
            if os.path.isdir(f"{ROOT}/{name}"):
                os.rmdir(f"{ROOT}/{name}")
        os.rmdir(ROOT)


if __name__ == "__main__":
    main()
