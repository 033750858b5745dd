# SPDX-License-Identifier: MIT
"""The machine sleeps. To the daemon that is a moment in which clocks jump, and after which all CPUs but the first have
been offline, although no list of CPUs says so."""

import math

import pytest

from guests import PATIENCE, config
from harness import Delta, until

CYCLES, SWITCHES = "perf_cpu_cycles_total", "perf_cpu_context_switches_total"
RUNNING = "perf_cpu_group_running_seconds_total"


@pytest.fixture
def guest(pair):
    return pair


@pytest.fixture
def daemon(perfmond):
    daemon = perfmond(config("events = cycles, cycles:u", "events = context-switches", scope="cpu cgroup",
                             interval="200ms"))
    daemon.guest.run("sleep 1")
    return daemon


def boottime(guest):
    """CLOCK_BOOTTIME in seconds: it goes on in sleep."""
    return float(guest.read("/proc/uptime").split()[0])


def uptime(daemon):
    """The daemon's own, by CLOCK_MONOTONIC."""
    return daemon.json("/api/v1/status")["uptime_seconds"]


def suspend_to_idle(guest, seconds):
    """An alarm that has come before the machine sleeps would not end its sleep: with wakeup_count, the kernel refuses
    to sleep then, and it is tried again."""
    guest.run(f"""
        tries=0
        until
            count=$(cat /sys/power/wakeup_count)
            echo 0 >/sys/class/rtc/rtc0/wakealarm
            echo +{seconds} >/sys/class/rtc/rtc0/wakealarm
            echo $count >/sys/power/wakeup_count && echo freeze >/sys/power/state
        do
            tries=$((tries + 1))
            [ $tries -lt 5 ] || exit 1
        done""")


def hibernate_in_vain(guest):
    """There is nowhere to write the image to. Up to there everything happens, with CPU 1 offline meanwhile."""
    guest.run("dmesg -c >/dev/null; echo disk >/sys/power/state || true")
    said = guest.run("dmesg")
    assert "CPU1 is up" in said and "hibernation exit" in said, said


def assert_sane_rates(daemon):
    for row in daemon.json("/api/v1/snapshot")["cpus"]:
        for name, event in row["events"].items():
            rate = event["rate"]
            assert rate is None or (math.isfinite(rate) and 0 <= rate < 1e11), f"{name}: {event}"


def assert_none_fell(before, after):
    fallen = [(key, value, after.samples.get(key)) for key, value in before.samples.items()
              if key[0].startswith("perf_c") and key[0].endswith("_total") and
              not after.samples.get(key, -1) >= value]
    assert not fallen


def test_suspend_to_idle(guest, daemon):
    guest.load("pin:1 join:a cpu:50 leave")
    # The clocks' interval is around that of the scrapes, however long a question takes.
    slept_from, up_from, before = boottime(guest), uptime(daemon), daemon.fresh()
    suspend_to_idle(guest, 8)
    after, slept_to, up_to = daemon.fresh(), boottime(guest), uptime(daemon)
    assert slept_to - slept_from > 2, "it has slept"
    assert_none_fell(before, after)
    delta = Delta(before, after)
    for cpu in ("0", "1"):
        # Not longer than there was time by CLOCK_MONOTONIC, which some machines stop in sleep and some do not.
        assert delta.of(RUNNING, cpu=cpu, group="g0") < up_to - up_from + 1
        # The guest's PMU counts at 1 GHz of the host's time.
        assert delta.of(CYCLES, cpu=cpu) < (slept_to - slept_from + 1) * 2e9
    for _ in range(3):
        assert_sane_rates(daemon)
        guest.run("sleep 0.25")
    guest.load("pin:1 join:a cpu:50 leave")
    assert Delta(after, daemon.fresh()).of(CYCLES, cpu="1") > 0


def test_cpus_were_offline_while_it_was_frozen(guest, daemon):
    guest.load("pin:1 join:a cpu:100 leave")
    before = daemon.fresh()
    hibernate_in_vain(guest)
    assert_none_fell(before, daemon.fresh())

    def counts_again():
        first = daemon.fresh()
        guest.load("pin:1 join:a cpu:20 leave")
        return Delta(first, daemon.fresh()).of(SWITCHES, cpu="1") > 0
    until(counts_again, "CPU 1 is counted again", timeout=PATIENCE)
    assert "CPU 1 has been offline" in daemon.log

    again = daemon.fresh()
    guest.load("pin:1 join:a cpu:100 leave")
    delta = Delta(again, daemon.fresh())
    assert delta.of(CYCLES, cpu="1") >= delta.of("perf_cgroup_cycles_total", cgroup="/a") > 0
    assert_none_fell(before, daemon.fresh())
    assert_sane_rates(daemon)
