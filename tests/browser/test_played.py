# SPDX-License-Identifier: MIT
"""The page at / with numbers that no test machine has, of a daemon that is played."""

import re
import statistics
import threading
import time

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import harness
import played as players
from chromium import number

pytestmark = pytest.mark.deep


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
    assert row["cache_misses"] == "1.3M" and mark == "~"
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
    shown = {row["tip"]: row["cycles"] for row in browser.table()}
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
    assert {"user-1000", "session-3", "kubepods", "checkout"} <= set(browser.names())
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


UID, CONTAINER = "d59d7cb7_1a2b_3c4d_5e6f_0123456789ab", "80742a371c92" + "f" * 52
KUBE = "/kubepods.slice/kubepods-burstable.slice"
TASK = "cd189a933e5849daa93386466019ab50"

# Paths, and the name and kind of each below the ones before.
LONG_NAMES = {
    "/kubepods.slice": ("/kubepods", ""),
    KUBE: ("burstable", ""),
    f"{KUBE}/kubepods-burstable-pod{UID}.slice": ("pod d59d7cb7", "burstable"),
    f"{KUBE}/kubepods-burstable-pod{UID}.slice/cri-containerd-{CONTAINER}.scope": ("80742a371c92", "containerd"),
    f"{KUBE}/kubepods-burstable-pod{UID}.slice/crio-{CONTAINER}.scope": ("80742a371c92", "cri-o"),
    f"/kubepods.slice/kubepods-pod{UID}.slice": ("pod d59d7cb7", "guaranteed"),
    "/kubepods/besteffort": ("/kubepods/besteffort", ""),
    f"/kubepods/besteffort/pod{UID.replace('_', '-')}": ("pod d59d7cb7", "besteffort"),
    f"/kubepods/besteffort/pod{UID.replace('_', '-')}/{CONTAINER}": ("80742a371c92", "container"),
    f"/system.slice/docker-{CONTAINER}.scope": ("/system/80742a371c92", "docker"),
    "/user.slice": ("/user", ""),
    "/user.slice/user-1000.slice": ("user-1000", ""),
    "/user.slice/user-1000.slice/session-3.scope": ("session-3", ""),
    "/user.slice/user-1000.slice/dev-disk-by\\x2dlabel-root.mount": ("dev-disk-by-label-root.mount", ""),
    "/machine.slice/machine-web\\x2d1.scope": ("/machine/machine-web-1", ""),
    "/.slice": ("/.slice", ""),
    f"/ecs/{TASK}": (f"/ecs/{TASK}", ""),
    f"/ecs/{TASK}/{TASK}-2495160603": ("cd189a933e58-2495160603", "container"),
}


def test_short_names(played, browser):
    """What systemd, kubelet and the runtimes make long is told short; the whole is in the title, and can be found."""
    played.events = [players.event("cgroup", "cycles")]
    played.cgroups = [{"cgroup": path, "id": number, "derived": {}, "events": {"cycles": players.value(1)}}
                      for number, path in enumerate(LONG_NAMES)]
    browser.open(played.url)
    assert {row["tip"]: (row["name"], row["kind"]) for row in browser.table()} == LONG_NAMES
    browser.filter("pod d59d7cb7")
    assert browser.text("#count") == "3 of 18 cgroups"
    browser.filter(CONTAINER[:20])
    assert browser.text("#count") == "4 of 18 cgroups"
    browser.one("#flat").click()
    assert "/kubepods/burstable/pod d59d7cb7/80742a371c92" in browser.names()


POD = f"{KUBE}/kubepods-burstable-pod{UID}.slice"

# Paths with what files of the runtime tell, and the name and kind below the ones before, and without the tree.
KNOWN_NAMES = {
    KUBE: ({}, ("/kubepods/burstable", ""), "/kubepods/burstable"),
    POD: ({"namespace": "retail", "pod": "shop-0"}, ("retail/shop-0", "burstable"), "retail/shop-0"),
    f"{POD}/cri-containerd-{CONTAINER}.scope": (
        {"container_id": CONTAINER, "namespace": "retail", "pod": "shop-0", "container": "cart", "image": "cart:2"},
        ("cart", "containerd"), "retail/shop-0 · cart"),
    f"{POD}/cri-containerd-{CONTAINER}.scope/inside": (
        {"container_id": CONTAINER, "namespace": "retail", "pod": "shop-0", "container": "cart", "image": "cart:2"},
        ("inside", ""), "retail/shop-0 · cart · inside"),
    f"/system.slice/docker-{CONTAINER}.scope": (
        {"container_id": CONTAINER, "container": "we\u202eb"}, ("/system/we⟨U+202E⟩b", "docker"), "we⟨U+202E⟩b"),
    "/machine.slice/machine-qemu\\x2d1\\x2dbuild.scope": (
        {"machine": "build"}, ("/machine/build", "machine"), "build"),
    "/lxc/101": ({"machine": "101"}, ("/lxc/101", "machine"), "101"),
    "/qemu.slice/100.scope": ({"machine": "100"}, ("/qemu/100", "machine"), "100"),
}


def test_known_names(played, browser):
    """Names that people gave come a moment after the cgroups."""
    played.events = [players.event("cgroup", "cycles")]
    rows = [{"cgroup": path, "id": number, "derived": {}, "events": {"cycles": players.value(1)}}
            for number, path in enumerate(KNOWN_NAMES)]
    played.cgroups = rows
    browser.open(played.url)
    assert "pod d59d7cb7" in browser.names()
    played.cgroups = [{**row, **KNOWN_NAMES[row["cgroup"]][0]} for row in rows]
    harness.until(lambda: "retail/shop-0" in browser.names(), "names")
    found = {row["tip"].partition(" · ")[0]: (row["name"], row["kind"]) for row in browser.table()}
    assert found == {path: names for path, (_, names, _) in KNOWN_NAMES.items()}
    assert [row["tip"] for row in browser.table() if row["name"] == "cart"] == [
        f"{POD}/cri-containerd-{CONTAINER}.scope · cart:2"]
    browser.filter("cart:2")
    assert browser.text("#count") == "2 of 8 cgroups"
    browser.filter("")
    browser.one("#flat").click()
    assert set(browser.names()) == {path for _, _, path in KNOWN_NAMES.values()}


CUT = """
const rows = [...document.querySelectorAll('#rows .row')];
const row = rows.find(({ firstChild }) => firstChild.dataset.tip === arguments[0]);
const [head, tail] = row.querySelector('.name').children, cell = row.firstChild.getBoundingClientRect();
return { cut: head.scrollWidth > head.clientWidth, tail: tail.textContent,
    inside: tail.getBoundingClientRect().right <= cell.right, width: cell.width };
"""


def test_width_of_names(played, browser):
    """The names take what the numbers leave, or what the reader says, which lasts; a long one is cut in the middle."""
    name = "/a-" + "very-" * 30 + "long-name"
    played.events = [players.event("cgroup", text) for text in ("cycles", "instructions")]
    played.cgroups = [{"cgroup": name, "id": 1, "derived": {}, "events": {"cycles": players.value(1)}}]
    browser.open(played.url)
    before = browser.run(CUT, name)
    assert before["cut"] and before["inside"] and before["tail"] == "ong-name" and before["width"] > 600
    drag = browser.one("#drag")
    ActionChains(browser.driver).click_and_hold(drag).move_by_offset(-300, 0).release().perform()
    after = browser.run(CUT, name)
    assert after["width"] == pytest.approx(before["width"] - 300, abs=12) and after["inside"]
    heads = "return [...document.querySelectorAll(arguments[0])].map((it) => it.getBoundingClientRect().right)"
    assert browser.run(heads, ".head > *") == browser.run(heads, "#rows .row:not([hidden]) > *")
    browser.open(played.url)
    assert browser.run(CUT, name)["width"] == after["width"]
    drag = browser.one("#drag")
    drag.send_keys(Keys.ARROW_RIGHT)
    assert browser.run(CUT, name)["width"] == after["width"] + 16
    drag.send_keys(Keys.ESCAPE)
    assert browser.run(CUT, name)["width"] == before["width"]


def test_which_machine(played, browser):
    """In the head and in the tab's title; where the daemon does not tell, the address."""
    browser.open(played.url)
    host = played.url.removeprefix("http://").rstrip("/")
    assert browser.driver.title == "alder · perfmond"
    assert browser.text("#where") == f"alderFast One · 8 CPUs · Linux 6.18.1 · {host}"
    played.status = players.status(machine={"hostname": None, "kernel": None, "cpu_model": None, "cpus": 1})
    browser.open(played.url)
    assert browser.driver.title == f"{host} · perfmond" and browser.text("#where") == f"{host}1 CPU · {host}"


def lines(browser, selector):
    """The points of the lines there, each a list of the x of its parts."""
    paths = browser.run("return [...document.querySelectorAll(arguments[0])].map((path) => path.getAttribute('d'))",
                        selector)
    return [[[float(x) for x in re.findall(r"[ML]([\d.]+) ", "M" + part)] for part in (path or "").split("M")[1:]]
            for path in paths]


def points(line):
    """In all of its parts: a refresh that is late leaves a gap."""
    return sum(map(len, line))


TREND, TOTAL = "#rows .row:not([hidden]) svg path", ".cpu.all svg path:not(.area)"


def test_lines_stay(played, browser):
    """When the state of an event changes, and when other columns are shown."""
    played.events = [players.event("cgroup", "cycles"), players.event("cpu", "cycles"),
                     players.event("cgroup", "lost", state="unsupported", reason="it is not there")]
    played.cpus = [{"cpu": 0, "derived": {}, "events": {"cycles": players.value(5), "branches": players.value(5)}}]
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": {}, "events": {"cycles": players.value(5)}}]
    browser.open(played.url)
    browser.one(".head button[data-key=cycles]").click()
    browser.refreshes(4)
    browser.keys("u")
    before = points(lines(browser, TREND)[0])
    assert before >= 5, "with the other columns"
    assert browser.run("return document.activeElement.dataset.key") == "cycles"
    played.events = [players.event("cgroup", "cycles", state="multiplexed"), players.event("cpu", "cycles"),
                     players.event("cpu", "branches"), *played.events[2:]]
    harness.until(lambda: "~" in browser.text(".head button[data-key=cycles]"), "the state is seen", 20)
    assert points(lines(browser, TREND)[0]) > before
    harness.until(lambda: len(lines(browser, TOTAL)) == 2, "another column of the machine")
    assert points(lines(browser, TOTAL)[0]) > before


def test_a_pause_is_a_gap(played, browser):
    """As long as it was."""
    played.events = [players.event("cgroup", "cycles"), players.event("cpu", "cycles")]
    played.cpus = [{"cpu": 0, "derived": {}, "events": {"cycles": players.value(5)}}]
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": {}, "events": {"cycles": players.value(5)}}]
    browser.open(played.url)
    browser.refreshes(3)
    browser.keys(" ")
    harness.until(lambda: browser.text("#state") == "paused" and not browser.run("return state.busy"), "paused")
    browser.run("const before = show; window.times = [state.time / 1000];"
                "show = (snapshot) => { window.times.push(snapshot.monotonic_seconds); before(snapshot); }")
    before = played.asked.count("/api/v1/snapshot")
    time.sleep(6)
    assert played.asked.count("/api/v1/snapshot") == before
    browser.keys(" ")
    browser.until_live()
    harness.until(lambda: all(len(lines(browser, path)[0]) >= 2 for path in (TREND, TOTAL)), "two parts")
    for path in (TREND, TOTAL):
        # On a busy machine the page misses a reading elsewhere, too.
        parts = lines(browser, path)[0]
        gap = max(second[0] - first[-1] for first, second in zip(parts, parts[1:]))
        # What the pause took is known: on a busy machine it may be longer than the sleep.
        times = browser.run("return window.times")
        passed = max(later - earlier for earlier, later in zip(times, times[1:]))
        assert 5 <= gap == pytest.approx(passed, abs=0.6), (parts, times)


def test_paused_while_it_asks(played, browser):
    """An answer that comes after the pause changes nothing; the next one does."""
    asked, answers = threading.Event(), threading.Event()

    def row(rate):
        return [{"cgroup": "/a", "id": 1, "derived": {}, "events": {"cycles": players.value(rate)}}]

    def late(_):
        asked.set()
        answers.wait(harness.PATIENCE)
        return row(7)

    played.events, played.cgroups = [players.event("cgroup", "cycles")], row(5)
    browser.open(played.url)
    played.cgroups = late
    harness.until(asked.is_set, "it asks")
    browser.keys(" ")
    answers.set()
    harness.until(lambda: not browser.run("return state.busy"), "it has its answer")
    assert browser.table()[0]["cycles"] == "5.00" and browser.text("#state") == "paused"
    browser.keys(" ")
    harness.until(lambda: browser.table()[0]["cycles"] == "7.00", "it goes on")


FILLED = """
const pasts = {}, time = state.snapshot.timestamp, ends = arguments[0];
const history = { times: ends.map((end) => time - end), seconds: arguments[1] };
fillRing(pasts, "x", 10, history, ends.map((_, i) => i + 1));
return [...Array(10).keys()].map((back) => {
    const rate = pasts.x[(state.at - back + 20) % 10];
    return Number.isNaN(rate) ? null : rate;
});
"""


def test_no_gap_between_slots(played, browser):
    """Slots of the history end when the daemon has read, which may be half an interval from where the page's do."""
    browser.open(played.url)
    harness.until(lambda: browser.run("return state.snapshot !== null"), "a reading")
    ends, lengths = [5.49, 4.51, 3.49, 2.51, 1.49, 0.51], [1, 0.98, 1.02, 0.98, 1.02, 0.98]
    filled = browser.run(FILLED, ends, lengths)
    assert filled[0] is None and None not in filled[1:6] and filled[7:] == [None] * 3, filled
    assert sorted(filled[1:6], reverse=True) == filled[1:6]
    # The machine slept between the second and the third one.
    assert browser.run(FILLED, [7, 6, 1, 0], [1] * 4)[:8] == [4, 3, None, None, None, None, 2, 1]
    # Four of the page's intervals are one of the past.
    assert browser.run(FILLED, [4, 0], [4, 4])[:8] == [2] * 4 + [1] * 4


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_clock_that_is_set_changes_no_use_of_a_cpu(played, browser, ahead):
    """The time between two readings is that of a clock that nobody sets."""
    played.cpus = players.many_cpus(2)
    browser.open(played.url)

    def uses():
        return browser.run("return [state.snapshot?.timestamp, ...(state.snapshot?.cpus ?? []).map("
                           "({ derived }) => derived.cpus_utilized)]")
    harness.until(lambda: len(found := uses()) == 3 and found[2] and found[2] > 0.5, "a use of the busy CPU")
    begin = uses()[0]
    browser.run("window.seen = []; const before = show; show = (snapshot) => { before(snapshot); window.seen.push("
                "[snapshot.timestamp, snapshot.cpus[1].derived.cpus_utilized]); }")
    played.ahead = ahead
    seen = harness.until(lambda: [use for time, use in browser.run("return window.seen") if abs(time - begin) > 1800],
                         "readings after the step")
    assert all(use > 0.5 for use in seen), seen


def test_times_that_were_shown_twice(played, browser):
    """The clock was set back by 3 s: of the past, a line shows what was at the later moment of a time."""
    browser.open(played.url)
    asked = {"times": [101, 102, 103.004, 104, 105, 102, 103, 104], "seconds": [1] * 8, "timestamp": 104,
             "cpus": [{"cpu": 0, "events": {"x": [1, 2, 3, 4, 5, 6, 7, 8]}}], "cgroups": []}
    found = browser.run("return dropRepeated(arguments[0]);", asked)
    assert found == {"times": [101, 102, 103, 104], "seconds": [1] * 4, "timestamp": 104,
                     "cpus": [{"cpu": 0, "events": {"x": [1, 6, 7, 8]}}], "cgroups": []}
    # It was set forward, and slots follow each other more or less exactly.
    asked = {"times": [101, 102.05, 3703, 3704.02], "seconds": [1] * 4, "cpus": [], "cgroups": []}
    assert browser.run("return dropRepeated(arguments[0]);", asked) == asked


@pytest.mark.parametrize("nr, most", [(20, 90), (4000, 37)])
def test_past_of_many_rows(played, browser, nr, most):
    """The more rows there are, the shorter is the past that is asked for, since the daemon refuses too many points."""
    played.events = [players.event("cgroup", "cycles")]
    played.cgroups = [{"cgroup": f"/c{i}", "id": i, "derived": {}, "events": {"cycles": players.value(5)}}
                      for i in range(nr)]
    browser.open(played.url)
    asked = harness.until(lambda: [path for path in played.asked if "/history?scope=cgroup&from=" in path], "it asks")
    assert -float(re.search("from=([-0-9.]+)", asked[0])[1]) == most


def test_short_intervals(played, browser):
    """Where the daemon reads more often than the page asks, a number is of all that has happened in between."""
    begin = time.time()

    def row(now, scope):
        # A burst of 100 ms in each second, of which the rate of a single interval tells nothing.
        cycles, instructions = (players.value(rate) | {"total": int((now - begin) * total)}
                                for rate, total in ((0.0, 5000), (1e9, 10000)))
        return {**scope, "id": 1, "derived": {"ipc": 77}, "events": {"cycles": cycles, "instructions": instructions}}

    played.interval = 0.1
    played.events = [players.event(scope, text) for scope in ("cgroup", "cpu") for text in ("cycles", "instructions")]
    played.cgroups, played.cpus = lambda now: [row(now, {"cgroup": "/a"})], lambda now: [row(now, {"cpu": 0})]
    browser.open(played.url)
    browser.refreshes(2)
    for _ in range(3):
        browser.refreshes(1)
        seen = browser.row("/a")
        assert number(seen["cycles"]) == pytest.approx(5000, rel=0.1)
        assert number(seen["instructions"]) == pytest.approx(10000, rel=0.1)
        assert number(seen["ipc"]) == pytest.approx(2, rel=0.1)
        of_cpu = [number(rate.text.replace("\n", "")) for rate in browser.driver.find_elements(
            By.CSS_SELECTOR, ".cpu:not(.all) .rate")]
        assert of_cpu == pytest.approx([2, 5000, 10000], rel=0.1)


def test_columns_out_of_sight(played, browser):
    """What the keys sort by comes into sight, beside the names, and below its head."""
    texts = [f"event-{i}" for i in range(20)]
    played.events = [players.event("cgroup", text) for text in texts]
    events = {text.replace("-", "_"): players.value(10 + i) for i, text in enumerate(texts)}
    played.cgroups = [{"cgroup": "/a", "id": 1, "derived": {}, "events": events}]
    browser.size(900, 700)
    browser.open(played.url)
    seen = """
        const sorted = document.querySelector('.head [aria-sort]'), grid = document.querySelector('#grid');
        const [at, all, name] = [sorted, grid, sorted.parentNode.firstChild].map((it) => it.getBoundingClientRect());
        return at.left >= name.right - 1 && at.right <= all.right;
    """
    keys = [*">" * 24, *"<" * 30]
    for key in keys:
        browser.keys(key)
        sorted_by = browser.run("return document.querySelector('.head [aria-sort] button').dataset.key")
        assert sorted_by == "name" or browser.run(seen), (key, sorted_by)
    # The digits end where the head's text ends, but for the room of a prefix.
    ends = browser.run("""
        const text = (node) => { const range = document.createRange(); range.selectNodeContents(node);
            return range.getBoundingClientRect().right; };
        const row = document.querySelector('#rows .row');
        return [...document.querySelectorAll('.head .label')].slice(1).map((label, i) =>
            text(label) - text(row.children[i + 2].children[2]));
    """)
    assert len(ends) == 20 and all(0 <= end <= 16 for end in ends), ends


SHOWN = """
return [...document.querySelectorAll('.cpu:not(.all)')].map((row) =>
    [row.firstChild.textContent, row.querySelector('.rate > :nth-child(2)')?.textContent,
        row.querySelector('path')?.getAttribute('d')?.match(/[ML]/g)?.length ?? 0]);
"""


def test_many_cpus(played, browser, record_property):
    """Their number is not cut off, only those in sight are drawn, and the daemon's times have a unit that fits."""
    texts = [f"event-{i}" for i in range(8)]
    played.events = [players.event("cpu", text) for text in texts]
    played.cpus = lambda now: [{"cpu": cpu, "derived": {}, "events": {text.replace("-", "_"): players.value(
        now % 1000 + cpu) for text in texts}} for cpu in range(128)]
    browser.open(played.url)
    browser.one("#cpu-rows").click()
    times = browser.refreshes(4)
    print(f"\n128 CPUs with 8 events, as rows: a refresh takes {statistics.median(times):.1f} ms (median)")
    record_property("refresh_ms", statistics.median(times))
    rows = browser.run(SHOWN)
    assert len(rows) == 128 and rows[0][1] and rows[0][2] >= 4 and not rows[127][1]
    browser.run("document.querySelector('#machine').scrollTop = 1e6")
    harness.until(lambda: browser.run(SHOWN)[127][1], "the last one is drawn when it comes into sight")
    assert browser.run(SHOWN)[127][2] >= 4, "with what was before"
    browser.run("document.querySelector('#machine').scrollTop = 0")
    head = browser.one(".cpu.all > :first-child")
    assert head.text == "128 CPUs"
    assert browser.run("return arguments[0].scrollWidth <= arguments[0].clientWidth", head)
    assert "a reading 225 µs" in browser.text("#cost") and "loop lag 210 µs" in browser.text("#cost")


def test_for_those_who_hear_it(played, browser):
    """Landmarks, and tables with heads."""
    players.play_town(played)
    browser.open(played.url)
    assert [node.get_attribute("id") for node in browser.driver.find_elements(By.CSS_SELECTOR, "main > *")] == [
        "machine", "map", "notes", "list", "profile", "tip"]
    every = "return [...document.querySelectorAll(arguments[0])].map((it) => it[arguments[1]])"
    heads = browser.run(every, "#machine [role=columnheader]", "textContent")
    cells = browser.run(every, "#machine [role=row]", "childElementCount")
    assert heads[:4] == ["CPU", "CPU use, CPUs", "IPC", "cycles, /s"] and set(cells) == {len(heads)}
    small = browser.run("""
        return [...document.querySelectorAll('button, input, summary, a, .twist, #drag')]
            .map((node) => [node.id || node.className || node.tagName, node.getBoundingClientRect()])
            .filter(([id, box]) => box.width && (box.height < 24 || (box.width < 24 && id !== 'drag')))
            .map(([id]) => id)
    """)
    assert small == []


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


def test_an_event_that_some_cgroups_lack(played, browser):
    """It has failed, and is shown where it is counted."""
    reason = "1 of 2 cgroups lack it: /b, CPU 0: its breakpoints are in use"
    played.events = [players.event("cgroup", "watched", state="failed", reason=reason),
                     players.event("cgroup", "lost", state="failed", reason="nobody has it")]
    played.cgroups = [{"cgroup": f"/{name}", "id": 1, "derived": {}, "events": events}
                      for name, events in (("a", {"watched": players.value(7)}), ("b", {}))]
    browser.open(played.url)
    rows = {row["tip"]: row for row in browser.table()}
    assert rows["/a"]["watched"] == "7.00" and "lost" not in rows["/a"]
    assert rows["/b"]["watched"] != "7.00"
    assert f"failed: {reason}" in browser.text("#notes ul")
