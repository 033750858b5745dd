# SPDX-License-Identifier: MIT
"""Fixtures of the page's tests: those of the system tests, a browser, and a daemon that is played."""

import importlib.util
import sys
from pathlib import Path

import pytest

SYSTEM = Path(__file__).parent.parent / "system"
sys.path.insert(0, str(SYSTEM))

import browser as chromium
import played as players

# Both files are called conftest.
spec = importlib.util.spec_from_file_location("system_conftest", SYSTEM / "conftest.py")
system = importlib.util.module_from_spec(spec)
spec.loader.exec_module(system)
privileged, perfmond, cgroups, work = system.privileged, system.perfmond, system.cgroups, system.work
programs, burner = system.programs, system.burner


@pytest.fixture
def browser(tmp_path):
    """A Chromium. A test fails where it had anything to complain of, but for what the test expects: it takes that out
    of `console` itself."""
    opened = chromium.Browser(tmp_path / "chromium")
    yield opened
    complaints = opened.complaints()
    opened.stop()
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def played(perfmond):
    """A daemon that answers with the page of the real one, and with the numbers that a test gives it."""
    real = perfmond("[cpu]\ngroups =\n[cgroup]\ngroups =\n")
    player = players.Player(real.get("/"))
    yield player
    player.stop()
