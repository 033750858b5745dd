# SPDX-License-Identifier: MIT
"""Cgroups that come and go, many and fast: nothing that is counted gets lost, nothing is left behind.

A worker that stays alive makes a cgroup, moves in, touches so many pages and removes the cgroup once it is in
the next (`churn` of work.c): it has no fork, exec or exit with page faults of their own, so that the numbers of
each cgroup and of the one they are in are exact.
"""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import SANITIZED, Delta, Reference, Stalls, leeway, nr_cgroups, perf_stat, until
from machine import needs

pytestmark = pytest.mark.engines
deep, alone = pytest.mark.deep, pytest.mark.alone

NAME = "perf_cgroup_page_faults_total"

# What is to be borne: so many cgroups a second, and as long as it does nothing else meanwhile, in seconds.
RATE, PAUSE = 200, 0.05


def config(top, linger="0s", interval="1s", more=""):
    return f"""
[daemon]
interval = {interval}
[cpu]
groups =
[cgroup]
groups = faults
include = {top.label}/**
linger = {linger}
max = 20000
{more}
[group "faults"]
events = page-faults
"""


class Churn:
    """Workers below a cgroup of their own, on each CPU, and four at least: while they wait they keep none busy."""

    def __init__(self, top, work, cpus):
        self.top = top.make("churn")
        self.workers = [work(self.top, cpus[i % len(cpus)]) for i in range(max(4, len(cpus)))]
        self.turn = 0
        self.finish(self.begin(len(self.workers), 1))  # code and stack are touched

    def begin(self, nr, faults, us=0):
        """nr cgroups in all, a worker's share each, with so many page faults after so long a sleep. What finish()
        wants."""
        self.turn += 1
        each = nr // len(self.workers)
        for i, worker in enumerate(self.workers):
            worker.begin(f"churn {each} {faults} {us} {self.top.path}/t{self.turn}-{i}-")
        return time.monotonic(), each * len(self.workers)

    def is_done(self):
        return all(worker.is_done() for worker in self.workers)

    def finish(self, begun):
        """Waits for the end; cgroups a second."""
        for worker in self.workers:
            worker.finish()
        start, nr = begun
        return nr / (time.monotonic() - start)


def describe(daemon, delta, rate):
    lag = delta.after.get("perfmond_loop_lag_seconds")
    print(f"{rate:.0f} cgroups a second; missed {delta.of('perfmond_cgroups_missed_total'):.0f}, "
          f"queue overflows {delta.of('perfmond_inotify_overflows_total'):.0f}, "
          f"CPU {delta.of('perfmond_cpu_seconds_total'):.2f} s, loop lag {lag} s, "
          f"resident {daemon.resident() / 1e6:.1f} MB")


class OwnLeftovers:
    """What of cgroups that have gone may not be left, whatever others do meanwhile: events, states, open folders."""

    def __init__(self, daemon, top):
        self.daemon, self.folder = daemon, str(top.path)
        self.found = self.look()

    def look(self):
        metrics = self.daemon.fresh()
        folders = sorted(file for file in self.daemon.files().values() if file.startswith(self.folder))
        return [metrics.value("perfmond_open_events"), folders] + \
            [metrics.value("perfmond_cgroups", state=state) for state in ("counted", "waiting", "failed", "lingering")]

    def assert_none(self):
        until(lambda: self.look() == self.found, f"all of the removed cgroups is closed, and as it was: {self.found}")


def test_cgroups_that_come_work_and_go_lose_nothing_and_leave_nothing(perfmond, cgroups, work, cpus):
    """Those that the daemon has the time to see, and those that come as fast as they can be made. The one that they are
    in has all, and one beside them its own."""
    stays = cgroups.make("stays")
    helper, churn = work(stays, cpus[0]), Churn(cgroups, work, cpus)
    daemon = perfmond(config(cgroups, interval="100ms"))
    leftovers = OwnLeftovers(daemon, cgroups)
    for nr, us in ((100, 4000), (400, 0)):
        before, churned, stayed = daemon.fresh(), Reference(churn.top), Reference(stays)
        begun = churn.begin(nr, 20, us)
        helper.do("faults 500")
        churn.finish(begun)
        delta = Delta(before, daemon.fresh())
        assert churned.read() >= nr * 20 and stayed.read() >= 500, "the work is of known size"
        assert delta.of(NAME, cgroup=churn.top.label) == churned.read()
        assert delta.of(NAME, cgroup=stays.label) == stayed.read()
        for reference in (churned, stayed):
            reference.close()
    leftovers.assert_none()


class Leftovers:
    """What may not be left of cgroups that have gone: compares with how it was."""

    def __init__(self, daemon, top):
        self.daemon, self.top = daemon, top
        self.gauges = until(self.read_settled, "nobody else's cgroups come or go")
        self.fds = until(self.read_fds_that_stay, "no file is being read")
        self.dying, self.errors = top.dying(), self.read_errors()

    def read_settled(self):
        """None while cgroups come and go, also somebody else's: then not each is watched, or one is being looked at."""
        gauges = self.read_gauges()
        looks = any(kind.startswith(str(self.top.mount)) and "perfmond-" in kind for kind in self.read_fds())
        return gauges if gauges[0] == 0 and not looks else None

    def read_gauges(self):
        metrics = self.daemon.fresh()
        # Others may make cgroups too: each is watched once.
        unwatched = nr_cgroups(self.top.mount) - metrics.value("perfmond_inotify_watches")
        return [unwatched, metrics.value("perfmond_open_events")] + \
            [metrics.value("perfmond_cgroups", state=state) for state in ("waiting", "failed", "lingering")]

    def read_fds(self):
        """Without connections, children that look up names, and chunks of the BPF engine, which stay."""
        passing = ("socket", "anon_inode:[pidfd]", "anon_inode:bpf-map")
        return {kind: nr for kind, nr in self.daemon.fds().items() if not kind.startswith(passing)}

    def read_fds_that_stay(self):
        """None while a file is open that is only read, as some of /proc are once a second: a turn of the loop later it
        is closed."""
        fds = self.read_fds()
        self.daemon.metrics()
        return fds if self.read_fds() == fds else None

    def read_errors(self):
        metrics = self.daemon.metrics()
        return [metrics.value(f"perfmond_{name}_total") for name in ("read_errors", "readings_refused")]

    def assert_none(self):
        until(lambda: self.read_gauges() == self.gauges, f"all is closed, and as it was: {self.gauges}")
        until(lambda: self.read_fds() == self.fds, f"all files are closed: {self.fds}")
        assert self.read_errors() == self.errors
        until(lambda: self.top.dying() <= self.dying, "no removed cgroup is kept alive", 30)


@deep
@alone
@needs("perf")
@pytest.mark.once
def test_ten_thousand_come_work_and_go(perfmond, cgroups, work, cpus):
    """Beside one that stays. What perf stat counts in the one they are all in is what the daemon has. Samples would
    fill their own memory, up to its bound (test_profile_life.py)."""
    nr, pages = 10000, 20
    stays = cgroups.make("stays")
    helper, churn = work(stays, cpus[0]), Churn(cgroups, work, cpus)
    daemon = perfmond(config(cgroups, more="[profiles]\nenabled = no"))
    leftovers = Leftovers(daemon, cgroups)
    before = daemon.fresh()
    churned, stayed = Reference(churn.top), Reference(stays)
    perf = perf_stat("-e", "page-faults", "-G", churn.top.label.lstrip("/"))

    begun, resident, others = churn.begin(nr, pages, 4000), [], []
    while not churn.is_done():
        helper.do("faults 500")
        time.sleep(0.2)
        resident.append(daemon.resident())
        others.append(daemon.metrics().value("perfmond_cgroups", state="excluded"))
    rate = churn.finish(begun)
    theirs, delta = perf(), Delta(before, daemon.fresh())
    describe(daemon, delta, rate)

    assert rate >= RATE
    assert churned.read() == pytest.approx(nr * pages, rel=0.001), "the work is of known size"
    assert theirs["page-faults"] == churned.read()
    assert delta.of(NAME, cgroup=churn.top.label) == churned.read()
    assert delta.of(NAME, cgroup=stays.label) == stayed.read() > 0
    leftovers.assert_none()
    half = len(resident) // 2
    # It knows of those that others make, too, of whom there are none on a quiet machine.
    room = 2**20 + 4096 * (max(others) - min(others))
    assert SANITIZED or max(resident[half:]) <= max(resident[:half]) + room, f"memory grows: {resident}, {others}"


@deep
@alone
def test_as_fast_as_they_can_be_made(perfmond, cgroups, work, cpus):
    """So fast that not all can be counted, nor even be seen: the one that they are in is exact all the same."""
    nr, pages = 10000, 5
    churn = Churn(cgroups, work, cpus)
    daemon = perfmond(config(cgroups))
    leftovers = Leftovers(daemon, cgroups)
    before, reference = daemon.fresh(), Reference(churn.top)

    rate = churn.finish(churn.begin(nr, pages))
    delta = Delta(before, daemon.fresh())
    describe(daemon, delta, rate)

    assert rate >= RATE
    assert reference.read() == pytest.approx(nr * pages, rel=0.001)
    assert delta.of(NAME, cgroup=churn.top.label) == reference.read()
    leftovers.assert_none()


class Fates:
    """What became of short-lived cgroups: those that are shown lingering, or lingered, and those that were missed."""

    def __init__(self, before, after, prefix):
        self.delta = Delta(before, after)
        self.counts = [value for labels, value in after.all(NAME) if labels["cgroup"].startswith(prefix)]
        self.missed = int(self.delta.of("perfmond_cgroups_missed_total"))

    def known(self):
        return len(self.counts) + self.missed


def churn_and_compare(daemon, churn, nr, pages, us):
    """How many were made a second, and the share of those that have all that they did."""
    before, reference = daemon.fresh(), Reference(churn.top)

    begun = churn.begin(nr, pages, us)
    nr, rate = begun[1], churn.finish(begun)
    prefix = f"{churn.top.label}/t{churn.turn}-"
    until(lambda: Fates(before, daemon.metrics(), prefix).known() == nr, "all of them are known")
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="counted") == 1, "the last one is gone")
    fates, done = Fates(before, daemon.fresh(), prefix), reference.read()
    reference.close()
    describe(daemon, fates.delta, rate)
    whole = [n for n in fates.counts if n >= pages]
    print(f"{len(fates.counts)} counted, of them {len(whole)} with all they did, {fates.missed} missed")

    assert fates.known() == nr
    assert fates.delta.of("perfmond_inotify_overflows_total") == 0
    assert done == pytest.approx(nr * pages, rel=0.001)
    assert fates.delta.of(NAME, cgroup=churn.top.label) == done
    assert sum(whole) <= len(whole) * pages * 1.001 + leeway("page_faults"), "none has more than it did"
    return rate, len(whole) / nr


def test_each_is_counted_or_said_to_be_missed(perfmond, cgroups, work, cpus):
    """While they linger: each has all the work it did, or was opened within it and has a part, or is said to be
    missed."""
    churn = Churn(cgroups, work, cpus)
    daemon = perfmond(config(cgroups, linger="10min", interval="100ms"))
    for us in (0, 1500, 10000):
        churn_and_compare(daemon, churn, 100, 30, us)


@deep
@alone
@pytest.mark.parametrize(("us", "least"), [(1500, 0), (5000, 0.9), (10000, 0.9)])
def test_a_thousand_are_counted_or_said_to_be_missed(perfmond, cgroups, work, cpus, us, least):
    """As above. Each has all the work it did, or was opened within it and has a part, or is said to be missed.
    Where they wait for long enough before they work, the daemon has the time to open nearly all of them; else some are
    about to be removed when it comes to them."""
    churn = Churn(cgroups, work, cpus)
    daemon = perfmond(config(cgroups, linger="10min"))
    # Where a hypervisor takes the daemon's CPU, workers on another go on without it: then it is tried again.
    for _ in range(5):
        rate, share = churn_and_compare(daemon, churn, 1000, 30, us)
        if rate >= RATE and share >= least:
            break
    assert rate >= RATE and share >= least


class Scrapers:
    """Two that scrape all the time; `took`: the seconds of each answer."""

    def __init__(self, daemon):
        self.daemon, self.took, self.ended = daemon, [], threading.Event()
        self.pool = ThreadPoolExecutor()
        self.scrapers = [self.pool.submit(self._run) for _ in range(2)]

    def _run(self):
        while not self.ended.is_set():
            start = time.monotonic()
            assert self.daemon.get("/metrics").status_code == 200
            self.took.append(time.monotonic() - start)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.pool.shutdown()

    def check(self):
        for scraper in self.scrapers:
            scraper.result()


def make_at_once_while_scraped(daemon, cgroups, work, cpus, nr):
    """All scrapes are answered, and in the end all of the cgroups are counted. The seconds of each scrape."""
    group = cgroups.make("works")
    helper = work(group, cpus[0])
    until(lambda: daemon.metrics().get(NAME, cgroup=group.label) is not None, "the one that works is counted")
    before, at = daemon.fresh(), helper.faults()
    with Scrapers(daemon) as scrapers:
        made = [cgroups.make(f"made{i}") for i in range(nr)]
        helper.do("faults 10000")
        until(lambda: daemon.metrics().value("perfmond_cgroups", state="counted") == nr + 1, "all are counted")
    scrapers.check()
    delta = Delta(before, daemon.fresh())
    assert delta.of(NAME, cgroup=group.label) == helper.faults() - at >= 10000
    assert {labels["cgroup"] for labels, _ in delta.after.all(NAME)} == {group.label} | {g.label for g in made}
    assert all(value == 0 for labels, value in delta.after.all(NAME) if labels["cgroup"] != group.label)
    assert 0 < delta.after.value("perfmond_loop_lag_seconds")
    assert daemon.json("/api/v1/status")["cost"]["loop_lag_seconds"] > 0
    return scrapers.took


def test_all_of_many_made_at_once_are_counted_while_scraped(perfmond, cgroups, work, cpus):
    assert make_at_once_while_scraped(perfmond(config(cgroups)), cgroups, work, cpus, 300)


@deep
@alone
def test_no_scrape_waits_long_while_a_thousand_are_made(perfmond, cgroups, work, cpus):
    daemon, stalls = perfmond(config(cgroups)), Stalls(work)
    took = make_at_once_while_scraped(daemon, cgroups, work, cpus, 1000)
    lag, stall = daemon.metrics().value("perfmond_loop_lag_seconds"), stalls.end()
    print(f"{len(took)} scrapes, the slowest took {max(took) * 1000:.1f} ms, loop lag {lag * 1000:.1f} ms, "
          f"stalls up to {stall * 1000:.1f} ms")
    assert max(took) <= 1 + stall
    assert SANITIZED or lag <= PAUSE + stall


@pytest.mark.parametrize("linger", ["1min", "0s"])
def test_a_service_remade_under_the_same_path(perfmond, cgroups, work, cpus, linger):
    """Its series goes on while the old one lingers: no reset; without lingering it begins anew."""
    daemon = perfmond(config(cgroups, linger=linger, interval="100ms"))
    total, ids = 0, set()
    for turn in range(3):
        group = cgroups.make("service")
        until(lambda: daemon.metrics().get(NAME, cgroup=group.label) is not None and
              daemon.metrics().value("perfmond_cgroups", state="counted") == 1, "it is counted")
        helper = work(cgroups, cpus[0])
        group.add(helper.process.pid)
        first = daemon.fresh()
        ids.add(first.all("perf_cgroup_info", cgroup=group.label)[0][0]["id"])
        before = first.value(NAME, cgroup=group.label)
        assert len(ids) == turn + 1, "it is another one"
        assert before == (total if linger != "0s" else 0), f"turn {turn}"
        helper.do(f"faults {100 + turn}")
        cgroups.add(helper.process.pid)
        group.path.rmdir()
        total = before + 100 + turn
        if linger != "0s":
            until(lambda: daemon.metrics().value("perfmond_cgroups", state="lingering") == 1, "it lingers")
            assert daemon.fresh().value(NAME, cgroup=group.label) == total
        else:
            until(lambda: daemon.metrics().get(NAME, cgroup=group.label) is None, "it is gone")
