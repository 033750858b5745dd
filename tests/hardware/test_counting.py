# SPDX-License-Identifier: MIT
"""A real PMU: that hardware events are counted, and truly. What machines have differs: a test takes for granted that
cycles and instructions can be counted, and that two more events have room for a moment; the rest it asks the kernel.
"""

import re

import pytest

from harness import Delta, Repeated, run, until

COUNTING = ("ok", "multiplexed")

# A quarter of a second at 4 GHz and more, a second at 1 GHz.
LOOP = 1_000_000_000

# Counters of one CPU are not stopped and read at the same moment, and it takes an interrupt some thousand instructions
# to come and go.
SLACK = 0.002


def metric(event):
    return event.replace("-", "_")


def states(metrics, scope, events):
    return {event: metrics.state(metric(event), scope) for event in events}


def are_counting(found):
    return set(found.values()) <= set(COUNTING)


def wait_counting(daemon, scope, events):
    """The PMU's other users may have it when the daemon starts, and states are those of an interval."""
    until(lambda: are_counting(states(daemon.fresh(), scope, events)), f"the PMU counts {events} per {scope}")


def totals(metrics, event, cpus):
    """Of each CPU, which is of one PMU, also where a machine has several."""
    return {cpu: metrics.value(f"perf_cpu_{metric(event)}_total", cpu=str(cpu)) for cpu in cpus}


# --- the default config

def test_there_are_cycles_and_instructions(alive):
    assert {"cycles", "instructions"} <= set(alive)


def test_all_that_the_kernel_counts_is_counted_on_each_cpu(perfmond, work, cpus, machine, alive):
    """Its totals rise while the CPUs work: page faults need all of these events."""
    daemon = perfmond("")
    loads = [Repeated(work(cpu=cpu), "faults 2000") for cpu in cpus]
    try:
        wait_counting(daemon, "cpu", machine)
        before = daemon.fresh()

        def risen():
            after = daemon.fresh()
            return all(totals(after, event, [cpu])[cpu] > total for event in alive
                       for cpu, total in totals(before, event, cpus).items())

        until(risen, f"all totals of {alive} rise on all of {cpus}")
    finally:
        for load in loads:
            load.end()


def test_reasons_know_that_there_is_a_pmu(perfmond, machine):
    daemon = perfmond("")
    wait_counting(daemon, "cpu", machine)
    for event in daemon.json("/api/v1/events")["events"]:
        assert "no core PMU" not in (event["reason"] or ""), event
        if event["state"] == "unsupported":
            assert event["text"] not in machine, event


def test_check_says_what_is_counted(machine, tmp_path):
    """Per CPU; what comes of all the machine's cgroups at once is another matter."""
    config = tmp_path / "perfmond.conf"
    config.write_text("[cgroup]\ngroups =\n", encoding="utf-8")
    done = run("--check", f"--config={config}")
    found = dict(re.findall(r"^  core +(\S+) +(\w+)(?: \[\d+\])?$", done.stdout, re.M))
    assert {name for name, state in found.items() if state in COUNTING} == set(machine), done.stdout + done.stderr
    assert {state for name, state in found.items() if name not in machine} <= {"unsupported"}, done.stdout
    assert "no core PMU" not in done.stdout
    assert done.returncode == (0 if set(found) == set(machine) else 2), done.stdout


# --- numbers

def loop(work, reference, read, cpu, cgroup=None):
    """Runs LOOP instructions on the CPU between two readings. Returns what read() rose by, the length of the loop, and
    what the CPU did in all within the readings and around them, by an event of the tests' own."""
    helper = work(cgroup, cpu)
    event = reference("instructions", cpu)
    start = event.read()
    before = read()
    inner = event.read()
    length = helper.do(f"instructions {LOOP}")
    inner_end = event.read()
    after = read()
    end = event.read()
    # Where the PMU lies, it can have no counter that counts, and run all the time.
    if not event.had_room() or inner_end[0] - inner[0] < length * (1 - SLACK):
        pytest.skip(f"CPU {cpu}: the PMU has no room for an event of the tests' own: (count, enabled, running) is "
                    f"{end}")
    return after - before, length, inner_end[0] - inner[0], end[0] - start[0]


@pytest.mark.parametrize("which", [0, -1])
def test_a_loop_of_known_length_is_seen_by_its_cpu(perfmond, work, cpus, reference, machine, which):
    """At least so much; and not less than the CPU did meanwhile by another event, and not more than around it."""
    daemon = perfmond('[cpu]\ngroups = core\n[cgroup]\ngroups =\n[group "core"]\nevents = cycles, instructions\n')
    cpu = cpus[which]
    wait_counting(daemon, "cpu", ["cycles", "instructions"])
    metrics = [daemon.fresh()]

    def read():
        metrics.append(daemon.fresh())
        return totals(metrics[-1], "instructions", [cpu])[cpu]

    counted, length, least, most = loop(work, reference, read, cpu)
    assert metrics[-1].state("instructions") == "ok", "there was room for one more event"
    assert counted >= length * (1 - SLACK)
    assert least * (1 - SLACK) <= counted <= most * (1 + SLACK)
    # No CPU retires more than a dozen instructions a cycle, and such a loop takes hardly more than a cycle each.
    cycles = totals(metrics[-1], "cycles", [cpu])[cpu] - totals(metrics[1], "cycles", [cpu])[cpu]
    assert length / 12 < cycles


def test_a_loop_of_known_length_is_seen_by_its_cgroup(perfmond, cgroups, work, cpus, reference, machine):
    """One cgroup alone has the PMU for itself. The loop is nearly all that it does; the rest is the helper's and the
    kernel's, in its name."""
    daemon = perfmond("[cpu]\ngroups =\n[cgroup]\ngroups = core\n"
                      f'include = {cgroups.label}\n[group "core"]\nevents = instructions\n')
    name = "perf_cgroup_instructions_total"
    until(lambda: daemon.fresh().get(name, cgroup=cgroups.label) is not None, "it is counted")
    counted, length, _, most = loop(work, reference, lambda: daemon.fresh().value(name, cgroup=cgroups.label), cpus[0],
                                    cgroups)
    assert length * (1 - SLACK) <= counted <= most * (1 + SLACK)
    assert counted <= length * 1.1


# --- the root cgroup

ROOT = """
[cpu]
groups = core
[cgroup]
groups = {groups}
include = /
[group "core"]
events = {events}
"""


@pytest.fixture
def whole_tree(cgroups):
    """In a cgroup namespace of its own a container sees another cgroup as the root."""
    if cgroups.mount.stat().st_ino != 1:
        pytest.skip(f"{cgroups.mount} is not the machine's root cgroup: its inode is {cgroups.mount.stat().st_ino}")


def root_total(metrics, event):
    return metrics.value(f"perf_cgroup_{metric(event)}_total", cgroup="/")


def test_the_root_cgroup_is_all_cpus(perfmond, work, cpus, machine, whole_tree):
    """It rises by what the CPUs rise by, to the last event, and its events do not wait for a PMU that counts them."""
    daemon = perfmond(ROOT.format(groups="core", events=", ".join(machine)))
    wait_counting(daemon, "cpu", machine)
    loads = [Repeated(work(cpu=cpu), "faults 2000") for cpu in cpus]
    try:
        readings = [daemon.fresh() for _ in range(5)]
    finally:
        for load in loads:
            load.end()
    readings.append(daemon.fresh())
    for metrics in readings:
        assert "never_scheduled" not in states(metrics, "cgroup", machine).values()
        assert are_counting(states(metrics, "cgroup", machine))
    for before, after in zip(readings, readings[1:]):
        delta = Delta(before, after)
        for event in machine:
            of_cpus = sum(delta.of(f"perf_cpu_{metric(event)}_total", cpu=str(cpu)) for cpu in cpus)
            assert root_total(after, event) - root_total(before, event) == of_cpus, event
    assert root_total(readings[-1], "instructions") > root_total(readings[0], "instructions")


def test_the_root_cgroup_opens_nothing(perfmond, machine, whole_tree):
    """Where the CPUs' own events count the same."""
    events = ", ".join(machine)
    opened = [perfmond(ROOT.format(groups=groups, events=events)).metrics().value("perfmond_open_events")
              for groups in ("core", "")]
    assert opened[0] == opened[1]


def test_check_of_the_root_cgroup(machine, whole_tree, tmp_path):
    """A small machine where all tasks are in the root cgroup."""
    config = tmp_path / "perfmond.conf"
    config.write_text(ROOT.format(groups="core", events=", ".join(machine)), encoding="utf-8")
    done = run("--check", f"--config={config}")
    assert done.returncode == 0 and "all that is configured can be counted" in done.stdout, done.stdout + done.stderr
