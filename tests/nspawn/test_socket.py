# SPDX-License-Identifier: MIT
"""perfmond.socket: systemd listens, and the daemon, which is started by the first connection, has no network."""

import json
import re
import subprocess
import time

import pytest

from booted import DROP_INS, SOCKET_DROP_INS, journal, metrics, show, until, value

SWITCHES = re.compile(r"^perf_cpu_context_switches_total\S* (\S+)$", re.M)

# Connects again and again until its standard input ends, and 51 times were answered: {"answered": N, "refused": N,
# "dropped": N}.
CLIENT = """
import collections, json, select, socket, sys
seen = collections.Counter(answered=0, refused=0, dropped=0)
while not select.select([sys.stdin], [], [], 0.002)[0] or seen["answered"] <= 50:
    try:
        with socket.create_connection(("127.0.0.1", 9753), 20) as s:
            s.sendall(b"GET /-/healthy HTTP/1.0\\r\\n\\r\\n")
            seen["answered" if s.recv(100).startswith(b"HTTP/1.") else "dropped"] += 1
    except ConnectionRefusedError:
        seen["refused"] += 1
    except ConnectionResetError:
        seen["dropped"] += 1
print(json.dumps(seen))
"""


def switches(machine):
    return sum(float(v) for v in SWITCHES.findall(metrics(machine)))


@pytest.fixture
def activated(installed):
    installed.run("systemctl", "enable", "--now", "perfmond.socket")
    return installed


def test_the_first_connection_starts_it(activated):
    assert show(activated, "ActiveState") == "inactive"
    before = switches(activated)
    # It answers before root has saved the list of processes (ExecStartPost=).
    until(lambda: show(activated, "ActiveState") == "active", "it is active")
    activated.run("sleep", "1.2")
    assert switches(activated) > before > 0
    assert "listening on http://127.0.0.1:9753 (systemd's socket)" in journal(activated)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_restart_refuses_nobody(activated, how):
    activated.write(f"{DROP_INS}/test.conf", "[Service]\nRestartSec=100ms\n")
    activated.run("systemctl", "daemon-reload")
    assert value(activated, "perfmond_up") == 1
    client = subprocess.Popen(["nsenter", f"--target={activated.leader}", "--all", "python3", "-c", CLIENT],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        for _ in range(3):
            before = show(activated, "MainPID")
            if how == "restart":
                activated.run("systemctl", "restart", "perfmond")
            else:
                activated.run("kill", "-KILL", before)
            until(lambda before=before: show(activated, "MainPID") not in ("0", before), "another one")
            until(lambda: value(activated, "perfmond_up") == 1, "it answers")
            time.sleep(0.2)
    finally:
        seen = json.loads(client.communicate("", timeout=30)[0])
    assert seen["refused"] == 0 and seen["answered"] > 50, seen
    assert seen["dropped"] <= 3, f"at most the one that is being served: {seen}"


def test_a_reload_keeps_the_socket(activated):
    assert value(activated, "perfmond_up") == 1
    # systemd drops a reload, and says nothing, while ExecStartPost= runs.
    until(lambda: show(activated, "ActiveState") == "active", "it is active")
    pid = show(activated, "MainPID")
    activated.write("/etc/perfmond/perfmond.conf", "[web]\nlisten = 127.0.0.1:9754\n[daemon]\ninterval = 500ms\n")
    activated.run("systemctl", "reload", "perfmond")
    until(lambda: value(activated, "perfmond_interval_seconds") == 0.5, "the reload")
    assert show(activated, "MainPID") == pid


def test_several_addresses(activated):
    activated.write(f"{SOCKET_DROP_INS}/test.conf", "[Socket]\nListenStream=127.0.0.2:9754\nListenStream=/run/p.sock\n")
    activated.run("systemctl", "daemon-reload")
    activated.run("systemctl", "restart", "perfmond.socket")
    for address in (["http://127.0.0.1:9753/-/healthy"], ["http://127.0.0.2:9754/-/healthy"],
                    ["--unix-socket", "/run/p.sock", "http://localhost/-/healthy"]):
        activated.run("curl", "-sf", *address)
    activated.run("systemctl", "stop", "perfmond")
    activated.run("test", "-S", "/run/p.sock")
    activated.run("curl", "-sf", "--unix-socket", "/run/p.sock", "http://localhost/-/healthy")


# --- without a network

def test_the_sandboxed_one_counts(sandboxed):
    sandboxed.run("systemd-run", "--quiet", "--unit=known-load", "sh", "-c", "while :; do :; done")
    try:
        before = switches(sandboxed)
        label = '{cgroup="/system.slice/known-load.service"}'
        until(lambda: (value(sandboxed, "perf_cgroup_task_clock_seconds_total", label) or 0) > 0.3, "its CPU time")
        until(lambda: switches(sandboxed) > before, "context switches")
    finally:
        sandboxed.run("systemctl", "stop", "known-load")


def test_the_sandboxed_one_has_no_network(sandboxed):
    assert value(sandboxed, "perfmond_up") == 1
    pid = show(sandboxed, "MainPID")
    ours, its = (sandboxed.run("readlink", f"/proc/{p}/ns/net").stdout for p in ("1", pid))
    assert ours != its
    assert re.search(r"CapEff:\s+000000c000000000\n", sandboxed.run("cat", f"/proc/{pid}/status").stdout)
    problems = json.loads(sandboxed.run("curl", "-sf", "http://127.0.0.1:9753/api/v1/status").stdout)["problems"]
    assert not any("CAP_PERFMON" in problem for problem in problems)


def test_the_sandboxed_one_is_as_closed_as_it_says(sandboxed):
    print(sandboxed.run("systemd-analyze", "security", "--no-pager", "--threshold=7", "perfmond.service").stdout)


def test_the_sandboxed_one_started_by_hand(sandboxed):
    """Its socket comes first."""
    sandboxed.run("systemctl", "stop", "perfmond.socket")
    sandboxed.run("systemctl", "start", "perfmond")
    assert value(sandboxed, "perfmond_up") == 1
    assert "(systemd's socket)" in journal(sandboxed)
