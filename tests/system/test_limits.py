# SPDX-License-Identifier: MIT
"""Limits of open files, of [cgroup] max and of inotify: what fits is counted, what does not is named, by a rule.

What is counted goes on. Room goes to the shallowest of those that wait for it, and of equally deep ones to the
busiest.
"""

import itertools
import os
import re
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

import machine
from harness import PATIENCE, as_user, until
from machine import needs

pytestmark = pytest.mark.once

NAME = "perf_cgroup_page_faults_total"

# The engine whose cgroups take files.
PERF = "engine = perf"


def config(top, more="", include="/**"):
    return f"""
[web]
listen = 127.0.0.1:0
[daemon]
interval = 200ms
[cpu]
groups =
[cgroup]
groups = faults
include = {top.label}{include}
linger = 0s
{more}
[group "faults"]
events = page-faults
"""


def files(nr):
    """RLIMIT_NOFILE for Daemon(limits=…)."""
    return [(resource.RLIMIT_NOFILE, (nr, nr))]


def by_status(daemon, top):
    """{status: {names of cgroups below top}}"""
    found = {}
    for cgroup in daemon.json("/api/v1/cgroups")["cgroups"]:
        if cgroup["cgroup"].startswith(top.label + "/"):
            found.setdefault(cgroup["status"], set()).add(cgroup["cgroup"].removeprefix(top.label + "/"))
    return found


def states(daemon):
    """How many cgroups are counted, and left out by max, at one moment."""
    metrics = daemon.metrics()
    return tuple(metrics.value("perfmond_cgroups", state=state) for state in ("counted", "over_max"))


def counted(daemon, top):
    return by_status(daemon, top).get("counted", set())


NO_PROFILES = "\n[profiles]\nenabled = no"


class Room:
    """A daemon with room for `nr` cgroups and no more, by [cgroup] max or by files, and how it says so. Profiles take
    nothing of that room: their files are another process's."""

    def __init__(self, perfmond, top, cpus, kind, nr):
        self.kind, self.top, self.status = kind, top, "over_max" if kind == "max" else "over_fds"
        # A file for each CPU beside those of the cgroups: where nothing is counted per CPU, it tells whether it is up.
        fds = (nr + 1) * len(cpus)
        # Half of few files is kept for other use than these, but no fewer than 28, and no more than 256 of many.
        limit = fds + min(max(fds, 28), 256)
        more, limits = (f"max = {nr}", None) if kind == "max" else (PERF, files(limit))
        self.daemon = perfmond(config(top, more + ("" if kind == "profiles" else NO_PROFILES)), limits=limits)
        self.word = "[cgroup] max" if kind == "max" else "LimitNOFILE"

    def counted(self):
        return counted(self.daemon, self.top)

    def left_out(self):
        return by_status(self.daemon, self.top).get(self.status, set())


@pytest.fixture
def room(request, perfmond, cgroups, cpus):
    """Makes a Room of 12."""
    return lambda: Room(perfmond, cgroups, cpus, request.param, 12)


EACH_LIMIT = pytest.mark.parametrize("room", ["max", "fds", "profiles"], indirect=True)
# The rules are the same for each: the gate has them of the one that needs no privilege to be set.
MAX_FIRST = pytest.mark.parametrize(
    "room", ["max", *(pytest.param(kind, marks=pytest.mark.deep) for kind in ("fds", "profiles"))], indirect=True)


@EACH_LIMIT
def test_what_fits_is_counted_and_the_rest_is_named(room, cgroups, work, cpus):
    for i in range(20):
        cgroups.make(f"g{i}")
    room = room()
    assert len(room.counted()) == 12 and len(room.left_out()) == 8
    if room.kind == "profiles":
        until(lambda: room.daemon.metrics().value("perfmond_profile_samples_total") > 0, "samples")
    metrics = room.daemon.fresh()
    assert metrics.value("perfmond_cgroups", state="counted") == 12
    assert metrics.value("perfmond_cgroups", state=room.status) == 8
    assert room.word != "LimitNOFILE" or metrics.value("perfmond_open_events") >= 12 * len(cpus)
    assert {labels["cgroup"] for labels, _ in metrics.all(NAME)} == {f"{cgroups.label}/{n}" for n in room.counted()}
    reasons = [c["reason"] for c in room.daemon.json("/api/v1/cgroups")["cgroups"] if c["status"] == room.status]
    assert len(reasons) == 8 and all(room.word in reason for reason in reasons), reasons
    status = room.daemon.json("/api/v1/status")
    assert status["cgroups"][room.status] == 8
    assert any("8 cgroups are not counted" in problem for problem in status["problems"]), status["problems"]

    one = sorted(room.counted())[0]
    helper = work(cgroups, cpus[0])
    (cgroups.path / one / "cgroup.procs").write_text(str(helper.process.pid))
    before = room.daemon.fresh().value(NAME, cgroup=f"{cgroups.label}/{one}")
    helper.do("faults 321")
    assert room.daemon.fresh().value(NAME, cgroup=f"{cgroups.label}/{one}") - before == 321


@MAX_FIRST
def test_the_log_names_cgroups_left_out(room, cgroups):
    """Once, with the reason of one of them, and again when all are counted; one that comes and goes fills no log."""
    full = [cgroups.make(f"g{i}") for i in range(15)]
    room = room()
    warning = f"3 cgroups are not counted, {room.status}: for example {cgroups.label}/g"
    room.daemon.wait_log(rf"{warning}\d+: .*{re.escape(room.word)}")
    for cgroup in full[:3]:
        cgroup.remove()
    over = f"no cgroup is {room.status} any more"
    room.daemon.wait_log(over)
    for _ in range(2):
        one = cgroups.make("late")
        until(room.left_out, "there is no room")
        # The log is looked after once a second.
        time.sleep(1.1)
        one.remove()
        until(lambda: not room.left_out(), "it has gone")
    time.sleep(1.1)
    assert [len([line for line in room.daemon.lines if text in line]) for text in ("are not counted", over)] == [1, 1]


@MAX_FIRST
def test_cgroups_that_are_counted_go_on(room, cgroups):
    """However shallow those are that come later."""
    deep = cgroups.make("a").make("b").make("c")
    for i in range(9):
        deep.make(f"d{i}")
    room = room()
    first = room.counted()
    assert len(first) == 12 and not room.left_out()
    for i in range(5):
        cgroups.make(f"shallow{i}")
    until(lambda: len(room.left_out()) == 5, "they are left out")
    assert room.counted() == first
    assert all(name.startswith("shallow") for name in room.left_out())


@MAX_FIRST
def test_room_goes_to_the_cgroups_nearest_to_the_root(room, cgroups):
    """The deep ones are there first, and wait longest."""
    full = [cgroups.make(f"full{i}") for i in range(12)]
    room = room()
    for path in ("full11/x/y", "full11/late", "shallow"):
        os.makedirs(cgroups.path / path)
    until(lambda: room.left_out() == {"full11/x", "full11/x/y", "full11/late", "shallow"}, "there is no room")
    order = []
    for group in full[:4]:
        before = room.left_out()
        group.remove()
        until(lambda before=before: len(room.left_out()) < len(before), "one moves up")
        order += before - room.left_out()
    assert order[0] == "shallow" and order[3] == "full11/x/y", order


@MAX_FIRST
@needs("cgroup2")
def test_among_equally_deep_cgroups_room_goes_to_the_busiest(room, cgroups, work, cpus):
    """By cpu.stat, which cgroups of version 1 lack."""
    full = [cgroups.make(f"full{i}") for i in range(12)]
    room = room()
    waiting = [cgroups.make(f"waits{i}") for i in range(5)]
    until(lambda: len(room.left_out()) == 5, "no room")
    for busy, freed in ((waiting[3], full[0]), (waiting[1], full[5])):
        helper = work(busy, cpus[-1])
        helper.begin("cpu 3600000")
        until(lambda busy=busy: busy.usage_usec() > 300000, "it works")
        before = room.left_out()
        freed.remove()
        until(lambda before=before: len(room.left_out()) < len(before), "one moves up")
        assert before - room.left_out() == {busy.path.name}
        helper.stop()


@pytest.mark.parametrize("room", [pytest.param("max", marks=pytest.mark.deep), "fds",
                                  pytest.param("profiles", marks=pytest.mark.deep)], indirect=True)
def test_at_the_start_room_goes_by_the_same_rule(room, cgroups, work, cpus):
    """Shallow ones first; of the deep ones there is room for one, which is the one that has worked."""
    parent = cgroups.make("parent")
    deep = [parent.make(f"deep{i}") for i in range(6)]
    for i in range(10):
        cgroups.make(f"shallow{i}")
    busy = None if machine.why_lacks("cgroup2") else deep[4]  # others have no cpu.stat
    if busy:
        work(busy, cpus[0]).do("cpu 200")
    room = room()
    now = room.counted()
    assert len(now) == 12
    assert {"parent"} | {f"shallow{i}" for i in range(10)} <= now
    assert not busy or f"parent/{busy.path.name}" in now


@pytest.mark.engines
@pytest.mark.one_engine
def test_max_can_be_raised_and_lowered(perfmond, cgroups, work, cpus):
    """By a reload: those that are counted stay so as far as they fit, with their totals."""
    helper = work(cgroups.make("works"), cpus[0])
    daemon = perfmond(config(cgroups, "max = 1"))
    label = f"{cgroups.label}/works"
    helper.do("faults 100")
    before = daemon.fresh().value(NAME, cgroup=label)
    for i in range(8):
        cgroups.make(f"g{i}")
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="over_max") == 8, "there is room for one")
    for limit in (5, 9, 3, 1):
        daemon.reload(config(cgroups, f"max = {limit}"))
        until(lambda limit=limit: states(daemon) == (limit, 9 - limit), f"{limit} are counted")
        helper.do("faults 50")
    # The one that was counted first has been counted all the time.
    assert daemon.fresh().value(NAME, cgroup=label) - before == 200


# --- open files

def test_needed_fds_follow_what_is_wanted(perfmond, cgroups, cpus):
    for i in range(20):
        cgroups.make(f"g{i}")
    daemon = perfmond(config(cgroups, PERF), limits=files(30 * len(cpus)))
    metrics = daemon.metrics()
    needed = metrics.value("perfmond_needed_fds")
    assert metrics.value("perfmond_cgroups", state="over_fds") > 0
    assert needed >= 20 * len(cpus)
    assert needed > metrics.value("perfmond_max_fds"), "what an alert compares"

    more = [cgroups.make(f"more{i}") for i in range(3)]
    until(lambda: daemon.metrics().value("perfmond_needed_fds") == needed + 3 * len(cpus), "they are wanted too")
    for group in more:
        group.remove()
    until(lambda: daemon.metrics().value("perfmond_needed_fds") == needed, "no longer")
    daemon.reload(config(cgroups, f"{PERF}\nexclude = {cgroups.label}/g1*"))
    until(lambda: daemon.metrics().value("perfmond_needed_fds") == needed - 11 * len(cpus), "not what is excluded")


def test_a_limit_of_needed_fds_is_enough_for_all_cgroups(perfmond, cgroups, cpus):
    """So that an operator can take the number for LimitNOFILE=."""
    nr = 600 // len(cpus) + 1
    for i in range(nr):
        cgroups.make(f"g{i}")
    daemon = perfmond(config(cgroups, PERF), limits=files(600))
    metrics = daemon.metrics()
    assert metrics.value("perfmond_cgroups", state="over_fds") > 0
    needed = int(metrics.value("perfmond_needed_fds"))
    assert needed > 600
    daemon.stop()

    daemon = perfmond(config(cgroups, PERF), limits=files(needed))
    metrics = daemon.metrics()
    assert metrics.value("perfmond_cgroups", state="counted") == nr
    assert metrics.value("perfmond_needed_fds") <= metrics.value("perfmond_max_fds")
    daemon.stop()

    daemon = perfmond(config(cgroups, PERF), limits=files(needed - 1))
    assert daemon.metrics().value("perfmond_cgroups", state="over_fds") == 1


def test_it_answers_with_its_files_nearly_used_up(perfmond, cgroups, cpus):
    for i in range(60):
        cgroups.make(f"g{i}")
    limit = 24 * len(cpus)
    daemon = perfmond(config(cgroups, PERF), limits=files(limit))
    paths = ["/metrics", "/api/v1/snapshot", "/api/v1/events", "/api/v1/cgroups", "/api/v1/status", "/", "/-/ready"]
    idle = daemon.fds()["socket:[]"]

    def ask(_):
        with requests.Session() as session:
            return {session.get(daemon.url + path, timeout=PATIENCE).status_code for path in paths * 5}
    # There is room for four connections.
    with ThreadPoolExecutor(4) as pool:
        assert set.union(*pool.map(ask, range(4))) == {200}
    until(lambda: daemon.fds()["socket:[]"] <= idle, "the connections are closed")
    assert daemon.metrics().value("perfmond_cgroups", state="over_fds") > 0
    assert sum(daemon.fds().values()) < limit
    # It can be told to count less, and more again.
    daemon.reload(config(cgroups, f"{PERF}\nmax = 1"))
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="counted") == 1, "one alone")
    daemon.reload(config(cgroups, PERF))
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="over_fds") > 0, "as before")


# --- inotify
#
# Its limits are the machine's, but what is used of them is counted by user: another process of the daemon's own
# user uses them up, and no sysctl has to be touched.

HOG = """
import ctypes, errno, os, select, sys
libc = ctypes.CDLL(None, use_errno=True)
folder, instances, leave = os.fsencode(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
fds, watches = [], []
while len(fds) < instances and (fd := libc.inotify_init1(0)) >= 0:
    fds.append(fd)
places = [(fd, os.path.join(folder, name)) for name in os.listdir(folder) for fd in fds]

def take():
    while places and (wd := libc.inotify_add_watch(*places[-1], 2)) >= 0:
        watches.append((places.pop()[0], wd))

take()
print(len(fds), errno.errorcode[ctypes.get_errno()], flush=True)
for fd, wd in watches[len(watches) - leave:]:
    libc.inotify_rm_watch(fd, wd)
print("left", leave, flush=True)
while not select.select([sys.stdin], [], [], 0.01)[0]:
    if leave == 0:
        take()
"""


class Hog:
    """Uses up inotify watches but for `leave` of them, or with leave=None all inotify instances. Where it leaves none,
    it also takes those that become free, as others' cgroups go."""

    def __init__(self, user, folder, leave):
        instances, watches = [int(Path(f"/proc/sys/fs/inotify/max_user_{what}").read_text())
                              for what in ("instances", "watches")]
        some = instances if leave is None else min(instances - 2, 100)
        for i in range(0 if leave is None else watches // some + 1):
            (folder / f"f{i}").touch()
        self.process = subprocess.Popen(
            [*as_user(user), sys.executable, "-c", HOG, folder, str(some + (leave is None)), str(leave or 0)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        used_up = [str(some), "EMFILE" if leave is None else "ENOSPC"]
        assert self.process.stdout.readline().split() == used_up, "the user has others"
        assert self.process.stdout.readline(), "it leaves some"

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


# Other workers have other ones.
USERS = itertools.count(10_000_000 + 100 * os.getpid())


@pytest.fixture
def user():
    """One for each test: what a user has used is given back a while after the last process has gone."""
    return next(USERS)


@pytest.fixture
def hog(binary_for_all, tmp_path, user):
    hogs = []
    folder = tmp_path / "watched"
    folder.mkdir()
    for part in (tmp_path, folder):
        os.chmod(part, 0o755)

    def start(leave=None):
        hogs.append(Hog(user, folder, leave))
        return hogs[-1]

    yield start
    for hog in hogs:
        hog.stop()


@pytest.fixture
def as_the_hog(binary_for_all, user):
    return binary_for_all(as_user(user, "+perfmon"))


def assert_followed_by_rescans(daemon, cgroups, work, cpus):
    """New ones are found, also below new ones, and those that have gone are let go; a rescan comes every ten
    seconds."""
    inner = cgroups.make("new").make("inner")
    (cgroups.path / "old").rmdir()
    until(lambda: counted(daemon, cgroups) == {"new", "new/inner"}, "all is as on disk")
    assert daemon.metrics().value("perfmond_cgroup_rescans_total") >= 1
    helper = work(inner, cpus[0])
    before = daemon.fresh().value(NAME, cgroup=f"{cgroups.label}/new/inner")
    helper.do("faults 222")
    assert daemon.fresh().value(NAME, cgroup=f"{cgroups.label}/new/inner") - before == 222


def problems(daemon):
    return "\n".join(daemon.json("/api/v1/status")["problems"])


@pytest.mark.deep
def test_no_watches_from_the_start(perfmond, hog, as_the_hog, cgroups, work, cpus):
    cgroups.make("old")
    hog(leave=1)
    daemon = perfmond(config(cgroups), **as_the_hog)
    assert counted(daemon, cgroups) == {"old"}
    daemon.wait_log(r"inotify watches have run out: raise fs\.inotify\.max_user_watches")
    metrics = daemon.metrics()
    assert metrics.value("perfmond_inotify_watches") == 1
    assert metrics.value("perfmond_inotify_watches_missing") >= 2
    assert "max_user_watches" in problems(daemon)
    assert_followed_by_rescans(daemon, cgroups, work, cpus)


def test_watches_run_out_and_come_back(perfmond, hog, as_the_hog, cgroups):
    """While it runs: the log says so then. When there are watches again they are used."""
    daemon = perfmond(config(cgroups), **as_the_hog)
    assert daemon.metrics().value("perfmond_inotify_watches_missing") == 0
    hog = hog(leave=0)
    cgroups.make("a").make("inner")
    until(lambda: daemon.metrics().value("perfmond_inotify_watches_missing") > 0, "there are none left")
    daemon.wait_log(r"inotify watches have run out: raise fs\.inotify\.max_user_watches")
    assert "max_user_watches" in problems(daemon)

    hog.stop()
    until(lambda: daemon.metrics().value("perfmond_inotify_watches_missing") == 0, "they are watched")
    assert "max_user_watches" not in problems(daemon)
    rescans = daemon.metrics().value("perfmond_cgroup_rescans_total")
    cgroups.make("b").make("inner")
    until(lambda: counted(daemon, cgroups) == {"a", "a/inner", "b", "b/inner"}, "they are found")
    assert daemon.metrics().value("perfmond_cgroup_rescans_total") == rescans


@pytest.mark.deep
def test_no_inotify_instance(perfmond, hog, as_the_hog, cgroups, work, cpus):
    cgroups.make("old")
    hog = hog()
    daemon = perfmond(config(cgroups), **as_the_hog)
    assert counted(daemon, cgroups) == {"old"}
    daemon.wait_log(r"cannot create an inotify instance: raise fs\.inotify\.max_user_instances")
    assert daemon.metrics().value("perfmond_inotify_watches") == 0
    assert daemon.metrics().value("perfmond_inotify_watches_missing") >= 2
    assert "max_user_instances" in problems(daemon)
    assert_followed_by_rescans(daemon, cgroups, work, cpus)

    hog.stop()
    until(lambda: daemon.metrics().value("perfmond_inotify_watches_missing") == 0, "there is one again")
