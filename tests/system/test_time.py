# SPDX-License-Identifier: MIT
"""Time that does not go on as usual: a daemon that was stopped, a clock that was set, a machine that has just been
started or has been up for long. No rate is wrong, no counter loses anything.
"""

import collections
import math
import os
import signal
import struct
import subprocess
import sys
import time

import pytest

from counter import Intervals
from harness import FRESH, PATIENCE, Delta, Repeated, until

pytestmark = pytest.mark.once

SWITCHES, FAULTS = "perf_cgroup_context_switches_total", "perf_cgroup_page_faults_total"
HOUR = 3600


def config(top, interval="200ms", linger="1min"):
    return f"""
[daemon]
interval = {interval}
[cpu]
groups = work
[cgroup]
groups = work
include = {top.label}/**
linger = {linger}
[group "work"]
events = page-faults, context-switches
"""


def rates(daemon):
    """All rates there are, of CPUs and cgroups."""
    snapshot = daemon.json("/api/v1/snapshot")
    return [event["rate"] for row in snapshot["cpus"] + snapshot["cgroups"] for event in row["events"].values()
            if event["rate"] is not None]


class Load:
    """Some 1,000 switches a second in a cgroup, and what the kernel has counted of them."""

    def __init__(self, cgroups, work, cpu):
        self.group = cgroups.make("load")
        self.helper = work(self.group, cpu)

    def begin(self):
        self.before = self.helper.switches()
        self.ticks = Repeated(self.helper, "ticks 1000 200")

    def end(self):
        self.ticks.end()
        return self.helper.switches() - self.before


@pytest.mark.deep
@pytest.mark.alone
def test_stopped_for_seconds(perfmond, cgroups, work, cpus):
    """As by a debugger, or while the machine is suspended: the interval was long, and its rate is over all of it."""
    load = Load(cgroups, work, cpus[-1])
    daemon = perfmond(config(cgroups, interval="500ms"))
    start = daemon.fresh()
    load.begin()
    intervals = Intervals(daemon, load.group, 0.5)
    until(lambda: intervals.follow(0.5) or intervals.checked, "an interval is compared", 4 * PATIENCE)
    until(lambda: intervals.stop_daemon(3), "the interval in which it is stopped is compared", 4 * PATIENCE)
    after = len(intervals.checked)
    assert after > 1 and intervals.checked[-1] >= 3
    all_rates = rates(daemon)
    intervals.follow(2)
    until(lambda: intervals.follow(0.5) or len(intervals.checked) > after, "those behind it, too", 4 * PATIENCE)
    all_rates += rates(daemon)
    switches = load.end()
    end = daemon.fresh()

    assert all(value >= 0 and math.isfinite(value) for value in all_rates)
    assert Delta(start, end).of(SWITCHES, cgroup=load.group.label) == switches
    assert end.value("perfmond_read_errors_total") == 0 and end.value("perfmond_readings_refused_total") == 0


@pytest.mark.deep
@pytest.mark.alone
def test_what_was_missed_is_not_made_up_for(perfmond, cgroups):
    """Twenty ticks did not happen; they don't come all at once afterwards."""
    daemon = perfmond(config(cgroups, interval="100ms"))
    start, first = time.monotonic(), daemon.metrics().value("perfmond_reads_total")
    daemon.process.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    time.sleep(2)
    before = daemon.lines.copy()
    went_on = time.monotonic()
    daemon.process.send_signal(signal.SIGCONT)
    time.sleep(1)
    reads = daemon.metrics().value("perfmond_reads_total") - first
    elapsed = stopped - start + time.monotonic() - went_on
    # Ten a second; one that it wakes up to, and one of the scrape itself.
    assert reads <= elapsed / 0.1 + 3
    until(lambda: daemon.metrics().value("perfmond_reads_total") - first >= 5, "it goes on")
    assert daemon.lines == before, "nothing to complain about"


def test_requests_made_while_it_is_stopped_are_answered_then(perfmond, cgroups, work, cpus):
    load = Load(cgroups, work, cpus[0])
    daemon = perfmond(config(cgroups, interval="1h"))
    before = daemon.fresh().value(FAULTS, cgroup=load.group.label)
    daemon.process.send_signal(signal.SIGSTOP)
    load.helper.do("faults 4000")
    waker = subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {daemon.pid}"])
    try:
        assert daemon.metrics().value(FAULTS, cgroup=load.group.label) - before == 4000
    finally:
        waker.wait(10)


# --- the clock of the day

FAKE_CLOCK = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Seconds that the clock of the day is ahead; the file's first 8 bytes. */
static volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("FAKE_CLOCK"), O_RDONLY | O_CLOEXEC);

	ahead = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	static int (*real)(clockid_t, struct timespec *);
	int r;

	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	r = real(clock, ts);
	if (r == 0 && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		ts->tv_sec += *ahead;
	return r;
}

time_t time(time_t *ret)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}

int gettimeofday(struct timeval *tv, void *tz)
{
	struct timespec ts;

	(void)tz;
	clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}
"""


class Clock:
    """The clock of the day, for the daemon alone."""

    def __init__(self, folder):
        self.path, library = folder / "ahead", folder / "clock.so"
        (folder / "clock.c").write_text(FAKE_CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c", "-ldl"], check=True)
        self.step(0)
        # A sanitizer wants to be first.
        asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        self.env = {"LD_PRELOAD": str(library), "FAKE_CLOCK": str(self.path), "ASAN_OPTIONS": asan}

    def step(self, seconds):
        """Sets it to so many seconds ahead of the real one."""
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path)


Uptime = collections.namedtuple("Uptime", "asked value answered")


def uptime(daemon):
    return Uptime(time.monotonic(), daemon.json("/api/v1/status")["uptime_seconds"], time.monotonic())


def test_the_clock_is_set(perfmond, cgroups, work, cpus, clock):
    """By an hour, there and back: rates, counters, uptime, what lingers and the ticks themselves take no notice."""
    load, gone = Load(cgroups, work, cpus[-1]), cgroups.make("gone")
    clock.step(-2 * HOUR)
    daemon = perfmond(config(cgroups, linger="10min"), env=clock.env)
    start = daemon.fresh()
    started = start.value("perfmond_start_time_seconds")
    assert started == pytest.approx(time.time() - 2 * HOUR, abs=30), "it believes the clock it is given"
    gone.remove()
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="lingering") == 1, "it lingers")

    steps = [HOUR, 0, -HOUR, -24 * HOUR, 24 * HOUR]
    load.begin()
    intervals, last = Intervals(daemon, load.group, 0.2), daemon.metrics()
    intervals.follow(0.5)
    for step in steps:
        clock.step(step)
        first, compared = uptime(daemon), len(intervals.checked)
        intervals.follow(0.8)
        second = uptime(daemon)
        # Either is up to 100 ms old.
        assert second.asked - first.answered - FRESH <= second.value - first.value
        assert second.value - first.value <= second.answered - first.asked + FRESH
        until(lambda compared=compared: intervals.follow(0.2) or len(intervals.checked) > compared,
              "an interval is compared")
        now = daemon.metrics()
        fallen = [key for key, value in last.samples.items() if key[0].endswith("_total") and now.samples[key] < value]
        assert not fallen
        assert now.value("perfmond_reads_total") - last.value("perfmond_reads_total") >= 3, "ticks go on"
        assert now.value("perfmond_start_time_seconds") == started
        assert now.value("perfmond_cgroups", state="lingering") == 1
        assert now.get(FAULTS, cgroup=gone.label) == 0
        last = now
    switches = load.end()
    assert Delta(start, daemon.fresh()).of(SWITCHES, cgroup=load.group.label) == switches


def test_what_lingers_goes_though_the_clock_was_set_back(perfmond, cgroups, clock):
    gone, linger = cgroups.make("gone"), 3
    daemon = perfmond(config(cgroups, linger=f"{linger}s"), env=clock.env)
    gone.remove()
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="lingering") == 1, "it lingers")
    clock.step(-HOUR)
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="lingering") == 0, "it is gone",
          linger + PATIENCE)


# --- the clock since boot

# A time namespace is entered by a fork. Signals are passed on, and so is the exit status.
IN_TIME_NAMESPACE = """
import ctypes, os, signal, sys
offset, command = sys.argv[1], sys.argv[2:]
if ctypes.CDLL(None, use_errno=True).unshare(0x80) != 0:
    sys.exit(77)
with open("/proc/self/timens_offsets", "w") as file:
    file.write(f"monotonic {offset} 0\\nboottime {offset} 0\\n")
pid = os.fork()
if pid == 0:
    os.execvp(command[0], command)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.parametrize("up_for", [0, 3, 10 * 365 * 24 * HOUR, 100 * 365 * 24 * HOUR],
                         ids=["just started", "a moment", "ten years", "a hundred years"])
def test_however_long_the_machine_is_up(perfmond, cgroups, work, cpus, up_for):
    """A daemon that is started so many seconds after boot, by its clocks."""
    load = Load(cgroups, work, cpus[-1])
    # Not below 0, also of the clock that is ahead of the other.
    offset = up_for - int(time.clock_gettime(time.CLOCK_MONOTONIC))
    prefix = [sys.executable, "-c", IN_TIME_NAMESPACE, str(offset)]
    if subprocess.run([*prefix, "true"], check=False).returncode:
        pytest.skip("no time namespace can be made")
    started = time.monotonic()
    daemon = perfmond(config(cgroups, linger="1s"), prefix=prefix)
    start = daemon.fresh()
    gone = cgroups.make("gone")
    load.begin()
    until(lambda: daemon.metrics().get(FAULTS, cgroup=gone.label) is not None, "a new one is counted")
    gone.remove()
    intervals = Intervals(daemon, load.group, 0.2)
    until(lambda: intervals.follow(2) or len(intervals.checked) >= 3, "intervals are compared", 20)
    until(lambda: daemon.metrics().get(FAULTS, cgroup=gone.label) is None, "what lingered is gone")
    switches = load.end()
    end = daemon.fresh()

    assert Delta(start, end).of(SWITCHES, cgroup=load.group.label) == switches
    assert 0 < daemon.json("/api/v1/status")["uptime_seconds"] < 60
    assert end.value("perfmond_start_time_seconds") == pytest.approx(time.time(), abs=60)
    assert 5 <= end.value("perfmond_reads_total") <= end.value("perfmond_scrapes_total") + \
        (time.monotonic() - started) / 0.2 + 3
