# SPDX-License-Identifier: MIT
"""The engine that credits the CPUs' events to cgroups, where each instruction is known.

What "exactly" means of a load (load.c) that joins a cgroup, works and leaves it, in user mode: what it has done up to
the move is credited while the kernel moves it, so that its cgroup has all of the work, and beside it the way out of the
system call by which it joins and into the one by which it leaves (WAY). No shell runs in the cgroup before.
"""

import re

import pytest

from guests import CYCLES, as_nobody, config
from harness import FRESH, Delta, Metrics

MILLION = 1000000
# As in test_counting.py.
WAY = 100
END = 1000
# The instructions of the daemon itself between having its cgroups credited and reading the CPU, and those by which one
# reading differs from another.
READING = 500000

USER = "events = cycles:u, instructions:u"
INSTRUCTIONS, CYCLES_TOTAL = (f"perf_cgroup_{name}_user_total" for name in ("instructions", "cycles"))
ROOT = "/sys/fs/cgroup"

LEVELS = ["/n1", "/n1/n2", "/n1/n2/n3", "/n1/n2/n3/n4"]
BRANCHES = ["/n1/b2", "/n1/n2/b3", "/n1/n2/n3/b4"]

# More than the PMU has counters for: each runs a part of the time.
SHARED = [f"events = c{number}=cycles:u, " + ", ".join(f"i{number}{k}=instructions:u" for k in range(3))
          for number in range(3)]


def bpf(*groups, scope="cpu cgroup", include="/ /**", **kwargs):
    return config(*groups, scope=scope, include=include, engine="bpf", **kwargs)


def children_of(cgroup):
    return [other for other in LEVELS + BRANCHES if other.rpartition("/")[0] == cgroup]


@pytest.fixture
def tree(guest):
    """Four levels, with a branch at each: parents of two children have tasks of their own, too."""
    paths = [ROOT + path for path in LEVELS + BRANCHES]
    guest.run(f"mkdir {' '.join(paths)}")
    yield LEVELS + BRANCHES
    guest.run("sleep 0.1; rmdir " + " ".join(sorted(paths, key=len, reverse=True)))


def credits_cgroups(daemon):
    """It is the engine that is tested."""
    status = daemon.json("/api/v1/status")
    assert "bpf" in status["engine"], status["problems"]
    return daemon


def assert_adds_up(delta, name, own):
    """A parent is what its own tasks have done and what its children have, to the last event. Returns what the tasks
    of each have done."""
    found = {}
    for cgroup in LEVELS + BRANCHES:
        below = sum(delta.of(name, cgroup=child) for child in children_of(cgroup))
        found[cgroup] = delta.of(name, cgroup=cgroup) - below
        if cgroup not in own:
            assert found[cgroup] == 0, f"{cgroup}: nothing has run in it but in those below"
    return found


def test_nested_four_levels_deep(guest, perfmond, tree):
    """Loads at the same time, at all levels, which take turns on the CPU many times."""
    work = {"/n1": 10, "/n1/b2": 20, "/n1/n2": 30, "/n1/n2/b3": 40, "/n1/n2/n3/b4": 50, "/n1/n2/n3/n4": 60}
    daemon = credits_cgroups(perfmond(bpf(USER)))

    before = daemon.fresh()
    guest.load(*(f"join:{cgroup[1:]} instructions:{millions * MILLION} leave" for cgroup, millions in work.items()))
    delta = Delta(before, daemon.fresh())

    own = assert_adds_up(delta, INSTRUCTIONS, work)
    for cgroup, millions in work.items():
        assert millions * MILLION <= own[cgroup] <= millions * MILLION + WAY, cgroup
    cycles = assert_adds_up(delta, CYCLES_TOTAL, work)
    assert cycles == {cgroup: count * CYCLES for cgroup, count in own.items()}
    states = [delta.after.state(event, "cgroup") for event in ("cycles_user", "instructions_user")]
    assert states == ["ok", "ok"]


def test_all_cgroups_are_the_cpu(guest, perfmond, tree):
    """The root is the sum of the CPUs to the last event; the cgroups are all but what the root's own tasks do (each
    load after it has left), and never more."""
    daemon = credits_cgroups(perfmond(bpf(USER)))

    before = daemon.fresh()
    guest.load("join:n1/n2/n3/n4 instructions:80000000 leave", "join:a instructions:40000000 leave")
    delta = Delta(before, daemon.fresh())

    cpu = delta.of("perf_cpu_instructions_user_total", cpu="0")
    assert delta.of(INSTRUCTIONS, cgroup="/") == cpu
    for metrics in (before, delta.after):
        top = [value for labels, value in metrics.all(INSTRUCTIONS) if labels["cgroup"].count("/") == 1 and
               labels["cgroup"] != "/"]
        assert sum(top) <= metrics.value("perf_cpu_instructions_user_total", cpu="0")
    top = sum(delta.of(INSTRUCTIONS, cgroup=cgroup) for cgroup in ("/n1", "/a", "/b", "/idle", "/rest"))
    assert 120 * MILLION <= top
    assert top == pytest.approx(cpu, abs=READING + 2 * END)


def test_user_and_kernel_make_up_all(guest, perfmond, tree):
    """One group is read at once, so that not one event is between them."""
    daemon = credits_cgroups(perfmond(bpf("events = instructions, instructions:u, instructions:k")))

    before = daemon.fresh()
    guest.load("join:n1/n2 instructions:20000000 getsid:20000 leave")
    delta = Delta(before, daemon.fresh())

    everything, user, kernel = (delta.of(f"perf_cgroup_instructions{which}_total", cgroup="/n1/n2")
                                for which in ("", "_user", "_kernel"))
    assert user + kernel == pytest.approx(everything, rel=0.001) and kernel > 0
    assert 20 * MILLION <= user <= 21 * MILLION


def test_a_task_that_moves_itself(guest, perfmond, tree):
    """Up and down the tree, and each part of its work stays where it was done."""
    daemon = credits_cgroups(perfmond(bpf(USER)))

    before = daemon.fresh()
    guest.load("join:n1/n2/n3/n4 instructions:10000000 join:n1/b2 instructions:20000000 join:n1 "
               "instructions:30000000 join:n1/n2/n3/n4 instructions:40000000 leave")
    delta = Delta(before, daemon.fresh())

    own = assert_adds_up(delta, INSTRUCTIONS, ("/n1/n2/n3/n4", "/n1/b2", "/n1"))
    for cgroup, millions, visits in (("/n1/n2/n3/n4", 50, 2), ("/n1/b2", 20, 1), ("/n1", 30, 1)):
        assert millions * MILLION <= own[cgroup] <= millions * MILLION + visits * WAY, cgroup


def test_a_task_that_is_moved(guest, perfmond, tree):
    """By another, to and fro: on one CPU it does not run meanwhile, so that nothing of it gets lost."""
    daemon = credits_cgroups(perfmond(bpf(USER)))

    before = daemon.fresh()
    guest.run(f"""
        load join:n1/n2/n3/n4 instructions:200000000 leave &
        for i in $(seq 20); do
            for cgroup in n1/b2 n1/n2/n3/n4; do
                sleep 0.03
                echo $! >{ROOT}/$cgroup/cgroup.procs
            done
        done
        wait""")
    delta = Delta(before, daemon.fresh())

    own = assert_adds_up(delta, INSTRUCTIONS, ("/n1/n2/n3/n4", "/n1/b2"))
    assert 200 * MILLION <= delta.of(INSTRUCTIONS, cgroup="/n1") <= 200 * MILLION + WAY
    # 20 times 30 ms and what the shell takes in each; an instruction takes 16 ns.
    assert min(own["/n1/b2"], own["/n1/n2/n3/n4"]) >= 20 * 30e6 / CYCLES * 0.9


@pytest.mark.parametrize("seen", [False, True], ids=["unseen", "seen"])
def test_short_cgroups(guest, perfmond, tree, seen):
    """Twenty that come and go while nobody looks, or while they are looked at: all is in their parents."""
    daemon = credits_cgroups(perfmond(bpf(USER, interval="50ms")))

    before = daemon.fresh()
    guest.run(f"""
        {"" if seen else "kill -STOP $(cat /tmp/perfmond.pid)"}
        for i in $(seq 20); do
            mkdir {ROOT}/n1/n2/n3/brief$i
            load join:n1/n2/n3/brief$i instructions:1000000 leave
            {"sleep 0.02" if seen else ""}
            rmdir {ROOT}/n1/n2/n3/brief$i
        done
        kill -CONT $(cat /tmp/perfmond.pid)
        sleep 1""")
    delta = Delta(before, daemon.fresh())

    for cgroup in LEVELS[:3]:
        assert 20 * MILLION <= delta.of(INSTRUCTIONS, cgroup=cgroup) <= 20 * (MILLION + WAY), cgroup
    shown = {labels["cgroup"]: value for labels, value in delta.after.all(INSTRUCTIONS) if "brief" in labels["cgroup"]}
    assert not shown if not seen else len(shown) >= 18
    for cgroup, value in shown.items():
        assert MILLION <= value <= MILLION + WAY, cgroup


def test_counted_before_it_is_seen(guest, perfmond, tree):
    """A cgroup that the daemon comes to when half of its work is done, and has been read: nothing of it is missing."""
    daemon = credits_cgroups(perfmond(bpf(USER, interval="50ms")))
    guest.run(f"""
        kill -STOP $(cat /tmp/perfmond.pid)
        mkdir {ROOT}/n1/n2/n3/n4/late
        load join:n1/n2/n3/n4/late instructions:30000000 leave
        kill -CONT $(cat /tmp/perfmond.pid)
        sleep 0.3
        load join:n1/n2/n3/n4/late instructions:20000000 leave""")
    metrics = daemon.fresh()
    guest.run(f"rmdir {ROOT}/n1/n2/n3/n4/late")
    for cgroup in ("/n1/n2/n3/n4/late", *LEVELS):
        assert 50 * MILLION <= metrics.value(INSTRUCTIONS, cgroup=cgroup) <= 50 * MILLION + 2 * WAY, cgroup


@pytest.mark.parametrize("reload", [False, True], ids=["steady", "reload"])
def test_more_events_than_counters(guest, perfmond, tree, reload):
    """They take turns on the CPU, whatever the number of cgroups; a share of 1 would be a lie."""
    text = bpf(*SHARED, interval="100ms")
    daemon = credits_cgroups(perfmond(text))

    before = daemon.fresh()
    guest.run(f"""
        load join:n1/n2/n3/n4 instructions:300000000 leave &
        first=$!
        load join:n1/b2 instructions:150000000 leave &
        {"sleep 1; kill -HUP $(cat /tmp/perfmond.pid)" if reload else ""}
        wait $! $first""")
    delta = Delta(before, daemon.fresh())

    for number in range(3):
        for name, each in ((f"c{number}", CYCLES), *((f"i{number}{k}", 1) for k in range(3))):
            metric = f"perf_cgroup_{name}_total"
            own = assert_adds_up(delta, metric, ("/n1/n2/n3/n4", "/n1/b2"))
            assert own["/n1/n2/n3/n4"] == pytest.approx(300 * MILLION * each, rel=0.05)
            assert own["/n1/b2"] == pytest.approx(150 * MILLION * each, rel=0.05)
            assert delta.after.state(name, "cgroup") == delta.after.state(name, "cpu") == "multiplexed"


# A turn of `load yield`, and what is around it.
YIELD, AROUND = 2000, 30


def share_of(delta, cgroup):
    enabled, running = (delta.of(f"perf_cgroup_group_{what}_seconds_total", group="g0", cgroup=cgroup)
                        for what in ("enabled", "running"))
    return running / enabled


def test_within_the_budget(guest, perfmond, tree):
    """Two cgroups that do little but switch: crediting them all the time would take a large part of it. They are
    credited for a part of the time, and scaled, and the clock shows what switches cost. When the storm is over, all is
    counted again."""
    turns, (left, right) = 20000, ("/n1/n2/n3/n4", "/n1/b2")
    text = bpf(USER, "events = task-clock, context-switches", interval="100ms", budget="1%")
    daemon = credits_cgroups(perfmond(text))

    before = daemon.fresh()
    loads = "".join(f"load join:{cgroup[1:]} yield:{turns} leave &\n" for cgroup in (left, right))
    # In one script: between two there is no telling how much time passes in the guest.
    guest.run(f"""{loads}
        until {daemon.wget("/metrics")} | grep '^perf_event_state.*event="instructions_user"' |
                grep 'scope="cgroup"' | grep -q 'state="multiplexed"'; do
            pidof load || exit 1
            sleep 0.1
        done
        {daemon.wget("/api/v1/events")} >/tmp/events
        while pidof load; do sleep 0.05; done""")
    delta = Delta(before, daemon.fresh())
    assert "more than [daemon] switch_budget" in guest.run("cat /tmp/events")

    truth = turns * (YIELD + AROUND)
    for cgroup in (left, right):
        assert delta.of(INSTRUCTIONS, cgroup=cgroup) == pytest.approx(truth, rel=0.05), cgroup
        assert share_of(delta, cgroup) < 0.5
        # Software events are exact.
        assert delta.of("perf_cgroup_context_switches_total", cgroup=cgroup) >= 0.9 * turns
    assert delta.of(INSTRUCTIONS, cgroup="/n1") <= delta.of(INSTRUCTIONS, cgroup="/")
    assert delta.after.state("instructions_user", "cpu") == "ok"
    assert delta.of("perfmond_switches_total", cpu="0") >= 2 * 0.9 * turns
    assert delta.of("perfmond_switch_seconds_total", cpu="0") > 0

    # The budget fills up again, and a load that switches little is exact. It sleeps first, since asking the daemon
    # takes about as many switches as the budget is good for.
    # Counts of the storm that were too few to be scaled are scaled with those that come next.
    little = f"sleep 1; load join:{left[1:]} instructions:{20 * MILLION} leave"
    guest.run(little)
    before = daemon.fresh()
    guest.run(little)
    delta = Delta(before, daemon.fresh())
    assert share_of(delta, left) == pytest.approx(1, abs=0.001)
    assert 20 * MILLION <= delta.of(INSTRUCTIONS, cgroup=left) <= 20 * MILLION + WAY


@pytest.mark.parametrize("budget, shown", [("0.8%", True), ("0.05%", False)])
def test_short_cgroups_within_the_budget(guest, perfmond, tree, budget, shown):
    """Of cgroups that live for milliseconds, many fall into pauses altogether: their parents have what they did all the
    same, as an estimate, or are absent where hardly any was observed."""
    nr, each = 300, 200000
    daemon = credits_cgroups(perfmond(bpf(USER, interval="100ms", budget=budget)))
    before = daemon.fresh()
    guest.run(f"""
        for i in $(seq {nr}); do
            mkdir {ROOT}/n1/n2/n3/brief$i
            load join:n1/n2/n3/brief$i instructions:{each} leave
            rmdir {ROOT}/n1/n2/n3/brief$i
        done
        sleep 5""")
    delta = Delta(before, daemon.fresh())
    if not shown:
        # Some were observed, and they are shown: for as long as they linger.
        observed = [labels for labels, _ in delta.after.all(INSTRUCTIONS) if "brief" in labels["cgroup"]]
        assert 0 < len(observed) < 100
        assert [delta.after.get(INSTRUCTIONS, cgroup=cgroup) for cgroup in LEVELS[:3]] == [None] * 3
        return
    for cgroup in LEVELS[:3]:
        assert delta.of(INSTRUCTIONS, cgroup=cgroup) == pytest.approx(nr * each, rel=0.1), cgroup
    # Many were not observed.
    assert 0.02 < share_of(delta, "/n1/n2/n3") < 0.7


class Storm:
    """A storm of switches under a daemon that counts nothing but hardware events, two sets of them: how many switches
    between cgroups there were, and what they took, in seconds, within how many."""

    TURNS = 10000

    def __init__(self, guest, start, budget):
        sets = [f"events = c{number}=cycles:u, i{number}=instructions:u, j{number}=instructions" for number in range(2)]
        daemon = credits_cgroups(start(bpf(*sets, budget=budget)))
        fresh = f"sleep {FRESH}; {daemon.wget('/metrics')}"
        loads = "".join(f"load join:{cgroup} yield:{self.TURNS} leave &\n" for cgroup in ("n1/n2/n3/n4", "n1/b2"))
        # In one script: between two there is no telling how much time passes in the guest.
        readings = guest.run(f"{fresh}\necho; echo =====\n{loads} wait\n{fresh}").split("=====\n")
        delta = Delta(*map(Metrics, readings))
        daemon.stop()
        self.switches = delta.of("perfmond_switches_total", cpu="0")
        self.took = delta.of("perfmond_switch_seconds_total", cpu="0")
        self.wall = delta.of("perf_cpu_group_enabled_seconds_total", group="g0", cpu="0")
        assert self.switches >= 2 * 0.9 * self.TURNS
        print(f"budget {budget}: {self.switches:.0f} switches took {self.took:.4f} of {self.wall:.4f} s, "
              f"{1e6 * self.took / self.switches:.2f} µs each")


def test_the_time_of_hardware_events(guest, perfmond, tree):
    """It is within the budget. In a pause a switch takes what it has to without them: that is known of a budget which
    does not suffice for a single time. A program's steps are all that time depends on here. At any time a budget may be
    full (2 ms), and one switch overdraws it."""
    least, some, full = (Storm(guest, perfmond, budget) for budget in ("0.01%", "1%", "100%"))
    without, each = least.took / least.switches, full.took / full.switches
    most = 1.05 * without * some.switches + 0.01 * some.wall + 0.002 + each
    assert some.took <= most
    # The test can tell.
    assert full.took / full.switches * some.switches > 1.5 * most


def test_reading_counters_is_not_scaled(guest, perfmond, tree):
    """Programs that read counters are counted by them, and there are none of these readings in the pauses. So a storm
    of switches has no more of it than there was, in all."""
    turns = 60000
    daemon = credits_cgroups(perfmond(bpf("events = cycles, instructions, instructions:u", "events = context-switches",
                                          interval="1s", budget="1%")))
    fresh = f"sleep {FRESH}; {daemon.wget('/metrics')}"
    loads = "".join(f"load join:{cgroup} yield:{turns} leave &\n" for cgroup in ("n1/n2/n3/n4", "n1/b2"))
    readings = guest.run(f"{fresh}\necho; echo =====\n{loads} wait\n{fresh}").split("=====\n")
    delta = Delta(*map(Metrics, readings))

    assert share_of(delta, "/n1") < 0.1
    for event in ("cycles", "instructions"):
        of_cpu = delta.of(f"perf_cpu_{event}_total", cpu="0")
        # What else runs there is little.
        assert 0.94 * of_cpu <= delta.of(f"perf_cgroup_{event}_total", cgroup="/n1") <= of_cpu, event
    of_user = delta.of("perf_cgroup_instructions_user_total", cgroup="/n1")
    assert of_user == pytest.approx(2 * turns * (YIELD + AROUND), rel=0.05)


def test_what_only_cgroups_have(guest, perfmond, tree):
    """The CPUs' events are then opened for them, and shown nowhere."""
    daemon = credits_cgroups(perfmond(bpf(USER, scope="cgroup", include="/n1/**")))

    before = daemon.fresh()
    guest.load("join:n1/n2/n3/n4 instructions:20000000 leave")
    delta = Delta(before, daemon.fresh())

    assert 20 * MILLION <= delta.of(INSTRUCTIONS, cgroup="/n1/n2/n3/n4") <= 20 * MILLION + WAY
    assert not delta.after.all("perf_cpu_instructions_user_total")


def test_from_engine_to_engine(guest, perfmond, tree):
    """While a load runs. One engine ends after the other has begun, or before; if the load gets the CPU in between,
    some milliseconds of it are missing, or counted twice. Of one level, since perf's events of more take turns."""
    leaf = LEVELS[-1]
    daemon = credits_cgroups(perfmond(bpf(USER, include=leaf)))
    before = daemon.fresh()
    guest.run("load join:n1/n2/n3/n4 instructions:400000000 leave >/dev/null 2>&1 &")
    for engine in ("perf", "bpf", "perf", "bpf", "bpf"):
        guest.run("sleep 0.5")
        daemon.reload(config(USER, scope="cpu cgroup", include=leaf, engine=engine))
    guest.run("while pidof load >/dev/null; do sleep 0.1; done")
    counted = Delta(before, daemon.fresh()).of(INSTRUCTIONS, cgroup=leaf)
    assert counted == pytest.approx(400 * MILLION, rel=0.003)


# --- privileges

@pytest.fixture
def paranoid_2(guest):
    """Debian's kernel wants CAP_SYS_ADMIN for every event above that."""
    path = "/proc/sys/kernel/perf_event_paranoid"
    before = guest.read(path).strip()
    guest.run(f"echo 2 >{path}")
    yield
    guest.run(f"echo {before} >{path}")


@pytest.mark.parametrize("caps", [("perfmon", "bpf"), ("perfmon",)], ids="+".join)
def test_the_capability(guest, perfmond, tree, paranoid_2, caps):
    """CAP_BPF beside CAP_PERFMON suffices; without it perf counts, and it is said why. Its events of five levels take
    turns on the PMU."""
    text = config(USER, scope="cpu cgroup", include="/ /**", engine="auto")
    daemon = perfmond(text, environment=as_nobody(*caps))
    before = daemon.fresh()
    guest.load("join:n1/n2/n3/n4 instructions:20000000 leave")
    delta = Delta(before, daemon.fresh())
    for cgroup in LEVELS:
        assert delta.of(INSTRUCTIONS, cgroup=cgroup) == \
            pytest.approx(20 * MILLION, **({"abs": WAY} if "bpf" in caps else {"rel": 0.05})), cgroup

    status = daemon.json("/api/v1/status")
    said = re.compile(r"not by crediting: the kernel refuses BPF programs \(EPERM\): CAP_BPF is needed")
    check = guest.run(f"{as_nobody(*caps)} perfmond --config=/tmp/perfmond.conf --check || true")
    if "bpf" in caps:
        assert "bpf" in status["engine"] and not status["problems"], status
        assert not said.search(check) and not said.search(daemon.log)
    else:
        assert "bpf" not in status["engine"]
        assert any(said.search(problem) for problem in status["problems"])
        assert said.search(check) and said.search(daemon.log)
