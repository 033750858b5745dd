# SPDX-License-Identifier: MIT
"""The view of profiles, of the real daemon: a program whose functions and shares are known."""

import math
import os
import re
import time
import urllib.parse

import pytest
import requests
from selenium.webdriver.common.keys import Keys

import harness
import profiles
from profiling import ask, wait_taken

pytestmark = pytest.mark.deep

CONFIG = """
[cgroup]
groups = tasks
include = {top} {top}/**
[profiles]
enabled = yes
rate = 199
{extra}
"""
WARM, COLD = "warm_function_of_test", "cold_function_of_test"


def favour(process):
    """The page shows the last minute: on a busy machine a program would have too few samples in that."""
    os.setpriority(os.PRIO_PROCESS, process.pid, -10)
    return process


@pytest.fixture
def burning(perfmond, cgroups, burner, browser):
    """A daemon, a program that spends three quarters of its time in one function, and the page of both."""
    a = cgroups.make("a")
    daemon = perfmond(CONFIG.format(top=cgroups.label, extra=""))
    process = favour(burner("burn-a", a))
    browser.size(1280, 900)
    browser.open(f"{daemon.url}#show=profile&last=60&cgroup={cgroups.label}/a**")
    return daemon, a, process


def share(text):
    """0.75 of "75.0 % ± 1.2"."""
    return float(text.split(" ")[0]) / 100


def until_sampled(browser, samples):
    """With names, which come a little later."""
    def sampled():
        rows = {it["name"]: it for it in browser.run(profiles.ROWS)}
        return browser.run("return profile.tree?.samples[0] ?? 0") >= samples and WARM in rows and COLD in rows
    harness.until(sampled, f"{samples} samples with names", profiles.AGAIN)


def hold(browser):
    """No longer live: what is asked for is what is shown."""
    browser.keys("l")
    profiles.until_drawn(browser)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(browser.driver.current_url).fragment))
    begin, end = query["time"].split("-")
    return {"from": begin, "to": end, "cgroup": query["cgroup"]}


def draw_named(browser, daemon, stretch):
    """The stretch as it is drawn when no names are to come; what the daemon answers then."""
    def named():
        answer = ask(daemon, **stretch)
        return answer if not {"not looked up yet", "being looked up"} & set(answer["nodes"]["missing"]) else None
    answer = harness.until(named, "all are looked up")
    browser.run("loadProfile()")
    profiles.until_drawn(browser)
    return answer


def test_three_to_one(burning, browser):
    """What is drawn is what the daemon says, node by node; and the shares are those of the program."""
    daemon, a, _ = burning
    until_sampled(browser, 500)
    stretch = hold(browser)
    answer = draw_named(browser, daemon, stretch)
    nodes, total = answer["nodes"], answer["total"]
    rows, width = profiles.drawn(browser)
    depths = []
    for parent in nodes["parent"]:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    for depth, boxes in enumerate(rows):
        whole = sum(nodes["total"][i] for i, at in enumerate(depths) if at == depth)
        assert sum(box[1] for box in boxes) == pytest.approx(whole / total * width, abs=3), depth
    assert browser.run("return profile.tree.total[0]") == total > 0
    assert len(rows) == max(depths) + 1

    top = ask(daemon, "/api/v1/profile/top", **stretch)
    # Two files may have functions of one name.
    shown = {(it["name"], it["file"]): it for it in browser.run(profiles.ROWS)}
    for one in top["rows"][:8]:
        it = shown[one["name"], "" if one["missing"] else os.path.basename(one["module"] or "")]
        assert share(it["self"]) == pytest.approx(one["share"], rel=0.01, abs=0.0001), one
        assert share(it["total"]) == pytest.approx(one["total"] / total, rel=0.01, abs=0.0001), one
    warm, cold = (share(shown[name, "burn-a"]["total"]) for name in (WARM, COLD))
    sure = 4 * math.sqrt(0.75 * 0.25 / answer["samples"])
    assert warm / (warm + cold) == pytest.approx(0.75, abs=sure + 0.01)

    browser.keys("/", "warm_function")
    assert share(browser.text("#found").split(", ")[1]) == pytest.approx(warm, abs=0.001)
    browser.keys(Keys.ENTER)
    profiles.click_node(browser, WARM)
    assert profiles.zoomed(browser)[:2] == [f"{a.label}", "burn-a"] and profiles.zoomed(browser)[-1] == WARM
    browser.run("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    browser.one("#copy-folded").click()
    folded = ask(daemon, format="folded", **stretch)
    assert sorted(browser.run("return window.copied").splitlines()) == sorted(folded.splitlines())


def test_difference(burning, cgroups, burner, browser):
    """Two stretches: before, a program of three to one, then one of one to three."""
    daemon, a, process = burning
    until_sampled(browser, 400)
    process.kill()
    process.wait()
    base = hold(browser)
    begin = time.time()
    favour(burner("burn-b", a, hot=1))

    def named():
        nodes = ask(daemon, cgroup=f"{a.label}**", **{"from": f"{begin:.1f}"})["nodes"]
        return sum(nr for name, nr in zip(nodes["name"], nodes["samples"]) if name in (WARM, COLD)) >= 600
    harness.until(named, "600 samples with names", profiles.AGAIN)
    link = f"{browser.driver.current_url.split('#')[0]}#show=profile&cgroup={cgroups.label}/a**" \
           f"&time={begin:.1f}-{time.time():.1f}&base={base['from']}-{base['to']}&sort=total"
    browser.driver.get("about:blank")
    browser.open(link)
    profiles.until_drawn(browser)
    # A function of each program: the one is new, the other is gone.
    changes = sorted(it["change"].split(" ")[0] for it in browser.run(profiles.ROWS) if it["name"] == WARM)
    assert len(changes) == 2 and {change[0] for change in changes} == {"+", "−"}
    for change in changes:
        assert float(change[1:]) == pytest.approx(75 if change[0] == "−" else 25, abs=12), changes


def test_strip(burning, browser):
    """What the strip tells is what was used; a drag in it shows that stretch."""
    daemon, a, process = burning
    until_sampled(browser, 300)
    before, begin = a.usage_usec(), time.time()
    harness.until(lambda: a.usage_usec() - before > 3_000_000, "3 s of CPU time", profiles.AGAIN)
    used, passed = (a.usage_usec() - before) / 1e6, time.time() - begin
    process.kill()
    process.wait()
    wait_taken(daemon)
    hold(browser)
    heat = browser.run("return profile.heat")
    assert browser.one("#strip").is_displayed() and re.match(r"[\d.]+ CPUs", browser.text("#strip .top"))
    step = heat["column_seconds"]
    columns = [value for i, value in enumerate(heat["values"])
               if begin <= heat["from"] + i * step and heat["from"] + (i + 1) * step <= begin + passed]
    assert sum(columns) / (len(columns) * step) == pytest.approx(used / passed, abs=0.25)
    at = [(time_ - heat["from"]) / (heat["to"] - heat["from"]) for time_ in (begin, begin + passed)]
    profiles.drag(browser, "#strip .plot", *at)
    profiles.until_drawn(browser)
    assert browser.run("return profile.tree.total[0]") == pytest.approx(used, abs=0.6)


def test_off(perfmond, browser):
    """The page says how to turn profiles on, in the daemon's words."""
    daemon = perfmond("[profiles]\nenabled = no\n[cpu]\ngroups =\n[cgroup]\ngroups =\n")
    browser.open(daemon.url + "#show=profile")
    words = requests.get(daemon.url + "/api/v1/profile", timeout=10).json()["error"]
    harness.until(lambda: browser.text("#profile-none") == words, "how to turn them on")
    assert "[profiles]" in words
    browser.driver.get("about:blank")  # the page would ask again, and be refused again, at any time
    browser.complaints()
    browser.console[:] = [line for line in browser.console if "/profile" not in line]


def test_threads(perfmond, cgroups, burner, browser):
    """The table has them when it is asked for, and the icicle has them below the commands then."""
    group = cgroups.make("threads")
    daemon = perfmond(CONFIG.format(top=cgroups.label, extra=""))
    burner("burn-thread", group)
    kinds = "return [...new Set(profile.tree.things.map(({ kind }) => kind))].join()"
    browser.open(daemon.url + f"#show=profile&last=60&cgroup={group.label}")
    harness.until(lambda: "function" in browser.run(kinds), "functions", profiles.AGAIN)
    assert "thread" not in browser.run(kinds)
    browser.one("[data-by=thread]").click()
    harness.until(lambda: [it["name"] for it in browser.run(profiles.ROWS)] == ["burn-thread"], "its thread",
                  profiles.AGAIN)
    assert "thread" in browser.run(kinds)
    browser.one("[data-by=command]").click()
    harness.until(lambda: "thread" not in browser.run(kinds), "no threads", profiles.AGAIN)


def test_hidden(perfmond, cgroups, burner, browser):
    """What is not to be seen is there, without names."""
    group = cgroups.make("secret")
    daemon = perfmond(CONFIG.format(top=cgroups.label, extra=f"exclude = {group.label}"))
    burner("burn-secret", group)  # other tests at work have their burn-a
    browser.open(daemon.url + "#show=profile&last=60&by=cgroup")
    harness.until(lambda: "(hidden)" in [it["name"] for it in browser.run(profiles.ROWS)], "it is there",
                  profiles.AGAIN)
    assert "burn-secret" not in browser.run("return profile.tree.things.map((thing) => thing.name).join()")

    def why():
        """The icicle is live: a cgroup's place changes with what the others use."""
        profiles.mouse(browser, "mouseMoved", *browser.run(profiles.PLACE, "(hidden)"))
        return "that [profiles] include and exclude do not show" in (browser.text("#tip") or "")
    harness.until(why, "why")
