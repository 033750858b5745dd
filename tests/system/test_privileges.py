# SPDX-License-Identifier: MIT
"""Capabilities, on this machine's kernel: CAP_SYS_ADMIN is in force for what needs it alone, and where nothing is
counted, systemd and the log are told. tests/guest/test_privileges.py has a kernel that wants it for everything."""

import os
import platform
import re
import resource
import shutil
from pathlib import Path

import pytest

import machine
from harness import WORK, as_user, until
from machine import needs
from test_probes import Counted, config

CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON, CAP_CHECKPOINT_RESTORE = 1 << 19, 1 << 21, 1 << 38, 1 << 40

# Runs a command under a seccomp filter that does this at each capset(2).
FILTERED = f"""
import ctypes, os, struct, sys
CAPSET = {{"x86_64": 126, "aarch64": 91}}["{platform.machine()}"]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, CAPSET), (0x06, 0, 0, int(sys.argv[1], 16)), (0x06, 0, 0, 0x7fff0000)]
filter = b"".join(struct.pack("HBBI", *line) for line in code)
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.cast(filter, ctypes.c_void_p).value))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
    sys.exit(os.strerror(ctypes.get_errno()))
os.execv(sys.argv[2], sys.argv[2:])
"""
EPERM, KILL = "50001", "80000000"


def filtered(action):
    return ["/usr/bin/python3", "-c", FILTERED, action]


def sets(daemon, pid=None):
    """Of all its threads, or those of another process of it."""
    texts = [(task / "status").read_text() for task in Path(f"/proc/{pid or daemon.pid}/task").iterdir()]
    return {name: {int(re.search(rf"^{name}:\s+(\w+)$", text, re.M)[1], 16) for text in texts}
            for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}


@pytest.fixture
def as_nobody(perfmond, binary_for_all, tmp_path):
    """Starts daemons as another user with capabilities."""
    os.chmod(tmp_path, 0o755)

    def start(text, caps, *prefix, env=None):
        more = binary_for_all([*as_user(65534, caps), *prefix])
        return perfmond(text, **{**more, "env": {**more["env"], **(env or {})}})
    return start


@needs("paranoid")
def test_profiles_without_a_privilege_are_off(as_nobody):
    """It is said once, in the words in which it is said of events."""
    daemon = as_nobody("", "")
    line = daemon.wait_log(r"no profiles: .*")[0]
    assert re.search(r"no profiles: not permitted \(E(ACCES|PERM)\): .*CAP_PERFMON", line) and "CPU 1" not in line
    assert daemon.log.count("no profiles") == 1


@pytest.fixture
def probed(cgroups, work, tmp_path):
    """A program that everyone can read, in a cgroup: (the helper, the cgroup, the config that counts its function)."""
    machine.require("uprobe")
    group = cgroups.make("probed")
    program = shutil.copy(WORK, tmp_path / "program")
    os.chmod(program, 0o755)
    text = config(cgroups, f"probed=uprobe:{program}:probed, page-faults")
    return work(group, program=program), group, text


@needs("sys-admin")
def test_root_has_cap_sys_admin_in_force_for_nothing(perfmond, probed):
    mine = int(re.search(r"^CapPrm:\s+(\w+)$", Path("/proc/self/status").read_text(), re.M)[1], 16)
    helper, group, text = probed
    daemon = perfmond(text)
    counted = Counted(daemon, "probed")
    helper.do("probed 321")
    assert counted.now(group) == (321, 321)
    parted = mine & ~CAP_SYS_PTRACE & ~CAP_CHECKPOINT_RESTORE
    assert sets(daemon)["CapPrm"] == {parted} and sets(daemon)["CapEff"] == {parted & ~CAP_SYS_ADMIN}
    assert sets(daemon, daemon.profiler)["CapPrm"] == {mine}, "other processes are read by the profiler alone"
    assert sets(daemon, daemon.profiler)["CapEff"] == {mine & ~CAP_SYS_ADMIN}
    answer = daemon.json("/api/v1/status")["privileges"]
    assert answer["raises_sys_admin"] and "CAP_SYS_ADMIN" not in answer["capabilities"]


@needs("sys-admin", "cap-perfmon")
def test_cap_sys_admin_is_raised_for_a_uprobe(as_nobody, probed):
    """As sys-admin.conf gives it: CPUs, cgroups, a reload, and nothing in force meanwhile."""
    helper, group, text = probed
    daemon = as_nobody(text, "+perfmon +sys_admin")
    here = {"CapInh": {CAP_PERFMON}, "CapPrm": {CAP_PERFMON | CAP_SYS_ADMIN}, "CapEff": {CAP_PERFMON},
            "CapAmb": {CAP_PERFMON}}
    assert sets(daemon) == here
    counted = Counted(daemon, "probed")
    helper.do("probed 777")
    assert counted.now(group) == (777, 777)
    daemon.reload(text + "[web]\nlisten = 127.0.0.1:0\n")
    helper.do("probed 23")
    assert counted.now(group) == (800, 800)
    assert sets(daemon) == here


@needs("cap-perfmon")
def test_a_uprobe_without_cap_sys_admin_counts_or_tells_why(as_nobody, probed):
    """CAP_PERFMON is enough on older kernels."""
    helper, group, text = probed
    daemon = as_nobody(text, "+perfmon")
    event = next(event for event in daemon.json("/api/v1/events")["events"] if event["event"] == "probed")
    if event["state"] == "denied":
        assert "wants CAP_SYS_ADMIN for uprobes" in event["reason"] and "sys-admin.conf" in event["reason"]
        assert "seccomp" not in event["reason"]
    else:
        assert event["state"] == "ok"
    assert daemon.metrics().state("page_faults") == "ok"


@needs("sys-admin", "cap-perfmon")
def test_where_capset_is_forbidden_cap_sys_admin_stays_in_force(as_nobody, probed):
    """It can't be set aside then: it stays in force, which is said, and all is counted."""
    helper, group, text = probed
    daemon = as_nobody(text, "+perfmon +sys_admin", *filtered(EPERM))
    assert sets(daemon)["CapEff"] == {CAP_PERFMON | CAP_SYS_ADMIN}
    daemon.wait_log("CAP_SYS_ADMIN stays in force all the time: capset: .*SystemCallFilter=capset")
    counted = Counted(daemon, "probed")
    helper.do("probed 55")
    assert counted.now(group) == (55, 55)
    assert daemon.json("/api/v1/status")["privileges"]["capabilities"] == ["CAP_PERFMON", "CAP_SYS_ADMIN"]


@needs("cap-perfmon")
def test_where_capset_is_forbidden_the_daemon_keeps_what_the_profiler_needs(as_nobody):
    """It can't be given up then, which is said."""
    daemon = as_nobody("", "+perfmon +sys_ptrace", *filtered(EPERM))
    assert sets(daemon)["CapPrm"] == {CAP_PERFMON | CAP_SYS_PTRACE}
    sentence = "CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE stay with the whole daemon, not with the profiler alone"
    daemon.wait_log(f"{sentence}: capset: .*SystemCallFilter=capset")
    assert sentence in daemon.json("/api/v1/status")["problems"]


@needs("cap-perfmon")
def test_without_cap_sys_admin_capset_is_not_called(as_nobody, probed):
    """As the unit forbids it: a process without CAP_SYS_ADMIN, to which some events are denied, never calls it."""
    _, _, text = probed
    daemon = as_nobody(text, "+perfmon", *filtered(KILL))
    assert daemon.metrics().state("page_faults") == "ok"
    daemon.reload(text + "[web]\nlisten = 127.0.0.1:0\n")
    assert daemon.process.poll() is None


@needs("user-namespace", "paranoid")
def test_capabilities_of_a_user_namespace_are_worth_nothing(perfmond):
    """Root there has all of them, and perf events do not care."""
    daemon = perfmond("", prefix=["unshare", "--user", "--map-root-user"])
    assert daemon.metrics().state("context_switches") == "denied"
    reasons = {event["reason"] for event in daemon.json("/api/v1/events")["events"] if event["state"] == "denied"}
    assert len(reasons) == 1 and "user namespace" in reasons.pop()


# --- nothing is counted, and somebody is told

def statuses(store):
    store.settle()
    return [value for key, value in store.said if key == "STATUS"]


def wait_status(store, pattern):
    try:
        until(lambda: statuses(store) and re.match(pattern, statuses(store)[-1]), pattern)
    except AssertionError as error:
        raise AssertionError(f"{error}; it was told {statuses(store)}") from None


@needs("paranoid")
def test_a_daemon_without_privileges_tells_that_it_counts_nothing(as_nobody, store):
    os.chmod(store.address, 0o777)
    daemon = as_nobody("", "", env={"NOTIFY_SOCKET": store.address})
    wait_status(store, "Counting nothing: not permitted: .*CAP_PERFMON")
    daemon.wait_log("counting nothing: not permitted: ")
    assert len(re.findall("counting nothing: not permitted: ", daemon.log)) == 1
    assert not re.search(r"counting \d", daemon.log)


NOTHING = '[cpu]\ngroups = g\n[cgroup]\ngroups =\n[group "g"]\nevents = odd=mem:0x1001/8:w\n'
SOMETHING = NOTHING.replace("odd=", "page-faults, odd=")


@pytest.mark.usefixtures("debug_registers")
def test_systemd_is_told_whether_anything_is_counted(perfmond, store):
    """By reloads from nothing to something and back."""
    daemon = perfmond(NOTHING, env={"NOTIFY_SOCKET": store.address})
    wait_status(store, "Counting nothing: the kernel refuses it")
    daemon.wait_log("perfmond: counting nothing: the kernel refuses it")
    daemon.reload(SOMETHING + "[web]\nlisten = 127.0.0.1:0\n")
    wait_status(store, r"Counting 1 of 2 events on \d+ CPUs, 0 of 0 events in ")
    daemon.wait_log(r"perfmond: counting 1 of 2 events")
    daemon.reload('[cpu]\ngroups =\n[cgroup]\ngroups =\n[web]\nlisten = 127.0.0.1:0\n')
    wait_status(store, "Counting nothing: the config names no event$")
    daemon.wait_log("perfmond: counting nothing: the config names no event")


def test_systemd_is_told_that_all_cgroups_are_left_out(perfmond, cgroups, store):
    """Events that could be counted, and not a cgroup that they are counted in."""
    for number in range(3):
        cgroups.make(f"wide-{number}")
    events = ", ".join(f"e{number}=page-faults" for number in range(40))
    perfmond(f'[cpu]\ngroups =\n[cgroup]\nengine = perf\ngroups = g\ninclude = {cgroups.label}/**\n'
             f'[group "g"]\nevents = {events}\n',
             limits=[(resource.RLIMIT_NOFILE, (64, 64))], env={"NOTIFY_SOCKET": store.address})
    wait_status(store, "Counting nothing: .*LimitNOFILE")
