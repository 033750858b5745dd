# SPDX-License-Identifier: MIT
"""Time that does not go on as usual: a daemon that was stopped, a clock that was set, a machine that has just been
started or has been up for long. No rate is wrong, no counter loses anything, and times are those that were shown.

Rates are those of intervals that a counter of the tests' own has followed (counter.Intervals). On a busy machine it
takes longer until there is one of which enough is known.
"""

import collections
import math
import os
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

from counter import Counter, Intervals, Recorder
from fdstore import WENT_ON
from harness import FRESH, PATIENCE, Delta, Repeated, Stalls, until
from machine import needs
from profiling import ask

pytestmark = pytest.mark.once

SWITCHES, FAULTS = "perf_cgroup_context_switches_total", "perf_cgroup_page_faults_total"
HOUR = 3600
YEAR = 365 * 24 * HOUR


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


def rates(daemon, keys=("rate",)):
    """All rates there are, of CPUs and cgroups."""
    snapshot = daemon.json("/api/v1/snapshot")
    found = [event[key] for row in snapshot["cpus"] + snapshot["cgroups"] for event in row["events"].values()
             for key in keys]
    return [value for value in found if value is not None]


def follow(intervals, nr=1, seconds=0):
    """For some seconds, and until so many more intervals have been compared."""
    before = len(intervals.checked)

    def are_checked():
        intervals.poll()
        return len(intervals.checked) >= before + nr

    intervals.follow(seconds)
    until(are_checked, f"{nr} more intervals are compared", 4 * PATIENCE)


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
def test_a_stop_of_seconds_is_one_long_interval(perfmond, cgroups, work, cpus):
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


ALL_RATES = ("rate", "rate_1m", "rate_5m", "rate_peak")


@pytest.mark.deep
@pytest.mark.alone
def test_averages_are_right_after_a_stop_of_more_than_a_minute(perfmond, cgroups, work, cpus):
    group = cgroups.make("load")
    helper = work(group, cpus[-1])
    daemon = perfmond(f"[cpu]\ngroups = work\n[cgroup]\ngroups = work\ninclude = {cgroups.label}/**\n"
                      '[group "work"]\nevents = page-faults, context-switches\n')
    start, reference = daemon.fresh(), Counter(group.path)
    load = Repeated(helper, "ticks 1000 500")
    intervals = Intervals(daemon, group, 1)
    follow(intervals, seconds=4)

    until(lambda: intervals.stop_daemon(61), "the interval in which it is stopped is compared", 300)
    # An interval of a minute is most of the minute's average, and none was a multiple of it.
    after, stopped = intervals.row(), intervals.rate
    known = rates(daemon, ALL_RATES)
    assert intervals.checked[-1] >= 61
    assert 0.6 * stopped <= after["rate_1m"] <= 2 * max(intervals.rates)
    assert 0 < after["rate_5m"] <= 2 * max(intervals.rates)
    assert 0.999 * stopped <= after["rate_peak"] <= 2 * max(intervals.rates)

    follow(intervals, seconds=4)  # the intervals behind it, too
    known += rates(daemon, ALL_RATES)
    load.end()
    helper.wait_asleep()
    end = daemon.fresh()
    assert known and all(math.isfinite(value) and value >= 0 for value in known)
    counted = reference.read()
    for event in ("page_faults", "context_switches"):
        assert Delta(start, end).of(f"perf_cgroup_{event}_total", cgroup=group.label) == counted[event], event
    assert counted["context_switches"] > 10000
    assert [end.value(f"perfmond_{what}_total") for what in ("read_errors", "readings_refused")] == [0, 0]


@pytest.mark.deep
@pytest.mark.alone
def test_ticks_missed_in_a_stop_are_not_made_up_for(perfmond, cgroups):
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
    waker = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -CONT {daemon.pid}"])
    try:
        assert daemon.metrics().value(FAULTS, cgroup=load.group.label) - before == 4000
    finally:
        waker.wait(PATIENCE)


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

/* Seconds that the clock of the day is ahead, and that the machine has slept; the file's first 16 bytes. */
static volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void)
{
	int fd = open(getenv("FAKE_CLOCK"), O_RDONLY | O_CLOEXEC);

	ahead = mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0);
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
		ts->tv_sec += ahead[0] + ahead[1];
	if (r == 0 && ahead && clock == CLOCK_BOOTTIME)
		ts->tv_sec += ahead[1];
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
    """The clock of the day, and the one since boot, which goes on in sleep; for the daemon alone."""

    def __init__(self, folder):
        self.path, library = folder / "ahead", folder / "clock.so"
        (folder / "clock.c").write_text(FAKE_CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, folder / "clock.c", "-ldl"], check=True)
        self.ahead = 0
        self.step(0)
        # A sanitizer wants to be first.
        asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        self.env = {"LD_PRELOAD": str(library), "FAKE_CLOCK": str(self.path), "ASAN_OPTIONS": asan}

    def step(self, seconds, slept=0):
        """Sets it to so many seconds ahead of the real one, of which the machine was asleep for some."""
        self.ahead = seconds
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("qq", seconds - slept, slept))

    def now(self):
        return time.time() + self.ahead


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path)


def test_events_are_tried_again_after_a_suspend(perfmond, cgroups, clock):
    """They may fire no more where the machine goes on. Totals go on, and a clock that is set tries nothing."""
    daemon = perfmond(config(cgroups), env=clock.env)
    before = daemon.fresh().value("perf_cpu_page_faults_total", cpu="0")
    clock.step(HOUR)
    daemon.fresh()
    assert "suspended" not in daemon.log
    clock.step(2 * HOUR, slept=HOUR)
    daemon.wait_log("the machine was suspended: tried the events again")
    assert daemon.fresh().value("perf_cpu_page_faults_total", cpu="0") >= before
    assert daemon.log.count("was suspended") == 1


Uptime = collections.namedtuple("Uptime", "asked value answered")


def uptime(daemon):
    return Uptime(time.monotonic(), daemon.json("/api/v1/status")["uptime_seconds"], time.monotonic())


@pytest.mark.parametrize("steps", [[HOUR, -24 * HOUR],
                                   pytest.param([HOUR, 0, -HOUR, -24 * HOUR, 24 * HOUR], marks=pytest.mark.deep)],
                         ids=["twice", "often"])
def test_a_clock_that_is_set_changes_nothing(perfmond, cgroups, work, cpus, clock, steps):
    """There and back: rates, counters, uptime, what lingers and the ticks themselves take no notice."""
    load, gone = Load(cgroups, work, cpus[-1]), cgroups.make("gone")
    clock.step(-2 * HOUR)
    begin = time.time() - 2 * HOUR
    daemon = perfmond(config(cgroups, interval="500ms", linger="10min"), env=clock.env)
    start = daemon.fresh()
    started = start.value("perfmond_start_time_seconds")
    assert begin - 1 <= started <= time.time() - 2 * HOUR + 1, "it believes the clock it is given"
    gone.remove()
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="lingering") == 1, "it lingers")

    load.begin()
    intervals, last = Intervals(daemon, load.group, 0.5), daemon.metrics()
    for step in steps:
        reads = daemon.metrics().value("perfmond_reads_total")
        clock.step(step)
        first = uptime(daemon)
        # One that ends in the step, and one after it.
        follow(intervals, 2)
        second = uptime(daemon)
        # Either is up to 100 ms old.
        assert second.asked - first.answered - FRESH <= second.value - first.value
        assert second.value - first.value <= second.answered - first.asked + FRESH
        now = until(lambda reads=reads: (m := daemon.metrics()).value("perfmond_reads_total") - reads >= 3 and m,
                    "ticks go on")
        fallen = [key for key, value in last.samples.items() if key[0].endswith("_total") and now.samples[key] < value]
        assert not fallen
        assert now.value("perfmond_start_time_seconds") == started
        assert now.value("perfmond_cgroups", state="lingering") == 1
        assert now.get(FAULTS, cgroup=gone.label) == 0
        last = now
    switches = load.end()
    assert Delta(start, daemon.fresh()).of(SWITCHES, cgroup=load.group.label) == switches


@pytest.mark.parametrize("step", [-HOUR, pytest.param(20 * YEAR, marks=pytest.mark.deep),
                                  pytest.param(-20 * YEAR, marks=pytest.mark.deep)],
                         ids=["back", "years forward", "years back"])
def test_a_clock_that_is_set_while_no_daemon_runs_changes_nothing(service, cgroups, work, clock, step):
    """Over a stop and a kill: totals go on, with all that was counted meanwhile, of which no slot of the history has
    any; and a cgroup that is gone lingers on."""
    service.env.update(clock.env)
    kept, gone = cgroups.make("kept"), cgroups.make("gone")
    helper = work(kept)
    service.start(config(cgroups, interval="200ms", linger="10min"))
    until(lambda: service.fresh().get(FAULTS, cgroup=gone.label) is not None, "it is counted")
    gone.remove()
    until(lambda: service.fresh().value("perfmond_cgroups", state="lingering") == 1, "it lingers")
    faults, before = helper.faults(), service.fresh().value(FAULTS, cgroup=kept.label)
    for end in (service.stop, service.kill):
        service.wait_kept()
        end()
        clock.step(clock.ahead + step)
        helper.do("faults 1000")
        service.start()
        assert re.search(WENT_ON, service.daemon.log), service.daemon.log
        since = helper.faults()
        helper.do("faults 10")
        wait_slots(service.daemon, 2)
        after = service.fresh()
        assert after.value(FAULTS, cgroup=kept.label) - before == helper.faults() - faults
        assert after.value("perfmond_cgroups", state="lingering") == 1
        past = service.daemon.json("/api/v1/history", cgroup=kept.label, event="page_faults")
        rates = past["cgroups"][0]["events"]["page_faults"]
        assert sum((rate or 0) * seconds for rate, seconds in zip(rates, past["seconds"])) < helper.faults() - since + 1
        assert all(abs(at - clock.now()) < 60 for at in past["times"])


def test_lingering_ends_though_the_clock_was_set_back(perfmond, cgroups, clock):
    """Where the machine is too busy to see it linger, another cgroup is removed."""
    daemon = perfmond(config(cgroups, linger="2s"), env=clock.env)

    def nr_lingering():
        return daemon.metrics().value("perfmond_cgroups", state="lingering")

    def is_set_back_while_one_lingers():
        clock.step(0)
        gone = cgroups.make("gone")
        until(lambda: daemon.metrics().value("perfmond_cgroups", state="counted") == 1, "it is counted")
        gone.remove()
        until(lambda: daemon.metrics().value("perfmond_cgroups", state="counted") == 0, "its end is seen")
        clock.step(-HOUR)
        return nr_lingering() == 1

    until(is_set_back_while_one_lingers, "the clock is set back while one lingers", 4 * PATIENCE)
    until(lambda: nr_lingering() == 0, "it is gone")


def past_config(top):
    return f"""
[web]
listen = 127.0.0.1:0
[daemon]
interval = 200ms
[cpu]
groups =
[cgroup]
groups = past
include = {top.label}/*
[group "past"]
events = page-faults, context-switches, task-clock
[profiles]
enabled = yes
include = {top.label}/*
rate = 199
[capture "busy"]
when = task-clock@{top.label}/first > 0.02
before = 1s
after = 1s
every = 1s
"""


def wait_slots(daemon, nr):
    times = daemon.json("/api/v1/history")["times"]
    until(lambda: len(daemon.json("/api/v1/history")["times"]) >= min(len(times) + nr, 60), f"{nr} more slots")


class Busy:
    """A new cgroup that is busy now and then; its past and its totals."""

    def __init__(self, daemon, group, work):
        self.daemon, self.group = daemon, group
        until(lambda: self.total("task_clock_seconds") is not None, "it is counted")
        self.helper = work(group)
        self.helper.do("faults 1000")

    def begin(self):
        self.load = Repeated(self.helper, "cpu 20")

    def end(self):
        self.load.end()

        def is_quiet():
            rows = self.daemon.json("/api/v1/snapshot", cgroup=self.group.label)["cgroups"]
            rates = [row["events"].get("task_clock", {}).get("rate") for row in rows]
            return rates and rates[0] is not None and rates[0] < 0.02
        until(is_quiet, "it is quiet")

    def total(self, name, fresh=False):
        metrics = self.daemon.fresh() if fresh else self.daemon.metrics()
        return metrics.get(f"perf_cgroup_{name}_total", cgroup=self.group.label)

    def weighs(self, **query):
        """The samples of the last slots, when all of them are counted."""
        def answer():
            tree = ask(self.daemon, cgroup=self.group.label, weights="counted", **query)
            return tree if tree["weights"] == "counted" and not tree["uncounted"] and tree["samples"] else None
        return until(answer, "a stretch in which it is counted", 2 * PATIENCE)

    def slots(self, event):
        past = self.daemon.json("/api/v1/history", cgroup=self.group.label, event=event)
        row = past["cgroups"][0]["events"][event] if past["cgroups"] else [None] * len(past["times"])
        return [(time, seconds, rate) for time, seconds, rate in zip(past["times"], past["seconds"], row)]

    def adds_up(self):
        """Do its slots have what it has counted? They never have more."""
        total = self.total("page_faults", fresh=True)
        counted = sum(rate * seconds for _, seconds, rate in self.slots("page_faults") if rate is not None)
        assert counted <= total * 1.001, "a whole total is no rate"
        return counted == pytest.approx(total, rel=0.001)


@pytest.mark.parametrize("step", [-HOUR, HOUR, pytest.param(-5, marks=pytest.mark.deep),
                                  pytest.param(-20 * YEAR, marks=pytest.mark.deep),
                                  pytest.param(20 * YEAR, marks=pytest.mark.deep)],
                         ids=["back", "forward", "a bit back", "years back", "years forward"])
def test_the_past_has_no_wrong_rate_after_the_clock_was_set(perfmond, cgroups, work, clock, step):
    """The history has what was counted, of cgroups from before and after the step; so have weights of profiles; and
    rules go on firing. Also after a reload, and back again."""
    config = past_config(cgroups)
    daemon = perfmond(config, env=clock.env)

    def captured():
        return daemon.metrics().value("perfmond_captures_total", capture="busy")

    wait_slots(daemon, 1)
    first = Busy(daemon, cgroups.make("first"), work)
    groups = [first]
    for i, ahead in enumerate((0, step, step, 0)):
        clock.step(ahead)
        if i == 2:
            daemon.reload(config)
        before = captured()
        groups.append(new := Busy(daemon, cgroups.make(f"new{i}"), work))
        for group in (first, new):
            group.begin()
        until(lambda before=before: captured() > before, "the rule fires", 4 * PATIENCE)
        wait_slots(daemon, 2)
        for group in (first, new):
            weight, used = group.weighs(**{"from": "-5s"})["total"], group.total("task_clock_seconds", fresh=True)
            assert 0 < weight <= used * 1.001, "samples weigh no more than was counted"
            group.end()
    until(lambda: all(group.adds_up() for group in groups), "all slots add up to the totals")


def answer_to(daemon, path="/api/v1/profile", **query):
    """Of a profile or a capture: the samples of each cgroup, and the document's times."""
    tree = ask(daemon, path, by="cgroup", **query)
    nodes = tree["nodes"]
    cgroups = {name: nr for name, kind, nr in zip(nodes["name"], nodes["kind"], nodes["samples"]) if kind == "cgroup"}
    return cgroups, tree["from"], tree["to"]


@pytest.mark.parametrize("step, slept", [(-HOUR, 0), (HOUR, HOUR), pytest.param(HOUR, 0, marks=pytest.mark.deep),
                                         pytest.param(-20 * YEAR, 0, marks=pytest.mark.deep),
                                         pytest.param(20 * YEAR, HOUR, marks=pytest.mark.deep)],
                         ids=["back", "asleep", "forward", "years back", "years forward, asleep"])
def test_times_are_those_that_the_clock_showed(perfmond, cgroups, work, clock, step, slept):
    """In the history, in profiles and in captures: also after the clock was set, or the machine slept; and questions
    find what was at that time."""
    daemon = perfmond(past_config(cgroups).replace("after = 1s", "after = 3s"), env=clock.env)
    wait_slots(daemon, 2)
    began = clock.now()
    first = Busy(daemon, cgroups.make("first"), work)
    first.begin()
    capture = until(lambda: daemon.json("/api/v1/captures")["captures"], "the rule fires", 4 * PATIENCE)[0]
    until(lambda: answer_to(daemon)[0].get(first.group.label, 0) >= 5, "there are samples", 2 * PATIENCE)
    stopped = clock.now()
    clock.step(step, slept)
    stepped = clock.now()
    # The daemon looks at the clocks when it reads.
    wait_slots(daemon, 2)
    first.end()
    second = Busy(daemon, cgroups.make("second"), work)
    second_began = clock.now()
    second.begin()
    until(lambda: answer_to(daemon)[0].get(second.group.label, 0) >= 5, "there are samples", 2 * PATIENCE)
    second.end()
    wait_slots(daemon, 2)

    def is_before(moment):
        return began - 10 < moment < stopped + 1

    def is_after(moment):
        return stepped - 1 < moment < clock.now() + 1
    # The history: each slot is of one of the two times, in their order.
    history = daemon.json("/api/v1/history")
    sides = [is_before(time) for time in history["times"]]
    assert sides == sorted(sides, reverse=True) and {True, False} == set(sides)
    assert all(is_after(time) for time, side in zip(history["times"], sides) if not side)
    assert history["timestamp"] == history["times"][-1]
    assert all(length < 60 for length in history["seconds"]), "nothing is longer than it was"
    since = daemon.json("/api/v1/history", **{"from": stepped})["times"]
    assert since and all(is_after(time) for time in since)
    until_then = daemon.json("/api/v1/history", to=stopped)["times"]
    assert until_then and all(is_before(time) for time in until_then)
    samples = re.findall(r"^(perf\S+) \S+ (\S+)$", daemon.get("/api/v1/history", headers={
        "Accept": "application/openmetrics-text"}).text, re.M)
    assert samples
    for series in {name for name, _ in samples}:
        times = [float(at) for name, at in samples if name == series]
        assert times == sorted(set(times)), "promtool takes no time that goes back"
    # Profiles.
    found, start, end = answer_to(daemon, **{"from": began, "to": stopped})
    assert found.get(first.group.label) and second.group.label not in found and is_before(start) and is_before(end)
    found, start, end = answer_to(daemon, **{"from": second_began, "to": clock.now()})
    assert found.get(second.group.label) and first.group.label not in found and is_after(start) and is_after(end)
    found, start, end = answer_to(daemon, **{"from": began})
    assert {first.group.label, second.group.label} <= set(found) and is_before(start) and is_after(end)
    # The capture, which was running then.
    capture = until(lambda: [one for one in daemon.json("/api/v1/captures")["captures"] if one["state"] == "kept" and
                             one["id"] == capture["id"]], "it is kept", 4 * PATIENCE)[0]
    assert is_before(capture["time"]) and is_before(capture["from"]) and is_after(capture["to"])
    assert all(is_before(point["time"]) or is_after(point["time"]) for point in capture["values"])
    assert any(point["rate"] for point in capture["values"]), capture
    path = f"/api/v1/captures/{capture['id']}"
    found, start, end = answer_to(daemon, path, to=stopped)
    assert found.get(first.group.label) and is_before(start) and is_before(end)
    found, start, end = answer_to(daemon, path, **{"from": stepped})
    assert is_after(start) and is_after(end)


def check_slots(daemon, group, recorder, shift):
    """Each slot has what the tests' own counter has counted in it, if a reading may be off by so many seconds. The wall
    clock is right again at the last slot; before that, each slot ends where the next one begins."""
    past = daemon.json("/api/v1/history", cgroup=group.label, event="page_faults")
    rates, end, checked = past["cgroups"][0]["events"]["page_faults"], past["times"][-1], 0

    until(lambda: recorder.rows[-1].before >= end + shift, "the tests' counter was read after the last slot")
    for seconds, rate in zip(reversed(past["seconds"]), reversed(rates)):
        begin = end - seconds
        if rate is not None and recorder.rows[0].after < begin - shift:
            before, after = (recorder.between("page_faults", at - shift, at + shift) for at in (begin, end))
            assert after[0] - before[1] - 1 <= rate * seconds <= after[1] - before[0] + 1, (begin, end, rate)
            checked += 1
        end = begin
    return checked


@pytest.mark.deep
@pytest.mark.alone
def test_under_a_moved_clock_all_is_as_beside_it(perfmond, cgroups, work, clock):
    """Two daemons count one cgroup, and the clock of one is set again and again: both have the same sum, which is that
    of a counter of the tests' own, and no slot of either differs from it by more than the shift of a reading."""
    config = past_config(cgroups)
    moved, beside = perfmond(config, env=clock.env), perfmond(config)
    group, daemons = cgroups.make("first"), (moved, beside)
    counter = Counter(group.path)
    recorder, stalls = Recorder(counter), Stalls(work)
    for daemon in daemons:
        wait_slots(daemon, 1)
        until(lambda d=daemon: d.metrics().get(FAULTS, cgroup=group.label) is not None, "it is counted")
    helper = work(group)
    steps = [(-HOUR, 0), (HOUR, 0), (0, 0), (-5, 0), (5, 0), (20 * YEAR, 0), (-20 * YEAR, 0), (HOUR, HOUR),
             (-HOUR, HOUR), (2 * HOUR, 2 * HOUR), (-YEAR, 2 * HOUR), (2 * HOUR, 2 * HOUR)]
    for i, (ahead, slept) in enumerate(steps * 2):
        clock.step(ahead, max(slept, 0 if i < len(steps) else 2 * HOUR))
        if i == len(steps):
            moved.reload(config)
        end = time.monotonic() + 1.7
        while time.monotonic() < end:
            helper.do("faults 20")
            time.sleep(0.01)
    # As it was, but for the sleep.
    clock.step(0, 2 * HOUR)
    helper.wait_asleep()
    counted = counter.read()["page_faults"]
    for daemon in daemons:
        wait_slots(daemon, 2)

        def adds_up(daemon=daemon):
            past = daemon.json("/api/v1/history", cgroup=group.label, event="page_faults")
            rates = past["cgroups"][0]["events"]["page_faults"]
            total = sum(rate * seconds for rate, seconds in zip(rates, past["seconds"]) if rate is not None)
            assert daemon.fresh().value(FAULTS, cgroup=group.label) == counted > 10000
            return total == pytest.approx(counted, rel=1e-4)
        until(adds_up, "the slots have the sum")
    shift = 0.1 + stalls.end()
    assert [check_slots(daemon, group, recorder, shift) >= 20 for daemon in daemons] == [True, True]
    recorder.stop()


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


@needs("time-namespace")
@pytest.mark.parametrize("up_for", [0, pytest.param(3, marks=pytest.mark.deep),
                                    pytest.param(10 * 365 * 24 * HOUR, marks=pytest.mark.deep), 100 * 365 * 24 * HOUR],
                         ids=["just started", "a moment", "ten years", "a hundred years"])
def test_counts_and_rates_are_right_however_long_the_machine_is_up(perfmond, cgroups, work, cpus, up_for):
    """A daemon that is started so many seconds after boot, by its clocks."""
    load = Load(cgroups, work, cpus[-1])
    # Not below 0, also of the clock that is ahead of the other.
    offset = up_for - int(time.clock_gettime(time.CLOCK_MONOTONIC))
    prefix = [sys.executable, "-c", IN_TIME_NAMESPACE, str(offset)]
    started, started_at = time.monotonic(), time.time()
    daemon = perfmond(config(cgroups, interval="500ms", linger="1s"), prefix=prefix)
    start = daemon.fresh()
    gone = cgroups.make("gone")
    load.begin()
    until(lambda: daemon.metrics().get(FAULTS, cgroup=gone.label) is not None, "a new one is counted")
    gone.remove()
    follow(Intervals(daemon, load.group, 0.5), 2)
    until(lambda: daemon.metrics().get(FAULTS, cgroup=gone.label) is None, "what lingered is gone")
    switches = load.end()
    end = daemon.fresh()

    assert Delta(start, end).of(SWITCHES, cgroup=load.group.label) == switches
    elapsed = time.monotonic() - started
    assert 0 < end.value("perfmond_start_time_seconds") - started_at + 1 <= elapsed + 2
    assert end.value("perfmond_reads_total") <= end.value("perfmond_scrapes_total") + elapsed / 0.5 + 3
    assert 0 < daemon.json("/api/v1/status")["uptime_seconds"] <= time.monotonic() - started
    until(lambda: daemon.metrics().value("perfmond_reads_total") >= 5, "ticks go on")
