# SPDX-License-Identifier: MIT
"""The formats of an exposition, how they are sent, and rates that mean something."""

import gzip
import json
import os
import random
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

import metric_families
from harness import FRESH, PATIENCE, Delta, Metrics, Stalls, until

OPENMETRICS = "application/openmetrics-text;version=1.0.0,*/*;q=0.1"
NASTY = ['qu"ote', "back\\slash", "ünïcode-名", "{brace}=,"]


def get(daemon, path="/metrics", **headers):
    """The answer as it is sent: neither asked for compressed nor decompressed by the client."""
    answer = requests.get(daemon.url + path, headers={"Accept-Encoding": None, **headers}, stream=True,
                          timeout=PATIENCE)
    assert answer.status_code == 200
    answer.body = answer.raw.read(decode_content=False)
    return answer


def series_of(text):
    """{name{labels}: value}; no series is there twice, and no family in two pieces or twice."""
    found, family, ended = {}, None, set()
    for line in text.splitlines():
        if line.startswith("#"):
            if line != "# EOF" and (name := line.split(" ")[2]) != family:
                assert name not in ended, f"{name} is split"
                ended.add(name)
                family = name
            continue
        series, _, value = line.rpartition(" ")
        assert series not in found, f"{series} is there twice"
        assert series.startswith(family), f"{series} is not of {family}"
        found[series] = float(value)
    return found


TIMED = pytest.param(True, marks=(pytest.mark.deep, pytest.mark.alone))


@pytest.fixture(scope="module")
def nasty(shared_cgroups):
    top = shared_cgroups.make("nasty")
    for name in NASTY:
        top.make(name)
    return top.label


@pytest.fixture
def daemon(shared_perfmond, nasty):
    """For tests that only look."""
    return shared_perfmond(f"""
[daemon]
interval = 1h
[cpu]
groups = software odd
[cgroup]
groups = software odd
include = {nasty}/**
[group "odd"]
events = a=context-switches, a_total=page-faults, a_created=minor-faults, time=task-clock,
  a_peak_per_second=alignment-faults
""")


def test_openmetrics_is_well_formed(daemon):
    answer = get(daemon, Accept=OPENMETRICS)
    assert answer.headers["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    text = answer.body.decode()
    assert text.endswith("\n# EOF\n")
    families = {family.name: family for family in parse_openmetrics(text)}
    for family in families.values():
        assert family.samples and family.documentation, family.name
        assert family.unit == "" or family.name.endswith("_" + family.unit)
        assert family.type in ("counter", "gauge", "info", "unknown")
        if family.type == "counter":
            assert all(sample.name == family.name + "_total" for sample in family.samples)
    assert families["perf_cgroup"].type == "info"
    assert families["perf_cgroup_time_seconds"].unit == "seconds"
    assert families["perfmond_resident_memory_bytes"].unit == "bytes"
    assert families["perf_cgroup_a_total_total"].type == "unknown"


def labels_of_events(nr):
    """{label: event} of so many, that the config admits together: made of the words that formats give a meaning."""
    chance, found, metrics, taken = random.Random(7), {}, set(), {"descendants", "group_enabled_seconds"}
    series = set(taken)
    words = ("a", "b", "total", "created", "info", "seconds", "bytes", "peak_per_second", "count", "sum", "bucket",
             "gcount", "gsum", "descendants", "group_enabled", "1")
    while len(found) < nr:
        label = "_".join(chance.choices(words, k=chance.randint(1, 4))).replace("_", chance.choice("_-"))
        event = chance.choice(("page-faults", "task-clock"))
        metric = name = label.replace("-", "_")
        if event == "task-clock" and not re.search("(^|_)seconds$", name):
            name += "_seconds"
        if not label[0].isdigit() and name not in series and metric not in metrics:
            found[label] = event
            series.add(name)
            metrics.add(metric)
    return found, series - taken


def test_openmetrics_is_well_formed_whatever_events_are_called(shared_perfmond, nasty):
    """In /metrics and in the past: a strict parser takes both, and a family begins with the same lines in both."""
    found, series = labels_of_events(80)
    daemon = shared_perfmond(f"""
[web]
created = yes
peaks = yes
[cpu]
groups = odd
[cgroup]
groups = odd
include = {nasty}/*
[group "odd"]
events = {", ".join(f"{label}={event}" for label, event in found.items())}
""")
    totals = {f"perf_{scope}_{name}_total" for scope in ("cpu", "cgroup") for name in series}

    def past():
        text = get(daemon, "/api/v1/history", Accept=OPENMETRICS).body.decode()
        # The parser of Debian 12 compares fractions of seconds apart from their seconds: it gets whole milliseconds.
        text = re.sub(r"(?<= )[\d.]+$", lambda time: f"{float(time[0]) * 1000:.0f}", text, flags=re.M)
        families = list(parse_openmetrics(text))
        return {family.name: family for family in families} if len(families) == len(totals) else None
    old = until(past, "all events have a past")
    assert {sample.name for family in old.values() for sample in family.samples} == totals
    new = {family.name: family for family in parse_openmetrics(get(daemon, Accept=OPENMETRICS).body.decode())}
    assert totals <= {sample.name for family in new.values() for sample in family.samples}
    for name, family in old.items():
        assert [family.type, family.unit, family.documentation] == [
            new[name].type, new[name].unit, new[name].documentation], name


def test_the_formats_agree(daemon):
    """The same series under the same names, whichever format is asked for."""
    opened = series_of(get(daemon, Accept=OPENMETRICS).body.decode())
    plain = series_of(get(daemon).body.decode())
    assert opened.keys() == plain.keys()
    assert all(plain[name] >= opened[name] for name in plain if name.partition("{")[0].endswith("_total"))
    labels = set(re.findall(r'cgroup="((?:[^"\\]|\\.)*)"', "\n".join(plain)))
    assert len(labels) == len(NASTY)


def test_the_protobuf_format_says_what_the_text_says(daemon):
    """All families and all of their samples, to the last bit, and the same help and types."""
    def of_one_reading():
        before, answer, after = (get(daemon, **headers) for headers in
                                 ({}, {"Accept": metric_families.ACCEPT}, {}))
        return (before.body.decode(), answer) if before.body == after.body else None
    text, answer = until(of_one_reading, "both formats of one reading")
    assert answer.headers["Content-Type"] == (
        "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited")
    found = list(metric_families.families(answer.body))
    names = [family.name for family in found]
    assert len(set(names)) == len(names)
    assert {(family.name, labels): value for family in found for labels, value in family.samples.items()} == \
        Metrics(text).samples
    comments = re.findall("^# HELP (.*)\n# TYPE (.*)$", text, re.M)
    assert [(f"{family.name} {family.help}", f"{family.name} {('counter', 'gauge')[family.type]}")
            for family in found] == [(help.replace("\\\\", "\\"), kind) for help, kind in comments]
    compressed = get(daemon, **{"Accept": metric_families.ACCEPT, "Accept-Encoding": "gzip"})
    assert [family.name for family in metric_families.families(gzip.decompress(compressed.body))] == names
    # A client that says only half of it gets what it can read for certain.
    assert get(daemon, Accept="application/vnd.google.protobuf").headers["Content-Type"].startswith("text/plain")


def test_created_and_peaks_are_for_who_wants_them(daemon, perfmond, cgroups):
    """By [web] created and peaks; created only in OpenMetrics, and the same over a reload."""
    text = get(daemon, Accept=OPENMETRICS).body.decode()
    assert "_created{" not in re.sub("a_created", "", text) and "context_switches_peak_per_second" not in text
    cgroups.make("a")
    before, name = time.time(), "perf_cgroup_context_switches"
    daemon = perfmond(f"[daemon]\ninterval = 200ms\n[cgroup]\ninclude = {cgroups.label}/**\n"
                      "[web]\nlisten = 127.0.0.1:0\ncreated = yes\npeaks = yes\n")
    until(lambda: daemon.metrics().all(name + "_peak_per_second"), "the first interval")
    text = get(daemon, Accept=OPENMETRICS).body.decode()
    series_of(text)
    families = {family.name: family for family in parse_openmetrics(text)}
    began = [sample.value for sample in families[name].samples if sample.name == name + "_created"]
    assert began and all(before - 60 < value < time.time() + 1 for value in began)
    assert families[name + "_peak_per_second"].type == "gauge"
    assert "_created" not in get(daemon).body.decode()
    daemon.reload(daemon.config_path.read_text() + "[cpu]\naggregate = yes\n")
    again = {family.name: family for family in parse_openmetrics(get(daemon, Accept=OPENMETRICS).body.decode())}
    assert [sample.value for sample in again[name].samples if sample.name == name + "_created"] == began


@pytest.mark.parametrize("accept", [OPENMETRICS, "*/*"])
def test_gzip_for_who_accepts_it(daemon, accept):
    headers = {"Accept": accept, "Accept-Encoding": "deflate, gzip;q=0.9"}
    packed = get(daemon, **headers)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept, Accept-Encoding"
    assert packed.headers["Cache-Control"] == "no-store"
    assert series_of(gzip.decompress(packed.body).decode())
    assert len(packed.body) < len(gzip.decompress(packed.body)) / 3
    head = requests.head(daemon.url + "/metrics", headers=headers, timeout=PATIENCE)
    for name in ("Content-Type", "Content-Encoding", "Vary", "Cache-Control"):
        assert head.headers[name] == packed.headers[name]
    assert int(head.headers["Content-Length"]) > 100


def test_no_gzip_for_who_does_not_want_it(daemon):
    for encoding in ("gzip;q=0", "identity", "br", "gzip;q=0.5, identity;q=1", "*;q=0"):
        answer = get(daemon, **{"Accept-Encoding": encoding})
        assert "Content-Encoding" not in answer.headers, encoding
        assert Metrics(answer.body.decode()).value("perfmond_up") == 1


def test_one_connection_for_many_scrapes(daemon):
    """Keep-alive, whatever was asked for before."""
    host, _, port = daemon.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as s, s.makefile("rb") as stream:
        for turn in range(12):
            method = ("GET", "GET", "HEAD")[turn % 3]
            encoding = ("gzip", "identity")[turn % 2]
            accept = (OPENMETRICS, "*/*")[turn // 2 % 2]
            s.sendall(f"{method} /metrics HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n"
                      f"Accept-Encoding: {encoding}\r\n\r\n".encode())
            assert stream.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = dict(line.decode().strip().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
            body = stream.read(int(headers["Content-Length"])) if method == "GET" else b""
            assert ("Content-Encoding" in headers) == (encoding == "gzip")
            assert ("openmetrics" in headers["Content-Type"]) == (accept == OPENMETRICS)
            if body and encoding == "gzip":
                body = gzip.decompress(body)
            assert not body or body.endswith(b"# EOF\n") == (accept == OPENMETRICS)


def test_what_two_ask_for_within_100_ms_is_written_once(daemon):
    """Both get the same bytes, in which each rendering has its own number."""
    until(lambda: get(daemon).body == get(daemon).body, "two answers are one rendering")


@pytest.mark.deep
@pytest.mark.alone
def test_what_many_ask_for_is_written_once(daemon):
    """Ten clients at once, of two kinds, again and again: two renderings of each reading, and one in 100 ms."""
    before, start = daemon.fresh(), time.monotonic()
    answers, problems = [], []

    def scrape(i, together):
        try:
            together.wait()
            answers.append(get(daemon, Accept=OPENMETRICS if i % 2 else "text/plain").body)
        except Exception as error:  # pylint: disable=broad-except
            problems.append(error)

    for _ in range(5):
        time.sleep(FRESH)
        together = threading.Barrier(10)
        threads = [threading.Thread(target=scrape, args=(i, together)) for i in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not problems, problems[0]
    delta, elapsed = Delta(before, daemon.fresh()), time.monotonic() - start
    served, written, reads = (delta.of(f"perfmond_{what}_total") for what in ("scrapes", "renderings", "reads"))
    assert served == 51, "one more is `before` itself"
    assert reads <= elapsed / 0.1 + 2
    assert written <= 2 * reads
    assert 2 <= len(set(answers)) <= written < served, "what is shared is the same"


def test_filters_are_not_shared(daemon):
    time.sleep(FRESH)
    rows = [json.loads(get(daemon, f"/api/v1/snapshot?limit={limit}&scope=cgroup").body)["cgroups"]
            for limit in (1, 2, 1)]
    assert [len(part) for part in rows] == [1, 2, 1]
    assert len(json.loads(get(daemon, "/api/v1/snapshot").body)["cgroups"]) == len(NASTY)


# --- rates


def event_of(daemon, group, event="page_faults"):
    rows = daemon.json("/api/v1/snapshot", cgroup=group.label, scope="cgroup")["cgroups"]
    return rows[0]["events"].get(event) if rows else None


def wait_quiet(daemon, group, helper):
    """The helper's start, and a fault, are in intervals already: the first that has a rate is counted all along."""
    until(lambda: (event_of(daemon, group) or {}).get("rate") is not None, "its rate is known")
    helper.do("faults 1")
    return until(lambda: (event := event_of(daemon, group))["rate"] == 0 and event["rate_1m"] > 0 and event,
                 "it is counted, and quiet")


@pytest.fixture
def counted(shared_perfmond, shared_cgroups, work, cpus, request):
    """A daemon that reads every 100 ms, and a helper in a cgroup of which intervals are known."""
    top = shared_cgroups.path / "rates"
    if not top.exists():
        shared_cgroups.make("rates")
    daemon = shared_perfmond(f"[daemon]\ninterval = 100ms\n[cgroup]\ninclude = {shared_cgroups.label}/rates/*\n")
    group = shared_cgroups.make(f"rates/{abs(hash(request.node.name))}")
    helper = work(group, cpus[0])
    wait_quiet(daemon, group, helper)
    return daemon, group, helper


def test_a_burst_is_in_the_peak_and_the_averages(counted):
    """Page faults within an instant: when the rate is 0 again, the peak and the averages tell that there were some."""
    daemon, group, helper = counted
    before = event_of(daemon, group)
    helper.do("faults 20000")
    after = until(lambda: (event := event_of(daemon, group))["rate_peak"] > before["rate_peak"] and
                  event["rate"] == 0 and event["total"] >= before["total"] + 20000 and event, "the burst is over")
    # The time that is known is less than a minute, for which the average is that of all of it.
    assert after["rate_peak"] > after["rate_1m"] > 0 and after["rate_5m"] > 0
    machine = [row["events"]["page_faults"]["rate_peak"] for row in daemon.json("/api/v1/snapshot")["cpus"]]
    assert sum(machine) > 0


@pytest.mark.deep
@pytest.mark.alone
def test_a_burst_that_a_scrape_does_not_see(counted, work):
    """2,000 page faults within an instant: two seconds later, the rate is 0 again and the peak says what there was."""
    daemon, group, helper = counted
    before, stalls = event_of(daemon, group), Stalls(work)
    helper.do("faults 2000")
    time.sleep(2)
    until(lambda: event_of(daemon, group)["rate"] == 0, "it is over")
    stall, after = stalls.end(), event_of(daemon, group)
    assert after["total"] >= before["total"] + 2000
    # All of them in one interval of 100 ms, or in two; an interval may come late on a busy machine.
    least = 2000 / 2 / (0.5 + stall)
    assert after["rate_peak"] >= least
    assert 0 < after["rate_5m"] and (stall > 0.3 or after["rate_5m"] < after["rate_peak"] / 3)
    machine = [row["events"]["page_faults"]["rate_peak"] for row in daemon.json("/api/v1/snapshot")["cpus"]]
    assert sum(machine) >= least


@pytest.mark.deep
@pytest.mark.alone
def test_averages_are_those_of_the_time_known(counted):
    """As long as less than a minute is known, the average is all events by all the time."""
    daemon, group, helper = counted
    # Each answer is of some time while it was asked for.
    earliest, before, start = time.monotonic(), event_of(daemon, group), time.monotonic()
    helper.do("faults 5000")
    time.sleep(3)
    end, after, latest = time.monotonic(), event_of(daemon, group), time.monotonic()
    faults = after["total"] - before["total"]
    # The time before, until it was seen to be quiet, counts as well.
    assert faults / (latest - earliest) / 3 < after["rate_1m"] <= faults / (end - start) * 1.2
    assert after["rate_5m"] == pytest.approx(after["rate_1m"], rel=0.05)


# epoll_wait(2), epoll_pwait(2), epoll_pwait2(2).
WAITS = {"x86_64": {"232", "281", "441"}, "aarch64": {"22", "441"}}[os.uname().machine]


def stop_while_it_waits(daemon):
    """SIGSTOP, but not in the midst of a reading, whose interval has ended already. When that was."""
    proc = Path(f"/proc/{daemon.pid}")

    def stopped():
        start = time.monotonic()
        daemon.process.send_signal(signal.SIGSTOP)
        until(lambda: (proc / "stat").read_text().rpartition(")")[2].split()[0] == "T", "it is stopped")
        if (proc / "syscall").read_text().split()[0] in WAITS:
            return start
        daemon.process.send_signal(signal.SIGCONT)
        return None
    return until(stopped, "it is stopped while it waits")


@pytest.mark.parametrize("timed", [False, TIMED])
def test_a_stopped_daemon_has_a_long_interval(counted, timed):
    """SIGSTOP for two seconds, with 3,000 faults meanwhile: an interval of two seconds, not one of 100 ms."""
    daemon, group, helper = counted
    quiet = event_of(daemon, group)["rate_peak"]
    start = stop_while_it_waits(daemon)
    try:
        helper.do("faults 3000")
        time.sleep(2)
    finally:
        daemon.process.send_signal(signal.SIGCONT)
    total = event_of(daemon, group)["total"]
    until(lambda: event_of(daemon, group)["rate"] == 0, "the next interval")
    # It had begun up to 100 ms before, or more on a busy machine.
    longest = time.monotonic() - start + 1
    after = event_of(daemon, group)
    assert after["total"] == total
    assert max(quiet, 3000 / longest if timed else 0) <= after["rate_peak"] <= max(quiet, 1600)


def test_rates_stay_over_a_reload(perfmond, cgroups, work):
    group = cgroups.make("a")
    daemon = perfmond(f"[daemon]\ninterval = 100ms\n[cgroup]\ninclude = {cgroups.label}/**\n")
    helper = work(group)
    quiet = wait_quiet(daemon, group, helper)
    helper.do("faults 20000")
    # All of it: an average changes when an interval ends, and that one ends behind the burst.
    before = until(lambda: (event := event_of(daemon, group))["rate"] == 0 and
                   event["total"] >= quiet["total"] + 20000 and event["rate_peak"] > quiet["rate_peak"] and event,
                   "the burst is seen, and over")
    daemon.reload(daemon.config_path.read_text() + "[cpu]\naggregate = yes\n")
    after = event_of(daemon, group)
    assert after["rate_peak"] == pytest.approx(before["rate_peak"], rel=0.01)
    assert after["rate_5m"] is not None


def test_rates_are_not_known_at_first(shared_perfmond, nasty):
    daemon = shared_perfmond(f"[daemon]\ninterval = 1h\n[cgroup]\ninclude = {nasty}/**\n")
    row = until(lambda: daemon.json("/api/v1/snapshot", scope="cgroup")["cgroups"], "it is counted")[0]
    assert [row["events"]["page_faults"][key] for key in ("rate", "rate_1m", "rate_5m", "rate_peak")] == [None] * 4
