# SPDX-License-Identifier: MIT
"""Stacks of arm64 are whole, and their callers are those that libdw finds."""

import json

from harness import until
from test_whole_stacks import C, count_stacks, read_stacks

# The way "restorer" is for x86-64. The guest's libc has no names but those that it exports: "libc.so.6" stands for
# pthread_kill() in it.
WAYS = C | {
    "restorer": ["main"],
    "signal": ["main", "signal_outer", "gsignal", "libc.so.6", "handler"],
    "alternate": ["[cut]", "libc.so.6", "alternate_handler"],
}

CONFIG = """
[cpu]
groups =
[cgroup]
groups =
[profiles]
rate = 99
include = /a
"""

# Tables and names have a budget of CPU time, which is little in an emulated machine: other programs get none of it.
RUN = "(echo 0 >/sys/fs/cgroup/a/cgroup.procs; exec ways {seconds})"

SAMPLES = 300

# Seconds of the emulator's CPU time: libdw takes long there.
PATIENCE = 1200


def ways_of(daemon, since):
    path = f"/api/v1/profile?format=folded&command=ways&from={since}"
    return count_stacks(read_stacks(daemon.guest.run(daemon.wget(path))), WAYS)


def run_ways(daemon, seconds):
    """When it has begun, by the guest's clock."""
    since = daemon.json("/api/v1/profile/top?from=-1h")["to"]
    daemon.guest.run(RUN.format(seconds=seconds))
    # Sleeping takes no time.
    daemon.guest.run("sleep 20")
    until(lambda: daemon.fresh().value("perfmond_profile_waiting_bytes") == 0, "no stack waits for a table", 600)
    return since


def test_known_ways(perfmond):
    """99 % of the samples have all callers of their way. Tables are known before: making the first ones can use up the
    budget for tables here, so that the last one, mostly that of the vdso, takes a while."""
    daemon = perfmond(CONFIG)
    until(lambda: set(ways_of(daemon, run_ways(daemon, 1))[1]) == set(WAYS), "tables are known", 600)
    since = run_ways(daemon, 3)

    def are_named():
        found[:] = ways_of(daemon, since)
        return set(found[0]) == set(WAYS)

    found = []
    until(are_named, "names are known", 600)
    seen, whole, broken = found
    print(dict(seen), dict(whole))
    assert sum(seen.values()) > 100
    assert sum(whole.values()) >= 0.99 * sum(seen.values()), json.dumps(broken)


def test_same_callers(guest):
    """No stack differs from libdw's, up to code for which it has no rules: ways back from a handler."""
    told = json.loads(guest.run(f"against-libdw {SAMPLES} /bin/ways 1000 2>/tmp/differences", PATIENCE))
    print(told)
    assert told["compared"] == SAMPLES
    assert told["equal"] + told["equal_to_code_without_rules"] >= 0.99 * SAMPLES, guest.read("/tmp/differences")
    assert told["equal"] >= 0.7 * SAMPLES
    assert told["whole"] + told["cut"] >= 0.98 * SAMPLES and told["frames"] > 5 * SAMPLES
