#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What profiles cost, beside perf record -a -g at the same rates, in turn, on the same load.

usage: profiles.py PERFMOND [SECONDS]

One busy program on each CPU, and one that starts short programs all the time. For each rate: the CPU time of the
daemon's own loop and of its children that name functions, with profiles and without, per second of the load; the same
of perf record, which writes to a file and names nothing; and the memory of both. Prints figures and judges nothing.
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time

from bench import Daemon

RATES = (19, 49, 99)
SETTLE_S = 15

CONFIG = """
[web]
listen = 127.0.0.1:0
[profiles]
enabled = {enabled}
rate = {rate}
"""

BUSY = "while :; do :; done"
SHORT = "while :; do sed -n 1p /proc/self/stat >/dev/null; sleep 0.05; done"


def seconds_of(pid):
    """CPU time of a process, to the nanosecond; perf record has one thread."""
    return int(open(f"/proc/{pid}/schedstat", encoding="ascii").read().split()[0]) / 1e9


def resident(pid):
    return int(open(f"/proc/{pid}/statm", encoding="ascii").read().split()[1]) * resource.getpagesize() / 1e6


def value(daemon, name):
    found = re.search(rb"^" + name.encode() + rb" (\S+)$", daemon.get("/metrics"), re.M)
    return float(found[1]) if found else 0.0


def of_daemon(binary, rate, seconds):
    """(CPU share of the process, of profiles as it publishes it, MB resident, samples per second)."""
    daemon = Daemon(binary, CONFIG.format(enabled="yes" if rate else "no", rate=rate or 19))
    time.sleep(SETTLE_S)  # the functions that were met at first have their names
    names = ("perfmond_profile_cpu_seconds_total", "perfmond_profile_samples_total", "perfmond_profile_lost_total")
    before, cpu, begun = [value(daemon, name) for name in names], daemon.cpu(), time.monotonic()
    time.sleep(seconds)
    used, took = daemon.cpu() - cpu, time.monotonic() - begun
    own, samples, lost = (value(daemon, name) - old for name, old in zip(names, before))
    memory = daemon.resident() / 1e6
    daemon.stop()
    return used / took, own / took, memory, samples / took, lost


def of_perf(rate, seconds):
    """(CPU share, MB resident, samples per second)."""
    with tempfile.NamedTemporaryFile(suffix=".data") as data:
        command = ["perf", "record", "-q", "-a", "-F", str(rate), "-g", "-e", "cpu-clock", "-o", data.name]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(SETTLE_S)
        cpu, begun = seconds_of(process.pid), time.monotonic()
        time.sleep(seconds)
        used, took, memory = seconds_of(process.pid) - cpu, time.monotonic() - begun, resident(process.pid)
        process.send_signal(2)
        process.wait()
        dump = subprocess.run(["perf", "script", "-G", "-F", "tid,time", "-i", data.name], capture_output=True,
                              text=True, check=False).stdout
    return used / took, memory, len(dump.splitlines()) / (took + SETTLE_S)


def main():
    binary, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 20
    scripts = [BUSY] * len(os.sched_getaffinity(0)) + [SHORT]
    load = [subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL) for script in scripts]
    try:
        base, _, memory, _, _ = of_daemon(binary, 0, seconds)
        print(f"without profiles: {100 * base:.3f} % of a CPU, {memory:.1f} MB resident", flush=True)
        for rate in RATES:
            used, own, memory, samples, lost = of_daemon(binary, rate, seconds)
            theirs, their_memory, their_samples = of_perf(rate, seconds)
            print(f"{rate} Hz: perfmond's profiles {100 * own:.3f} % of a CPU by its own figures, "
                  f"{100 * (used - base):.3f} % more than without, {memory:.1f} MB resident in all, "
                  f"{samples:.0f} samples per second, {lost:.0f} lost; perf record -a -F {rate} -g: "
                  f"{100 * theirs:.3f} %, {their_memory:.1f} MB, {their_samples:.0f} samples per second; "
                  f"ratio {own / theirs if theirs else float('inf'):.2f}", flush=True)
    finally:
        for process in load:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
