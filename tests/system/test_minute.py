# SPDX-License-Identifier: MIT
"""A daemon that is stopped for longer than the minute that its averages and peaks go back. In a file of its own: it
mostly waits, and can do that beside others."""

import math

import pytest

from counter import Counter, Intervals
from harness import Delta, Repeated, until

pytestmark = pytest.mark.once

RATES = ("rate", "rate_1m", "rate_5m", "rate_peak")


def rates(daemon):
    """All that are known, of CPUs and cgroups."""
    snapshot = daemon.json("/api/v1/snapshot")
    found = [event[key] for row in snapshot["cpus"] + snapshot["cgroups"] for event in row["events"].values()
             for key in RATES]
    return [value for value in found if value is not None]


def follow(intervals):
    """For some seconds, and until one more has been compared: on a busy machine some are not."""
    before = len(intervals.checked)

    def is_checked():
        intervals.poll()
        return len(intervals.checked) > before

    intervals.follow(4)
    until(is_checked, "an interval is compared")


@pytest.mark.deep
@pytest.mark.alone
def test_stopped_for_more_than_a_minute(perfmond, cgroups, work, cpus):
    group = cgroups.make("load")
    helper = work(group, cpus[-1])
    daemon = perfmond(f"[cpu]\ngroups = work\n[cgroup]\ngroups = work\ninclude = {cgroups.label}/**\n"
                      '[group "work"]\nevents = page-faults, context-switches\n')
    start, reference = daemon.fresh(), Counter(group.path)
    load = Repeated(helper, "ticks 1000 500")
    intervals = Intervals(daemon, group, 1)
    follow(intervals)

    until(lambda: intervals.stop_daemon(61), "the interval in which it is stopped is compared", 300)
    # An interval of a minute is most of the minute's average, and none was a multiple of it.
    after, stopped = intervals.row(), intervals.rate
    known = rates(daemon)
    assert intervals.checked[-1] >= 61
    assert 0.6 * stopped <= after["rate_1m"] <= 2 * max(intervals.rates)
    assert 0 < after["rate_5m"] <= 2 * max(intervals.rates)
    assert 0.999 * stopped <= after["rate_peak"] <= 2 * max(intervals.rates)

    follow(intervals)  # the intervals behind it, too
    known += rates(daemon)
    load.end()
    helper.wait_asleep()
    end = daemon.fresh()
    assert known and all(math.isfinite(value) and value >= 0 for value in known)
    counted = reference.read()
    for event in ("page_faults", "context_switches"):
        assert Delta(start, end).of(f"perf_cgroup_{event}_total", cgroup=group.label) == counted[event], event
    assert counted["context_switches"] > 10000
    assert [end.value(f"perfmond_{what}_total") for what in ("read_errors", "readings_refused")] == [0, 0]
