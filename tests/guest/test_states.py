# SPDX-License-Identifier: MIT
"""What is said of events that share the PMU, right after the start, within a long interval, and in very short ones."""

import json

import pytest

from guests import config

EIGHT = [f"events = c{number}=cycles:u, " + ", ".join(f"i{number}{k}=instructions:u" for k in range(4))
         for number in range(8)]


@pytest.mark.parametrize("start", range(3))
def test_no_start_is_a_false_alarm(guest, perfmond, start):
    """Of groups that take turns, some have not had theirs when the first look is taken."""
    daemon = perfmond(config(*EIGHT, interval="1s"))
    guest.run("load instructions:20000000; sleep 1.2")
    assert "never_scheduled" not in daemon.log, daemon.log
    assert {event["state"] for event in daemon.json("/api/v1/events")["events"]} == {"multiplexed"}, start


def test_within_a_long_interval(guest, perfmond):
    """It is an hour until the first one ends; what is seen meanwhile is said."""
    daemon = perfmond(config(*EIGHT, interval="1h"))
    assert {event["state"] for event in daemon.json("/api/v1/events")["events"]} <= {"ok", "multiplexed"}
    guest.run("load instructions:300000000; sleep 2")
    metrics = daemon.fresh()
    assert {event["state"] for event in daemon.json("/api/v1/events")["events"]} == {"multiplexed"}
    assert all(value > 0 for _, value in metrics.all("perf_cpu_i00_total"))
    assert "never_scheduled" not in daemon.log


@pytest.mark.parametrize("interval", ["10ms", "20ms", "40ms"])
def test_rates_of_short_intervals(guest, perfmond, interval):
    """Of less than 50 ms no share can be told, but there is a rate all the time."""
    daemon = perfmond(config(*EIGHT[:2], interval=interval))
    answers = guest.run(f"""
        load instructions:400000000 &
        sleep 0.3
        for i in $(seq 30); do
            {daemon.wget('/api/v1/snapshot?scope=cpu')}; echo
        done
        wait""").splitlines()
    rates = [event["rate"] for answer in answers if answer for cpu in json.loads(answer)["cpus"]
             for event in cpu["events"].values()]
    assert len(rates) == 30 * 10
    assert rates.count(None) == 0
