# SPDX-License-Identifier: MIT
"""Cgroups where perf_event is a v1 hierarchy: events then have to be opened on directories of that one.

Mounting it takes perf_event away from cgroup2 for the whole machine, and it comes back a while after the last
mount is gone: the fixture sees to that.
"""

import subprocess
import time

import pytest

from harness import Cgroup, perf_v1_hierarchy, until

pytestmark = pytest.mark.once


def mount(where):
    return subprocess.run(["mount", "-t", "cgroup", "-o", "perf_event", "none", where], capture_output=True, text=True,
                          check=False)


def give_back(where):
    """A removed cgroup keeps the hierarchy alive for a moment, and it then needs one more unmounting."""
    for _ in range(20):
        subprocess.run(["umount", where], check=False, capture_output=True)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            if perf_v1_hierarchy() == 0:
                return
            time.sleep(0.05)
        mount(where)
    raise AssertionError("perf_event is still in a v1 hierarchy: mount it and unmount it again")


@pytest.fixture
def v1(privileged, tmp_path):
    if perf_v1_hierarchy() is None:
        pytest.skip("this kernel has no /proc/cgroups entry for perf_event")
    if perf_v1_hierarchy() != 0:
        pytest.skip("perf_event is in a v1 hierarchy already: all other tests have used it")
    where = tmp_path / "perf_event"
    where.mkdir()
    mounted = mount(where)
    if mounted.returncode:
        pytest.skip(f"perf_event can't be mounted as v1: {mounted.stderr.strip()}")
    try:
        yield where
    finally:
        give_back(where)


def test_a_v1_hierarchy_is_found_and_counted(v1, perfmond, work, cpus):
    outer = Cgroup(v1 / "outer", v1)
    inner = outer.make("inner")
    try:
        daemon = perfmond('[cgroup]\ngroups = faults\n[group "faults"]\nevents = page-faults\n')
        assert daemon.json("/api/v1/status")["cgroups"]["mount"] == {"path": str(v1), "version": 1}
        helper = work(inner, cpus[-1])
        name = "perf_cgroup_page_faults_total"
        before = daemon.fresh()
        helper.do("faults 1234")
        after = daemon.fresh()
        for label in ("/outer/inner", "/outer"):
            assert after.value(name, cgroup=label) - before.value(name, cgroup=label) == 1234
        helper.stop()
        inner.remove()
        until(lambda: daemon.metrics().value("perfmond_cgroups", state="lingering") == 1, "removal is seen")
        daemon.stop()
    finally:
        outer.remove()


def test_v2_counts_again_afterwards(perfmond, cgroups, work, cpus):
    """What the fixture above has to leave behind."""
    helper = work(cgroups.make("after"), cpus[-1])
    daemon = perfmond(f'[cgroup]\ngroups = faults\ninclude = {cgroups.label}/**\n'
                      '[group "faults"]\nevents = page-faults\n')
    label = cgroups.label + "/after"
    before = daemon.fresh().value("perf_cgroup_page_faults_total", cgroup=label)
    helper.do("faults 99")
    assert daemon.fresh().value("perf_cgroup_page_faults_total", cgroup=label) - before == 99
