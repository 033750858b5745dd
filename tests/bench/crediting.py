#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What counting cgroups costs, by both engines: each switch between two cgroups, and each reading of many.

usage: crediting.py FOLDER [switches|readings]

FOLDER is the build folder. Two processes in two cgroups, three levels deep, pass a byte on one CPU: ns a switch with
nothing counted, with CPUs only, with each engine, with perf stat, and with a program that only reads the counters at
each switch (bench-floor.c). All in turn, in one run, with software events, and with hardware events where there is a
PMU. The engines are compared without a budget for switches; the default budget is measured by the mean of all rounds,
since it lets hardware events be read in some of them only. Then readings and scrapes of 10 to 10,000 cgroups that have
all run, and the daemon's CPU, as it publishes them itself. Prints figures and judges nothing.
"""

import contextlib
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time

from bench import ROOT, Daemon, cgroup_mount

HARDWARE = "cycles, instructions, cache-misses, branch-misses"
SOFTWARE = "task-clock, context-switches, cpu-migrations, page-faults, major-faults"
KINDS = {"software": SOFTWARE, "hardware": HARDWARE, "default config": None}

PASSES, ROUNDS, TURNS = 10000, 8, 3
SIZES = (10, 100, 1000, 10000)

CONFIG = """
[daemon]
interval = 1s
switch_budget = {budget}
[web]
listen = 127.0.0.1:0
[cpu]
groups = {cpu}
[cgroup]
engine = {engine}
groups = {cgroup}
include = {include}
max = 12000
{groups}
"""


def config(kind, engine, include="**", budget="100%"):
    """engine None: CPUs only."""
    groups = "core tasks" if kind == "default config" else "bench"
    section = "" if kind == "default config" else f'[group "bench"]\nevents = {KINDS[kind]}\n'
    return CONFIG.format(cpu=groups, cgroup=groups if engine else "", engine=engine or "perf", include=include,
                         groups=section, budget=budget)


def has_pmu(folder):
    """Can the hardware events be opened?"""
    return subprocess.run([f"{folder}/tests/bench/bench-floor", "hardware"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


# --- switches

@contextlib.contextmanager
def nothing():
    yield


@contextlib.contextmanager
def floor(folder, kind):
    with subprocess.Popen([f"{folder}/tests/bench/bench-floor", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as process:
        if process.stdout.readline() != "reading\n":
            sys.exit("crediting.py: bench-floor did not start")
        yield
        process.stdin.close()


@contextlib.contextmanager
def counting(folder, text):
    """The daemon, when it counts all cgroups there are."""
    daemon = Daemon(f"{folder}/perfmond", text)
    if "engine = bpf" in text and b"bpf" not in daemon.get("/api/v1/status").split(b'"engine"', 1)[1][:80]:
        sys.exit("crediting.py: the engine bpf can't run here: perfmond --check says why")
    while daemon.metric('perfmond_cgroups{state="waiting"}'):
        time.sleep(0.05)
    yield daemon
    daemon.stop()


@contextlib.contextmanager
def perf_stat(kind):
    """The same events of the same cgroups, by perf stat."""
    events = KINDS[kind] or f"{HARDWARE}, {SOFTWARE}"
    top = os.path.relpath(ROOT, cgroup_mount())
    groups = ",".join(top + below for below in ("", "/pod", "/pod/a", "/pod/b"))
    with subprocess.Popen(["perf", "stat", "-a", "-e", events.replace(" ", ""), "--for-each-cgroup", groups],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        # It says nothing when it has opened all.
        time.sleep(1)
        if process.poll() is not None:
            sys.exit(f"crediting.py: perf stat: {process.stderr.read().decode()}")
        yield
        process.send_signal(signal.SIGINT)
        process.communicate()


def ways(folder, kind):
    """What is compared: a name, and what has to be done meanwhile."""
    found = {
        "nothing": nothing,
        "CPUs only": lambda: counting(folder, config(kind, None)),
        "engine perf": lambda: counting(folder, config(kind, "perf")),
        "engine bpf": lambda: counting(folder, config(kind, "bpf")),
        "its budget": lambda: counting(folder, config(kind, "bpf", budget="1%")),
    }
    if shutil.which("perf"):
        found["perf stat"] = lambda: perf_stat(kind)
    if kind != "default config":
        found["floor"] = lambda: floor(folder, kind)
    return found


def pass_bytes(folder, a, b):
    """ns a switch: the least, and the mean."""
    done = subprocess.run([f"{folder}/tests/bench/bench-switch", str(max(os.sched_getaffinity(0))),
                           f"{a}/cgroup.procs", f"{b}/cgroup.procs", str(PASSES), str(ROUNDS)], capture_output=True,
                          text=True, check=True)
    return [float(figure) for figure in done.stdout.split()]


def switches(folder):
    a, b = (f"{ROOT}/pod/{name}" for name in "ab")
    os.makedirs(a)
    os.makedirs(b)
    for kind in KINDS:
        if kind == "hardware" and not has_pmu(folder):
            print("hardware events: no PMU that counts them")
            continue
        found = {name: [] for name in ways(folder, kind)}
        # In turn, so that a change of the machine's speed is in all of them.
        for _ in range(TURNS):
            for name, way in ways(folder, kind).items():
                with way():
                    found[name].append((pass_bytes(folder, a, a)[0], *pass_bytes(folder, a, b)))
        print(f"{kind}, ns a switch (same cgroup, two cgroups, their mean; and as many times as long as with nothing):")
        figures = {name: (min(turn[0] for turn in turns), min(turn[1] for turn in turns),
                          statistics.mean(turn[2] for turn in turns)) for name, turns in found.items()}
        for name, own in figures.items():
            times = [figure / least for figure, least in zip(own, figures["nothing"])]
            print(f"  {name:12}", *(f"{figure:8.0f}" for figure in own), " ", *(f"{each:6.2f}" for each in times))
        sys.stdout.flush()
    for path in (a, b, f"{ROOT}/pod", ROOT):
        os.rmdir(path)


# --- readings

# Is told folders of cgroups, and how often to run in all of them, about once a second: has a task in each, so that each
# has something to be read. It stays in the last one while it waits.
RUNNER = """
import os, sys, time
home, times = sys.argv[1], int(sys.argv[2])
paths = sys.stdin.read().split()
for i in range(times):
    end = time.monotonic() + 1
    for path in paths:
        with open(path + "/cgroup.procs", "w") as procs:
            procs.write("0")
        time.sleep(0)
    if i < times - 1:
        time.sleep(max(0, end - time.monotonic()))
with open(home + "/cgroup.procs", "w") as procs:
    procs.write("0")
"""


def run_in_all(paths, times=1):
    with subprocess.Popen([sys.executable, "-c", RUNNER, cgroup_mount(), str(times)], stdin=subprocess.PIPE,
                          text=True) as process:
        process.communicate("\n".join(paths))


def measure(daemon, paths, seconds=10):
    """ms a reading, ms a scrape, and the share of a core, with all of the cgroups having run since the last reading."""
    readings, walls = [], []
    for _ in range(5):
        run_in_all(paths)
        time.sleep(0.12)
        before = [daemon.metric("perfmond_read_seconds_total"), daemon.metric("perfmond_reads_total")]
        run_in_all(paths)
        time.sleep(0.12)
        begin = time.perf_counter()
        daemon.get("/metrics")
        walls.append(time.perf_counter() - begin)
        after = [daemon.metric("perfmond_read_seconds_total"), daemon.metric("perfmond_reads_total")]
        readings.append((after[0] - before[0]) / max(after[1] - before[1], 1))
    cpu, begin = daemon.cpu(), time.monotonic()
    run_in_all(paths, seconds)
    share = (daemon.cpu() - cpu) / (time.monotonic() - begin)
    return 1e3 * statistics.median(readings), 1e3 * statistics.median(walls), 100 * share


def idle_reading(daemon, seconds=3):
    """ms a reading while nothing runs in the cgroups. After they have run, each is read twice."""
    time.sleep(2.2)
    before = daemon.metric("perfmond_read_seconds_total"), daemon.metric("perfmond_reads_total")
    time.sleep(seconds)
    after = daemon.metric("perfmond_read_seconds_total"), daemon.metric("perfmond_reads_total")
    return 1e3 * (after[0] - before[0]) / (after[1] - before[1])


def readings(folder):
    print("cgroups, all of which run between two readings: ms a reading (idle: none runs), ms a scrape, % of a core at "
          "1 s, open events, MB resident")
    for engine, sizes in (("bpf", SIZES), ("perf", SIZES[:-1])):
        for nr in sizes:
            paths = [f"{ROOT}/s{i % 10}/c{i}" for i in range(nr)]
            for path in paths:
                os.makedirs(path)
            with counting(folder, config("software", engine, "/perfmond-bench/**")) as daemon:
                reading, wall, share = measure(daemon, paths)
                print(f"  {engine:4} {nr:6}: {reading:7.2f} ({idle_reading(daemon):.2f} idle) {wall:7.1f} {share:6.2f} "
                      f"{daemon.metric('perfmond_open_events'):6.0f} {daemon.resident() / 1e6:6.1f}", flush=True)
            for path in paths:
                os.rmdir(path)
            for i in range(min(10, nr)):
                os.rmdir(f"{ROOT}/s{i}")
            os.rmdir(ROOT)


def main():
    folder, *parts = sys.argv[1:]
    if not os.path.exists(f"{folder}/tests/bench/bench-floor"):
        print("this build has no BPF engine to compare")
        return
    if not parts or "switches" in parts:
        switches(folder)
    if not parts or "readings" in parts:
        readings(folder)


if __name__ == "__main__":
    main()
