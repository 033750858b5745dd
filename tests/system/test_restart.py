# SPDX-License-Identifier: MIT
"""Totals outlive the daemon: it is stopped, killed, and started again, and nothing that was counted is lost, nor
what happens while it is down."""

import random
import re
import socket
import time

import pytest

from counter import Counter
from fdstore import EVENTS, FAULTS, SWITCHES, WENT_ON, config
from harness import FRESH, SANITIZED, Repeated, free_port, until

pytestmark = pytest.mark.engines


class Load:
    """Page faults without end in a cgroup, and how many there were."""

    def __init__(self, helper, group):
        self.counter = Counter(group.path)
        self.faults = Repeated(helper, "faults 2000")

    def end(self):
        self.faults.end()
        return self.counter.read()["page_faults"]


# --- nothing is lost

@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("per_cpu", ["no", "yes"])
def test_nothing_is_lost(service, store, cgroups, work, cpus, end, per_cpu):
    group = cgroups.make("kept")
    helper = work(group, cpus[-1])
    helper.fork()
    on_cpu = {"cpu": str(cpus[-1])} if per_cpu == "yes" else {}
    service.start(config(cgroups, more=f"per_cpu = {per_cpu}"))
    assert not re.search("totals", service.daemon.log), "there is nothing to go on from"
    faults, switches, before = helper.faults(), helper.switches(), service.fresh()
    helper.do("faults 1000")
    service.wait_kept()
    for _ in range(3):
        helper.do("faults 10")
        getattr(service, end)()
        helper.do("faults 100")
        helper.do("switches 100")
        service.start()
        assert re.search(WENT_ON, service.daemon.log), service.daemon.log
        helper.do("faults 1")
    switches, after = helper.switches() - switches, service.fresh()
    rise = [after.value(name, cgroup=group.label, **on_cpu) - before.value(name, cgroup=group.label, **on_cpu)
            for name in (FAULTS, SWITCHES)]
    assert rise == [helper.faults() - faults, switches]
    assert rise[0] == 1000 + 3 * 111 and switches >= 600
    assert ("READY", "1") in store.said and any(key == "STATUS" for key, _ in store.said)


def test_killed_at_any_moment(service, cgroups, work, cpus):
    """While it starts, reads, writes, serves; under load on each CPU, and while cgroups come and go. What was open
    all the time is exact at the end."""
    groups = [cgroups.make(f"busy{cpu}") for cpu in cpus]
    helpers = [work(group, cpu) for group, cpu in zip(groups, cpus)]
    idle = [cgroups.make(f"idle{i}") for i in range(100)]
    service.start(config(cgroups, interval="20ms"))
    service.wait_kept()
    first = service.fresh()
    loads = [Load(helper, group) for helper, group in zip(helpers, groups)]
    unready = 0
    for turn in range(20 if SANITIZED else 40):
        if turn % 3 == 0:
            # One of them at once: it can't be ready.
            time.sleep(random.uniform(0, 0.08) if turn > 3 else 0)
            unready += service.daemon.url is None
        else:
            if service.daemon.url is None:
                service.daemon.wait_ready()
            brief = cgroups.make(f"brief{turn}")
            for i in range(3):
                idle.pop(random.randrange(len(idle))).remove()
                idle.append(cgroups.make(f"idle{turn}-{i}"))
            for _ in range(random.randrange(4)):
                service.scrape()
                time.sleep(random.uniform(0, 0.04))
            if turn % 2:
                brief.remove()
            service.scrape()
        service.kill()
        service.start(ready=False)
    assert unready, "some were killed before they were ready"
    service.daemon.wait_ready()
    rises = [load.end() for load in loads]
    last = service.fresh()
    shown = [last.value(FAULTS, cgroup=g.label) - first.value(FAULTS, cgroup=g.label) for g in groups]
    assert shown == rises
    assert min(rises) > 10000


def test_most_have_never_run(service, cgroups, work, cpus):
    """Little is kept of those, and totals go on beside them."""
    group = cgroups.make("busy")
    helper = work(group, cpus[0])
    for i in range(300):
        cgroups.make(f"idle{i}")
    service.start(config(cgroups))
    service.wait_kept()
    first = service.fresh()
    load = Load(helper, group)
    service.kill()
    service.start()
    rise, last = load.end(), service.fresh()
    assert last.value(FAULTS, cgroup=group.label) - first.value(FAULTS, cgroup=group.label) == rise > 0


def bracket(service, counters):
    """Of each CPU and event: the other counter's value before, what is shown, and the other one's behind that. The
    CPUs don't stand still meanwhile."""
    time.sleep(FRESH)
    before = [counter.read() for counter in counters.values()]
    shown = service.scrape()
    after = [counter.read() for counter in counters.values()]
    return {(cpu, name): (low[name], shown.value(f"perf_cpu_{name}_total", cpu=str(cpu)), high[name])
            for cpu, low, high in zip(counters, before, after) for name in low}


@pytest.mark.any_engine
def test_cpus_are_counted_on(service, cgroups, work, cpus):
    """All that happens on them, over stops and kills."""
    loads = [Repeated(work(cgroups.make(f"busy{cpu}"), cpu), "faults 2000") for cpu in cpus]
    counters = {cpu: Counter(cpus=[cpu]) for cpu in cpus}
    # A tick just before a scrape would be what it shows.
    service.start(config(cgroups, interval="1h"))
    service.wait_kept()
    first = bracket(service, counters)
    for turn in range(10):
        (service.kill if turn % 2 else service.stop)()
        service.start()
    last = bracket(service, counters)
    for key, (low, shown, high) in first.items():
        assert last[key][0] - high <= last[key][1] - shown <= last[key][2] - low, key
        assert last[key][0] - high > 100
    for load in loads:
        load.end()
    for counter in counters.values():
        counter.close()


def test_what_is_shown_is_saved_first(service, cgroups, work, cpus):
    """Each answer is, so that not even a kill right behind it takes it back. There is no fd to find it out from."""
    group = cgroups.make("seen")
    helper = work(group, cpus[0])
    service.start(config(cgroups, interval="1h"))
    service.wait_kept()
    for _ in range(20):
        helper.do("faults 100")
        saves = service.daemon.metrics().value("perfmond_saves_total")
        last = service.faults(group)
        assert service.daemon.metrics().value("perfmond_saves_total") > saves
    service.kill()
    for name in service.store.names(EVENTS):
        service.store.remove(name)
    service.start()
    assert service.scrape().value(FAULTS, cgroup=group.label) == last
    service.daemon.wait_log("perf events [0-9]+ were not kept")


# --- cgroups come and go

def test_killed_right_after_cgroups_were_made(service, cgroups, work, cpus):
    """What was shown of them stays, if nothing more."""
    service.start(config(cgroups))
    service.wait_kept()
    for turn in range(5):
        groups = [cgroups.make(f"new{turn}-{i}") for i in range(10)]
        until(lambda: service.scrape().get(FAULTS, cgroup=groups[-1].label) is not None, "they are counted")
        helper = work(groups[0], cpus[0])
        helper.do("faults 100")
        seen = service.faults(groups[0])
        service.kill()
        service.start()
        assert service.scrape().value(FAULTS, cgroup=groups[0].label) >= seen
        before = service.faults(groups[0])
        helper.do("faults 50")
        assert service.faults(groups[0]) == before + 50


def test_killed_right_after_cgroups_were_removed(service, store, cgroups, work, cpus):
    """Their final totals linger on, also those that were shown by nobody yet."""
    service.start(config(cgroups))
    for turn in range(5):
        group = cgroups.make(f"brief{turn}")
        until(lambda: service.scrape().get(FAULTS, cgroup=group.label) is not None, "it is counted")
        service.wait_kept()
        helper = work(group, cpus[0])
        seen = service.faults(group)
        helper.do("faults 200")
        helper.stop()
        group.remove()
        time.sleep(turn * 0.02)
        service.kill()
        service.start()
        assert 200 <= service.faults(group) - seen < 400, "with its end"
        assert service.daemon.metrics().value("perfmond_cgroups", state="lingering") == turn + 1


def test_a_cgroup_is_removed_meanwhile(service, cgroups, work, cpus):
    group = cgroups.make("brief")
    helper = work(group, cpus[0])
    service.start(config(cgroups, more="linger = 1h"))
    service.wait_kept()
    seen = service.faults(group)
    service.stop()
    helper.do("faults 2000")
    helper.stop()
    group.remove()
    service.start()
    assert 2000 <= service.faults(group) - seen < 2200
    assert service.daemon.json("/api/v1/snapshot", cgroup=group.label)["cgroups"][0]["gone"] is True
    service.daemon.reload(config(cgroups, more="linger = 1s"))
    until(lambda: service.daemon.metrics().get(FAULTS, cgroup=group.label) is None, "it has lingered")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_cgroup_is_made_again_meanwhile(service, cgroups, work, cpus, end):
    """The series goes on by its path, with what the one before did at last."""
    group = cgroups.make("again")
    helper = work(group, cpus[0])
    service.start(config(cgroups))
    service.wait_kept()
    seen = service.faults(group)
    getattr(service, end)()
    helper.do("faults 500")
    helper.stop()
    group.remove()
    cgroups.make("again")
    service.start()
    first = service.faults(group)
    assert 500 <= first - seen < 700
    other = work(group, cpus[0])
    before = service.faults(group)
    other.do("faults 70")
    assert service.faults(group) - before == 70


def test_a_cgroup_is_made_meanwhile(service, cgroups, work, cpus):
    service.start(config(cgroups))
    service.stop()
    group = cgroups.make("late")
    helper = work(group, cpus[0])
    service.start()
    before = service.faults(group)
    helper.do("faults 70")
    assert service.faults(group) - before == 70


# --- another config

def test_events_are_added_and_taken_away(service, cgroups, work, cpus):
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service.start(config(cgroups, "page-faults"))
    service.wait_kept()
    before = service.faults(group)
    service.stop()
    helper.do("faults 100")
    service.start(config(cgroups, "page-faults, context-switches"))
    helper.do("faults 10")
    second = service.fresh()
    assert second.value(FAULTS, cgroup=group.label) - before == 110
    assert second.get(SWITCHES, cgroup=group.label) is not None
    service.wait_kept()
    service.kill()
    helper.do("faults 100")
    service.start(config(cgroups, "page-faults"))
    third = service.fresh()
    assert third.value(FAULTS, cgroup=group.label) - before == 210
    assert third.get(SWITCHES, cgroup=group.label) is None


def test_groups_are_added_and_taken_away(service, cgroups, work, cpus):
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    other = '[group "other"]\nevents = context-switches\n'
    one = config(cgroups, "page-faults")
    service.start(one)
    before = service.faults(group)
    for turn in range(4):
        service.stop()
        helper.do("faults 100")
        if turn % 2 == 0:
            service.forget("context_switches")
            service.forget("perf_cpu_group")
            service.forget("perf_cgroup_group")
        service.start(one if turn % 2 else one.replace("groups = work", "groups = other work") + other)
        assert service.faults(group) - before == 100 * (turn + 1)
        assert (service.daemon.metrics().get(SWITCHES, cgroup=group.label) is None) == bool(turn % 2)


def test_filters_change_meanwhile(service, cgroups, work, cpus):
    kept, dropped = cgroups.make("kept"), cgroups.make("dropped")
    helper = work(kept, cpus[0])
    service.start(config(cgroups))
    before = service.faults(kept)
    service.stop()
    helper.do("faults 100")
    service.start(config(cgroups, more=f"exclude = {dropped.label}"))
    assert service.faults(kept) - before == 100
    assert service.daemon.metrics().get(FAULTS, cgroup=dropped.label) is None
    service.stop()
    helper.do("faults 100")
    service.start(config(cgroups))
    assert service.faults(kept) - before == 200
    assert service.daemon.metrics().get(FAULTS, cgroup=dropped.label) is not None


def test_per_cpu_changes_meanwhile(service, cgroups, work, cpus):
    """They are other series, which begin with what is known of the CPUs: nothing."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service.start(config(cgroups))
    service.stop()
    service.start(config(cgroups, more="per_cpu = yes"))
    assert service.daemon.metrics().get(FAULTS, cgroup=group.label, cpu=str(cpus[0])) is not None
    before = service.faults(group, cpu=str(cpus[0]))
    helper.do("faults 30")
    assert service.faults(group, cpu=str(cpus[0])) - before == 30
    service.stop()
    service.seen.clear()
    service.start(config(cgroups))
    before = service.faults(group)
    helper.do("faults 30")
    assert service.faults(group) - before == 30


def test_a_cpu_is_excluded_meanwhile(service, cgroups, work, cpus):
    if len(cpus) < 2:
        pytest.skip("needs two CPUs")
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service.start(config(cgroups))
    before = service.faults(group)
    service.stop()
    helper.do("faults 100")
    service.start(config(cgroups, cpu=f"exclude = {cpus[1]}"))
    metrics = service.fresh()
    assert metrics.value(FAULTS, cgroup=group.label) - before == 100
    assert {labels["cpu"] for labels, _ in metrics.all("perf_cpu_page_faults_total")} == \
        {str(cpu) for cpu in cpus if cpu != cpus[1]}
    service.stop()
    helper.do("faults 100")
    service.forget("perf_cpu")
    service.start(config(cgroups))
    metrics = service.fresh()
    assert metrics.value(FAULTS, cgroup=group.label) - before == 200
    assert {labels["cpu"] for labels, _ in metrics.all("perf_cpu_page_faults_total")} == set(map(str, cpus))


@pytest.mark.any_engine
def test_the_interval_changes_meanwhile(service, cgroups):
    cgroups.make("kept")
    service.start(config(cgroups, interval="1h"))
    service.scrape()
    service.stop()
    service.start(config(cgroups, interval="50ms"))
    reads = service.fresh().value("perfmond_reads_total")
    until(lambda: service.fresh().value("perfmond_reads_total") > reads + 5, "it reads")
    assert service.fresh().value("perfmond_interval_seconds") == 0.05


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_bad_config_costs_nothing(service, cgroups, work, cpus, end):
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service.start(config(cgroups))
    service.wait_kept()
    before = service.faults(group)
    getattr(service, end)()
    helper.do("faults 100")
    service.fail("[daemon]\nnonsense = 1\n", r":2: ")
    service.fail(config(cgroups, "no-such-event"), "no-such-event")
    helper.do("faults 100")
    service.start(config(cgroups))
    assert service.faults(group) - before == 200


@pytest.mark.any_engine
def test_an_address_in_use_costs_nothing(new_service, store, state, cgroups, work, cpus):
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service = new_service(store, state)
    port = free_port()
    service.start(config(cgroups, listen=f"127.0.0.1:{port}"))
    before = service.faults(group)
    service.stop()
    with socket.create_server(("127.0.0.1", port)):
        service.fail(None, f"127.0.0.1:{port}")
    helper.do("faults 100")
    service.start()
    assert service.faults(group) - before == 100
