# SPDX-License-Identifier: MIT
"""Cgroups are followed while they come and go, and those are counted that the config admits."""

import itertools
import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest

from harness import PATIENCE, Timed, until
from machine import needs

NUMBERS = itertools.count()
NAME = "perf_cgroup_page_faults_total"


def config(include, more="", linger="1min"):
    return f"""
[cgroup]
groups = faults
include = {include}
linger = {linger}
{more}
[group "faults"]
events = page-faults
"""


def counted(metrics, below=""):
    return {labels["cgroup"] for labels, _ in metrics.all(NAME) if labels["cgroup"].startswith(below)}


def statuses(daemon, below):
    return {cgroup["cgroup"]: cgroup["status"] for cgroup in daemon.json("/api/v1/cgroups")["cgroups"]
            if cgroup["cgroup"].startswith(below)}


# --- in one daemon: there are no ticks, and it reads anew for a scrape

@pytest.fixture
def daemon(shared_perfmond, shared_cgroups):
    return shared_perfmond(config(shared_cgroups.label + "/**") + "[daemon]\ninterval = 1h\n")


@pytest.fixture
def top(shared_cgroups):
    """A cgroup for each test, where nothing else is."""
    return shared_cgroups.make(f"t{next(NUMBERS)}")


def wait_counted(daemon, group):
    until(lambda: group.label in counted(daemon.metrics()), f"{group.label} is counted")


@pytest.mark.engines
def test_a_new_cgroup_is_counted_exactly(daemon, top, work, cpus):
    group = top.make("new")
    wait_counted(daemon, group)
    helper = work(group, cpus[0])
    before = daemon.fresh().value(NAME, cgroup=group.label)
    helper.do("faults 777")
    assert daemon.fresh().value(NAME, cgroup=group.label) - before == 777


@pytest.mark.engines
def test_a_removed_cgroup_keeps_its_last_total(daemon, top, work, cpus, engine):
    """That of an interval in which it worked and was removed; its events are closed at once."""
    group = top.make("job")
    helper = work(group, cpus[0])
    wait_counted(daemon, group)
    before = daemon.fresh()
    assert "gone" not in daemon.json("/api/v1/snapshot", cgroup=group.label)["cgroups"][0]
    helper.do("faults 2500")
    helper.stop()
    group.remove()
    until(lambda: group.label not in statuses(daemon, group.label), "its end is seen")
    after = daemon.fresh()
    # The helper's own end has page faults too, a few dozen.
    assert 2500 <= after.value(NAME, cgroup=group.label) - before.value(NAME, cgroup=group.label) < 3000
    closed = before.value("perfmond_open_events") - after.value("perfmond_open_events")
    assert closed == (0 if engine == "bpf" else len(cpus))
    assert daemon.json("/api/v1/snapshot", cgroup=group.label)["cgroups"][0]["gone"] is True


@pytest.mark.engines
@pytest.mark.one_engine
def test_trees_made_at_once_are_counted_whole_and_closed_when_removed(daemon, top):
    """By several processes at a time, faster than the daemon looks."""
    wait_counted(daemon, top)
    before = daemon.metrics().value("perfmond_open_events")

    def make(which):
        for i in range(10):
            os.makedirs(top.path / f"t{which}" / f"x{i}" / "deep" / "deeper")

    threads = [threading.Thread(target=make, args=(which,)) for which in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = {"/" + os.path.relpath(path, top.mount) for path, _, _ in os.walk(top.path)}
    assert len(expected) == 1 + 3 * (1 + 10 * 3)
    until(lambda: counted(daemon.metrics(), top.label) == expected, "all of the trees are counted")

    for path in sorted(expected - {top.label}, key=len, reverse=True):
        os.rmdir(f"{top.mount}{path}")
    until(lambda: statuses(daemon, top.label).keys() == {top.label}, "the end of all but the top is seen")
    assert daemon.metrics().value("perfmond_open_events") == before
    assert daemon.metrics().value("perfmond_cgroups", state="waiting") == 0


# --- in daemons of their own

@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.engines
def test_a_new_cgroup_is_counted_within_two_seconds(perfmond, cgroups, work):
    daemon = perfmond(config(cgroups.label + "/**"))
    assert counted(daemon.fresh(), cgroups.label) == set()
    timed = Timed(daemon, work)
    with timed.one():
        group = cgroups.make("new")
        until(lambda: counted(daemon.metrics(), cgroups.label) == {group.label}, "the new cgroup is counted")
    took, = timed.end()
    assert took < 2


@pytest.mark.deep
def test_a_tree_that_cannot_be_read_is_logged_once(perfmond, cgroups):
    """It has no file left with which to look, whatever is made."""
    daemon = perfmond(config(cgroups.label + "/**"))
    limits = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    for i in range(50):
        cgroups.make(f"g{i}")
        time.sleep(0.02)
    daemon.wait_log("can't read the cgroup tree at .*: Too many open files")
    assert daemon.log.count("can't read the cgroup tree") == 1
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: len(counted(daemon.metrics(), cgroups.label)) == 50, "all are found")


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.engines
def test_a_removed_cgroup_lingers_for_as_long_as_configured(perfmond, cgroups, work, cpus):
    linger = 10
    daemon = perfmond(config(cgroups.label + "/**", linger=f"{linger}s") + "[daemon]\ninterval = 100ms\n")
    group = cgroups.make("brief")
    until(lambda: counted(daemon.metrics(), cgroups.label) == {group.label}, "it is counted")
    helper = work(group, cpus[0])
    helper.do("faults 100")
    helper.stop()
    last = daemon.fresh().value(NAME, cgroup=group.label)
    removing = time.monotonic()
    group.remove()
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="lingering") == 1, "it lingers")
    assert daemon.metrics().value(NAME, cgroup=group.label) == last
    until(lambda: counted(daemon.metrics(), cgroups.label) == set(), "it is gone", linger + PATIENCE)
    assert time.monotonic() - removing >= linger


def test_cgroups_are_counted_that_include_and_exclude_admit(perfmond, cgroups):
    for path in ("web/a", "web/b", "db/a", "tmp"):
        os.makedirs(cgroups.path / path)
    top = cgroups.label
    daemon = perfmond(config(f"{top}/web/** {top}/db", f"exclude = {top}/*/b"))
    assert counted(daemon.metrics(), top) == {f"{top}/web/a", f"{top}/db"}
    assert statuses(daemon, top) == {
        top: "excluded", f"{top}/web": "excluded", f"{top}/web/a": "counted", f"{top}/web/b": "excluded",
        f"{top}/db": "counted", f"{top}/db/a": "excluded", f"{top}/tmp": "excluded"}

    os.makedirs(cgroups.path / "web/c")
    os.makedirs(cgroups.path / "web/x/b")
    until(lambda: f"{top}/web/c" in counted(daemon.metrics(), top), "a new one is admitted by the same rules")
    until(lambda: statuses(daemon, top).get(f"{top}/web/x/b") == "counted", "a glob's * stops at a slash")


@pytest.mark.engines
@pytest.mark.one_engine
def test_max_bounds_what_is_counted(perfmond, cgroups):
    for i in range(6):
        cgroups.make(f"g{i}")
    daemon = perfmond(config(cgroups.label + "/*", "max = 4"))
    metrics = daemon.metrics()
    assert len(counted(metrics, cgroups.label)) == 4
    assert metrics.value("perfmond_cgroups", state="counted") == 4
    assert metrics.value("perfmond_cgroups", state="over_max") == 2
    left_out = [c for c in daemon.json("/api/v1/cgroups")["cgroups"] if c["status"] == "over_max"]
    assert len(left_out) == 2 and all("max" in c["reason"] for c in left_out)

    # When one goes there is room for another.
    (cgroups.mount / counted(metrics, cgroups.label).pop().lstrip("/")).rmdir()
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="over_max") == 1, "one moves up")
    assert daemon.metrics().value("perfmond_cgroups", state="counted") == 4


@needs("inotify-overflow")
def test_an_overflow_of_the_inotify_queue_loses_nothing(perfmond, cgroups):
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for i in range(30):
        cgroups.make(f"old{i}")
    daemon = perfmond(config(cgroups.label + "/**", linger="0s"))
    assert daemon.metrics().value("perfmond_inotify_overflows_total") == 0

    daemon.process.send_signal(signal.SIGSTOP)
    try:
        # It is full then, and what is done behind that is not heard of.
        for _ in range(queue // 2 + 10):
            (cgroups.path / "brief").mkdir()
            (cgroups.path / "brief").rmdir()
        for i in range(40):
            os.makedirs(cgroups.path / f"new{i}/child")
        for i in range(0, 30, 2):
            os.rmdir(cgroups.path / f"old{i}")
    finally:
        daemon.process.send_signal(signal.SIGCONT)

    expected = {"/" + os.path.relpath(path, cgroups.mount) for path, _, _ in os.walk(cgroups.path)} - {cgroups.label}
    until(lambda: counted(daemon.metrics(), cgroups.label) == expected, "all is as on disk")
    assert daemon.metrics().value("perfmond_inotify_overflows_total") >= 1
    assert daemon.metrics().value("perfmond_cgroup_rescans_total") >= 1


def test_the_root_is_counted_by_default(perfmond, cgroups):
    daemon = perfmond("")
    metrics = daemon.metrics()
    assert metrics.get(NAME, cgroup="/") is not None
    assert metrics.get(NAME, cgroup=cgroups.label) is not None


@pytest.mark.deep
@pytest.mark.engines
def test_a_thousand_come_and_go(perfmond, cgroups):
    """Churn as on a build machine; nothing is left open, and nothing is left behind."""
    daemon = perfmond(config(cgroups.label + "/**", linger="0s"))
    before = daemon.metrics().value("perfmond_open_events")
    for turn in range(10):
        made = [cgroups.make(f"c{turn}-{i}") for i in range(100)]
        for group in made:
            group.remove()
    until(lambda: counted(daemon.metrics(), cgroups.label) == set(), "all are gone")
    until(lambda: daemon.metrics().value("perfmond_open_events") == before, "all is closed")
    stat = (cgroups.path / "cgroup.stat")
    if stat.exists():
        until(lambda: "nr_dying_descendants 0" in stat.read_text(), "no dying cgroup is kept")
    assert daemon.metrics().value("perfmond_cgroups", state="waiting") == 0
