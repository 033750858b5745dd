# SPDX-License-Identifier: MIT
"""Two core PMUs, each of some of the CPUs, as machines have them whose cores are of two kinds.

The msr PMU is dressed up as both, in a mount namespace of the daemon's own: with one list of CPUs and with the other.
The kernel counts its TSC on any CPU, per cgroup too, and the daemon takes it for hardware events of these PMUs: on its
own CPUs, with times of its own, and within the budget. What a cgroup has to have is what the kernel's own events of the
cgroup say, which are opened beside it.
"""

import itertools
import time
from pathlib import Path

import pytest

from counter import Counter, Keeper
from harness import Delta, Repeated, online_cpus, run, until
from machine import needs

pytestmark = needs("msr", "two-cpus", "mount-namespace")
deep, alone = pytest.mark.deep, pytest.mark.alone

PMUS = Path("/sys/bus/event_source/devices")
CPUS = Path("/sys/devices/system/cpu")

# The namespace, and the mounts with it, are gone with the daemon.
IN_NAMESPACE = 'mount --bind "$1/pmus" "$2" && mount --bind "$1/cpus" "$3" && shift 3 && exec "$@"'

CORE, ATOM = "cpu_core", "cpu_atom"
OTHER = {CORE: ATOM, ATOM: CORE}

# A raw event is counted on each core PMU.
BOTH = "tsc=r0"

# A cgroup is switched to and from at other moments than the kernel's own events are, and an interrupt can come in
# between, or a hypervisor can take the CPU for a while. Beside other tests this can be much; alone it is little.
ABOUT, CLOSE = 0.5, 0.01
TWICE = pytest.mark.parametrize("apart", [ABOUT, pytest.param(CLOSE, marks=[deep, alone])], ids=["about", "close"])


class Machine:
    """What the daemon sees, and which CPUs are whose."""

    def __init__(self, folder, cpus):
        self.folder, self.cpus = folder, {CORE: cpus[:-1], ATOM: cpus[-1:]}
        for pmu in (CORE, ATOM):
            for name in ("type", "format/event", "events/tsc"):
                (folder / "pmus" / pmu / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / "pmus" / pmu / name).write_text((PMUS / "msr" / name).read_text())
        for cpu in cpus:
            (folder / f"cpus/cpu{cpu}").mkdir(parents=True)
        (folder / "cpus/possible").write_text((CPUS / "possible").read_text())
        self.show(cpus)
        self.prefix = ["unshare", "--mount", "sh", "-c", IN_NAMESPACE, "sh", folder, PMUS, CPUS]

    def show(self, online):
        """The CPUs that are online, as the daemon is going to see it."""
        (self.folder / "cpus/online").write_text(",".join(map(str, online)) + "\n")
        for pmu, cpus in self.cpus.items():
            (self.folder / "pmus" / pmu / "cpus").write_text(",".join(str(c) for c in cpus if c in online) + "\n")


@pytest.fixture
def machine(privileged, tmp_path, cpus):
    return Machine(tmp_path, cpus)


@pytest.fixture(scope="module")
def same_machine(privileged, tmp_path_factory):
    """Of the tests that only look."""
    return Machine(tmp_path_factory.mktemp("machine"), online_cpus())


@pytest.fixture
def hybrid(machine, perfmond):
    """Starts daemons that see the two PMUs."""
    return lambda text: perfmond(text, prefix=machine.prefix)


@pytest.fixture
def shared(shared_perfmond, shared_cgroups, same_machine):
    """The daemon of the tests that only look at own cgroups, with series per CPU or without."""
    return lambda per_cpu="no": shared_perfmond(
        config(shared_cgroups, f"{BOTH}, task-clock", per_cpu=per_cpu), prefix=same_machine.prefix)


def config(top, events=BOTH, cpu="work", engine=None, per_cpu="no", more=""):
    return f"""
[daemon]
interval = 200ms
switch_budget = 100%
[profiles]
enabled = no
[web]
listen = 127.0.0.1:0
[cpu]
groups = {cpu}
[cgroup]
{f"engine = {engine}" if engine else ""}
groups = work
include = / {top.label} {top.label}/**
per_cpu = {per_cpu}
{more}
[group "work"]
events = {events}
"""


def count_ticks(**kwargs):
    """What the TSC counts (Counter)."""
    return Counter(pmu=int((PMUS / "msr/type").read_text()), events={"tsc": 0}, **kwargs)


class About:
    """What a cgroup has counted, as far as others can tell: `most` more may have been hidden (counter.Keeper)."""

    def __init__(self, ticks, most, apart):
        self.ticks, self.most, self.apart = ticks, most, apart

    def __add__(self, other):
        return About(self.ticks + other.ticks, self.most + other.most, self.apart)

    def __eq__(self, counted):
        return (1 - self.apart) * self.ticks <= counted <= \
            (1 + self.apart) * self.ticks + (self.most if self.ticks else 0)

    def __repr__(self):
        return f"{self.ticks} to {self.ticks + self.most}"


class Truth:
    """What each of the cgroups has counted on each PMU's CPUs since it was asked last."""

    def __init__(self, machine, groups, apart):
        self.apart = apart
        self.ticks = {(group.label, pmu): count_ticks(folder=group.path, cpus=machine.cpus[pmu])
                      for group, pmu in itertools.product(groups, machine.cpus)}
        if Keeper.is_there():
            self.ticks["keeper"] = count_ticks(process=1)
        self.last = {}
        self.since()

    def since(self):
        now = {key: ticks.read()["tsc"] for key, ticks in self.ticks.items()}
        rises = {key: value - self.last.get(key, 0) for key, value in now.items()}
        self.last = now
        most = rises.pop("keeper", 0)
        return {key: About(rise, most, self.apart) for key, rise in rises.items()}

    def close(self):
        for ticks in self.ticks.values():
            ticks.close()


@pytest.fixture
def apart():
    """By which share what the kernel's own events say can differ; a test with TWICE has it as a parameter."""
    return ABOUT


@pytest.fixture
def truth(same_machine, apart):
    made = []

    def make(*groups):
        made.append(Truth(same_machine, groups, apart))
        return made[-1]

    yield make
    for one in made:
        one.close()


def ticks_of(delta, cgroup, pmu):
    return delta.of("perf_cgroup_tsc_total", cgroup=getattr(cgroup, "label", cgroup), pmu=pmu)


def start_on(work, cgroup, cpu):
    """A helper that has run on this CPU alone since it came to the cgroup."""
    helper = work(cpu=cpu)
    helper.wait_asleep()
    cgroup.add(helper.process.pid)
    return helper


def work_at_once(helpers, command):
    for helper in helpers:
        helper.begin(command)
    for helper in helpers:
        helper.finish()
        helper.wait_asleep()


def wait_counted(daemon, *groups):
    until(lambda: {group.label for group in groups} <=
          {labels["cgroup"] for labels, _ in daemon.metrics().all("perf_cgroup_info")}, "all are counted")


def states(metrics, scope):
    return {labels["pmu"]: labels["state"]
            for labels, _ in metrics.all("perf_event_state", scope=scope, event="tsc")}


def test_each_cpu_has_the_events_of_its_pmu(shared, same_machine):
    """One event a CPU: the TSC goes on as fast on all, which shows where they are read shortly after each other."""
    daemon, machine = shared(), same_machine
    series = {(pmu, cpu) for pmu, cpus in machine.cpus.items() for cpu in cpus}
    before = daemon.fresh()

    def alike():
        delta = Delta(before, daemon.fresh())
        assert {(labels["pmu"], int(labels["cpu"])) for labels, _ in delta.after.all("perf_cpu_tsc_total")} == series
        assert states(delta.after, "cpu") == {CORE: "ok", ATOM: "ok"}
        rises = [delta.of("perf_cpu_tsc_total", pmu=pmu, cpu=str(cpu)) for pmu, cpu in series]
        return min(rises) > 1e8 and max(rises) == pytest.approx(min(rises), rel=0.05)

    until(alike, "the TSC has gone on as fast on all CPUs")


def test_check_names_the_pmus(machine, cgroups, tmp_path):
    path = tmp_path / "perfmond.conf"
    path.write_text(config(cgroups))
    done = run("--check", f"--config={path}", prefix=machine.prefix)
    lines = [line for line in done.stdout.splitlines() if BOTH.partition("=")[2] in line.split()]
    assert [line.split()[2] for line in lines] == [f"({pmu})" for pmu in (ATOM, CORE)] * 2, done.stdout


@pytest.mark.engines
@TWICE
def test_counts_are_of_the_pmu_where_it_runs(shared, same_machine, own_cgroup, work, truth, engine, apart):
    """Also when a task goes on to a CPU of the other PMU, at every level. A PMU on whose CPUs nothing of the cgroup has
    run has counted 0, which is true and is shown."""
    daemon, machine, parent = shared(), same_machine, own_cgroup
    left, right = parent.make("left"), parent.make("right")
    own, mover, other = (start_on(work, group, machine.cpus[pmu][0])
                         for group, pmu in ((parent, CORE), (left, CORE), (right, ATOM)))
    wait_counted(daemon, parent, left, right)
    reference = truth(parent, left, right)
    phases = [(CORE, (mover, other)), (ATOM, (mover, own)), (CORE, (mover,))]

    for pmu, helpers in phases:
        mover.do(f"pin {machine.cpus[pmu][0]}")
        mover.wait_asleep()
        reference.since()
        before = daemon.fresh()
        work_at_once(helpers, "cpu 60")
        delta, done = Delta(before, daemon.fresh()), reference.since()

        assert done[left.label, pmu].ticks > 1e7
        assert ticks_of(delta, left, OTHER[pmu]) == 0 == done[left.label, OTHER[pmu]]
        assert delta.after.value("perf_cgroup_tsc_total", cgroup=right.label, pmu=CORE) == 0
        for group, at in itertools.product((parent, left, right), (CORE, ATOM)):
            assert ticks_of(delta, group, at) == done[group.label, at], (group.label, at, pmu)
            if own not in helpers and group is parent and engine == "bpf":
                assert ticks_of(delta, parent, at) == ticks_of(delta, left, at) + ticks_of(delta, right, at)
    assert states(delta.after, "cgroup") == {CORE: "ok", ATOM: "ok"}


@pytest.mark.engines
def test_the_root_is_the_sum_of_the_cpus(shared, same_machine, own_cgroup, work):
    daemon, machine, cgroups = shared(), same_machine, own_cgroup
    wait_counted(daemon, cgroups)
    helpers = [start_on(work, cgroups, cpu) for cpu in (machine.cpus[CORE][0], machine.cpus[ATOM][0])]
    before = daemon.fresh()
    for helper in helpers:
        helper.do("cpu 30")
    delta = Delta(before, daemon.fresh())
    for pmu, cpus in machine.cpus.items():
        assert ticks_of(delta, "/", pmu) == sum(delta.of("perf_cpu_tsc_total", pmu=pmu, cpu=str(cpu)) for cpu in cpus)
        assert ticks_of(delta, "/", pmu) > ticks_of(delta, cgroups, pmu) > 1e7


@pytest.mark.engines
@TWICE
@pytest.mark.parametrize("cpu", ["work", pytest.param("", marks=deep)], ids=["cpus too", "cgroups only"])
def test_per_cpu_there_are_series_of_the_pmus_cpus(hybrid, machine, cgroups, work, truth, cpu, apart):
    """A series for each CPU that the PMU is on, and for no other; in JSON too."""
    group = cgroups.make("group")
    helper = start_on(work, group, machine.cpus[CORE][0])
    daemon = hybrid(config(cgroups, f"{BOTH}, task-clock", cpu=cpu, per_cpu="yes"))
    wait_counted(daemon, group)
    reference = truth(group)

    for pmu in (CORE, ATOM):
        helper.do(f"pin {machine.cpus[pmu][0]}")
        helper.wait_asleep()
        reference.since()
        before = daemon.fresh()
        helper.do("cpu 60")
        helper.wait_asleep()
        delta, done = Delta(before, daemon.fresh()), reference.since()
        for at, cpus in machine.cpus.items():
            for each in cpus:
                rise = delta.of("perf_cgroup_tsc_total", cgroup=group.label, pmu=at, cpu=str(each))
                assert rise == (done[group.label, at] if each == machine.cpus[at][0] else 0), (pmu, at, each)
        for name in ("/", cgroups.label, group.label):
            series = {(labels["pmu"], int(labels["cpu"]))
                      for labels, _ in delta.after.all("perf_cgroup_tsc_total", cgroup=name)}
            assert series == {(at, each) for at, cpus in machine.cpus.items() for each in cpus}, name
    for row in daemon.json("/api/v1/snapshot", scope="cgroup", cgroup=group.label)["cgroups"]:
        shown = {at for at in machine.cpus if row["events"].get(f"tsc/{at}", {}).get("total") is not None}
        assert shown == {at for at, cpus in machine.cpus.items() if row["cpu"] in cpus}, row


@pytest.mark.engines
@TWICE
def test_a_group_of_both_pmus_is_counted_in_parts(hybrid, machine, cgroups, work, apart):
    """Events of two PMUs can't be one group of the kernel's. Each is counted with those of its PMU, and software on all
    CPUs: nothing is refused."""
    group = cgroups.make("group")
    helpers = [start_on(work, group, machine.cpus[pmu][0]) for pmu in (CORE, ATOM)]
    events = f"core=cpu_core/tsc/, task-clock, atom=cpu_atom/tsc/, core2=cpu_core/tsc/, {BOTH}"
    daemon = hybrid(config(cgroups, events))
    wait_counted(daemon, group)
    before = daemon.fresh()
    work_at_once(helpers, "cpu 50")
    delta = Delta(before, daemon.fresh())

    def rise(event, **labels):
        return delta.of(f"perf_cgroup_{event}_total", cgroup=group.label, **labels)

    # Those of one set are read one after the other, at the same switches.
    for pmu, names in ((CORE, ("core", "core2")), (ATOM, ("atom",))):
        for name in names:
            assert rise(name) == pytest.approx(rise("tsc", pmu=pmu), rel=apart / 10) and rise(name) > 1e7
    # What a busy hypervisor takes meanwhile comes on top.
    assert 0.07 < rise("task_clock_seconds") and (apart == ABOUT or rise("task_clock_seconds") < 0.13)
    enabled, running = (rise(f"group_{what}_seconds", group="work") for what in ("enabled", "running"))
    # Software of the group counts on both CPUs, and each PMU on one.
    assert running == enabled == pytest.approx(2 * rise("task_clock_seconds"), rel=max(0.05, apart))
    for event in daemon.json("/api/v1/events")["events"]:
        assert (event["state"], event["reason"]) == ("ok", None), event


@needs("bpf")
@TWICE
def test_one_pmu_alone(hybrid, machine, cgroups, work, truth, apart):
    """The CPUs of the other have no event that is read at switches. What runs on both is counted on the one."""
    group = cgroups.make("group")
    helper = start_on(work, group, machine.cpus[ATOM][0])
    daemon = hybrid(config(cgroups, "atom=cpu_atom/tsc/", engine="bpf", cpu=""))
    wait_counted(daemon, group)
    reference, before = truth(group), daemon.fresh()
    for pmu in (ATOM, CORE, ATOM, CORE):
        helper.do(f"pin {machine.cpus[pmu][0]}")
        helper.do("cpu 30")
    helper.wait_asleep()
    delta, done = Delta(before, daemon.fresh()), reference.since()
    for name in (group.label, cgroups.label):
        assert delta.of("perf_cgroup_atom_total", cgroup=name) == done[group.label, ATOM]
    assert done[group.label, CORE].ticks > 1e7


def start_storm(work, groups, cpu):
    """A pair of tasks that switch to each other, each in a cgroup of its own."""
    pair = start_on(work, groups[0], cpu)
    pair.fork()
    groups[1].add(pair.pids[1])
    return pair


@needs("bpf")
@deep
@alone
def test_a_storm_of_switches_beyond_the_budget_makes_estimates(hybrid, machine, cgroups, work):
    """Each switch takes some time to credit it, on any machine: 0.5 % of the CPU is soon used up. The state and its
    reason say so."""
    stormy = [cgroups.make(name) for name in ("ping", "pong")]
    pair = start_storm(work, stormy, machine.cpus[CORE][0])
    daemon = hybrid(config(cgroups, engine="bpf").replace("100%", "0.5%"))
    wait_counted(daemon, *stormy)
    storm = Repeated(pair, "switches 1000")
    try:
        until(lambda: states(daemon.metrics(), "cgroup")[CORE] == "multiplexed", "there are estimates")
        until(lambda: "estimate" in (reason_of(daemon, CORE)[1] or ""), "the reason says so")
        until(lambda: daemon.metrics().value("perf_cgroup_tsc_total", cgroup=stormy[0].label, pmu=CORE) > 0,
              "there is an estimate")
    finally:
        storm.end()


@needs("bpf")
@deep
@alone
@pytest.mark.parametrize("apart", [CLOSE], ids=["close"])
def test_a_budget_is_a_cpus(hybrid, machine, cgroups, work, truth, apart):
    """A storm of switches on a CPU makes estimates of the events of its PMU, and of no others."""
    quiet, *stormy = (cgroups.make(name) for name in ("quiet", "ping", "pong"))
    calm = start_on(work, quiet, machine.cpus[ATOM][0])
    pair = start_storm(work, stormy, machine.cpus[CORE][0])
    daemon = hybrid(config(cgroups, engine="bpf").replace("100%", "3%"))
    wait_counted(daemon, quiet, *stormy)
    reference, before, start = truth(quiet, *stormy), daemon.fresh(), time.monotonic()
    storm = Repeated(pair, "switches 1000")
    calm.do("cpu 200")
    until(lambda: states(daemon.metrics(), "cgroup")[CORE] == "multiplexed", "there are estimates")
    during = states(daemon.metrics(), "cgroup")
    # What came last was not observed yet: as long as a pause takes.
    time.sleep(max(0, start + 1 - time.monotonic()))
    storm.end()
    for helper in (calm, pair):
        helper.wait_asleep()
    delta, done = Delta(before, daemon.fresh()), reference.since()
    assert during == {CORE: "multiplexed", ATOM: "ok"}
    assert ticks_of(delta, quiet, ATOM) == done[quiet.label, ATOM] and ticks_of(delta, quiet, CORE) == 0
    for group in stormy:
        assert ticks_of(delta, group, ATOM) == 0
        assert ticks_of(delta, group, CORE) == pytest.approx(done[group.label, CORE].ticks, rel=0.15)


# --- what changes

class Mover:
    """A helper that works on the CPUs of both PMUs."""

    def __init__(self, machine, work, group, truth):
        self.machine, self.group, self.reference = machine, group, truth(group)
        self.helper = start_on(work, group, machine.cpus[CORE][0])

    def go_on(self):
        """What is to be counted of it, by PMU."""
        for pmu in (CORE, ATOM):
            self.helper.do(f"pin {self.machine.cpus[pmu][0]}")
            self.helper.do("cpu 30")
        self.helper.wait_asleep()
        done = self.reference.since()
        assert all(about.ticks > 1e7 for about in done.values())
        return {pmu: done[self.group.label, pmu] for pmu in (CORE, ATOM)}

    def totals(self, metrics):
        return {labels["pmu"]: value for labels, value in metrics.all("perf_cgroup_tsc_total", cgroup=self.group.label)}


def assert_rose(before, after, done):
    """By what was done."""
    assert before.keys() == after.keys()
    for pmu, total in after.items():
        assert total - before[pmu] == done[pmu], pmu


def reason_of(daemon, pmu, scope="cgroup"):
    found = [event for event in daemon.json("/api/v1/events")["events"]
             if (event["scope"], event["pmu"]) == (scope, pmu)]
    assert len(found) == 1
    return found[0]["state"], found[0]["reason"]


RELOADS = (("bpf", "no"), ("bpf", "yes"), ("bpf", "no"), ("perf", "no"), ("perf", "yes"), ("bpf", "no"))


@needs("bpf")
@pytest.mark.parametrize(("reloads", "apart"), [
    (RELOADS[1:4], ABOUT), pytest.param(RELOADS, CLOSE, marks=[deep, alone])], ids=["about", "close"])
def test_totals_of_each_pmu_go_on_over_reloads(hybrid, machine, cgroups, work, truth, reloads):
    """From engine to engine, and while the CPUs of one PMU are left alone: its total stays as it was, and goes on."""
    mover = Mover(machine, work, cgroups.make("group"), truth)
    exclude = ",".join(map(str, machine.cpus[ATOM]))
    daemon = hybrid(config(cgroups, engine="perf"))
    wait_counted(daemon, mover.group)
    mover.reference.since()
    known = mover.totals(daemon.fresh())
    for engine, left_alone in reloads:
        more = exclude if left_alone == "yes" else ""
        daemon.reload(config(cgroups, engine=engine).replace("[cpu]", f"[cpu]\nexclude = {more}"))
        before = mover.totals(daemon.fresh())
        done, metrics = mover.go_on(), daemon.fresh()
        after = mover.totals(metrics)
        assert after.keys() == ({CORE} if more else {CORE, ATOM}), (engine, more)
        assert before == {pmu: known[pmu] for pmu in before}, (engine, more)
        assert_rose(before, after, done)
        state, why = reason_of(daemon, ATOM)
        assert (state, why) == ("ok", None) if not more else \
            state == "unsupported" and f"its PMU counts on CPU {exclude} only, which is offline or left alone" in why
        assert states(metrics, "cgroup")[CORE] == states(metrics, "cpu")[CORE] == "ok"
        known.update(after)


@pytest.mark.engines
@pytest.mark.parametrize(("per_cpu", "apart"), [
    ("no", ABOUT), *(pytest.param(per_cpu, CLOSE, marks=[deep, alone]) for per_cpu in ("no", "yes"))],
    ids=["sums", "close-sums", "close-per_cpu"])
def test_totals_stay_while_a_pmus_cpus_are_offline(hybrid, machine, cgroups, work, truth, per_cpu):
    """All CPUs of a kind: the kernel takes them out of the PMU's list, too. Their own series stay; a sum over them has
    nothing to be shown until they are back, and goes on then."""
    mover, both = Mover(machine, work, cgroups.make("group"), truth), [*machine.cpus[CORE], *machine.cpus[ATOM]]
    daemon = hybrid(config(cgroups, per_cpu=per_cpu))
    wait_counted(daemon, mover.group)
    start, done = mover.totals(daemon.fresh()), mover.go_on()
    before = mover.totals(daemon.fresh())
    assert_rose(start, before, done)

    def show(online):
        machine.show(online)
        until(lambda: daemon.metrics().value("perfmond_cpus_offline") == len(both) - len(online), "it is seen")
        wait_counted(daemon, mover.group)
        until(lambda: daemon.metrics().value("perfmond_cgroups", state="waiting") == 0, "all are counted")
        if per_cpu == "no":
            pmus = {CORE} if online == machine.cpus[CORE] else {CORE, ATOM}
            until(lambda: mover.totals(daemon.metrics()).keys() == pmus, f"there are totals of {pmus}")
        return daemon.fresh()

    away = show(machine.cpus[CORE])
    for scope in ("cpu", "cgroup"):
        assert reason_of(daemon, ATOM, scope) == \
            ("unsupported", "PMU 'cpu_atom' has no CPU to be counted on (its list of CPUs is empty)")
    first, done = mover.totals(away), mover.go_on()
    last = mover.totals(daemon.fresh())
    assert first == (before if per_cpu == "yes" else {CORE: before[CORE]})
    assert_rose(first, last, {CORE: done[CORE], ATOM: 0})

    back = mover.totals(show(both))
    assert back == {**before, CORE: last[CORE]}
    done, metrics = mover.go_on(), daemon.fresh()
    assert_rose(back, mover.totals(metrics), done)
    assert states(metrics, "cgroup") == states(metrics, "cpu") == {CORE: "ok", ATOM: "ok"}


@needs("bpf")
@TWICE
def test_totals_of_each_pmu_go_on_over_restarts(service, machine, cgroups, work, truth, apart):
    mover = Mover(machine, work, cgroups.make("group"), truth)
    service.options = {"prefix": machine.prefix}
    service.start(config(cgroups, engine="bpf"))
    wait_counted(service.daemon, mover.group)
    service.wait_kept()
    mover.reference.since()
    before = mover.totals(service.fresh())
    for end in ("stop", "kill"):
        done = [mover.go_on()]
        getattr(service, end)()
        done.append(mover.go_on())
        service.start()
        done.append(mover.go_on())
        after = mover.totals(service.fresh())
        assert_rose(before, after, {pmu: done[0][pmu] + done[1][pmu] + done[2][pmu] for pmu in after})
        service.wait_kept()
        before = after
