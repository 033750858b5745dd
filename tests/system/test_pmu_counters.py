# SPDX-License-Identifier: MIT
"""How many counters the PMU has, and how many of them count, where the daemon shows it. Machines differ, and many have
no PMU: then nothing is claimed. What the numbers have to be, tests/hardware asks the kernel."""

import re

import pytest

import pmu
from harness import run

SENTENCE = re.compile(r"^PMU (\S+): (\d+) counters?, of which (?:only )?(\d+) counts? at once", re.M)


@pytest.fixture
def daemon(shared_perfmond):
    return shared_perfmond("")


def by_status(daemon):
    """(advertised, usable) of each PMU that was tested."""
    tested = {found["name"]: found["counters"] for found in daemon.json("/api/v1/status")["pmus"] if found["counters"]}
    return {name: (counters["advertised"], counters["usable"]) for name, counters in tested.items()}


def of_metrics(daemon):
    found = daemon.metrics().all("perfmond_pmu_counters")
    numbers = {(labels["pmu"], labels["kind"]): value for labels, value in found}
    return {name: (numbers[name, "advertised"], numbers[name, "usable"]) for name, _ in numbers}


def test_the_counters_are_shown_where_there_is_a_pmu(daemon):
    """And nowhere else."""
    shown = by_status(daemon)
    kinds = {found["name"]: found["kind"] for found in daemon.json("/api/v1/status")["pmus"]}
    assert all(kinds[name] == "core" and 1 <= usable <= advertised for name, (advertised, usable) in shown.items())
    assert bool(shown) == (pmu.why_none() is None), pmu.why_none()


def test_the_counters_are_the_same_everywhere(daemon, tmp_path):
    """In the status, the metrics, the problems and --check."""
    shown = by_status(daemon)
    assert of_metrics(daemon) == shown
    still = daemon.metrics().value("perfmond_pmu_lies_total", kind="still")
    assert still == sum(advertised - usable for advertised, usable in shown.values())
    config = tmp_path / "perfmond.conf"
    config.write_text("[cgroup]\ngroups =\n", encoding="utf-8")
    check = run("--check", f"--config={config}").stdout
    assert {name: (int(advertised), int(usable)) for name, advertised, usable in SENTENCE.findall(check)} == shown
    problems = " ".join(daemon.json("/api/v1/status")["problems"])
    for name, (advertised, usable) in shown.items():
        assert (f"PMU {name}:" in problems) == (usable < advertised)


def test_the_counters_stay_over_reloads(perfmond):
    """Its own events have counters by then."""
    daemon = perfmond("")
    shown = by_status(daemon)
    for _ in range(3):
        daemon.reload(daemon.config_path.read_text())
        assert of_metrics(daemon) == shown
