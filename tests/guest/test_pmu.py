# SPDX-License-Identifier: MIT
"""The PMU has seven counters: one for cycles only, and six for anything. What comes of more events than that, of
events that keep a counter to themselves, and of such that do not count."""

import re

import pytest

from guests import CYCLES, Metrics, config
from harness import Delta

MILLION = 1000000
TEN = ", ".join(f"e{number}={'instructions' if number % 2 else 'cycles'}:u" for number in range(10))
ALONE = [f"events = {TEN}\nalone = yes"]
SEVEN = ", ".join(f"i{number}=instructions:HG" for number in range(6)) + ", i6=cycles:HG"
# Five groups of which two fit at a time, the next two, …
FIVE = [f"events = c{number}=cycles:u, i{number}=instructions:u, j{number}=instructions:u" for number in range(5)]


def shares(delta, metric, **labels):
    """Running by enabled, of each group."""
    names = sorted({found["group"] for found, _ in delta.after.all(f"{metric}_enabled_seconds_total", **labels)})
    return [delta.of(f"{metric}_running_seconds_total", group=name, **labels) /
            delta.of(f"{metric}_enabled_seconds_total", group=name, **labels) for name in names]


def assert_all_are_true(daemon, delta, scope, labels, truth, rel=0.03):
    """All events of that scope have counted so many instructions, or cycles, within 3 %."""
    for event in daemon.json("/api/v1/events")["events"]:
        if event["scope"] == scope:
            counted = delta.of(f"perf_{scope}_{event['event']}_total", **labels)
            expected = truth * CYCLES if event["text"].startswith("cycles") else truth
            assert counted == pytest.approx(expected, rel=rel), event


@pytest.mark.parametrize("groups, share", [(ALONE, 0.7), (FIVE, 0.4)], ids=["alone", "groups"])
def test_cgroups_share_the_pmu(guest, perfmond, groups, share):
    daemon = perfmond(config(*groups, scope="cgroup", interval="100ms", engine="perf"))

    before = daemon.fresh()
    guest.load("join:a instructions:400000000 leave", "join:b instructions:200000000 leave")
    delta = Delta(before, daemon.fresh())

    # The last 50 ms that a group ran wait until there are more of them.
    for cgroup, truth in (("/a", 400 * MILLION), ("/b", 200 * MILLION), ("/idle", 0)):
        assert_all_are_true(daemon, delta, "cgroup", {"cgroup": cgroup}, truth, rel=0.05)
        if truth:
            assert shares(delta, "perf_cgroup_group", cgroup=cgroup) == pytest.approx([share] * len(groups), abs=0.05)


def test_what_the_api_says_of_shared_events(guest, perfmond):
    """Each number with its quality, and ratios of events that are counted together."""
    daemon = perfmond(config(*FIVE[:4], "events = cycles, instructions", scope="cgroup", interval="500ms"))
    answer = daemon.json("/api/v1/snapshot?scope=cgroup", first="load join:a cpu:3000 leave &\nsleep 2")
    row = next(row for row in answer["cgroups"] if row["cgroup"] == "/a")
    guest.run("sleep 2")
    assert {event["state"] for event in row["events"].values()} == {"multiplexed"}
    assert all(0.2 < event["running"] < 0.7 for event in row["events"].values())
    assert row["derived"]["ipc"] == pytest.approx(1 / CYCLES, rel=0.05)


@pytest.mark.parametrize("groups, share", [(ALONE, 0.6), (FIVE, 0.4)], ids=["alone", "groups"])
def test_what_is_counted_on_a_cpu_shares_the_pmu(guest, perfmond, groups, share):
    """The truth is an event beside them that has a counter to itself."""
    daemon = perfmond(config(*groups, "events = truth=instructions:uD", interval="100ms"))

    before = daemon.fresh()
    guest.load("instructions:200000000")
    delta = Delta(before, daemon.fresh())

    truth = delta.of("perf_cpu_truth_total", cpu="0")
    assert truth >= 200 * MILLION
    assert_all_are_true(daemon, delta, "cpu", {"cpu": "0"}, truth)
    assert shares(delta, "perf_cpu_group", cpu="0") == pytest.approx([share] * len(groups) + [1], abs=0.05)


def test_totals_never_fall(guest, perfmond):
    """A hundred scrapes over one connection, and more readings than that, of events that run a third of the time."""
    daemon = perfmond(config(*ALONE, scope="cpu cgroup", interval="100ms"))

    before = daemon.fresh()
    answers = guest.run(r"""
        load join:a instructions:400000000 leave &
        for i in $(seq 100); do
            printf 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'
            sleep 0.08
        done | nc 127.0.0.1 9753
        wait""").split("HTTP/1.1 200 OK\r\n")[1:]
    texts = [answer.partition("\r\n\r\n")[2] for answer in answers]
    delta = Delta(before, daemon.fresh())

    assert len(texts) == 100
    scrapes = [before, *map(Metrics, texts), delta.after]
    highest = {}
    for scrape in scrapes:
        # The 0 of what was never enabled is not known any more while it waits for its first turn on the PMU. A CPU's
        # estimate is absent while it is below its cgroups'.
        for key, value in scrape.samples.items():
            if key[0].startswith(("perf_cpu_", "perf_cgroup_")) and key[0].endswith("_total"):
                assert value >= highest.get(key, 0), key
                highest[key] = value
    assert_all_are_true(daemon, delta, "cgroup", {"cgroup": "/a"}, 400 * MILLION)
    assert {scrapes[50].state(f"e{number}", scope) for number in range(10) for scope in ("cpu", "cgroup")} == \
        {"multiplexed"}
    assert delta.after.value("perfmond_reads_total") - before.value("perfmond_reads_total") >= 100


# Eight of seven: the kernel opens the first and never runs it; it refuses the last event of the second.
TOO_LARGE = [", ".join(f"c{number}=cycles:u" for number in range(8)),
             "c0=cycles:u, " + ", ".join(f"i{number}=instructions:u" for number in range(7))]


@pytest.mark.parametrize("members", TOO_LARGE, ids=["not-run", "refused"])
def test_a_group_that_is_too_large_stands_together(guest, perfmond, members):
    daemon = perfmond(config(f"events = {members}\nsplit = no", "events = small=instructions:u",
                             scope="cpu cgroup", interval="200ms"))

    before = daemon.fresh()
    guest.load("join:a instructions:40000000 leave")
    guest.run("sleep 1")
    delta = Delta(before, daemon.fresh())

    for event in daemon.json("/api/v1/events")["events"]:
        if event["group"] == "g0":
            assert event["state"] == "never_scheduled", event
            assert re.search(r"group 'g0' (is too large|does not fit)", event["reason"])
            # Of cgroups in which nothing has run, 0 is the truth.
            where = {"cpu": {"cpu": "0"}, "cgroup": {"cgroup": "/a"}}[event["scope"]]
            assert delta.after.get(f"perf_{event['scope']}_{event['event']}_total", **where) is None, "absent, not 0"
        else:
            # The group that does not fit is not there to take its turns.
            assert event["state"] == "ok", event
    assert delta.of("perf_cgroup_small_total", cgroup="/a") == pytest.approx(40 * MILLION, rel=0.03)
    assert guest.status("perfmond --config=/tmp/perfmond.conf --check") == 2


@pytest.mark.parametrize("members", TOO_LARGE, ids=["not-run", "refused"])
def test_a_group_that_is_too_large_is_split(guest, perfmond, members):
    daemon = perfmond(config(f"events = {members}", scope="cgroup", interval="50ms"))

    before = daemon.fresh()
    guest.load("join:a instructions:400000000 leave")
    delta = Delta(before, daemon.fresh())

    found = daemon.json("/api/v1/events")["events"]
    assert len(found) == 8 and len({event["set"]["leader"] for event in found}) > 1
    for event in found:
        assert event["state"] in ("ok", "multiplexed"), event
        # The last 50 ms that a group ran wait until there are more of them.
        truth = 400 * MILLION * (CYCLES if event["text"] == "cycles:u" else 1)
        assert delta.of(f"perf_cgroup_{event['event']}_total", cgroup="/a") == pytest.approx(truth, rel=0.03), event
    assert guest.status("perfmond --config=/tmp/perfmond.conf --check") == 0


def pinned(numbers):
    return config("events = " + ", ".join(f"p{number}=cycles:D" for number in numbers) + "\nalone = yes",
                  interval="200ms")


def states(daemon):
    return {event["event"]: event["state"] for event in daemon.json("/api/v1/events")["events"]}


def test_pinned_events_that_do_not_fit(guest, perfmond):
    daemon = perfmond(pinned(range(9)))
    guest.run("sleep 1")

    found = daemon.json("/api/v1/events")["events"]
    waiting = {event["event"] for event in found if event["state"] in ("failed", "never_scheduled")}
    counted = {event["event"] for event in found if event["state"] == "ok"}
    assert (len(counted), len(waiting)) == (7, 2), states(daemon)
    assert all("pinned" in event["reason"] for event in found if event["event"] in waiting)
    metrics = daemon.fresh()
    assert all(metrics.all(f"perf_cpu_{event}_total") == [] for event in waiting), "absent, not 0"
    assert all(metrics.value(f"perf_cpu_{event}_total", cpu="0") > 0 for event in counted)

    # Three that have a counter give it up: those that wait take it, without being configured anew.
    kept = sorted(counted)[3:]
    daemon.reload(pinned(int(event[1:]) for event in sorted({*kept, *waiting})))
    guest.run("sleep 1")
    assert states(daemon) == dict.fromkeys(sorted({*kept, *waiting}), "ok")
    before = daemon.fresh()
    guest.run("load cpu:500")
    delta = Delta(before, daemon.fresh())
    rises = [delta.of(f"perf_cpu_{event}_total", cpu="0") for event in sorted({*kept, *waiting})]
    assert min(rises) >= 500 * MILLION and max(rises) == pytest.approx(min(rises), rel=0.01)
    for event in kept:
        assert before.value(f"perf_cpu_{event}_total", cpu="0") >= metrics.value(f"perf_cpu_{event}_total", cpu="0")


def test_a_group_beside_pinned_ones(guest, perfmond):
    """It would fit the PMU alone, and is split to fit what the pinned ones leave; also after a reload."""
    both = config("events = p0=cycles:D, p1=cycles:D, p2=instructions:D", f"events = {SEVEN}", interval="100ms")
    daemon = perfmond(both)
    for _ in range(2):
        before = daemon.fresh()
        guest.load("instructions:200000000")
        delta = Delta(before, daemon.fresh())
        # While nothing runs, there are cycles and no instructions, and there is no telling how long that is.
        instructions, cycles = (delta.of(f"perf_cpu_p{number}_total", cpu="0") for number in (2, 0))
        assert instructions >= 200 * MILLION
        for number, truth in enumerate([instructions] * 6 + [cycles]):
            assert delta.of(f"perf_cpu_i{number}_total", cpu="0") == pytest.approx(truth, rel=0.05)
        assert daemon.event("i0")["state"] == "multiplexed" and "counted in parts" in daemon.event("i0")["reason"]
        assert daemon.event("p0")["state"] == "ok" and daemon.event("p0")["reason"] is None
        daemon.reload(both)


def test_pinned_in_a_cgroup_without_a_counter(guest, perfmond):
    """That the group could be enabled says nothing while the cgroup does not run: it is absent until it has run."""
    def both(nr):
        return (f"[daemon]\ninterval = 100ms\n[cpu]\ngroups = all\n[cgroup]\ngroups = one\ninclude = /a\n"
                f'[group "all"]\nalone = yes\nevents = {", ".join(f"p{number}=cycles:D" for number in range(nr))}\n'
                f'[group "one"]\nevents = one=cycles:uD\n')

    daemon = perfmond(both(7))
    guest.load("join:a instructions:100000000 leave")
    assert daemon.event("one", "cgroup")["state"] == "failed" and "pinned" in daemon.event("one", "cgroup")["reason"]
    assert daemon.fresh().get("perf_cgroup_one_total", cgroup="/a") is None, "absent, not 0"

    daemon.reload(both(5))
    guest.run("sleep 0.5")
    guest.load("join:a instructions:50000000 leave")
    metrics = daemon.fresh()
    # All of the second load, and what it has got of the first one.
    assert 50 * MILLION * CYCLES <= metrics.value("perf_cgroup_one_total", cgroup="/a") < 150 * MILLION * CYCLES
    guest.run("sleep 0.5")
    assert daemon.event("one", "cgroup")["state"] == "ok"


def test_an_exclusive_event_has_the_pmu_to_itself(guest, perfmond):
    """The three others run while it does not, and it while they do not."""
    daemon = perfmond(config("events = alone=cycles:ue", "events = c=cycles:u, i=instructions:u",
                             scope="cgroup", interval="50ms"))

    before = daemon.fresh()
    guest.load("join:a instructions:200000000 leave")
    delta = Delta(before, daemon.fresh())

    for event, each in (("alone", CYCLES), ("c", CYCLES), ("i", 1)):
        assert delta.of(f"perf_cgroup_{event}_total", cgroup="/a") == pytest.approx(200 * MILLION * each, rel=0.03)
    assert shares(delta, "perf_cgroup_group", cgroup="/a") == pytest.approx([0.5, 0.5], abs=0.05)
    assert daemon.event("alone", "cgroup")["encoding"]["exclusive"]


def test_an_event_that_counts_nothing(guest, perfmond):
    """This PMU takes any number, and counts 0x11 (cycles) and 0x8 (instructions)."""
    daemon = perfmond(config("events = nothing=r99, cycles=r11, instructions=r8\nalone = yes",
                             scope="cpu cgroup", interval="500ms"))
    for scope in ("cpu", "cgroup"):
        assert daemon.event("nothing", scope)["state"] == "ok", "nobody can tell yet"

    guest.load("join:a cpu:11000 leave")
    guest.run("sleep 1")
    metrics = daemon.fresh()

    for scope in ("cpu", "cgroup"):
        event = daemon.event("nothing", scope)
        assert event["state"] == "stalled" and event["reason"], event
        assert event["encoding"]["config"] == "0x99"
        assert metrics.all(f"perf_{scope}_nothing_total") == [], "absent, not 0"
        assert metrics.state("cycles", scope) == metrics.state("instructions", scope) == "ok"
    for event, each in (("cycles", 1), ("instructions", CYCLES)):
        counted = metrics.value(f"perf_cgroup_{event}_total", cgroup="/a") * each
        assert counted == pytest.approx(11000 * MILLION, rel=0.01), "1 GHz"


def test_how_many_counters_count(guest, perfmond):
    """Those for anything; the one for cycles only is none of them. The emulator's PMU is true, and the start's result
    stays when pinned events have counters at a reload."""
    pinned = config("events = p0=cycles:D, p1=instructions:D, p2=instructions:D")
    daemon = perfmond(pinned)
    for _ in range(2):
        metrics = daemon.fresh()
        for kind in ("advertised", "usable"):
            assert metrics.value("perfmond_pmu_counters", pmu="armv8_pmuv3", kind=kind) == 6
        found = [one for one in daemon.json("/api/v1/status")["pmus"] if one["counters"]]
        assert [(one["kind"], one["counters"]) for one in found] == [("core", {"advertised": 6, "usable": 6})]
        daemon.reload(pinned)
    check = guest.run("perfmond --config=/tmp/perfmond.conf --check || true")
    # It is another process, and two of the counters are the daemon's.
    assert re.search(r"^PMU armv8_pmuv3: 4 counters, of which 4 count at once$", check, re.M), check
