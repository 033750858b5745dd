# SPDX-License-Identifier: MIT
"""A reload (SIGHUP): a good config replaces the old one and costs no event, a bad one changes nothing."""

import socket
import time

import pytest
import requests

from harness import Reference, Repeated, free_port, until

SWITCHES, FAULTS = "perf_cgroup_context_switches_total", "perf_cgroup_page_faults_total"


def config(top, events="page-faults", more="", listen="127.0.0.1:0"):
    return f"""
[web]
listen = {listen}
[cpu]
groups = work
[cgroup]
groups = work
include = {top.label}/**
{more}
[group "work"]
events = {events}
"""


@pytest.mark.engines
def test_a_reload_that_changes_a_group_keeps_the_totals(perfmond, cgroups, work, cpus):
    """Events are added and taken away: each event that stays configured keeps its total, and misses nothing."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    daemon = perfmond(config(cgroups))
    before = daemon.fresh()
    helper.do("faults 100")

    daemon.reload(config(cgroups, "page-faults, context-switches"))
    helper.do("faults 200")
    second = daemon.fresh()
    assert second.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label) == 300
    assert second.get(SWITCHES, cgroup=group.label) is not None
    for cpu in cpus:
        name = "perf_cpu_page_faults_total"
        assert second.value(name, cpu=str(cpu)) >= before.value(name, cpu=str(cpu))

    daemon.reload(config(cgroups, "page-faults"))
    helper.do("faults 50")
    third = daemon.fresh()
    assert third.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label) == 350
    assert third.get(SWITCHES, cgroup=group.label) is None
    assert third.value("perfmond_reloads_total") == 2
    assert third.value("perfmond_reload_failures_total") == 0


@pytest.mark.engines
def test_a_reload_under_load_loses_no_event(perfmond, cgroups, work, cpus):
    group = cgroups.make("busy")
    helper = work(group, cpus[0])
    daemon = perfmond(config(cgroups))
    before, reference = daemon.fresh().value(FAULTS, cgroup=group.label), Reference(group)
    load = Repeated(helper, "faults 2000")
    for _ in range(3):
        daemon.reload(config(cgroups))
    load.end()
    assert daemon.fresh().value(FAULTS, cgroup=group.label) - before == reference.read() >= 2000


@pytest.mark.engines
def test_a_reload_with_other_filters_keeps_the_totals(perfmond, cgroups, work, cpus, engine):
    kept, dropped = cgroups.make("kept"), cgroups.make("dropped")
    helper = work(kept, cpus[0])
    daemon = perfmond(config(cgroups))
    before = daemon.fresh()
    open_before = before.value("perfmond_open_events")
    assert before.get(FAULTS, cgroup=dropped.label) is not None

    helper.do("faults 100")
    daemon.reload(config(cgroups, more=f"exclude = {dropped.label}"))
    helper.do("faults 50")
    metrics = daemon.fresh()
    assert metrics.value(FAULTS, cgroup=kept.label) - before.value(FAULTS, cgroup=kept.label) == 150
    assert metrics.get(FAULTS, cgroup=dropped.label) is None
    assert open_before - metrics.value("perfmond_open_events") == (0 if engine == "bpf" else len(cpus))
    assert metrics.value("perfmond_cgroups", state="counted") == 1

    daemon.reload(config(cgroups))
    until(lambda: daemon.fresh().get(FAULTS, cgroup=dropped.label) is not None, "it is counted again")
    assert daemon.metrics().value("perfmond_open_events") == open_before


BAD = {"[daemon]\nintervall = 1s\n": r":2: .*intervall", "[daemon]\ninterval = soon\n": r":2: .*soon",
       "[cpu]\ngroups = nowhere\n": r":2: .*nowhere",
       '[group "core"]\nevents = no-such-event\n': r":2: .*no-such-event",
       "[web]\nlisten = 256.0.0.1:1\n": r":2: .*256"}


def test_a_bad_config_changes_nothing(perfmond, cgroups, work, cpus):
    """One with an error, one with an address that others use, none at all; a good one is taken after that."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    daemon = perfmond(config(cgroups))
    before = daemon.fresh()
    stays = r"not reloaded, the old config stays in force: .*\.conf"
    for bad, says in BAD.items():
        daemon.reload(bad, expect=stays + says)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        daemon.reload(config(cgroups, listen=address), expect=r"not reloaded.*" + address)
    daemon.config_path.unlink()
    after = len(daemon.lines)
    daemon.process.send_signal(1)
    daemon.wait_log(r"not reloaded.*perfmond-0\.conf", after=after)
    helper.do("faults 100")
    after = daemon.fresh()
    assert after.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label) == 100
    assert after.value("perfmond_reload_failures_total") == len(BAD) + 2
    assert after.value("perfmond_reloads_total") == 0

    daemon.reload(config(cgroups, "page-faults, context-switches"))
    assert daemon.fresh().value("perfmond_reloads_total") == 1


def test_a_reload_with_another_interval_is_in_force_at_once(perfmond, cgroups):
    """A daemon that had to wait for an hour reads every 50 ms, and not more often."""
    daemon = perfmond(config(cgroups) + "[daemon]\ninterval = 1h\n")
    daemon.reload(config(cgroups) + "[daemon]\ninterval = 50ms\n")

    def reads_by_itself():
        start, first = time.monotonic(), daemon.metrics()
        assert first.value("perfmond_interval_seconds") == 0.05
        time.sleep(0.5)
        reads = daemon.metrics().value("perfmond_reads_total") - first.value("perfmond_reads_total")
        assert reads <= (time.monotonic() - start) / 0.05 + 3
        return reads > 2  # both scrapes can make it read

    until(reads_by_itself, "it reads without being asked")


def test_a_reload_with_another_address_moves_the_listener(perfmond, cgroups):
    old, new = free_port(), free_port()
    daemon = perfmond(config(cgroups, listen=f"127.0.0.1:{old}"))
    assert daemon.url.endswith(str(old))

    found = daemon.reload(config(cgroups, listen=f"127.0.0.1:{new}"), expect=r"listening on (http://\S+)")
    daemon.wait_log("perfmond: reloaded")
    assert found[1].endswith(str(new))
    with pytest.raises(requests.ConnectionError):
        daemon.get("/metrics")
    daemon.url = found[1]
    assert daemon.metrics().value("perfmond_reloads_total") == 1


def reload_often(perfmond, cgroups, work, cpus, number):
    """A group that stays as it is misses nothing, while another one comes and goes; no perf event is left over."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    with_other = config(cgroups).replace("groups = work", "groups = work other") + \
        '[group "other"]\nevents = context-switches\n'
    daemon = perfmond(config(cgroups))
    before = daemon.fresh()
    for i in range(number):
        daemon.configure(with_other if i % 2 else config(cgroups))
        daemon.process.send_signal(1)
        helper.do("faults 10")
    daemon.reload(config(cgroups))
    until(lambda: daemon.metrics().get(SWITCHES, cgroup=group.label) is None, "the last config is in force")
    assert daemon.fresh().value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label) == 10 * number
    assert daemon.metrics().value("perfmond_open_events") == before.value("perfmond_open_events")


@pytest.mark.engines
@pytest.mark.one_engine
def test_reloads_right_behind_each_other_lose_no_event(perfmond, cgroups, work, cpus):
    reload_often(perfmond, cgroups, work, cpus, 6)


@pytest.mark.deep
@pytest.mark.engines
def test_a_storm_of_reloads_loses_no_event(perfmond, cgroups, work, cpus):
    reload_often(perfmond, cgroups, work, cpus, 50)


@pytest.mark.deep
@pytest.mark.engines
def test_a_storm_of_changes_to_a_group_loses_no_event(perfmond, cgroups, work, cpus):
    """A group that changes is opened anew, and goes over to the new one between two of its events."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    daemon = perfmond(config(cgroups))
    before = last = daemon.fresh().value(FAULTS, cgroup=group.label)
    for i in range(20):
        daemon.reload(config(cgroups, "page-faults, context-switches" if i % 2 else "page-faults"))
        helper.do("faults 10")
        now = daemon.fresh().value(FAULTS, cgroup=group.label)
        assert now == last + 10, "the work was done between reloads"
        last = now
    for i in range(20):
        daemon.configure(config(cgroups, "page-faults, context-switches" if i % 2 else "page-faults"))
        daemon.process.send_signal(1)
        helper.do("faults 10")
    daemon.reload(config(cgroups))
    assert daemon.fresh().value(FAULTS, cgroup=group.label) - before == 400
