# SPDX-License-Identifier: MIT
"""Cgroups where perf_event is a v1 hierarchy: events then have to be opened on directories of that one.

Mounting it takes perf_event away from cgroup2 for the whole machine, and it comes back a while after the last
mount is gone: the fixture sees to that.
"""

import subprocess
import time

import pytest

from harness import Cgroup, perf_v1_hierarchy, until
from machine import require

pytestmark = pytest.mark.once


def mount(where):
    """The kernel refuses it for a moment where the hierarchy is on its way back to version 2."""
    until(lambda: subprocess.run(["mount", "-t", "cgroup", "-o", "perf_event", "none", where], check=False,
                                 capture_output=True).returncode == 0, "perf_event is mounted")


def give_back(where):
    """A cgroup keeps the hierarchy alive, those of others too, which have taken it for theirs; a removed one does for a
    moment, and it then needs one more unmounting."""
    until(lambda: not any(path.is_dir() for path in where.iterdir()), f"others' cgroups have left {where}")
    for _ in range(60):
        subprocess.run(["umount", where], check=False, capture_output=True)
        end = time.monotonic() + 2
        while time.monotonic() < end:
            if perf_v1_hierarchy() == 0:
                return
            time.sleep(0.05)
        mount(where)
    raise AssertionError("perf_event is still in a v1 hierarchy: mount it and unmount it again")


@pytest.fixture
def place(privileged, whole_machine, tmp_path):
    """Where it can be mounted by a test, which may leave it so."""
    require("perf-event-v1")
    where = tmp_path / "perf_event"
    where.mkdir()
    try:
        yield where
    finally:
        give_back(where)


@pytest.fixture
def v1(place):
    mount(place)
    return place


@pytest.mark.engines
def test_a_v1_hierarchy_is_found_and_counted(v1, perfmond, work, cpus):
    outer = Cgroup(v1 / "outer", v1)
    inner = outer.make("inner")
    try:
        daemon = perfmond('[cgroup]\ngroups = faults\n[group "faults"]\nevents = page-faults\n')
        assert daemon.json("/api/v1/status")["cgroups"]["mount"] == {"path": str(v1), "version": 1, "whole": True}
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


# --- one that comes and goes while cgroups of version 2 are counted

NAME = "perf_cgroup_page_faults_total"


def faults(daemon, cgroup):
    return daemon.fresh().get(NAME, cgroup=cgroup.label)


def start(perfmond, cgroups, work):
    """A daemon, and a cgroup in which 1000 page faults have been counted."""
    cgroup = cgroups.make("counted")
    daemon = perfmond(f'[cgroup]\ngroups = faults\ninclude = {cgroups.label}/**\nlinger = 1s\n'
                      '[group "faults"]\nevents = page-faults\n')
    helper = work(cgroup)
    before = faults(daemon, cgroup)
    helper.do("faults 1000")
    assert faults(daemon, cgroup) - before == 1000
    return daemon, cgroup, helper


def check_again(daemon, cgroup, helper, before):
    """It counts anew, and the total has not been forgotten."""
    daemon.wait_log(r"mounts have changed: cgroups are counted at \S+ \(version 2\)", 30)
    until(lambda: faults(daemon, cgroup) is not None, "counted again", 30)
    assert faults(daemon, cgroup) == before
    helper.do("faults 500")
    assert faults(daemon, cgroup) == before + 500
    until(lambda: daemon.metrics().state("page_faults", "cgroup") == "ok", "its state")


@pytest.mark.engines
def test_one_that_comes_and_goes(place, perfmond, cgroups, work):
    daemon, cgroup, helper = start(perfmond, cgroups, work)
    before = faults(daemon, cgroup)
    mount(place)
    daemon.wait_log(rf"mounts have changed: cgroups are counted at {place} \(version 1\)")
    # The kernel counts nothing there: a total that stands still would say that nothing happens.
    helper.do("faults 1000")
    time.sleep(2)
    assert faults(daemon, cgroup) is None
    assert daemon.json("/api/v1/status")["cgroups"]["mount"]["version"] == 1
    give_back(place)
    check_again(daemon, cgroup, helper, before)


def test_one_in_another_mount_namespace(place, perfmond, cgroups, work):
    """It can't be used from here, and takes perf_event away all the same."""
    daemon, cgroup, helper = start(perfmond, cgroups, work)
    before = faults(daemon, cgroup)
    script = f"mount -t cgroup -o perf_event none {place} && echo mounted && read x; umount {place}"
    with subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", script], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline(), "it is mounted"
        sentence = r"perf_event is in a v1 hierarchy \(number \d+\) that is not mounted here"
        daemon.wait_log(f"mounts have changed: no cgroups: {sentence}")
        daemon.wait_log(f"per cgroup, unsupported: page-faults: {sentence}")
        metrics = daemon.fresh()
        assert metrics.state("page_faults", "cgroup") == "unsupported" and not metrics.all(NAME)
        assert any("v1 hierarchy" in problem for problem in daemon.json("/api/v1/status")["problems"])
        other.stdin.write("\n")
    give_back(place)
    check_again(daemon, cgroup, helper, before)


def test_v2_counts_again_afterwards(perfmond, cgroups, work, cpus):
    """What the fixture above has to leave behind."""
    helper = work(cgroups.make("after"), cpus[-1])
    daemon = perfmond(f'[cgroup]\ngroups = faults\ninclude = {cgroups.label}/**\n'
                      '[group "faults"]\nevents = page-faults\n')
    label = cgroups.label + "/after"
    before = daemon.fresh().value("perf_cgroup_page_faults_total", cgroup=label)
    helper.do("faults 99")
    assert daemon.fresh().value("perf_cgroup_page_faults_total", cgroup=label) - before == 99
