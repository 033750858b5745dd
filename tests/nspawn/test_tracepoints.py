# SPDX-License-Identifier: MIT
"""Tracepoints in the sandbox: tracefs is root's, and the daemon has only CAP_PERFMON and CAP_BPF."""

import json
import re

import pytest

from booted import CONFIG, journal, show, until, value

TRACEFS = "/sys/kernel/tracing"
FORKER = "forker.service"
LABEL = f'{{cgroup="/system.slice/{FORKER}"}}'

# Forks as often as the number says that stands in a file, and waits for the next one.
SCRIPT = """
import os, time
done = 0
while True:
    try:
        want = int(open("/run/forks").read() or 0)
    except FileNotFoundError:
        want = 0
    while done < want:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
        done += 1
        if done == want:
            os.close(os.open(f"/run/forked-{done}", os.O_CREAT | os.O_WRONLY))
    time.sleep(0.02)
"""


def config(*events):
    return "[cpu]\ngroups =\n[cgroup]\ngroups = trace\n[group \"trace\"]\nalone = yes\n" \
        f"events = {', '.join(events)}\n"


def is_mounted(machine):
    return machine.run("mountpoint", "--quiet", TRACEFS, check=False).returncode == 0


@pytest.fixture
def tracefs(machine):
    """systemd mounts it at boot, where it may."""
    if not is_mounted(machine):
        pytest.skip("tracefs can't be mounted in a container here")


@pytest.fixture
def no_tracefs(machine, tracefs):
    """Yields what mounts it again."""
    def mount():
        machine.run("mount", "-t", "tracefs", "tracefs", TRACEFS)
    machine.run("umount", TRACEFS)
    debugfs = machine.run("umount", "-R", "/sys/kernel/debug", check=False).returncode == 0
    yield mount
    if debugfs:
        machine.run("mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug")
    if not is_mounted(machine):
        mount()


@pytest.fixture
def forker(machine):
    """A service that forks so often as it is told to: forker(100) brings it to a hundred in all."""
    machine.run("systemd-run", "--quiet", f"--unit={FORKER}", "python3", "-c", SCRIPT)

    def fork(total):
        machine.run("sh", "-c", f"echo {total} >/run/forks.new && mv /run/forks.new /run/forks")
        until(lambda: machine.run("test", "-e", f"/run/forked-{total}", check=False).returncode == 0, "its forks")
    yield fork
    machine.run("systemctl", "stop", FORKER)
    machine.run("sh", "-c", "rm -f /run/forks /run/forked-*")


def start(machine, events):
    machine.write(CONFIG, config(*events))
    machine.run("systemctl", "start", "perfmond")


def state(machine, text):
    events = json.loads(machine.run("curl", "-sf", "http://127.0.0.1:9753/api/v1/events").stdout)["events"]
    return next(event for event in events if event["text"] == text)


def fresh(machine, name):
    machine.run("sleep", "0.15")
    return value(machine, f"perf_cgroup_{name}_total", LABEL)


@pytest.mark.parametrize("kind", ["installed", "sandboxed"])
def test_they_are_exact(request, kind, tracefs, forker):
    machine = request.getfixturevalue(kind)
    start(machine, ["sched:sched_process_fork"])
    status = machine.run("cat", f"/proc/{show(machine, 'MainPID')}/status").stdout
    assert re.search(r"CapEff:\s+000000c000000000\n", status), "CAP_PERFMON, CAP_BPF and nothing else"
    until(lambda: fresh(machine, "sched_sched_process_fork") is not None, "the service is counted")
    before = fresh(machine, "sched_sched_process_fork")
    forker(137)
    assert fresh(machine, "sched_sched_process_fork") - before == 137

    # One more, of which root's list of before the start knows as well, and which a reload looks up.
    machine.write(CONFIG, config("sched:sched_process_fork", "sched:sched_process_exit"))
    machine.run("systemctl", "reload", "perfmond")
    until(lambda: fresh(machine, "sched_sched_process_exit") is not None, "the other one is counted")
    exits = fresh(machine, "sched_sched_process_exit")
    forker(200)
    assert fresh(machine, "sched_sched_process_fork") - before == 200, "what stays misses nothing"
    assert fresh(machine, "sched_sched_process_exit") - exits == 63


def test_tracefs_is_mounted_later(installed, no_tracefs, forker):
    """It starts without, says how to get it, and a reload finds it."""
    event = "sched:sched_process_fork"
    start(installed, [event, "page-faults"])
    assert "mount -t tracefs" in journal(installed)
    assert state(installed, event)["state"] == "unsupported" and "mount -t tracefs" in state(installed, event)["reason"]
    assert state(installed, "page-faults")["state"] == "ok"
    no_tracefs()
    installed.run("systemctl", "reload", "perfmond")
    until(lambda: fresh(installed, "sched_sched_process_fork") is not None, "it is counted")
    before = fresh(installed, "sched_sched_process_fork")
    forker(42)
    assert fresh(installed, "sched_sched_process_fork") - before == 42


def test_the_list_is_everyone_s_to_read(installed, tracefs):
    installed.run("systemctl", "start", "perfmond")
    found = installed.run("stat", "--format=%a %U", "/run/perfmond/tracepoints").stdout.split()
    assert found == ["644", "root"]
    assert re.search(r"^sched:sched_process_fork \d+$", installed.run("cat", "/run/perfmond/tracepoints").stdout, re.M)
    installed.run("systemctl", "stop", "perfmond")
    installed.run("test", "!", "-e", "/run/perfmond/tracepoints")
