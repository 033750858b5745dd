# SPDX-License-Identifier: MIT
"""CAP_SYS_ADMIN as sys-admin.conf among the examples gives it to the service, CAP_BPF as without-bpf.conf takes it
away, and what systemd is told where nothing is counted."""

import json
import re
import shutil
import struct

import pytest

from booted import CAP_BPF, CAP_PERFMON, CONFIG, DROP_INS, journal, metrics, show, until, value
from machine import needs, require

EXAMPLES = "/usr/share/doc/perfmond/examples"
PROGRAM = "/opt/probed"
CALLER = "caller.service"
OURS, CAP_SYS_ADMIN = CAP_PERFMON | CAP_BPF, 1 << 21


def entry_of(path):
    """Where in the file its first instruction is, which runs once each time that it is executed."""
    elf = path.read_bytes()
    assert elf[:5] == b"\x7fELF\x02"
    entry, headers = struct.unpack_from("<QQ", elf, 24)
    size, nr = struct.unpack_from("<HH", elf, 54)
    for number in range(nr):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", elf, headers + number * size)
        if kind == 1 and address <= entry < address + length:
            return entry - address + offset
    raise AssertionError("it begins nowhere")


@pytest.fixture
def probed(installed):
    """A program of its own, with the service configured to count in cgroups how often it is run."""
    require("uprobe")
    program = installed.root / PROGRAM.lstrip("/")
    program.parent.mkdir(exist_ok=True)
    shutil.copy("/bin/true", program)
    installed.write(CONFIG, '[cpu]\ngroups =\n[cgroup]\ngroups = probed\n[group "probed"]\nalone = yes\n'
                            f"events = runs=uprobe:{PROGRAM}:{entry_of(program):#x}, page-faults\n")
    yield installed
    installed.run("systemctl", "stop", CALLER, check=False)
    installed.remove(PROGRAM)


def drop_in(machine, name):
    """As doc/security.md says."""
    machine.run("install", "-D", "-m", "644", "-t", DROP_INS, f"{EXAMPLES}/{name}")
    machine.run("systemctl", "daemon-reload")


def sets(machine):
    """Of all its threads, but for those that end meanwhile."""
    status = machine.run("sh", "-c", f"cat /proc/{show(machine, 'MainPID')}/task/*/status; true").stdout
    return {name: {int(found, 16) for found in re.findall(rf"^{name}:\s+(\w+)$", status, re.M)}
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}


def event(machine, name):
    events = json.loads(machine.run("curl", "-sf", "http://127.0.0.1:9753/api/v1/events").stdout)["events"]
    return next(found for found in events if found["event"] == name)


def fresh(machine):
    machine.run("sleep", "0.15")
    return value(machine, "perf_cgroup_runs_total", f'{{cgroup="/system.slice/{CALLER}"}}')


def test_the_drop_in(probed):
    """A uprobe counts exactly, over a reload and a restart, with the capability in force for nothing else."""
    here = {"CapInh": {OURS}, "CapPrm": {OURS | CAP_SYS_ADMIN}, "CapEff": {OURS}, "CapBnd": {OURS | CAP_SYS_ADMIN},
            "CapAmb": {OURS}}

    drop_in(probed, "sys-admin.conf")
    probed.run("systemctl", "start", "perfmond")
    # Cgroups are opened behind the start, each probe with the capability in force for that moment.
    until(lambda: sets(probed) == here, "all is open")
    assert event(probed, "runs")["state"] == "ok", event(probed, "runs")["reason"]
    script = "until [ -e /run/call ]; do sleep 0.05; done; " \
             f"for i in $(seq 137); do {PROGRAM}; done; touch /run/called; sleep 1000"
    probed.run("systemd-run", "--quiet", f"--unit={CALLER}", "sh", "-c", script)
    try:
        until(lambda: fresh(probed) == 0, "the service is counted")
        probed.run("touch", "/run/call")
        until(lambda: probed.run("test", "-e", "/run/called", check=False).returncode == 0, "its calls")
        assert fresh(probed) == 137
        probed.run("systemctl", "reload", "perfmond")
        until(lambda: value(probed, "perfmond_reloads_total") == 1, "the reload")
        until(lambda: fresh(probed) == 137 and sets(probed) == here, "it goes on")
        probed.run("systemctl", "restart", "perfmond")
        until(lambda: fresh(probed) == 137 and sets(probed) == here, "it goes on")
    finally:
        probed.run("rm", "-f", "/run/call", "/run/called")
    assert "stays in force" not in journal(probed)
    status = json.loads(probed.run("curl", "-sf", "http://127.0.0.1:9753/api/v1/status").stdout)
    assert status["privileges"]["capabilities"] == ["CAP_PERFMON", "CAP_BPF"]
    assert status["privileges"]["raises_sys_admin"]
    probed.run("systemd-analyze", "security", "--no-pager", "--threshold=17", "perfmond.service")

    # What was counted with it may be denied without; it takes nothing else with it.
    probed.remove(f"{DROP_INS}/sys-admin.conf")
    probed.run("systemctl", "daemon-reload")
    probed.run("systemctl", "restart", "perfmond")
    assert event(probed, "runs")["state"] in ("ok", "denied"), event(probed, "runs")["reason"]
    assert event(probed, "page_faults")["state"] == "ok"
    until(lambda: value(probed, "perfmond_cgroups", '{state="counted"}') > 0, "cgroups are counted")
    assert value(probed, "perfmond_cgroups", '{state="failed"}') == 0


def test_without_the_drop_in(probed):
    """What this kernel wants is said, and the one event takes nothing with it."""
    probed.run("systemctl", "start", "perfmond")
    found = event(probed, "runs")
    if found["state"] == "denied":
        assert "wants CAP_SYS_ADMIN for uprobes" in found["reason"] and "sys-admin.conf" in found["reason"]
    else:
        assert found["state"] == "ok", "CAP_PERFMON is enough on older kernels"
    assert event(probed, "page_faults")["state"] == "ok"


def test_without_bpf(installed):
    """The drop-in takes away what is for the BPF engine, and nothing that another drop-in gives."""
    installed.run("systemctl", "start", "perfmond")
    assert sets(installed)["CapEff"] == {OURS} and "bpf" in show(installed, "SystemCallFilter").split()
    drop_in(installed, "sys-admin.conf")
    drop_in(installed, "without-bpf.conf")
    installed.run("systemctl", "restart", "perfmond")
    wanted = {"CapInh": {CAP_PERFMON}, "CapPrm": {CAP_PERFMON | CAP_SYS_ADMIN}, "CapEff": {CAP_PERFMON},
              "CapBnd": {CAP_PERFMON | CAP_SYS_ADMIN}, "CapAmb": {CAP_PERFMON}}
    # While it opens events that the kernel refuses otherwise, CAP_SYS_ADMIN is raised.
    until(lambda: sets(installed) == wanted, "its capabilities")
    calls = show(installed, "SystemCallFilter").split()
    assert "bpf" not in calls and "capset" in calls and "perf_event_open" in calls
    assert event(installed, "page_faults")["state"] == "ok"


@needs("paranoid")
@pytest.mark.parametrize("before", ["nothing", "counted"])
def test_nobody_is_left_to_think_that_it_counts(installed, before):
    """Active, with nothing counted: STATUS= says so, the journal does at warning, and the series do. Also where an
    instance before it could count, and has left its totals."""
    if before == "counted":
        installed.run("systemctl", "start", "perfmond")
        installed.run("systemctl", "stop", "perfmond")
    installed.write(f"{DROP_INS}/none.conf", "[Service]\nAmbientCapabilities=\nCapabilityBoundingSet=\n")
    installed.run("systemctl", "daemon-reload")
    installed.run("systemctl", "start", "perfmond")
    assert show(installed, "ActiveState") == "active"
    until(lambda: show(installed, "StatusText").startswith("Counting nothing: not permitted: "), "its status")
    assert "CAP_PERFMON" in show(installed, "StatusText")
    until(lambda: "counting nothing: not permitted: " in installed.run(
        "journalctl", "--unit=perfmond", "--priority=warning", "--output=cat", "--no-pager").stdout, "its warning")
    states = re.findall(r'^perf_event_state\{.*state="(\w+)"\} 1$', metrics(installed), re.M)
    assert states and not {"ok", "multiplexed"} & set(states), "the alert PerfmondCountsNothing sees that"


def test_the_sysctl_is_one(installed):
    """The other way out, as it is installed: systemd reads it. It is not applied: the sysctls are the host's, too."""
    installed.run("install", "-D", "-m", "644", "-t", "/etc/sysctl.d", f"{EXAMPLES}/60-perfmond.conf")
    try:
        shown = installed.run("/usr/lib/systemd/systemd-sysctl", "--cat-config").stdout
        assert re.search(r"^kernel\.perf_event_paranoid = 2$", shown, re.M)
    finally:
        installed.remove("/etc/sysctl.d/60-perfmond.conf")
