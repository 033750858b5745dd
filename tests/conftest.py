# SPDX-License-Identifier: MIT
"""How tests of all suites are chosen, skipped, repeated and recorded.

A test is part of the gate, or marked `deep`. Marks say what it needs, and whether it has to run alone. A file of tests
runs in one worker, in its order; nspawn, package and container have one machine for all of their files. Whole suites
are deep.

./dev test (lib/runner.py) gives --record: a file that gets a line of JSON for each result; and, to the deep suites,
DEEP_END: the time (Unix, seconds) after which a test is not begun any more, but skipped.
"""

import itertools
import json
import os
import re
import time
from pathlib import Path

import pytest

import machine

TESTS = Path(__file__).resolve().parent
ONE_MACHINE = ("nspawn", "package", "container")
DEEP = ("guest", "hardware", *ONE_MACHINE)
turns = itertools.cycle(("perf", "bpf"))


def pytest_addoption(parser):
    parser.addoption("--repeat", type=int, default=1, metavar="N", help="run each test N times")
    parser.addoption("--record", metavar="FILE", help="a line of JSON for each result")


def pytest_configure(config):
    machine.abilities()
    if config.getoption("record") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(config.getoption("record")))


class Record:
    """Results, where those of all workers come together."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8", buffering=1)  # pylint: disable=consider-using-with

    def write(self, name, verdict, why, seconds):
        print(json.dumps([name, verdict, why, round(seconds, 2)]), file=self.file)

    def pytest_runtest_logreport(self, report):
        """A test is its call; or what went wrong before or after it."""
        if report.when == "call" or report.outcome != "passed":
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
            name = re.sub(r"@\w+$", "", report.nodeid)  # xdist adds the group
            self.write(f"tests/{name}", report.outcome, why.removeprefix("Skipped: "), report.duration)

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(f"tests/{report.nodeid}", "failed", str(report.longrepr), 0)


def pytest_generate_tests(metafunc):
    import harness  # not where only files are looked at
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    if "engines" in marks and "any_engine" not in marks and not harness.Engine.whole_run:
        names = [next(turns)] if harness.SANITIZED else harness.Engine.NAMES
        if "one_engine" in marks and not harness.SANITIZED:
            first, second = reversed(names) if not machine.why_lacks("bpf") else names
            names = [first, pytest.param(second, marks=pytest.mark.deep)]
        metafunc.parametrize("engine", names, indirect=True)
    if (repeat := metafunc.config.getoption("repeat")) > 1:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(repeat))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Before pytest chooses by marks. What has one machine begins first, then what builds, then the longest files."""
    for item in items:
        suite = item.path.relative_to(TESTS).parts[0]
        item.add_marker(pytest.mark.xdist_group(suite if suite in ONE_MACHINE else item.path.stem))
        if suite in DEEP:
            item.add_marker(pytest.mark.deep)
        # A PMU's counters are few.
        if suite == "hardware" or "whole_machine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.alone)
    def order(item):
        is_one = item.path.parent.name in ONE_MACHINE
        return not is_one, item.path.parent.name == "system", 0 if is_one else -item.path.stat().st_size, item.path
    items.sort(key=order)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if time.time() > float(os.environ.get("DEEP_END", "inf")):
        pytest.skip("not run: no time was left")
    for mark in reversed(list(item.iter_markers("needs"))):
        machine.require(*mark.args)
