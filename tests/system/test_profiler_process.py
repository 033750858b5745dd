# SPDX-License-Identifier: MIT
"""The profiler is a process of its own: it may die, hang or be gone for good, and counting goes on without a gap. What
the daemon counts meanwhile is compared with the tests' own counters."""

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import pytest

import harness
from counter import Counter
from harness import Delta, Repeated, until
from profiling import ask

pytestmark = pytest.mark.engines

CONFIG = """
[daemon]
interval = 250ms
[cgroup]
groups = faults
include = {include}
[group "faults"]
events = page-faults
"""

KEEPER, PROFILER = "perfmond-keeper", "perfmond-sample"
UP, RESTARTS = "perfmond_profiler_up", "perfmond_profiler_restarts_total"
FAULTS = "perf_cgroup_page_faults_total"


# --- processes

def stat_of(pid):
    """(name, state, parent), or None: it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, parent = text.rpartition(")")[2].split()[:2]
        return text[text.index("(") + 1:text.rindex(")")], state, int(parent)
    return None


def children(pid, name):
    pids = [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
    return [child for child in pids if (stat := stat_of(child)) and stat[0] == name and stat[2] == pid]


def keeper_of(daemon):
    keepers = children(daemon.pid, KEEPER)
    assert len(keepers) == 1
    return keepers[0]


def profiler_of(daemon):
    """Once there is one, which has its name, and children of the one before, which have it too, have ended."""
    def the_only():
        profilers = children(keeper_of(daemon), PROFILER)
        return profilers if len(profilers) == 1 else None
    return until(the_only, "there is one profiler")[0]


def has_ended(pid):
    stat = stat_of(pid)
    return not stat or stat[1] == "Z"


def events_of(pid):
    """How many perf events it has open."""
    files = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    return files.count("anon_inode:[perf_event]")


# --- what is counted

class Faults:
    """Page faults of a cgroup in which nobody runs when this is made: the daemon's number and the tests' own."""

    def __init__(self, daemon, group):
        self.daemon, self.label, self.counter = daemon, group.label, Counter(group.path)
        until(lambda: self.daemon.fresh().all(FAULTS, cgroup=self.label), "it is counted")
        self.own, self.before = self.counter.read()["page_faults"], daemon.fresh()

    def check(self, at_least):
        """Nobody runs in it now. How many there were."""
        truth = self.counter.read()["page_faults"] - self.own
        assert truth >= at_least
        assert Delta(self.before, self.daemon.fresh()).of(FAULTS, cgroup=self.label) == truth

    def close(self):
        self.counter.close()


def check_slots(daemon):
    """Until now, each slot of the history begins where the one before has ended: in ms, as both are told."""
    now = time.time()

    def is_long():
        found = daemon.json("/api/v1/history")
        return found["times"][2:] and found["times"][-1] > now and found
    history = until(is_long, "slots until now")
    times, seconds = history["times"], history["seconds"]
    for before, end, length in zip(times, times[1:], seconds[1:]):
        assert abs(end - length - before) < 0.003, f"a gap before {end}: {times}, {seconds}"


def start(perfmond, group, **kwargs):
    daemon = perfmond(CONFIG.format(include=group.label), **kwargs)
    wait_up(daemon, 0)
    return daemon


def wait_up(daemon, restarts):
    """There is a profiler, which has been started again so often, and it samples. Its pid."""
    def profiler():
        metrics = daemon.metrics()
        return metrics.value(UP) == 1 and metrics.value(RESTARTS) == restarts and \
            metrics.value("perfmond_profile_samples_total") > 0 and metrics.value("perfmond_profiler_memory_bytes") > 0
    until(profiler, f"the profiler is there after {restarts} restarts")
    return profiler_of(daemon)


def kill_profiler(daemon, sent=signal.SIGKILL):
    pid = profiler_of(daemon)
    os.kill(pid, sent)
    return pid


def is_refused(answer):
    """There is no answer now, and it says why and when there may be one."""
    if answer.status_code == 200:
        return False
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
    assert re.search(r"the profiler .*(?:started|ended)", answer.json()["error"])
    return True


# --- tests

def test_a_profiler_that_dies_is_started_again(perfmond, cgroups, work):
    """Nobody else notices: counts are exact, no interval is missing, and questions are answered again soon. The next
    one has as many events open as the one before, whose are gone with it."""
    group = cgroups.make("a")
    helper = work(group)
    daemon = start(perfmond, group)
    faults = Faults(daemon, group)
    before = profiler_of(daemon)
    events = events_of(before)
    assert events > 0 and events_of(keeper_of(daemon)) == 0
    helper.do("faults 1000")
    kill_profiler(daemon)
    helper.do("faults 1000")
    is_refused(daemon.get("/api/v1/profile"))
    until(lambda: not is_refused(daemon.get("/api/v1/profile")), "there are answers again")
    after = wait_up(daemon, 1)
    assert after != before and has_ended(before)
    until(lambda: events_of(after) == events, "the rings are there again")
    helper.do("faults 1000")
    helper.wait_asleep()
    faults.check(3000)
    faults.close()
    check_slots(daemon)
    daemon.wait_log(r"the profiler has ended \(signal 9 .*\), and is started again")
    assert not [text for text in daemon.json("/api/v1/status")["problems"] if "profiler" in text]


def test_the_keeper_is_gone(perfmond, cgroups, work):
    """There are no profiles any more, and it is said what to do; counting goes on."""
    group = cgroups.make("a")
    helper = work(group)
    daemon = start(perfmond, group)
    faults, profiler = Faults(daemon, group), profiler_of(daemon)
    helper.do("faults 1000")
    os.kill(keeper_of(daemon), signal.SIGKILL)
    until(lambda: has_ended(profiler), "the profiler ends with its keeper")
    until(lambda: daemon.metrics().value(UP) == 0, "it is noticed")
    helper.do("faults 1000")
    helper.wait_asleep()
    faults.check(2000)
    faults.close()
    check_slots(daemon)
    sentence = "the process that starts the profiler has ended: restart perfmond for new profiles"
    assert [text for text in daemon.json("/api/v1/status")["problems"] if sentence in text]
    answer = daemon.get("/api/v1/profile")
    assert answer.status_code == 503 and answer.json()["error"] == sentence
    assert daemon.get("/-/ready").status_code == daemon.get("/-/healthy").status_code == 200


def test_sigterm_leaves_no_process(perfmond, cgroups):
    daemon = start(perfmond, cgroups.make("a"))
    pids = [keeper_of(daemon), profiler_of(daemon)]
    daemon.stop()
    until(lambda: all(map(has_ended, pids)), "keeper and profiler have ended")


def test_sigkill_leaves_no_process(privileged, cgroups, tmp_path):
    """The daemon can't tell anybody."""
    path = tmp_path / "perfmond.conf"
    path.write_text(CONFIG.format(include=cgroups.make("a").label) + "[web]\nlisten = 127.0.0.1:0\n", encoding="utf-8")
    daemon = harness.Daemon(path)
    try:
        daemon.wait_ready()
        wait_up(daemon, 0)
        pids = [keeper_of(daemon), profiler_of(daemon)]
    finally:
        daemon.process.kill()
        daemon.end()
    until(lambda: all(map(has_ended, pids)), "keeper and profiler have ended")


# --- what takes long

@pytest.mark.deep
@pytest.mark.one_engine
def test_a_profiler_that_hangs_is_started_again(perfmond, cgroups, work):
    """It has half a minute to answer."""
    group = cgroups.make("a")
    helper = work(group)
    daemon = start(perfmond, group)
    faults = Faults(daemon, group)
    stopped = kill_profiler(daemon, signal.SIGSTOP)
    helper.do("faults 1000")
    daemon.wait_log("it has not answered for half a minute")
    until(lambda: has_ended(stopped), "it is killed")
    assert wait_up(daemon, 1) != stopped
    ask(daemon)
    helper.do("faults 1000")
    helper.wait_asleep()
    faults.check(2000)
    faults.close()
    check_slots(daemon)


DAEMONS, DEATHS = 5, 10


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.one_engine
def test_many_deaths_under_load(perfmond, cgroups, work):
    """The pause before a start doubles with each death: so there are several daemons, each with a few deaths. After the
    first one a profiler is there within two seconds: so long each daemon has."""
    group = cgroups.make("a")
    helper = work(group)
    daemons = [start(perfmond, group) for _ in range(DAEMONS)]
    faults = [Faults(daemon, group) for daemon in daemons]
    load = Repeated(helper, "faults 1000")
    try:
        for death in range(1, DEATHS + 1):
            for daemon in daemons:
                kill_profiler(daemon)
            killed = time.monotonic()
            for daemon in daemons:
                wait_up(daemon, death)
            assert death > 1 or time.monotonic() - killed < 2 * DAEMONS
    finally:
        load.end()
    helper.wait_asleep()
    for daemon, its in zip(daemons, faults):
        its.check(1000 * DEATHS)
        its.close()
        check_slots(daemon)
        assert len([line for line in daemon.lines if "the profiler has ended (signal 9" in line]) == DEATHS
