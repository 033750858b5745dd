# SPDX-License-Identifier: MIT
"""The exposition as a whole: what Prometheus relies on."""

import math
import os
import re
import threading
import time
from pathlib import Path

import pytest

from harness import FRESH, Metrics, run, until

COUNTING = ("ok", "multiplexed")


def totals(metrics):
    return {key: value for key, value in metrics.samples.items() if key[0].endswith("_total")}


def assert_never_decreases(readings):
    for earlier, later in zip(readings, readings[1:]):
        for key, value in totals(earlier).items():
            assert later.samples.get(key, math.inf) >= value, key


@pytest.mark.engines
@pytest.mark.parametrize("looks", [12, pytest.param(60, marks=pytest.mark.deep)])
def test_totals_never_decrease_under_load_and_churn(perfmond, cgroups, work, cpus, looks):
    """Cgroups come, work, go and come again under the same name, while everything is read every 20 ms."""
    daemon = perfmond(f"""
[daemon]
interval = 20ms
[cpu]
groups = load
[cgroup]
groups = load
include = {cgroups.label}/**
per_cpu = yes
[group "load"]
events = task-clock, context-switches, page-faults, cpu-migrations
""")
    steady = work(cgroups.make("steady"), cpus[-1])
    steady.fork()
    label, cpu = cgroups.label + "/steady", str(cpus[-1])

    def switches(metrics):
        return metrics.value("perf_cgroup_context_switches_total", cgroup=label, cpu=cpu)

    until(lambda: daemon.metrics().all("perf_cgroup_context_switches_total", cgroup=label), "it is counted")
    stop = threading.Event()
    problems = []

    def keep_busy():
        while not stop.is_set():
            steady.do("switches 300")
            steady.do("faults 300")

    def churn():
        try:
            for turn in range(1000):
                if stop.is_set():
                    return
                group = cgroups.make(f"churn-{turn % 3}")
                helper = work(group)
                helper.do("faults 20")
                helper.stop()
                group.remove()
        except Exception as error:  # pylint: disable=broad-except
            problems.append(error)

    threads = [threading.Thread(target=keep_busy), threading.Thread(target=churn)]
    for thread in threads:
        thread.start()
    readings = []
    try:
        def enough():
            readings.append(daemon.metrics())
            time.sleep(0.05)
            return len(readings) >= looks and switches(readings[-1]) > switches(readings[0])

        until(enough, f"{looks} readings, and that the one that stays works")
    finally:
        stop.set()
        for thread in threads:
            thread.join()

    assert not problems, problems
    assert_never_decreases(readings)
    assert readings[-1].value("perfmond_readings_refused_total") == 0


@pytest.fixture
def default(shared_perfmond):
    """A daemon with built-in defaults; its configuration does not matter to tests that only look."""
    return shared_perfmond("")


@pytest.fixture
def shared(shared_perfmond, shared_cgroups):
    """One that counts cgroups that tests make."""
    return shared_perfmond(f"[daemon]\ninterval = 200ms\n[cgroup]\ninclude = {shared_cgroups.label}/**\n")


def labels_below(metrics, group):
    return {labels["cgroup"] for labels, _ in metrics.all("perf_cgroup_info")
            if labels["cgroup"].startswith(f"{group.label}/")}


def test_exposition_is_well_formed(default):
    """Built-in defaults, as a scraper sees them."""
    daemon = default
    time.sleep(FRESH)
    answer = daemon.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    metrics = Metrics(answer.text)

    typed = dict(re.findall(r"^# TYPE (\S+) (\S+)$", answer.text, re.M))
    helped = re.findall(r"^# HELP (\S+) (.+)$", answer.text, re.M)
    assert len(typed) == len(re.findall(r"^# TYPE ", answer.text, re.M)), "each family once"
    assert set(typed) == {name for name, _ in helped}
    for name, _ in metrics.samples:
        assert name in typed
        assert (typed[name] == "counter") == name.endswith("_total")
        assert re.fullmatch(r"(perf_cpu|perf_cgroup|perf_event|perfmond|process)_[a-z0-9_]+", name)
    for key, value in metrics.samples.items():
        assert math.isfinite(value) and value >= 0, key
    assert answer.text.endswith("\n")


def test_what_is_there_by_default(default, cpus):
    """The events of both scopes, and the daemon's own numbers."""
    metrics = default.fresh()
    for event in ("context_switches", "cpu_migrations", "page_faults", "major_faults"):
        assert {labels["cpu"] for labels, _ in metrics.all(f"perf_cpu_{event}_total")} == {str(cpu) for cpu in cpus}
        assert metrics.all(f"perf_cgroup_{event}_total"), event
    assert metrics.all("perf_cgroup_task_clock_seconds_total")
    assert metrics.value("perfmond_up") == 1
    build = metrics.all("perfmond_build_info")[0][0]
    assert build["version"] and build["compiler"] and set(build) == {"version", "revision", "compiler", "features"}
    parts = f"with {build['features']}" if build["features"] else "without optional parts"
    assert run("--version").stdout == f"perfmond {build['version']} ({parts})\n"
    for name in ("reads_total", "read_seconds_total", "scrapes_total", "open_events", "max_fds", "cpu_seconds_total",
                 "resident_memory_bytes", "cpus"):
        assert metrics.get(f"perfmond_{name}") is not None, name
    assert metrics.value("perfmond_cpus") == len(cpus)


def test_the_process_is_described_as_the_kernel_does(perfmond):
    """As client libraries tell of a process: compared with the kernel's own files. A daemon of its own: others that ask
    have connections, which come and go."""
    before = time.time()
    daemon, ticks = perfmond(""), os.sysconf("SC_CLK_TCK")
    ready = time.time()

    def look():
        stat = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
        return stat, (int(stat[20]), daemon.resident()), sum(daemon.fds().values())

    def settled():
        """The first scrapes, readings and names take memory: it is compared when it is the same before and after."""
        (_, before, _), found, kernel = look(), daemon.fresh(), look()
        return (found, *kernel) if kernel[1] == pytest.approx(before, rel=0.05) else None

    metrics, stat, (size, resident), nr_fds = until(settled, "its memory stays")
    assert before <= metrics.value("process_start_time_seconds") <= ready
    assert 0 < metrics.value("process_cpu_seconds_total") <= (int(stat[11]) + int(stat[12])) / ticks + 0.1
    assert metrics.value("process_virtual_memory_bytes") == pytest.approx(size, rel=0.1)
    assert metrics.value("process_resident_memory_bytes") == pytest.approx(resident, rel=0.2)
    assert metrics.value("process_open_fds") == pytest.approx(nr_fds, abs=3)
    limits = Path(f"/proc/{daemon.pid}/limits").read_text()
    assert metrics.value("process_max_fds") == int(re.search(r"Max open files +(\d+)", limits)[1])
    assert not metrics.all("process_network_receive_bytes_total"), "that would be the machine's"


def agrees(metrics, scope):
    """There are series of an event where its state says that it is counted, and nowhere else."""
    return bool(metrics.all(f"perf_{scope}_cycles_total")) == (metrics.state("cycles", scope) in COUNTING)


@pytest.mark.parametrize("scope", ["cpu", "cgroup"])
def test_what_is_not_measured_is_absent(shared, own_cgroup, scope):
    """A machine without a PMU: the events have a state and no series. With a PMU: both."""
    daemon = shared
    until(lambda: daemon.metrics().get("perf_cgroup_context_switches_total", cgroup=own_cgroup.label) is not None,
          "the cgroup is counted")
    metrics = daemon.fresh()
    assert metrics.state("context_switches", scope) == "ok"
    if metrics.state("cycles", scope) in (*COUNTING, "never_scheduled"):
        # A state is that of the last interval; the PMU can take up a group, or be taken, in the middle of one.
        until(lambda: agrees(daemon.fresh(), scope), "the state is that of the series")
    else:
        assert agrees(metrics, scope), metrics.state("cycles", scope)


def test_each_state_has_its_reason(default):
    """An event that is ok needs none, unless it is counted in another way than it was configured."""
    for event in default.json("/api/v1/events")["events"]:
        if event["state"] == "ok":
            known = "counted (in parts|without)|left to engine perf"
            assert re.search(known, event["reason"] or "counted without"), event
        elif event["state"] == "multiplexed":
            assert re.search("totals (are estimated|wait)", event["reason"]), event
        else:
            assert event["reason"], event


def test_labels_are_escaped(shared, own_cgroup):
    names = ['qu"ote', "back\\slash", "sp ace", "ünïcode-名", "#hash", "{brace}=,"]
    made = {own_cgroup.make(name).label for name in names}
    until(lambda: labels_below(shared.metrics(), own_cgroup) == made, f"these are counted: {made}")
    rows = shared.json("/api/v1/snapshot", scope="cgroup")["cgroups"]
    assert made <= {row["cgroup"] for row in rows}


def test_a_name_that_is_no_utf8_is_shown_as_one(shared, own_cgroup):
    """A cgroup's name is bytes; a label is UTF-8, and stays one of its own."""
    path = bytes(own_cgroup.path) + b"/\xff\xfe-x"
    os.mkdir(path)
    try:
        labels = until(lambda: labels_below(shared.metrics(), own_cgroup), "it is counted")
        assert len(labels) == 1
        until(lambda: shared.metrics().get("perf_cgroup_context_switches_total", cgroup=min(labels)) is not None,
              "it has series")
    finally:
        os.rmdir(path)


@pytest.mark.parametrize("accept", [None, "*/*", "text/plain;version=0.0.4;q=0.5", "application/json"])
def test_metrics_is_text_for_everyone(default, accept):
    """Whatever they accept."""
    answer = default.get("/metrics", headers={"Accept": accept} if accept else {})
    assert answer.status_code == 200
    assert Metrics(answer.text).value("perfmond_up") == 1
