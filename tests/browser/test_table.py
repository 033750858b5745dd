# SPDX-License-Identifier: MIT
"""The table of cgroups and the map of CPUs, of a daemon that is played: what is hot, what stays where it is, which
columns and numbers there are, and what is told of them."""

import itertools
import re
import statistics

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import harness
import played as players
from chromium import number

pytestmark = pytest.mark.deep


def cgroup(path, **events):
    """One whose task-clock is its use; the others are rates of plain counts."""
    use = events.pop("use", 0)
    made = {"task_clock": players.value(use, unit="seconds")}
    made.update({name: rate if isinstance(rate, dict) else players.value(rate) for name, rate in events.items()})
    return {"cgroup": path, "id": hash(path) % 10000, "events": made, "derived": {"cpus_utilized": use}}


def play(played, *events):
    played.events = [players.event("cgroup", "task-clock", unit="seconds"),
                     *(players.event("cgroup", text) for text in events)]


HEAT = """
const keys = [...document.querySelectorAll('.head button')].slice(1).map((it) => it.dataset.key);
return Object.fromEntries([...document.querySelectorAll('#rows .row:not([hidden])')].map((row) => [
    row.querySelector('.name').textContent, { idle: row.classList.contains('idle'),
        ...Object.fromEntries(keys.map((key, i) => [key, [row.children[i + 2].dataset.bar ?? null,
            Number(row.children[i + 2].style.getPropertyValue('--share')) || 0,
            row.children[i + 2].children[2].className]])) }]));
"""


def test_heat(played, browser):
    """A bar behind the column that is sorted by, and warmth where one cgroup does much of all."""
    play(played, "page-faults")
    played.cgroups = [cgroup("/top", use=2, page_faults=1000), cgroup("/top/half", use=1.2, page_faults=10),
                      cgroup("/top/third", use=0.6, page_faults=300), cgroup("/top/a", use=0.1, page_faults=5),
                      cgroup("/top/b", use=0.1, page_faults=5), cgroup("/c", use=0.0001, page_faults=0)]
    browser.open(played.url)
    heat = browser.run(HEAT)
    assert heat["/top"]["cpus_utilized"] == ["cool", 1, ""], "those below it are warm instead"
    assert heat["half"]["cpus_utilized"] == ["hot", 0.6, "hot"] and heat["third"]["cpus_utilized"][2] == "warm"
    assert heat["a"]["cpus_utilized"][:2] == ["cool", 0.05]
    assert heat["third"]["page_faults"] == [None, 0, "hot"], "of 320; no bar, since it is not sorted by"
    browser.one(".head button[data-key=page_faults]").click()
    heat = browser.run(HEAT)
    assert heat["third"]["page_faults"] == ["hot", 0.3, "hot"] and heat["half"]["cpus_utilized"][0] is None
    # A row that is folded is as warm as what it hides.
    browser.run("[...document.querySelectorAll('#rows .twist')].find((it) => it.textContent === '▾').click()")
    assert browser.run(HEAT)["/top"]["page_faults"][2] == ""
    played.cgroups = [{**row, "cgroup": "/above" + row["cgroup"]} for row in played.cgroups] + [cgroup("/above")]
    harness.until(lambda: "top" in browser.run(HEAT), "one that has a parent")
    browser.run("[...document.querySelectorAll('#rows .row:not([hidden])')].find((row) => row.querySelector("
                "'.name').textContent === 'top').querySelector('.twist').click()")
    assert browser.run(HEAT)["top"]["page_faults"][2] == "hot"


def test_idle(played, browser):
    """What has done nothing for a while is grey, and can be hidden: a parent of something busy is not."""
    play(played)
    use = {"busy": 0.5, "lazy": 0.0}
    played.cgroups = lambda _: [cgroup("/a", use=sum(use.values())),
                                *(cgroup(f"/a/{name}", use=rate) for name, rate in use.items())]
    browser.open(played.url)
    harness.until(lambda: [name for name, it in browser.run(HEAT).items() if it["idle"]] == ["lazy"], "it is grey", 20)
    browser.keys("i")
    assert browser.names() == ["/a", "busy"] and browser.text("#count") == "2 of 3 cgroups, 1 idle"
    link = browser.driver.current_url
    assert "idle=hidden" in link
    browser.run("localStorage.clear()")
    browser.driver.get("about:blank")
    browser.open(link)
    harness.until(lambda: browser.names() == ["/a", "busy"], "the link hides it, too", 20)
    use["lazy"] = 0.7
    harness.until(lambda: "lazy" in browser.names(), "it is back once it does something", 20)
    browser.one("#idle").click()
    assert "idle=" not in browser.driver.current_url


def ranked(browser):
    return [row["name"] for row in browser.table()]


def test_rows_hold_still(played, browser):
    """A new order every 5 s at most, and none while the mouse or the keys are on a row."""
    play(played)
    # They change places with each answer; an order comes back after more of them than there are in 5 s.
    turns = itertools.count()

    def rows(_):
        turn = next(turns)
        return [cgroup(f"/{i}", use=1 + (turn + i) % 7) for i in range(7)]

    played.cgroups = rows
    browser.open(played.url)
    browser.run("""
        window.orders = [];
        new MutationObserver(() => {
            const now = [...document.querySelectorAll('#rows .row:not([hidden])')].map((row) =>
                [row.style.transform, row.firstChild.dataset.tip]).sort().join();
            if (window.orders.at(-1)?.[1] !== now) window.orders.push([state.arranged, now]);
        }).observe(document.querySelector('#rows'), { subtree: true, attributes: true, characterData: true });
    """)
    orders = harness.until(lambda: len(got := browser.run("return window.orders")) >= 3 and got, "some orders", 40)
    assert all(after[0] - before[0] >= 5000 for before, after in zip(orders[1:], orders[2:])), orders

    ActionChains(browser.driver).move_to_element(browser.one("#rows .row")).perform()
    before = ranked(browser)
    browser.refreshes(6)
    assert ranked(browser) == before, "the mouse is on a row"
    ActionChains(browser.driver).move_to_element(browser.one("h1")).perform()
    harness.until(lambda: ranked(browser) != before, "it has left", 20)

    browser.run("document.querySelector('#grid').focus()")
    browser.keys(Keys.HOME)
    before = ranked(browser)
    browser.refreshes(6)
    assert ranked(browser) == before, "the keys are on a row"
    # What comes is last, and what goes leaves no hole.
    played.cgroups = lambda now: [*rows(now)[1:], cgroup("/new", use=50)]
    left = [name for name in before if name != "/0"]
    harness.until(lambda: ranked(browser) == [*left, "/new"], "there is a new one")
    browser.run("document.querySelector('#filter').focus()")
    harness.until(lambda: ranked(browser)[0] == "/new", "it is where it belongs", 20)


def heads(browser):
    return browser.run("return [...document.querySelectorAll('.head button')].map((it) => it.dataset.key)")


def test_columns(played, browser):
    """Chosen and ordered by the reader, by mouse or keys: in this browser, and in the address."""
    play(played, "page-faults", "context-switches", "cpu-migrations")
    played.cgroups = [cgroup("/a", use=1, page_faults=1, context_switches=2, cpu_migrations=3)]
    browser.open(played.url)
    usual = ["name", "cpus_utilized", "page_faults", "context_switches", "cpu_migrations"]
    assert heads(browser) == usual
    browser.keys("c")
    browser.one("[data-key=page_faults] input").click()
    assert heads(browser) == [key for key in usual if key != "page_faults"]
    up = browser.one("[data-key=cpu_migrations] button")
    up.send_keys(Keys.ENTER)
    assert browser.run("return document.activeElement === arguments[0]", up), "to be pressed again"
    up.send_keys(Keys.ENTER)
    up.send_keys(Keys.ENTER)
    assert browser.text("#moved") == "cpu migrations is column 1"
    browser.keys(Keys.ESCAPE)
    mine = ["name", "cpu_migrations", "cpus_utilized", "context_switches"]
    assert heads(browser) == mine and browser.table()[0]["cpu_migrations"] == "3.00"
    browser.refreshes(2)
    assert heads(browser) == mine
    link = browser.driver.current_url
    browser.open(played.url)
    assert heads(browser) == mine, "this browser has kept them"
    browser.run("localStorage.clear()")
    browser.driver.get("about:blank")
    browser.open(link)
    assert heads(browser) == mine, "so has the link"
    # An event that is new comes last.
    play(played, "page-faults", "context-switches", "cpu-migrations", "major-faults")
    harness.until(lambda: heads(browser) == [*mine, "major_faults"], "the new event", 20)
    browser.one("#columns").click()
    browser.one("#as-configured").click()
    browser.keys(Keys.ESCAPE)
    assert heads(browser) == [*usual, "major_faults"] and "columns=" not in browser.driver.current_url


def test_per(played, browser):
    """Per second, per 1,000 instructions, or totals; sorted by what is shown."""
    play(played, "instructions", "page-faults")
    played.cgroups = [cgroup("/a", use=0.5, instructions=4e6, page_faults=players.value(800) | {"total": 7}),
                      cgroup("/b", use=0.25, instructions=1e6, page_faults=players.value(500) | {"total": 9000}),
                      cgroup("/c", use=0.25, instructions=0, page_faults=players.value(9) | {"total": 8})]
    browser.open(played.url)
    browser.one(".head button[data-key=page_faults]").click()

    def faults():
        return [(row["name"], row["page_faults"]) for row in browser.table()]

    assert faults() == [("/a", "800"), ("/b", "500"), ("/c", "9.00")]
    browser.one("[data-per=instructions]").click()
    assert faults() == [("/b", "0.50"), ("/a", "0.20"), ("/c", "–")]
    assert browser.one(".head button[data-key=page_faults] small").text == "/ 1k instr."
    assert browser.row("/a")["cpus_utilized"] == "0.50" and "per=instructions" in browser.driver.current_url
    browser.keys("n")
    assert faults() == [("/b", "9.00k"), ("/c", "8.00"), ("/a", "7.00")]
    assert browser.row("/a")["cpus_utilized"] == "500" and browser.one(
        ".head button[data-key=cpus_utilized] small").text == "s"
    link = browser.driver.current_url
    browser.run("localStorage.clear()")
    browser.driver.get("about:blank")
    browser.open(link)
    assert faults()[0] == ("/b", "9.00k")
    browser.keys("n")
    assert faults()[0] == ("/a", "800") and "per=" not in browser.driver.current_url
    # Where nothing counts instructions, nothing is told per them.
    browser.keys("n")
    play(played, "page-faults")
    for row in played.cgroups:
        del row["events"]["instructions"]
    harness.until(lambda: not browser.one("[data-per=instructions]").is_displayed(), "there is no such choice", 20)
    harness.until(lambda: faults()[0] == ("/a", "800"), "rates are back")


def test_estimates_are_held(played, browser):
    """An event that had no turn in the last interval keeps its estimate for a while, and says how old it is."""
    play(played, "cache-misses")
    whole = players.value(12345)
    both = [players.value(12345, running=0.4, state="multiplexed"), whole]
    played.cgroups = lambda _: [cgroup("/a", use=1, cache_misses=both[0]), cgroup("/b", use=0.5, cache_misses=both[1])]
    browser.open(played.url)
    assert browser.row("/a")["cache_misses"] == "12k" and browser.row("/b")["cache_misses"] == "12.3k"
    for i in (0, 1):
        both[i] = {**both[i], "rate": None, "running": None}
    harness.until(lambda: browser.row("/b")["cache_misses"] == "–", "what was counted all the time is not known")
    seen = browser.row("/a")
    assert seen["cache_misses"] == "12k" and seen["cache_misses quality"][0] == "~"
    harness.until(lambda: re.match(r"an estimate, of ([2-9]|1\d) s ago", browser.row("/a")["cache_misses quality"][2]),
                  "it says how old it is")
    harness.until(lambda: browser.row("/a")["cache_misses"] == "–", "it is not held for ever", 30)
    both[0] = players.value(54321, running=0.4, state="multiplexed")
    harness.until(lambda: browser.row("/a")["cache_misses"] == "54k", "it is back")


def tip(browser):
    return browser.run("const tip = document.querySelector('#tip');"
                       "return tip.matches(':popover-open') ? tip.textContent : null")


def touch(browser, selector, until):
    """A finger, until then."""
    box = browser.run("return document.querySelector(arguments[0]).getBoundingClientRect()", selector)
    point = [{"x": box["left"] + box["width"] / 2, "y": box["top"] + box["height"] / 2}]
    browser.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": point})
    harness.until(until, "a long tap")
    browser.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def tap(browser, selector):
    """A finger, for so short a time that a busy machine can't make it long."""
    browser.run("""
        const node = document.querySelector(arguments[0]), box = node.getBoundingClientRect();
        const at = { bubbles: true, cancelable: true, composed: true, pointerType: 'touch',
            clientX: box.left + box.width / 2, clientY: box.top + box.height / 2 };
        for (const type of ['pointerdown', 'pointerup', 'click']) node.dispatchEvent(new PointerEvent(type, at));
    """, selector)


def test_tips(played, browser):
    """By mouse, by key, and by finger; no title of the browser's own is left."""
    play(played, "page-faults")
    played.cgroups = [cgroup("/system.slice/web.service", use=1, page_faults=players.value(5, peak=70))]
    browser.open(played.url)
    assert browser.run("return document.querySelectorAll('[title]').length") == 0
    mouse = ActionChains(browser.driver)
    mouse.move_to_element(browser.one("#rows .row > :last-child")).perform()
    harness.until(lambda: tip(browser) == "▴ highest rate of one reading within the last minute: 70.0", "of the mouse")
    browser.refreshes(2)
    assert tip(browser), "new numbers do not end it"
    browser.keys(Keys.ESCAPE)
    assert tip(browser) is None
    mouse.move_to_element(browser.one("h1")).perform()

    browser.keys(Keys.TAB)
    browser.run("document.querySelector('#peaks').blur()")
    browser.one("#help").send_keys(Keys.SHIFT, Keys.TAB)
    assert browser.run("return document.activeElement.id") == "theme" and tip(browser) == "Light or dark (d)"
    assert browser.run("return document.activeElement.getAttribute('aria-describedby')") == "tip"
    browser.run("document.querySelector('#grid').focus()")
    assert tip(browser) is None
    browser.keys(Keys.HOME, Keys.ARROW_DOWN)
    harness.until(lambda: tip(browser) == "/system.slice/web.service", "the whole name of the row that the keys are on")
    browser.keys(Keys.ESCAPE, "c")
    browser.keys(Keys.TAB, Keys.TAB)
    assert browser.run("return document.activeElement.tagName") in ("INPUT", "BUTTON")
    harness.until(lambda: browser.keys(Keys.TAB) or tip(browser) in ("further left", "further right"), "in a dialog")
    browser.keys(Keys.ESCAPE)

    browser.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 1})
    tap(browser, ".head .trend")
    assert tip(browser).startswith("of what is sorted by"), "a tap where it does nothing else"
    # The dialog has gone from under the mouse.
    browser.run("""document.querySelector('h1').dispatchEvent(new PointerEvent('pointerover', {
        bubbles: true, pointerType: 'mouse', clientX: mouse.x, clientY: mouse.y }))""")
    assert tip(browser), "a mouse that rests does not end it"
    touch(browser, "#rows .row > :first-child", lambda: tip(browser) == "/system.slice/web.service")
    assert not browser.one("#detail").is_displayed(), "which does not open what it is on"
    tap(browser, "h2")
    assert tip(browser) is None, "a tap elsewhere"
    tap(browser, "#rows .row > :first-child")
    harness.until(lambda: browser.one("#detail").is_displayed(), "a short one opens it")


def test_use_of_cpus(played, browser):
    """Of each CPU, by the kernel's accounting: also where the page asks less often than the daemon reads."""
    played.events = [players.event("cpu", "context-switches")]
    played.cpus = players.many_cpus(4)
    browser.open(played.url)
    browser.refreshes(3)
    use = "return [...document.querySelectorAll('.cpu:not(.all)')].map((row) => row.children[1].querySelector(" \
          "'.rate > :nth-child(2)').textContent)"
    shown = [number(text) for text in browser.run(use)]
    assert shown == pytest.approx([0.25, 0.5, 0.75, 1], abs=0.06)
    assert number(browser.text(".cpu.all .big")) == pytest.approx(2.5, abs=0.15)
    assert browser.run("return [...document.querySelectorAll('.cpu:not(.all)')].map((row) => "
                       "row.children[1].querySelector('.rate').className)")[::3] == ["rate", "rate hot"]
    assert not browser.one("#map").is_displayed()


CELLS = """
return [...document.querySelectorAll('#cells span')].map((it) => [it.textContent, it.dataset.level, it.dataset.tip]);
"""


def test_map_of_cpus(played, browser):
    """From 16 CPUs on: one cell each, as warm as its use or another number of it; or rows, as the reader likes."""
    played.events = [players.event("cpu", text) for text in players.RATES]
    played.cpus = players.many_cpus(16)
    browser.open(played.url)
    browser.refreshes(2)
    cells = browser.run(CELLS)
    assert [cell[0] for cell in cells] == [str(cpu) for cpu in range(16)]
    levels = [int(cell[1]) for cell in cells]
    assert levels == sorted(levels) and levels[0] == 0 and levels[-1] == 9
    assert cells[7][2].startswith("CPU 7: ") and cells[7][2].endswith(" %")
    label = browser.one("#cells").get_attribute("aria-label")
    assert label.startswith("CPU use of 16 CPUs: mean ") and "most on CPU 15" in label
    assert "CPUs above 80 %" in label
    browser.run("const by = document.querySelector('#map-by'); by.value = 'page_faults';"
                "by.dispatchEvent(new Event('change'))")
    assert browser.run(CELLS)[3][2].endswith("/s")
    assert not browser.run("return [...document.querySelectorAll('.cpu:not(.all):not([hidden])')].length")
    browser.one("#cpu-rows").click()
    assert not browser.one("#cells").is_displayed()
    assert browser.run("return [...document.querySelectorAll('.cpu:not(.all):not([hidden])')].length") == 16
    browser.open(played.url)
    assert not browser.one("#cells").is_displayed(), "which lasts"
    played.cpus = players.many_cpus(15)
    harness.until(lambda: not browser.one("#map").is_displayed(), "fewer CPUs have no map")


def test_many_of_both(played, browser, record_property):
    """1,500 cgroups and 128 CPUs; how long a refresh takes is told, not tested."""
    texts = [*players.RATES, "task-clock"]
    played.events = [players.event(scope, text, unit="seconds" if text == "task-clock" else None)
                     for scope in ("cpu", "cgroup") for text in texts]
    played.cpus = players.many_cpus(128)
    paths = [f"/slice-{i // 50}" + (f"/job-{i % 50}.service" if i % 50 else "") for i in range(1500)]

    def cgroups(seed):
        return [cgroup(path, use=(i * 7919 + seed) % 97 / 97, **{
            text.replace("-", "_"): (i * 104729 + seed * 100) % 9973 for text in players.RATES})
            for i, path in enumerate(paths)]

    # Made before, so that this process does not take the CPU from the browser.
    made = [cgroups(0), cgroups(1)]
    played.cgroups = lambda now: made[int(now) % 2]
    browser.size(1600, 1000)
    browser.open(played.url)
    harness.until(lambda: browser.text("#count") == "1,500 cgroups", "all are there")
    times = browser.refreshes(8)
    print(f"\n1,500 cgroups with 9 events, 128 CPUs: a refresh takes {statistics.median(times):.1f} ms (median), "
          f"{max(times):.1f} ms at most, of {len(times)}")
    record_property("refresh_ms", statistics.median(times))
    assert len(browser.run("return document.querySelectorAll('#rows .row')")) < 80
    assert len(browser.run(CELLS)) == 128
