# SPDX-License-Identifier: MIT
"""The root cgroup: all tasks of the machine are in it, so that its counts are the CPUs' own, and no event is opened for
it where these count the same."""

import pytest

from harness import Repeated, until
from machine import needs, why_lacks

pytestmark = [pytest.mark.engines, needs("root-cgroup")]
deep = pytest.mark.deep

# One of a PMU, where there is one that counts per CPU.
EVENTS = ("context_switches", "page_faults", *(() if why_lacks("msr") else ("msr_tsc",)))
CONFIGURED = ", ".join(event.replace("_", "-").replace("msr-tsc", "msr/tsc/") for event in EVENTS)


def config(groups="shared", include="/", per_cpu="no", events=CONFIGURED, cpu="shared"):
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
        """They rise, by the same; each: also CPU by CPU."""
        until(lambda: self._have_risen(each), f"all of them rise: {EVENTS}")

    def _have_risen(self, each):
        risen = True
        for event, (cpus, root) in self.look().items():
            rises = [a - b for a, b in zip(cpus, self.first[event][0])]
            root = [a - b for a, b in zip(root, self.first[event][1])]
            assert root == (rises if each else [sum(rises)]), event
            risen = risen and sum(rises) > 0
        return risen


@pytest.fixture
def busy(work, cpus):
    """Page faults on each CPU, all the time."""
    loads = [Repeated(work(cpu=cpu), "faults 500") for cpu in cpus]
    yield
    for load in loads:
        load.end()


LOOKS = pytest.mark.parametrize("looks", [4, pytest.param(20, marks=deep)])


@LOOKS
def test_the_root_is_the_sum_of_the_cpus(shared_perfmond, busy, cpus, looks):
    daemon = shared_perfmond(config())
    both = Both(daemon.fresh, cpus)
    for _ in range(looks):
        both.check()
    for event in daemon.json("/api/v1/events")["events"]:
        assert event["state"] == "ok", event


def test_the_root_on_a_cpu_is_that_cpu(perfmond, busy, cpus):
    both = Both(perfmond(config(per_cpu="yes")).fresh, cpus)
    for _ in range(3):
        both.check(each=True)


def test_no_event_is_opened_for_the_root(perfmond, cpus, engine):
    """But for those of a group that the CPUs do not have; the engine bpf opens these on CPUs whatever there is."""
    def open_events(text):
        return perfmond(text).fresh().value("perfmond_open_events")

    own = 0 if engine == "bpf" else len(EVENTS) * len(cpus)
    without = open_events(config(include="/nothing"))
    assert open_events(config()) == without
    assert open_events(config(groups="shared own")) == without + len(cpus)
    of_nothing = open_events(config(cpu="", include="/nothing"))
    assert open_events(config(cpu="")) == of_nothing + own
    assert engine != "bpf" or of_nothing == len(EVENTS) * len(cpus)


def test_the_root_stays_the_sum_over_reloads(perfmond, busy, cpus):
    daemon = perfmond(config())
    both = Both(daemon.fresh, cpus)
    for groups in ("shared own", "shared", "shared", "shared own"):
        daemon.reload(config(groups=groups))
        both.check()


ENDS = pytest.mark.parametrize("ends", [("stop", "kill"), pytest.param(("kill", "kill", "stop", "stop"), marks=deep)],
                               ids=", ".join)


@ENDS
def test_the_root_stays_the_sum_over_restarts(service, busy, cpus, ends):
    """What the CPUs count while no daemon runs is the root's as well."""
    service.start(config())
    both = Both(service.fresh, cpus)
    for end in ends:
        service.wait_kept()
        getattr(service, end)()
        service.start()
        until(lambda: service.daemon.fresh().all(f"perf_cgroup_{EVENTS[-1]}_total"), "the root is counted")
        both.check()


def test_the_root_counts_events_that_only_cgroups_have(perfmond, work, cpus):
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


@needs("bpf")
@pytest.mark.any_engine
@LOOKS
def test_events_of_groups_that_differ_are_open_once(perfmond, busy, cpus, looks):
    """On a CPU; and the times of a group that is counted in two sets are its times once."""
    daemon = perfmond(APART.format(cpu="machine"))
    apart = Apart(daemon.fresh, cpus)
    assert apart.first == {"context_switches": 0, "page_faults": 0}
    assert daemon.fresh().value("perfmond_open_events") == 5 * len(cpus)
    for _ in range(looks):
        apart.check()
    metrics = daemon.fresh()
    enabled = {scope: metrics.all(f"perf_{scope}_group_enabled_seconds_total") for scope in ("cpu", "cgroup")}
    assert [labels["group"] for labels, _ in enabled["cgroup"]] == ["mine"]
    assert [labels["group"] for labels, _ in enabled["cpu"]] == ["machine"] * len(cpus)
    if looks == 20:  # after so long a time the moments at which the one and the other began do not matter
        times = [sum(value for _, value in enabled[scope]) for scope in ("cpu", "cgroup")]
        assert times[0] == pytest.approx(times[1], rel=0.05)


@needs("bpf")
@pytest.mark.any_engine
def test_groups_that_differ_over_reloads(perfmond, busy, cpus):
    """Other sets of the CPUs feed the root, and give it what they give to the CPUs."""
    daemon = perfmond(APART.format(cpu="machine"))
    apart = Apart(daemon.fresh, cpus)
    for cpu in ("more", "machine", "more", "mine", "machine"):
        daemon.reload(APART.format(cpu=cpu))
        for _ in range(2):
            apart.check()


@needs("bpf")
@pytest.mark.any_engine
@ENDS
def test_groups_that_differ_over_restarts(service, busy, cpus, ends):
    service.start(APART.format(cpu="machine"))
    apart = Apart(service.fresh, cpus)
    for end in ends:
        service.wait_kept()
        getattr(service, end)()
        service.start()
        until(lambda: service.daemon.fresh().all("perf_cgroup_page_faults_total"), "the root is counted")
        apart.check()
