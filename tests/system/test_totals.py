# SPDX-License-Identifier: MIT
"""Totals never fall and nothing vanishes in silence: what reloads, removals and odd names do to the series."""

import os
import re
import subprocess
import time

import pytest

from harness import FRESH, Reference, Repeated, run, until
from machine import needs

FAULTS = "perf_cgroup_page_faults_total"


def config(top, cpu="groups =", more="", events="page-faults"):
    return f"""
[web]
listen = 127.0.0.1:0
created = yes
[cpu]
{cpu}
[cgroup]
groups = work
include = {top.label}/**
[group "work"]
events = {events}
{more}
"""


# --- the sum of all CPUs

def sums(daemon):
    """What the CPUs' sums come to, and since when they are, by family."""
    time.sleep(FRESH)
    text = daemon.get("/metrics", headers={"Accept": "application/openmetrics-text"}).text
    found = re.findall(r"^(perf_cpu_\w+)(?:\{[^}]*\})? (\S+)", text, re.M)
    return {name: float(value) for name, value in found}


@needs("two-cpus")
def test_the_sum_of_all_cpus_does_not_fall(perfmond, cgroups, cpus):
    """A CPU is excluded by a reload, and counted again by another."""
    def aggregate(exclude):
        return config(cgroups, cpu=f"groups = work\naggregate = yes\nexclude = {exclude}")

    daemon = perfmond(aggregate(""))
    before = sums(daemon)
    assert before["perf_cpu_page_faults_total"] > 0
    for exclude in (cpus[-1], cpus[-1], "", cpus[0], ""):
        daemon.reload(aggregate(exclude))
        after = sums(daemon)
        assert after.keys() == before.keys()
        for name, value in before.items():
            if name.endswith("_created"):
                assert after[name] == value
            else:
                assert after[name] >= value, name
        before = after


# --- names

def test_names_that_differ_by_unit_alone_are_an_error(perfmond, cgroups, tmp_path):
    """They would be one key in JSON, and one state."""
    path = tmp_path / "meets.conf"
    path.write_text(config(cgroups, events="a=task-clock, a=page-faults"), encoding="utf-8")
    done = run(f"--config={path}", "--check")
    assert done.returncode == 1
    assert "both counted per cgroup as 'a'" in done.stderr
    daemon = perfmond(config(cgroups))
    daemon.reload(path.read_text(encoding="utf-8"), expect="not reloaded.*both counted per cgroup as 'a'")


# --- removed cgroups

def remove_to_linger(daemon, group, linger):
    """It lingers when its end is seen, unless that is too late to tell."""
    before = time.monotonic()
    group.remove()
    seen = until(lambda: (m := daemon.metrics()).value("perfmond_cgroups", state="counted") == 0 and m, "it has gone")
    late = time.monotonic() - before >= linger
    assert late or seen.value("perfmond_cgroups", state="lingering") == 1


@pytest.mark.engines
@pytest.mark.one_engine
def test_lingering_ends_between_ticks(perfmond, cgroups, work, cpus):
    """However far apart they are: it is shown no longer, and another cgroup at its path begins anew."""
    interval, linger = '[daemon]\ninterval = 1h\n', 1
    text = config(cgroups, more=interval).replace("include", f"linger = {linger}s\ninclude")
    group = cgroups.make("gone")
    daemon = perfmond(text)
    helper = work(group, cpus[0])
    helper.do("faults 500")
    helper.stop()
    assert daemon.fresh().value(FAULTS, cgroup=group.label) >= 500
    remove_to_linger(daemon, group, linger)
    until(lambda: daemon.fresh().get(FAULTS, cgroup=group.label) is None, "it is gone")
    assert daemon.metrics().value("perfmond_cgroups", state="lingering") == 0

    group = cgroups.make("gone")
    until(lambda: daemon.fresh().get(FAULTS, cgroup=group.label) is not None, "it is counted")
    remove_to_linger(daemon, group, linger)
    time.sleep(linger + 0.2)  # and nobody asks
    group = cgroups.make("gone")
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="counted") == 1, "it is counted")
    assert daemon.fresh().value(FAULTS, cgroup=group.label) == 0


# --- cgroups that can't be followed

@pytest.fixture
def too_deep(cgroups):
    """A branch of the tree that goes on below what a path can say; its top's name."""
    name, fds = "d" * 200, [os.open(cgroups.path, os.O_RDONLY)]
    while len(fds) < 24:
        os.mkdir(name, dir_fd=fds[-1])
        fds.append(os.open(name, os.O_RDONLY, dir_fd=fds[-1]))
    yield name
    for fd in reversed(fds[:-1]):
        os.rmdir(name, dir_fd=fd)
    for fd in fds:
        os.close(fd)


def test_a_cgroup_whose_path_is_too_long_is_told_of(perfmond, cgroups, too_deep, tmp_path):
    daemon = perfmond(config(cgroups))
    assert daemon.fresh().value("perfmond_cgroups", state="unlisted") == 1
    beginning = re.escape(f"{cgroups.label}/{too_deep}"[:200]) + "…: its path is longer"
    answer = daemon.json("/api/v1/cgroups")
    assert answer["unlisted"]["cgroups"] == 1 and re.match(beginning, answer["unlisted"]["example"])
    assert len(answer["unlisted"]["example"]) < 300
    assert daemon.json("/api/v1/status")["cgroups"]["unlisted"] == 1
    assert any("not even listed" in problem for problem in daemon.json("/api/v1/status")["problems"])
    daemon.wait_log("can't be followed and are not counted, for example " + beginning)

    path = tmp_path / "check.conf"
    path.write_text(config(cgroups), encoding="utf-8")
    done = run(f"--config={path}", "--check")
    assert done.returncode == 2
    assert re.search(r"\d+ excluded, 1 left out", done.stdout)
    assert re.search("^  " + beginning, done.stdout, re.M) and "1 cgroup is left out" in done.stdout

    # What is excluded is nobody's business.
    daemon.reload(config(cgroups).replace("include", f"exclude = {cgroups.label}/ddd*/**\ninclude"))
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="unlisted") == 0, "it is excluded")
    assert daemon.json("/api/v1/cgroups")["unlisted"] == {"cgroups": 0, "example": None}


# --- groups that change

@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.engines
def test_a_reload_that_changes_a_busy_group_loses_microseconds(perfmond, cgroups, work, cpus, tracefs):
    """Of events that never pause, a reload that changes their group loses no more than happens in some microseconds,
    however many files there are to close: with 40 tracepoints that was some hundreds."""
    ids = sorted(tracefs.glob("events/syscalls/*/id"))[:40]
    names = [f"{path.parent.parent.name}:{path.parent.name}" for path in ids]
    less, more = (config(cgroups, events=", ".join(["page-faults", *names, *other]))
                  for other in ([], ["context-switches"]))
    group = cgroups.make("busy")
    helper = work(group, cpus[0])
    daemon = perfmond(less)
    before, reference = daemon.fresh().value(FAULTS, cgroup=group.label), Reference(group)
    busy = Repeated(helper, "faults 20000")
    for i in range(5):
        daemon.reload(less if i % 2 else more)
    busy.end()
    counted = daemon.fresh().value(FAULTS, cgroup=group.label) - before
    assert counted == pytest.approx(reference.read(), abs=5 * 3)


# --- events that can't be looked up for a while

IN_NAMESPACE = 'mount --make-rprivate / && exec "$@"'


@needs("mount-namespace")
def test_tracepoints_go_on_while_tracefs_is_not_mounted(perfmond, cgroups, work, cpus, tracefs):
    """A tracepoint that is counted has its number, and needs its name no more: reloads while tracefs is not mounted
    lose nothing, and cgroups that are new are counted too."""
    text = config(cgroups, events="page-faults, sched:sched_switch")
    switches = "perf_cgroup_sched_sched_switch_total"
    group = cgroups.make("old")
    helper = work(group, cpus[0])
    helper.fork()
    daemon = perfmond(text, prefix=["unshare", "--mount", "sh", "-c", IN_NAMESPACE, "sh"])

    def in_its_namespace(*command):
        subprocess.run(["nsenter", "-m", "-t", str(daemon.pid), *command], check=True)

    def state():
        event, = (e for e in daemon.json("/api/v1/events")["events"] if e["text"] == "sched:sched_switch")
        return event["state"], event["reason"]

    helper.do("switches 100")
    before = daemon.fresh().value(switches, cgroup=group.label)
    assert before >= 100
    in_its_namespace("umount", "-a", "-t", "tracefs,debugfs")
    for i in range(2):
        daemon.reload(text)
        helper.do("switches 100")
        after = daemon.fresh().value(switches, cgroup=group.label)
        assert after >= before + 100
        before = after
        assert state()[0] == "ok" and "counted on as it was found before, for now: tracefs is not mounted" in state()[1]
    new = cgroups.make("new")
    until(lambda: daemon.fresh().get(switches, cgroup=new.label) is not None, "it is counted")
    second = work(new, cpus[0])
    second.fork()
    second.do("switches 50")
    assert daemon.fresh().value(switches, cgroup=new.label) >= 50

    in_its_namespace("mount", "-t", "tracefs", "nodev", "/sys/kernel/tracing")
    daemon.reload(text)
    helper.do("switches 10")
    assert daemon.fresh().value(switches, cgroup=group.label) >= before + 10
    assert state() == ("ok", None)
