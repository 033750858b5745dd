# SPDX-License-Identifier: MIT
"""Fixtures of the page's tests: those of the system tests, a browser, and a daemon that is played."""

import contextlib

import pytest

import chromium
import played as players
from machine import require
from fixtures import *  # noqa: F403


@contextlib.contextmanager
def opened(folder):
    """A Chromium. A test fails where it had anything to complain of, but for what the test expects: it takes that out
    of `console` itself."""
    require("chromium", "chromedriver")
    browser = chromium.Browser(folder / "chromium")
    try:
        yield browser
        complaints = browser.complaints()
    finally:
        browser.stop()
    assert not complaints, "\n".join(complaints)


@pytest.fixture
def browser(tmp_path):
    with opened(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def shared_browser(tmp_path_factory):
    """Of a file of tests."""
    with opened(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def played(perfmond):
    """A daemon that answers with the page of the real one, and with the numbers that a test gives it."""
    real = perfmond("[cpu]\ngroups =\n[cgroup]\ngroups =\n")
    player = players.Player(real.get("/"))
    yield player
    player.stop()
