# SPDX-License-Identifier: MIT
"""Fixtures of the page's tests: those of the system tests, a browser, and a daemon that is played."""

import pytest

import chromium
import played as players
from machine import require
from fixtures import *  # noqa: F403


@pytest.fixture
def browser(tmp_path):
    """A Chromium. A test fails where it had anything to complain of, but for what the test expects: it takes that out
    of `console` itself."""
    require("chromium", "chromedriver")
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
