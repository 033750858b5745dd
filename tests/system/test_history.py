# SPDX-License-Identifier: MIT
"""The past, /api/v1/history: it is what the totals were, it stays over reloads, and it fits its memory."""

import itertools
import os
import re
import shutil
import subprocess
import time
from concurrent import futures

import pytest

import harness
from harness import until
from prometheus import promtool

CONFIG = "[web]\nlisten = 127.0.0.1:0\n[cpu]\ngroups = tasks\n[cgroup]\ngroups = tasks\ninclude = {top}/**\n"
OPENMETRICS = {"Accept": "application/openmetrics-text"}


def past(daemon, **params):
    return daemon.json("/api/v1/history", **params)


def row_of(history, label):
    return next((row for row in history["cgroups"] if row["cgroup"] == label), None)


def sums(history, row):
    """Counts of each event in the whole past, from its rates."""
    return {name: sum(rate * seconds for rate, seconds in zip(rates, history["seconds"]) if rate is not None)
            for name, rates in row["events"].items()}


def blocks_of(path, tmp_path):
    """The samples of a metric that promtool makes of a file: {labels: [(ms, value)]}."""
    blocks = tmp_path / f"{path.name}-blocks"
    done = promtool("tsdb", "create-blocks-from", "openmetrics", path, blocks)
    assert done.returncode == 0, done.stdout + done.stderr
    (blocks / "wal").mkdir()  # as in the database that the blocks are for
    done = promtool("tsdb", "dump", blocks)
    assert done.returncode == 0, done.stderr
    found = {}
    for labels, value, at in re.findall(r"^\{(.*)\} (\S+) (\d+)$", done.stdout, re.M):
        found.setdefault(labels, []).append((int(at), float(value)))
    return found


def wait_slots(daemon, nr):
    return until(lambda: len((history := past(daemon))["times"]) >= nr and history, f"{nr} slots")


@pytest.fixture(scope="module")
def pair(shared_cgroups):
    return [shared_cgroups.make(name) for name in ("a", "b")]


@pytest.fixture
def shared(shared_perfmond, shared_cgroups, pair):
    """For tests that only look."""
    return shared_perfmond(CONFIG.format(top=shared_cgroups.label))


def test_the_slots_add_up_to_the_total(shared, shared_cgroups, work):
    """Of a cgroup that is there from its beginning; ends and lengths of slots fit."""
    wait_slots(shared, 1)
    cgroup = shared_cgroups.make(f"new-{time.monotonic_ns()}")
    until(lambda: shared.metrics().all("perf_cgroup_context_switches_total", cgroup=cgroup.label), "it is counted")
    worker = work(cgroup=cgroup)
    worker.do("faults 1000")

    def add_up():
        """When its last events are in a slot."""
        history, metrics = past(shared), shared.fresh()
        if not row_of(history, cgroup.label):
            return None
        counted, names = sums(history, row_of(history, cgroup.label)), ("page_faults", "task_clock_seconds")
        totals = [metrics.value(f"perf_cgroup_{name}_total", cgroup=cgroup.label) for name in names]
        return totals[0] >= 1000 and counted["page_faults"] == pytest.approx(totals[0], rel=0.001) and \
            counted["task_clock"] == pytest.approx(totals[1], rel=0.01, abs=0.001) and history
    history = until(add_up, "the slots add up to the totals")
    times, seconds = history["times"], history["seconds"]
    assert len(times) == len(seconds) and all(length > 0.8 for length in seconds)
    for before, after, length in zip(times, times[1:], seconds[1:]):
        assert after - before == pytest.approx(length, abs=0.01)
    assert history["timestamp"] == times[-1] <= time.time() + 1


@pytest.mark.deep
@pytest.mark.alone
def test_it_is_what_was_counted(perfmond, cgroups, work):
    """The sum of all slots is the total, of a cgroup that is there from its beginning; ends and lengths fit."""
    daemon = perfmond(CONFIG.format(top=cgroups.label))
    wait_slots(daemon, 1)
    cgroup = cgroups.make("busy")
    until(lambda: daemon.metrics().all("perf_cgroup_context_switches_total"), "it is counted")
    worker = work(cgroup=cgroup)
    worker.begin("ticks 300 3000")
    time.sleep(3.5)
    worker.finish()
    history = wait_slots(daemon, len(past(daemon)["times"]) + 2)
    metrics = daemon.fresh()
    total = metrics.value("perf_cgroup_context_switches_total", cgroup=cgroup.label)
    counted = sums(history, row_of(history, cgroup.label))
    assert total > 300 and counted["context_switches"] == pytest.approx(total, rel=0.02)
    used = metrics.value("perf_cgroup_task_clock_seconds_total", cgroup=cgroup.label)
    assert counted["task_clock"] == pytest.approx(used, rel=0.05, abs=0.01)
    # A second each, one after the other, until now.
    times, seconds = history["times"], history["seconds"]
    assert len(times) == len(seconds) and all(0.8 < length < 3 for length in seconds)
    for before, after, length in zip(times, times[1:], seconds[1:]):
        assert after - before == pytest.approx(length, abs=0.01)
    assert abs(times[-1] - time.time()) < 3 and history["timestamp"] == times[-1]
    # The busiest moment is where it worked.
    rates = row_of(history, cgroup.label)["events"]["context_switches"]
    assert max(rate for rate in rates if rate is not None) == pytest.approx(300, rel=0.4)


def test_a_part_by_scope_cgroup_event_and_time(shared, pair):
    daemon = shared
    history = wait_slots(daemon, 5)
    assert len(history["cpus"]) == len(harness.online_cpus()) and len(history["cgroups"]) >= 2
    assert past(daemon, scope="cpu")["cgroups"] == [] and past(daemon, scope="cgroup")["cpus"] == []
    one = past(daemon, cgroup="**/a", event="context*", scope="cgroup")["cgroups"]
    assert [row["cgroup"] for row in one] == [pair[0].label] and set(one[0]["events"]) == {"context_switches"}
    recent = past(daemon, **{"from": -1.5})  # a slot is longer than half a second
    assert 1 <= len(recent["times"]) <= 2 and recent["times"][-1] == recent["timestamp"]
    # Not of the oldest slots, which become longer ones.
    middle = past(daemon, **{"from": history["times"][-4] - 0.01, "to": history["times"][-2] + 0.01})
    assert middle["times"] == pytest.approx(history["times"][-4:-1], abs=0.01)
    assert past(daemon, to=1)["times"] == []
    # Times are written as in questions about profiles.
    assert past(daemon, **{"from": "-5min"})["times"][0] <= history["times"][0]
    assert len(past(daemon, **{"from": "-1.5s", "to": "now"})["times"]) <= 2
    for query in ("from=-10&to=-20", "from=now&to=-5min", f"from={time.time()}&to=-1h"):
        answer = daemon.get(f"/api/v1/history?{query}")
        assert answer.status_code == 400 and answer.json()["error"] == "from is later than to", query
    for query in ("from=x", "from=5min", "from=", "to=1e3", "to=--1", "limit=3", "sort=cycles", "cgroup=", "scope=all"):
        answer = daemon.get(f"/api/v1/history?{query}")
        assert answer.status_code == 400 and query.split("=", maxsplit=1)[0] in answer.json()["error"], query


def test_the_past_of_removed_cgroups_stays_also_over_a_reload(perfmond, cgroups):
    """A cgroup that is removed keeps its past, and a reload keeps that of all events that stay."""
    cgroup = cgroups.make("short")
    text = CONFIG.format(top=cgroups.label) + "linger = 1s\n"
    daemon = perfmond(text)
    wait_slots(daemon, 2)
    cgroup.remove()
    gone = until(lambda: (row := row_of(past(daemon), cgroup.label)) and row.get("gone") and row, "it is gone")
    assert [rate for rate in gone["events"]["context_switches"] if rate is not None]
    before = past(daemon)["times"]
    daemon.reload(text + "[group \"tasks\"]\nevents = task-clock, context-switches, page-faults, alignment-faults\n")
    after = wait_slots(daemon, len(before) + 2)
    assert after["times"][:len(before)] == pytest.approx(before, abs=0.05)
    assert row_of(after, cgroup.label)["events"]["context_switches"][:2] == pytest.approx(
        gone["events"]["context_switches"][:2])

    def new_event():
        """Of each slot; they are known from the second reading on."""
        faults = past(daemon)["cpus"][0]["events"]["alignment_faults"]
        return faults if faults[-1] is not None else None
    assert until(new_event, "a new event is counted")[0] is None, "it begins where it is new"


@pytest.mark.once
def test_prometheus_takes_the_past(shared, shared_cgroups, work, tmp_path):
    """As blocks of its database, with the same values as those of /metrics at that time."""
    cgroup, daemon = shared_cgroups.make(f'a "quoted" one-{time.monotonic_ns()}'), shared
    until(lambda: daemon.metrics().all("perf_cgroup_page_faults_total", cgroup=cgroup.label), "it is counted")
    work(cgroup=cgroup).do("faults 1000")
    until(lambda: (row := row_of(history := past(daemon), cgroup.label)) and sums(history, row)["page_faults"] >= 1000,
          "its faults are in the past")
    last = past(daemon)["times"][-1]
    until(lambda: past(daemon)["times"][-1] > last, "another slot")
    answer = daemon.get("/api/v1/history", headers=OPENMETRICS)
    total = daemon.fresh().value("perf_cgroup_page_faults_total", cgroup=cgroup.label)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text") and answer.text.endswith("# EOF\n")
    (tmp_path / "past.om").write_text(answer.text, encoding="utf-8")
    label = cgroup.label.replace('"', '\\"')
    found = {labels: samples for labels, samples in blocks_of(tmp_path / "past.om", tmp_path).items()
             if "perf_cgroup_page_faults_total" in labels and label in labels}
    assert found.keys() == {f'__name__="perf_cgroup_page_faults_total", cgroup="{label}"'}
    (samples,) = found.values()
    moments, values = zip(*samples)
    assert len(values) >= 2 and list(values) == sorted(values) and values[-1] == pytest.approx(total, abs=5)
    assert total >= 1000 and list(moments) == sorted(set(moments)) and moments[-1] / 1000 <= time.time() + 1


@pytest.mark.once
@pytest.mark.deep
@pytest.mark.alone
def test_a_record_has_what_was_counted(cgroups, work, tmp_path):
    """--record has what was counted meanwhile, for the database of Prometheus."""
    cgroup = cgroups.make("recorded")
    worker, output = work(cgroup=cgroup), tmp_path / "record.om"
    output.write_text("what was there before, which is longer than nothing" * 1000)
    config = tmp_path / "perfmond.conf"
    config.write_text(harness.with_engine(CONFIG.format(top=cgroups.label)))
    before = cgroup.usage_usec()
    worker.begin("ticks 100 60000")
    done = harness.run(f"--config={config}", f"--record={output}", "--duration=4s")
    worker.process.kill()
    assert done.returncode == 0 and not done.stdout, done.stderr
    found = blocks_of(output, tmp_path)
    used = found[f'__name__="perf_cgroup_task_clock_seconds_total", cgroup="{cgroup.label}"']
    switches = found[f'__name__="perf_cgroup_context_switches_total", cgroup="{cgroup.label}"']
    # A reading that is late by a tenth of a second leaves no room for a point of the next one, which may be the last.
    assert [at for at, _ in used] == [at for at, _ in switches] and used[-1][0] - used[0][0] > 3000
    assert all(890 < after[0] - at[0] < 3000 for at, after in zip(used, used[1:]))
    assert 0 < used[-1][1] <= (cgroup.usage_usec() - before) / 1e6 + 0.05
    seconds, switched = ((switches[-1][i] - switches[0][i]) for i in range(2))
    assert switched / seconds * 1000 == pytest.approx(100, rel=0.5)
    assert switches[-1][0] / 1000 == pytest.approx(time.time(), abs=30)


def check_record(text, labels):
    """It is one whole exposition: each family and each series once, by time, and its end at the end. (The parser of
    prometheus_client compares timestamps wrongly.)"""
    lines = text.splitlines()
    assert len(text) > 4 * 64 * 1024 and text.endswith("\n") and lines.index("# EOF") == len(lines) - 1
    families = [line for line in lines if line.startswith("# TYPE ")]
    assert lines[0] == families[0] and len(set(families)) == len(families)
    samples = [re.fullmatch(r"(\w+\{.*\}) [\d.e+-]+ (\d+(?:\.\d+)?)", line).groups()
               for line in lines if not line.startswith("# ")]
    runs = [(series, [float(at) for _, at in run]) for series, run in itertools.groupby(samples, lambda pair: pair[0])]
    points = dict(runs)
    assert len(points) == len(runs) and all(times == sorted(set(times)) for times in points.values())
    for name in ("task_clock_seconds", "context_switches"):
        assert all(len(points[f'perf_cgroup_{name}_total{{cgroup="{label}"}}']) > 1 for label in labels)


@pytest.mark.once
@pytest.mark.deep
def test_a_large_record_is_written_in_pieces(cgroups, tmp_path):
    """Into a file, and into a pipe."""
    output, fifo = tmp_path / "record.om", tmp_path / "fifo"
    labels = {cgroups.make(f"a-cgroup-with-a-long-name-{i}").label for i in range(700)}
    config = tmp_path / "perfmond.conf"
    config.write_text(harness.with_engine(CONFIG.format(top=cgroups.label)))
    done = harness.run(f"--config={config}", f"--record={output}", "--duration=4s")
    assert done.returncode == 0, done.stderr
    check_record(output.read_text(), labels)
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True) as reader:
        try:
            with futures.ThreadPoolExecutor() as pool:
                text = pool.submit(reader.stdout.read)
                done = harness.run(f"--config={config}", f"--record={fifo}", "--duration=4s")
                assert done.returncode == 0, done.stderr
                check_record(text.result(harness.PATIENCE), labels)
        finally:
            reader.kill()


@pytest.mark.once
def test_a_record_that_is_ended_is_whole(cgroups, work, tmp_path):
    """By a signal. It has what was counted up to there, and takes the place of a file that was longer."""
    cgroup = cgroups.make("a")
    worker = work(cgroup=cgroup)
    config, output = tmp_path / "perfmond.conf", tmp_path / "record.om"
    output.write_text("what was there before, which is longer than nothing" * 1000)
    config.write_text(CONFIG.format(top=cgroups.label) + "[daemon]\ninterval = 100ms\n")

    def record(seconds):
        with subprocess.Popen([harness.PERFMOND, f"--config={config}", f"--record={output}", "--duration=10min"],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                while "recording in" not in (line := process.stderr.readline()):
                    assert line, "it has ended"
                worker.do("faults 1000")
                time.sleep(seconds)
                process.terminate()
                _, errors = process.communicate(timeout=harness.PATIENCE)
            finally:
                process.kill()
        assert process.returncode == 0, errors
        shutil.rmtree(tmp_path / "record.om-blocks", ignore_errors=True)
        return blocks_of(output, tmp_path).get(
            f'__name__="perf_cgroup_page_faults_total", cgroup="{cgroup.label}"', [])
    # Slots are of a second each, or longer on a slow machine.
    samples = next((found for seconds in (2.5, 10, 40) if len(found := record(seconds)) > 1), None)
    assert samples and samples[-1][1] >= 1000, "a record of two slots"


@pytest.mark.once
def test_a_record_ends_after_its_duration_also_into_a_pipe(cgroups, tmp_path):
    label = cgroups.make("a").label
    config, fifo = tmp_path / "perfmond.conf", tmp_path / "fifo"
    config.write_text(CONFIG.format(top=cgroups.label) + "[daemon]\ninterval = 100ms\n")
    os.mkfifo(fifo)
    with subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True) as reader, \
            futures.ThreadPoolExecutor() as pool:
        try:
            text = pool.submit(reader.stdout.read)
            done = harness.run(f"--config={config}", f"--record={fifo}", "--duration=3s", timeout=harness.PATIENCE)
            assert done.returncode == 0 and not done.stdout, done.stderr
            text = text.result(harness.PATIENCE)
        finally:
            reader.kill()
    assert text.endswith("\n# EOF\n") and f'perf_cgroup_task_clock_seconds_total{{cgroup="{label}"}}' in text


@pytest.mark.once
def test_records_that_cannot_be_written_are_refused(tmp_path):
    config = tmp_path / "perfmond.conf"
    config.write_text("[cgroup]\ngroups =\n")
    for args, words in ((["--record"], "requires an argument"),
                        ([f"--record={tmp_path}"], "Is a directory"),
                        (["--record=/nonexistent/x"], "/nonexistent/x: No such file"),
                        (["--record=/dev/full", "--duration=1s"], "/dev/full: No space left"),
                        ([f"--record={tmp_path}/x", "--duration=2h"], "1h at most"),
                        ([f"--record={tmp_path}/x", "--duration=500ms"], "500 ms is too short")):
        done = harness.run(f"--config={config}", *args)
        assert done.returncode == 1 and words in done.stderr and not done.stdout, done.stderr
    for text, words in (("[daemon]\nhistory_memory = 0\n", "history_memory is 0"),
                        ("[cgroup]\ngroups =\n[cpu]\ngroups =\n", "nothing was counted"),
                        ("[daemon]\ninterval = 10s\n", "too short: a point is of 10000 ms")):
        config.write_text(text)
        done = harness.run(f"--config={config}", f"--record={tmp_path}/x", "--duration=1s")
        assert done.returncode == 1 and words in done.stderr, done.stderr


def test_its_memory_has_a_bound(perfmond, cgroups):
    """It is as large as it says, has a bound, and may be nothing."""
    for i in range(40):
        cgroups.make(f"c{i}")
    config = CONFIG.format(top=cgroups.label)
    daemon = perfmond(config)
    wait_slots(daemon, 2)
    metrics = daemon.metrics()
    nr = len(harness.online_cpus()) + 40
    assert metrics.value("perfmond_history_targets") == nr and metrics.value("perfmond_history_left_out") == 0
    size = metrics.value("perfmond_history_bytes")
    columns = len(past(daemon, scope="cgroup")["cgroups"][0]["events"])
    assert size / nr == pytest.approx(1216 * columns, rel=0.15)

    half = int(size / 2)
    daemon.reload(config + f"[daemon]\nhistory_memory = {half}\n")
    until(lambda: daemon.metrics().value("perfmond_history_left_out") > 0, "some are left out")
    metrics = daemon.fresh()
    assert metrics.value("perfmond_history_bytes") <= half
    assert metrics.value("perfmond_history_targets") + metrics.value("perfmond_history_left_out") == nr
    daemon.reload(config + "[daemon]\nhistory_memory = 0\n")
    assert daemon.fresh().value("perfmond_history_bytes") == 0
    history = past(daemon)
    assert history["cpus"] == history["cgroups"] == []


def test_it_is_summed_as_the_snapshot_is(perfmond, cgroups):
    """As the snapshot has them: [cpu] aggregate has one row of all CPUs, [cgroup] per_cpu one for each."""
    cgroups.make("a")
    config = CONFIG.format(top=cgroups.label)
    daemon = perfmond(config.replace("[cgroup]", "aggregate = yes\n[cgroup]\nper_cpu = yes"))
    history = wait_slots(daemon, 3)
    assert len(history["cpus"]) == 1 and "cpu" not in history["cpus"][0]
    assert sorted(row["cpu"] for row in history["cgroups"]) == harness.online_cpus()
    text = daemon.get("/api/v1/history?scope=cpu&event=context*", headers=OPENMETRICS).text
    values = [float(value) for value in re.findall(r"^perf_cpu_context_switches_total (\S+) \S+$", text, re.M)]
    assert len(values) >= 3 and values[-1] > values[0]
    assert values[-1] <= daemon.fresh().value("perf_cpu_context_switches_total")
