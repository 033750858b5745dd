# SPDX-License-Identifier: MIT
"""The profiler is killed at each point of a question, a capture, a reload and a restart; it is too large; there is no
memory for a file of it, or no process. Counting goes on without a gap, what was asked has an answer or a reason, the
profiler is there again, and nothing of the one before is left."""

import contextlib
import os
import re
import signal
from collections import Counter

import pytest
import requests

import harness
from harness import PATIENCE, until
from machine import needs
from profiler_faults import (ANSWER, ARCHIVE, CANCEL, CGROUPS, DAEMON, KEEP, KEEPER, QUESTION, REFUSAL, SETTINGS, STATE,
                             STOP, Faults)
from test_captures import captures, section
from test_profile_life import sampled_service
from test_profiler_process import (CONFIG, RESTARTS, UP, Faults as Counted, check_slots, has_ended, is_refused,
                                   keeper_of, profiler_of, wait_up)
from profiling import folded

pytestmark = needs("cc")


@pytest.fixture
def faults(programs, tmp_path):
    return Faults(programs, tmp_path)


class Watched:
    """A daemon of which nobody but the profiler may notice a fault: its counts are those of the tests' own counter,
    and neither files nor processes are left."""

    def __init__(self, perfmond, cgroups, work, faults, extra="", **env):
        self.group = cgroups.make("watched")
        self.helper, self.faults = work(self.group), faults
        self.config = CONFIG.format(include=f"{cgroups.label}/**") + extra + "[web]\nlisten = 127.0.0.1:0\n"
        self.daemon = perfmond(self.config, env={**faults.env, **env})

    def begin(self, restarts=0):
        wait_up(self.daemon, restarts)
        self.counted = Counted(self.daemon, self.group)
        self.files = self.all_files()
        self.helper.do("faults 100")
        return self

    def restarts(self):
        return int(self.daemon.metrics().value(RESTARTS))

    def all_files(self):
        return self.daemon.fds() + self.daemon.fds(keeper_of(self.daemon))

    def new_files(self):
        """But for chunks of the BPF engine, which come while cgroups do."""
        new = self.all_files() - self.files
        return Counter({kind: nr for kind, nr in new.items() if kind != "anon_inode:bpf-map"})

    def processes(self):
        """The daemon's, but for those that have ended and are not waited for yet."""
        found = [self.daemon.pid]
        for pid in found:
            found += harness.children(pid)
        return [pid for pid in found[1:] if not has_ended(pid)]

    def check(self, restarts):
        """The profiler is there again after so many starts, and all else is as before."""
        self.helper.do("faults 100")
        wait_up(self.daemon, restarts)
        until(lambda: self.daemon.get("/api/v1/profile").status_code == 200, "it answers")
        until(lambda: not self.new_files(), f"no file is left: {self.new_files()}")
        # The keeper, the profiler, and maybe a child that names functions.
        until(lambda: set(self.processes()) == {keeper_of(self.daemon), profiler_of(self.daemon)},
              "no process is left")
        self.helper.do("faults 100")
        self.helper.wait_asleep()
        self.counted.check(300)
        check_slots(self.daemon)
        assert self.daemon.get("/-/ready").status_code == self.daemon.get("/-/healthy").status_code == 200
        assert not [text for text in self.daemon.json("/api/v1/status")["problems"] if "profiler" in text]


@pytest.fixture
def watched(perfmond, cgroups, work, faults):
    made = []

    def make(*args, **kwargs):
        made.append(Watched(perfmond, cgroups, work, faults, *args, **kwargs))
        return made[-1]
    yield make
    for one in made:
        with contextlib.suppress(AttributeError):
            one.counted.close()


# --- killed at a question

POINTS = {"received": f"received.{QUESTION}", "forked": "forked", "sending": f"sending.{ANSWER}",
          "sent": f"sent.{ANSWER}"}


def test_killed_at_each_point_of_a_question(watched):
    """Until the answer is sent, the asker is told to ask again; after that, it has the answer."""
    here = watched().begin()
    for restarts, (name, point) in enumerate(POINTS.items(), 1):
        here.faults.arm(point)
        answer = here.daemon.get("/api/v1/profile")
        here.faults.wait(point)
        assert answer.status_code == 200 if name == "sent" else is_refused(answer), (name, answer.text)
        until(lambda restarts=restarts: here.restarts() == restarts, f"it is noticed: {name}")
    here.check(len(POINTS))


def test_killed_at_a_refusal(watched):
    """Of a capture that is not there."""
    here = watched().begin()
    path = "/api/v1/captures/nothing"
    assert here.daemon.get(path).status_code == 404
    for restarts, when in enumerate(("sending", "sent"), 1):
        here.faults.arm(f"{when}.{REFUSAL}")
        answer = here.daemon.get(path)
        here.faults.wait(f"{when}.{REFUSAL}")
        assert answer.status_code == 404 if when == "sent" else is_refused(answer)
        until(lambda restarts=restarts: here.restarts() == restarts, "it is noticed")
    here.check(2)


def test_killed_at_a_cancelled_question(watched):
    """Its child is stopped: without the end of the profiler it would be there for half a minute."""
    here = watched().begin()
    here.faults.arm("hanging")
    here.faults.arm(f"received.{CANCEL}")
    with pytest.raises(requests.Timeout):
        here.daemon.get("/api/v1/profile", timeout=(PATIENCE, 2))
    here.faults.wait(f"received.{CANCEL}")
    assert not here.faults.path("hanging").exists()
    here.check(1)


# --- killed at a capture

RULE = section("{}", "context-switches@cpu > 0", before="0s", after="1s", every="1s", extra="save = yes")
CAPTURE_POINTS = [f"received.{KEEP}", f"sending.{STATE}.{KEEP}", f"sent.{STATE}.{KEEP}", "forked"]


@pytest.mark.parametrize("point", CAPTURE_POINTS)
def test_killed_at_each_point_of_a_capture(watched, faults, state, point):
    """A capture that was ordered or in memory is lost, which is logged and counted, and is not listed; the next one is
    kept and saved, and no other file is there."""
    faults.arm(point)
    here = watched(RULE.format("first"), STATE_DIRECTORY=str(state))
    faults.wait(point)
    here.begin(1)
    here.daemon.wait_log("captures are lost with the profiler: ")
    metrics = here.daemon.metrics()
    assert metrics.value("perfmond_captures_dropped_total") >= 1 or \
        metrics.value("perfmond_captures_passed_over_total", capture="first") >= 1
    here.check(1)
    assert not captures(here.daemon)
    here.daemon.reload(here.config + RULE.format("next"))
    until(lambda: captures(here.daemon, "kept", saved="yes"), "the next one is kept", 4 * PATIENCE)
    here.daemon.stop()
    assert all(name.endswith(".pb.gz") for name in os.listdir(state / "captures"))


# --- killed at a reload

def test_killed_at_each_point_of_a_reload(watched):
    """Whatever it was told then, the next one has the config that is in force."""
    here = watched().begin()
    points = [f"received.{SETTINGS}", f"sending.{STATE}.{SETTINGS}", f"sent.{STATE}.{SETTINGS}"]
    for restarts, point in enumerate(points, 1):
        here.faults.arm(point)
        here.daemon.reload(here.config + f'[profile "number{restarts}"]\nevent = page-faults\nrate = 19\n')
        here.faults.wait(point)
        wait_up(here.daemon, restarts)
        query = {"event": f"number{restarts}"}
        until(lambda query=query: here.daemon.get("/api/v1/profile", params=query).status_code == 200, "it is sampled")
    here.check(len(points))


def test_killed_at_news_of_a_cgroup(watched, cgroups):
    here = watched().begin()
    here.faults.arm(f"received.{CGROUPS}")
    label = cgroups.make("later").label
    here.faults.wait(f"received.{CGROUPS}")
    here.check(1)
    assert here.daemon.fresh().all("perf_cgroup_page_faults_total", cgroup=label)


def test_killed_between_off_and_on(watched):
    """Profiles are off by a reload, the profiler dies at it, and they are on again by the next one."""
    here = watched().begin()
    here.faults.arm(f"received.{SETTINGS}")
    here.daemon.reload(here.config + "[profiles]\nenabled = no\n")
    here.faults.wait(f"received.{SETTINGS}")
    until(lambda: (metrics := here.daemon.metrics()).value(RESTARTS) == 1 and metrics.value(UP) == 1, "the next one")
    assert not [text for text in here.daemon.json("/api/v1/status")["problems"] if "profil" in text]
    here.faults.arm(f"sending.{STATE}.{SETTINGS}")
    here.daemon.reload(here.config)
    here.faults.wait(f"sending.{STATE}.{SETTINGS}")
    here.check(2)


# --- killed at a restart

STOPS = {f"received.{STOP}": False, f"sending.{STATE}.{STOP}": False, f"sending.{ARCHIVE}": False,
         f"sent.{ARCHIVE}": True}
STARTS = [f"received.{ARCHIVE}", f"received.{SETTINGS}", f"sending.{STATE}.{SETTINGS}", f"sent.{STATE}.{SETTINGS}"]


@pytest.mark.parametrize("point", STOPS)
def test_killed_at_each_point_of_a_stop(service, cgroups, burner, faults, point):
    """The stop is clean, and totals go on; samples do if they had been sent."""
    service.env.update(faults.env)
    group = sampled_service(service, cgroups, burner)
    service.fresh()
    faults.arm(point)
    service.stop()
    faults.wait(point)
    service.start()
    wait_up(service.daemon, 0)
    service.fresh()
    assert bool(folded(service.daemon, cgroup=group.label, **{"from": "-1h"})) == STOPS[point]


@pytest.mark.parametrize("point", STARTS)
def test_killed_at_each_point_of_a_start(service, cgroups, burner, faults, point):
    """Totals go on, and samples begin anew: they may be what it has died of."""
    service.env.update(faults.env)
    group = sampled_service(service, cgroups, burner)
    service.fresh()
    service.stop()
    faults.arm(point)
    service.start()
    faults.wait(point)
    wait_up(service.daemon, 1)
    service.fresh()
    assert not folded(service.daemon, cgroup=group.label, **{"from": "-1h"})


# --- too large

@pytest.mark.once
def test_a_profiler_that_is_too_large_is_started_again(watched):
    """Why is in the log, and in the status until the next one is there."""
    here = watched().begin()
    before = profiler_of(here.daemon)
    here.faults.arm(f"stopped.{SETTINGS}")
    here.faults.arm("large")
    here.faults.wait(f"stopped.{SETTINGS}")
    why = r"the profiler is started again: it was too large: 3\d\d MiB, bound 1[78]\d MiB"
    assert has_ended(before)
    assert [text for text in here.daemon.json("/api/v1/status")["problems"] if re.fullmatch(why, text)]
    os.kill(profiler_of(here.daemon), signal.SIGCONT)
    here.check(1)
    here.daemon.wait_log(why)


# --- no memory, no process

@pytest.mark.parametrize("point, why", [("work-memfd", "there is no memory for a file: Cannot allocate memory"),
                                        ("work-fork", "no process can be started: Resource temporarily unavailable")])
def test_no_memory_or_process_for_an_answer(watched, point, why):
    here = watched().begin()
    here.faults.arm(point)
    answer = here.daemon.get("/api/v1/profile")
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) > 0
    assert answer.json()["error"] == f"the answer can't be worked out: {why}"
    here.check(0)


def test_no_process_for_names(watched, faults, cgroups, burner):
    """They come later."""
    faults.arm("fork")
    here = watched().begin()
    group = cgroups.make("burning")
    program = burner("burn", group)
    until(lambda: any("warm_function_of_test" in stack for stack in
                      folded(here.daemon, cgroup=group.label, **{"from": "-1h"})), "names", 4 * PATIENCE)
    assert not faults.path("fork").exists()
    program.kill()
    here.check(0)


@pytest.mark.parametrize("point, why", [
    ("memfd", r"there is no memory for its table of processes \(Cannot allocate memory\)"),
    ("fork", r"there is no process for it \(Resource temporarily unavailable\)")])
def test_no_memory_or_process_for_the_keeper(watched, faults, point, why):
    """The next start is tried soon."""
    faults.arm(point, KEEPER)
    here = watched().begin(1)
    here.daemon.wait_log(f"the profiler can't be started: {why}; it is tried again")
    here.check(1)


def test_no_process_for_the_keeper_itself(watched, faults):
    """There are no profiles, and all is counted. The remedy is told."""
    faults.arm("fork", DAEMON)
    here = watched()
    counted = Counted(here.daemon, here.group)
    here.helper.do("faults 100")
    here.helper.wait_asleep()
    counted.check(100)
    counted.close()
    here.daemon.wait_log("the profiler's keeper can't be forked: Resource temporarily unavailable")
    sentence = "no process can be started for the profiler: the log has more; restart perfmond for profiles"
    assert sentence in here.daemon.json("/api/v1/status")["problems"]
    answer = here.daemon.get("/api/v1/profile")
    assert answer.status_code == 503 and answer.json()["error"] == sentence
    assert here.daemon.metrics().value(UP) == 0 and not here.processes()
