#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How long the daemon's loop is held by its dearest answers, by reloads, and by starts: the largest CPU time of a turn,
as the daemon tells it.

usage: loop.py PERFMOND [answers|reloads|starts] [CGROUPS]...

Each kind of answer is asked of a daemon of its own, thrice, when the turns of its start are more than a minute old; so
the figure is of these answers, of sending them, and of the readings in that minute. Each kind of reload has a daemon of
its own, too, and is done once; that of a changed sysctl (kernel.perf_event_paranoid, which is put back) is done by the
daemon itself. A start is from nothing, and once more from what the fd store has. Prints figures and judges nothing.
"""

import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

import bench

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / folder) for folder in ("lib", "system")]

from fdstore import FdStore  # noqa: E402 (their folder has to be known)
from harness import passing  # noqa: E402

# Below the hierarchy of version 2: perf's cgroups are there unless version 1 has them.
ROOT = os.path.join(bench.cgroup_mount(), "perfmond-test-loop")

CONFIG = """
[web]
listen = 127.0.0.1:0
[cgroup]
include = /perfmond-test-loop/**
max = {max}
engine = {engine}
groups = {groups}
[profiles]
enabled = no
[group "work"]
events = page-faults, context-switches, task-clock
[group "more"]
events = minor-faults, major-faults
[group "many"]
events = {many}
"""
MANY = ", ".join(f"clock{i}=task-clock" for i in range(20))
GROUPS = "core tasks"

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

# The engine and the groups of cgroups before and after. The programs are loaded for 16 events, or a multiple of that.
RELOADS = (
    ("of the same", ("auto", "work"), ("auto", "work")),
    ("with more events", ("auto", "work"), ("auto", "work more")),
    ("that loads programs anew", ("auto", "work"), ("auto", "work many")),
    ("from bpf to perf", ("auto", "work"), ("perf", "work")),
    ("from perf to bpf", ("perf", "work"), ("auto", "work")),
    ("of the same, perf", ("perf", "work"), ("perf", "work")),
    ("with more events, perf", ("perf", "work"), ("perf", "work more")),
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


def longest_turn(daemon, clock="cpu"):
    text, name = daemon.get("/metrics?scope=self").decode(), {"cpu": "loop_cpu", "wall": "loop_lag"}[clock]
    return float(next(line for line in text.splitlines() if line.startswith(f"perfmond_{name}_seconds")).split()[1])


def config(cgroups, engine, groups):
    return CONFIG.format(max=cgroups + 100, engine=engine, groups=groups, many=MANY)


def measure_answers(binary, cgroups):
    daemons = [bench.Daemon(binary, config(cgroups, "auto", GROUPS)) for _ in KINDS]
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


def reload(daemon, text):
    """Returns the seconds until the new config is in force, and the CPU seconds that it takes of the loop."""
    daemon.file.seek(0)
    daemon.file.truncate()
    daemon.file.write(text)
    daemon.file.flush()
    before, start = loop_seconds(daemon), time.monotonic()
    daemon.process.send_signal(signal.SIGHUP)
    for line in daemon.process.stderr:
        if "reloaded" in line:
            break
    took = time.monotonic() - start
    time.sleep(2)  # cgroups' events are opened bit by bit
    return took, loop_seconds(daemon) - before


def print_reload(daemon, cgroups, name, quiet, took, used):
    print(f"{cgroups} cgroups, a reload {name}: in force after {1e3 * took:.0f} ms; the loop's longest turn "
          f"{1e3 * longest_turn(daemon):.1f} ms of CPU time, {1e3 * longest_turn(daemon, 'wall'):.0f} ms in all "
          f"(before it: {1e3 * quiet:.1f} ms of CPU time); {1e3 * used:.0f} ms of CPU time until 2 s after it",
          flush=True)


PARANOID = pathlib.Path("/proc/sys/kernel/perf_event_paranoid")


def measure_sysctl(daemon, cgroups, name):
    before, quiet, cpu, start = PARANOID.read_text(), longest_turn(daemon), loop_seconds(daemon), time.monotonic()
    PARANOID.write_text("1" if before.strip() != "1" else "2")
    try:
        for line in daemon.process.stderr:
            if "perf_event_paranoid" in line:
                break
        took = time.monotonic() - start
        time.sleep(2)
        print_reload(daemon, cgroups, name, quiet, took, loop_seconds(daemon) - cpu)
    finally:
        PARANOID.write_text(before)


def measure_reloads(binary, cgroups):
    daemons = [bench.Daemon(binary, config(cgroups, *before)) for _, before, _ in RELOADS]
    time.sleep(70)
    for daemon, (name, _, after) in zip(daemons, RELOADS):
        quiet = longest_turn(daemon)
        took, used = reload(daemon, config(cgroups, *after))
        print_reload(daemon, cgroups, name, quiet, took, used)
        daemon.stop()
    for name, engine in ("by a sysctl", "auto"), ("by a sysctl, perf", "perf"):
        daemon = bench.Daemon(binary, config(cgroups, engine, "work"))
        time.sleep(70)
        measure_sysctl(daemon, cgroups, name)
        daemon.stop()


def start(binary, cgroups, engine, name, passed):
    begin = time.monotonic()
    daemon = bench.Daemon(binary, config(cgroups, engine, "work"), **passed)
    threading.Thread(target=daemon.process.stderr.read, daemon=True).start()
    answers = time.monotonic() - begin
    while daemon.metric('perfmond_cgroups{state="waiting"}'):
        time.sleep(0.01)
    took = time.monotonic() - begin
    time.sleep(2)
    print(f"{cgroups} cgroups, a start {name}: answers after {1e3 * answers:.0f} ms, all are counted after "
          f"{1e3 * took:.0f} ms; the loop's longest turn {1e3 * longest_turn(daemon):.1f} ms of CPU time, "
          f"{1e3 * longest_turn(daemon, 'wall'):.0f} ms in all", flush=True)
    # Not stop(), which reads what a thread reads here.
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.wait()


def measure_starts(binary, cgroups):
    for engine in "auto", "perf":
        with tempfile.TemporaryDirectory() as folder:
            store = FdStore(pathlib.Path(folder))
            os.environ["NOTIFY_SOCKET"] = store.address
            start(binary, cgroups, engine, engine, {})
            store.settle()
            start(binary, cgroups, engine, f"{engine}, from the fd store", passing(store.shuffled()))
            del os.environ["NOTIFY_SOCKET"]
            store.close()


def main():
    parts = {"answers": measure_answers, "reloads": measure_reloads, "starts": measure_starts}
    asked = [word for word in sys.argv[2:] if word in parts] or list(parts)
    sizes = [int(word) for word in sys.argv[2:] if word not in parts] or [1000]
    os.makedirs(ROOT, exist_ok=True)
    try:
        for cgroups in sizes:
            for i in range(cgroups):
                os.makedirs(f"{ROOT}/c{i}", exist_ok=True)
            for part in asked:
                parts[part](sys.argv[1], cgroups)
    finally:
        for name in os.listdir(ROOT):
            if os.path.isdir(f"{ROOT}/{name}"):
                os.rmdir(f"{ROOT}/{name}")
        os.rmdir(ROOT)


if __name__ == "__main__":
    main()
