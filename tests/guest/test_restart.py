# SPDX-License-Identifier: MIT
"""Hardware counters over a stop and a start, by the state directory: there is no systemd here, and no fd store."""

import pytest

from guests import CYCLES, config
from harness import Delta

MILLION = 1000000
# As in test_counting.py: the load's way into its cgroup and out of it.
WAY = 100

EXACT = ["events = cycles:u, instructions:u"]
# More than the PMU has counters for: each runs a part of the time.
SHARED = ["events = " + ", ".join(f"e{number}={'instructions' if number % 2 else 'cycles'}:u" for number in range(10)) +
          "\nalone = yes"]


@pytest.fixture
def restarted(guest, perfmond):
    """Starts it again and again, with its state kept."""
    guest.run("rm -rf /tmp/state && mkdir /tmp/state")
    running = []

    def restart(text, meanwhile=lambda: None):
        if running:
            running[-1].stop()
            meanwhile()
        running.append(perfmond(text, environment="STATE_DIRECTORY=/tmp/state"))
        if len(running) > 1:
            assert "perfmond: totals go on from /tmp/state/totals" in running[-1].log
        return running[-1]

    return restart


def totals(metrics):
    return {key: value for key, value in metrics.samples.items()
            if key[0].startswith(("perf_cpu_", "perf_cgroup_")) and key[0].endswith("_total")}


def assert_none_fell(before, after):
    earlier, later = totals(before), totals(after)
    assert earlier.keys() <= later.keys()
    assert not [(key, value, later[key]) for key, value in earlier.items() if later[key] < value]


def test_totals_go_on_exactly(guest, restarted):
    text = config(*EXACT, scope="cpu cgroup")
    daemon = restarted(text)
    for _ in range(3):
        before = daemon.fresh()
        guest.load("join:a instructions:20000000 leave")
        counted = daemon.fresh()
        daemon = restarted(text, lambda: guest.load("join:a instructions:10000000 leave"))
        after = daemon.fresh()
        assert_none_fell(counted, after)
        rise = Delta(before, after).of("perf_cgroup_instructions_user_total", cgroup="/a")
        assert 20 * MILLION <= rise <= 20 * MILLION + WAY, "what was done meanwhile is missing, and nothing else"
        assert Delta(before, after).of("perf_cgroup_cycles_user_total", cgroup="/a") == rise * CYCLES


def test_totals_of_a_shared_pmu_go_on(guest, restarted):
    """Scaled ones are neither lower after a start, nor scaled by the time that nobody counted."""
    text = config(*SHARED, scope="cgroup", interval="100ms")
    daemon = restarted(text)
    first = daemon.fresh()
    for _ in range(2):
        guest.load("join:a instructions:100000000 leave")
        counted = daemon.fresh()
        daemon = restarted(text, lambda: guest.load("join:a instructions:50000000 leave"))
        assert_none_fell(counted, daemon.fresh())
    delta = Delta(first, daemon.fresh())
    for number in range(10):
        truth = 200 * MILLION * (1 if number % 2 else CYCLES)
        assert delta.of(f"perf_cgroup_e{number}_total", cgroup="/a") == pytest.approx(truth, rel=0.03)
    running, enabled = (delta.of(f"perf_cgroup_group_{time}_seconds_total", cgroup="/a", group="g0")
                        for time in ("running", "enabled"))
    assert running < 0.9 * enabled


def test_another_config(guest, restarted):
    """What stays goes on, what is new begins."""
    daemon = restarted(config("events = instructions:u", scope="cgroup"))
    guest.load("join:a instructions:20000000 leave")
    before = daemon.fresh()
    daemon = restarted(config("events = instructions:u, cycles:u", scope="cgroup"))
    after = daemon.fresh()
    assert_none_fell(before, after)
    assert after.value("perf_cgroup_instructions_user_total", cgroup="/a") == \
        before.value("perf_cgroup_instructions_user_total", cgroup="/a")
    guest.load("join:a instructions:10000000 leave")
    assert Delta(after, daemon.fresh()).of("perf_cgroup_instructions_user_total", cgroup="/a") >= 10 * MILLION
