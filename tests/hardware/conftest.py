# SPDX-License-Identifier: MIT
"""Fixtures of the tests that need a real PMU: those of the system tests. Where there is no PMU they are skipped, with
what the kernel answered."""

import pytest

import harness
import machine as abilities
import pmu
from fixtures import *  # noqa: F403


@pytest.fixture(scope="session")
def machine(privileged):
    """The names of the default config's hardware events that the kernel can count here."""
    abilities.require("pmu")
    return [name for name in pmu.EVENTS if pmu.opens(name, harness.online_cpus()[0])]


@pytest.fixture(scope="session")
def alive(machine):
    """Those of them that count: a virtual PMU can take an event and never count it."""
    return [name for name in machine if pmu.counts(name)]


@pytest.fixture
def reference():
    """Opens events of the tests' own. Where the PMU lies, those that are not pinned would take turns with the
    daemon's."""
    opened = []

    def start(name, cpu, pinned=True, folder=None):
        opened.append(pmu.Event(name, cpu, pinned, folder))
        return opened[-1]

    yield start
    for event in opened:
        event.close()
