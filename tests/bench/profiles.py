#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What profiles with whole stacks cost, beside perf record --call-graph dwarf on the same load, in turn.

usage: profiles.py PERFMOND [SECONDS]

A busy program with deep stacks on each CPU, without frame pointers; and the same beside a build, which forks a lot. For
each rate: the CPU time of all processes of perfmond and of their children, with profiles and without; of perf record,
which unwinds nothing yet, and writes copies of stacks to a file; the memory of both in proportion (PSS), and what perf
writes. Then the time that a sample takes from what is sampled, with a copy and without, in pairs. Prints figures and
judges nothing.
"""

import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import Daemon

RATES = (19, 99)
SETTLE_S = 15
PAIRS = 5

CONFIG = """
[web]
listen = 127.0.0.1:0
[profiles]
enabled = {enabled}
rate = {rate}
"""

FAST = """
[profile "fast"]
event = cpu-clock
rate = 999
stack_bytes = {copy}
"""

DEEP = r"""
#include <stdlib.h>
#include <time.h>

volatile long sink;

static __attribute__((noinline)) void deep(int n)
{
	volatile char room[200];

	room[0] = 1;
	if (n)
		deep(n - 1);
	else
		for (int i = 0; i < 2000000; i++)
			sink++;
	room[1] = 1;
}

static int compare(const void *a, const void *b)
{
	for (int i = 0; i < 20000; i++)
		sink++;
	return *(const int *)a - *(const int *)b;
}

int main(void)
{
	for (;;) {
		int numbers[64];

		deep(40);
		for (int i = 0; i < 64; i++)
			numbers[i] = rand();
		qsort(numbers, 64, sizeof(int), compare);
	}
}
"""

# ns that were taken from it in interruptions of up to 50 us, and of how long: others have had the CPU in longer ones.
TAKEN = r"""
#include <alloca.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * 1000000000 + (uint64_t)at.tv_nsec;
}

int main(int argc, char **argv)
{
	size_t size = (size_t)atol(argv[1]);
	volatile char *room = alloca(size);
	uint64_t begun = now(), last = begun, end = begun + (uint64_t)atol(argv[2]) * 1000000, taken = 0, lost = 0;

	memset((char *)room, 1, size);
	while (last < end) {
		uint64_t next = now(), gap = next - last;

		last = next;
		if (gap > 50000)
			lost += gap;
		else if (gap > 500)
			taken += gap;
	}
	printf("%lu %lu\n", taken, last - begun - lost);
	return room[0] - 1;
}
"""


def family(pid):
    """It and all processes below it."""
    found = [pid]
    for each in found:
        try:
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text(encoding="ascii").split())
        except OSError:  # it has ended
            pass
    return found


def used(pids):
    """CPU time of processes, and of their children that have ended; 10 ms is the least that is told."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
            ticks += sum(map(int, fields[11:15]))
        except OSError:
            pass
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(pids):
    """MB in proportion."""
    kib = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
            kib += int(re.search(r"^Pss: +(\d+)", text, re.M)[1])
        except OSError:
            pass
    return kib / 1024


def lasting(daemon):
    """Processes of the daemon that are there all the time: itself, its keeper and its profiler."""
    found = []
    for pid in family(daemon.process.pid):
        try:
            parent = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()[1])
        except OSError:
            continue
        # The profiler's children do their work and end.
        if pid == daemon.process.pid or parent == daemon.process.pid or len(found) == 2:
            found.append(pid)
    return found[:3]


def value(daemon, name):
    found = re.findall(rb"^perfmond_" + name.encode() + rb"(?:\{[^}]*\})? (\S+)$", daemon.get("/metrics"), re.M)
    return sum(map(float, found))


def of_daemon(binary, rate, seconds):
    """(CPU share of all processes, MB of all, the same of rings, tables and what waits, samples per second, lost)."""
    daemon = Daemon(binary, CONFIG.format(enabled="yes" if rate else "no", rate=rate or 19))
    time.sleep(SETTLE_S)  # names and tables of what runs all the time are known
    pids, names = lasting(daemon), ("profile_samples_total", "profile_lost_total")
    before, cpu, begun = [value(daemon, name) for name in names], used(pids), time.monotonic()
    time.sleep(seconds)
    share, took = used(pids) - cpu, time.monotonic() - begun
    samples, lost = (value(daemon, name) - old for name, old in zip(names, before))
    sizes = [value(daemon, f"profile_{name}_bytes") / 1e6 for name in ("ring", "table", "waiting")]
    whole = memory(pids)
    daemon.stop()
    return share / took, whole, sizes, samples / took, lost


def of_perf(rate, seconds):
    """(CPU share, MB, MB written per second)."""
    with tempfile.NamedTemporaryFile(suffix=".data") as data:
        command = ["perf", "record", "-q", "-B", "-N", "-a", "-F", str(rate), "--call-graph", "dwarf,32768",
                   "-e", "cpu-clock", "-o", data.name]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            time.sleep(2)
            size, cpu, begun = os.path.getsize(data.name), used([process.pid]), time.monotonic()
            time.sleep(seconds)
            share, took, whole = used([process.pid]) - cpu, time.monotonic() - begun, memory([process.pid])
            written = os.path.getsize(data.name) - size
            process.send_signal(signal.SIGINT)
    return share / took, whole, written / took / 1e6


def of_load(binary, name, seconds):
    base, whole, *_ = of_daemon(binary, 0, seconds)
    print(f"{name}: without profiles {100 * base:.2f} % of a CPU, {whole:.1f} MB", flush=True)
    for rate in RATES:
        share, whole, sizes, samples, lost = of_daemon(binary, rate, seconds)
        theirs, their_memory, written = of_perf(rate, seconds)
        print(f"{name}, {rate} Hz: perfmond {100 * (share - base):.2f} % of a CPU more, {whole:.1f} MB, and "
              f"{sizes[0]:.1f} MB of rings ({sizes[1]:.1f} MB of tables, {sizes[2]:.1f} MB waits), "
              f"{samples:.0f} samples per second, {lost:.0f} lost; perf record {100 * theirs:.2f} %, "
              f"{their_memory:.1f} MB, writes {written:.2f} MB per second; "
              f"ratio of CPU {(share - base) / theirs if theirs else float('inf'):.2f}", flush=True)


def taken(program, room):
    """The share of time that was taken from a program that is always busy."""
    command = ["taskset", "-c", "0", program, str(room), "2000"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    gaps, all_of_it = map(int, told.stdout.split())
    return gaps / all_of_it


def of_sampled(binary, program):
    """What a copy of a stack takes from what is sampled."""
    for room in (1000, 30000):
        found = {0: [], 32768: []}
        for _ in range(PAIRS):
            for copy, shares in found.items():
                daemon = Daemon(binary, CONFIG.format(enabled="yes", rate=19) + FAST.format(copy=copy))
                time.sleep(3)
                lost = value(daemon, "profile_lost_total")
                shares.append(taken(program, room))
                lost = value(daemon, "profile_lost_total") - lost
                if lost:
                    print(f"{lost:.0f} samples were lost", flush=True)
                daemon.stop()
        each = [(with_copy - without) / 999 for without, with_copy in zip(found[0], found[32768])]
        middle = statistics.median(each)
        print(f"a copy of a stack of {room} bytes: {1e6 * middle:.2f} us a sample more (of {PAIRS} pairs: "
              f"{1e6 * min(each):.2f} to {1e6 * max(each):.2f}), {100 * 19 * middle:.4f} % of the time at 19 Hz",
              flush=True)


def main():
    binary, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 20
    with tempfile.TemporaryDirectory() as folder:
        for name, source in (("deep", DEEP), ("taken", TAKEN)):
            subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-x", "c", "-o", f"{folder}/{name}", "-"],
                           input=source, text=True, check=True)
        of_sampled(binary, f"{folder}/taken")
        (Path(folder) / "deep.c").write_text(DEEP, encoding="utf-8")
        build = f"while :; do cc -O1 -o {folder}/built {folder}/deep.c; done"
        load = [subprocess.Popen([f"{folder}/deep"], start_new_session=True) for _ in os.sched_getaffinity(0)]
        try:
            of_load(binary, "busy", seconds)
            load.append(subprocess.Popen(["sh", "-c", build], start_new_session=True))
            of_load(binary, "beside a build", seconds)
        finally:
            for process in load:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


if __name__ == "__main__":
    main()
