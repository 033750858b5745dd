# SPDX-License-Identifier: MIT
"""Profiles of real programs: who used the CPUs, by cgroup, command and function."""

import functools
import gzip
import json
import math
import os
import random
import re
import shutil
import signal
import string
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest
import requests

import harness
from harness import PATIENCE, Delta, until
from machine import needs
from openapi import check
from tree import BUILD, provide
from profiling import (Pprof, ask, check_nothing_is_sampled, folded, resident_without_tables, samples_with,
                       start_daemon, wait_for_names, wait_named, wait_taken, wait_told)

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
        assert all(profile["samples"]), "speedscope takes an empty stack for idle time"
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
[profile "often"]
event = context-switches
rate = 100
"""


PPID_SECTION = """
[profile "ppid"]
event = syscalls:sys_enter_getppid/filter='comm == "eventful"'/
period = 1
"""


@pytest.fixture(scope="module")
def eventful(programs, tmp_path_factory):
    """A program that makes events, in a cgroup: (cgroup, how many)."""
    program = programs.make(EVENTS, tmp_path_factory.mktemp("programs") / "eventful")

    def run(*runs):
        processes = [subprocess.Popen([program, str(nr)], preexec_fn=lambda group=group: group.add(os.getpid()))
                     for group, nr in runs]
        assert [process.wait() for process in processes] == [0] * len(runs)
    run.program = program
    return run


# Of what others do, nothing is kept but the CPU time: their names would take time.
SHARED = """
include = {top}/**
exclude = {top}/secret
[daemon]
interval = 100ms
[cgroup]
groups = tasks
include = {top}/**
exclude = {top}/**/uncounted
"""


@pytest.fixture(scope="module")
def daemon(shared_perfmond, shared_cgroups, eventful):
    """That of most tests here; all have cgroups of their own."""
    return start_daemon(shared_perfmond, rate=499, extra=SHARED.format(top=shared_cgroups.label) +
                        EVENT_SECTIONS.format(program=eventful.program))


@pytest.mark.deep
@pytest.mark.alone
def test_shares_are_those_of_the_program(perfmond, cgroups, burner):
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


def test_all_formats_have_the_same_samples(daemon, own_cgroup, burner):
    """The tree, folded, top, heat, speedscope and pprof."""
    group = own_cgroup.make("a")
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
    assert {"warm_function_of_test", "cold_function_of_test"} <= {
        row["name"] for row in top["rows"] if row["module"] and Path(row["module"]).name == "burn"}
    of_cgroup = ask(daemon, "/api/v1/profile/top", by="cgroup", **last)["rows"]
    assert [row["name"] for row in of_cgroup] == [group.label] and of_cgroup[0]["share"] == 1
    assert [row["name"] for row in ask(daemon, "/api/v1/profile/top", by="command", **last)["rows"]] == ["burn"]
    # A grid of slots has the same as one column. The clock may have begun less than an hour ago.
    longest = min(3600, time.monotonic())
    for columns, rows in ((1, 1), (60, 1), (7, 13), (1000, 100)):
        parameters = {"columns": columns, "rows": rows, **last}
        # To look at 100,000 slots with the schema takes seconds.
        heat = ask(daemon, "/api/v1/profile/heat", **parameters) if rows < 100 else \
            daemon.json("/api/v1/profile/heat", **parameters)
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


def row_of(daemon, event, group, function):
    """The row of a function in a cgroup, if it has its name."""
    rows = ask(daemon, "/api/v1/profile/top", event=event, cgroup=group.label, **{"from": "-1h"})["rows"]
    return next((row for row in rows if row["name"] == function), None)


def check_exact(daemon, event, group, nr):
    """In all formats."""
    query = {"event": event, "cgroup": group.label, "from": "-1h"}
    tree = ask(daemon, **query)
    assert (tree["event"], tree["unit"], tree["period"]) == (event, "count", 1)
    assert tree["samples"] == nr
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


@needs("uprobe")
def test_with_a_period_of_1_each_call_is_a_sample(daemon, own_cgroup, eventful):
    """To the last one, in all formats; also of programs that are gone before anybody could look at them."""
    a, b = own_cgroup.make("a"), own_cgroup.make("b")
    before = unfollowed(daemon)
    # A ring has room for all of a turn, however late it is read.
    for _ in range(3):
        eventful((a, 150), (b, 50))
        wait_taken(daemon)
    for group, nr in ((a, 450), (b, 150)):
        # Of a program whose records were lost, and which is gone, places have no names.
        row = until(lambda group=group: row_of(daemon, "calls", group, "called_of_test") or unfollowed(daemon) > before,
                    f"calls in called_of_test, in {group.label}", 4 * PATIENCE)
        assert unfollowed(daemon) > before or row["self"] == row["samples"] == nr
        check_exact(daemon, "calls", group, nr)


def test_events_of_the_kernel_keep_their_period(daemon, own_cgroup, eventful):
    """A sample of page faults weighs 100 of them; a sample of an event with a rate weighs at least 1."""
    group = own_cgroup.make("a")

    def sampled():
        """On a machine of many CPUs, each of them has to have a hundred."""
        eventful((group, 400))
        wait_taken(daemon)
        answers = {event: ask(daemon, event=event, **{"from": "-1h"}) for event in ("faults", "often")}
        return answers if all(answer["samples"] for answer in answers.values()) else None
    answers = until(sampled, "samples of page faults and context switches", 4 * PATIENCE)
    assert answers["faults"]["total"] == 100 * answers["faults"]["samples"] and answers["faults"]["period"] == 100
    assert answers["often"]["period"] is None and answers["often"]["total"] >= answers["often"]["samples"]


def test_each_system_call_is_a_sample(perfmond, cgroups, eventful, tracefs):
    """Of a tracepoint with a filter."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, rate=19, extra=f"include = {cgroups.label}/**\n" + PPID_SECTION)
    eventful((group, 150))
    wait_taken(daemon)
    check_exact(daemon, "ppid", group, 150)


@needs("uprobe")
def test_heat_tells_when_something_happened(daemon, own_cgroup, eventful):
    """The calls of two programs are where they were, and nowhere else."""
    group = own_cgroup.make("a")
    runs = []
    for nr in (100, 200):
        begin = time.time()
        eventful((group, nr))
        runs.append((begin, time.time(), nr))
        time.sleep(0.2)
    query = {"event": "calls", "cgroup": group.label, "from": "-1h"}
    wait_taken(daemon)
    begin, end = runs[0][0] - 0.1, runs[1][1] + 0.1
    query.update({"from": begin, "to": end, "columns": 100})
    heat = ask(daemon, "/api/v1/profile/heat", **query)
    assert (heat["event"], heat["unit"], heat["values"]) == ("calls", "count", heat["samples"])
    assert (heat["from"], heat["to"]) == (pytest.approx(begin, abs=0.01), pytest.approx(end, abs=0.01))
    width = heat["column_seconds"]
    for first, last, nr in runs:
        within = [value for column, value in enumerate(heat["values"])
                  if first - 2 * width <= begin + column * width <= last + width]
        assert sum(within) == nr
    assert sum(heat["values"]) == 300
    # Finer rows, read one after the other, are the same columns.
    fine = ask(daemon, "/api/v1/profile/heat", rows=10, **query)["values"]
    assert sum(fine) == 300 and len(fine) == 1000


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


def counted_tree(daemon, group):
    """From where its counter is known on, which may be after the first samples."""
    def answer():
        found = ask(daemon, cgroup=group.label, weights="counted", **{"from": "-8s"})
        return found if found["weights"] == "counted" and not found["uncounted"] and found["samples"] else None
    tree = until(answer, "a stretch in which the cgroup is counted", timeout=2 * PATIENCE)
    assert tree["not_counted"] is None
    assert tree["nodes"]["total"][0] == pytest.approx(tree["total"]) == pytest.approx(sum(tree["nodes"]["self"]))
    return tree


def test_counted_weights_are_the_sums_of_the_counters(daemon, own_cgroup, burner):
    """Of a cgroup that is not counted, the answer says so, and samples weigh what they weigh."""
    a, hidden = own_cgroup.make("a"), own_cgroup.make("uncounted")
    for name, group in (("burn-a", a), ("burn-hidden", hidden)):
        burner(name, group)
    for group in (a, hidden):
        wait_for_names(daemon, group, 20)
    tree = counted_tree(daemon, a)
    truth = counted_by(daemon, a.label, "task_clock", tree["from"], tree["to"])
    assert truth > 0 and tree["total"] == pytest.approx(truth, rel=1e-3)

    def answer():
        found = ask(daemon, cgroup=hidden.label, weights="counted", **{"from": "-8s"})
        return found if found["samples"] else None
    other = until(answer, "whole slots with samples, of which it may have few on a busy machine")
    assert other["uncounted"] == [{"cgroup": hidden.label, "why": "it is not counted"}]
    assert other["total"] == pytest.approx(other["samples"] * other["period"])


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.parametrize("per_cpu", ["no", "yes"])
def test_counted_weights_leave_the_shares(perfmond, cgroups, burner, eventful, per_cpu):
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

    tree = counted_tree(daemon, a)
    truth = counted_by(daemon, a.label, "task_clock", tree["from"], tree["to"])
    assert truth > 0 and tree["total"] == pytest.approx(truth, rel=1e-3)
    # Between them the functions have what they had, but that each slot weighs as it was counted.
    top = functools.partial(ask, daemon, "/api/v1/profile/top", cgroup=a.label)
    counted = top(weights="counted", **{"from": tree["from"] - 0.001, "to": tree["to"] + 0.001})
    sampled = top(**{"from": counted["from"], "to": counted["to"]})
    assert counted["weights"] == "counted", counted["not_counted"]
    shares = [next(row["share"] for row in found["rows"] if row["name"] == "warm_function_of_test")
              for found in (counted, sampled)]
    assert shares[0] == pytest.approx(shares[1], abs=0.05)
    # No counter, no guess.

    def answer():
        found = ask(daemon, cgroup=hidden.label, weights="counted", **{"from": "-8s"})
        return found if found["samples"] else None
    other = until(answer, "whole slots with samples, of which it may have few on a busy machine")
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


def test_an_event_that_does_not_exist(shared_perfmond, tmp_path):
    """A word that is no event is an error of the config, with its place; an event that this machine lacks is a problem,
    with a reason."""
    text = "[profiles]\nenabled = yes\n[profile \"x\"]\nperiod = 1\nevent = {}\n"
    path = tmp_path / "wrong.conf"
    path.write_text(text.format("page-fautls"), encoding="utf-8")
    done = harness.run("--check", f"--config={path}")
    assert done.returncode and f"{path}:5: event: " in done.stderr and "page-fautls" in done.stderr
    daemon = shared_perfmond(text.format("no_such_pmu/x=1/"))
    answer = requests.get(daemon.url + "/api/v1/profile", params={"event": "x"}, timeout=PATIENCE)
    assert answer.status_code == 503 and "no_such_pmu" in check(answer)["error"]
    assert any("[profile \"x\"]" in problem for problem in daemon.json("/api/v1/status")["problems"])
    assert requests.get(daemon.url + "/debug/pprof/heap", timeout=PATIENCE).status_code == 404
    answer = requests.get(daemon.url + "/api/v1/profile", params={"event": "y"}, timeout=PATIENCE)
    assert answer.status_code == 400 and "cpu-clock, x" in check(answer)["error"]


@pytest.mark.deep
@pytest.mark.alone
def test_commands_of_short_lives(perfmond, cgroups):
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


THREADS = """
import ctypes, threading
libc = ctypes.CDLL(None)
def work(name):
    if name:
        libc.prctl(15, name, 0, 0, 0)  # PR_SET_NAME
    while True:
        sum(range(1000))
threads = [threading.Thread(target=work, args=(name,)) for name in (b"", b"named;thread")]
for thread in threads:
    thread.start()
threads[0].join()
"""


@pytest.mark.parametrize("runs", ["before", "after"])
def test_threads_have_their_names(shared_perfmond, own_cgroup, shared_cgroups, runs):
    """by=thread: that of a thread beside its command. One without a name of its own has that of its maker."""
    group = own_cgroup.make(runs)

    def begin():
        process = subprocess.Popen(["/usr/bin/python3", "-c", THREADS])
        group.add(process.pid)
        return process

    def watch():
        return start_daemon(shared_perfmond, rate=99, extra=f"include = {shared_cgroups.label}/**\n")
    process, daemon = (begin(), watch()) if runs == "before" else reversed((watch(), begin()))
    try:
        def rows():
            return {row["name"]: row["samples"] for row in
                    ask(daemon, "/api/v1/profile/top", by="thread", cgroup=group.label)["rows"]}
        until(lambda: min((rows().get(name, 0) for name in ("python3", "named;thread"))) > 5, "both threads")
        assert set(rows()) == {"python3", "named;thread"}
        stacks = folded(daemon, cgroup=group.label, by="command,thread")
        assert {tuple(stack.split(";")[:2]) for stack in stacks} == {
            ("python3", "python3"), ("python3", "named:thread")}
        pprof = Pprof(requests.get(daemon.url + "/api/v1/profile", timeout=PATIENCE,
                                   params={"format": "pprof", "by": "thread", "cgroup": group.label}))
        assert {labels["thread"] for _, _, labels in pprof.samples} == {"python3", "named;thread"}
    finally:
        process.kill()
        process.wait()


@needs("strip")
def test_programs_that_ran_before_the_daemon(perfmond, cgroups, burner, tmp_path):
    """They are known too, also by a file that another has taken the place of, but for one without symbols."""
    replaced, stripped, before = (cgroups.make(name) for name in ("replaced", "stripped", "before"))
    burner("burn-replaced", replaced)
    burner("burn-other", cgroups.make("other"), hot=1).kill()
    os.replace(tmp_path / "burn-other", tmp_path / "burn-replaced")
    burner("burn-stripped", stripped, flags=["-s"])
    burner("burn-before", before)
    daemon = start_daemon(perfmond, rate=499, extra=f"include = {cgroups.label}/**\n")
    stacks = wait_for_names(daemon, before, 50)
    assert all(stack.split(";")[1] == "burn-before" for stack in stacks)

    def reasons(group):
        """Of the innermost places in the program, which are nearly all."""
        rows = ask(daemon, "/api/v1/profile/top", cgroup=group.label)["rows"]
        found = {row["missing"] for row in rows if row["module"] and "burn-" in row["module"]}
        return found if found and not found & {"not looked up yet", "being looked up"} else None
    # By what the process itself has mapped.
    assert wait_for_names(daemon, replaced, 50)
    assert until(lambda: reasons(stripped), "reasons for the stripped file", 4 * PATIENCE) == {
        "the file is stripped, and has no debug symbols here"}


@needs("uprobe")
def test_of_excluded_cgroups_there_is_the_sum_alone(daemon, shared_cgroups, eventful):
    """Their samples are there, each of them, and no name of theirs."""
    def texts():
        return [ask(daemon, format="folded", **{"from": "-1h", "event": event}) for event in ("calls", "cpu-clock")]

    def hidden(text):
        return sum(map(int, re.findall(r"^\(hidden\);\(hidden\) (\d+)$", text, re.M)))
    secret = shared_cgroups.make("secret")
    before = hidden(texts()[0])
    eventful((secret, 70))
    wait_taken(daemon)
    calls, clock = texts()
    assert hidden(calls) == before + 70 and hidden(clock) > 0
    assert secret.label not in calls + clock
    # Readers of these formats leave out what has no stack: the sum stands for one.
    query = {"event": "calls", "from": "-1h"}
    profile = Pprof(requests.get(daemon.url + "/api/v1/profile", params={**query, "format": "pprof"}, timeout=PATIENCE))
    assert [(values, labels) for stack, values, labels in profile.samples if stack == ["(hidden)"]] == [
        ([before + 70] * 2, {"cgroup": "(hidden)", "comm": "(hidden)"})]
    assert stacks_of(speedscope(daemon, by="cgroup", **query))["(hidden)"] == before + 70
    secret.remove()


def names_of_profiles(nr):
    """So many names that a [profile "NAME"] can have: those that are odd, and others by chance."""
    chance, letters = random.Random(24), string.ascii_letters + string.digits + "-_"
    names = {"-", "_", "--", "-a", "a-", "0", "9-9", "page-faults", "page_faults", "count", "cpu", "CPU", "Samples",
             "nanoseconds", "x" * 40, "-" * 39 + "x"}
    while len(names) < nr:
        names.add("".join(chance.choices(letters, k=chance.randint(1, 40))))
    return sorted(names)


def test_the_profile_of_each_name_is_one_that_tools_take(shared_perfmond):
    """pprof and Pyroscope: by the rules of class Pprof, whatever the event is called, and of hidden cgroups too."""
    names = names_of_profiles(24)
    daemon = start_daemon(shared_perfmond, rate=19, extra="include = /none-of-these\n" + "".join(
        f'[profile "{name}"]\nevent = page-faults\nperiod = 20\n' for name in names))

    def profile(name):
        return Pprof(requests.get(f"{daemon.url}/debug/pprof/{name}", params={"seconds": 3600}, timeout=PATIENCE))
    for name in names:
        found = until(lambda name=name: (it := profile(name)).samples and it, f"samples of {name}")
        assert found.types == [("samples", "count"), (name.replace("-", "_"), "count")]
        assert found.default == name.replace("-", "_")
        assert [stack for stack, _, _ in found.samples] == [["(hidden)"]]
    assert profile("profile").types == [("samples", "count"), ("cpu", "nanoseconds")]


def check_no_address(daemon, group, burner, nr):
    """No answer has an address or an argument of a command."""
    burner("burn", group)
    with subprocess.Popen(["sh", "-c", "while :; do :; done", "secret-argument"],
                          preexec_fn=lambda: group.add(os.getpid())) as sleeper:
        try:
            wait_for_names(daemon, group, nr, of_all=0.2)
            until(lambda: any(stack.split(";")[1] == "sh" for stack in folded(daemon, cgroup=group.label)),
                  "samples of the shell")
            texts = [requests.get(f"{daemon.url}/api/v1/profile{query}", timeout=PATIENCE).text
                     for query in ("", "?format=folded", "?format=speedscope", "/top", "/heat")]
            pprof = requests.get(daemon.url + "/debug/pprof/profile", timeout=PATIENCE)
        finally:
            sleeper.kill()
    texts.append(gzip.decompress(pprof.content).decode("latin-1"))
    for text in texts:
        assert not re.search(r"ffffffff[0-9a-f]{8}|0x7[0-9a-f]{11}|0x5[0-9a-f]{11}", text)
        assert "secret-argument" not in text
    assert max(Pprof(pprof).addresses) < 1 << 40


def test_no_answer_has_an_address_or_an_argument(daemon, own_cgroup, burner):
    check_no_address(daemon, own_cgroup.make("a"), burner, 50)


@pytest.mark.deep
def test_no_answer_has_an_address_of_the_whole_machine(perfmond, cgroups, burner):
    """Nothing is left out of these profiles."""
    check_no_address(start_daemon(perfmond, rate=999), cgroups.make("a"), burner, 500)


def test_memory_has_a_bound_and_old_samples_go(shared_perfmond, shared_work, own_cgroup, shared_cgroups):
    """Memory and reach are published; when memory is full, the oldest samples go."""
    daemon = start_daemon(shared_perfmond, rate=19, memory="1MiB", extra=f"include = {shared_cgroups.label}/**\n"
                          '[profile "faults"]\nevent = page-faults\nperiod = 1\n')
    helper = shared_work(own_cgroup.make("a"))

    def begin():
        helper.do("faults 2000")
        return ask(daemon, "/api/v1/profile/top", event="faults", **{"from": "-1h"})["from"]
    first = begin()
    until(lambda: begin() > first + 0.1, "the oldest samples have gone", 4 * PATIENCE)
    # The profiler tells its figures each second.
    metrics = until(lambda: (now := daemon.metrics()).value("perfmond_profile_reach_seconds") > 0 and now, "the reach")
    assert 0 < metrics.value("perfmond_profile_bytes") <= 1 << 20
    assert metrics.value("perfmond_profile_cpu_seconds_total") > 0


@pytest.mark.deep
@pytest.mark.alone
def test_nothing_is_lost_while_the_daemon_has_its_cpu(perfmond, cgroups, burner):
    """And it stays small. A busy machine lets it wait now and then for longer than a fifth of a second, which a ring
    holds: then it is tried again."""
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
        assert resident_without_tables(daemon) < 20e6 and daemon.resident() < 20e6


@pytest.mark.deep
@pytest.mark.alone
def test_lost_samples_are_counted(perfmond, cgroups, burner):
    """Samples that the rings have no room for are counted, and all others are there."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, rate=1000)
    burner("burn", group)
    wait_for_names(daemon, group, 100)
    before = daemon.metrics().value("perfmond_profile_lost_total")

    def loses():
        """In one pause, unless the CPUs are taken away from the machine meanwhile."""
        os.kill(daemon.profiler, signal.SIGSTOP)
        time.sleep(3)  # 64 KiB hold less than a second at that rate
        os.kill(daemon.profiler, signal.SIGCONT)
        return wait_told(daemon).value("perfmond_profile_lost_total") > before + 500
    until(loses, "lost samples")


def test_samples_stay_over_a_reload(perfmond, cgroups, burner):
    """Samples stay over a reload; profiles go off and on by it."""
    group = cgroups.make("a")
    daemon = start_daemon(perfmond, rate=499, extra=f"include = {cgroups.label}/**\n")
    burner("burn", group)
    before = sum(wait_for_names(daemon, group, 50).values())
    samples = daemon.metrics().value("perfmond_profile_samples_total")
    text = daemon.config_path.read_text(encoding="utf-8")
    daemon.reload(text)
    assert sum(folded(daemon, cgroup=group.label, **{"from": "-1h"}).values()) >= before
    assert daemon.metrics().value("perfmond_profile_samples_total") >= samples
    until(lambda: sum(folded(daemon, cgroup=group.label, **{"from": "-1h"}).values()) > before + 50, "more samples")
    daemon.reload(text.replace("enabled = yes", "enabled = no"))
    answer = requests.get(daemon.url + "/api/v1/profile", timeout=PATIENCE)
    assert answer.status_code == 503 and "[profiles]" in check(answer)["error"]
    samples = check_nothing_is_sampled(daemon)
    daemon.reload(text)
    wait_for_names(daemon, group, 50)
    until(lambda: daemon.metrics().value("perfmond_profile_samples_total") >= samples + 50, "they are counted on")


def test_profiles_that_are_off(shared_perfmond):
    """Nothing is sampled, and the answer says what to do."""
    daemon = shared_perfmond("[profiles]\nenabled = no\n")
    for path in ("/api/v1/profile", "/api/v1/profile/top", "/api/v1/profile/heat", "/debug/pprof/profile"):
        answer = requests.get(daemon.url + path, timeout=PATIENCE)
        assert answer.status_code == 503 and "enabled = yes" in answer.text
        check(answer)
