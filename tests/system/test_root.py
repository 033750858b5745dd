# SPDX-License-Identifier: MIT
"""The root cgroup: all tasks of the machine are in it, so that its counts are the CPUs' own, and no event is opened for
it where these count the same."""

import os

import pytest

import machine
from harness import Repeated, perf_cgroup_mount, until

pytestmark = pytest.mark.engines

EVENTS = ("context_switches", "page_faults", "msr_tsc")


@pytest.fixture(autouse=True)
def sees_the_root(privileged):
    mount = perf_cgroup_mount()
    if not mount or os.stat(mount[0]).st_ino != 1:
        pytest.skip("the machine's root cgroup is not seen from here")


def config(groups="shared", include="/", per_cpu="no", events="context-switches, page-faults, msr/tsc/", cpu="shared"):
    return f"""
[daemon]
interval = 100ms
[web]
listen = 127.0.0.1:0
[cpu]
groups = {cpu}
[cgroup]
groups = {groups}
include = {include}
per_cpu = {per_cpu}
[group "shared"]
alone = yes
events = {events}
[group "own"]
events = task-clock
"""


class Both:
    """Totals of the root cgroup and of each CPU, which have to rise alike."""

    def __init__(self, scrape, cpus):
        self.scrape, self.cpus = scrape, cpus
        self.first = self.look()

    def look(self):
        metrics = self.scrape()
        return {event: ([metrics.value(f"perf_cpu_{event}_total", cpu=str(cpu)) for cpu in self.cpus],
                        [value for _, value in sorted(
                            (labels.get("cpu", ""), value) for labels, value in
                            metrics.all(f"perf_cgroup_{event}_total", cgroup="/"))])
                for event in EVENTS}

    def check(self, each=False):
        """They have risen, by the same; each: also CPU by CPU."""
        now = self.look()
        for event, (cpus, root) in now.items():
            rises = [a - b for a, b in zip(cpus, self.first[event][0])]
            root = [a - b for a, b in zip(root, self.first[event][1])]
            assert sum(rises) > 0, event
            assert root == (rises if each else [sum(rises)]), event
        return now


@pytest.fixture
def busy(work, cpus):
    """Page faults on each CPU, all the time."""
    loads = [Repeated(work(cpu=cpu), "faults 500") for cpu in cpus]
    yield
    for load in loads:
        load.end()


def test_it_is_the_sum_of_the_cpus(perfmond, busy, cpus):
    daemon = perfmond(config())
    both = Both(daemon.fresh, cpus)
    for _ in range(20):
        both.check()
    for event in daemon.json("/api/v1/events")["events"]:
        assert event["state"] == "ok", event


def test_on_each_cpu(perfmond, busy, cpus):
    both = Both(perfmond(config(per_cpu="yes")).fresh, cpus)
    for _ in range(5):
        both.check(each=True)


def test_no_event_is_opened_for_it(perfmond, cpus, engine):
    """But for those of a group that the CPUs do not have; the engine bpf opens these on CPUs whatever there is."""
    def open_events(text):
        return perfmond(text).fresh().value("perfmond_open_events")

    own = 0 if engine == "bpf" else 3 * len(cpus)
    without = open_events(config(include="/nothing"))
    assert open_events(config()) == without
    assert open_events(config(groups="shared own")) == without + len(cpus)
    of_nothing = open_events(config(cpu="", include="/nothing"))
    assert open_events(config(cpu="")) == of_nothing + own
    assert engine != "bpf" or of_nothing == 3 * len(cpus)


def test_over_reloads(perfmond, busy, cpus):
    daemon = perfmond(config())
    both = Both(daemon.fresh, cpus)
    for groups in ("shared own", "shared", "shared", "shared own"):
        daemon.reload(config(groups=groups))
        both.check()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_over_restarts(service, busy, cpus, end):
    """What the CPUs count while no daemon runs is the root's as well."""
    service.start(config())
    both = Both(service.fresh, cpus)
    for _ in range(3):
        service.wait_kept()
        getattr(service, end)()
        service.start()
        until(lambda: service.daemon.fresh().all("perf_cgroup_msr_tsc_total"), "the root is counted")
        both.check()


def test_events_that_only_cgroups_have(perfmond, work, cpus):
    """The CPUs count nothing: the root has events of its own, of whole CPUs."""
    daemon = perfmond(config(cpu=""))
    before, helper = daemon.fresh(), work(cpu=cpus[-1])
    helper.do("faults 1000")
    after = daemon.fresh()
    name = "perf_cgroup_page_faults_total"
    assert after.value(name, cgroup="/") - before.value(name, cgroup="/") >= 1000


APART = """
[daemon]
interval = 100ms
[web]
listen = 127.0.0.1:0
[cpu]
groups = {cpu}
[cgroup]
groups = mine
engine = bpf
include = /
[group "machine"]
events = context-switches, page-faults, major-faults
[group "more"]
events = alignment-faults, page-faults, emulation-faults, context-switches
[group "mine"]
events = task-clock, page-faults, cpu-migrations, context-switches
"""


class Apart:
    """Totals of events that groups of both scopes name, whose sums over the CPUs are the root's at any time."""

    def __init__(self, scrape, cpus):
        self.scrape, self.cpus = scrape, cpus
        self.first = self.distances()

    def distances(self):
        metrics = self.scrape()
        return {event: sum(metrics.value(f"perf_cpu_{event}_total", cpu=str(cpu)) for cpu in self.cpus) -
                metrics.value(f"perf_cgroup_{event}_total", cgroup="/")
                for event in ("context_switches", "page_faults")}

    def check(self):
        assert self.distances() == self.first


@pytest.fixture
def credits():
    machine.require("bpf")


@pytest.mark.any_engine
def test_events_of_groups_that_differ(perfmond, credits, busy, cpus):
    """Each is open once on a CPU, and the times of a group that is counted in two sets are its times once."""
    daemon = perfmond(APART.format(cpu="machine"))
    apart = Apart(daemon.fresh, cpus)
    assert apart.first == {"context_switches": 0, "page_faults": 0}
    assert daemon.fresh().value("perfmond_open_events") == 5 * len(cpus)
    for _ in range(20):
        apart.check()
    metrics = daemon.fresh()
    enabled = {scope: metrics.all(f"perf_{scope}_group_enabled_seconds_total") for scope in ("cpu", "cgroup")}
    assert [labels["group"] for labels, _ in enabled["cgroup"]] == ["mine"]
    assert [labels["group"] for labels, _ in enabled["cpu"]] == ["machine"] * len(cpus)
    times = [sum(value for _, value in enabled[scope]) for scope in ("cpu", "cgroup")]
    assert times[0] == pytest.approx(times[1], rel=0.05)


@pytest.mark.any_engine
def test_groups_that_differ_over_reloads(perfmond, credits, busy, cpus):
    """Other sets of the CPUs feed the root, and give it what they give to the CPUs."""
    daemon = perfmond(APART.format(cpu="machine"))
    apart = Apart(daemon.fresh, cpus)
    for cpu in ("more", "machine", "more", "mine", "machine"):
        daemon.reload(APART.format(cpu=cpu))
        for _ in range(3):
            apart.check()


@pytest.mark.any_engine
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_groups_that_differ_over_restarts(service, credits, busy, cpus, end):
    service.start(APART.format(cpu="machine"))
    apart = Apart(service.fresh, cpus)
    for _ in range(3):
        service.wait_kept()
        getattr(service, end)()
        service.start()
        until(lambda: service.daemon.fresh().all("perf_cgroup_page_faults_total"), "the root is counted")
        apart.check()
