# SPDX-License-Identifier: MIT
"""Profiles of real programs: who used the CPUs, by cgroup, command and function."""

import functools
import gzip
import json
import math
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest
import requests

import harness
from harness import PATIENCE, Delta, until
from openapi import check
from tree import BUILD, provide
from profiling import Pprof, ask, folded, samples_with, start_daemon, wait_for_names, wait_named, wait_taken

# The schema of speedscope's files.
SPEEDSCOPE = BUILD / "speedscope/dist/release/file-format-schema.json"


def speedscope(daemon, **parameters):
    """The file for speedscope, as its own schema says."""
    answer = ask(daemon, format="speedscope", **parameters)
    provide("speedscope")
    jsonschema.Draft7Validator(json.loads(SPEEDSCOPE.read_text(encoding="utf-8"))).validate(answer)
    for profile in answer["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert sum(profile["weights"]) == pytest.approx(profile["endValue"])
    return answer


def stacks_of(scoped):
    """The weight of each stack in a file for speedscope, as in the folded format."""
    names = [frame["name"].replace(";", ":") for frame in scoped["shared"]["frames"]]
    stacks = {}
    for profile in scoped["profiles"]:
        for sample, weight in zip(profile["samples"], profile["weights"]):
            stack = ";".join(names[index] for index in sample)
            stacks[stack] = stacks.get(stack, 0) + weight
    return stacks


def unfollowed(daemon):
    """Records of programs that were lost, as where others start thousands."""
    return daemon.metrics().value("perfmond_profile_unfollowed_total")


def within_chance(part, whole, share):
    """5.5 sigma: chance alone is farther off in one of 26 million."""
    return abs(part - whole * share) <= 5.5 * math.sqrt(whole * share * (1 - share)) + 1


@pytest.mark.deep
@pytest.mark.alone
def test_three_to_one(perfmond, cgroups, burner):
    """Two cgroups, of which one spends its time 3:1 and the other 1:3, as far as chance allows; and the CPU time of
    each is what the kernel says."""
    a, b = cgroups.make("a"), cgroups.make("b")
    daemon = start_daemon(perfmond)
    before = [group.usage_usec() if (group.path / "cpu.stat").exists() else None for group in (a, b)]

    def is_known(group, command):
        """The rest is from before its exec."""
        stacks = folded(daemon, cgroup=group.label, **{"from": "-1h"})
        return samples_with(stacks, command) >= 0.9 * sum(stacks.values())
    burner("burn-a", a, hot=3)
    burner("burn-b", b, hot=1)
    for group, hot, command in ((a, 3, "burn-a"), (b, 1, "burn-b")):
        stacks = wait_for_names(daemon, group, 600)
        warm, cold = (samples_with(stacks, f"{name}_function_of_test") for name in ("warm", "cold"))
        assert within_chance(warm, warm + cold, hot / 4), (warm, cold)
        assert {stack.split(";")[0] for stack in stacks} == {group.label}
        assert is_known(group, command) or unfollowed(daemon) and \
            until(lambda group=group, command=command: is_known(group, command), "it is looked up", 4 * PATIENCE)
    for group, usage in zip((a, b), before):
        if usage is None:
            continue
        now = group.usage_usec()
        wait_taken(daemon)
        seconds = ask(daemon, cgroup=group.label, **{"from": "-1h"})["total"]
        later, lost = group.usage_usec(), daemon.metrics().value("perfmond_profile_lost_total") / 199
        # Timers that come late for several periods, in a machine whose CPUs are taken away, are one sample.
        assert seconds <= (later - usage) / 1e6 * 1.15 + 0.2
        assert seconds >= (now - usage) / 1e6 * 0.6 - 0.2 - lost


def test_formats_agree(perfmond, cgroups, burner):
    """Whatever the format, the same samples."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, extra=f"include = {group.label}\n")
    process = burner("burn", group)
    wait_for_names(daemon, group, 100)
    process.kill()
    process.wait()
    last = {"cgroup": group.label, "command": "burn", "from": "-1h"}
    wait_taken(daemon)
    wait_named(daemon, **last)
    tree = ask(daemon, **last)
    nodes = tree["nodes"]
    assert sum(folded(daemon, **last).values()) == tree["samples"] == nodes["samples"][0]
    assert sum(nodes["self"]) == pytest.approx(tree["total"]) == nodes["total"][0]
    for i, parent in enumerate(nodes["parent"]):
        assert parent < i
        children = [k for k, above in enumerate(nodes["parent"]) if above == i]
        assert nodes["total"][i] == pytest.approx(nodes["self"][i] + sum(nodes["total"][k] for k in children))
    top = ask(daemon, "/api/v1/profile/top", **last)
    assert top["samples"] == tree["samples"] == sum(row["samples"] for row in top["rows"])
    assert top["rows"][0]["name"] == "warm_function_of_test"
    assert Path(top["rows"][0]["module"]).name == "burn"
    of_cgroup = ask(daemon, "/api/v1/profile/top", by="cgroup", **last)["rows"]
    assert [row["name"] for row in of_cgroup] == [group.label] and of_cgroup[0]["share"] == 1
    assert [row["name"] for row in ask(daemon, "/api/v1/profile/top", by="command", **last)["rows"]] == ["burn"]
    # A grid of slots has the same as one column. The clock may have begun less than an hour ago.
    longest = min(3600, time.monotonic())
    for columns, rows in ((1, 1), (60, 1), (7, 13), (1000, 100)):
        heat = ask(daemon, "/api/v1/profile/heat", columns=columns, rows=rows, **last)
        assert len(heat["values"]) == len(heat["samples"]) == columns * rows == heat["columns"] * heat["rows"]
        assert sum(heat["samples"]) == tree["samples"] and sum(heat["values"]) == pytest.approx(tree["total"])
        length = heat["to"] - heat["from"]
        assert heat["column_seconds"] * columns == pytest.approx(length)
        assert longest - 0.01 <= length <= min(3600, time.monotonic()) + 0.01
        assert heat["from"] <= heat["since"] == pytest.approx(tree["since"], abs=0.01)
    scoped = speedscope(daemon, **last)
    assert [profile["name"] for profile in scoped["profiles"]] == [group.label]
    assert stacks_of(scoped) == pytest.approx({stack.partition(";")[2]: count * tree["period"]
                                               for stack, count in folded(daemon, **last).items()})
    assert scoped["profiles"][0]["endValue"] == pytest.approx(tree["total"])
    profile = Pprof(requests.get(daemon.url + "/api/v1/profile", params={**last, "format": "pprof"}, timeout=PATIENCE))
    assert sum(values[0] for _, values, _ in profile.samples) == tree["samples"]
    assert sum(values[1] for _, values, _ in profile.samples) / 1e9 == pytest.approx(tree["total"])
    assert profile.types == [("samples", "count"), ("cpu", "nanoseconds")] and profile.default == "cpu"
    assert all(labels == {"cgroup": group.label, "comm": "burn"} for _, _, labels in profile.samples)
    assert {"warm_function_of_test", "cold_function_of_test"} <= {stack[0] for stack, _, _ in profile.samples}


# It touches so many new pages, and calls a function so often, slowly enough for the rings, in a function for each.
EVENTS = """
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline, noclone)) void touch_of_test(volatile char *at)
{
	*at = 1;
}

__attribute__((noinline, noclone)) void called_of_test(void)
{
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	long nr = argc > 1 ? atol(argv[1]) : 1, page = sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, nr * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(memory, nr * page, MADV_NOHUGEPAGE);
	for (long i = 0; i < nr; i++) {
		touch_of_test(memory + i * page);
		called_of_test();
		syscall(SYS_getppid);
		if (i % 25 == 24)
			nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	}
}
"""

EVENT_SECTIONS = """
[profile "calls"]
event = uprobe:{program}:called_of_test
period = 1
[profile "faults"]
event = page-faults:u
period = 100
[profile "ppid"]
event = syscalls:sys_enter_getppid
period = 1
[profile "often"]
event = context-switches
rate = 100
"""


@pytest.fixture
def eventful(programs, tmp_path):
    """A program that makes events, in a cgroup: (cgroup, how many)."""
    program = programs.make(EVENTS, tmp_path / "eventful")

    def run(*runs):
        processes = [subprocess.Popen([program, str(nr)], preexec_fn=lambda group=group: group.add(os.getpid()))
                     for group, nr in runs]
        assert [process.wait() for process in processes] == [0] * len(runs)
    run.program = program
    return run


def named_rows(daemon, event, group, function):
    """The row of a function in a cgroup, when it has its name."""
    def row():
        rows = ask(daemon, "/api/v1/profile/top", event=event, cgroup=group.label, **{"from": "-1h"})["rows"]
        return next((row for row in rows if row["name"] == function), None)
    return until(row, f"{event} in {function}", timeout=4 * PATIENCE)


def test_exact_events(perfmond, cgroups, eventful):
    """With a period of 1 each event is a sample: calls of a function, and system calls, to the last one; and all
    formats have the same of each."""
    a, b = cgroups.make("a"), cgroups.make("b")
    daemon = start_daemon(perfmond, rate=19, extra=EVENT_SECTIONS.format(program=eventful.program))
    missing = {problem for problem in daemon.json("/api/v1/status")["problems"] if "[profile " in problem}
    events = {"calls": "called_of_test", "ppid": None}
    if any("tracefs" in problem or "tracepoint" in problem for problem in missing):
        del events["ppid"]
    before = unfollowed(daemon)
    # A ring has room for all of a turn, however late it is read.
    for _ in range(10):
        eventful((a, 150), (b, 50))
        wait_taken(daemon)
    for event, function in events.items():
        for group, nr in ((a, 1500), (b, 500)):
            query = {"event": event, "cgroup": group.label, "from": "-1h"}
            if function:
                row = named_rows(daemon, event, group, function)
                assert row["self"] == row["samples"] <= nr
                # Of a program whose records were lost, and which is gone, places have no names.
                assert row["self"] == nr or unfollowed(daemon) > before, event
            tree = ask(daemon, **query)
            assert (tree["event"], tree["unit"], tree["period"]) == (event, "count", 1)
            assert tree["samples"] == nr or not function
            assert tree["total"] == tree["samples"] == tree["nodes"]["total"][0] == sum(tree["nodes"]["self"])
            assert sum(folded(daemon, **query).values()) == tree["samples"]
            assert sum(stacks_of(speedscope(daemon, **query)).values()) == tree["total"]
            answer = requests.get(f"{daemon.url}/debug/pprof/{event}", params={"cgroup": group.label, "seconds": 3600},
                                  timeout=PATIENCE)
            check(answer)
            profile = Pprof(answer)
            assert profile.types == [("samples", "count"), (event, "count")]
            assert (profile.default, profile.period) == (event, 1)
            assert sum(values[1] for _, values, _ in profile.samples) == tree["total"]
    # Of software events, a period is kept as well.
    faults = ask(daemon, event="faults", **{"from": "-1h"})
    assert faults["total"] == 100 * faults["samples"] > 0 and faults["period"] == 100
    often = ask(daemon, event="often", **{"from": "-1h"})
    assert often["period"] is None and often["total"] >= often["samples"] > 0


def test_heat(perfmond, cgroups, eventful):
    """When something happened: the calls of two programs are where they were, and nowhere else."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, rate=19, extra=EVENT_SECTIONS.format(program=eventful.program))
    runs = []
    for nr in (200, 500):
        begin = time.time()
        eventful((group, nr))
        runs.append((begin, time.time(), nr))
        time.sleep(1)
    query = {"event": "calls", "cgroup": group.label, "from": "-1h"}
    wait_taken(daemon)
    begin, end = runs[0][0] - 1, runs[1][1] + 1
    query.update({"from": begin, "to": end, "columns": 100})
    heat = ask(daemon, "/api/v1/profile/heat", **query)
    assert (heat["event"], heat["unit"], heat["values"]) == ("calls", "count", heat["samples"])
    assert (heat["from"], heat["to"]) == (pytest.approx(begin, abs=0.01), pytest.approx(end, abs=0.01))
    width = heat["column_seconds"]
    for first, last, nr in runs:
        within = [value for column, value in enumerate(heat["values"])
                  if first - 2 * width <= begin + column * width <= last + width]
        assert sum(within) == nr
    assert sum(heat["values"]) == 700
    # Finer rows, read one after the other, are the same columns.
    fine = ask(daemon, "/api/v1/profile/heat", rows=10, **query)["values"]
    assert sum(fine) == 700 and len(fine) == 1000


def counted_by(daemon, cgroup, event, start, end):
    """What the counter of a cgroup has counted between two readings, or None where that is not known."""
    past = daemon.json(f"/api/v1/history?cgroup={cgroup}&event={event}")
    rows = [row["events"][event] for row in past["cgroups"] if row["cgroup"] == cgroup]
    total = 0
    for slot, (at, length) in enumerate(zip(past["times"], past["seconds"])):
        if start - 0.01 < at - length and at < end + 0.01:
            known = [row[slot] for row in rows if row[slot] is not None]
            total += sum(known) * length
    return total


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.parametrize("per_cpu", ["no", "yes"])
def test_counted_weights(perfmond, cgroups, burner, eventful, per_cpu):
    """Samples tell the shares, and the counters of the cgroups the sums, between readings; what they don't cover is
    said."""
    cgroups.make("above")
    a, b = cgroups.make("above/a"), cgroups.make("b")
    hidden = cgroups.make("uncounted")
    daemon = start_daemon(perfmond, extra='[profile "faults"]\nevent = page-faults\nperiod = 1\n[cgroup]\n'
                          f"groups = tasks\nexclude = {hidden.label}\nper_cpu = {per_cpu}\n"
                          "[daemon]\ninterval = 100ms\n")
    for name, group in (("burn-a", a), ("burn-b", b), ("burn-hidden", hidden)):
        burner(name, group)
    # Few samples tell the shares less exactly than is compared below.
    for group, nr in ((a, 250), (b, 60), (hidden, 60)):
        wait_for_names(daemon, group, nr)

    def answer():
        """From where its counter is known on, which may be after the first samples."""
        found = ask(daemon, cgroup=a.label, weights="counted", **{"from": "-8s"})
        return found if found["weights"] == "counted" and not found["uncounted"] and found["samples"] else None
    tree = until(answer, "a stretch in which the cgroup is counted", timeout=2 * PATIENCE)
    assert tree["not_counted"] is None
    truth = counted_by(daemon, a.label, "task_clock", tree["from"], tree["to"])
    assert truth > 0 and tree["total"] == pytest.approx(truth, rel=1e-3)
    assert tree["nodes"]["total"][0] == pytest.approx(tree["total"]) == pytest.approx(sum(tree["nodes"]["self"]))
    # Between them the functions have what they had, but that each slot weighs as it was counted.
    top = functools.partial(ask, daemon, "/api/v1/profile/top", cgroup=a.label)
    counted = top(weights="counted", **{"from": tree["from"] - 0.001, "to": tree["to"] + 0.001})
    sampled = top(**{"from": counted["from"], "to": counted["to"]})
    assert counted["weights"] == "counted", counted["not_counted"]
    shares = [next(row["share"] for row in found["rows"] if row["name"] == "warm_function_of_test")
              for found in (counted, sampled)]
    assert shares[0] == pytest.approx(shares[1], abs=0.05)
    # No counter, no guess.
    other = ask(daemon, cgroup=hidden.label, weights="counted", **{"from": "-8s"})
    assert other["uncounted"] == [{"cgroup": hidden.label, "why": "it is not counted"}]
    assert other["total"] == pytest.approx(other["samples"] * other["period"])
    # Of another event, the same event's counter.
    eventful((b, 200))
    wait_taken(daemon)
    faults = ask(daemon, event="faults", cgroup=b.label, weights="counted", **{"from": "-8s"})
    assert faults["weights"] == "counted"
    daemon.reload(daemon.config_path.read_text(encoding="utf-8").replace("groups = tasks", "groups = core"))
    until(lambda: "no group of [cgroup]" in (ask(daemon, cgroup=b.label, weights="counted")["not_counted"] or ""),
          "the plan without the event")


def test_events_that_are_not(perfmond):
    """What is no event is an error of the config, with its place; what this machine lacks is a problem, with a
    reason."""
    text = "[profiles]\nenabled = yes\n[profile \"x\"]\nperiod = 1\nevent = {}\n"
    daemon = perfmond(text.format("page-faults"))
    daemon.config_path.write_text(daemon.config_path.read_text(encoding="utf-8").replace("page-faults", "page-fautls"),
                                  encoding="utf-8")
    check_run = subprocess.run([harness.PERFMOND, "--check", f"--config={daemon.config_path}"], capture_output=True,
                               text=True, check=False)
    assert check_run.returncode and re.search(r":\d+: event: .*page-fautls", check_run.stderr + check_run.stdout)
    other = perfmond(text.format("no_such_pmu/x=1/"))
    answer = requests.get(other.url + "/api/v1/profile", params={"event": "x"}, timeout=PATIENCE)
    assert answer.status_code == 503 and "no_such_pmu" in check(answer)["error"]
    assert any("[profile \"x\"]" in problem for problem in other.json("/api/v1/status")["problems"])
    assert requests.get(other.url + "/debug/pprof/heap", timeout=PATIENCE).status_code == 404
    answer = requests.get(other.url + "/api/v1/profile", params={"event": "y"}, timeout=PATIENCE)
    assert answer.status_code == 400 and "cpu-clock, x" in check(answer)["error"]


def test_short_lives(perfmond, cgroups):
    """Programs that are gone before anybody could look at them: their cgroup, command and functions are known."""
    daemon = start_daemon(perfmond, rate=999)
    for number in range(5):
        group, before = cgroups.make(f"short{number}"), unfollowed(daemon)
        script = f"echo $$ >{group.path}/cgroup.procs; " \
                 "for i in $(seq 60); do awk 'BEGIN { for (i = 0; i < 60000; i++) x += i }'; done"
        subprocess.run(["sh", "-c", script], check=True)
        wait_taken(daemon)
        if unfollowed(daemon) == before:
            break
    stacks = folded(daemon, cgroup=group.label)
    commands = {}
    for stack, count in stacks.items():
        command = stack.split(";")[1]
        commands[command] = commands.get(command, 0) + count
    awk = Path(shutil.which("awk")).resolve().name
    assert commands.get("awk", 0) + commands.get(awk, 0) > 0.7 * sum(commands.values()), commands
    assert commands.get("(unknown)", 0) <= 0.02 * sum(commands.values()), commands
    modules = {module for module in ask(daemon, cgroup=group.label)["nodes"]["module"] if module}
    assert any(awk in module for module in modules), modules


def test_ran_before(perfmond, cgroups, burner):
    """A program that ran before the daemon is known too."""
    group = cgroups.make("before")
    burner("burn-before", group)
    daemon = start_daemon(perfmond)
    stacks = wait_for_names(daemon, group, 50)
    assert all(stack.split(";")[1] == "burn-before" for stack in stacks)


@pytest.mark.skipif(not shutil.which("strip"), reason="needs strip (binutils)")
def test_replaced_and_stripped(perfmond, cgroups, burner, tmp_path):
    """A file that has taken the place of the one that runs names nothing, and neither does one without symbols."""
    a, b = cgroups.make("replaced"), cgroups.make("stripped")
    burner("burn-replaced", a)
    burner("burn-other", b, hot=1)
    os.replace(tmp_path / "burn-other", tmp_path / "burn-replaced")
    stripped = cgroups.make("s")
    burner("burn-stripped", stripped, flags=["-s"])
    daemon = start_daemon(perfmond, extra=f"include = {cgroups.label}/**\n")

    def reasons(group):
        """Of the innermost places in the program, which are nearly all."""
        rows = ask(daemon, "/api/v1/profile/top", cgroup=group.label)["rows"]
        found = {row["missing"] for row in rows if row["module"] and "burn-" in row["module"]}
        return found if found and not found & {"not looked up yet", "being looked up"} else None
    # The kernel tells that the file is gone by its name, or it is another by its build id.
    assert until(lambda: reasons(a), "reasons", 4 * PATIENCE) <= {
        "another file has that path", "the file can't be opened"}
    assert until(lambda: reasons(stripped), "reasons", 4 * PATIENCE) == {
        "the file is stripped, and has no debug symbols here"}


def test_hidden(perfmond, cgroups, burner):
    """Of cgroups that are left out, there is the CPU time alone."""
    seen, secret = cgroups.make("seen"), cgroups.make("secret")
    command = f"burn-{os.getpid()}"
    daemon = start_daemon(perfmond, extra=f"exclude = {secret.label}")
    burner("burn-seen", seen)
    burner(command, secret, hot=1)
    wait_for_names(daemon, seen, 50)

    def has_hidden():
        text = ask(daemon, format="folded", **{"from": "-1h"})
        return re.search(r"^\(hidden\);\(hidden\) \d{2,}$", text, re.M) and text
    text = until(has_hidden, "its CPU time")
    assert secret.label not in text and command not in text


def test_nothing_like_an_address(perfmond, cgroups, burner):
    """No answer has an address or an argument of a command."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, rate=999)
    burner("burn", group)
    sleeper = subprocess.Popen(["sh", "-c", "while :; do :; done", "secret-argument"])
    try:
        wait_for_names(daemon, group, 500)
        texts = [requests.get(f"{daemon.url}/api/v1/profile{query}", timeout=PATIENCE).text
                 for query in ("", "?format=folded", "?format=speedscope", "/top", "/heat")]
        pprof = requests.get(daemon.url + "/debug/pprof/profile", timeout=PATIENCE)
        texts.append(gzip.decompress(pprof.content).decode("latin-1"))
    finally:
        sleeper.kill()
        sleeper.wait()
    for text in texts:
        assert not re.search(r"ffffffff[0-9a-f]{8}|0x7[0-9a-f]{11}|0x5[0-9a-f]{11}", text)
        assert "secret-argument" not in text
    assert max(Pprof(pprof).addresses) < 1 << 40


def test_bounds(perfmond, cgroups, burner):
    """Memory and reach are published, the daemon stays small, and nothing is lost or left out while it has its CPU: for
    longer than a fifth of a second, which a ring holds, a busy machine lets it wait now and then."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, rate=999, memory="1MiB", extra=f"[cgroup]\ninclude = {cgroups.label}/**\n")
    burner("burn", group)
    wait_for_names(daemon, group, 1000)

    def loses_nothing():
        before = daemon.metrics()
        enough = before.value("perfmond_profile_samples_total") + 1000
        after = until(lambda: (now := daemon.metrics()).value("perfmond_profile_samples_total") >= enough and now,
                      "a thousand samples", timeout=4 * PATIENCE)
        delta = Delta(before, after)
        return delta.of("perfmond_profile_lost_total") == delta.of("perfmond_profile_throttled_total") == 0
    assert any(loses_nothing() for _ in range(20))
    metrics = daemon.metrics()
    assert 0 < metrics.value("perfmond_profile_bytes") <= 1 << 20
    assert 0 < metrics.value("perfmond_profile_reach_seconds") < 100
    assert metrics.value("perfmond_profile_cpu_seconds_total") > 0
    if not harness.SANITIZED:
        assert metrics.value("perfmond_resident_memory_bytes") < 20e6


@pytest.mark.deep
@pytest.mark.alone
def test_paused_daemon(perfmond, cgroups, burner):
    """Samples that the rings have no room for are counted, and all others are there."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, rate=1000)
    burner("burn", group)
    wait_for_names(daemon, group, 100)
    before = daemon.metrics().value("perfmond_profile_lost_total")

    def loses():
        """In one pause, unless the CPUs are taken away from the machine meanwhile."""
        daemon.process.send_signal(signal.SIGSTOP)
        time.sleep(3)  # 64 KiB hold less than a second at that rate
        daemon.process.send_signal(signal.SIGCONT)
        return daemon.metrics().value("perfmond_profile_lost_total") > before + 500
    until(loses, "lost samples")


def test_reload(perfmond, cgroups, burner):
    """Samples stay over a reload; profiles go off and on by it."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond)
    burner("burn", group)
    before = sum(wait_for_names(daemon, group, 100).values())
    samples = daemon.metrics().value("perfmond_profile_samples_total")
    text = daemon.config_path.read_text(encoding="utf-8")
    daemon.reload(text)
    assert sum(folded(daemon, cgroup=group.label, **{"from": "-1h"}).values()) >= before
    assert daemon.metrics().value("perfmond_profile_samples_total") >= samples
    until(lambda: sum(folded(daemon, cgroup=group.label, **{"from": "-1h"}).values()) > before + 50, "more samples")
    daemon.reload(text.replace("enabled = yes", "enabled = no"))
    answer = requests.get(daemon.url + "/api/v1/profile", timeout=PATIENCE)
    assert answer.status_code == 503 and "[profiles]" in check(answer)["error"]
    assert daemon.metrics().value("perfmond_profile_samples_total") == 0
    daemon.reload(text)
    wait_for_names(daemon, group, 50)


def test_off(perfmond):
    """Nothing is sampled, and the answer says what to do."""
    daemon = perfmond("[profiles]\nenabled = no\n")
    for path in ("/api/v1/profile", "/api/v1/profile/top", "/api/v1/profile/heat", "/debug/pprof/profile"):
        answer = requests.get(daemon.url + path, timeout=PATIENCE)
        assert answer.status_code == 503 and "enabled = yes" in answer.text
        check(answer)
