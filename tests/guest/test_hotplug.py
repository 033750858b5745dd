# SPDX-License-Identifier: MIT
"""Two CPUs, one of which goes offline and comes back. Their PMU counts cycles, by the time of the host: what is
known is on which CPU work is done, not how many cycles it takes."""

import pytest

from guests import config
from harness import Delta

# The kernel takes an offline CPU's groups apart: a leader with members is not read like one without.
EVENTS = pytest.mark.parametrize("events", ["cycles", "cycles, cycles:u", "context-switches, page-faults"],
                                 ids=["one", "group", "software"])


@pytest.fixture
def guest(pair):
    yield pair
    switch(pair, 1)


def switch(guest, online):
    guest.run(f"echo {online} >/sys/devices/system/cpu/cpu1/online")


def wait_counted(guest, cpus):
    """The daemon has seen by itself that the CPUs are others."""
    guest.run(f"""
        tries=0
        until tail -n 1 /tmp/perfmond.log | grep -q 'counted now: {cpus}$'; do
            sleep 0.1
            tries=$((tries + 1))
            [ $tries -lt 300 ] || exit 1
        done""")


def settings(events, interval="100ms"):
    return config(f"events = {events}", scope="cpu cgroup", per_cpu="yes", interval=interval)


def series(metrics, cpu):
    """All totals of a CPU."""
    return {key: value for key, value in metrics.samples.items()
            if key[0].startswith(("perf_cpu_", "perf_cgroup_")) and key[0].endswith("_total") and
            ("cpu", cpu) in key[1]}


def assert_none_fell(before, after, cpu):
    earlier, later = series(before, cpu), series(after, cpu)
    assert earlier.keys() <= later.keys(), "no series has gone"
    assert not [(key, value, later[key]) for key, value in earlier.items() if later[key] < value]


def test_work_is_counted_where_it_is_done(guest, perfmond):
    daemon = perfmond(settings("cycles, cycles:u"))
    for cpu in ("0", "1"):
        before = daemon.fresh()
        guest.load(f"pin:{cpu} join:a cpu:100 leave")
        delta = Delta(before, daemon.fresh())
        other = "1" if cpu == "0" else "0"
        for event in ("cycles", "cycles_user"):
            rise = delta.of(f"perf_cgroup_{event}_total", cgroup="/a", cpu=cpu)
            assert rise > 0
            assert delta.of(f"perf_cpu_{event}_total", cpu=cpu) >= rise
            assert delta.of(f"perf_cgroup_{event}_total", cgroup="/a", cpu=other) == 0


@EVENTS
def test_offline_and_back(guest, perfmond, events):
    daemon = perfmond(settings(events))
    guest.load("pin:1 join:a cpu:100 leave")
    before = daemon.fresh()
    guest.load("pin:1 join:a cpu:100 leave")

    switch(guest, 0)
    wait_counted(guest, "0")
    offline = daemon.fresh()
    guest.load("join:a cpu:200 leave")
    later = daemon.fresh()
    assert series(before, "1") and series(before, "0")
    for cpu in ("0", "1"):
        assert_none_fell(before, offline, cpu)
        assert_none_fell(offline, later, cpu)
    assert series(later, "1") == series(offline, "1"), "frozen"
    enabled = "perf_cpu_group_enabled_seconds_total"
    assert Delta(offline, later).of(enabled, cpu="0", group="g0") > 0, "the other CPU is counted on"
    metric = daemon.json("/api/v1/events")["events"][0]["event"]
    if metric == "cycles":
        assert Delta(before, offline).of("perf_cgroup_cycles_total", cgroup="/a", cpu="1") > 0, "what was not read yet"
    assert later.value(f"perf_cpu_{metric}_total", cpu="0") > offline.value(f"perf_cpu_{metric}_total", cpu="0")

    switch(guest, 1)
    wait_counted(guest, "0-1")
    guest.load("pin:1 join:a cpu:100 leave")
    online = daemon.fresh()
    for cpu in ("0", "1"):
        assert_none_fell(later, online, cpu)
    assert online.value(f"perf_cpu_{metric}_total", cpu="1") > later.value(f"perf_cpu_{metric}_total", cpu="1")

    daemon.reload(settings(events, interval="200ms"))
    reloaded = daemon.fresh()
    guest.load("pin:1 join:a cpu:100 leave")
    counted = daemon.fresh()
    for cpu in ("0", "1"):
        assert_none_fell(online, reloaded, cpu)
        assert_none_fell(reloaded, counted, cpu)
    assert counted.value(f"perf_cpu_{metric}_total", cpu="1") > reloaded.value(f"perf_cpu_{metric}_total", cpu="1")
    states = {event["state"] for event in daemon.json("/api/v1/events")["events"]}
    assert states == {"ok"}, daemon.log


def test_started_while_a_cpu_is_offline(guest, perfmond):
    switch(guest, 0)
    daemon = perfmond(settings("cycles"))
    first = daemon.fresh()
    assert series(first, "0") and not series(first, "1"), "absent, not 0"
    assert daemon.event("cycles")["cpus"] == "0"

    switch(guest, 1)
    wait_counted(guest, "0-1")
    guest.load("pin:1 join:a cpu:100 leave")
    both = daemon.fresh()
    assert_none_fell(first, both, "0")
    assert both.value("perf_cpu_cycles_total", cpu="1") > 0
    assert both.value("perf_cgroup_cycles_total", cgroup="/a", cpu="1") > 0


def test_restarted_while_a_cpu_is_offline(guest, perfmond):
    """Its totals are kept, and go on when it is back."""
    guest.run("rm -rf /tmp/state && mkdir /tmp/state")
    daemon = perfmond(settings("cycles, cycles:u"), environment="STATE_DIRECTORY=/tmp/state")
    guest.load("pin:1 join:a cpu:100 leave")
    before = daemon.fresh()
    daemon.stop()

    switch(guest, 0)
    daemon = perfmond(settings("cycles, cycles:u"), environment="STATE_DIRECTORY=/tmp/state")
    offline = daemon.fresh()
    for cpu in ("0", "1"):
        assert_none_fell(before, offline, cpu)

    switch(guest, 1)
    wait_counted(guest, "0-1")
    guest.load("pin:1 join:a cpu:100 leave")
    online = daemon.fresh()
    for cpu in ("0", "1"):
        assert_none_fell(offline, online, cpu)
    assert Delta(offline, online).of("perf_cgroup_cycles_total", cgroup="/a", cpu="1") > 0
