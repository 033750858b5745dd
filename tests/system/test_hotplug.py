# SPDX-License-Identifier: MIT
"""A CPU goes offline and comes back: its series stay as they were, go on without a reset, and nobody has to
reload; and CPUs that the config leaves out.

The kernel leaves an event of a CPU that has gone as it is, and never counts with it again; groups are taken
apart: each event is then read on its own. The helper does its
work on that CPU, on another while it is away, and on that CPU again; its page faults and switches are compared
with what the kernel has of its own.
"""

import errno
import re
from pathlib import Path

import pytest

import machine
from harness import Delta, online_cpus, run, until
from machine import needs

pytestmark = [pytest.mark.once, pytest.mark.engines]

FAULTS, SWITCHES = "perf_cgroup_page_faults_total", "perf_cgroup_context_switches_total"
CPU_FAULTS = "perf_cpu_page_faults_total"

# How soon it is seen that a CPU has gone or is back, in seconds, where nothing else runs.
SOON = 8

class Switch:
    """The last CPU that can be taken offline."""

    def __init__(self):
        paths = [(cpu, Path(f"/sys/devices/system/cpu/cpu{cpu}/online")) for cpu in online_cpus()[1:]]
        found = [(cpu, path) for cpu, path in paths if path.exists()]
        self.cpu, self.path = found[-1]
        self.label = str(self.cpu)

    def off(self):
        """Others can have made the kernel refuse that for a moment."""
        until(lambda: self._write("0"), f"CPU {self.cpu} goes offline")

    def _write(self, text):
        try:
            self.path.write_text(text)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    def on(self):
        until(lambda: self._write("1") and self.cpu in online_cpus(), "it is back")


@pytest.fixture
def switch(privileged, whole_machine):
    """The CPU is always brought back."""
    machine.require("hotplug")
    switch = Switch()
    try:
        yield switch
    finally:
        switch.on()


@pytest.fixture
def one_cpu_away(switch):
    """Before anything is started."""
    switch.off()
    return switch


def config(top, per_cpu="no", groups="work", interval="500ms", exclude="", events="page-faults, context-switches"):
    return f"""
[web]
listen = 127.0.0.1:0
[daemon]
interval = {interval}
[cpu]
groups = {groups}
{f"exclude = {exclude}" if exclude else ""}
[cgroup]
groups = work
include = {top.label}/**
per_cpu = {per_cpu}
[group "work"]
events = {events}
"""


def totals(metrics):
    """All that may not fall."""
    return {key: value for key, value in metrics.samples.items()
            if key[0].startswith(("perf_cpu_", "perf_cgroup_")) and key[0].endswith("_total")}


def assert_none_fell(before, after):
    earlier, later = totals(before), totals(after)
    assert earlier.keys() <= later.keys(), f"gone: {earlier.keys() - later.keys()}"
    assert not [(key, value, later[key]) for key, value in earlier.items() if later[key] < value]


def wait_offline(daemon, patience=None):
    until(lambda: daemon.metrics().value("perfmond_cpus_offline") == 1, "it is seen that a CPU is offline", patience)


def wait_counted_again(daemon, patience=None):
    """The moment from which on nothing is lost."""
    def counted():
        metrics, found = daemon.metrics(), daemon.json("/api/v1/cgroups")["cgroups"]
        # What is only new is opened bit by bit, and until then there is a reason.
        return metrics.value("perfmond_cpus_offline") == 0 and \
            metrics.value("perfmond_cgroups", state="waiting") == 0 and \
            not any(cgroup["reason"] for cgroup in found if cgroup["status"] == "counted")
    until(counted, "the CPU is counted again", patience)
    return daemon.fresh()


def rates_since(daemon, begin):
    """Of all cgroups, in each slot that ended later."""
    past = daemon.json(f"/api/v1/history?scope=cgroup&event=page-faults&from={begin}")
    return [rate for cgroup in past["cgroups"] for rate in cgroup["events"]["page_faults"]]


class Story:
    """A helper in a cgroup, on the CPU that will go, and all that it does, as the kernel has it."""

    def __init__(self, cgroups, work, cpu):
        self.group = cgroups.make("works")
        self.helper = work(self.group, cpu)
        self.helper.fork()
        self.faults, self.switches = self.kernel()

    def kernel(self):
        return self.helper.faults(), self.helper.switches()

    def move(self, daemon, cpu):
        """To another CPU, which can have page faults of its own, on either of them. The counters after that."""
        self.helper.do(f"pin {cpu}")
        return daemon.fresh()

    def work_on(self, cpu):
        """The page faults there were, all of them on that CPU where it has been moved there."""
        before = self.helper.faults()
        for command in (f"pin {cpu}", "faults 1000", "switches 500"):
            self.helper.do(command)
        return self.helper.faults() - before

    def done(self):
        """(page faults, switches) since it began."""
        faults, switches = self.kernel()
        return faults - self.faults, switches - self.switches

    def counted(self, before, after):
        """The same as the daemon has them, over all CPUs."""
        return tuple(sum(value for _, value in after.all(name, cgroup=self.group.label)) -
                     sum(value for _, value in before.all(name, cgroup=self.group.label))
                     for name in (FAULTS, SWITCHES))


@pytest.mark.parametrize("per_cpu, groups", [
    pytest.param("yes", "work", id="cpus too"),
    pytest.param("yes", "", id="cgroups only", marks=pytest.mark.deep),
    pytest.param("no", "work", id="cpus too, sums", marks=pytest.mark.deep),
    pytest.param("no", "", id="cgroups only, sums", marks=pytest.mark.deep)])
def test_a_cpu_that_goes_offline_and_comes_back_loses_nothing(switch, perfmond, cgroups, work, cpus, per_cpu, groups):
    story = Story(cgroups, work, switch.cpu)
    daemon = perfmond(config(cgroups, per_cpu, groups))
    story.faults, story.switches = story.kernel()
    start = daemon.fresh()
    story.work_on(switch.cpu)
    before = daemon.fresh()
    assert story.counted(start, before) == story.done()

    switch.off()
    wait_offline(daemon)
    away = daemon.fresh()
    assert not groups or away.value("perfmond_cpus") == len(cpus) - 1
    faults = story.work_on(cpus[0])
    later = daemon.fresh()
    assert_none_fell(before, away)
    assert_none_fell(away, later)
    assert story.counted(start, later) == story.done(), "nothing is lost, nothing is counted twice"
    if groups:
        assert later.value(CPU_FAULTS, cpu=switch.label) == away.value(CPU_FAULTS, cpu=switch.label)
    if per_cpu == "yes":
        assert Delta(away, later).of(FAULTS, cgroup=story.group.label, cpu=switch.label) == 0
        assert Delta(away, later).of(FAULTS, cgroup=story.group.label, cpu=str(cpus[0])) == faults >= 1000

    known = daemon.json("/api/v1/history")["timestamp"]
    switch.on()
    back = wait_counted_again(daemon)
    assert not groups or back.value("perfmond_cpus") == len(cpus)
    until(lambda: None in rates_since(daemon, known), "the interval in which it came back has no rate")
    moved = story.move(daemon, switch.cpu)
    faults = story.work_on(switch.cpu)
    end = daemon.fresh()
    assert_none_fell(later, back)
    assert_none_fell(back, end)
    assert story.counted(start, end) == story.done()
    if groups:
        assert Delta(back, end).of(CPU_FAULTS, cpu=switch.label) >= 1000
    if per_cpu == "yes":
        assert Delta(moved, end).of(FAULTS, cgroup=story.group.label, cpu=switch.label) == faults >= 1000
    assert end.value("perfmond_reloads_total") == 0
    assert {end.state("page_faults", scope) for scope in (["cpu"] if groups else []) + ["cgroup"]} == {"ok"}


@pytest.mark.deep
@pytest.mark.parametrize("interval", ["1s", "1h"])
@pytest.mark.parametrize("per_cpu", ["yes", "no"])
@pytest.mark.parametrize("alone", ["no", "yes"])
def test_a_cpu_that_is_offline_between_two_readings_is_found_out(switch, perfmond, cgroups, work, alone, per_cpu,
                                                                 interval):
    """All CPUs are there whenever the daemon looks, but the events of one are dead. Groups show it by their shape, and
    an event that is alone by its time."""
    story = Story(cgroups, work, switch.cpu)
    daemon = perfmond(config(cgroups, per_cpu, interval=interval) + f"alone = {alone}\n")
    start = daemon.fresh()
    story.faults, story.switches = story.kernel()
    story.work_on(switch.cpu)

    switch.off()
    switch.on()
    # What is done until it is counted again can't be known. Where there are no ticks, scrapes find out.
    until(lambda: daemon.fresh().value("perfmond_cpus_offline") == 0 and
          re.search("has been offline|have come or gone", daemon.log), "it is found out")
    back = wait_counted_again(daemon)
    assert story.counted(start, back) == story.done(), "what was done before is kept"
    story.work_on(switch.cpu)
    end = daemon.fresh()
    assert story.counted(start, end) == story.done()
    assert Delta(back, end).of(CPU_FAULTS, cpu=switch.label) >= 1000
    assert_none_fell(start, back)
    assert_none_fell(back, end)


@pytest.mark.one_engine
@pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.deep), "kill"])
def test_a_cpu_that_is_offline_between_two_daemons_is_found_out(switch, service, cgroups, work, end):
    """Only cgroups are counted, and each event is alone in its group: none of them can tell that its CPU was away."""
    story = Story(cgroups, work, switch.cpu)
    service.start(config(cgroups, groups="") + "alone = yes\n")
    service.wait_kept()
    start = service.fresh()
    story.faults, story.switches = story.kernel()
    story.work_on(switch.cpu)

    getattr(service, end)()
    switch.off()
    switch.on()
    service.start()
    until(lambda: service.fresh() and "has been offline" in service.daemon.log, "it is found out")
    back = service.check(wait_counted_again(service.daemon))
    assert story.counted(start, back) == story.done(), "what was done before is kept"
    story.work_on(switch.cpu)
    assert story.counted(start, service.fresh()) == story.done()


@pytest.mark.deep
def test_a_cpu_that_goes_offline_often_leaves_nothing_open(switch, perfmond, cgroups, work, cpus):
    """Nothing is left open of the times before."""
    story = Story(cgroups, work, switch.cpu)
    daemon = perfmond(config(cgroups, "yes"))
    story.faults, story.switches = story.kernel()
    start = last = daemon.fresh()
    for _ in range(5):
        switch.off()
        wait_offline(daemon, SOON)
        story.work_on(cpus[0])
        switch.on()
        now = wait_counted_again(daemon, SOON)
        assert_none_fell(last, now)
        story.work_on(switch.cpu)
        last = now
    end = daemon.fresh()
    assert story.counted(start, end) == story.done()
    assert end.value("perfmond_open_events") == start.value("perfmond_open_events")
    # The profiler has four on each CPU: the clock, its two rings, and the side-band. A thread closes those that are
    # dropped.
    until(lambda: daemon.fds()["anon_inode:[perf_event]"] == start.value("perfmond_open_events") and
          daemon.fds(daemon.profiler)["anon_inode:[perf_event]"] == 4 * len(cpus), "nothing else is open")


@pytest.mark.one_engine
def test_cgroups_made_while_a_cpu_is_offline_are_counted_there_later(switch, perfmond, cgroups, work, cpus):
    """And on the CPUs that are there at once."""
    daemon = perfmond(config(cgroups, "yes"))
    switch.off()
    wait_offline(daemon)
    story = Story(cgroups, work, cpus[0])
    until(lambda: daemon.metrics().get(FAULTS, cgroup=story.group.label, cpu=str(cpus[0])) is not None, "it is counted")
    start = daemon.fresh()
    assert start.get(FAULTS, cgroup=story.group.label, cpu=switch.label) is None, "absent, not 0"
    story.faults, story.switches = story.kernel()
    story.work_on(cpus[0])

    switch.on()
    back = wait_counted_again(daemon)
    assert back.value(FAULTS, cgroup=story.group.label, cpu=switch.label) == 0
    moved = story.move(daemon, switch.cpu)
    faults = story.work_on(switch.cpu)
    end = daemon.fresh()
    assert story.counted(start, end) == story.done()
    assert Delta(moved, end).of(FAULTS, cgroup=story.group.label, cpu=switch.label) == faults >= 1000


@pytest.mark.deep
def test_a_daemon_that_starts_while_a_cpu_is_offline_counts_it_later(one_cpu_away, perfmond, cgroups, work, cpus):
    switch = one_cpu_away
    assert switch.cpu not in cpus
    story = Story(cgroups, work, cpus[0])
    daemon = perfmond(config(cgroups))
    start = daemon.fresh()
    story.faults, story.switches = story.kernel()
    assert start.get(CPU_FAULTS, cpu=switch.label) is None, "absent, not 0"
    assert start.value("perfmond_cpus") == len(cpus)
    story.work_on(cpus[0])

    switch.on()
    until(lambda: daemon.metrics().get(CPU_FAULTS, cpu=switch.label) is not None, "the CPU is counted")
    wait_counted_again(daemon)
    story.work_on(switch.cpu)
    end = daemon.fresh()
    assert story.counted(start, end) == story.done()
    assert end.value(CPU_FAULTS, cpu=switch.label) >= 1000
    assert end.value("perfmond_cpus") == len(cpus) + 1
    assert_none_fell(start, end)


@pytest.mark.deep
def test_a_cpu_that_is_offline_keeps_its_totals_over_a_reload(switch, perfmond, cgroups, work, cpus):
    story = Story(cgroups, work, switch.cpu)
    daemon = perfmond(config(cgroups, "yes"))
    start = daemon.fresh()
    story.faults, story.switches = story.kernel()
    story.work_on(switch.cpu)
    before = daemon.fresh()
    switch.off()
    daemon.reload(config(cgroups, "yes", events="page-faults, context-switches, minor-faults"))
    story.work_on(cpus[0])
    away = daemon.fresh()
    switch.on()
    back = wait_counted_again(daemon)
    story.work_on(switch.cpu)
    end = daemon.fresh()
    for earlier, later in ((start, before), (before, away), (away, back), (back, end)):
        assert_none_fell(earlier, later)
    assert story.counted(start, end) == story.done()


# --- left out by the config

@needs("two-cpus")
@pytest.mark.one_engine
def test_an_excluded_cpu_is_not_counted_at_all(perfmond, cgroups, work, cpus):
    left, counted = cpus[-1], cpus[0]
    story = Story(cgroups, work, left)
    daemon = perfmond(config(cgroups, "yes", exclude=str(left)))
    assert daemon.fresh().value("perfmond_cpus") == len(cpus) - 1
    story.work_on(left)
    start = story.move(daemon, counted)
    faults = story.work_on(counted)
    end = daemon.fresh()
    assert Delta(start, end).of(FAULTS, cgroup=story.group.label, cpu=str(counted)) == faults >= 1000
    for name in (FAULTS, SWITCHES, CPU_FAULTS):
        assert end.all(name) and not end.all(name, cpu=str(left)), "absent, not 0"

    daemon.reload(config(cgroups, "yes"))
    wait_counted_again(daemon)
    story.work_on(left)
    both = daemon.fresh()
    assert both.value(FAULTS, cgroup=story.group.label, cpu=str(left)) >= 1000
    assert both.value("perfmond_cpus") == len(cpus)
    assert_none_fell(end, both)


@needs("two-cpus")
@pytest.mark.one_engine
def test_a_reload_excludes_a_cpu(perfmond, cgroups, work, cpus):
    """From then on nothing is counted there, in cgroups either, until another reload has it counted again."""
    left, counted = cpus[-1], cpus[0]
    story = Story(cgroups, work, left)
    daemon = perfmond(config(cgroups))
    start = daemon.fresh()
    story.faults, story.switches = story.kernel()
    story.work_on(left)
    both, done = daemon.fresh(), story.done()
    assert story.counted(start, both) == done

    daemon.reload(config(cgroups, exclude=str(left)))
    excluded = daemon.fresh()
    story.work_on(left)
    later = daemon.fresh()
    assert story.counted(start, excluded) == story.counted(start, later) == done
    moved = story.move(daemon, counted)
    faults = story.work_on(counted)
    assert Delta(moved, daemon.fresh()).of(FAULTS, cgroup=story.group.label) == faults >= 1000

    daemon.reload(config(cgroups))
    back = wait_counted_again(daemon)
    moved = story.move(daemon, left)
    faults = story.work_on(left)
    end = daemon.fresh()
    assert Delta(moved, end).of(FAULTS, cgroup=story.group.label) == faults >= 1000
    assert_none_fell(excluded, later)
    assert_none_fell(later, back)
    assert_none_fell(back, end)


@pytest.mark.any_engine
def test_an_excluded_cpu_that_comes_back_stays_excluded(switch, perfmond, cgroups, work, cpus):
    story = Story(cgroups, work, cpus[0])
    daemon = perfmond(config(cgroups, exclude=switch.label, interval="200ms"))
    opened = daemon.metrics().value("perfmond_open_events")
    switch.off()
    switch.on()
    reads = daemon.metrics().value("perfmond_reads_total")
    until(lambda: daemon.metrics().value("perfmond_reads_total") > reads + 5, "it has looked at the CPUs again")
    story.work_on(switch.cpu)
    metrics = daemon.fresh()
    assert metrics.value("perfmond_cpus_offline") == 0
    assert metrics.value("perfmond_open_events") == opened
    assert not metrics.all(CPU_FAULTS, cpu=switch.label)


def listed(word):
    """CPUs of a list of the kernel's: on most machines none."""
    path = Path(f"/sys/devices/system/cpu/{word}")
    text = path.read_text().strip() if path.exists() else ""
    found = set()
    for part in text.split(",") if text and text != "(null)" else []:
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.any_engine
def test_cpus_are_excluded_by_what_the_kernel_says(perfmond, cgroups, cpus):
    """And by numbers that no CPU has. What would leave no CPU is not tried."""
    daemon = perfmond(config(cgroups))
    for exclude in ("isolated", "nohz_full", "isolated nohz_full", "1000-1003,1007"):
        left = set(cpus) - set().union(*(listed(word) for word in re.findall("[a-z_]+", exclude)))
        if left:
            daemon.reload(config(cgroups, exclude=exclude))
            assert {labels["cpu"] for labels, _ in daemon.fresh().all(CPU_FAULTS)} == {str(cpu) for cpu in left}


@pytest.mark.any_engine
def test_a_bad_list_of_cpus_is_an_error(privileged, tmp_path):
    path = tmp_path / "bad.conf"
    for bad in ("one", "3-1", "1,,2", "-1", "1-"):
        path.write_text(f"[cpu]\nexclude = {bad}\n", encoding="utf-8")
        done = run("--check", f"--config={path}")
        assert done.returncode == 1
        assert f"{path}:2: " in done.stderr and bad in done.stderr
