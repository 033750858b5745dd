# SPDX-License-Identifier: MIT
"""Captures: what was sampled before and after a counter's rate was unusual."""

import contextlib
import gzip
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import requests

import harness
import profiling
from harness import PATIENCE, until
from machine import needs
from openapi import check
from profiling import Pprof

# The engine is another matter: perf opens its events at once. Names of others would take time.
CONFIG = """
[daemon]
interval = 200ms
[cgroup]
engine = perf
groups = tasks
include = {top}/**
[profiles]
enabled = yes
include = {top}/**
rate = {rate}
capture_memory = {memory}
{extra}
"""

# It is quiet until its input has a line, busy then, and quiet again after the next one, in a function for each.
LOAD = """
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

volatile uint64_t sink;

static uint64_t used(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#define LOOP(name) \\
	__attribute__((noinline, noclone)) void name(void) \\
	{ \\
		for (uint64_t end = used() + 1000000; used() < end;) \\
			for (int i = 0; i < 20000; i++) \\
				sink += 1; \\
	}

LOOP(quiet_function_of_test)
LOOP(busy_function_of_test)

int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	char line;

	for (int busy = 0;;) {
		if (busy)
			busy_function_of_test();
		else
			quiet_function_of_test();
		if (poll(&input, 1, busy ? 0 : 40) <= 0)
			continue;
		/* One line, also where it has waited for a CPU until there were two. */
		if (read(0, &line, 1) <= 0)
			return 0;
		busy = !busy;
	}
}
"""

# It is quiet with 1 ms of CPU time in 40 ms, on a machine of any speed.
BUSY = "> 0.1 for 400ms"


class Load:
    """The program in a cgroup."""

    def __init__(self, program, cgroup):
        def prepare():
            cgroup.add(os.getpid())
            # Other suites run at the same time, and it is to be busy.
            os.setpriority(os.PRIO_PROCESS, 0, -10)
        self.cgroup = cgroup
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, preexec_fn=prepare)

    def switch(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


@contextlib.contextmanager
def loads(programs, folder):
    program, running = programs.make(LOAD, folder / "load-of-test"), []

    def start(cgroup):
        running.append(Load(program, cgroup))
        return running[-1]

    yield start
    for one in running:
        one.end()


@pytest.fixture
def load(programs, tmp_path):
    with loads(programs, tmp_path) as start:
        yield start


def section(name, when, before="3s", after="2s", every="1h", extra=""):
    return f'[capture "{name}"]\nwhen = {when}\nbefore = {before}\nafter = {after}\nevery = {every}\n{extra}\n'


def config_of(top, extra, rate=499):
    return CONFIG.format(extra=extra, memory="8MiB", top=top.label, rate=rate)


def captures(daemon, state=None, **wanted):
    return [one for one in daemon.json("/api/v1/captures")["captures"]
            if state in (None, one["state"]) and all(one[key] == value for key, value in wanted.items())]


def kept(daemon, number=1, **wanted):
    """So many captures, when they have all names."""
    return until(lambda: len(found := captures(daemon, "kept", **wanted)) >= number and found,
                 f"{number} captures are kept of {wanted or 'all rules'}", timeout=4 * PATIENCE + 30)


def ask(daemon, capture, **parameters):
    answer = requests.get(f"{daemon.url}/api/v1/captures/{capture['id']}", params=parameters, timeout=PATIENCE)
    assert answer.status_code == 200, answer.text
    return check(answer)


def folded(daemon, capture, **parameters):
    lines = ask(daemon, capture, format="folded", **parameters).splitlines()
    return {stack: int(count) for stack, _, count in (line.rpartition(" ") for line in lines)}


def samples_of(stacks, name):
    return sum(count for stack, count in stacks.items() if name in stack.split(";"))


def make_busy(daemon, process):
    """Some samples of the quiet time first, which have names, and a second of it in the history. Returns when that is
    over."""
    label = process.cgroup.label

    def is_known():
        stacks = profiling.folded(daemon, cgroup=label, **{"from": "-1h"})
        return samples_of(stacks, "quiet_function_of_test") >= 5
    until(is_known, "samples of the quiet time", timeout=4 * PATIENCE)

    def has_second():
        rows = daemon.json("/api/v1/history", scope="cgroup", cgroup=label)["cgroups"]
        return any(rate is not None and rate < 0.1 for row in rows
                   for rate in row["events"].get("task_clock", []))
    until(has_second, "a quiet second", timeout=4 * PATIENCE)
    switched = time.time()
    process.switch()
    return switched


def wait_for_busy(daemon, **wanted):
    """A capture, when there are some samples of the busy time."""
    found = until(lambda: captures(daemon, **wanted), "a capture", timeout=4 * PATIENCE)[0]
    until(lambda: ask(daemon, found, **{"from": found["time"]})["samples"] >= 30, "samples of the busy time",
          timeout=4 * PATIENCE)
    return found


def wait_for_quiet(daemon, cgroup):
    def is_quiet():
        row, = daemon.json("/api/v1/snapshot", cgroup=cgroup.label)["cgroups"]
        rate = row["events"]["task_clock"]["rate"]
        return rate is not None and rate < 0.1
    until(is_quiet, f"{cgroup.label} is quiet", timeout=4 * PATIENCE)


# --- one episode that three rules are about

class Episode:
    """Two cgroups are quiet, then one becomes busy."""

    def __init__(self, daemon, top, load):
        self.daemon, self.group = daemon, top.make("a")
        load(top.make("b"))
        process = load(self.group)
        assert captures(daemon, name="busy") == []
        self.switched = make_busy(daemon, process)
        self.begun = until(lambda: captures(daemon, name="busy"), "a capture", timeout=4 * PATIENCE)[0]
        until(lambda: ask(daemon, self.begun)["samples"] > 0, "what there is so far")
        kept(daemon, 3)
        process.end()

    def capture(self, name):
        found, = captures(self.daemon, "kept", name=name)
        return found


@pytest.fixture(scope="module")
def episode(shared_perfmond, shared_cgroups, programs, tmp_path_factory):
    top = shared_cgroups
    when = f"task-clock@{top.label}/* {BUSY}"
    daemon = shared_perfmond(config_of(top, '[profile "often"]\nevent = task-clock\nrate = 50\n' +
                                       section("busy", when, before="10s") +
                                       section("another", when, extra="event = often\nrate = 200") +
                                       section("switches", "context-switches@cpu > 0", after="1s", extra="rate = 999")))
    with loads(programs, tmp_path_factory.mktemp("load")) as load:
        yield Episode(daemon, top, load)


def test_a_capture_has_what_was_before_and_after(episode):
    """A load that crosses the threshold leaves what it did before and after, its reason, and the counter's rates."""
    daemon, group, capture = episode.daemon, episode.group, episode.capture("busy")
    assert capture["id"] == episode.begun["id"] and re.fullmatch(r"busy-\d{8}T\d{6}Z-\d+", capture["id"])
    assert (capture["name"], capture["cgroup"], capture["counter"]) == ("busy", group.label, "task-clock")
    assert capture["value"] > 0.1 == capture["threshold"] and capture["unit"] == "seconds"
    assert re.fullmatch(rf"task-clock of {group.label}: [\d.]+ CPUs, above 0.1 CPUs for 0.4 s", capture["reason"])
    assert capture["to"] - capture["time"] == pytest.approx(2, abs=1e-3)
    assert episode.switched < capture["time"] < time.time()
    rates = [point["rate"] for point in capture["values"] if point["rate"] is not None]
    assert rates and min(rates) < 0.1 < max(rates)
    assert f"capture {capture['id']}: {capture['reason']}" in daemon.log
    before = folded(daemon, capture, to=episode.switched - 0.01)  # samples have milliseconds
    after = folded(daemon, capture, **{"from": capture["time"]})
    assert samples_of(before, "quiet_function_of_test") > 0 == samples_of(before, "busy_function_of_test")
    assert samples_of(after, "busy_function_of_test") > 5 > samples_of(after, "quiet_function_of_test")


def test_a_capture_is_the_same_in_all_formats(episode):
    daemon, capture = episode.daemon, episode.capture("busy")
    tree, everything = ask(daemon, capture), folded(daemon, capture)
    assert sum(everything.values()) == tree["samples"] == capture["samples"] == tree["nodes"]["samples"][0]
    assert {stack.split(";")[0] for stack in everything} == {episode.group.label}
    assert tree["event"] == "cpu-clock" and tree["total"] == pytest.approx(tree["samples"] / 499, rel=1e-3)
    profile = Pprof(requests.get(f"{daemon.url}/api/v1/captures/{capture['id']}", params={"format": "pprof"},
                                 timeout=PATIENCE))
    assert sum(values[0] for _, values, _ in profile.samples) == tree["samples"]


def test_captures_have_metrics(episode):
    metrics = episode.daemon.metrics()
    for name in ("busy", "another", "switches"):
        assert metrics.value("perfmond_captures_total", capture=name) == 1
    assert metrics.value("perfmond_captures_kept") == 3
    assert 0 < metrics.value("perfmond_captures_bytes") < 1 << 20
    assert metrics.value("perfmond_captures_dropped_total") == 0


def test_a_capture_of_another_event_than_the_rule(episode):
    """With a rate, samples are more often afterwards, and weigh less."""
    capture = episode.capture("another")
    before, after = (ask(episode.daemon, capture, **part) for part in ({"to": capture["raised_from"] - 0.01},
                                                                       {"from": capture["raised_from"] + 0.01}))
    assert (before["event"], before["unit"]) == ("often", "seconds")
    assert before["total"] == pytest.approx(before["samples"] / 50, rel=1e-3)
    assert 0 < after["total"] == pytest.approx(after["samples"] / 200, rel=1e-3)


def test_a_capture_of_all_cpus(episode):
    """It has what all cgroups did."""
    capture = episode.capture("switches")
    assert capture["cgroup"] is None and capture["reason"].startswith("context-switches of all CPUs: ")
    assert capture["raise_problem"] is None and capture["raised_from"]
    assert "(hidden)" in {stack.split(";")[0] for stack in folded(episode.daemon, capture)}


# --- others

@pytest.mark.deep
@pytest.mark.alone
def test_a_raised_rate_weighs_the_cpu_time(perfmond, cgroups, load):
    """With a rate, there are more samples afterwards, of that cgroup alone, and together they weigh the CPU time."""
    group, other = cgroups.make("a"), cgroups.make("b")
    daemon = perfmond(config_of(cgroups, section("busy", f"task-clock@{group.label} {BUSY}", after="5s",
                                                 extra="rate = 999"), rate=99))
    load(other)
    process = load(group)
    events = daemon.fds(daemon.profiler)["anon_inode:[perf_event]"]
    make_busy(daemon, process)
    capture = kept(daemon)[0]
    assert capture["raise_problem"] is None
    assert capture["raised_from"] - capture["time"] < 0.5 and capture["raised_to"] > capture["to"]
    # Between two readings, the counter tells how much it was.
    points = [one for one in capture["values"] if capture["raised_from"] + 0.1 <= one["time"] <= capture["to"]]
    used = sum(after["rate"] * (after["time"] - at["time"]) for at, after in zip(points, points[1:]))
    tree = ask(daemon, capture, **{"from": points[0]["time"], "to": points[-1]["time"]})
    assert tree["period"] == pytest.approx(1 / 999) and ask(daemon, capture)["period"] is None
    # Of 999 a second; the other events of 99 are not among them.
    assert tree["total"] == pytest.approx(tree["samples"] / 999, rel=1e-2)
    assert 0.5 * used < tree["total"] < 1.2 * used + 0.1
    before = ask(daemon, capture, to=capture["raised_from"] - 0.01)
    assert before["total"] == pytest.approx(before["samples"] / 99, rel=1e-2)
    # Nobody else pays for it, and nothing is left of it.
    text = requests.get(daemon.url + "/api/v1/profile", params={"format": "folded"}, timeout=PATIENCE).text
    assert capture["id"] not in text
    tree = daemon.json("/api/v1/profile", **{"from": "-1h", "cgroup": f"{cgroups.label}/**"})
    assert tree["total"] == pytest.approx(tree["samples"] / 99, rel=1e-3)
    assert daemon.fds(daemon.profiler)["anon_inode:[perf_event]"] == events


def test_one_capture_for_each_episode(perfmond, cgroups, load):
    """One capture for as long as it is so, and another when it was otherwise in between; of each cgroup by itself, no
    more often than the section says, and no more than it keeps."""
    a, b = cgroups.make("a"), cgroups.make("b")
    rules = (section("always", f"task-clock@{a.label} < 100", before="0s", after="1s", every="1s") +
             section("often", f"task-clock@{a.label} {BUSY}", before="0s", after="1s", every="1s",
                     extra="keep = 2") +
             section("seldom", f"task-clock@{cgroups.label}/? {BUSY}", before="0s", after="1s"))
    daemon = perfmond(config_of(cgroups, rules))
    first, second = load(a), load(b)
    total = 0
    for _ in range(3):
        first.switch()
        until(lambda: daemon.metrics().value("perfmond_captures_total", capture="often") > total, "one more",
              timeout=4 * PATIENCE)
        first.switch()
        wait_for_quiet(daemon, a)
        total = daemon.metrics().value("perfmond_captures_total", capture="often")
    until(lambda: len(captures(daemon, "kept")) == len(captures(daemon)), "all are over", timeout=4 * PATIENCE + 30)
    assert len(captures(daemon, name="often")) == 2
    second.switch()
    until(lambda: daemon.metrics().value("perfmond_captures_passed_over_total", capture="seldom") >= 1, "passed over",
          timeout=4 * PATIENCE)
    metrics = daemon.metrics()
    assert metrics.value("perfmond_captures_total", capture="always") == 1
    assert metrics.value("perfmond_captures_total", capture="seldom") == 1
    assert [one["cgroup"] for one in captures(daemon, name="seldom")] == [a.label]
    assert metrics.value("perfmond_captures_dropped_total") >= 1


def test_a_rule_that_is_not_evaluated_says_why(perfmond, cgroups, load):
    """A rule whose counter is not counted says why, and nothing comes of it, until a reload counts it."""
    group = cgroups.make("a")
    rules = (section("absent", f"major-faults@{group.label} < 5", after="1s") +
             section("cpus", "task-clock > 1") + section("event", f"task-clock@{group.label} > 100"))
    daemon = perfmond(config_of(cgroups, rules).replace("groups = tasks", "groups = clock") +
                      '[group "clock"]\nevents = task-clock, context-switches\n')
    load(group)
    problems = until(lambda: [line for line in daemon.json("/api/v1/status")["problems"] if "[capture" in line],
                     "the reasons")
    assert problems == [
        '[capture "absent"] is not evaluated: no group of [cgroup] groups counts \'major-faults\'',
        '[capture "cpus"] is not evaluated: no group of [cpu] groups counts \'task-clock\'']
    for problem in problems:
        daemon.wait_log(re.escape(problem))
    assert [sum(problem in line for line in daemon.lines) for problem in problems] == [1, 1], "each is logged once"
    rules = {rule["name"]: rule for rule in daemon.json("/api/v1/captures")["rules"]}
    assert rules["absent"]["problem"] in problems[0] and rules["event"]["problem"] is None
    time.sleep(1)
    assert captures(daemon) == []
    text = daemon.config_path.read_text(encoding="utf-8")
    daemon.reload(text.replace("context-switches", "major-faults"))
    capture = kept(daemon, name="absent")[0]
    assert capture["value"] < 5
    # Without profiles there is nothing to capture.
    daemon.reload(text.replace("enabled = yes", "enabled = no"))
    until(lambda: sum("nothing is profiled" in line for line in daemon.json("/api/v1/status")["problems"]) == 3,
          "the reason for each rule is that nothing is profiled")
    assert captures(daemon) == []


def test_a_reload_leaves_captures_but_ends_a_raised_rate(perfmond, cgroups, load):
    """They go when other cgroups are to be seen."""
    group = cgroups.make("a")
    when = f"task-clock@{group.label} {BUSY}"
    rules = section("busy", when, after="10min", extra="rate = 999") + section("brief", when, after="1s")
    daemon = perfmond(config_of(cgroups, rules))
    text = daemon.config_path.read_text(encoding="utf-8")
    process = load(group)
    make_busy(daemon, process)
    running = wait_for_busy(daemon, name="busy")
    daemon.reload(text + section("other", "context-switches > 1e12"))
    capture, = captures(daemon, "running", name="busy")
    assert capture["id"] == running["id"]
    assert "opened anew" in capture["raise_problem"] and capture["raised_to"] < time.time()
    later = {"from": capture["raised_to"] + 0.5}
    until(lambda: samples_of(folded(daemon, capture, **later), "busy_function_of_test") > 20,
          "more samples of the capture", timeout=4 * PATIENCE)
    kept(daemon, name="brief")
    assert {rule["name"] for rule in daemon.json("/api/v1/captures")["rules"]} == {"busy", "brief", "other"}
    daemon.reload(text.replace(rules, ""))
    assert {one["name"]: one["state"] for one in captures(daemon)} == {"busy": "running", "brief": "kept"}
    daemon.reload(text.replace("[profiles]", f"[profiles]\nexclude = {group.label}"))
    until(lambda: captures(daemon) == [], "the captures are gone")
    answer = daemon.get(f"/api/v1/captures/{capture['id']}")
    assert answer.status_code == 404 and "no such capture" in check(answer)["error"]


def test_a_cgroup_that_goes_leaves_its_capture(perfmond, cgroups, load):
    """With the samples up to its end."""
    group = cgroups.make("a")
    daemon = perfmond(config_of(cgroups, section("busy", f"task-clock@{group.label} {BUSY}", after="3s",
                                                 extra="rate = 999")))
    process = load(group)
    make_busy(daemon, process)
    wait_for_busy(daemon)
    process.end()
    group.remove()
    capture = kept(daemon)[0]
    stacks = folded(daemon, capture)
    assert samples_of(stacks, "busy_function_of_test") > 20
    assert set(stack.split(";")[0] for stack in stacks) == {group.label}
    assert any(point["rate"] is not None for point in capture["values"])


def files_of(state):
    folder = state / "captures"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_saved_captures_are_files_for_pprof(perfmond, cgroups, load, state):
    """With save = yes, there is a file that pprof can read, also of a capture that ran at the stop."""
    group = cgroups.make("a")
    when = f"task-clock@{group.label} {BUSY}"
    rules = section("busy", when, after="1s", extra="save = yes\nkeep = 2") + \
        section("unsaved", when, after="1s") + section("late", when, after="10min", extra="save = yes")
    old = [f"busy-2020010{day}T000000Z-{day}.pb.gz" for day in (1, 2, 3)]
    (state / "captures").mkdir()
    for name in (*old, "README"):
        (state / "captures" / name).write_text("x", encoding="utf-8")
    daemon = perfmond(config_of(cgroups, rules), env={"STATE_DIRECTORY": str(state)})
    process = load(group)
    make_busy(daemon, process)
    kept(daemon, 2)
    capture = until(lambda: captures(daemon, name="busy", saved="yes"), "it is saved")[0]
    assert captures(daemon, name="unsaved")[0]["saved"] == "no"
    assert set(files_of(state)) == {"README", f"{capture['id']}.pb.gz", old[2]}
    late = captures(daemon, "running", name="late")[0]
    daemon.stop()
    path = state / "captures" / f"{capture['id']}.pb.gz"
    assert path.stat().st_mode & 0o777 == 0o600
    for name in (capture["id"], late["id"]):
        content = (state / "captures" / f"{name}.pb.gz").read_bytes()
        assert b"busy_function_of_test" in gzip.decompress(content)
    # Another daemon has the files, and no reason for others.
    process.end()
    other = perfmond(config_of(cgroups, rules), env={"STATE_DIRECTORY": str(state)})
    files = check(requests.get(other.url + "/api/v1/captures", timeout=PATIENCE))["files"]
    assert {file["id"]: file["bytes"] for file in files} == {
        name.removesuffix(".pb.gz"): (state / "captures" / name).stat().st_size
        for name in files_of(state) if name != "README"}
    answer = requests.get(f"{other.url}/api/v1/captures/{late['id']}", params={"format": "pprof"}, timeout=PATIENCE)
    assert answer.content == content
    refused = requests.get(f"{other.url}/api/v1/captures/{late['id']}", timeout=PATIENCE)
    assert refused.status_code == 400 and "on disk alone" in check(refused)["error"]


def saving_rule(group, name="busy"):
    return section(name, f"task-clock@{group.label} {BUSY}", before="0s", after="1s", every="1s", extra="save = yes")


def save_problem(daemon, number=1):
    """Of the newest capture, when so many could not be saved."""
    return until(lambda: len(found := captures(daemon, saved="failed")) >= number and found,
                 f"{number} captures could not be saved", timeout=4 * PATIENCE + 30)[0]["save_problem"]


def test_captures_that_can_not_be_saved_are_told_once(perfmond, cgroups, load, state):
    """Something else is in the folder's place: nothing stops, and captures are saved again when it is gone."""
    group = cgroups.make("a")
    (state / "captures").write_text("not a folder", encoding="utf-8")
    daemon = perfmond(config_of(cgroups, saving_rule(group) + saving_rule(group, "too")),
                      env={"STATE_DIRECTORY": str(state)})
    process = load(group)
    process.switch()
    assert "Not a directory" in save_problem(daemon, 2)
    process.switch()
    wait_for_quiet(daemon, group)
    assert sum("captures can't be saved in" in line for line in daemon.lines) == 1
    (state / "captures").unlink()
    process.switch()
    until(lambda: captures(daemon, saved="yes"), "a capture is saved", timeout=4 * PATIENCE + 30)
    daemon.wait_log("captures are saved again")


@needs("sys-admin")
@pytest.mark.once
def test_a_full_disk_is_told(perfmond, cgroups, load, tmp_path):
    group, full = cgroups.make("a"), tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", full], check=True)
    try:
        (full / "filler").write_bytes(b"x" * 4096)
        daemon = perfmond(config_of(cgroups, saving_rule(group)), env={"STATE_DIRECTORY": str(full)})
        load(group).switch()
        assert "No space left on device" in save_problem(daemon)
        daemon.stop()
    finally:
        subprocess.run(["umount", "-l", full], check=True)


@pytest.mark.once
def test_check_names_the_place_of_a_wrong_rule(tmp_path):
    """--check names the place of what is wrong."""
    path = Path(tmp_path / "wrong.conf")
    path.write_text('[capture "a"]\nwhen = task-clock > much\n', encoding="utf-8")
    done = harness.run("--check", f"--config={path}")
    assert done.returncode == 1
    assert f"{path}:2: when: 'much' is not a number per second" in done.stderr
