# SPDX-License-Identifier: MIT
"""Restarts under the real systemd and its fd store: what is counted goes on, as an independent counter of the same
cgroups says, and no scrape ever shows a total that is lower than it was."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from counter import EVENTS, Counter, Keeper

from tree import BUILD
from booted import CONFIG, DROP_INS, journal, metrics, show, until, value

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

# Scrapes until its standard input ends, and says how often that was, and which totals fell; to each line that it is
# sent, that it has scraped again.
WATCH = r"""
import json, re, select, sys, time, urllib.request
seen, scrapes, fell, asked = {}, 0, [], False
while True:
    if select.select([sys.stdin], [], [], 0.03)[0]:
        if not sys.stdin.readline():
            break
        asked = True
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
    if asked:
        print("scraped", flush=True)
        asked = False
print(json.dumps({"scrapes": scrapes, "series": len(seen), "fell": fell[:5]}))
"""


def find_cgroup(machine, unit):
    """The unit's in cgroup2, which can be frozen."""
    return next(Path(path) for top in machine.cgroups for path, _, files in os.walk(top)
                if Path(path).name == unit and "cgroup.freeze" in files)


class Busy:
    """A service with work to do, whose counters are compared while it is frozen."""

    def __init__(self, machine, unit):
        self.machine, self.unit = machine, unit
        machine.run("systemd-run", "--quiet", f"--unit={unit}", "python3", "-c", LOAD)
        self.label = f"/system.slice/{unit}"
        self.folder = find_cgroup(machine, unit)
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


@pytest.fixture(autouse=True)
def keeper():
    keeper = Keeper()
    yield keeper
    keeper.close()


@pytest.fixture
def counting(machine, keeper):
    """Makes of a perfmond that is set up, but not started, one that counts two busy services."""
    running = []

    def start(drop_in=""):
        machine.run("rm", "-rf", "/var/lib/private/perfmond", "/var/lib/perfmond")
        machine.write(CONFIG, SETTINGS)
        # Sooner than the unit does, for the time it takes; how often it may is the unit's.
        machine.write(DROP_IN, f"[Service]\nRestartSec=100ms\n{drop_in}")
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
        self.asked = 0
        self.process = subprocess.Popen(["nsenter", f"--target={machine.leader}", "--all", "python3", "-c", WATCH],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def look(self):
        """It sees what there is now, which it compares with what it saw before."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "scraped\n"
        self.asked += 1

    def end(self):
        self.look()
        seen = json.loads(self.process.communicate("", timeout=60)[0])
        assert seen["fell"] == [] and seen["scrapes"] >= self.asked and seen["series"] > 40, seen
        return seen


def compare(busy, keeper):
    """Nothing was lost; how many events that were."""
    total = 0
    for service in busy:
        ours, theirs = service.end()
        assert all(0 <= ours[name] - theirs[name] <= keeper.most(name) for name in EVENTS), \
            f"{service.unit}: {ours}, and by the other counter {theirs}; " \
            f"leeway {[keeper.most(name) for name in EVENTS]}"
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


def test_a_hundred_restarts(installed, counting, keeper):
    busy, watch = counting(), Watch(installed)
    before, start = went_on(installed), time.monotonic()
    for _ in range(100):
        installed.run("systemctl", "restart", "perfmond")
        watch.look()
    took = (time.monotonic() - start) / 100
    seen, total = watch.end(), compare(busy, keeper)
    assert show(installed, "ActiveState") == "active"
    assert went_on(installed) - before == 100
    print(f"\n100 restarts, {took * 1000:.0f} ms each; {total:.0f} events compared, none lost; {seen}; "
          f"fd store: {show(installed, 'NFileDescriptorStore')}")
    assert int(show(installed, "NFileDescriptorStore")) < 10


def test_kills(installed, counting, keeper):
    """SIGKILL ten times, and once by the watchdog."""
    busy, watch = counting("WatchdogSec=15s\n"), Watch(installed)
    wait_kept(installed)
    for turn in range(10):
        pid = show(installed, "MainPID")
        time.sleep(turn * 0.05)
        installed.run("kill", "-KILL", pid)
        another(installed, pid)
        watch.look()
    pid = show(installed, "MainPID")
    installed.run("kill", "-STOP", pid)
    another(installed, pid)
    assert show(installed, "NRestarts") == "11"
    seen, total = watch.end(), compare(busy, keeper)
    print(f"\n11 kills; {total:.0f} events compared, none lost; {seen}")


def running(machine, path):
    """That program runs; is libpfm in it?"""
    pid = show(machine, "MainPID")
    assert machine.run("readlink", f"/proc/{pid}/exe").stdout.strip() == path
    return "/libpfm.so" in machine.run("cat", f"/proc/{pid}/maps").stdout


def test_an_upgrade_and_back(installed, counting, keeper):
    """To the build of another compiler, with a library more; a reload, a systemd that is started anew and a kill
    there; and back to the first one."""
    busy, watch = counting(), Watch(installed)
    wait_kept(installed)
    assert not running(installed, "/usr/sbin/perfmond")
    installed.run("mkdir", "-p", "/opt")
    shutil.copy(BUILD / "default/perfmond", installed.root / "opt/perfmond")
    installed.write(f"{DROP_INS}/upgrade.conf", f"[Service]\nExecStart=\nExecStart=/opt/perfmond --config={CONFIG}\n")
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "restart", "perfmond")
    assert running(installed, "/opt/perfmond"), "it is the build with libpfm"
    watch.look()
    installed.run("systemctl", "reload", "perfmond")
    wait_kept(installed)
    pid = show(installed, "MainPID")
    installed.run("systemctl", "daemon-reexec")
    until(lambda: installed.run("systemctl", "is-active", "perfmond", check=False).returncode == 0, "systemd is back")
    assert show(installed, "MainPID") == pid
    installed.run("kill", "-KILL", pid)
    another(installed, pid)
    watch.look()
    wait_kept(installed)
    installed.remove(f"{DROP_INS}/upgrade.conf")
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "restart", "perfmond")
    assert not running(installed, "/usr/sbin/perfmond")
    seen, total = watch.end(), compare(busy, keeper)
    print(f"\nan upgrade, a reload, daemon-reexec, a kill, and back: {total:.0f} events compared, none lost; {seen}")


def test_a_config_that_is_wrong_for_a_while(sandboxed, counting, keeper):
    """A kill, and a start that fails, more often than systemd would let other units do it: nothing is given up, nor
    does the socket, at which somebody waits all the time."""
    busy, watch = counting(), Watch(sandboxed)
    wait_kept(sandboxed)
    pid = show(sandboxed, "MainPID")
    sandboxed.write(CONFIG, "[daemon]\nnonsense = 1\n")
    sandboxed.run("kill", "-KILL", pid)
    # Each start in vain is three programs, one after the other: ten of them take their time on a busy machine.
    until(lambda: int(show(sandboxed, "NRestarts")) > 10, "it has been tried again and again", 300)
    assert show(sandboxed, "ActiveState") == "activating"
    assert sandboxed.run("systemctl", "is-active", "perfmond.socket").stdout.strip() == "active"
    sandboxed.write(CONFIG, SETTINGS)
    another(sandboxed, pid)
    seen, total = watch.end(), compare(busy, keeper)
    print(f"\na config that was wrong for a while: {total:.0f} events compared, none lost; {seen}")


def test_stopped_and_started(installed, counting):
    """systemd empties the fd store: totals go on from the state directory, and what happened in between is missing."""
    busy, watch = counting(), Watch(installed)
    for _ in range(2):
        installed.run("systemctl", "stop", "perfmond")
        assert installed.run("ls", "/var/lib/private/perfmond").stdout.split() == ["totals"]
        time.sleep(0.5)
        installed.run("systemctl", "start", "perfmond")
        assert installed.run("ls", "/var/lib/private/perfmond").stdout.split() == ["running"]
        watch.look()
    assert re.search(r"totals go on from /var/lib/perfmond/totals, saved [0-9.]+ s ago; counts since",
                     journal(installed))
    watch.end()
    for service in busy:
        ours, theirs = service.end()
        assert 0 < ours["page_faults"] < theirs["page_faults"]


class Other:
    """A service in a slice of its own that waits until it is let go. Between its start and that it does nothing, so
    that what is read of it then is the same for all who look."""

    UNIT = "[Service]\nSlice=other.slice\nExecStart=/bin/sh -c 'read go </run/other; exec python3 /root/load.py'\n"
    LABEL = "/other.slice/other.service"

    def __init__(self, machine):
        self.machine, self.counter = machine, None
        machine.write("/etc/systemd/system/other.service", self.UNIT)
        machine.write("/root/load.py", LOAD)
        machine.run("mkfifo", "/run/other")
        machine.run("systemctl", "daemon-reload")
        # It stays while the service comes and goes: all that its incarnations have done.
        machine.run("systemctl", "start", "other.slice")
        self.slice = self.counter_of("other.slice")

    def counter_of(self, unit):
        return Counter(find_cgroup(self.machine, unit))

    def shown(self):
        """The daemon's totals, read afresh; None where there are none."""
        time.sleep(0.15)
        found = re.findall(rf'^perf_cgroup_(\w+)_total{{cgroup="{self.LABEL}"}} (\S+)$', metrics(self.machine), re.M)
        return {name: float(total) for name, total in found} or None

    def begin(self):
        """Another life, which waits; what is shown by now, and what all lives have done."""
        self.machine.run("systemctl", "start", "other")
        # The shell has come to its open(), and the daemon to its counters.
        until(lambda: self.is_still() and self.shown(), "it waits, and is counted")
        while True:
            self.forget()
            everybody, self.counter = self.slice.read(), self.counter_of("other.service")
            shown = self.shown()
            # It may have been still for want of a CPU.
            if self.slice.read() == everybody:
                return shown, everybody

    def forget(self):
        if self.counter:
            self.counter.close()
        self.counter = None

    def is_still(self):
        before = self.slice.read()
        time.sleep(0.2)
        return self.slice.read() == before and before["page_faults"] > 0

    def work(self):
        self.machine.run("sh", "-c", "echo >/run/other")
        until(lambda: self.counter.read()["page_faults"] > 5000, "it works")

    def close(self):
        self.machine.run("systemctl", "stop", "other", "other.slice")
        self.forget()
        self.slice.close()
        self.machine.run("rm", "/run/other", "/etc/systemd/system/other.service")
        self.machine.run("systemctl", "daemon-reload")


@pytest.fixture
def other(machine):
    service = Other(machine)
    yield service
    service.close()


def nr_dying(machine):
    """Cgroups that were removed, and are held by somebody: with the memory controller, by their pages as well. BPF
    programs hold the cgroup of the daemon that has loaded them, which is in another slice."""
    stat = machine.run("cat", "/sys/fs/cgroup/other.slice/cgroup.stat").stdout
    with_memory = "memory" in machine.run("cat", "/sys/fs/cgroup/cgroup.controllers").stdout
    return 0 if with_memory else int(re.search(r"^nr_dying_descendants (\d+)$", stat, re.M)[1])


@pytest.mark.parametrize("down", [False, True])
def test_a_service_that_is_restarted(installed, counting, keeper, other, down):
    """It goes on in its series, to which each of its lives adds all that it did, also to the end of one that came
    while perfmond was down; and when it has lingered nothing is left of it."""
    counting()
    watch, dying, opened = Watch(installed), nr_dying(installed), value(installed, "perfmond_open_events")
    for how in ("stop", "stop", "restart"):
        before, everybody = other.begin()
        wait_kept(installed)
        other.work()
        pid = show(installed, "MainPID")
        if down:
            installed.run("kill", "-STOP", pid)
        installed.run("systemctl", how, "other")
        if down:
            installed.run("kill", "-KILL", pid)
            another(installed, pid)
        until(other.is_still, "it is gone, or waits")
        watch.look()
        did, shown, after = other.counter.read(), other.shown(), other.slice.read()
        rise = {name: shown[name] - before[name] for name in EVENTS}
        # Of a life that has begun meanwhile, the beginning may be in it.
        most = {name: after[name] - everybody[name] for name in EVENTS} if how == "restart" else did
        assert all(did[name] <= rise[name] <= most[name] + keeper.most(name) for name in EVENTS), (how, did, rise, most)
    installed.run("systemctl", "stop", "other")
    other.forget()
    assert other.shown(), "it lingers"
    installed.write(CONFIG, SETTINGS.replace("[cgroup]", "[cgroup]\nlinger = 1s"))
    installed.run("systemctl", "reload", "perfmond")
    until(lambda: not other.shown(), "it has lingered")
    wait_kept(installed)
    assert value(installed, "perfmond_open_events") == opened
    assert value(installed, "perfmond_cgroups", '{state="lingering"}') == 0
    until(lambda: nr_dying(installed) <= dying, "nobody holds what was removed")
    watch.end()


def test_in_the_sandbox(sandboxed, counting, keeper):
    busy, watch = counting(), Watch(sandboxed)
    for turn in range(6):
        if turn % 2:
            pid = show(sandboxed, "MainPID")
            sandboxed.run("kill", "-KILL", pid)
            another(sandboxed, pid)
        else:
            sandboxed.run("systemctl", "restart", "perfmond")
        watch.look()
    seen, total = watch.end(), compare(busy, keeper)
    print(f"\n3 restarts and 3 kills in the sandbox: {total:.0f} events compared, none lost; {seen}")
