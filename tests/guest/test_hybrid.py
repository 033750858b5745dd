# SPDX-License-Identifier: MIT
"""Two core PMUs, each of one of the two CPUs: the guest's PMU is shown as both, in a folder that lies over sysfs.

Its cycles are those of a clock of 1 GHz: so many as the work takes ns of CPU time. The kernel does not take the PMU's
type in an event's config (as Arm does since Linux 6.6), so that the CPU says which PMU it is.
"""

import pytest

from guests import Failed, config
from harness import Delta

PMUS = "/sys/bus/event_source/devices"
CORE, ATOM = "cpu_core", "cpu_atom"
CPU, OTHER = {CORE: "0", ATOM: "1"}, {CORE: ATOM, ATOM: CORE}
CYCLES = "perf_cgroup_cycles_total"
ROOT = "/sys/fs/cgroup"

MS = 1000000
# By so many cycles they and the clock can differ where the host is busy: at a switch the kernel reads the clock, and
# then the programs read the cycles; the host may leave the guest between the two. The cycles of that time are those of
# the task before, and the time is that of the task after it, or the other way round. Stops of the host of 10 ms were
# seen to do that, one for one.
APART = 30 * MS
SHOW = f"""
for pmu in {CORE} {ATOM}; do
    mkdir -p /tmp/pmus/$pmu
    cp -r {PMUS}/armv8_*/* /tmp/pmus/$pmu/ 2>/dev/null
done
echo 0 >/tmp/pmus/{CORE}/cpus
echo 1 >/tmp/pmus/{ATOM}/cpus
mount --bind /tmp/pmus {PMUS}
"""


def switch(guest, online):
    """The other CPU, and the PMU's list of its CPUs, which is empty without it."""
    guest.run(f"""
        {"echo 1" if online else "echo"} >/tmp/pmus/{ATOM}/cpus
        echo {online} >/sys/devices/system/cpu/cpu1/online""")


@pytest.fixture
def guest(pair):
    pair.run(SHOW)
    pair.run(f"mkdir {ROOT}/n {ROOT}/n/left {ROOT}/n/right")
    yield pair
    switch(pair, 1)
    pair.run(f"umount {PMUS}; rm -r /tmp/pmus; sleep 0.1; rmdir {ROOT}/n/left {ROOT}/n/right {ROOT}/n")


def wait_counted(guest, cpus):
    """The daemon has seen by itself that the CPUs are others."""
    try:
        guest.run(f"""
            tries=0
            until grep 'counted now' /tmp/perfmond.log | tail -n 1 | grep -q ': {cpus}$'; do
                sleep 0.1
                tries=$((tries + 1))
                [ $tries -lt 300 ] || exit 1
            done""")
    except Failed as error:
        raise AssertionError(guest.read("/tmp/perfmond.log")) from error


def settings(*groups, engine="bpf", **kwargs):
    return config(*groups, scope="cpu cgroup", include="/ /n /n/**", engine=engine, interval="100ms", **kwargs)


def of(delta, cgroup, pmu, **labels):
    return delta.of(CYCLES, cgroup=cgroup, pmu=pmu, **labels)


def clock(delta, cgroup, **labels):
    """Its time, in cycles."""
    return delta.of("perf_cgroup_task_clock_seconds_total", cgroup=cgroup, **labels) * 1000 * MS


class AtLeast:
    """So many ms of work, in cycles: it takes longer where the host is busy, and see APART. 0: nothing at all."""

    def __init__(self, ms):
        self.ms = ms

    def __eq__(self, cycles):
        return cycles >= self.ms * MS - APART if self.ms else cycles == 0

    def __repr__(self):
        return f"at least {self.ms} ms"


def states(metrics, scope):
    return {labels["pmu"]: labels["state"]
            for labels, _ in metrics.all("perf_event_state", scope=scope, event="cycles")}


@pytest.mark.parametrize("engine", ["bpf", "perf"])
def test_cycles_are_of_the_pmu_where_it_runs(guest, perfmond, engine):
    """Tasks of a parent and of both its children, one of which goes on to the other CPU. By each CPU, cycles are its
    clock's, and each CPU has those of its PMU alone."""
    daemon = perfmond(settings("events = cycles, task-clock", engine=engine, per_cpu="yes"))
    assert ("bpf" in daemon.json("/api/v1/status")["engine"]) == (engine == "bpf")
    before = daemon.fresh()
    guest.load("pin:0 join:n/left cpu:200 pin:1 cpu:300 leave", "pin:1 join:n/right cpu:150 leave",
               "pin:0 join:n cpu:100 leave")
    delta = Delta(before, daemon.fresh())
    done = {("/n/left", CORE): 200, ("/n/left", ATOM): 300, ("/n/right", CORE): 0, ("/n/right", ATOM): 150,
            ("/n", CORE): 300, ("/n", ATOM): 450}
    for (cgroup, pmu), ms in done.items():
        cycles = of(delta, cgroup, pmu, cpu=CPU[pmu])
        assert cycles == AtLeast(ms), (cgroup, pmu)
        assert cycles == pytest.approx(clock(delta, cgroup, cpu=CPU[pmu]), abs=APART), (cgroup, pmu)
        assert not delta.after.all(CYCLES, cgroup=cgroup, pmu=pmu, cpu=CPU[OTHER[pmu]])
    for pmu, cpu in CPU.items():
        assert of(delta, "/", pmu) == delta.of("perf_cpu_cycles_total", cpu=cpu, pmu=pmu) > of(delta, "/n", pmu)
        assert [labels["cpu"] for labels, _ in delta.after.all("perf_cpu_cycles_total", pmu=pmu)] == [cpu]
    assert states(delta.after, "cgroup") == states(delta.after, "cpu") == {CORE: "ok", ATOM: "ok"}


def test_a_parent_is_the_sum(guest, perfmond):
    daemon = perfmond(settings("events = cycles, cycles:u"))
    before = daemon.fresh()
    guest.load("pin:1 join:n/left cpu:200 leave", "pin:1 join:n/right cpu:300 pin:0 cpu:300 leave")
    delta = Delta(before, daemon.fresh())
    for pmu in CPU:
        parts = [of(delta, cgroup, pmu) for cgroup in ("/n/left", "/n/right")]
        assert of(delta, "/n", pmu) == sum(parts) and parts == [AtLeast(200 if pmu == ATOM else 0), AtLeast(300)]


def test_one_is_short_of_counters(guest, perfmond):
    """What shares the counters of one PMU is an estimate there, and exact on the other."""
    groups = ["events = " + ", ".join(f"c{number}{k}=cpu_core/cycles/" for k in range(4)) for number in range(3)]
    daemon = perfmond(settings("events = cycles", "events = task-clock", *groups))
    # Where the host stops the guest for longer while the programs read one event after the other, as APART describes,
    # those read after the stop have it in another cgroup than those before: that does not happen three times.
    for _ in range(3):
        before = daemon.fresh()
        guest.load("pin:0 join:n/left cpu:1200 leave", "pin:1 join:n/right cpu:300 leave")
        delta = Delta(before, daemon.fresh())
        for scope in ("cpu", "cgroup"):
            assert states(delta.after, scope) == {CORE: "multiplexed", ATOM: "ok"}
        left = {}
        for event in ("cycles", "c00", "c10", "c20"):
            labels = {"pmu": CORE} if event == "cycles" else {}
            left[event], right = (delta.of(f"perf_cgroup_{event}_total", cgroup=cgroup, **labels)
                                  for cgroup in ("/n/left", "/n/right"))
            assert right == 0, event
        # In each turn, an emulated machine takes long to program the counters.
        expected = pytest.approx(dict.fromkeys(left, clock(delta, "/n/left")), rel=0.15)
        if left == expected:
            break
    assert left == expected
    assert of(delta, "/n/left", ATOM) == 0
    assert of(delta, "/n/right", ATOM) == of(delta, "/n", ATOM) == pytest.approx(clock(delta, "/n/right"), abs=APART)


@pytest.mark.parametrize("per_cpu", ["no", "yes"])
def test_its_cpu_goes_offline(guest, perfmond, per_cpu):
    """With it all that the PMU counts, until it is back: the sum of its CPUs is absent, and goes on."""
    daemon = perfmond(settings("events = cycles", per_cpu=per_cpu))
    cpus = {CORE: {"cpu": "0"}, ATOM: {"cpu": "1"}} if per_cpu == "yes" else {CORE: {}, ATOM: {}}

    def totals(metrics):
        return {pmu: metrics.get(CYCLES, cgroup="/n/left", pmu=pmu, **labels) for pmu, labels in cpus.items()}

    guest.load("pin:0 join:n/left cpu:250 pin:1 cpu:350 leave")
    before = totals(daemon.fresh())
    assert before == {CORE: AtLeast(250), ATOM: AtLeast(350)}
    switch(guest, 0)
    wait_counted(guest, "0")
    guest.load("join:n/left cpu:300 leave")
    metrics = daemon.fresh()
    away = totals(metrics)
    assert away == {CORE: AtLeast(550), ATOM: before[ATOM] if per_cpu == "yes" else None}
    assert states(metrics, "cgroup") == {CORE: "ok", ATOM: "unsupported"}
    switch(guest, 1)
    wait_counted(guest, "0-1")
    back = totals(daemon.fresh())
    assert back == {CORE: away[CORE], ATOM: before[ATOM]}
    guest.load("pin:1 join:n/left cpu:400 pin:0 cpu:200 leave")
    metrics = daemon.fresh()
    assert totals(metrics) == {CORE: AtLeast(750), ATOM: AtLeast(750)}
    assert states(metrics, "cgroup") == {CORE: "ok", ATOM: "ok"}
    assert metrics.value("perfmond_credit_errors_total") == 0
