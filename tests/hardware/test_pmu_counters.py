# SPDX-License-Identifier: MIT
"""A real PMU's counters: that the daemon finds as many as a program of the tests' own does, and believes no more."""

import re
import time

import pytest

import pmu
from harness import Delta, Repeated

MAX = 64  # events; no PMU has so many counters

# A quarter of a second at 4 GHz, a second at 1 GHz.
SHORT = 1_000_000_000


@pytest.fixture
def one_pmu(perfmond):
    """The name of the PMU of all CPUs, and the numbers of a daemon that counts nothing with it."""
    idle = perfmond("[cpu]\ngroups = software\n[cgroup]\ngroups =\n")
    found = [one for one in idle.json("/api/v1/status")["pmus"] if one["kind"] == "core"]
    if len(found) != 1:
        pytest.skip(f"this test knows one core PMU, and here are {[one['name'] for one in found]}")
    assert found[0]["counters"], "it was tested"
    return found[0]["name"], found[0]["counters"]["advertised"], found[0]["counters"]["usable"]


def loop_of(helper, seconds):
    """The command of a loop that takes about so long here. One that is shorter has run before it."""
    start = time.monotonic()
    length = helper.do(f"instructions {SHORT}")
    return f"instructions {int(length * seconds / (time.monotonic() - start))}"


def count_together(cpu, helper):
    """Pinned events of branches, until one has no counter: what each counts of the same loop. Of its instructions one
    in a thousand is a branch, and of those that run from one reading to the next one in five."""
    events, command = [], loop_of(helper, 1)
    try:
        while len(events) < MAX:
            event = pmu.Event("branches", cpu, pinned=True)
            if event.read() is None:
                event.close()
                break
            events.append(event)
        before = [event.read() for event in events]
        helper.do(command)
        after = [event.read() for event in events]
    finally:
        for event in events:
            event.close()
    assert all(b[2] - a[2] > 0.99 * (b[1] - a[1]) for a, b in zip(before, after)), "pinned events run all the time"
    return [b[0] - a[0] for a, b in zip(before, after)]


def test_the_numbers_are_true(machine, one_pmu, cpus, work):
    if not pmu.opens("branches", cpus[0]):
        pytest.skip("this PMU has no branches, which are what the test counts")
    _, advertised, usable = one_pmu
    counts = count_together(cpus[0], work(cpu=cpus[0]))
    print(f"each counted {counts}")
    if max(counts) == 0:
        pytest.skip("this PMU takes branches, and counts none")
    assert len(counts) == advertised
    # A counter that the host takes away in the middle is some part of one.
    assert round(sum(counts) / max(counts)) == usable


def test_as_many_events_as_counters_are_all_counted(machine, one_pmu, cpus, work, perfmond):
    """Equal ones, in one group: each of them counts the same, and none reads 0."""
    name, advertised, usable = one_pmu
    if advertised < 2:
        pytest.skip(f"PMU {name} has {advertised} counter")
    labels = [f"e{number}" for number in range(advertised)]
    daemon = perfmond('[daemon]\ninterval = 100ms\n[cpu]\ngroups = all\n[cgroup]\ngroups =\n[group "all"]\nevents = ' +
                      ", ".join(f"{label}=instructions" for label in labels))
    cpu = cpus[0]
    load = Repeated(work(cpu=cpu), "faults 2000")
    try:
        time.sleep(1)
        before = daemon.fresh()
        time.sleep(4)
        delta = Delta(before, daemon.fresh())
    finally:
        load.end()
    rises = [delta.of(f"perf_cpu_{label}_total", cpu=str(cpu)) for label in labels]
    assert min(rises) > 0 and min(rises) == pytest.approx(max(rises), rel=0.1), rises

    events = daemon.json("/api/v1/events")
    sizes = [len(one["members"]) for one in events["sets"]]
    assert max(sizes) <= usable, sizes
    if usable < advertised:
        told = re.compile(rf"\(of its {advertised} counters only {usable} count\)")
        assert all(told.search(event["reason"] or "") for event in events["events"]), events


def assert_each_counts_a_loop(daemon, helper, cpu, labels):
    """Equal events, of a loop of known length: by turns or not, none is a false 0, and all are true within 3 %. While
    the test asks, others have the CPU for some 0.2 s, such as suites at idle priority, and the loop is long beside
    that."""
    command = loop_of(helper, 20)
    before = daemon.fresh()
    length = helper.do(command)
    delta = Delta(before, daemon.fresh())
    rises = {label: delta.of(f"perf_cpu_{label}_total", cpu=str(cpu)) for label in labels}
    assert all(rise == pytest.approx(length, rel=0.03) for rise in rises.values()), (length, rises)


def config_of(**groups):
    sections = "".join(f'[group "{name}"]\nevents = {events}\n' for name, events in groups.items())
    # No multiple of the kernel's turns: each of the daemon's own is another's.
    return f"[daemon]\ninterval = 230ms\n[cpu]\ngroups = {' '.join(groups)}\n[cgroup]\ngroups =\n{sections}"


def test_twelve_events_are_all_counted(machine, one_pmu, cpus, work, perfmond):
    """More than any PMU here has counters, in one group: it is counted in parts, which take turns."""
    _, advertised, usable = one_pmu
    labels = [f"e{number}" for number in range(12)]
    daemon = perfmond(config_of(all=", ".join(f"{label}=instructions:u" for label in labels)))
    assert_each_counts_a_loop(daemon, work(cpu=cpus[0]), cpus[0], labels)
    if usable < advertised:
        assert max(len(one["members"]) for one in daemon.json("/api/v1/events")["sets"]) <= usable


def test_beside_a_pinned_event(machine, one_pmu, cpus, work, perfmond):
    """It has a counter at all times, so that the parts of the group have one less."""
    name, advertised, usable = one_pmu
    if usable < 2:
        pytest.skip(f"PMU {name} has {usable} counter")
    labels = [f"e{number}" for number in range(usable)]
    daemon = perfmond(config_of(pinned="p=instructions:uD",
                                rest=", ".join(f"{label}=instructions:u" for label in labels)))
    assert_each_counts_a_loop(daemon, work(cpu=cpus[0]), cpus[0], ["p", *labels])
    if usable < advertised:
        assert max(len(one["members"]) for one in daemon.json("/api/v1/events")["sets"]) < usable
