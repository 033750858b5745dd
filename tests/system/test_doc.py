# SPDX-License-Identifier: MIT
"""What the documents say is so."""

import json
import re
from pathlib import Path

import pytest

import harness
import machine
import pmu
from harness import until

TOP = Path(__file__).parents[2]
pytestmark = pytest.mark.once


def table(text, heading):
    """The rows of the first table below a heading, each a list of its cells."""
    section = re.split(rf"^##+ {re.escape(heading)}$", text, maxsplit=1, flags=re.M)[1]
    rows = re.search(r"^(?:\|.*\|\n)+", section, re.M)[0].splitlines()
    assert section.count("\n|", 0, section.find("\n#")) == len(rows), f"{heading}: one table, and no row beside it"
    return [[cell.strip() for cell in row[1:-1].split(" |")] for row in rows[2:]]


def events_of(cell):
    return re.findall(r"`([^`]+)`", cell)


EVENTS = (TOP / "doc/events.md").read_text(encoding="utf-8")
METRICS = (TOP / "doc/metrics.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", table(EVENTS, "Kinds"), ids=lambda row: row[0].split()[0])
def test_examples_are_events(row, tmp_path):
    """An example may be absent here, but is never refused, unless this build or CPU knows no such names."""
    assert len(row) == 6, row
    examples = events_of(row[2])
    assert examples
    config = tmp_path / "doc.conf"
    for example in examples:
        config.write_text(f'[cpu]\ngroups = g\n[cgroup]\ngroups =\n[group "g"]\nevents = {example}\n', encoding="utf-8")
        done = harness.run(f"--config={config}", "--check")
        if row[0] == "libpfm" and "unknown event" in done.stderr:
            continue
        assert done.returncode in (0, 2), f"{example}: {done.stderr}"
        assert re.search(rf"^  g +{re.escape(example)} +\w+( \[\d+\])?$", done.stdout, re.M), done.stdout


def test_all_modifiers_are_in_the_table(tmp_path):
    """Each modifier of the table is one, and all there are stand in it."""
    letters = {name[0] for row in table(EVENTS, "Modifiers") for name in events_of(row[0])}
    config = tmp_path / "doc.conf"
    config.write_text('[cpu]\ngroups = g\n[group "g"]\nevents = cycles:x\n', encoding="utf-8")
    refused = harness.run(f"--config={config}", "--check").stderr
    assert letters == set(re.search(r"there are (.*)", refused)[1].replace(" and ", ", ").split(", ")), refused


def test_all_states_are_in_the_table():
    states = {events_of(row[0])[0] for row in table(EVENTS, "States")}
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(TOP.glob("daemon/counting/plan/*.c")))
    assert states == set(re.findall(r"\[EVENT_\w+\] = \"(\w+)\"", source))


# --- --check

def shape(line):
    """Without what is of one machine."""
    return re.sub(r"\d+", "N", re.sub(r" at \S+;", " at PATH;", line))


def test_the_sample_of_check_is_as_printed(privileged, tmp_path):
    """The first sample has the lines of --check with the default config, in their order and with their words."""
    text = (TOP / "doc/troubleshooting.md").read_text(encoding="utf-8")
    sample = re.search(r"^## What --check prints$.*?^```\n(.*?)^```$", text, re.M | re.S)[1]
    config = tmp_path / "perfmond.conf"
    config.write_text("")
    output = harness.run("--check", f"--config={config}").stdout
    heads = [[line for line in text.partition("\n\n")[0].splitlines() if not re.match("PMU |NMI |  problem", line)]
             for text in (sample, output)]
    if machine.why_lacks("bpf"):
        heads = [[line for line in head if not line.startswith("  ")] for head in heads]
    assert [line.partition(":")[0] for line in heads[0]] == [line.partition(":")[0] for line in heads[1]], output
    for documented, line in zip(*heads):
        if line.startswith(("cgroups:", "  ", "profiles:", "open files:")):
            assert shape(documented) == shape(line)
    # The rest: headings, and events of them.
    documented, found = ([line for line in text.partition("\n\n")[2].splitlines() if line != "  …"]
                         for text in (sample, output))
    # A cgroup of another test that ends meanwhile is listed too: a line without columns.
    events = {columns[1] for line in found if line.startswith("  ")
              for columns in [re.split(r"  +", line.strip())] if len(columns) > 1}
    for line in documented:
        if line.startswith("  "):
            assert re.split(r"  +", line.strip())[1] in events, line
    assert [line for line in documented if line.startswith("per ")] == ["per CPU:", "per cgroup:"]
    assert [line for line in found if line.startswith("per ")] == ["per CPU:", "per cgroup:"]


# --- metrics

# Configs that together have every metric, and the labels of cgroups that say who they are.
CONFIGS = ["[capture \"storm\"]\nwhen = context-switches > 1000000000\n[cgroup]\nengine = auto\n",
           "[web]\nlisten = 127.0.0.1:0\npeaks = yes\n[cgroup]\nper_cpu = yes\n"]
CONTAINER = "kubepods-pod12345678_1234_1234_1234_123456789abc.slice/cri-containerd-" + 64 * "a" + ".scope"
# Of machines with several core PMUs, or with uncore PMUs.
OTHER_MACHINES = {"pmu", "package", "die"}
OF_A_PMU = {"perfmond_pmu_counters", "perf_cpu_group_running_seconds_total", "perf_cgroup_group_running_seconds_total"}


class Documented:
    """A row of a table of metrics."""

    def __init__(self, row):
        assert len(row) == 5, row
        (self.name,), (self.type, labels, self.unit) = events_of(row[0]), row[1:4]
        always, _, sometimes = labels.partition("(")
        self.always, self.sometimes = set(events_of(always)), set(events_of(sometimes))
        self.pattern = re.escape(self.name).replace("<event>", r"\w+")
        self.samples, self.seen = 0, set()

    def take(self, labels):
        assert self.always <= labels <= self.always | self.sometimes, f"{self.name}: {labels}"
        self.samples, self.seen = self.samples + 1, self.seen | labels


def find(documented, name):
    """The row of a metric: its own, or else that of its kind."""
    rows = [row for row in documented if row.name == name] or \
           [row for row in documented if re.fullmatch(row.pattern, name)]
    assert len(rows) == 1, f"{name} is in {len(rows)} rows of doc/metrics.md"
    return rows[0]


def test_all_metrics_and_labels_are_in_the_tables(perfmond, cgroups, tmp_path):
    """All that the daemon shows stands in the tables, with its type and labels, and nothing else does."""
    documented = [Documented(row) for heading in ("Counted events", "The daemon's own")
                  for row in table(METRICS, heading)]
    slice_, scope_ = CONTAINER.split("/")
    cgroups.make(slice_).make(scope_)
    cgroups.make("a.service")
    cgroups.make("machine-a.scope")
    bundle = tmp_path / CONTAINER.removesuffix(".scope").rpartition("-")[2] / "userdata"
    bundle.mkdir(parents=True)
    bundle.joinpath("config.json").write_text(json.dumps({"annotations": {
        "io.kubernetes.cri.sandbox-namespace": "a", "io.kubernetes.cri.sandbox-name": "b",
        "io.kubernetes.cri.container-name": "c", "io.kubernetes.cri.image-name": "d"}}))
    cgroup_states, reasons = set(), set()
    for config in CONFIGS:
        daemon = perfmond(f"{config}include = {cgroups.label}/**\ncontainer_files = {tmp_path}\n")
        until(lambda: daemon.metrics().all("perf_cgroup_info", image="d"), "names")
        if "peaks" in config:
            until(lambda: all(f"perf_{scope}_page_faults_peak" in daemon.metrics().text for scope in ("cpu", "cgroup")),
                  "an interval, for its peak")
        metrics = daemon.fresh()
        types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", metrics.text, re.M))
        for name, labels in metrics.samples:
            row = find(documented, name)
            row.take({label for label, _ in labels})
            assert row.type == types[name], name
            cgroup_states |= {value for label, value in labels if name == "perfmond_cgroups" and label == "state"}
            reasons |= {(value, name) for label, value in labels if label == "reason"}
    lacking = OF_A_PMU if pmu.why_none() else set()
    assert not any(row.samples for row in documented if row.name in lacking)
    for row in documented:
        if row.name not in lacking:
            assert row.samples, f"there is no {row.name}"
            assert row.seen | OTHER_MACHINES >= row.always | row.sometimes, f"{row.name} has only {row.seen}"
        base = row.name.removesuffix("_total").rpartition("_")[2]
        unit = base if base in ("seconds", "bytes") else ""
        assert row.unit == unit or row.unit.startswith("the event's"), row.name
    assert cgroup_states == {events_of(row[0])[0] for row in table(METRICS, "Cgroups")}
    assert reasons == {tuple(events_of(row[0]) + events_of(row[1])) for row in table(METRICS, "Connections")}
    labels = {label for row in table(METRICS, "Labels") for label in events_of(row[0])}
    assert labels == set().union(*(row.always | row.sometimes for row in documented)) - \
        {"version", "revision", "compiler", "features"}


def test_events_of_the_default_config_are_in_the_table(perfmond):
    rows = table(METRICS, "The default config's")
    documented = {(scope, events_of(row[0])[0], row[2] or None) for row in rows for scope in events_of(row[1])}
    found = {(event["scope"], event["event"], event["unit"])
             for event in perfmond("").json("/api/v1/events")["events"]}
    assert documented == found


def test_all_units_and_states_of_metrics_are_in_the_tables():
    units = {row[0] for row in table(METRICS, "Units")}
    source = (TOP / "daemon/counting/event/unit.c").read_text()
    assert units == set(re.findall(r"\[EVENT_UNIT_\w+\] = \"(\w+)\"", source))
    states = [name for row in table(METRICS, "States") for name in events_of(row[0])]
    assert sorted(states) == sorted(name for row in table(EVENTS, "States") for name in events_of(row[0]))
