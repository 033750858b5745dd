# SPDX-License-Identifier: MIT
"""Captures: what was sampled before and after a counter's rate was unusual."""

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
from openapi import check
from profiling import Pprof

# The engine is another matter: perf opens its events at once. Names of others would take time.
CONFIG = """
[daemon]
interval = 200ms
[cgroup]
engine = perf
groups = tasks
include = /perfmond-test-{pid}/**
[profiles]
enabled = yes
include = /perfmond-test-{pid}/**
rate = 99
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

#define LOOP(name, n) \\
	__attribute__((noinline, noclone)) void name(void) \\
	{ \\
		for (int i = 0; i < n; i++) \\
			sink += 1; \\
	}

LOOP(quiet_function_of_test, 1500000)
LOOP(busy_function_of_test, 2000000)

int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };
	char line[100];

	for (int busy = 0;;) {
		if (busy)
			busy_function_of_test();
		else
			quiet_function_of_test();
		if (poll(&input, 1, busy ? 0 : 30) <= 0)
			continue;
		if (read(0, line, sizeof(line)) <= 0)
			return 0;
		busy = !busy;
	}
}
"""


class Load:
    """The program in a cgroup."""

    def __init__(self, program, cgroup):
        def prepare():
            cgroup.add(os.getpid())
            # Other suites run at the same time, and it is to be busy.
            os.setpriority(os.PRIO_PROCESS, 0, -5)
        self.cgroup = cgroup
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, preexec_fn=prepare)

    def switch(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)


@pytest.fixture
def load(programs, tmp_path):
    program, running = programs.make(LOAD, tmp_path / "load-of-test"), []

    def start(cgroup):
        running.append(Load(program, cgroup))
        return running[-1]

    yield start
    for one in running:
        one.end()


def section(name, when, before="3s", after="2s", every="1h", extra=""):
    return f'[capture "{name}"]\nwhen = {when}\nbefore = {before}\nafter = {after}\nevery = {every}\n{extra}\n'


def config_of(extra, memory="8MiB"):
    return CONFIG.format(extra=extra, memory=memory, pid=os.getpid())


def start_daemon(perfmond, extra, memory="8MiB", **kwargs):
    return perfmond(config_of(extra, memory), **kwargs)


def captures(daemon, state=None, **wanted):
    return [one for one in daemon.json("/api/v1/captures")["captures"]
            if state in (None, one["state"]) and all(one[key] == value for key, value in wanted.items())]


def kept(daemon, number=1, **wanted):
    """So many captures, when they have all names."""
    return until(lambda: len(found := captures(daemon, "kept", **wanted)) >= number and found, "captures",
                 timeout=4 * PATIENCE + 30)


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
        return row["events"]["task_clock"]["rate"] < 0.1
    until(is_quiet, "it is quiet", timeout=4 * PATIENCE)


def test_before_and_after(perfmond, cgroups, load):
    """A load that crosses the threshold leaves what it did before and after, in all formats, and its reason."""
    group, other = cgroups.make("a"), cgroups.make("b")
    daemon = start_daemon(perfmond, section("busy", f"task-clock@{cgroups.label}/* > 0.15 for 600ms", before="10s"))
    load(other)
    process = load(group)
    assert captures(daemon) == []
    switched = make_busy(daemon, process)
    begun = until(lambda: captures(daemon), "a capture", timeout=4 * PATIENCE)[0]
    until(lambda: ask(daemon, begun)["samples"] > 0, "what there is so far")
    capture = kept(daemon)[0]
    assert capture["id"] == begun["id"] and re.fullmatch(r"busy-\d{8}T\d{6}Z-1", capture["id"])
    assert (capture["name"], capture["cgroup"], capture["counter"]) == ("busy", group.label, "task-clock")
    assert capture["value"] > 0.15 == capture["threshold"] and capture["unit"] == "seconds"
    assert re.fullmatch(rf"task-clock of {group.label}: [\d.]+ CPUs, above 0.15 CPUs for 0.6 s", capture["reason"])
    assert capture["to"] - capture["time"] == pytest.approx(2, abs=1e-3)
    assert abs(capture["time"] - time.time()) < 60
    rates = [point["rate"] for point in capture["values"] if point["rate"] is not None]
    assert rates and min(rates) < 0.15 < max(rates)
    assert f"capture {capture['id']}: {capture['reason']}" in daemon.log
    before = folded(daemon, capture, to=switched - 0.01)  # samples have milliseconds
    after = folded(daemon, capture, **{"from": capture["time"]})
    assert samples_of(before, "quiet_function_of_test") > 0 == samples_of(before, "busy_function_of_test")
    assert samples_of(after, "busy_function_of_test") > 5 > samples_of(after, "quiet_function_of_test")
    tree = ask(daemon, capture)
    everything = folded(daemon, capture)
    assert sum(everything.values()) == tree["samples"] == capture["samples"] == tree["nodes"]["samples"][0]
    assert {stack.split(";")[0] for stack in everything} == {group.label}
    assert tree["event"] == "cpu-clock" and tree["total"] == pytest.approx(tree["samples"] / 99, rel=1e-3)
    profile = Pprof(requests.get(f"{daemon.url}/api/v1/captures/{capture['id']}", params={"format": "pprof"},
                                 timeout=PATIENCE))
    assert sum(values[0] for _, values, _ in profile.samples) == tree["samples"]
    metrics = daemon.metrics()
    assert metrics.value("perfmond_captures_total", capture="busy") == 1
    assert metrics.value("perfmond_captures_kept") == 1
    assert 0 < metrics.value("perfmond_captures_bytes") < 1 << 20
    assert metrics.value("perfmond_captures_dropped_total") == 0


@pytest.mark.deep
@pytest.mark.alone
def test_raised_rate(perfmond, cgroups, load):
    """With a rate, there are more samples afterwards, of that cgroup alone, and together they weigh the CPU time."""
    group, other = cgroups.make("a"), cgroups.make("b")
    daemon = start_daemon(perfmond, section("busy", f"task-clock@{group.label} > 0.15 for 400ms", after="5s",
                                            extra="rate = 999"))
    load(other)
    process = load(group)
    events = daemon.fds()["anon_inode:[perf_event]"]
    make_busy(daemon, process)
    capture = kept(daemon)[0]
    assert capture["raise_problem"] is None
    assert capture["raised_from"] - capture["time"] < 0.5 and capture["raised_to"] > capture["to"]
    # Between two readings, the counter tells how much it was.
    points = [one for one in capture["values"] if capture["raised_from"] + 0.1 <= one["time"] <= capture["to"]]
    used = sum(after["rate"] * (after["time"] - at["time"]) for at, after in zip(points, points[1:]))
    tree = ask(daemon, capture, **{"from": points[0]["time"], "to": points[-1]["time"]})
    assert tree["period"] is None
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
    assert daemon.fds()["anon_inode:[perf_event]"] == events


def test_episodes(perfmond, cgroups, load):
    """One capture for as long as it is so, and another when it was otherwise in between; of each cgroup by itself, no
    more often than the section says, and no more than it keeps."""
    a, b = cgroups.make("a"), cgroups.make("b")
    rules = (section("always", f"task-clock@{a.label} < 100", before="0s", after="1s", every="1s") +
             section("often", f"task-clock@{a.label} > 0.15 for 400ms", before="0s", after="1s", every="1s",
                     extra="keep = 2") +
             section("seldom", f"task-clock@{cgroups.label}/? > 0.15 for 400ms", before="0s", after="1s"))
    daemon = start_daemon(perfmond, rules)
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


def test_not_evaluated(perfmond, cgroups, load):
    """A rule whose counter is not counted says why, and nothing comes of it, until a reload counts it."""
    group = cgroups.make("a")
    rules = (section("absent", f"major-faults@{group.label} < 5", after="1s") +
             section("cpus", "task-clock > 1") + section("event", f"task-clock@{group.label} > 100"))
    daemon = perfmond(config_of(rules).replace("groups = tasks", "groups = clock") +
                      '[group "clock"]\nevents = task-clock, context-switches\n')
    load(group)
    problems = until(lambda: [line for line in daemon.json("/api/v1/status")["problems"] if "[capture" in line],
                     "the reasons")
    assert problems == [
        '[capture "absent"] is not evaluated: no group of [cgroup] groups counts \'major-faults\'',
        '[capture "cpus"] is not evaluated: no group of [cpu] groups counts \'task-clock\'']
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
          "the reason")
    assert captures(daemon) == []


@pytest.mark.deep
def test_reload(perfmond, cgroups, load):
    """A capture that runs goes on over a reload, and its raised rate ends; other eyes see no old captures."""
    group = cgroups.make("a")
    when = f"task-clock@{group.label} > 0.15 for 400ms"
    rules = section("busy", when, after="10min", extra="rate = 499") + section("brief", when, after="1s")
    daemon = start_daemon(perfmond, rules)
    text = daemon.config_path.read_text(encoding="utf-8")
    process = load(group)
    make_busy(daemon, process)
    running = wait_for_busy(daemon, name="busy")
    daemon.reload(text + section("other", "context-switches > 1e12"))
    capture, = captures(daemon, "running", name="busy")
    assert capture["id"] == running["id"]
    assert "opened anew" in capture["raise_problem"] and capture["raised_to"] < time.time()
    later = {"from": capture["raised_to"] + 0.5}
    until(lambda: samples_of(folded(daemon, capture, **later), "busy_function_of_test") > 20, "it goes on",
          timeout=4 * PATIENCE)
    kept(daemon, name="brief")
    assert {rule["name"] for rule in daemon.json("/api/v1/captures")["rules"]} == {"busy", "brief", "other"}
    daemon.reload(text.replace(rules, ""))
    assert {one["name"]: one["state"] for one in captures(daemon)} == {"busy": "running", "brief": "kept"}
    daemon.reload(text.replace("[profiles]", f"[profiles]\nexclude = {group.label}"))
    time.sleep(1)
    assert captures(daemon) == []
    answer = daemon.get(f"/api/v1/captures/{capture['id']}")
    assert answer.status_code == 404 and "no such capture" in check(answer)["error"]


def test_dying_cgroup(perfmond, cgroups, load):
    """A cgroup that goes while its capture runs leaves what there was."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, section("busy", f"task-clock@{group.label} > 0.15 for 400ms", after="3s",
                                            extra="rate = 199"))
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


def test_machine(perfmond, cgroups, load):
    """Of all CPUs together."""
    group = cgroups.make("a")
    load(group).switch()
    daemon = start_daemon(perfmond, section("switches", "context-switches@cpu > 0", after="1s", extra="rate = 199"))
    capture = kept(daemon)[0]
    assert capture["cgroup"] is None and capture["reason"].startswith("context-switches of all CPUs: ")
    assert capture["raise_problem"] is None and capture["raised_from"]
    assert len({stack.split(";")[0] for stack in folded(daemon, capture)}) > 1


def test_of_another_event(perfmond, cgroups, load):
    """What is sampled need not be what the rule is about."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, '[profile "often"]\nevent = task-clock\nrate = 50\n' +
                          section("busy", f"task-clock@{group.label} > 0.15 for 400ms",
                                  extra="event = often\nrate = 200"))
    process = load(group)
    make_busy(daemon, process)
    capture = kept(daemon)[0]
    before, after = (ask(daemon, capture, **part) for part in ({"to": capture["raised_from"] - 0.01},
                                                               {"from": capture["raised_from"] + 0.01}))
    assert (before["event"], before["unit"]) == ("often", "seconds")
    assert before["total"] == pytest.approx(before["samples"] / 50, rel=1e-3)
    assert 0 < after["total"] == pytest.approx(after["samples"] / 200, rel=1e-3)


def files_of(state):
    folder = state / "captures"
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_saved(perfmond, cgroups, load, state):
    """With save = yes, there is a file that pprof can read, also of a capture that ran at the stop."""
    group = cgroups.make("a")
    when = f"task-clock@{group.label} > 0.15 for 400ms"
    rules = section("busy", when, after="1s", extra="save = yes\nkeep = 2") + \
        section("unsaved", when, after="1s") + section("late", when, after="10min", extra="save = yes")
    old = [f"busy-2020010{day}T000000Z-{day}.pb.gz" for day in (1, 2, 3)]
    (state / "captures").mkdir()
    for name in (*old, "README"):
        (state / "captures" / name).write_text("x", encoding="utf-8")
    daemon = start_daemon(perfmond, rules, env={"STATE_DIRECTORY": str(state)})
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
    other = start_daemon(perfmond, rules, env={"STATE_DIRECTORY": str(state)})
    files = check(requests.get(other.url + "/api/v1/captures", timeout=PATIENCE))["files"]
    assert {file["id"]: file["bytes"] for file in files} == {
        name.removesuffix(".pb.gz"): (state / "captures" / name).stat().st_size
        for name in files_of(state) if name != "README"}
    answer = requests.get(f"{other.url}/api/v1/captures/{late['id']}", params={"format": "pprof"}, timeout=PATIENCE)
    assert answer.content == content
    refused = requests.get(f"{other.url}/api/v1/captures/{late['id']}", timeout=PATIENCE)
    assert refused.status_code == 400 and "on disk alone" in check(refused)["error"]


def test_can_not_be_saved(perfmond, cgroups, load, state, tmp_path):
    """A disk that is full, or something else in the folder's place, is said once, and nothing stops."""
    group = cgroups.make("a")
    rules = section("busy", f"task-clock@{group.label} > 0.15 for 400ms", before="0s", after="1s", every="1s",
                    extra="save = yes")
    (state / "captures").write_text("not a folder", encoding="utf-8")
    daemon = start_daemon(perfmond, rules, env={"STATE_DIRECTORY": str(state)})
    process = load(group)
    for number in (1, 2):
        process.switch()
        found = until(lambda: len(found := captures(daemon, saved="failed")) >= number and found, "a failure",
                      timeout=4 * PATIENCE + 30)
        process.switch()
        wait_for_quiet(daemon, group)
    assert "Not a directory" in found[0]["save_problem"]
    assert sum("captures can't be saved in" in line for line in daemon.lines) == 1
    (state / "captures").unlink()
    process.switch()
    until(lambda: captures(daemon, saved="yes"), "it is saved", timeout=4 * PATIENCE + 30)
    daemon.wait_log("captures are saved again")
    process.switch()
    if os.geteuid() == 0 and not harness.SANITIZED:
        full = tmp_path / "full"
        full.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", full], check=True)
        try:
            (full / "filler").write_bytes(b"x" * 4096)
            other = start_daemon(perfmond, rules, env={"STATE_DIRECTORY": str(full)})
            process.switch()
            found = until(lambda: captures(other, saved="failed"), "a failure", timeout=4 * PATIENCE + 30)
            assert "No space left on device" in found[0]["save_problem"]
            other.stop()
        finally:
            subprocess.run(["umount", "-l", full], check=True)


@pytest.mark.once
def test_check(tmp_path):
    """--check names the place of what is wrong."""
    path = Path(tmp_path / "wrong.conf")
    path.write_text('[capture "a"]\nwhen = task-clock > much\n', encoding="utf-8")
    done = harness.run("--check", f"--config={path}")
    assert done.returncode == 1
    assert f"{path}:2: when: 'much' is not a number per second" in done.stderr
