# SPDX-License-Identifier: MIT
"""Totals outlive the daemon: it is stopped, killed and started again. No event that was counted before is lost, and
neither is one that happens while it is down."""

import random
import re
import socket
import time

import pytest

from counter import Counter
from fdstore import EVENTS, FAULTS, SWITCHES, WENT_ON, config
from harness import FRESH, SANITIZED, Repeated, free_port, until
from machine import needs

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

def count_over_restarts(service, store, cgroups, work, cpu, per_cpu):
    """Stops, kills and starts it; the totals of the cgroup (on that CPU) are the kernel's own counts."""
    group = cgroups.make("kept")
    helper = work(group, cpu)
    helper.fork()
    on_cpu = {"cpu": str(cpu)} if per_cpu == "yes" else {}
    service.start(config(cgroups, more=f"per_cpu = {per_cpu}"))
    assert not re.search("totals", service.daemon.log), "there is nothing to go on from"
    faults, switches, before = helper.faults(), helper.switches(), service.fresh()
    helper.do("faults 1000")
    service.wait_kept()
    for end in (service.stop, service.kill, service.kill, service.stop):
        helper.do("faults 10")
        end()
        helper.do("faults 100")
        helper.do("switches 100")
        service.start()
        assert re.search(WENT_ON, service.daemon.log), service.daemon.log
        helper.do("faults 1")
    switches, after = helper.switches() - switches, service.fresh()
    rise = [after.value(name, cgroup=group.label, **on_cpu) - before.value(name, cgroup=group.label, **on_cpu)
            for name in (FAULTS, SWITCHES)]
    assert rise == [helper.faults() - faults, switches]
    assert rise[0] == 1000 + 4 * 111 and switches >= 800
    assert ("READY", "1") in store.said and any(key == "STATUS" for key, _ in store.said)


def test_stops_and_kills_lose_no_event(service, store, cgroups, work, cpus):
    count_over_restarts(service, store, cgroups, work, cpus[-1], "no")


@pytest.mark.one_engine
def test_stops_and_kills_lose_no_event_per_cpu(service, store, cgroups, work, cpus):
    count_over_restarts(service, store, cgroups, work, cpus[-1], "yes")


@pytest.mark.deep
def test_a_kill_at_any_moment_loses_no_event(service, cgroups, work, cpus):
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


@pytest.mark.deep
def test_cgroups_that_never_ran_disturb_no_total(service, cgroups, work, cpus):
    """Little is kept of them."""
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
def test_stops_and_kills_lose_no_event_of_a_cpu(service, cgroups, work, cpus):
    """Events of whole CPUs, compared with a second counter."""
    helpers = [work(cgroups.make(f"busy{cpu}"), cpu) for cpu in cpus]
    counters = {cpu: Counter(cpus=[cpu]) for cpu in cpus}

    def generate():
        for helper in helpers:
            helper.do("faults 500")
    # A tick just before a scrape would be what it shows.
    service.start(config(cgroups, interval="1h"))
    service.wait_kept()
    first = bracket(service, counters)
    for end in (service.stop, service.kill) * 2:
        generate()
        end()
        generate()
        service.start()
    last = bracket(service, counters)
    for key, (low, shown, high) in first.items():
        assert last[key][0] - high <= last[key][1] - shown <= last[key][2] - low, key
        assert key[1] != "page_faults" or last[key][0] - high >= 4000
    for counter in counters.values():
        counter.close()


def test_a_total_that_was_shown_survives_a_kill(service, cgroups, work, cpus):
    """Each answer is saved before it is given: not even a kill right behind it takes it back, where the perf events
    are lost that would know it."""
    group = cgroups.make("seen")
    helper = work(group, cpus[0])
    service.start(config(cgroups, interval="1h"))
    service.wait_kept()
    for _ in range(5):
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

@pytest.mark.one_engine
def test_a_kill_right_after_cgroups_were_made_takes_nothing_back(service, cgroups, work, cpus):
    """Their total stays at least at the value that was shown, and goes on exactly."""
    service.start(config(cgroups))
    service.wait_kept()
    for turn in range(2):
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


@pytest.mark.one_engine
def test_a_kill_right_after_a_cgroup_was_removed_keeps_its_total(service, cgroups, work, cpus, engine):
    """Also the part of it that was not shown yet."""
    service.start(config(cgroups, more="linger = 1h"))
    for turn in range(2):
        group = cgroups.make(f"brief{turn}")
        until(lambda: service.scrape().get(FAULTS, cgroup=group.label) is not None, "it is counted")
        service.wait_kept()
        if engine == "bpf":
            service.wait_bpf_kept()
        helper = work(group, cpus[0])
        seen = service.faults(group)
        helper.do("faults 200")
        helper.stop()
        group.remove()
        if turn:
            until(lambda: service.daemon.metrics().value("perfmond_cgroups", state="lingering") == turn + 1,
                  "the daemon has seen that it was removed")
        service.kill()
        service.start()
        assert 200 <= service.faults(group) - seen < 400, f"in turn {turn}; the log:\n{service.daemon.log}"
        assert service.daemon.metrics().value("perfmond_cgroups", state="lingering") == turn + 1


def test_cgroups_change_while_the_daemon_is_down(service, cgroups, work, cpus):
    """One that is removed keeps its total, with the events of the meantime; one that is made again under its path goes
    on from there; a new one is counted."""
    removed, again = cgroups.make("removed"), cgroups.make("again")
    helpers = [work(group, cpus[0]) for group in (removed, again)]
    service.start(config(cgroups, more="linger = 1h"))
    service.wait_kept()
    for end in (service.stop, service.kill):
        before = service.fresh()
        end()
        for helper, group, faults in zip(helpers, (removed, again), (2000, 500)):
            helper.do(f"faults {faults}")
            helper.stop()
            group.remove()
        again = cgroups.make("again")
        new = cgroups.make(f"new-{end.__name__}")
        new_helper = work(new, cpus[0])
        service.start()
        first = service.fresh()
        for group, faults in ((removed, 2000), (again, 500)):
            rise = first.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label)
            assert faults <= rise < faults + 200, f"{group.label}, with the end of its helper"
        assert service.daemon.json("/api/v1/snapshot", cgroup=removed.label)["cgroups"][0]["gone"] is True
        again_helper = work(again, cpus[0])
        before = service.fresh()
        new_helper.do("faults 70")
        again_helper.do("faults 80")
        after = service.fresh()
        assert [after.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label)
                for group in (new, again)] == [70, 80]
        service.wait_kept()
        removed, helpers = new, [new_helper, again_helper]
    service.daemon.reload(config(cgroups, more="linger = 1s"))
    service.forget("cgroup")
    until(lambda: service.daemon.metrics().get(FAULTS, cgroup=cgroups.label + "/removed") is None, "it has lingered")


# --- another config

@pytest.mark.one_engine
def test_a_restart_with_other_events_or_filters_keeps_the_totals(service, cgroups, work, cpus):
    """Events, groups, cgroups and the interval change while the daemon is down. Each series that stays goes on with
    the events of the meantime."""
    kept, other = cgroups.make("kept"), cgroups.make("other")
    helper = work(kept, cpus[0])
    one = config(cgroups, "page-faults")
    two_groups = one.replace("groups = work", "groups = other work") + '[group "other"]\nevents = context-switches\n'
    steps = {  # the config, whether it has context switches, whether it has the other cgroup
        "an event more": (config(cgroups), True, True),
        "an event less": (one, False, True),
        "a group more": (two_groups, True, True),
        "a group less": (one, False, True),
        "a cgroup less": (config(cgroups, "page-faults", more=f"exclude = {other.label}"), False, False),
        "a cgroup more": (one, False, True),
        "another interval": (config(cgroups, "page-faults", interval="1h"), False, True),
    }
    service.start(one)
    before, turns = service.faults(kept), 0
    for what, (text, switches, both) in steps.items():
        service.wait_kept()
        (service.kill if turns % 3 == 1 else service.stop)()
        helper.do("faults 100")
        turns += 1
        for name in ("context_switches", "perf_cpu_group", "perf_cgroup_group"):
            service.forget(name)
        if not both:
            service.forget("perf_cgroup_page_faults")
        service.start(text)
        metrics = service.fresh()
        assert metrics.value(FAULTS, cgroup=kept.label) - before == 100 * turns, what
        assert (metrics.get(SWITCHES, cgroup=kept.label) is not None) == switches, what
        assert (metrics.get(FAULTS, cgroup=other.label) is not None) == both, what
    assert metrics.value("perfmond_interval_seconds") == 3600


@pytest.mark.one_engine
def test_a_restart_with_another_per_cpu_begins_other_series(service, cgroups, work, cpus):
    """They begin with what is known of the CPUs: nothing."""
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


@needs("two-cpus")
@pytest.mark.one_engine
def test_a_restart_that_excludes_a_cpu_keeps_totals_of_cgroups(service, cgroups, work, cpus):
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


@pytest.mark.one_engine
def test_a_start_that_fails_costs_nothing(new_service, store, state, cgroups, work, cpus):
    """A config that is wrong, or an address in use, after a stop or a kill: the next start goes on as if there had
    been none before it."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    service = new_service(store, state)
    port = free_port()
    good = config(cgroups, listen=f"127.0.0.1:{port}")
    service.start(good)
    service.wait_kept()
    before = service.faults(group)
    for turn, end in enumerate((service.stop, service.kill), 1):
        end()
        helper.do("faults 100")
        service.fail("[daemon]\nnonsense = 1\n", r":2: ")
        service.fail(config(cgroups, "no-such-event"), "no-such-event")
        with socket.create_server(("127.0.0.1", port)):
            service.fail(good, f"127.0.0.1:{port}")
        helper.do("faults 100")
        service.start()
        assert service.faults(group) - before == 200 * turn
        service.wait_kept()
