# SPDX-License-Identifier: MIT
"""SIGHUP: a good config takes the old one's place, a bad one does not."""

import socket
import time

import pytest
import requests

from harness import Reference, free_port, until

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
def test_values_go_on(perfmond, cgroups, work, cpus):
    """Events are added and taken away: what stays configured keeps its total, and misses nothing."""
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
def test_reloading_the_same_loses_nothing(perfmond, cgroups, work, cpus):
    group = cgroups.make("busy")
    helper = work(group, cpus[0])
    daemon = perfmond(config(cgroups))
    before, reference = daemon.fresh().value(FAULTS, cgroup=group.label), Reference(group)
    helper.begin("faults 300000")  # goes on while the config is reloaded
    for _ in range(5):
        daemon.reload(config(cgroups))
    helper.finish()
    assert daemon.fresh().value(FAULTS, cgroup=group.label) - before == reference.read() >= 300000


@pytest.mark.engines
def test_filters_change(perfmond, cgroups, work, cpus, engine):
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


@pytest.mark.parametrize("bad, says", [
    ("[daemon]\nintervall = 1s\n", r":2: .*intervall"),
    ("[daemon]\ninterval = soon\n", r":2: .*soon"),
    ("[cpu]\ngroups = nowhere\n", r":2: .*nowhere"),
    ("[group \"core\"]\nevents = no-such-event\n", r":2: .*no-such-event"),
    ("[web]\nlisten = 256.0.0.1:1\n", r":2: .*256"),
])
def test_a_bad_config_changes_nothing(perfmond, cgroups, work, cpus, bad, says):
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    daemon = perfmond(config(cgroups))
    before = daemon.fresh()

    daemon.reload(bad, expect=r"not reloaded, the old config stays in force: .*\.conf" + says)
    helper.do("faults 100")
    after = daemon.fresh()
    assert after.value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label) == 100
    assert after.value("perfmond_reload_failures_total") == 1
    assert after.value("perfmond_reloads_total") == 0

    daemon.reload(config(cgroups, "page-faults, context-switches"))
    assert daemon.fresh().value("perfmond_reloads_total") == 1


def test_a_config_that_has_vanished_changes_nothing(perfmond, cgroups):
    daemon = perfmond(config(cgroups))
    daemon.config_path.unlink()
    after = len(daemon.lines)
    daemon.process.send_signal(1)
    daemon.wait_log(r"not reloaded.*perfmond-0\.conf", after=after)
    assert daemon.metrics().value("perfmond_up") == 1


def test_the_interval_changes(perfmond, cgroups):
    daemon = perfmond(config(cgroups) + "[daemon]\ninterval = 1h\n")
    daemon.reload(config(cgroups) + "[daemon]\ninterval = 50ms\n")

    def reads_often():
        start, first = time.monotonic(), daemon.metrics()
        assert first.value("perfmond_interval_seconds") == 0.05
        time.sleep(1)
        reads = daemon.metrics().value("perfmond_reads_total") - first.value("perfmond_reads_total")
        assert reads <= (time.monotonic() - start) / 0.05 + 3
        return reads >= 10

    until(reads_often, "it reads every 50 ms")


def test_the_address_changes(perfmond, cgroups):
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


def test_an_address_in_use_leaves_the_old_one(perfmond, cgroups):
    port = free_port()
    daemon = perfmond(config(cgroups, listen=f"127.0.0.1:{port}"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        daemon.reload(config(cgroups, listen=address), expect=r"not reloaded.*" + address)
    until(lambda: daemon.get("/-/healthy").status_code == 200, "the old address answers")
    assert daemon.url.endswith(str(port))
    assert daemon.metrics().value("perfmond_reload_failures_total") == 1


@pytest.mark.engines
def test_a_storm_of_reloads(perfmond, cgroups, work, cpus):
    """A group that stays as it is misses nothing, while another one comes and goes."""
    group = cgroups.make("kept")
    helper = work(group, cpus[0])
    with_other = config(cgroups).replace("groups = work", "groups = work other") + \
        '[group "other"]\nevents = context-switches\n'
    daemon = perfmond(config(cgroups))
    before = daemon.fresh()
    for i in range(50):
        daemon.configure(with_other if i % 2 else config(cgroups))
        daemon.process.send_signal(1)
        helper.do("faults 10")
    daemon.reload(config(cgroups))
    until(lambda: daemon.metrics().get(SWITCHES, cgroup=group.label) is None, "the last config is in force")
    assert daemon.fresh().value(FAULTS, cgroup=group.label) - before.value(FAULTS, cgroup=group.label) == 500
    assert daemon.metrics().value("perfmond_open_events") == before.value("perfmond_open_events")


@pytest.mark.engines
def test_a_storm_of_changes_to_a_group(perfmond, cgroups, work, cpus):
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
