# SPDX-License-Identifier: MIT
"""Work of known size shows up in the right cgroup and on the right CPU.

The helper sleeps in read(2) whenever the daemon is asked, so that events which the kernel counts one by one
(page faults, switches, tracepoints) are compared for equality per cgroup. Per CPU, everything else that runs
on the machine is counted as well: the known work is then the least that must be there.
"""

import re
import time

import pytest

from counter import Intervals
from harness import FRESH, PATIENCE, Delta, Repeated, leeway, perf_stat, until
from machine import needs

pytestmark = pytest.mark.engines
deep, alone = pytest.mark.deep, pytest.mark.alone


def config(top, events, per_cpu="yes"):
    return f"""
[cpu]
groups = work
[cgroup]
groups = work
include = {top.label}/**
per_cpu = {per_cpu}
[group "work"]
events = {events}
"""


@pytest.fixture
def shared(shared_perfmond, shared_cgroups):
    """The daemon of the tests that need no config of their own, with series per CPU or without."""
    events = "page-faults, minor-faults, context-switches, task-clock, cpu-clock, page-faults:u, page-faults:k"
    return lambda per_cpu: shared_perfmond(
        config(shared_cgroups, events, per_cpu) + "[daemon]\ninterval = 200ms\n")


def wait_counted(daemon, *groups):
    until(lambda: {group.label for group in groups} <=
          {labels["cgroup"] for labels, _ in daemon.metrics().all("perf_cgroup_page_faults_total")}, "all are counted")


def test_page_faults_are_exact(shared, own_cgroup, work, cpus):
    """On the CPU and in the cgroup where they were taken, and in its parent; in no other, and on no other CPU."""
    daemon, pages = shared("yes"), 4321
    parent, other = own_cgroup.make("parent"), own_cgroup.make("other")
    child = parent.make("child")
    wait_counted(daemon, parent, other, child)
    helper = work(child, cpus[0])

    for cpu in {cpus[0], cpus[-1]}:
        helper.do(f"pin {cpu}")
        helper.wait_asleep()
        before, kernel_before = daemon.fresh(), helper.faults()
        helper.do(f"faults {pages}")
        delta, kernel = Delta(before, daemon.fresh()), helper.faults() - kernel_before

        assert kernel == pages
        for event in ("page_faults", "minor_faults"):
            name = f"perf_cgroup_{event}_total"
            assert delta.of(name, cgroup=child.label, cpu=str(cpu)) == pages
            assert delta.of(name, cgroup=parent.label, cpu=str(cpu)) == pages, "a parent counts its children"
            for idle in set(cpus) - {cpu}:
                assert delta.of(name, cgroup=child.label, cpu=str(idle)) == 0
            for any_cpu in cpus:
                assert delta.of(name, cgroup=other.label, cpu=str(any_cpu)) == 0
            assert delta.of(f"perf_cpu_{event}_total", cpu=str(cpu)) >= pages


def test_context_switches_are_exact(shared, own_cgroup, work, cpus):
    """By the tasks' own books, on the CPU where they were."""
    daemon, rounds, name = shared("yes"), 3000, "perf_cgroup_context_switches_total"
    for cpu in {cpus[0], cpus[-1]}:
        group = own_cgroup.make(f"switching{cpu}")
        wait_counted(daemon, group)
        helper = work(group, cpu)
        helper.fork()

        # The kernel counts each task's switches too: whoever else preempts the helper is in both numbers.
        kernel_before, before = helper.switches(), daemon.fresh()
        helper.do(f"switches {rounds}")
        kernel, delta = helper.switches() - kernel_before, Delta(before, daemon.fresh())

        assert kernel >= 2 * rounds
        assert delta.of(name, cgroup=group.label, cpu=str(cpu)) == kernel
        for idle in set(cpus) - {cpu}:
            assert delta.of(name, cgroup=group.label, cpu=str(idle)) == 0
        assert delta.of("perf_cpu_context_switches_total", cpu=str(cpu)) >= kernel


@pytest.mark.any_engine
def test_a_tracepoint_is_exact(perfmond, cgroups, work, cpus, tracefs):
    """Per cgroup, of those that are counted by perf events of their own."""
    cpu, calls = cpus[-1], 12345
    group, other = cgroups.make("calling"), cgroups.make("other")
    helper, noise = work(group, cpu), work(other)
    daemon = perfmond(config(cgroups, "syscalls:sys_enter_getppid"))

    before = daemon.fresh()
    helper.do(f"getppid {calls}")
    noise.do("getppid 77")
    delta = Delta(before, daemon.fresh())

    name = "perf_cgroup_syscalls_sys_enter_getppid_total"
    assert delta.of(name, cgroup=group.label, cpu=str(cpu)) == calls
    assert sum(delta.of(name, cgroup=other.label, cpu=str(any_cpu)) for any_cpu in cpus) == 77
    assert delta.of("perf_cpu_syscalls_sys_enter_getppid_total", cpu=str(cpu)) >= calls


def test_summed_over_cpus_nothing_is_lost(shared, own_cgroup, work, cpus):
    """per_cpu = no: one series per cgroup, whatever CPU the work was done on."""
    daemon, group = shared("no"), own_cgroup.make("moving")
    wait_counted(daemon, group)
    helper = work(group, cpus[0])

    before, kernel_before = daemon.fresh(), helper.faults()
    for cpu in cpus:
        helper.do(f"pin {cpu}")
        helper.do("faults 500")
    delta, kernel = Delta(before, daemon.fresh()), helper.faults() - kernel_before

    assert kernel >= 500 * len(cpus)
    assert delta.of("perf_cgroup_page_faults_total", cgroup=group.label) == kernel
    assert "cpu" not in delta.after.all("perf_cgroup_page_faults_total", cgroup=group.label)[0][0]


@pytest.mark.parametrize("looks", [8, pytest.param(40, marks=deep)])
def test_a_parent_has_no_less_than_its_child(perfmond, cgroups, work, cpus, looks):
    """At any moment while it works, and the CPU no less than both: they are counted from before it began."""
    name, cpu = "page_faults_total", str(cpus[-1])
    parent = cgroups.make("parent")
    child = parent.make("child")
    daemon = perfmond(config(cgroups, "page-faults"))
    wait_counted(daemon, parent, child)
    load = Repeated(work(child, cpus[-1]), "faults 500")
    try:
        scrapes = [daemon.fresh() for _ in range(looks)]
    finally:
        load.end()
    for metrics in scrapes:
        counts = [metrics.value(f"perf_cgroup_{name}", cgroup=each.label, cpu=cpu) for each in (child, parent)]
        counts.append(metrics.value(f"perf_cpu_{name}", cpu=cpu))
        assert counts == sorted(counts)
    assert counts[0] > 0


CLOCKS = ("task_clock_seconds", "cpu_clock_seconds")


def test_the_clocks_count_the_time_at_work(shared, own_cgroup, work, cpus):
    """No less than about half of the time that the kernel says, which is in units then, and no more than has passed.
    How exact they are, the next test says."""
    daemon, group = shared("no"), own_cgroup.make("clocked")
    wait_counted(daemon, group)
    helper = work(group, cpus[-1])
    start, before = time.monotonic(), daemon.fresh()
    used = helper.do("cpu 100") / 1e9
    helper.wait_asleep()
    delta = Delta(before, daemon.fresh())
    passed = time.monotonic() - start
    clocks = [delta.of(f"perf_cgroup_{name}_total", cgroup=group.label) for name in CLOCKS]
    clocks.append(delta.of("perf_cgroup_group_enabled_seconds_total", cgroup=group.label, group="work"))
    assert all(used / 2 <= clock <= passed for clock in clocks), (used, clocks, passed)
    assert not delta.after.all("perf_cgroup_group_running_seconds_total"), "software events are never multiplexed"


@deep
@alone
def test_task_clock_is_cpu_time(perfmond, cgroups, work, cpus):
    cpu = cpus[-1]
    group = cgroups.make("burning")
    helper = work(group, cpu)
    daemon = perfmond(config(cgroups, "task-clock, cpu-clock", per_cpu="no"))

    # What a hypervisor takes away while it runs is in perf's time and not in the usage: then it is tried again.
    for _ in range(60):
        before, usage_before = daemon.fresh(), group.usage_usec()
        used = helper.do("cpu 200") / 1e9
        usage, delta = (group.usage_usec() - usage_before) / 1e6, Delta(before, daemon.fresh())
        counted = delta.of("perf_cgroup_task_clock_seconds_total", cgroup=group.label)
        assert counted >= 0.99 * usage
        if counted <= 1.005 * usage:
            break
    assert counted == pytest.approx(usage, rel=0.01)
    assert counted == pytest.approx(used, rel=0.01)
    assert delta.of("perf_cgroup_cpu_clock_seconds_total", cgroup=group.label) == pytest.approx(usage, rel=0.01)
    enabled = delta.of("perf_cgroup_group_enabled_seconds_total", cgroup=group.label, group="work")
    assert enabled == pytest.approx(usage, rel=0.01)


@pytest.fixture
def tsc(work):
    """A clock: the time stamp counter, by a helper outside of the cgroups that are counted."""
    helper = work()
    return lambda: helper.do("tsc")


@needs("msr")
@pytest.mark.any_engine
def test_tsc_per_cpu_is_the_time_stamp_counter(perfmond, cgroups, cpus, tsc):
    """An event of a dynamic PMU, per CPU: it stands between two readings of the test's own."""
    daemon = perfmond(config(cgroups, "tsc=msr/tsc/"))

    first = tsc()
    before = daemon.fresh()
    second = tsc()
    time.sleep(0.5)
    third = tsc()
    delta = Delta(before, daemon.fresh())
    fourth = tsc()

    for cpu in cpus:
        ticks = delta.of("perf_cpu_tsc_total", cpu=str(cpu))
        # The CPUs' counters differ by a little; what must fit in between is far more.
        assert (third - second) * 0.999 <= ticks <= (fourth - first) * 1.001


def crediting(delta):
    """What may tell where missing counts are: a switch that took long is in the one that left, while the kernel's usage
    has it in the one that came."""
    names = [f"perfmond_{name}_total" for name in ("switches", "switch_seconds", "hidden_switches", "missed_switches")]
    return {(name, *labels.values()): delta.of(name, **labels) for name in names
            for labels, _ in delta.after.all(name)}


@needs("msr")
@deep
@alone
def test_tsc_per_cgroup_is_its_cpu_time(perfmond, cgroups, work, cpus, tsc):
    group = cgroups.make("burning")
    helper = work(group, cpus[-1])
    daemon = perfmond(config(cgroups, "tsc=msr/tsc/", per_cpu="no"))

    # As above, for the time that a hypervisor takes: it seldom takes some of a short while.
    for _ in range(240):
        start, start_tsc = time.monotonic(), tsc()
        before, usage_before = daemon.fresh(), group.usage_usec()
        helper.do("cpu 50")
        usage, delta = (group.usage_usec() - usage_before) / 1e6, Delta(before, daemon.fresh())
        frequency = (tsc() - start_tsc) / (time.monotonic() - start)
        ticks = delta.of("perf_cgroup_tsc_total", cgroup=group.label)
        assert ticks >= 0.99 * usage * frequency, str(crediting(delta))
        if ticks <= 1.005 * usage * frequency:
            break
    assert ticks == pytest.approx(usage * frequency, rel=0.01)


def beside_perf_stat(daemon, group, work, cpu, events, commands):
    """What perf stat and the daemon count in the cgroup while a helper works."""
    helper = work(group, cpu)
    helper.fork()
    # Before, and when all is done, the cgroup sleeps: both see the same work, whenever they began.
    helper.wait_asleep()
    before = daemon.fresh()
    perf = perf_stat("-e", events, "-G", ",".join([group.label.lstrip("/")] * len(events.split(","))))
    for command in commands:
        helper.do(command)
    helper.wait_asleep()
    return perf(), Delta(before, daemon.fresh())


@needs("perf")
@pytest.mark.once
def test_a_cgroup_has_what_perf_stat_counts(shared, own_cgroup, work, cpus):
    daemon, group = shared("no"), own_cgroup.make("compared")
    wait_counted(daemon, group)
    theirs, delta = beside_perf_stat(daemon, group, work, cpus[-1], "context-switches,page-faults",
                                     ("faults 2000", "switches 2000"))
    assert delta.of("perf_cgroup_page_faults_total", cgroup=group.label) == theirs["page-faults"] >= 2000
    assert delta.of("perf_cgroup_context_switches_total", cgroup=group.label) == theirs["context-switches"] >= 4000


@needs("perf")
@pytest.mark.once
@deep
@alone
def test_a_cgroups_task_clock_is_that_of_perf_stat(perfmond, cgroups, work, cpus):
    group = cgroups.make("compared")
    daemon = perfmond(config(cgroups, "task-clock", per_cpu="no"))
    theirs, delta = beside_perf_stat(daemon, group, work, cpus[-1], "task-clock", ("switches 2000", "cpu 300"))
    clock, seconds = delta.of("perf_cgroup_task_clock_seconds_total", cgroup=group.label), theirs["task-clock"] / 1000
    assert 0.99 * seconds <= clock <= 1.01 * seconds + leeway("task_clock") / 1e9


@needs("perf")
@pytest.mark.any_engine
@pytest.mark.once
def test_a_cpu_has_what_perf_stat_counts(perfmond, cgroups, work, cpus):
    """perf has counted for longer than the one and less long than the other of two differences, whatever else runs on
    that CPU."""
    cpu = cpus[-1]
    helper = work(cgroups.make("load"), cpu)
    helper.fork()
    daemon = perfmond(config(cgroups, "context-switches, page-faults"))

    first = daemon.fresh()
    perf = perf_stat("-C", str(cpu), "-e", "context-switches,page-faults")
    second = daemon.fresh()
    helper.do("switches 3000")
    helper.do("faults 5000")
    third = daemon.fresh()
    theirs = perf()
    fourth = daemon.fresh()

    for event, done in (("context-switches", 6000), ("page-faults", 5000)):
        name = f"perf_cpu_{event.replace('-', '_')}_total"
        inner, outer = (Delta(*scrapes).of(name, cpu=str(cpu)) for scrapes in ((second, third), (first, fourth)))
        assert done <= inner <= theirs[event] <= outer, event


@pytest.mark.any_engine
def test_cpus_can_be_summed(perfmond, cgroups, work, cpus):
    """[cpu] aggregate."""
    helper = work(cgroups.make("load"), cpus[0])
    daemon = perfmond(config(cgroups, "page-faults").replace("[cpu]", "[cpu]\naggregate = yes"))

    before = daemon.fresh()
    for cpu in cpus:
        helper.do(f"pin {cpu}")
        helper.do("faults 3000")
    after = daemon.fresh()

    assert after.all("perf_cpu_page_faults_total")[0][0] == {}
    assert after.value("perf_cpu_page_faults_total") - before.value("perf_cpu_page_faults_total") >= 3000 * len(cpus)


def test_modifiers_split_user_from_kernel(shared, own_cgroup, work, cpus):
    """page-faults:u and page-faults:k: those of the helper are taken in user mode."""
    daemon, group = shared("no"), own_cgroup.make("split")
    wait_counted(daemon, group)
    helper = work(group, cpus[-1])

    before = daemon.fresh()
    helper.do("faults 1000")
    delta = Delta(before, daemon.fresh())

    assert delta.of("perf_cgroup_page_faults_total", cgroup=group.label) == 1000
    assert delta.of("perf_cgroup_page_faults_user_total", cgroup=group.label) == 1000
    assert delta.of("perf_cgroup_page_faults_kernel_total", cgroup=group.label) == 0


def row_of(daemon, group):
    rows = daemon.json("/api/v1/snapshot", cgroup=group.label)["cgroups"]
    assert [row["cgroup"] for row in rows] == [group.label]
    return rows[0]


def test_json_has_the_same_numbers(shared, own_cgroup, work, cpus):
    daemon, group = shared("no"), own_cgroup.make("json")
    wait_counted(daemon, group)
    helper = work(group, cpus[-1])

    def works():
        helper.do("faults 1000")
        return row_of(daemon, group)["events"]["page_faults"]["rate"]

    def rests():
        found = row_of(daemon, group)["events"]
        return found if found["page_faults"]["rate"] == 0 else None

    until(works, "there is a rate while it works")
    helper.wait_asleep()
    events = until(rests, "the rate is 0 when it has slept for an interval")
    text = daemon.fresh()
    assert events["page_faults"]["total"] == text.value("perf_cgroup_page_faults_total", cgroup=group.label) >= 1000
    assert events["task_clock"]["total"] == \
        pytest.approx(text.value("perf_cgroup_task_clock_seconds_total", cgroup=group.label))
    assert events["task_clock"]["unit"] == "seconds"
    assert {event["state"] for event in events.values()} == {"ok"}


@pytest.mark.parametrize("nr", [1, pytest.param(5, marks=[deep, alone])])
def test_rates_are_those_of_the_load(perfmond, cgroups, work, cpus, nr):
    """Some 2,000 sleeps a second, from one end of an interval to the next. Only those intervals are compared of which
    both ends are known closely enough, however many it takes until there is one."""
    group = cgroups.make("rate")
    helper = work(group, cpus[-1])
    daemon = perfmond(config(cgroups, "context-switches, task-clock", per_cpu="no") + "[daemon]\ninterval = 1s\n")
    until(lambda: daemon.metrics().get("perf_cgroup_context_switches_total", cgroup=group.label) is not None,
          "it is counted")
    ticks = Repeated(helper, "ticks 2000 200")
    intervals = Intervals(daemon, group, 1)
    until(lambda: intervals.follow(0.1) or len(intervals.checked) >= nr, f"intervals that are compared: {nr}",
          5 * PATIENCE)
    assert intervals.rate > 0

    row = row_of(daemon, group)
    assert row["derived"]["cpus_utilized"] == pytest.approx(row["events"]["task_clock"]["rate"], rel=0.01)
    ticks.end()
    intervals.close()


@pytest.mark.any_engine
def test_a_scrape_reads_afresh(perfmond, cgroups, work, cpus):
    """With an interval of an hour all that is seen comes from scrapes, and two at once share one reading."""
    group = cgroups.make("scraped")
    helper = work(group, cpus[-1])
    daemon = perfmond(config(cgroups, "page-faults", per_cpu="no") + "[daemon]\ninterval = 1h\n")

    before = daemon.fresh()
    helper.do("faults 321")
    after = daemon.fresh()
    assert Delta(before, after).of("perf_cgroup_page_faults_total", cgroup=group.label) == 321

    def read_twice():
        time.sleep(FRESH)
        start = time.monotonic()
        reads = [re.search(r"^perfmond_reads_total (\d+)", daemon.get("/metrics").text, re.M)[1] for _ in range(2)]
        return reads if time.monotonic() - start < 0.1 else None

    first, second = until(read_twice, "two within 100 ms")
    assert first == second
