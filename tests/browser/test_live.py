# SPDX-License-Identifier: MIT
"""The page at / in a real Chromium, of the real daemon."""

import os
import re
import statistics
import time

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import harness
from browser import number

TASKS = """
[cpu]
groups = software
[cgroup]
groups = tasks
include = {top} {top}/**
"""
REFUSED = "net::ERR_CONNECTION_REFUSED"


class Town:
    """A small tree that is counted and looked at: TOP/web/{alpha,beta,gamma}, of which beta works, and TOP/lazy."""

    def __init__(self, perfmond, top, work, browser):
        self.top, web = top, top.make("web")
        top.make("lazy")
        self.cgroups = {name: web.make(name) for name in ("alpha", "beta", "gamma")}
        self.daemon = perfmond(TASKS.format(top=top.label))
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


def shown(browser, name, key, nr=4):
    """A number as the page shows it after each of some refreshes."""
    numbers = []
    for _ in range(nr):
        browser.refreshes(1)
        numbers.append(number(browser.row(name)[key]))
    return numbers


def test_load(town):
    """What works is named, and its numbers are near the truth."""
    browser, worker, beta = town.browser, town.worker, town.cgroups["beta"]
    worker.begin("ticks 300 9000")
    browser.refreshes(2)
    rates = shown(browser, "beta", "context_switches")
    assert statistics.median(rates) == pytest.approx(300, rel=0.3), rates
    assert number(browser.row("alpha")["context_switches"]) == 0
    worker.finish()

    worker.begin("cpu 6000")
    browser.refreshes(2)
    before, start = beta.usage_usec(), time.monotonic()
    used = shown(browser, "beta", "cpus_utilized")
    truth = (beta.usage_usec() - before) / 1e6 / (time.monotonic() - start)
    assert statistics.mean(used) == pytest.approx(truth, abs=0.25), (used, truth)
    # Its parents have it too, and it is drawn.
    assert number(browser.row("web")["cpus_utilized"]) > truth / 4
    assert browser.run("return document.querySelector('#rows path[d]').getAttribute('d')").startswith("M")
    worker.finish()


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
    town.worker.finish()
    cost = browser.text("#cost")
    status = town.daemon.json("/api/v1/status")
    assert f"perfmond {status['version']}" in cost and f"open events {status['files']['events']:,} of" in cost
    for part in (r"CPU [\d.<]+ % of one", r"memory [\d.]+ MiB", r"loop lag [\d.]+ ms", r"cgroups counted 6"):
        assert re.search(part, cost), cost


def order_of(browser, key):
    return [number(row[key]) for row in browser.table()]


def test_sort(town):
    """By click and by key, both ways; names as well."""
    browser = town.browser
    browser.one("#flat").click()
    town.worker.begin("ticks 200 6000")
    browser.refreshes(2)
    button = browser.one(".head button[data-key=context_switches]")
    button.click()
    assert button.find_element(By.XPATH, "..").get_attribute("aria-sort") == "descending"
    rates = order_of(browser, "context_switches")
    assert rates == sorted(rates, reverse=True) and rates[0] > 100
    button.send_keys(Keys.ENTER)
    assert button.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"
    rates = order_of(browser, "context_switches")
    assert rates == sorted(rates) and rates[-1] > 100
    browser.one(".head button[data-key=name]").click()
    names = browser.names()
    assert names == sorted(names) and names[0] == town.top.label
    browser.keys("r")
    assert browser.names() == sorted(names, reverse=True)
    browser.keys(">")
    assert len(browser.run("return document.querySelectorAll('[aria-sort]')")) == 1
    assert browser.run("return document.querySelector('[aria-sort] button').dataset.key") == "cpus_utilized"
    browser.keys("<")
    assert browser.run("return document.querySelector('[aria-sort] button').dataset.key") == "name"
    town.worker.finish()


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
    asked = len([url for url in browser.asked() if url.startswith(daemon.url)])
    time.sleep(2.5)
    # It asks on, but not all the time.
    assert 1 <= len([url for url in browser.asked() if url.startswith(daemon.url)]) - asked <= 4
    perfmond(f"{TASKS.format(top=town.top.label)}\n[web]\nlisten = {daemon.url.removeprefix('http://')}\n")
    browser.until_live()
    assert "restarted at" in browser.text("#state") and not browser.one("#toast").is_displayed()
    harness.until(lambda: browser.row("beta"), "beta is back")
    assert browser.run("return window.sameAsBefore") and browser.one("#filter").get_attribute("value") == "beta"
    assert [line for line in browser.complaints() if REFUSED not in line] == []
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

    browser.keys("?")
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
        time.sleep(0.5)
        before = len(browser.asked())
        time.sleep(2.5)
        assert len(browser.asked()) == before
        go_on()
        harness.until(lambda before=before: len(browser.asked()) > before, "it goes on")
        browser.until_live()


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
    places = ("return [...document.querySelectorAll('.push, section, #notes, .cpu > *, .head > *, .row, .row > *')]"
              ".map((node) => Object.values(node.getBoundingClientRect().toJSON()))")
    before = browser.run(places)
    browser.refreshes(4)
    assert browser.run(places) == before
    town.worker.finish()
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
    browser.take_logs()
    before = len(browser.asked())
    browser.refreshes(4)
    asked = browser.asked()[before:]
    snapshots = [url for url in asked if url.endswith("/api/v1/snapshot")]
    assert 3 <= len(snapshots) <= 6 and len(asked) - len(snapshots) <= 4, asked
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
    assert "⊘" in head.text and lost[1]["reason"] in head.get_attribute("title")
    assert lost[1]["reason"] in browser.run("return arguments[0].textContent", head)


NAMES = {
    b'quo"te\'s': "quo\"te's",
    b"back\\slash\\n": "back\\slash\\n",
    b"<b onclick=alert(1)>&amp;<script>alert(2)<": "<b onclick=alert(1)>&amp;<script>alert(2)<",
    "Grüße-日本-🐧".encode(): "Grüße-日本-🐧",
    b"not\xffutf\xc3": "not\ufffdffutf\ufffdc3",
    b"line\rfeed\ttab\x1b": "line\u240dfeed\u2409tab\u241b",
    "\u202eright-to-left".encode(): "\u202eright-to-left",
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
    worker.begin("ticks 300 20000")
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
    worker.finish()
