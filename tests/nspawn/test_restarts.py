# SPDX-License-Identifier: MIT
"""Restarts under the real systemd and its fd store: what is counted goes on, as an independent counter of the same
cgroups says, and no scrape ever shows a total that is lower than it was."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "system"))
from counter import EVENTS, Counter  # noqa: E402 (the tests without systemd have the same second opinion)

from conftest import CONFIG, DROP_INS, journal, metrics, show, until, value

DROP_IN = f"{DROP_INS}/test.conf"
BUSY = ["busy-a.service", "busy-b.service"]
WENT_ON = r"totals go on from systemd's fd store, with all of \d+ perf events"

SETTINGS = """
[cpu]
groups = work
[cgroup]
groups = work
[group "work"]
events = page-faults, context-switches
"""

# Page faults and switches, without end.
LOAD = "import mmap, time\nwhile True:\n    mmap.mmap(-1, 1 << 18).write(bytes(1 << 18))\n    time.sleep(0.0005)\n"

# Scrapes until its standard input ends, and says how often that was, and which totals fell.
WATCH = r"""
import json, re, select, sys, time, urllib.request
seen, scrapes, fell = {}, 0, []
while not select.select([sys.stdin], [], [], 0.03)[0]:
    try:
        with urllib.request.urlopen("http://127.0.0.1:9753/metrics", timeout=20) as answer:
            text = answer.read().decode()
    except OSError:
        continue
    scrapes += 1
    for key, value in re.findall(r"^(perf_(?:cpu|cgroup)_\w+_total\S*) (\S+)$", text, re.M):
        if float(value) < seen.get(key, 0):
            fell.append([key, seen[key], float(value)])
        seen[key] = float(value)
print(json.dumps({"scrapes": scrapes, "series": len(seen), "fell": fell[:5]}))
"""


class Busy:
    """A service with work to do, whose counters are compared while it is frozen."""

    def __init__(self, machine, unit):
        self.machine, self.unit = machine, unit
        machine.run("systemd-run", "--quiet", f"--unit={unit}", "python3", "-c", LOAD)
        self.label = f"/system.slice/{unit}"
        self.folder = next(path for top in machine.cgroups for path in top.rglob(unit) if path.is_dir()
                           and (path / "cgroup.freeze").exists())
        self.counter = Counter(self.folder)
        self.before = None

    def freeze(self, on):
        (self.folder / "cgroup.freeze").write_text(str(int(on)))
        until(lambda: f"frozen {int(on)}" in (self.folder / "cgroup.events").read_text(), "it is frozen, or not")

    def both(self):
        """What the daemon says, and what the other counter does."""
        self.freeze(True)
        time.sleep(0.15)
        text = metrics(self.machine)
        theirs = self.counter.read()
        self.freeze(False)
        ours = {name: float(re.search(rf'^perf_cgroup_{name}_total{{cgroup="{self.label}"}} (\S+)$', text, re.M)[1])
                for name in EVENTS}
        return ours, theirs

    def begin(self):
        series = f'perf_cgroup_page_faults_total{{cgroup="{self.label}"}}'
        until(lambda: series in metrics(self.machine), "it is counted")
        time.sleep(0.3)
        self.before = self.both()

    def end(self):
        """By how much the two rose."""
        ours, theirs = self.both()
        return [{name: now[name] - before[name] for name in EVENTS}
                for now, before in zip((ours, theirs), self.before)]

    def stop(self):
        self.freeze(False)
        self.counter.close()
        self.machine.run("systemctl", "stop", self.unit)


@pytest.fixture
def counting(machine):
    """Makes of a perfmond that is set up, but not started, one that counts two busy services."""
    running = []

    def start(drop_in=""):
        machine.run("rm", "-rf", "/var/lib/private/perfmond", "/var/lib/perfmond")
        machine.write(CONFIG, SETTINGS)
        machine.write(DROP_IN, f"[Unit]\nStartLimitIntervalSec=0\n[Service]\nRestartSec=100ms\n{drop_in}")
        machine.run("systemctl", "daemon-reload")
        running.extend(Busy(machine, unit) for unit in BUSY)
        machine.run("systemctl", "restart", "perfmond")
        for busy in running:
            busy.begin()
        return running

    yield start
    for busy in running:
        busy.stop()


class Watch:
    """A scraper in the container."""

    def __init__(self, machine):
        self.process = subprocess.Popen(["nsenter", f"--target={machine.leader}", "--all", "python3", "-c", WATCH],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end(self):
        time.sleep(0.5)
        seen = json.loads(self.process.communicate("", timeout=60)[0])
        assert seen["fell"] == [] and seen["scrapes"] > 1 and seen["series"] > 50
        return seen


def compare(busy):
    """Nothing was lost; how many events that were."""
    total = 0
    for service in busy:
        ours, theirs = service.end()
        assert ours == theirs, f"{service.unit}: {ours}, and by the other counter {theirs}"
        assert theirs["page_faults"] > 1000
        total += sum(theirs.values())
    return total


def another(machine, before):
    """Another instance runs, and answers."""
    until(lambda: show(machine, "MainPID", "ActiveState")["MainPID"] not in ("0", before), "another one")
    until(lambda: machine.run("curl", "-sf", "http://127.0.0.1:9753/-/ready", check=False).returncode == 0, "ready")


def went_on(machine):
    """How many starts lost nothing, by the log."""
    return len(re.findall(WENT_ON, journal(machine)))


def wait_kept(machine):
    until(lambda: value(machine, "perfmond_kept_events") == value(machine, "perfmond_open_events"), "all is kept")


def test_a_hundred_restarts(installed, counting):
    busy, watch = counting(), Watch(installed)
    before, start = went_on(installed), time.monotonic()
    for _ in range(100):
        installed.run("systemctl", "restart", "perfmond")
    took = (time.monotonic() - start) / 100
    seen, total = watch.end(), compare(busy)
    assert show(installed, "ActiveState") == "active"
    assert went_on(installed) - before == 100
    print(f"\n100 restarts, {took * 1000:.0f} ms each; {total:.0f} events compared, none lost; {seen}; "
          f"fd store: {show(installed, 'NFileDescriptorStore')}")
    assert int(show(installed, "NFileDescriptorStore")) < 10


def test_kills(installed, counting):
    """SIGKILL ten times, and once by the watchdog."""
    busy, watch = counting("WatchdogSec=2s\n"), Watch(installed)
    wait_kept(installed)
    for turn in range(10):
        pid = show(installed, "MainPID")
        time.sleep(turn * 0.05)
        installed.run("kill", "-KILL", pid)
        another(installed, pid)
    pid = show(installed, "MainPID")
    installed.run("kill", "-STOP", pid)
    another(installed, pid)
    assert show(installed, "NRestarts") == "11"
    seen, total = watch.end(), compare(busy)
    print(f"\n11 kills; {total:.0f} events compared, none lost; {seen}")


def test_an_upgrade_a_reload_and_a_new_systemd(installed, counting, tmp_path):
    busy, watch = counting(), Watch(installed)
    wait_kept(installed)
    other = tmp_path / "perfmond"
    subprocess.run(["strip", "-o", other, os.environ["PERFMOND"]], check=True)
    installed.run("mkdir", "-p", "/opt")
    shutil.copy(other, installed.root / "opt/perfmond")
    installed.write(f"{DROP_INS}/upgrade.conf", "[Service]\nExecStart=\nExecStart=/opt/perfmond\n")
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "restart", "perfmond")
    assert installed.run("readlink", f"/proc/{show(installed, 'MainPID')}/exe").stdout.strip() == "/opt/perfmond"
    installed.run("systemctl", "reload", "perfmond")
    wait_kept(installed)
    pid = show(installed, "MainPID")
    installed.run("systemctl", "daemon-reexec")
    until(lambda: installed.run("systemctl", "is-active", "perfmond", check=False).returncode == 0, "systemd is back")
    assert show(installed, "MainPID") == pid
    installed.run("kill", "-KILL", pid)
    another(installed, pid)
    seen, total = watch.end(), compare(busy)
    print(f"\nan upgrade, a reload, daemon-reexec and a kill: {total:.0f} events compared, none lost; {seen}")


def test_stopped_and_started(installed, counting):
    """systemd empties the fd store: totals go on from the state directory, and what happened in between is missing."""
    busy, watch = counting(), Watch(installed)
    for _ in range(2):
        installed.run("systemctl", "stop", "perfmond")
        assert installed.run("ls", "/var/lib/private/perfmond").stdout.split() == ["totals"]
        time.sleep(0.5)
        installed.run("systemctl", "start", "perfmond")
        assert installed.run("ls", "/var/lib/private/perfmond").stdout.split() == []
    assert re.search(r"totals go on from /var/lib/perfmond/totals, saved [0-9.]+ s ago; what happened since",
                     journal(installed))
    watch.end()
    for service in busy:
        ours, theirs = service.end()
        assert 0 < ours["page_faults"] < theirs["page_faults"]


def test_services_come_and_go(installed, counting):
    """A service that is restarted goes on in its series, whether perfmond sees it or not."""
    counting()
    watch, label = Watch(installed), '{cgroup="/system.slice/other.service"}'
    command = ("systemd-run", "--quiet", "--unit=other", "python3", "-c", LOAD)

    def faults():
        time.sleep(0.15)
        return value(installed, "perf_cgroup_page_faults_total", label) or 0

    last = 0
    for turn in range(3):
        installed.run(*command)
        until(lambda last=last: faults() > last + 1000, "it is counted, on and on")
        last = faults()
        if turn == 1:
            installed.run("systemctl", "kill", "--signal=KILL", "perfmond")
        installed.run("systemctl", "stop", "other")
        installed.run("systemctl", "restart", "perfmond")
        assert faults() >= last
        last = faults()
        time.sleep(0.3)
        assert faults() == last, "it lingers"
    wait_kept(installed)
    watch.end()


def test_in_the_sandbox(sandboxed, counting):
    busy, watch = counting(), Watch(sandboxed)
    for turn in range(6):
        if turn % 2:
            pid = show(sandboxed, "MainPID")
            sandboxed.run("kill", "-KILL", pid)
            another(sandboxed, pid)
        else:
            sandboxed.run("systemctl", "restart", "perfmond")
    seen, total = watch.end(), compare(busy)
    print(f"\n3 restarts and 3 kills in the sandbox: {total:.0f} events compared, none lost; {seen}")
