# SPDX-License-Identifier: MIT
"""What this machine has and has not; and kinds of events that the host's kernel may lack."""

import re
import subprocess

import pytest

from guests import GUEST, LOAD, Daemon, config
from harness import Delta


def test_check(guest):
    output, _, status = guest.run("perfmond --check; echo $?").rstrip("\n").rpartition("\n")
    # Kept beside the guest's root, to be looked at.
    (GUEST / "check.txt").write_text(output, encoding="utf-8")

    assert re.search(r"^machine: Linux \S+ aarch64, 1 CPUs online \(0\)$", output, re.M)
    assert re.search(r"^PMUs: armv8_pmuv3(_0)?, breakpoint, kprobe, software, tracepoint, uprobe$", output, re.M)
    for scope in ("per CPU:", "per cgroup:"):
        lines = output[output.index(scope):].split("\n\n")[0].splitlines()
        states = {line.split()[1]: line.split()[2] for line in lines[1:]}
        assert states["cycles"] == states["instructions"] == states["context-switches"] == "ok"
        assert states["cache-misses"] == states["branch-misses"] == "unsupported"
    assert re.search(r"^\[1\] PMU 'armv8_pmuv3(_0)?' does not have this event \(ENOENT\)$", output, re.M), "why"
    assert status == "2", "something configured can't be counted"


def test_events_that_the_pmu_lacks(guest, perfmond):
    """They are named, and take nothing with them, not even in a group."""
    daemon = perfmond(config("events = cycles, cache-misses, branch-misses, L1-dcache-loads, instructions",
                             "events = page-faults"))
    metrics = daemon.fresh()
    for event in ("cache_misses", "branch_misses", "l1_dcache_loads"):
        found = daemon.event(event)
        assert found["state"] == "unsupported" and found["set"] is None
        assert "ENOENT" in found["reason"] and "PMU" in found["reason"]
        assert metrics.all(f"perf_cpu_{event}_total") == []
        assert daemon.log.count(found["text"]) == 1, "said once"
    assert metrics.state("cycles") == metrics.state("instructions") == metrics.state("page_faults") == "ok"
    among = daemon.json("/api/v1/events")["sets"][daemon.event("cycles")["set"]["number"]]
    assert among["members"] == ["cycles", "instructions"]


def test_list_events(guest):
    lines = guest.run("perfmond --list-events").splitlines()
    for wanted in (r"cycles\s+\[Hardware event", r"instructions\s+\[Hardware event",
                   r"armv8_pmuv3(_0)?/cpu_cycles/\s+\[Kernel PMU event",
                   r"armv8_pmuv3(_0)?/inst_retired/\s+\[Kernel PMU event",
                   r"sched:sched_switch\s+\[Tracepoint", r"context-switches\s+\[Software event"):
        assert any(re.match(wanted, line) for line in lines), wanted
    # The kernel's names for what this PMU lacks are left out.
    assert not any(line.startswith(("cache-misses ", "L1-dcache-loads ")) for line in lines)
    # What it lists by the PMU's own name can be counted here.
    own = [line.split()[0] for line in lines if line.startswith("armv8_pmuv3")]
    guest.write("/tmp/own.conf", config(*[f"events = e{number}={event}" for number, event in enumerate(own)]))
    assert guest.status("perfmond --config=/tmp/own.conf --check") == 0
    assert guest.run("perfmond --list-events='armv8_*'").splitlines() == \
        [line for line in lines if line.startswith("armv8_")]


def test_once(guest):
    guest.write("/tmp/once.conf", config("events = cycles, instructions"))
    output = guest.run("load cpu:3000 & perfmond --config=/tmp/once.conf --once --duration=1s; wait")
    cycles = float(re.search(r'^perf_cpu_cycles_total\{cpu="0"\} (\S+)$', output, re.M)[1])
    assert cycles == pytest.approx(1e9, rel=0.05)


# None of the first changes what is counted of the load: all of its cycles are a host's, and none is idle. The last
# two ask for what is never executed in this machine, by a hypervisor and by guests.
SAME, NOTHING = ["p", "pp", "H", "uH", "I"], ["h", "G"]


def test_letters(guest, perfmond):
    letters = SAME + NOTHING
    events = ", ".join(f"c{number}=cycles:{letter}" for number, letter in enumerate(letters))
    daemon = perfmond(config(f"events = {events}\nalone = yes", scope="cgroup", interval="100ms"))
    before = daemon.fresh()
    guest.load("join:a cpu:2000 leave")
    delta = Delta(before, daemon.fresh())
    for number, letter in enumerate(letters):
        event = daemon.event(f"c{number}", "cgroup")
        assert event["state"] == "ok", event
        rise = delta.of(f"perf_cgroup_c{number}_total", cgroup="/a")
        # About a tenth of it is the kernel's.
        assert rise == (pytest.approx(2e9, rel=0.01 if "u" not in letter else 0.1) if letter in SAME else 0), event


def test_what_the_kernel_refuses_is_given_up(guest, perfmond):
    """The driver can't leave out idle time: the event is counted with it, and says so."""
    daemon = perfmond(config("events = it=cycles:I", scope="cpu cgroup"))
    for scope in ("cpu", "cgroup"):
        event = daemon.event("it", scope)
        assert event["state"] == "ok" and "idle" in event["reason"], event
    check = guest.run("perfmond --config=/tmp/perfmond.conf --check")
    assert re.search(r"^\s+g0\s+cycles:I\s+ok \[1\]$", check, re.M)
    assert re.search(r"^\[1\] .*idle", check, re.M)


def symbol(name):
    """The address of a variable of the load."""
    table = subprocess.run(["aarch64-linux-gnu-nm", LOAD], capture_output=True, text=True, check=True).stdout
    return int(re.search(rf"^(\w+) \w {name}$", table, re.M)[1], 16)


# What happens as often as a step of the load says, and for nobody else. A kprobe can't stand on the first
# instructions, where ftrace has its place.
ONE_BY_ONE = {
    "breakpoint": ("mem:{watched:#x}/4:w", "write"),
    "uprobe": ("uprobe:/bin/load:called", "call"),
    "uretprobe": ("uretprobe:/bin/load:called", "call"),
    "kprobe": ("kprobe:__arm64_sys_getsid", "getsid"),
    "kretprobe": ("kretprobe:__arm64_sys_getsid", "getsid"),
    "kprobe_inside": ("kprobe:__arm64_sys_getsid+0x10", "getsid"),
    "tracepoint": ("syscalls:sys_enter_getsid", "getsid"),
}
# In /a and in /b.
TIMES = {"write": (5000, 300), "call": (4000, 1234), "getsid": (3000, 777)}


@pytest.fixture(scope="module")
def one_by_one(exact):
    """All of them, counted side by side by one daemon, which has ended: (what they rose by, /api/v1/events)."""
    events = ", ".join(f"{label}={text}" for label, (text, _) in ONE_BY_ONE.items())
    daemon = Daemon(exact, config(f"events = {events.format(watched=symbol('watched'))}\nalone = yes",
                                  scope="cpu cgroup"))
    try:
        before = daemon.fresh()
        exact.load(*[f"join:{cgroup} {' '.join(f'{step}:{times[i]}' for step, times in TIMES.items())} leave read:100"
                     for i, cgroup in enumerate("ab")])
        return Delta(before, daemon.fresh()), daemon.json("/api/v1/events")["events"]
    finally:
        daemon.stop()


@pytest.mark.parametrize("label", ONE_BY_ONE)
def test_counted_one_by_one(one_by_one, label):
    delta, events = one_by_one
    states = [(event["state"], event["reason"]) for event in events if event["event"] == label]
    assert states == [("ok", None)] * 2, "per CPU and per cgroup"
    in_a, in_b = TIMES[ONE_BY_ONE[label][1]]
    assert delta.of(f"perf_cgroup_{label}_total", cgroup="/a") == in_a
    assert delta.of(f"perf_cgroup_{label}_total", cgroup="/b") == in_b
    assert delta.of(f"perf_cgroup_{label}_total", cgroup="/idle") == 0
    assert delta.of(f"perf_cpu_{label}_total", cpu="0") == in_a + in_b


def test_a_kprobe_on_nothing(guest, perfmond):
    daemon = perfmond(config("events = it=kprobe:no_such_function_anywhere", "events = cycles"))
    event = daemon.event("it")
    assert event["state"] == "unsupported" and "no such function" in event["reason"]
    assert "no_such_function_anywhere" in daemon.log
    assert daemon.event("cycles")["state"] == "ok"


def test_a_place_in_the_kernel(guest, perfmond):
    """By its name: a breakpoint for execution. The kernel steps over it, and where an interrupt comes first it is hit
    once more."""
    daemon = perfmond(config("events = calls=mem:__arm64_sys_getsid:x", scope="cpu cgroup", include="/a"))
    before = daemon.fresh()
    guest.load("join:a getsid:700 leave getsid:50")
    delta = Delta(before, daemon.fresh())
    assert 700 <= delta.of("perf_cgroup_calls_total", cgroup="/a") < 720
    assert 750 <= delta.of("perf_cpu_calls_total", cpu="0") < 770


def test_reads_and_writes(guest, perfmond):
    """A breakpoint for both beside one for writes, in a group."""
    address = f"mem:{symbol('watched'):#x}"
    daemon = perfmond(config(f"events = both={address}/4:rw, writes={address}/4:w", scope="cgroup", include="/a"))
    before = daemon.fresh()
    guest.load("join:a write:1000 read:500 leave")
    delta = Delta(before, daemon.fresh())
    assert delta.of("perf_cgroup_writes_total", cgroup="/a") == 1000
    assert delta.of("perf_cgroup_both_total", cgroup="/a") == 1500
