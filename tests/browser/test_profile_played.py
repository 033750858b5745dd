# SPDX-License-Identifier: MIT
"""The view of profiles, of a daemon that is played, so that each number is known."""

import re
import statistics
import time
import urllib.parse

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

import harness
import played as players
import profiles
from profiles import DB, STACKS, WEB, click_node, row, said, zoomed
from test_live import luminance

pytestmark = pytest.mark.deep

SAMPLES = sum(STACKS.values())


def address(browser):
    """What is in the address."""
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(browser.driver.current_url).fragment))


@pytest.fixture
def shown(played, browser):
    """The view, of the stacks of profiles.py."""
    players.play_town(played)
    profiles.play(played)
    browser.size(1280, 900)
    browser.prefer(color_scheme="light")
    browser.open(played.url + "#show=profile")
    profiles.until_drawn(browser)
    return browser


def test_all_of_it_is_drawn(shown):
    """Each row is as wide as what its nodes add up to, in the colours of five kinds of code."""
    rows, width = profiles.drawn(shown)
    totals = [sum(samples for stack, samples in STACKS.items() if len(stack) > depth) for depth in range(5)]
    for depth, total in enumerate([SAMPLES, *totals]):
        assert sum(box[1] for box in rows[depth]) == pytest.approx(total / SAMPLES * width, abs=0.5), depth
        for before, after in zip(rows[depth], rows[depth][1:]):
            assert before[0] + before[1] <= after[0] + 0.01, "none is over another"
    by_width = [round(box[1] / width * SAMPLES) for box in rows[1]]
    assert by_width == [600, 380, 20], "the largest first"
    assert len({box[2] for boxes in rows for box in boxes}) == 5 + 1, "two programs have two colours"
    assert len(shown.run("return [...document.querySelectorAll('#legend span')].map((it) => it.textContent)")) == 5
    assert shown.text("#profile-sum").startswith("10.0 s CPU time · ") and "1,000 samples" in shown.text("#profile-sum")


def test_template_arguments_fold(played, browser):
    """As "<…>", in the icicle and the table, and the address has it; other brackets stay. Tips have whole names."""
    names = {"std::vector<int, std::allocator<int> >::push_back(int&&)": "std::vector<…>::push_back(int&&)",
             "ns::operator<<(std::ostream&, A const&)": "ns::operator<<(std::ostream&, A const&)",
             "<alloc::vec::Vec<T> as core::ops::Drop>::drop": "<alloc::vec::Vec<…> as core::ops::Drop>::drop",
             "f<&(A::g() const)>(A->b)": "f<…>(A->b)", "broken<int": "broken<int", "plain": "plain"}
    players.play_town(played)
    profiles.play(played, {(DB, "program", (name, "/usr/bin/program")): 10 for name in names})
    browser.size(1280, 900)
    browser.open(played.url + "#show=profile")
    profiles.until_drawn(browser)
    assert {row["name"] for row in browser.run(profiles.ROWS)} == set(names)
    browser.one("#fold").click()
    assert {row["name"] for row in browser.run(profiles.ROWS)} == set(names.values())
    assert address(browser)["fold"] == "yes" and browser.one("#fold").get_attribute("aria-pressed") == "true"
    browser.one("#fold").click()
    assert {row["name"] for row in browser.run(profiles.ROWS)} == set(names) and "fold" not in address(browser)
    profiles.play(played)
    browser.open(played.url + "#show=profile&last=60")
    profiles.until_drawn(browser)
    assert not browser.one("#fold").is_displayed(), "there is nothing to fold"


def test_zoom(shown):
    """By click and by key; the address has it, and the back button leaves it."""
    click_node(shown, "nginx")
    assert zoomed(shown) == [WEB, "nginx"] and "zoom" in address(shown)
    assert profiles.widths(shown)[:4] == pytest.approx([1] * 4, abs=0.01)
    assert said(shown).startswith("nginx · command · total 3.80 s, 38.0 % ± 3.01 · self 0 · 380 of 1,000 samples")
    link = address(shown)
    click_node(shown, "serve")
    assert zoomed(shown)[-1] == "serve"
    shown.driver.back()
    harness.until(lambda: zoomed(shown) == [WEB, "nginx"] and address(shown) == link, "back")
    shown.driver.back()
    harness.until(lambda: zoomed(shown) == [], "at the begin")
    shown.driver.forward()
    harness.until(lambda: zoomed(shown) == [WEB, "nginx"], "again")

    # A refresh that comes with the new address keeps that one, not the one before.
    shown.run("addEventListener('popstate', () => keepAddress(), { once: true })")
    shown.driver.back()
    harness.until(lambda: zoomed(shown) == [] and "zoom" not in address(shown), "at the begin, in a refresh")
    shown.driver.forward()
    harness.until(lambda: zoomed(shown) == [WEB, "nginx"] and address(shown) == link, "again, after a refresh")
    click_node(shown, WEB)
    assert zoomed(shown) == [WEB], "a caller"
    shown.one("#zoom-out").click()
    assert zoomed(shown) == [] and not shown.one("#zoom-out").is_displayed()

    # Where nothing has the focus, too.
    shown.run("document.activeElement.blur()")
    shown.run("profile.cursor = null")
    shown.keys(Keys.ARROW_DOWN)
    assert said(shown).startswith("all · all that is shown")
    assert shown.run("return document.activeElement.id") == "icicle"
    shown.keys(Keys.ARROW_DOWN)
    assert said(shown).startswith(DB)
    shown.keys(Keys.ARROW_RIGHT, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    assert said(shown).startswith("main · function in /usr/sbin/nginx")
    shown.keys(Keys.ENTER)
    assert zoomed(shown) == [WEB, "nginx", "main"]
    shown.keys(Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert said(shown).startswith("libssl.so.3+0x1b2c0 · no name: the file is stripped")
    shown.keys(Keys.ARROW_RIGHT)
    assert said(shown).startswith("libssl"), "there is none beside it"
    shown.keys(Keys.ARROW_UP, Keys.ARROW_UP)
    assert said(shown).startswith("nginx · command")
    shown.keys(Keys.HOME)
    assert said(shown).startswith("main")
    shown.keys(Keys.ESCAPE)
    assert zoomed(shown) == []


def test_tips(shown, played):
    """Self, total, share, number and interval where the mouse is, which may rest; and why there is no name."""
    def tip(name):
        profiles.mouse(shown, "mouseMoved", *profiles.place(shown, name))
        harness.until(lambda: (shown.text("#tip") or "").startswith(name), name)
        return shown.text("#tip").split("\n")

    assert tip("exec_query") == ["exec_query", "function in /usr/bin/postgres", "total 5.00 s, 50.0 % ± 3.10",
                                 "self 1.00 s, 10.0 % ± 1.86", "500 of 1,000 samples"]
    assert tip("libssl.so.3+0x1b2c0")[1] == f"no name: {profiles.STRIPPED} (/usr/lib/libssl.so.3)"
    assert tip("(hidden)")[1] == "cgroup that [profiles] include and exclude do not show"
    shown.refreshes(2)
    assert shown.run("return document.querySelector('#tip').matches(':popover-open')"), "new numbers do not end it"
    shown.run("document.querySelector('#tip').textContent = ''")
    profiles.play(played, {stack: samples * 3 for stack, samples in profiles.STACKS.items()})
    shown.run("loadProfile()")
    harness.until(lambda: "60 of 3,000 samples" in shown.text("#tip"), "new numbers are in it")
    profiles.play(played, {})
    shown.run("loadProfile()")
    harness.until(lambda: not shown.run("return document.querySelector('#tip').matches(':popover-open')"), "no tip")
    profiles.play(played)
    shown.run("loadProfile()")
    profiles.until_drawn(shown)
    tip("nginx")
    profiles.mouse(shown, "mouseMoved", 5, 5)
    harness.until(lambda: not shown.run("return document.querySelector('#tip').matches(':popover-open')"), "it ends")
    click_node(shown, "nginx")
    assert tip("serve")[2] == "total 2.30 s, 23.0 % ± 2.61 (60.5 % of nginx)"


def test_search(shown):
    """What is found stands out, with its sum: what is below another that is found is not added twice."""
    shown.keys("/", "WRITE")
    assert shown.text("#found") == "2 names: 1.30 s, 13.0 % ± 2.08 of all"
    rows, _ = profiles.drawn(shown)
    assert sorted({box[3] for boxes in rows for box in boxes}) == pytest.approx([0.45, 1])
    found = [box for boxes in rows for box in boxes if box[3] == 1]
    assert len(found) == 4 and len({box[2] for box in found}) == 1
    assert address(shown)["search"] == "WRITE"
    shown.keys(Keys.ENTER)
    assert shown.run("return document.activeElement.id") == "icicle"
    click_node(shown, "nginx")
    assert shown.text("#found") == "2 names: 300 ms, 7.89 % ± 2.71 of what is zoomed to"
    shown.keys("/", Keys.ESCAPE)
    assert not shown.one("#found").is_displayed() and "search" not in address(shown)
    shown.keys("/", "no such")
    assert shown.text("#found") == "nothing has that name"


def test_table(shown):
    """Self and total with their errors, by function, command or cgroup, of what is zoomed to; a row marks its nodes."""
    rows = shown.run(profiles.ROWS)
    assert [(row["name"], row["file"], row["self"], row["total"]) for row in rows[:3]] == [
        ("hash_join", "postgres", "40.0 % ± 3.04", "40.0 %"), ("memcpy", "libc.so.6", "20.0 % ± 2.48", "20.0 %"),
        ("libssl.so.3+0x1b2c0", "", "15.0 % ± 2.21", "15.0 %")]
    assert row(shown, "ksys_write")["self"] == "3.00 % ± 1.06" and row(shown, "ksys_write")["total"] == "13.0 %"
    assert [it["self"] for it in rows if it["name"] == "main"] == ["0 %", "0 %"], "two files have one"
    shown.one("#functions [data-sort=total] button").click()
    assert [it["name"] for it in shown.run(profiles.ROWS)][:2] == ["main", "exec_query"]
    assert address(shown)["sort"] == "total" and shown.one("#functions [aria-sort]").text == "total"
    shown.one("[data-by=cgroup]").click()
    assert [(it["name"], it["self"]) for it in shown.run(profiles.ROWS)] == [
        ("/system/db.service", "60.0 % ± 3.04"), ("/system/web.service", "38.0 % ± 3.01"),
        ("(hidden)", "2.00 % ± 0.87")]
    shown.one("[data-by=command]").click()
    assert [it["name"] for it in shown.run(profiles.ROWS)] == ["postgres", "nginx", "(hidden)"]
    shown.one("[data-by=function]").click()
    click_node(shown, "nginx")
    assert row(shown, "memcpy")["total"] == "52.6 %"
    assert "hash_join" not in [it["name"] for it in shown.run(profiles.ROWS)]
    assert shown.text("#functions caption") == "6 functions of nginx"
    shown.keys(Keys.ESCAPE)
    shown.run("[...document.querySelectorAll('#functions tbody button')].find((it) => "
              "it.textContent.startsWith('ksys_write')).click()")
    assert shown.text("#found") == "ksys_write: 1.30 s, 13.0 % ± 2.08 of all" and "mark" in address(shown)
    assert len([box for boxes in profiles.drawn(shown)[0] for box in boxes if box[3] == 1]) == 2
    assert len(shown.run("return [...document.querySelectorAll('#functions [aria-pressed=true]')]")) == 1
    shown.keys(Keys.ESCAPE)
    assert "mark" not in address(shown)


def test_recursion_counts_once(played, browser):
    """A function that calls itself has the total of its outermost call."""
    loop = ("visit", "/usr/bin/walker")
    profiles.play(played, {("/a", "walker", loop): 10, ("/a", "walker", loop, loop): 30,
                           ("/a", "walker", loop, ("leaf", "/usr/bin/walker"), loop): 60})
    browser.open(played.url + "#show=profile")
    profiles.until_drawn(browser)
    assert row(browser, "visit")["total"] == "100 %" and row(browser, "visit")["self"] == "100 % ± 0.00"


def test_copies(shown, played):
    """As folded stacks, and as files of the daemon's."""
    shown.run("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    shown.one("#copy-folded").click()
    made = {";".join([*stack[:2], *(frame[0] for frame in stack[2:])]): nr for stack, nr in STACKS.items()}
    lines = [line.rpartition(" ") for line in shown.run("return window.copied").splitlines()]
    assert {stack: int(nr) for stack, _, nr in lines} == made
    name = shown.text("#copy-profile")
    shown.one("#copy-profile").click()
    assert shown.run("return window.copied") == shown.driver.current_url
    assert shown.run("""
        const button = document.querySelector('#copy-profile');
        button.click();
        return Promise.resolve().then(() => button.textContent);""") == "Copied"
    harness.until(lambda: shown.text("#copy-profile") == name, "its own name comes back, after two clicks too")
    links, stretch = shown.run("""
        return [[...document.querySelectorAll('#downloads a')].map((it) => [it.href, it.download]),
            [profile.tree.answer.from, profile.tree.answer.to]]""")
    for (link, name), (kind, ending) in zip(links, {"pprof": ".pb.gz", "speedscope": ".speedscope.json",
                                                    "folded": ".folded.txt", "json": ".json"}.items()):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(link).query))
        assert link.startswith(played.url + "api/v1/profile?") and query["format"] == kind
        assert [float(query["from"]), float(query["to"])] == stretch and name.endswith(ending), link


@pytest.mark.parametrize("end", ["", "/"])
def test_below_the_path_of_a_proxy(played, browser, end):
    """With and without a slash at its end: the page, the view of profiles, the links between them and downloads."""
    players.play_town(played)
    profiles.play(played)
    played.below = "/perfmond"
    url = f"{played.url}perfmond{end}"
    browser.open(url)
    harness.until(browser.names, "rows")
    browser.one("#to-profile").click()
    profiles.until_drawn(browser)
    assert browser.driver.current_url.startswith(f"{url}#")
    links = browser.run("return [...document.querySelectorAll('#downloads a')].map((it) => it.href)")
    assert links and all(link.startswith(f"{played.url}perfmond/api/v1/profile?") for link in links)
    browser.one("#to-list").click()
    harness.until(lambda: browser.one("#rows").is_displayed(), "the list")
    assert browser.driver.current_url.partition("#")[0] == url
    assert all(path.startswith("/perfmond/") or path == f"/perfmond{end}" for path in played.asked), played.asked


def test_copies_have_no_command_for_a_terminal(played, browser):
    """In folded stacks, names are as the daemon's format=folded has them."""
    players.play_town(played)
    profiles.play(played, {("/a;\x1b[1m\x9b[1m\xfc", "z\n\x7f", ("main", "/usr/bin/z")): 30})
    browser.open(played.url + "#show=profile&last=60")
    profiles.until_drawn(browser)
    browser.run("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }")
    browser.one("#copy-folded").click()
    assert browser.run("return window.copied") == "/a::[1m::[1m\xfc;z::;main 30\n"


BEFORE = {**STACKS, (*profiles.BY_DB, ("vacuum", "/usr/bin/postgres")): 300,
          (*profiles.BY_WEB, profiles.SERVE, ("memcpy", profiles.LIBC)): 40}
del BEFORE[(*profiles.BY_DB, *profiles.WRITE, ("copy_user", profiles.KERNEL))]


def test_difference(played, browser):
    """Shares against those of a baseline: more is red, less is blue, what may be chance is grey."""
    profiles.play(played, STACKS, BEFORE)
    browser.size(1280, 900)
    browser.prefer(color_scheme="light")
    browser.open(played.url + "#show=profile&last=60")
    profiles.until_drawn(browser)
    browser.keys("b")
    profiles.until_drawn(browser)
    begin, end = (float(text) for text in address(browser)["base"].split("-"))
    assert end - begin == pytest.approx(60, abs=1) and end == pytest.approx(time.time() - 60, abs=10)
    assert browser.text("#base-stretch").startswith("compared with ")
    whole = sum(BEFORE.values())
    rows = {it["name"]: it for it in browser.run(profiles.ROWS)}
    assert rows["vacuum"]["change"].startswith(f"−{300 / whole * 100:.1f} % ± ") and "less" in rows["vacuum"]["way"]
    assert rows["copy_user"]["change"].startswith("+10.0 % ± ") and "more" in rows["copy_user"]["way"]
    assert "more" in rows["memcpy"]["way"] and rows["serve"]["chance"] and rows["serve"]["change"].startswith("+0.00 %")
    assert next(iter(rows)) == "vacuum", "the largest change is first"
    # Half of each share: what is only in one of them is there as well.
    drawn, width = profiles.drawn(browser)
    assert sum(box[1] for box in drawn[1]) == pytest.approx(width, abs=0.5)

    def look(name):
        browser.run("profile.cursor = [...Array(profile.tree.nr).keys()].find((i) => thingOf(profile.tree, i).name === "
                    "arguments[0]); tellNode(profile.cursor)", name)
        x, y = browser.run(profiles.PLACE, name)
        left = browser.run("return document.querySelector('#icicle-canvas').getBoundingClientRect().left")
        depth = browser.run("return profile.tree.depth[profile.cursor]")
        box = next(box for box in drawn[depth] if box[0] <= x - left <= box[0] + box[1])
        assert y
        return said(browser), [float(part) for part in re.findall(r"[\d.]+", box[2])]

    words, less = look("vacuum")
    assert "change −" in words and words.endswith("; only in the baseline") and 200 < less[2] < 300, less
    words, more = look("copy_user")
    assert words.endswith("; not in the baseline") and "change +10.0 %" in words and 0 < more[2] < 60, more
    words, chance = look("(hidden)")
    assert words.endswith(": within chance") and chance[1] < 0.02, chance
    assert browser.run("return [...document.querySelectorAll('#legend span')].map((it) => it.textContent)") == [
        "less", "within chance", "more"]
    browser.one("#compare").click()
    profiles.until_drawn(browser)
    assert "base" not in address(browser) and row(browser, "memcpy")["change"] is None


def base_of(browser):
    return [float(text) for text in address(browser)["base"].split("-")]


def test_ends_of_the_baseline(shown, played):
    """By keys: they go by a column, or by ten, and the profile is asked for anew."""
    for key in "lb":
        shown.keys(key)
        profiles.until_drawn(shown)
    before, step = base_of(shown), 10
    for at, key, columns in ((0, Keys.ARROW_RIGHT, 1), (1, Keys.PAGE_UP, 10)):
        # Ends that need not be rounded.
        shown.run("profile.heat.column_seconds = arguments[0]", step)
        shown.run("return document.querySelectorAll('.brush[data-which=baseline] i')[arguments[0]]", at).send_keys(key)
        profiles.until_drawn(shown)
        now = base_of(shown)
        assert now[at] - before[at] == pytest.approx(columns * step) and now[1 - at] == before[1 - at]
        assert [float(profiles_asked(played)[-1][key]) for key in ("from", "to")] == now
        before = now


def test_few_samples_are_chance(shown):
    """The interval holds for few samples: 1 of 1 against 0 of 1 says nothing, 20 of 20 against 0 of 20 a lot."""
    assert shown.run("return [[1, 1, 0, 1], [1, 20, 0, 20], [0.5, 100, 0.4, 100], [0.5, 1000, 0.4, 1000], [0, 0, 0, 0]]"
                     ".map((it) => changeOf(...it).isSure)") == [False, True, False, True, False]


def profiles_asked(played):
    """The queries of all profiles that were asked for."""
    return [dict(urllib.parse.parse_qsl(path.partition("?")[2])) for path in played.asked
            if path.startswith("/api/v1/profile?")]


def test_a_date(shown):
    """Of another day, by the clock that the time is of."""
    shown.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Pacific/Auckland"})
    assert shown.run("return stretchText(1700000000, 1700000060)").startswith("2023-11-15 11:13:20 – 11:14:20 ")
    assert re.match(r"\d\d:", shown.run("return stretchText(Date.now() / 1000, Date.now() / 1000 + 1)"))


def begin_of(text):
    """The time at which a stretch begins, without the date that it has if that is not today."""
    return text.partition(" – ")[0].rpartition(" ")[2]


def stretch_of(browser):
    return [float(text) for text in address(browser)["time"].split("-")]


def test_time(shown, played):
    """Presets, live or fixed, a drag in the strip, its ends by mouse and by keys; each is in the address."""
    def pressed():
        return shown.run("return [...document.querySelectorAll('[data-last][aria-pressed=true]')]"
                         ".map((it) => it.textContent)")

    assert pressed() == ["5 min"] and shown.one("#live").get_attribute("aria-pressed") == "true"
    shown.one("[data-last='60']").click()
    profiles.until_drawn(shown)
    assert pressed() == ["1 min"] and address(shown)["last"] == "60"
    asked = len([path for path in played.asked if path.startswith("/api/v1/profile?")])
    harness.until(lambda: len([path for path in played.asked if path.startswith("/api/v1/profile?")]) > asked,
                  "live: it asks again", profiles.AGAIN)
    profiles.drag(shown, "#strip .plot", 0.25, 0.5)
    profiles.until_drawn(shown)
    heat = shown.run("return profile.heat")
    length = heat["to"] - heat["from"]
    begin, end = stretch_of(shown)
    assert begin == pytest.approx(heat["from"] + 0.25 * length, abs=length / 50)
    assert end - begin == pytest.approx(length / 4, rel=0.05)
    assert pressed() == [] and shown.one("#live").get_attribute("aria-pressed") == "false"
    query = [path for path in played.asked if path.startswith("/api/v1/profile?")][-1]
    assert f"&from={begin:.1f}&to={end:.1f}".replace(".0&", "&").removesuffix(".0") in query
    # What is fixed stays.
    asked = len(played.asked)
    shown.refreshes(3)
    assert not [path for path in played.asked[asked:] if "profile" in path]

    first, last = shown.run("return [...document.querySelectorAll('.brush[data-which=stretch] i')]")
    assert first.get_attribute("aria-valuetext") == begin_of(shown.text("#stretch"))
    last.send_keys(Keys.ARROW_LEFT)
    profiles.until_drawn(shown)
    assert end - stretch_of(shown)[1] == pytest.approx(heat["column_seconds"], rel=0.2)
    # The strip goes on with the time, and so do its ends.
    profiles.drag(shown, ".brush[data-which=stretch] i:last-child", 0.2, 4.2)
    profiles.until_drawn(shown)
    assert stretch_of(shown)[1] > end and stretch_of(shown)[0] == pytest.approx(begin, abs=0.2)
    shown.keys("b")
    profiles.until_drawn(shown)
    profiles.drag(shown, "#strip .plot", 0.05, 0.15)
    profiles.until_drawn(shown)
    base = [float(text) for text in address(shown)["base"].split("-")]
    assert base[1] - base[0] == pytest.approx(length / 10, rel=0.1) and base[0] < begin
    shown.one("button[data-which=stretch]").click()
    profiles.drag(shown, "#strip .plot", 0.7, 0.8)
    profiles.until_drawn(shown)
    assert stretch_of(shown)[0] > end and [float(text) for text in address(shown)["base"].split("-")] == base
    shown.one("#live").click()
    assert "time" not in address(shown)


def test_link(shown, played):
    """All that is shown is in the link, and comes from it; the other view has its own."""
    stack = "show=profile&cgroup=%2Fsystem.slice%2F**&command=n*&search=serve&by=command&sort=total"
    now = int(time.time()) + 0.5  # whole seconds are written without a point
    link = f"{played.url}#{stack}&time={now - 200:.1f}-{now - 100:.1f}&base={now - 400:.1f}-{now - 300:.1f}"
    shown.driver.get("about:blank")
    played.asked.clear()
    shown.open(link)
    profiles.until_drawn(shown)
    assert shown.run("return document.querySelector('#profile-cgroup').value") == "/system.slice/**"
    asked = [dict(urllib.parse.parse_qsl(path.partition("?")[2])) for path in played.asked if "profile?" in path]
    assert asked[0]["command"] == "n*" and asked[0]["cgroup"] == "/system.slice/**"
    assert [float(asked[0]["to"]), float(asked[1]["from"])] == pytest.approx([now - 100, now - 400], abs=0.1)
    assert shown.one("#search").get_attribute("value") == "serve" and shown.one("#found").is_displayed()
    assert shown.one("[data-by=command]").get_attribute("aria-pressed") == "true"
    assert address(shown) == dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(link).fragment))
    shown.one("#to-list").click()
    assert address(shown) == {} and shown.one("#grid").is_displayed() and not shown.one("#profile").is_displayed()
    shown.driver.back()
    harness.until(lambda: shown.one("#profile").is_displayed() and address(shown)["by"] == "command", "back again")
    field = shown.one("#profile-command")
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("post*", Keys.ENTER)
    harness.until(lambda: address(shown)["command"] == "post*", "another command")
    shown.driver.back()
    harness.until(lambda: address(shown)["command"] == "n*" and
                  shown.run("return document.querySelector('#profile-command').value") == "n*", "the one before")


def test_scope(shown, played):
    """One cgroup, one command, another event: chosen, asked for, and in the address."""
    for field, text in (("#profile-cgroup", WEB), ("#profile-command", "ng*")):
        shown.one(field).send_keys(text, Keys.ENTER)
        profiles.until_drawn(shown)
    shown.run("const by = document.querySelector('#profile-event'); by.value = 'faults';"
              "by.dispatchEvent(new Event('change'))")
    harness.until(lambda: shown.text("#profile-sum").startswith("10 faults · 1,000 samples"), "the other event")
    wanted = {"cgroup": WEB, "command": "ng*", "event": "faults"}
    assert address(shown).items() >= wanted.items()
    for path in ("/api/v1/profile?", "/api/v1/profile/heat?"):
        asked = [asked for asked in played.asked if asked.startswith(path)][-1]
        assert dict(urllib.parse.parse_qsl(asked.partition("?")[2])).items() >= wanted.items()
    assert shown.run("return [...document.querySelectorAll('#profile-cgroups option')].map((it) => it.value)").count(
        "/system.slice/nginx.service") == 1
    shown.driver.back()
    harness.until(lambda: "event" not in address(shown) and "CPU time" in shown.text("#profile-sum"), "the usual event")


def test_from_a_cgroup(played, browser):
    """From its row by one click, from its drawer, and by a key; and back to the rows as they were."""
    players.play_town(played)
    profiles.play(played)
    browser.size(1280, 900)
    browser.open(played.url)
    browser.filter("nginx")
    browser.keys(Keys.ENTER)
    flame = browser.run("return [...document.querySelectorAll('#rows .row:not([hidden])')].find((row) => "
                        "row.querySelector('.name').textContent.includes('nginx')).querySelector('.flame')")
    ActionChains(browser.driver).move_to_element(flame).perform()
    assert flame.get_attribute("href").endswith("#show=profile&cgroup=%2Fsystem.slice%2Fnginx.service")
    ActionChains(browser.driver).click().perform()
    profiles.until_drawn(browser)
    assert address(browser)["cgroup"] == "/system.slice/nginx.service" and not browser.one("#grid").is_displayed()
    browser.driver.back()
    harness.until(lambda: browser.one("#grid").is_displayed(), "back")
    assert browser.one("#filter").get_attribute("value") == "nginx" and len(browser.names()) == 3
    browser.run("document.querySelector('#grid').focus()")
    browser.keys(Keys.HOME, Keys.ARROW_DOWN, Keys.ARROW_DOWN, "f")
    profiles.until_drawn(browser)
    assert address(browser)["cgroup"] == "/system.slice/nginx.service"
    browser.keys("f")
    assert browser.one("#grid").is_displayed() and browser.one("#filter").get_attribute("value") == "nginx"
    browser.run("document.querySelector('#grid').focus()")
    browser.keys(Keys.HOME, Keys.ARROW_DOWN, Keys.ENTER)
    browser.one("#detail-profile").click()
    profiles.until_drawn(browser)
    assert address(browser)["cgroup"] == "/system.slice" and not browser.one("#detail").is_displayed()
    browser.driver.back()
    harness.until(lambda: browser.one("#detail").is_displayed(), "back in the drawer")
    browser.driver.forward()
    harness.until(lambda: browser.one("#profile").is_displayed(), "the profile again")
    assert not browser.one("#detail").is_displayed()


def test_what_is_missing(played, browser):
    """Reasons in words with their counts; gaps, and what is before the memory; each in a line."""
    profiles.play(played)
    answer = played.profile
    played.profile = lambda query: {**answer(query), "gap_seconds": 0.25, "cut": True,
                                    "from": time.time() - 20, "since": time.time() - 20}
    browser.open(played.url + "#show=profile")
    profiles.until_drawn(browser)
    notes, stretch = browser.run("return ['#profile-notes summary', '#stretch'].map((it) => "
                                 "document.querySelector(it).textContent)")
    assert notes == "15.0 % without a name · 25.0 % by frame pointers · 250 ms not sampled · begins at " + \
        begin_of(stretch) + " · the tree is cut"
    lines = browser.run("return [...document.querySelectorAll('#profile-notes li')].map((it) => it.textContent)")
    assert lines[0] == f"15.0 % without a name, 150 samples: {profiles.STRIPPED} (libssl.so.3)"
    assert any(line.startswith("sampling began at ") for line in lines) and len(lines) == 5


def test_off(played, browser):
    """Where nothing is profiled, it says how to turn that on; a bad glob is said too; nothing sampled is no error."""
    off = "nothing is profiled: set \"enabled = yes\" in the section [profiles] of the config"
    profiles.play(played)
    answer, refusal = played.profile, [503, off]

    def refuse(query):
        if refusal:
            raise players.Refusal(*refusal)
        return answer(query)

    played.profile = refuse
    browser.open(played.url + "#show=profile")
    harness.until(lambda: browser.text("#profile-none") == off, "how to turn it on")
    assert not browser.one("#icicle").is_displayed() and not browser.one("#toast").is_displayed()
    refusal[:] = []
    harness.until(lambda: browser.one("#icicle").is_displayed(), "it is on", profiles.AGAIN)
    refusal[:] = [400, "the glob takes too long"]
    browser.one("[data-last='60']").click()
    harness.until(lambda: browser.text("#profile-none") == "the glob takes too long", "why not")
    played.profile = lambda query: profiles.profile({})
    browser.one("[data-last='900']").click()
    harness.until(lambda: browser.text("#profile-none").startswith("No samples are in this stretch"), "none")
    browser.complaints()
    browser.console[:] = [line for line in browser.console if "503" not in line and "400" not in line]


def test_off_for_a_while(played, browser):
    """A stretch that was refused once is asked for again; without a profile there is nothing to be copied."""
    def refuse(query):
        raise players.Refusal(503, "nothing is profiled")

    profiles.play(played)
    answer, played.profile = played.profile, refuse
    now = time.time()
    browser.open(f"{played.url}#show=profile&time={now - 200:.1f}-{now - 100:.1f}")
    harness.until(lambda: browser.text("#profile-none") == "nothing is profiled", "why")
    assert not browser.one("#downloads").is_displayed()
    played.profile = answer
    harness.until(lambda: browser.one("#icicle").is_displayed(), "it is asked for again", profiles.AGAIN)
    assert browser.one("#downloads").is_displayed() and not browser.text("#profile-none")
    browser.complaints()
    browser.console[:] = [line for line in browser.console if "503" not in line]


def test_no_answer(shown):
    """It is told. What is shown stays where it is of the same question; and a mistake ends no more than one answer."""
    shown.run("window.honest = fetch; window.fetch = (url, options) => String(url).includes('/profile?') ?"
              "Promise.reject(new DOMException('', 'TimeoutError')) : honest(url, options); loadProfile()")
    words = "perfmond has not answered: it takes too long"
    harness.until(lambda: shown.text("#profile-none") == words, "it is told")
    assert shown.one("#icicle").is_displayed() and row(shown, "memcpy")
    shown.one("#profile-cgroup").send_keys(WEB, Keys.ENTER)
    harness.until(lambda: not shown.one("#icicle").is_displayed(), "what is shown is of all cgroups")
    assert shown.text("#profile-none") == words
    shown.run("window.fetch = honest")
    harness.until(lambda: shown.one("#icicle").is_displayed() and not shown.text("#profile-none"), "it answers",
                  profiles.AGAIN)

    shown.one("#live").click()
    profiles.until_drawn(shown)
    shown.run("window.honest = makeTree; window.makeTree = () => { window.makeTree = honest; throw Error('once'); };"
              "loadProfile().catch(() => {})")
    harness.until(lambda: shown.run("return makeTree === honest"), "a mistake")
    shown.run("loadProfile()")
    profiles.until_drawn(shown)


def test_without_a_strip(played, browser):
    """A daemon that can't tell when: all else works."""
    profiles.play(played)
    played.heat = None
    browser.open(played.url + "#show=profile")
    profiles.until_drawn(browser)
    assert not browser.one("#strip").is_displayed() and row(browser, "memcpy")
    browser.keys("b")
    profiles.until_drawn(browser)
    assert row(browser, "memcpy")["change"]
    assert len([path for path in played.asked if "heat" in path]) == 1
    browser.complaints()
    browser.console[:] = [line for line in browser.console if "/profile/heat" not in line]


def test_names_are_text(played, browser):
    """Whatever a function or a command is called, in the table, the tip and the list of what is missing."""
    name = "<img src=x onerror=alert(1)>"
    profiles.play(played, {(f"/{name}", name, (name, f"/usr/bin/{name}")): 5,
                           ("/b", "line\nfeed", ("\u202eright", "/b\u200b", name)): 5})
    browser.open(played.url + "#show=profile")
    profiles.until_drawn(browser)
    assert browser.run("return document.querySelectorAll('#profile img').length") == 0
    assert {it["name"] for it in browser.run(profiles.ROWS)} == {name, "⟨U+202E⟩right"}
    browser.one("[data-by=command]").click()
    assert {it["name"] for it in browser.run(profiles.ROWS)} == {name, "line\u240afeed"}


def test_colors_can_be_read(shown):
    """Labels on all colours, in light and dark; and they change with the theme."""
    def lightness(color):
        return luminance(shown.run(
            "const canvas = document.createElement('canvas'); const context = canvas.getContext('2d');"
            "context.fillStyle = arguments[0]; context.fillRect(0, 0, 1, 1);"
            "return `rgb(${[...context.getImageData(0, 0, 1, 1).data].slice(0, 3)})`", color))

    first = profiles.drawn(shown)[0]
    for dark in (False, True):
        shown.prefer(color_scheme="dark" if dark else "light")
        text = luminance(shown.style("#icicle-canvas", "color"))
        for color in shown.run("return palette(arguments[0])", dark):
            one, other = sorted((text, lightness(color)))
            assert (other + 0.05) / (one + 0.05) >= 4.5, (dark, color)
    assert profiles.drawn(shown)[0] != first
    shown.keys("d")
    assert profiles.drawn(shown)[0] == first, "light again, as the reader says"


def test_narrow(shown):
    """On a phone nothing is wider than it, and a tap zooms."""
    shown.size(360, 740)
    shown.refreshes(1)
    assert shown.run("return document.documentElement.scrollWidth") == 360
    shown.run("document.querySelector('#icicle').scrollIntoView({ block: 'center' })")
    click_node(shown, "exec_query")
    assert zoomed(shown)[-1] == "exec_query" and said(shown).startswith("exec_query")
    assert profiles.widths(shown)[4] == pytest.approx(1, abs=0.01)


def test_many_nodes(played, browser, record_property):
    """50,000 of them; how long it takes to draw is told, not tested."""
    nodes = profiles.large()
    profiles.play(played)
    played.profile = lambda query: profiles.profile(nodes=nodes)
    browser.size(1600, 1000)
    browser.open(played.url + "#show=profile&time=1-2")
    profiles.until_drawn(browser)
    assert browser.run("return profile.tree.nr") == 50000
    # With what the browser does later: the last pixel is asked for.
    times = browser.run("""
        const pixel = document.querySelector('#icicle-canvas').getContext('2d'), times = [];
        for (let i = 0; i < 40; i++) {
            profile.hover = i;
            const begin = performance.now();
            drawIcicle();
            pixel.getImageData(0, 0, 1, 1);
            times.push(performance.now() - begin);
        }
        return times;
    """)
    begin = browser.run("const begin = performance.now(); makeTree(profile.tree.answer, null);"
                        "return performance.now() - begin")
    print(f"\n50,000 nodes: drawn in {statistics.median(times):.1f} ms (median), {max(times):.1f} ms at most, of "
          f"{len(times)}; a tree of them in {begin:.0f} ms")
    record_property("icicle_ms", statistics.median(times))
    rows, width = profiles.drawn(browser)
    boxes = sum(len(boxes) for boxes in rows)
    assert boxes < 20 * width and len(rows) < 60, "what is thinner than a pixel is one piece"
    assert sum(box[1] for box in rows[0]) == pytest.approx(width) and sum(
        box[1] for box in rows[1]) == pytest.approx(width, rel=0.01)
    assert len(browser.run(profiles.ROWS)) == 200
    browser.one("#more-rows").click()
    assert len(browser.run(profiles.ROWS)) == 1200
    for by in ("command", "function"):
        browser.one(f"[data-by={by}]").click()
    assert len(browser.run(profiles.ROWS)) == 200
    browser.one("#more-rows").click()
    assert len(browser.run(profiles.ROWS)) == 1200
    # The readback is the test's.
    browser.complaints()
    browser.console[:] = [line for line in browser.console if "willReadFrequently" not in line]
