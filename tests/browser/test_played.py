# SPDX-License-Identifier: MIT
"""The page at / with numbers that no test machine has, of a daemon that is played."""

import os
import time
from pathlib import Path

import pytest

import harness
import played as players
from browser import number

# Where the README's picture goes, where one is wanted.
PICTURE = os.environ.get("SCREENSHOT")


def test_multiplexed(played, browser):
    """An estimate is marked, and says which share of the time was counted."""
    played.events = [players.event("cgroup", "cycles"), players.event("cgroup", "cache-misses", state="multiplexed")]
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": {},
                       "events": {"cycles": players.value(2.5e9),
                                  "cache_misses": players.value(1.25e6, running=0.62, state="multiplexed")}}]
    browser.open(played.url)
    row = browser.table()[0]
    assert row["cycles"] == "2.50G" and row["cycles quality"][0] == ""
    mark, title, words = row["cache_misses quality"]
    assert row["cache_misses"] == "1.25M" and mark == "~"
    assert words == "an estimate: counted 62.0 % of the time" and title.startswith(words)
    assert "~" in browser.one(".head button[data-key=cache_misses]").text


RATIOS = {"ipc": "instructions", "ipc_user": "instructions_user", "branch_miss_ratio": "branch_misses",
          "llc_load_miss_ratio": "llc_load_misses"}


def test_multiplexed_ratios(played, browser):
    """A ratio is as good as what it is made of; where the page can't tell which events these are, as the worst."""
    events = {"cycles": players.value(2e9, running=0.9)}
    for i, name in enumerate(RATIOS.values()):
        events[name] = players.value(1e6, running=1 - i / 10)
    renamed = {"mine": players.value(1e6, running=0.3), "other": players.value(1e6)}
    played.events = [players.event("cgroup", name) for name in (*events, *renamed)]
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": dict.fromkeys(RATIOS, 0.5), "events": events},
                      {"cgroup": "/b", "id": 2, "derived": {"ipc": 0.5}, "events": renamed}]
    browser.open(played.url)
    row = browser.row("/a")
    for i, ratio in enumerate(RATIOS):
        mark, _, words = row[f"{ratio} quality"]
        assert row[ratio] == "0.50"
        assert (mark, words) == (("~", f"an estimate: counted {100 - 10 * i}.0 % of the time") if i else ("", ""))
    assert browser.row("/b")["ipc quality"][0] == "~" and "30.0 %" in browser.row("/b")["ipc quality"][2]


def test_columns_stay(played, browser):
    """An event's state and reason change all the time on a PMU that is shared; the columns don't for that."""
    def events():
        return [players.event("cgroup", "cycles", state="multiplexed", reason=f"ran {time.time()} % of the time")]

    played.events = events
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": {"ipc": 0.5}, "events": {"cycles": players.value(5)}}]
    browser.open(played.url)
    browser.one(".head button[data-key=ipc]").click()
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": {}, "events": {"cycles": players.value(5)}}]
    harness.until(lambda: played.asked.count("/api/v1/events") >= 3, "it has looked at the events again", 30)
    assert browser.run("return document.activeElement.dataset.key") == "ipc"
    assert browser.table()[0]["ipc"] == "–"


def test_peaks(played, browser):
    """The highest rate is beside the rate where the API has it; where it has none, nothing is."""
    rows = [{"cgroup": "/a", "id": 1, "derived": {}, "events": {"cycles": players.value(1000, peak=7300)}}]
    played.events, played.cgroups = [players.event("cgroup", "cycles")], rows
    browser.open(played.url)
    peak = browser.one("#rows .peak")
    assert peak.is_displayed() and peak.text.replace("\u2009", " ").replace("\u202f", " ") == "▴ 7.30 k"
    browser.keys("p")
    assert not browser.one("#rows .peak").is_displayed()

    for key in ("rate_1m", "rate_5m", "rate_peak"):
        del rows[0]["events"]["cycles"][key]
    browser.run("localStorage.clear()")
    browser.open(played.url)
    assert browser.table()[0]["cycles"] == "1.00k"
    assert not browser.one("#rows .peak").is_displayed() and not browser.one("#peaks").is_displayed()
    rows[0]["events"]["cycles"].update(rate=None, rate_peak=None, rate_1m=None, rate_5m=None)
    harness.until(lambda: browser.table()[0]["cycles"] == "–", "it is not known")
    assert browser.table()[0]["cycles quality"][2].startswith("not known")


NUMBERS = {0: "0", 0.001: "<0.01", 0.25: "0.25", 9.994: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100",
           999.4: "999", 999.6: "1.00k", 12345: "12.3k", 999.7e3: "1.00M", 2.5e9: "2.50G", 7e12: "7.00T", 3e15: "3.00P"}


def test_numbers(played, browser):
    """Three digits that count, and a prefix."""
    played.events = [players.event("cgroup", "cycles")]
    played.cgroups = [{"cgroup": f"/{rate}", "id": 1, "derived": {}, "events": {"cycles": players.value(rate)}}
                      for rate in NUMBERS]
    browser.size(1280, 1200)
    browser.open(played.url)
    shown = {row["title"]: row["cycles"] for row in browser.table()}
    assert shown == {f"/{rate}": text for rate, text in NUMBERS.items()}
    for rate, text in NUMBERS.items():
        assert number(text) == pytest.approx(rate, rel=0.01, abs=0.005)


def test_town(played, browser):
    """A machine with a PMU: ratios, CPUs, units and problems."""
    players.play_town(played)
    played.status = players.status(problems=["a problem, in a <b>sentence</b>"])
    browser.size(1280, 1400)
    browser.open(played.url)
    assert browser.names()[0] == "/" and browser.row("/")["cpus_utilized"] == "–"
    assert {"user-1000.slice", "session-3.scope", "kubepods.slice", "checkout"} <= set(browser.names())
    row = browser.row("checkout")
    assert number(row["ipc"]) == pytest.approx(number(row["instructions"]) / number(row["cycles"]), rel=0.02)
    assert len(browser.run("return document.querySelectorAll('.cpu')")) == 9
    marks = dict(browser.run("return [...document.querySelectorAll('.cpu.all > span:has(.what)')].map((cell) => "
                             "[cell.querySelector('.what').textContent, cell.querySelector('.mark').textContent])"))
    assert {what for what, mark in marks.items() if mark} == {"cache misses", "branch misses"}, "sums have it, too"
    assert {"CPU use", "IPC", "cycles"} <= marks.keys()
    assert "a problem, in a <b>sentence</b>" in browser.text("#notes ul")
    assert "power/energy-gpu/: not counted, unsupported: PMU 'power'" in browser.text("#notes ul")
    assert browser.text("#notes summary") == "1 problem, 1 event not counted"


def test_per_cpu(played, browser):
    """[cgroup] per_cpu: each CPU has a tree of its own. [cpu] aggregate: there are no single CPUs."""
    events = {"cycles": players.value(5)}
    played.events = [players.event("cgroup", "cycles"), players.event("cpu", "cycles")]
    played.cpus = [{"events": events, "derived": {}}]
    played.cgroups = [{"cgroup": path, "cpu": cpu, "id": 1, "derived": {}, "events": events}
                      for path in ("/a", "/a/b") for cpu in (0, 1)]
    browser.open(played.url)
    rows = browser.table()
    assert [(row["name"], row["tag"], row["level"]) for row in rows] == [
        ("/a", "CPU 0", "1"), ("b", "CPU 0", "2"), ("/a", "CPU 1", "1"), ("b", "CPU 1", "2")]
    assert len(browser.run("return document.querySelectorAll('.cpu')")) == 1


def test_events_change(played, browser):
    """As after a reload: other columns, without the page being loaded again."""
    played.events = [players.event("cgroup", "cycles")]
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": {}, "events": {"cycles": players.value(5)}}]
    browser.open(played.url)
    assert browser.table()[0]["cycles"] == "5.00"
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": {}, "events": {"page_faults": players.value(7)}}]
    played.events = [players.event("cgroup", "page-faults")]
    harness.until(lambda: browser.table()[0].get("page_faults") == "7.00", "the new column")
    assert "cycles" not in browser.table()[0]


def test_no_sense(played, browser):
    """What is no answer is as if there were none, and says so."""
    browser.open(played.url)
    answer, played.answer = played.answer, lambda path: (b'{"cut":', {})
    harness.until(lambda: "cut short" in browser.text("#toast"), "it says so")
    played.answer = lambda path: (b"", {})
    harness.until(lambda: "it says 404" in browser.text("#toast"), "it says so")
    played.answer = answer
    browser.until_live()
    assert all("404" in line for line in browser.complaints())
    browser.console.clear()


if PICTURE:
    def test_picture(played, browser):
        """doc/page.png, of a machine that is played."""
        players.play_town(played)
        browser.size(1240, 780)
        browser.prefer(color_scheme="light")
        browser.open(played.url)
        time.sleep(100)
        browser.picture(PICTURE)
        assert Path(PICTURE).stat().st_size < 200_000
