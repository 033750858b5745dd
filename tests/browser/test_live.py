# SPDX-License-Identifier: MIT
"""The page at / in a real Chromium, of the real daemon."""

import collections
import csv
import io
import json
import os
import re
import statistics
import time
import urllib.parse

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import harness
from chromium import number
from credentials import bcrypt

pytestmark = pytest.mark.deep

TASKS = """
[cpu]
groups = software
[cgroup]
groups = tasks
include = {top} {top}/**
"""
# What Chromium says of a daemon that ends while it is asked, and is away.
AWAY = re.compile("net::ERR_(CONNECTION_REFUSED|CONNECTION_RESET|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING)")


class Town:
    """A small tree that is counted and looked at: TOP/web/{alpha,beta,gamma}, of which beta works, and TOP/lazy."""

    def __init__(self, perfmond, top, work, browser):
        self.top, web = top, top.make("web")
        top.make("lazy")
        self.cgroups = {name: web.make(name) for name in ("alpha", "beta", "gamma")}
        # At an address that nobody else gets while it is away.
        self.daemon = perfmond(f"{TASKS.format(top=top.label)}[web]\nlisten = 127.0.0.1:{harness.free_port()}\n")
        self.worker, self.browser = work(cgroup=self.cgroups["beta"]), browser
        browser.open(self.daemon.url)
        harness.until(lambda: (beta := browser.row("beta")) and number(beta.get("cpus_utilized", "–")) is not None,
                      "beta has numbers")

    @property
    def root(self):
        return self.top.label.lstrip("/")


@pytest.fixture
def town(perfmond, cgroups, work, browser):
    return Town(perfmond, cgroups, work, browser)


def shown(browser, name, key, counted, nr=9):
    """A number as the page shows it after each of some refreshes, beside what `counted` has risen by in a second since
    the one before. Where something had to wait for a CPU, both are of other times: most of them have to be right."""
    pairs, before, start = [], counted(), time.monotonic()
    for _ in range(nr):
        browser.refreshes(1)
        rate = number(browser.row(name)[key])
        now, end = counted(), time.monotonic()
        pairs.append((rate, (now - before) / (end - start)))
        before, start = now, end
    return pairs


def are_right(pairs, **tolerance):
    return sum(rate == pytest.approx(truth, **tolerance) for rate, truth in pairs) > len(pairs) / 2


def test_load(town, work):
    """What works is named, and its numbers are near the truth."""
    browser, worker, beta = town.browser, town.worker, town.cgroups["beta"]
    worker.begin("ticks 300 120000")
    browser.refreshes(2)
    rates = shown(browser, "beta", "context_switches", worker.switches)
    assert are_right(rates, rel=0.3), rates
    assert number(browser.row("alpha")["context_switches"]) == 0
    worker.process.kill()

    work(cgroup=beta).begin("cpu 60000")
    browser.refreshes(2)
    used = shown(browser, "beta", "cpus_utilized", lambda: beta.usage_usec() / 1e6)
    assert are_right(used, abs=0.25), used

    def is_of_parent():
        """By one reading, in which the one is read a moment after the other."""
        use = {row["name"]: number(row["cpus_utilized"]) for row in browser.table()}
        return 0 < use["beta"] / 4 < use["web"]
    # Its parents have it too, and it is drawn.
    harness.until(is_of_parent, "its parent has it too")
    assert browser.run("return document.querySelector('#rows path[d]').getAttribute('d')").startswith("M")


def test_machine(town):
    """Sums and single CPUs, and what the daemon costs."""
    browser = town.browser
    lines = browser.run("return [...document.querySelectorAll('.cpu')].map((line) => line.firstChild.textContent)")
    cpus = harness.online_cpus()
    assert lines[1:] == [f"CPU {cpu}" for cpu in cpus] and lines[0].startswith(f"{len(cpus)} CPU")
    whats = browser.run("return [...document.querySelectorAll('.cpu.all .what')].map((what) => what.textContent)")
    assert whats == ["CPU use", "context switches", "cpu migrations", "page faults", "major faults"]
    town.worker.begin("ticks 300 4000")
    browser.refreshes(3)
    biggest = browser.run("return [...document.querySelectorAll('.cpu.all .big')].map((it) => it.textContent)")
    assert number(biggest[1]) > 0
    cost = browser.text("#cost")
    status = town.daemon.json("/api/v1/status")
    assert f"perfmond {status['version']}" in cost and f"open events {status['files']['events']:,} of" in cost
    for part in (r"CPU [\d.<]+ % of one", r"memory [\d.]+ MiB", r"loop lag [\d.]+ (µs|ms|s)", r"cgroups counted 6"):
        assert re.search(part, cost), cost


def order_of(browser, key):
    return [number(row[key]) for row in browser.table()]


def test_sort(town):
    """By click and by key, both ways; names as well."""
    browser = town.browser
    browser.one("#flat").click()
    town.worker.begin("ticks 200 60000")
    beta = f"{town.top.label}/web/beta"
    harness.until(lambda: (rate := number(browser.row(beta)["context_switches"])) and rate > 0, "its rate is known")
    # The order is that of the numbers at the click; those that come after it wait for theirs.
    browser.one("#pause").click()
    button = browser.one(".head button[data-key=context_switches]")
    button.click()
    assert button.find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    rates = order_of(browser, "context_switches")
    assert rates == sorted(rates, reverse=True) and rates[0] > 0
    button.send_keys(Keys.ENTER)
    assert button.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"
    rates = order_of(browser, "context_switches")
    assert rates == sorted(rates) and rates[-1] > 0
    browser.one(".head button[data-key=name]").click()
    names = browser.names()
    assert names == sorted(names) and names[0] == town.top.label
    browser.one("#pause").click()
    browser.keys("r")
    assert browser.names() == sorted(names, reverse=True)
    browser.keys(">")
    assert len(browser.run("return document.querySelectorAll('[aria-sort]')")) == 1
    assert browser.run("return document.querySelector('[aria-sort] button').dataset.key") == "cpus_utilized"
    browser.keys("<")
    assert browser.run("return document.querySelector('[aria-sort] button').dataset.key") == "name"


def test_filter(town):
    """As it is typed; in the tree, those above a match are there too."""
    browser = town.browser
    browser.filter("GAM")
    assert browser.names() == [town.root if town.root in browser.names() else town.top.label, "web", "gamma"]
    assert browser.text("#count") == "1 of 6 cgroups"
    browser.one("#flat").click()
    assert browser.names() == [f"{town.top.label}/web/gamma"]
    browser.filter("no such cgroup")
    assert browser.names() == [] and "No cgroup has that" in browser.text("#none")
    browser.one("#filter").send_keys(Keys.ESCAPE)
    assert len(browser.names()) == 6 and browser.text("#count") == "6 cgroups"


def test_fold(town):
    browser = town.browser
    assert {"alpha", "beta", "gamma"} <= set(browser.names())
    assert [browser.row(name)["level"] for name in ("web", "beta", "lazy")] == ["2", "3", "2"]
    browser.run("[...document.querySelectorAll('#rows .row')].find((row) => "
                "row.querySelector('.name').textContent === 'web').querySelector('.twist').click()")
    assert not {"alpha", "beta", "gamma"} & set(browser.names())
    assert browser.row("web")["expanded"] == "false" and browser.row("lazy")["expanded"] is None
    # It stays so when there are new numbers.
    browser.refreshes(2)
    assert "beta" not in browser.names()
    browser.keys("+")
    assert "beta" in browser.names() and browser.row("web")["expanded"] == "true"
    browser.keys("t")
    assert f"{town.top.label}/web/beta" in browser.names() and browser.table()[0]["expanded"] is None


def test_cgroups_come_and_go(town):
    browser = town.browser
    new = town.top.make("newcomer")
    harness.until(lambda: browser.row("newcomer"), "the new cgroup is shown")
    new.remove()
    harness.until(lambda: browser.row("newcomer")["tag"] == "removed", "it is said to be removed")


def test_restart(town, perfmond):
    """The page says that the daemon is away, and goes on by itself with what it had, without being loaded again."""
    browser, daemon = town.browser, town.daemon
    browser.run("window.sameAsBefore = true")
    browser.filter("beta")
    daemon.stop()
    harness.until(lambda: browser.text("#state").startswith("away since "), "away")
    assert re.search(r"has not answered since \d\d:\d\d:\d\d: it can't be reached", browser.text("#toast"))
    assert browser.one("#toast").is_displayed() and "beta" in browser.names()
    browser.run("const before = fetch; window.asked = [];"
                "window.fetch = (...what) => { window.asked.push(performance.now()); return before(...what); }")
    asked = harness.until(lambda: len(got := browser.run("return window.asked")) >= 4 and got, "it asks on")
    assert all(later - earlier > 900 for earlier, later in zip(asked, asked[1:])), "but not all the time"
    perfmond(f"{TASKS.format(top=town.top.label)}\n[web]\nlisten = {daemon.url.removeprefix('http://')}\n")
    browser.until_live()
    assert "restarted at" in browser.text("#state") and not browser.one("#toast").is_displayed()
    harness.until(lambda: browser.row("beta"), "beta is back")
    assert browser.run("return window.sameAsBefore") and browser.one("#filter").get_attribute("value") == "beta"
    assert [line for line in browser.complaints() if not AWAY.search(line)] == []
    browser.console.clear()


def test_keyboard_only(town):
    """All of it without a mouse, and one sees where one is."""
    browser = town.browser
    reached = set()
    for _ in range(24):
        browser.keys(Keys.TAB)
        at = browser.run("const at = document.activeElement; return [at.id || at.dataset.key || at.tagName, "
                         "getComputedStyle(at).outlineStyle]")
        assert at[1] != "none" or at[0] == "BODY", f"{at[0]} shows no focus"
        reached.add(at[0])
    assert {"pause", "theme", "help", "filter", "flat", "tree", "grid", "name", "cpus_utilized"} <= reached, reached

    # Out of the filter, in which it would be a letter.
    browser.keys(Keys.ESCAPE, "?")
    assert browser.one("#keys").is_displayed()
    browser.keys(Keys.ESCAPE)
    assert not browser.one("#keys").is_displayed()

    browser.keys("/", "web")
    assert browser.text("#count") == "4 of 6 cgroups"
    browser.keys(Keys.ESCAPE)
    assert browser.run("return document.activeElement.id") == "grid"
    browser.keys(Keys.HOME, Keys.ARROW_DOWN)
    marked = [row["name"] for row in browser.table() if row["cursor"]]
    assert len(marked) == 1 and browser.run(
        "return document.getElementById(document.querySelector('#grid').getAttribute('aria-activedescendant'))"
        ".querySelector('.name').textContent") == marked[0]
    # While it is paused, the order stays.
    browser.keys(" ")
    assert browser.text("#state") == "paused"
    names = browser.names()
    browser.keys(Keys.HOME, *[Keys.ARROW_DOWN] * names.index("web"), Keys.ARROW_LEFT)
    assert "beta" not in browser.names()
    browser.keys(Keys.ARROW_RIGHT)
    assert "beta" in browser.names()
    browser.keys(" ")
    browser.until_live()
    browser.keys(Keys.ENTER)
    assert browser.one("#detail").is_displayed() and browser.text("#title") == f"{town.top.label}/web"
    assert "context-switches" in browser.text("#detail tbody")
    browser.keys(Keys.ESCAPE)


def test_pause(town):
    """Nothing is asked for while it is paused, nor while nobody can see it."""
    browser = town.browser
    hide = "Object.defineProperty(document, 'hidden', { configurable: true, value: arguments[0] });" \
           "document.dispatchEvent(new Event('visibilitychange'))"
    for stop, go_on in ((lambda: browser.keys(" "), lambda: browser.keys(" ")),
                        (lambda: browser.run(hide, True), lambda: browser.run(hide, False))):
        stop()
        harness.until(lambda: not browser.run("return state.busy"), "what was asked for has come")
        before = len(browser.asked())
        time.sleep(2.5)
        assert len(browser.asked()) == before
        go_on()
        harness.until(lambda before=before: len(browser.asked()) > before, "it goes on")
        browser.until_live()


def trend_after(browser, name):
    """The x of the points of a row's line, of 0 to 89, the newest at the right; and how many refreshes there were."""
    path, refreshes = browser.run(
        "const row = [...document.querySelectorAll('#rows .row')].find((row) => "
        "row.querySelector('.name').textContent === arguments[0]);"
        "return [row?.querySelector('svg path').getAttribute('d'), "
        "performance.getEntriesByName('refresh').length]", name)
    return [float(x) for x in re.findall(r"[ML]([\d.]+) ", path or "")], refreshes


def trend(browser, name):
    return trend_after(browser, name)[0]


def test_the_past(town):
    """Whoever opens the page, or looks at it again, sees what happened before; so does another column."""
    browser = town.browser
    hide = "Object.defineProperty(document, 'hidden', { configurable: true, value: arguments[0] });" \
           "document.dispatchEvent(new Event('visibilitychange'))"
    town.worker.begin("ticks 300 60000")
    browser.refreshes(8)
    browser.open(town.daemon.url)
    line, refreshes = harness.until(lambda: len((got := trend_after(browser, "beta"))[0]) >= 8 and got,
                                    "the line has what was before")
    assert len(line) >= refreshes + 3, "that is not seen by itself"
    browser.one(".head button[data-key=context_switches]").click()
    harness.until(lambda: len(trend(browser, "beta")) >= 8, "so has that of another column")
    script = "return document.querySelectorAll(arguments[0])[1].getAttribute('d') ?? ''"
    for selector in (".cpu.all svg path:not(.area)", ".cpu:not(.all) svg path"):
        harness.until(lambda one=selector: len(re.findall("[ML]", browser.run(script, one))) >= 8, selector)

    browser.run(hide, True)
    time.sleep(6)
    browser.run(hide, False)
    browser.until_live()
    harness.until(lambda: len(points := trend(browser, "beta")) >= 14 and
                  all(after - before == 1 for before, after in zip(points, points[1:])), "no gap is left")


CHARTS = """
return [...document.querySelectorAll('.chart')].map((chart) => ({ key: chart.dataset.key,
    line: chart.querySelector('path:last-of-type').getAttribute('d'),
    parent: chart.querySelector('path.parent').getAttribute('d'),
    about: chart.querySelector('small').textContent, now: chart.querySelector('h3 span').textContent,
    crossed: !chart.querySelector('.cross').hidden, top: chart.querySelector('.top').textContent,
    axis: [...chart.querySelectorAll('.axis span')].map((it) => it.textContent) }));
"""


def chart(browser, key):
    return next((it for it in browser.run(CHARTS) if it["key"] == key), None)


def points(it):
    return len(re.findall("[ML]", it["line"] or "")) if it else 0


def test_charts(town):
    """A cgroup's past, with numbers, its parent behind it and one moment in all charts; copied, and in a link."""
    browser = town.browser
    town.worker.begin("ticks 300 90000")
    browser.refreshes(6)
    browser.point_at("beta")
    browser.keys(Keys.ENTER)
    harness.until(lambda: points(chart(browser, "context_switches")) >= 6, "it has a line")
    shown = browser.run("return [...document.querySelectorAll('.head button')].slice(1).map((it) => it.dataset.key)")
    assert [it["key"] for it in browser.run(CHARTS)] == shown

    def with_parent():
        """Its parent has nothing beside it; the answer about it comes by itself. Where a slot of time ends between the
        two answers, there is no parent until the next ones."""
        it = chart(browser, "context_switches")
        return points({"line": it["parent"]}) == points(it) and "web" in browser.text("#moment") and it
    it = harness.until(with_parent, "its parent's line and name")
    low, mean, high = (number(x.replace("\u202f", "")) for x in re.fullmatch(
        "min (.*) · mean (.*) · max (.*)", it["about"]).groups())
    assert low <= mean <= high and high == pytest.approx(300, rel=0.5)
    assert it["top"].endswith(" /s") and all(re.fullmatch(r"\d\d:\d\d:\d\d", text) for text in it["axis"])
    # A line of a whole minute loses as many points as it gets.
    newest = "return state.past.times.at(-1)"
    before = browser.run(newest)
    harness.until(lambda: browser.run(newest) > before and chart(browser, "context_switches")["line"] != it["line"],
                  "it goes on")

    ActionChains(browser.driver).move_to_element_with_offset(
        browser.one(".chart[data-key=context_switches] .plot"), 150, 0).perform()
    harness.until(lambda: all(it["crossed"] for it in browser.run(CHARTS)), "a moment in all of them")
    assert re.fullmatch(r"\d\d:\d\d:\d\d", browser.text("#moment"))

    browser.run("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    browser.one("#copy-csv").click()
    rows = list(csv.DictReader(io.StringIO(browser.run("return window.copied"))))
    assert len(rows) >= 6 and {"time", "context_switches", "cpus_utilized"} <= set(rows[0])
    assert any(float(row["context_switches"] or 0) > 150 for row in rows)
    browser.one("#copy-json").click()
    copied = json.loads(browser.run("return window.copied"))
    # The oldest may have left the minute in between, and the newest may have become longer.
    assert copied["cgroup"] == f"{town.top.label}/web/beta"
    assert {row["time"] for row in rows[-4:-1]} <= {row["time"] for row in copied["rows"]}
    assert copied["host"] == os.uname().nodename

    browser.keys("2")
    harness.until(lambda: chart(browser, "context_switches") and browser.run(
        "return document.querySelector('[data-range=\"900\"]').getAttribute('aria-pressed')") == "true", "15 min")
    browser.one("#copy-link").click()
    link = browser.run("return window.copied")
    browser.driver.get("about:blank")
    browser.open(link)
    harness.until(lambda: browser.one("#detail").is_displayed(), "the link leads there")
    assert browser.text("#title") == f"{town.top.label}/web/beta"
    assert browser.run("return document.querySelector('[aria-pressed=true][data-range]').dataset.range") == "900"
    harness.until(lambda: points(chart(browser, "context_switches")) > 0, "it is drawn")
    browser.keys(Keys.ESCAPE)
    harness.until(lambda: "cgroup=" not in browser.driver.current_url, "it is closed")


def test_a_link(town):
    """Filter, order, fold and view are in the address, and come from there."""
    browser = town.browser
    assert "#" not in browser.driver.current_url
    browser.one(".head button[data-key=page_faults]").click()
    browser.keys("r")
    browser.filter("a")
    browser.keys(Keys.ENTER)
    browser.point_at("web")
    browser.keys(Keys.ARROW_LEFT)
    link = browser.driver.current_url
    assert "filter=a" in link and "sort=-page_faults" in link and "fold=" in link and "view=" not in link
    browser.driver.get("about:blank")
    browser.open(link)
    harness.until(lambda: browser.row("web"), "the rows")
    assert browser.one("#filter").get_attribute("value") == "a"
    sorted_by = browser.one(".head [aria-sort]")
    assert sorted_by.get_attribute("aria-sort") == "ascending" and "page faults" in sorted_by.text
    browser.filter("")
    harness.until(lambda: browser.row("web")["expanded"] == "false" and not browser.row("beta"), "it is folded")
    browser.keys(Keys.ESCAPE, "t")
    assert browser.driver.current_url.endswith("#" + urllib.parse.urlencode(
        {"sort": "-page_faults", "view": "flat", "fold": f"{town.top.label}/web "}))


def luminance(color):
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(browser, selector, ground):
    colors = browser.style(selector, "color"), browser.style(ground, "backgroundColor")
    one, other = sorted(luminance(color) for color in colors)
    return (other + 0.05) / (one + 0.05)


def test_light_and_dark(town):
    """As the system is set, or as the reader says, which lasts; what is written can be read in both."""
    browser = town.browser
    grounds = {}
    for scheme in ("light", "dark"):
        browser.prefer(color_scheme=scheme)
        grounds[scheme] = browser.style("html", "backgroundColor")
        for selector, ground in ((".name", "#grid"), (".cpu.all .what", "#machine"), (".head button", "#grid"),
                                 ("#where", "html"), ("#cost", "html"), (".twist", "#grid")):
            assert contrast(browser, selector, ground) >= 4.5, (scheme, selector)
    assert luminance(grounds["light"]) > 0.8 and luminance(grounds["dark"]) < 0.05

    browser.keys("d")
    assert browser.text("#theme") == "Theme: light" and browser.style("html", "backgroundColor") == grounds["light"]
    browser.keys("d")
    assert browser.text("#theme") == "Theme: dark"
    browser.prefer(color_scheme="light")
    assert browser.style("html", "backgroundColor") == grounds["dark"]
    browser.open(town.daemon.url)
    assert browser.style("html", "backgroundColor") == grounds["dark"]


def test_still(town):
    """What is new shifts nothing; and where the reader wants no motion, there is none."""
    browser = town.browser
    town.worker.begin("ticks 200 6000")
    # A number's digits may begin elsewhere; what they stand in may not.
    places = ("return [...document.querySelectorAll('.push, section, .cpu > *, .head > *, .row, .row > *')]"
              ".map((node) => Object.values(node.getBoundingClientRect().toJSON()))")
    before = browser.run(places)
    browser.refreshes(4)
    assert browser.run(places) == before
    browser.prefer(reduced_motion="reduce")
    assert browser.style("#grid", "transitionDuration") == "0s"


def test_narrow(town):
    """On a phone nothing is wider than it, and the table has its own scroll bar."""
    browser = town.browser
    browser.size(360, 740)
    browser.refreshes(1)
    assert browser.run("return document.documentElement.scrollWidth") == 360
    assert browser.row("beta")
    assert browser.one("#grid").size["height"] > 400


def test_only_from_here(town):
    """Everything comes from the daemon, what is injected does not run, and each interval has one request."""
    browser = town.browser
    browser.take_logs()
    browser.refreshes(1)
    browser.run("const before = show; window.times = [state.time / 1000];"
                "show = (snapshot) => { window.times.push(snapshot.monotonic_seconds); before(snapshot); }")
    before = len(browser.asked())
    browser.refreshes(4)
    asked = browser.asked()[before:]
    times = browser.run("return window.times")
    passed = [later - earlier for earlier, later in zip(times, times[1:])]
    nr = collections.Counter(urllib.parse.urlsplit(url).path.removeprefix("/api/v1/") for url in asked)
    assert 3 <= nr.pop("snapshot") <= len(times) and statistics.mean(passed) > 0.8, (asked, passed)
    # Every 5 s it looks at what is counted; a refresh that is late asks for what it has missed.
    most = 2 + sum(passed) // 5
    assert nr.pop("events", 0) <= most and nr.pop("status", 0) <= most and not nr.keys() - {"history"}, asked
    assert nr["history"] <= 3 * sum(round(seconds) > 1 for seconds in passed), (asked, passed)
    assert not [url for url in browser.asked() if not url.startswith((town.daemon.url, "data:", "chrome:"))]

    browser.run("""
        const add = (node, fill) => { fill(node); document.body.append(node); };
        const tried = (fill, tag = 'script') => {
            try { add(document.createElement(tag), fill); } catch { /* Trusted Types */ }
        };
        tried((node) => { node.textContent = 'window.injected = 1'; });
        tried((node) => { node.innerHTML = '<img src=x onerror="window.injected = 2">'; }, 'p');
        tried((node) => { node.src = 'http://127.0.0.1:1/x.png'; }, 'img');
    """)
    for blocked in ("TrustedScript", "TrustedHTML", "Loading the image 'http://127.0.0.1:1/x.png' violates"):
        harness.until(lambda text=blocked: any(text in line for line in browser.complaints()), blocked)
    assert browser.run("return window.injected === undefined")
    browser.console.clear()


def test_not_counted(perfmond, cgroups, browser):
    """An event that this machine lacks: said in words, and as a column where one wants it."""
    cgroups.make("any")
    daemon = perfmond(f"[cpu]\ngroups = lost\n[cgroup]\ngroups = both\ninclude = {cgroups.label}/**\n"
                      "[group \"lost\"]\nevents = context-switches, nosuch/event/\nalone = yes\n"
                      "[group \"both\"]\nevents = page-faults, nosuch/event/\nalone = yes\n")
    lost = [event for event in daemon.json("/api/v1/events")["events"] if event["state"] != "ok"]
    assert len(lost) == 2 and lost[0]["reason"], lost
    browser.open(daemon.url)
    harness.until(lambda: browser.table(), "a row")
    assert browser.text("#notes summary").endswith("1 event not counted")
    assert f"{lost[0]['text']}: not counted, {lost[0]['state']}: {lost[0]['reason']}" in browser.text("#notes ul")
    assert lost[1]["event"] not in browser.table()[0]
    browser.keys("u")
    mark, title, words = browser.table()[0][f"{lost[1]['event']} quality"]
    assert mark == "⊘" and title == words == f"not counted: {lost[1]['reason']}"
    assert browser.table()[0][lost[1]["event"]] == ""
    head = browser.one(f".head button[data-key='{lost[1]['event']}']")
    assert "⊘" in head.text and lost[1]["reason"] in head.get_attribute("data-tip")
    assert lost[1]["reason"] in browser.run("return arguments[0].textContent", head)


NAMES = {
    b'quo"te\'s': "quo\"te's",
    b"back\\slash\\n": "back\\slash\\n",
    b"<b onclick=alert(1)>&amp;<script>alert(2)<": "<b onclick=alert(1)>&amp;<script>alert(2)<",
    "Grüße-日本-🐧".encode(): "Grüße-日本-🐧",
    b"not\xffutf\xc3": "not\ufffdffutf\ufffdc3",
    b"line\rfeed\ttab\x1b": "line\u240dfeed\u2409tab\u241b",
    "\u202eright-to-left".encode(): "⟨U+202E⟩right-to-left",
    "no\u200bwidth\ufeff".encode(): "no⟨U+200B⟩width⟨U+FEFF⟩",
    "a\u00a0b c".encode(): "a⟨U+00A0⟩b c",
}


def test_names(perfmond, cgroups, browser):
    """Whatever a cgroup is called is text."""
    made = [cgroups.path / os.fsdecode(name) for name in NAMES]
    for path in made:
        path.mkdir()
    try:
        browser.open(perfmond(TASKS.format(top=cgroups.label)).url)
        harness.until(lambda: len(browser.table()) == len(NAMES) + 1, "all are shown")
        assert set(browser.names()) == {*NAMES.values(), cgroups.label}
        assert browser.run("return document.querySelectorAll('#rows b, #rows script, #rows img').length") == 0
        browser.filter("<script>")
        assert list(NAMES.values())[2] in browser.names()
        browser.keys(Keys.ENTER, Keys.END, Keys.ENTER)
        assert browser.text("#title") == f"{cgroups.label}/{list(NAMES.values())[2]}"
    finally:
        for path in made:
            path.rmdir()


def test_a_password_in_the_address(perfmond, cgroups, browser, tmp_path):
    """http://user:password@host/: the browser keeps both for what the page asks for."""
    users = tmp_path / "users"
    users.write_text(f"ada:{bcrypt('engine')}\n")
    users.chmod(0o600)
    cgroups.make("any")
    daemon = perfmond(f"{TASKS.format(top=cgroups.label)}[web]\nusers = {users}\n",
                      access={"auth": ("ada", "engine")})
    browser.open(daemon.url.replace("//", "//ada:engine@"))
    harness.until(lambda: browser.row("any"), "a row")
    assert not browser.one("#toast").is_displayed()


MANY = 2000


def test_many(perfmond, cgroups, work, browser, record_property):
    """2,000 cgroups: the rows are those in sight, and the same from one refresh to the next."""
    for i in range(MANY // 20):
        folder = cgroups.make(f"group-{i}")
        for k in range(19):
            (folder.path / f"job-{k}").mkdir()
    # On two CPUs at most, so that a limit of 20,000 open files is enough.
    cpus = harness.online_cpus()
    worker = work(cgroup=cgroups.make("busy"), cpu=cpus[0])
    others = "exclude = " + ",".join(map(str, cpus[2:])) if cpus[2:] else ""
    daemon = perfmond(f"{TASKS.format(top=cgroups.label)}max = 3000\n[cpu]\n{others}\n[group \"tasks\"]\n"
                      "events = task-clock, context-switches, page-faults\n")
    browser.open(daemon.url)
    harness.until(lambda: browser.text("#count") == "2,002 cgroups", "all are there", 60)
    # With the first rates comes a column, and with that all rows anew.
    harness.until(lambda: browser.run("return Boolean(document.querySelector('.head button[data-key=cpus_utilized]'))"),
                  "an interval has ended")
    worker.begin("ticks 300 120000")
    browser.run("document.querySelectorAll('.row').forEach((row) => { row.before = true; })")
    times = browser.refreshes(8)
    sizes = daemon.get("/api/v1/snapshot").content
    print(f"\n2,002 cgroups, {len(sizes) / 1e6:.1f} MB of JSON: a refresh takes "
          f"{statistics.median(times):.1f} ms (median), {max(times):.1f} ms at most, of {len(times)}")
    record_property("refresh_ms", statistics.median(times))
    rows = browser.run("return [...document.querySelectorAll('.row')].map((row) => Boolean(row.before))")
    assert len(rows) < 60 and all(rows)
    browser.one(".head button[data-key=context_switches]").click()
    assert "busy" in browser.names()[:3]
    start = time.monotonic()
    browser.run("document.querySelector('#grid').focus()")
    browser.keys(Keys.END)
    last = browser.run("return document.querySelector('#grid').getAttribute('aria-rowcount')")
    harness.until(lambda: browser.run("return document.querySelector('.row.cursor')?.getAttribute('aria-rowindex')")
                  == last, "the last row is shown")
    print(f"to the last row: {(time.monotonic() - start) * 1e3:.0f} ms")
    assert 5 < len(browser.table()) < 60
    browser.filter("group-77/job-7")
    browser.one("#flat").click()
    assert browser.names() == [f"{cgroups.label}/group-77/job-7"]
