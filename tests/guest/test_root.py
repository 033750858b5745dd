# SPDX-License-Identifier: MIT
"""A machine whose tasks are all in the root cgroup, as fresh small ones and containers have them: it is counted by the
CPUs' events, hardware events too."""

import pytest

from guests import config
from harness import Delta

MILLION = 1000000
CGROUPS = "/sys/fs/cgroup"
MOVE = f"for pid in $(cat {CGROUPS}/%s/cgroup.procs); do echo $pid >{CGROUPS}/%s/cgroup.procs; done; true"

# More than the PMU has counters.
TEN = "events = " + ", ".join([f"i{number}=instructions" for number in range(9)] + ["cycles"])


@pytest.fixture
def all_in_root(guest):
    guest.run(MOVE % ("rest", "."))
    assert guest.run(f"cat {CGROUPS}/rest/cgroup.procs") == ""
    yield
    # Kernel threads stay where they are.
    guest.run(f"echo $$ >{CGROUPS}/rest/cgroup.procs; echo 1 >{CGROUPS}/rest/cgroup.procs")


def rises(delta, event):
    cpus = sum(delta.of(f"perf_cpu_{event}_total", **labels)
               for labels, _ in delta.after.all(f"perf_cpu_{event}_total"))
    return cpus, delta.of(f"perf_cgroup_{event}_total", cgroup="/")


def test_the_default_groups(guest, perfmond, all_in_root):
    """Of the root alone: the kernel's clock of a cgroup whose running task has just moved away goes on, so that others
    look as if they waited for the PMU."""
    daemon = perfmond("[daemon]\ninterval = 100ms\n[cgroup]\ninclude = /\n")
    before = daemon.fresh()
    guest.run("load instructions:200000000")
    delta = Delta(before, daemon.fresh())
    for event in ("cycles", "instructions"):
        cpus, root = rises(delta, event)
        assert root == cpus >= 200 * MILLION
        assert daemon.event(event, "cgroup")["state"] == daemon.event(event)["state"] == "ok"


def test_more_events_than_counters(guest, perfmond, all_in_root):
    """The root's totals are estimates as the CPU's are, and the same."""
    daemon = perfmond(config(TEN, scope="cpu cgroup", include="/", interval="100ms"))
    before = daemon.fresh()
    guest.run("load instructions:400000000")
    delta = Delta(before, daemon.fresh())
    for event in [f"i{number}" for number in range(9)] + ["cycles"]:
        cpus, root = rises(delta, event)
        assert root == cpus >= 390 * MILLION
        assert daemon.event(event, "cgroup")["state"] == "multiplexed"


def test_events_that_only_cgroups_have(guest, perfmond, all_in_root):
    """Opened for whole CPUs, the root's own events count all tasks, too."""
    daemon = perfmond(config("events = instructions:u", scope="cgroup", include="/"))
    before = daemon.fresh()
    guest.run("load instructions:50000000")
    delta = Delta(before, daemon.fresh())
    assert 50 * MILLION <= delta.of("perf_cgroup_instructions_user_total", cgroup="/") <= 60 * MILLION
    assert daemon.event("instructions_user", "cgroup")["state"] == "ok"
