#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""All at once, for long: cgroups that come and go, scrapes, reloads and restarts.

usage: everything.py [MINUTES] [--without-state]

Two daemons count the same cgroups. One lives from the beginning to the end: what it leaks adds up. The other is
stopped and started again all the time, with a state directory, so that its totals have to go on. All the time it
is checked that no counter falls, that what cgroups have counted adds up to what their CPUs have, and that work of
known size, beside which all that happens, is counted to the last page fault. The exit status is 1 where anything of
that is wrong, where an answer is not what it should be, where something is left behind at the end, or where some of it
has not happened at all.
"""

import argparse
import collections
import json
import os
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import requests

from counter import Keeper
from harness import (FRESH, SANITIZED, Cgroup, Daemon, Reference, Work, nr_cgroups, online_cpus,
                     perf_cgroup_mount, until)

NAME = "perf_cgroup_page_faults_total"

# Everything but /metrics, which is asked for far more often.
PATHS = ["/api/v1/snapshot", "/api/v1/snapshot?scope=cgroup&sort=page_faults&limit=10", "/api/v1/events",
         "/api/v1/cgroups", "/api/v1/status", "/-/healthy", "/-/ready", "/"]

ERRORS = "perfmond_credit_errors_total"

# Its reading is limited to a budget, as that of hardware events, also on a machine without any.
TSC = "tsc=msr/tsc/"

# What the configs differ in. The group of the known work is in all of them.
EVENTS = ["context-switches", "cpu-migrations", "minor-faults", "major-faults", "task-clock", "alignment-faults",
          "cycles", "tlb=minor-faults:u"]
BAD = ["[daemon]\nintervall = 1s\n", "[cpu]\ngroups = nowhere\n", "[group \"core\"]\nevents = no-such-event\n", "]["]

# Anonymous memory that grows by more than this from the second quarter on has a leak in it.
GROWTH = 4 << 20

# It grows in steps, whenever more is to be counted at once than ever before: in a few minutes they are a slope that
# says nothing.
SLOPE_S = 600


def make_config(top, interval="1s", exclude="", most=20000, events=(), alone="no", budget="1%"):
    varied = f'[group "varied"]\nalone = {alone}\nevents = {", ".join(events)}\n' if events else ""
    groups = "known varied" if events else "known"
    return f"""
[web]
listen = 127.0.0.1:0
[daemon]
interval = {interval}
switch_budget = {budget}
# Gone cgroups are kept in it until it is full.
history_memory = 256KiB
[cpu]
groups = {groups}
[cgroup]
groups = {groups}
include = {top.label}/**
{f"exclude = {exclude}" if exclude else ""}
linger = 2s
max = {most}
[group "known"]
events = page-faults
{varied}"""


def random_config(top):
    return make_config(top, interval=random.choice(["100ms", "250ms", "1s"]),
                       exclude=random.choice(["", "", f"{top.label}/churn/*7", f"{top.label}/trees/**"]),
                       # The cgroups of the known work are the shallowest, and the first: there is always room for them.
                       most=random.choice([20000, 20000, 20]),
                       events=[TSC, *random.sample(EVENTS, random.randint(0, 4))], alone=random.choice(["yes", "no"]),
                       # Of little, there are pauses all the time.
                       budget=random.choice(["1%", "0.01%"]))


def parse(text):
    """{series: value} of an exposition; quicker than the library, of which the tests make use."""
    return {series: float(value) for series, _, value in
            (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))}


class Log:
    """What went wrong, in the order it did."""

    def __init__(self):
        self.start, self.violations = time.monotonic(), []

    def violation(self, text):
        self.violations.append(text)
        print(f"{time.monotonic() - self.start:7.1f} s: WRONG: {text[:2000]}", flush=True)


class Subject:
    """A daemon under test, over all its lives. `lock` is held while it is replaced."""

    def __init__(self, name, folder, top, state, log):
        self.name, self.top, self.state, self.log = name, top, state, log
        self.folder = folder / name
        (self.folder / "state").mkdir(parents=True)
        self.daemon = None
        self.life = self.restarts = self.reloads = self.refused = 0
        self.up = threading.Event()
        self.clients = []
        self.said = collections.Counter()
        # With the most that is ever counted, since there is memory for that from then on.
        (self.folder / "perfmond.conf").write_text(make_config(top, events=EVENTS[:4], alone="yes"))
        self.start()
        self.daemon.reload(make_config(top), "perfmond: reloaded")

    def start(self):
        env = {"STATE_DIRECTORY": str(self.folder / "state")} if self.state else None
        self.daemon = Daemon(self.folder / "perfmond.conf", env=env).wait_ready()
        self.life += 1
        self.up.set()

    def stop(self):
        self.up.clear()
        try:
            self.daemon.stop()
        except AssertionError as error:
            self.log.violation(f"{self.name}: {error}")
        self.said.update(re.sub(r"\d+", "N", line) for line in self.daemon.lines)

    def restart(self):
        self.stop()
        self.start()
        self.restarts += 1
        self.wait_scraped()

    def reload(self, text):
        """Any config may be in force afterwards, but for a bad one."""
        good = self.daemon.config_path.read_text()
        expect = r"perfmond: reloaded" if text not in BAD else "not reloaded, the old config stays in force"
        try:
            self.daemon.reload(text, expect)
        except AssertionError as error:
            self.log.violation(f"{self.name}: reload: {error}")
        if text in BAD:
            self.refused += 1
            self.daemon.configure(good)
        else:
            self.reloads += 1
        self.wait_scraped()

    def wait_scraped(self):
        """Every client has seen what is there now, before it changes again."""
        seen = [client.scrapes for client in self.clients]
        until(lambda: all(client.scrapes >= nr + 2 or not client.is_alive()
                          for client, nr in zip(self.clients, seen)), "the clients scrape", 60)

    def values(self):
        """All of them, read afresh."""
        time.sleep(FRESH)
        return parse(self.daemon.get("/metrics").text)


class Client(threading.Thread):
    """Scrapes again and again, each time for all counters and for something else, and compares with the time
    before."""

    def __init__(self, subject, ended):
        super().__init__(daemon=True)
        self.subject, self.ended, self.log = subject, ended, subject.log
        self.scrapes, self.took = 0, []
        self.last, self.life = {}, subject.life

    def run(self):
        while not self.ended.is_set():
            self.subject.up.wait(1)
            life, url = self.subject.life, self.subject.daemon.url
            try:
                self.scrape(url, life)
                self.ask(url, random.choice(PATHS))
            except requests.RequestException as error:
                if self.subject.up.is_set() and life == self.subject.life and not self.ended.is_set():
                    self.log.violation(f"{self.subject.name}: {error}")
            except Exception as error:  # pylint: disable=broad-except
                self.log.violation(f"{self.subject.name}: {error!r}")
            time.sleep(random.uniform(0.02, 0.2))

    def scrape(self, url, life):
        start = time.monotonic()
        answer = requests.get(url + "/metrics", timeout=30)
        took = time.monotonic() - start
        now = parse(answer.text)
        self.compare(now, life)
        self.took.append((start, took, now.get("perfmond_loop_lag_seconds", 0.0)))
        self.scrapes += 1

    def compare(self, now, life):
        """Over a restart, totals go on where there is a state, and what the daemon says of itself begins anew."""
        if life != self.life:
            self.last = {k: v for k, v in self.last.items() if self.subject.state and k.startswith("perf_")}
            self.life = life
        if now.get(ERRORS, 0) > self.last.get(ERRORS, 0):
            self.log.violation(f"{self.subject.name}: {now[ERRORS]} events are credited to nobody, or twice")
        for series, value in self.last.items():
            if now.get(series, value) < value:
                self.log.violation(f"{self.subject.name}: {series} fell from {value} to {now[series]}")
        self.last = {k: v for k, v in now.items() if k.partition("{")[0].endswith("_total")}

    def ask(self, url, path):
        answer = requests.get(url + path, timeout=30)
        if answer.status_code != 200 and not (path == "/-/ready" and answer.status_code == 503):
            self.log.violation(f"{self.subject.name}: {path}: {answer.status_code} {answer.text[:200]}")
        elif path.startswith("/api/"):
            json.loads(answer.text)


class Sampler(threading.Thread):
    """What the daemon uses, every second."""

    def __init__(self, subject, ended):
        super().__init__(daemon=True)
        self.subject, self.ended, self.samples = subject, ended, []

    def run(self):
        while not self.ended.wait(1):
            try:
                daemon = self.subject.daemon
                self.samples.append((time.monotonic(), daemon.anonymous(), sum(daemon.fds().values()),
                                     daemon.resident()))
            except OSError:
                pass  # between two lives


class Soak:
    def __init__(self, minutes, state):
        self.log, self.ended = Log(), threading.Event()
        self.end = time.monotonic() + minutes * 60
        self.state = state
        self.folder = tempfile.TemporaryDirectory(prefix="perfmond-soak-")
        mount = perf_cgroup_mount()[0]
        self.top = Cgroup(mount / f"perfmond-soak-{os.getpid()}", mount)
        self.known, self.churn = self.top.make("known"), self.top.make("churn")
        self.trees = self.top.make("trees")
        cpus = online_cpus()
        self.worker = Work(self.known, cpus[0])
        self.churners = [Work(self.churn, cpu) for cpu in cpus]
        self.turn = self.churned = self.checks = 0
        # What the daemons are compared with.
        self.references = {cgroup: Reference(cgroup) for cgroup in (self.known, self.churn)}
        self.done = {}
        # Code and stack are touched.
        self.begin_churn(1, 1)
        self.finish_churn()
        for cgroup in self.references:
            self.rise(cgroup)
        self.subjects = [Subject(name, Path(self.folder.name), self.top, state, self.log)
                         for name in ("lasting", "restarted")]
        self.lasting, self.restarted = self.subjects
        self.at_start = [until(lambda s=subject: self.left_alone(s), "nobody else's cgroups come or go")
                         for subject in self.subjects]
        self.expected = {}
        # What this does may be in anybody's count, and comes into it at a later switch.
        self.keeper, self.excess = Keeper(), collections.Counter()

    # --- work of known size

    def begin_churn(self, each, faults):
        self.turn += 1
        for i, worker in enumerate(self.churners):
            worker.begin(f"churn {each} {faults} 3000 {self.churn.path}/t{self.turn}-{i}-")
        self.churned += each * len(self.churners)

    def finish_churn(self):
        for worker in self.churners:
            worker.finish()

    def rise(self, cgroup):
        """What was done there since the last time."""
        now, before = self.references[cgroup].read(), self.done.get(cgroup, 0)
        self.done[cgroup] = now
        return now - before

    def read(self, subject):
        values = subject.values()
        return {cgroup: values.get(f'{NAME}{{cgroup="{cgroup.label}"}}') for cgroup in (self.known, self.churn)}

    def expect(self, subject, known, churned):
        """Compares with what was there the last time."""
        found, before, most = self.read(subject), self.expected.get(subject), self.keeper.most("page_faults")
        self.expected[subject] = found
        self.checks += before is not None
        for cgroup, rise in ((self.known, known), (self.churn, churned)):
            if not before or rise is None:
                continue
            more = found[cgroup] - (before[cgroup] or 0) - rise
            self.excess[subject.name, cgroup.label] += more
            excess = self.excess[subject.name, cgroup.label]
            if more < 0 or excess > most:
                self.log.violation(f"{subject.name}: {cgroup.label} had {before[cgroup]}, did {rise} more, and has "
                                   f"{found[cgroup]}; {excess} too many in all, of at most {most} of process 1")

    # --- what happens meanwhile

    def grow_trees(self):
        """Some cgroups deep down, made and removed."""
        paths = [self.trees.path / f"a{random.randrange(4)}" / f"b{random.randrange(4)}" / f"c{i}" for i in range(5)]
        for path in paths:
            os.makedirs(path, exist_ok=True)
        for path in random.sample(paths, 3):
            path.rmdir()

    def step(self):
        """A second or two: known work with cgroups coming and going, and a reload or a restart beside them."""
        self.begin_churn(random.randrange(100, 300), random.randrange(1, 30))
        restarts = self.restarted.restarts == 0 or random.random() < 0.25
        if restarts:
            # What is done while it is down can't be known: of the known work, none.
            self.restarted.restart()
        self.worker.begin(f"faults {random.randrange(20000, 200000)}")
        self.grow_trees()
        for subject in self.subjects:
            if subject.reloads == 0:
                subject.reload(random_config(self.top))
            elif random.random() < 0.6:
                subject.reload(random.choice(BAD) if random.random() < 0.15 else random_config(self.top))
        self.worker.finish()
        self.finish_churn()
        known, churned = self.rise(self.known), self.rise(self.churn)
        self.expect(self.lasting, known, churned)
        if restarts and not self.state:
            self.expected[self.restarted] = None
        self.expect(self.restarted, known, None if restarts else churned)

    # --- the end

    def left(self, subject):
        """What has to be as it was: files and mappings by kind, cgroups that are not watched (or less than none),
        events. Maps of the BPF engine grow with what ran: one that is left behind shows by its programs and links."""
        values = subject.values()
        grows = ("socket", "anon_inode:bpf-map")
        files, mappings = ({kind: nr for kind, nr in found.items() if not kind.startswith(grows)}
                           for found in (subject.daemon.fds(), subject.daemon.mappings()))
        unwatched = nr_cgroups(self.top.mount) - values["perfmond_inotify_watches"]
        return files, mappings, unwatched, values["perfmond_open_events"]

    def left_alone(self, subject):
        """The same; None while somebody else's cgroups come or go, and not each is watched."""
        left = self.left(subject)
        return left if left[2] == 0 else None

    def settle(self):
        """Nothing lingers, the config is that of the start, and what was opened for others is closed."""
        for path, _, _ in os.walk(self.trees.path, topdown=False):
            if Path(path) != self.trees.path:
                Path(path).rmdir()
        for subject, before in zip(self.subjects, self.at_start):
            subject.reload(make_config(self.top))
            try:
                until(lambda s=subject, b=before: self.left(s) == b, "all that was opened is closed", 30)
            except AssertionError:
                self.log.violation(f"{subject.name}: left behind: {self.left(subject)}, at the start {before}")
            values = subject.values()
            for name in ("read_errors", "readings_refused"):
                if values[f"perfmond_{name}_total"]:
                    self.log.violation(f"{subject.name}: {name}: {values[f'perfmond_{name}_total']}")
            print(f"{subject.name}: {subject.reloads} reloads, {subject.refused} refused, {subject.restarts} restarts; "
                  f"missed {values['perfmond_cgroups_missed_total']:.0f} cgroups and had "
                  f"{values['perfmond_inotify_overflows_total']:.0f} queue overflows in its last life")

    def use(self):
        """What the lasting daemon uses just now, for people."""
        lag = self.lasting.values()["perfmond_loop_lag_seconds"]
        return (f"{sum(self.lasting.daemon.fds().values())} files, "
                f"{self.lasting.daemon.resident() / 1e6:.2f} MB resident, "
                f"longest turn of the loop within a minute {lag * 1000:.1f} ms")

    def require(self):
        """That nothing was wrong is of no worth where nothing has happened."""
        for subject in self.subjects:
            if not subject.reloads:
                self.log.violation(f"{subject.name}: no reload")
        if not self.restarted.restarts:
            self.log.violation("no restart")
        if self.checks < len(self.subjects):
            self.log.violation(f"the work was compared {self.checks} times")

    def run(self):
        clients = [Client(subject, self.ended) for subject in self.subjects for _ in range(3)]
        for client in clients:
            client.subject.clients.append(client)
        sampler = Sampler(self.lasting, self.ended)
        at_start = self.use()
        begun = time.monotonic()
        for thread in (*clients, sampler):
            thread.start()
        try:
            for subject in self.subjects:
                self.expect(subject, 0, 0)
            while time.monotonic() < self.end:
                self.step()
            took = time.monotonic() - begun
            self.settle()
            self.require()
            print(f"at the start: {at_start}\nat the end:   {self.use()}")
        finally:
            self.ended.set()
            for thread in (*clients, sampler):
                thread.join(60)
        print(f"{took / 60:.1f} min, {self.churned} cgroups came and went, {self.churned / took:.0f} a second; "
              f"{self.checks} times the work was compared; {sum(self.excess.values()):.0f} page faults too many, while "
              f"process 1, which can hide, had {self.keeper.most('page_faults')}")
        self.describe(sampler.samples, [c for c in clients if c.subject is self.lasting])

    def describe(self, samples, clients):
        """Of the lasting daemon, the first quarter beside the last, and how memory grew from the second on."""
        first, last = samples[0][0], samples[-1][0]
        quarter = (last - first) / 4
        took = sorted(point for client in clients for point in client.took)
        for name, start in (("first", first), ("last", last - quarter)):
            of_it = [point for point in samples if start <= point[0] <= start + quarter]
            scrapes = [point for point in took if start <= point[0] <= start + quarter]
            ms = sorted(point[1] * 1000 for point in scrapes)
            print(f"{name} quarter: {len(ms)} scrapes, median {statistics.median(ms):.1f} ms, slowest {ms[-1]:.1f} ms; "
                  f"longest turn of the loop {max(point[2] for point in scrapes) * 1000:.1f} ms; "
                  f"at most {max(p[2] for p in of_it)} files, {max(p[3] for p in of_it) / 1e6:.2f} MB resident, "
                  f"{max(p[1] for p in of_it) / 1e6:.2f} MB of it anonymous")

        # Medians: while it loads programs into the kernel, it takes 10 MB more for a moment.
        late = [point for point in samples if point[0] >= first + quarter]
        second = statistics.median(p[1] for p in late if p[0] <= first + 2 * quarter)
        grown = statistics.median(p[1] for p in late if p[0] >= last - quarter) - second
        print(f"anonymous memory in the last quarter: {grown / 1e6:+.2f} MB beside the second one")
        if last - first >= SLOPE_S:
            slope = statistics.linear_regression([p[0] for p in late], [p[1] for p in late]).slope
            print(f"anonymous memory from the second quarter on: {slope * 3600 / 1e6:+.2f} MB an hour")
        if grown > GROWTH and not SANITIZED:
            self.log.violation(f"anonymous memory grew by {grown / 1e6:.1f} MB from the second quarter on")

    def close(self):
        self.ended.set()
        for subject in self.subjects:
            subject.stop()
            print(f"the log of {subject.name}:")
            for line, nr in subject.said.most_common(12):
                print(f"  {nr:5} {line[:150]}")
        for worker in (self.worker, *self.churners):
            worker.stop()
        for reference in self.references.values():
            reference.close()
        self.top.remove()
        self.folder.cleanup()


def main():
    parser = argparse.ArgumentParser(usage="everything.py [MINUTES] [--without-state]")
    parser.add_argument("minutes", nargs="?", type=float, default=10)
    parser.add_argument("--without-state", action="store_true", help="a restart begins at 0")
    options = parser.parse_args()
    if os.geteuid() != 0 or not perf_cgroup_mount():
        print("needs root and a cgroup hierarchy")
        return 77
    seed = random.randrange(1 << 32)
    random.seed(seed)
    print(f"seed {seed}")
    soak = Soak(options.minutes, not options.without_state)
    try:
        soak.run()
    finally:
        soak.close()
    print(f"{len(soak.log.violations)} wrong")
    return 1 if soak.log.violations else 0


if __name__ == "__main__":
    sys.exit(main())
