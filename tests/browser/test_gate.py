# SPDX-License-Identifier: MIT
"""The page in the gate: one daemon and one Chromium, each view once. All else of the page is in the deep suites."""

import pytest
from selenium.webdriver.common.keys import Keys

import profiles
import test_axe
from chromium import number
from harness import until
from test_live import chart, points
from tree import provide

CONFIG = """
[cgroup]
groups = tasks
include = {top} {top}/**
[profiles]
rate = 499
include = {top}/**
"""
FUNCTIONS = {"warm_function_of_test", "cold_function_of_test"}


@pytest.fixture(scope="module")
def page(shared_perfmond, shared_cgroups, shared_burner, shared_browser):
    """TOP/web/{burning,still}, of which one burns CPU time: the page of the daemon, and its URL."""
    web = shared_cgroups.make("web")
    web.make("still")
    shared_burner("burn-web", web.make("burning"))
    daemon = shared_perfmond(CONFIG.format(top=shared_cgroups.label))
    shared_browser.size(1280, 900)
    shared_browser.prefer(color_scheme="light")
    shared_browser.open(daemon.url)
    return shared_browser, daemon.url, web.label


def used(browser, name):
    """The CPUs that a row's cgroup uses, as it is shown; None: not yet."""
    return number((browser.row(name) or {}).get("cpus_utilized", ""))


def test_cgroups_are_shown_with_their_rates(page):
    """Below each other; a cgroup that works has a rate and a line, and so has its parent; one without tasks has 0."""
    browser, _, _ = page
    until(lambda: used(browser, "burning") and used(browser, "web"), "the rates of the cgroup at work and its parent")
    assert used(browser, "still") == 0
    assert int(browser.row("burning")["level"]) == int(browser.row("web")["level"]) + 1
    assert browser.run("return document.querySelector('#rows path[d]').getAttribute('d')").startswith("M")


def test_a_cgroup_has_charts(page):
    """Enter opens the charts of the row that the keys are on, a chart for each column; Escape closes them."""
    browser, _, web = page
    until(lambda: browser.row("burning"), "the row")
    browser.point_at("burning")
    browser.keys(Keys.ENTER)
    until(lambda: points(chart(browser, "cpus_utilized")) >= 2, "a chart with a line")
    assert browser.text("#title") == f"{web}/burning"
    assert chart(browser, "context_switches") and chart(browser, "page_faults")
    browser.keys(Keys.ESCAPE)
    until(lambda: not browser.one("#detail").is_displayed(), "the charts are closed")


def test_axe_core_finds_nothing(page):
    """And it does run: it finds a field without a name."""
    provide("axe")
    browser, url, _ = page
    browser.open(url)
    until(lambda: used(browser, "burning"), "rates")
    browser.run(test_axe.AXE.read_text(encoding="utf-8"))
    assert test_axe.findings(browser) == []
    test_axe.remove_name_of_filter(browser)
    assert any(text.startswith("label:") for text in test_axe.findings(browser))


def test_the_profile_is_an_icicle(page):
    """Of a cgroup: its command and its functions, in rows of boxes, and in the table."""
    browser, url, web = page
    browser.driver.get("about:blank")
    browser.open(f"{url}#show=profile&last=60&cgroup={web}/**")
    until(lambda: FUNCTIONS <= {it["name"] for it in browser.run(profiles.ROWS)}, "the names of the functions",
          profiles.AGAIN)
    names = set(browser.run("return profile.tree.things.map((thing) => thing.name)"))
    assert {f"{web}/burning", "burn-web", *FUNCTIONS} <= names
    rows, width = profiles.drawn(browser)
    # All, the cgroup, the command, and functions below it.
    assert len(rows) > 4 and [sum(box[1] for box in row) for row in rows[:3]] == pytest.approx([width] * 3, abs=1)


def test_only_the_daemon_is_asked_and_nothing_goes_wrong(page):
    """Whatever the page has fetched up to now came from the daemon, and the console has no error and no warning."""
    browser, url, _ = page
    asked = [address for address in browser.asked() if not address.startswith(("data:", "chrome:", "about:"))]
    assert asked and all(address.startswith(url) for address in asked), asked
    assert browser.complaints() == []
