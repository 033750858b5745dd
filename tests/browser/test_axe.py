# SPDX-License-Identifier: MIT
"""The page at / as axe-core sees it (AXE: the path of its script): what keeps people from seeing, hearing or reaching
something."""


import pytest
from selenium.webdriver.common.keys import Keys

import harness
import played as players
import profiles
from tree import BUILD, provide

pytestmark = pytest.mark.deep

AXE = BUILD / "axe-core/axe.min.js"

# All rules, also those that are only recommended; each finding with the elements.
RUN = """
const done = arguments[arguments.length - 1];
const about = (node) => `${node.target} ${[...node.any, ...node.all, ...node.none].map((it) => it.message)}`;
axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] })
	.then((result) => done(result.violations.map((found) =>
		`${found.id}: ${found.help}: ${found.nodes.slice(0, 3).map(about).join("; ")}`)),
		(error) => done([String(error)]));
"""


@pytest.fixture(autouse=True)
def axe():
    provide("axe")


@pytest.fixture
def looked_at(played, browser):
    """A town with a problem, an event that is not counted, and many CPUs."""
    players.play_town(played)
    played.cpus = players.many_cpus(20)
    played.status = players.status(problems=["something is wrong"])
    profiles.play(played)
    played.history = lambda: players.past_of("/system.slice/nginx.service")
    browser.size(1280, 900)
    browser.prefer(color_scheme="light")
    browser.open(played.url)
    browser.refreshes(2)
    browser.run(AXE.read_text(encoding="utf-8"))
    return browser


def findings(browser):
    # Transitions of opacity end.
    browser.refreshes(1)
    return browser.driver.execute_async_script(RUN)


def open_detail(browser):
    browser.filter("nginx")
    browser.keys(Keys.ENTER, Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    harness.until(lambda: browser.text("#title").endswith("/nginx.service"), "the drawer")
    harness.until(lambda: browser.run("return document.querySelector('.chart path[d]')"), "its charts")


def open_profile(browser, *keys):
    browser.keys("f")
    profiles.until_drawn(browser)
    for key in keys:
        browser.keys(key)
        profiles.until_drawn(browser)


OPENED = {
    "page": lambda browser: None,
    "rows of CPUs, totals by name, no peaks": lambda browser: (
        browser.one("#cpu-rows").click(), browser.keys("n", "n", "<", "p", "u")),
    "drawer": open_detail,
    "keys": lambda browser: browser.keys("?"),
    "columns": lambda browser: browser.keys("c"),
    "profile": open_profile,
    "profile, compared, zoomed and searched": lambda browser: (
        open_profile(browser, "b", Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER, "/", "w"),
        browser.one("#profile-notes summary").click()),
}


@pytest.mark.parametrize("what", OPENED)
def test_no_findings(looked_at, what):
    """In light, dark, and on a phone."""
    OPENED[what](looked_at)
    found = {}
    for name, scheme, size in (("light", "light", (1280, 900)), ("dark", "dark", (1280, 900)),
                               ("phone", "light", (380, 760))):
        looked_at.prefer(color_scheme=scheme)
        looked_at.size(*size)
        found[name] = findings(looked_at)
    assert not any(found.values()), "\n".join(f"{name}: {text}" for name, list_of in found.items() for text in list_of)


def remove_name_of_filter(browser):
    browser.run("document.querySelector('#filter').removeAttribute('aria-label');"
                "document.querySelector('#filter').removeAttribute('placeholder')")


def test_finds_something(looked_at):
    """A page with a fault has a finding: axe-core did run."""
    remove_name_of_filter(looked_at)
    assert any(text.startswith("label:") for text in findings(looked_at))
