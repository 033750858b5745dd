# SPDX-License-Identifier: MIT
"""Debian's own kernel, which from kernel.perf_event_paranoid 3 on, its default, wants CAP_SYS_ADMIN for every event:
what a user without it is told, and the two ways out."""

import re
from pathlib import Path

import pytest

from guests import CYCLES, as_nobody, config
from harness import Delta

SYSCTL = Path(__file__).parents[2] / "conf/sysctl.d/60-perfmond.conf"
LEVEL = "/proc/sys/kernel/perf_event_paranoid"
MILLION = 1000000
# As in test_counting.py: the load's way into its cgroup and out of it.
WAY = 100
PERFMON, SYS_ADMIN = 1 << 38, 1 << 21
CONFIG = config("events = cycles:u, instructions:u", "events = page-faults, context-switches", scope="cpu cgroup",
                include="/a /b /new", interval="200ms")


@pytest.fixture
def level(guest):
    """Sets the level; the kernel's default is in force before and after."""
    assert guest.read(LEVEL).strip() == "3", "Debian's default"
    yield lambda value: guest.run(f"echo {value} >{LEVEL}")
    guest.run(f"echo 3 >{LEVEL}")


@pytest.fixture
def new(guest):
    """Makes a cgroup."""
    yield lambda: guest.run("mkdir /sys/fs/cgroup/new")
    guest.run("rmdir /sys/fs/cgroup/new 2>/dev/null || true")


def assert_counts(guest, daemon):
    """All of it, and exactly."""
    assert {event["state"] for event in daemon.json("/api/v1/events")["events"]} == {"ok"}
    before = daemon.fresh()
    guest.load("join:a instructions:20000000 leave")
    delta = Delta(before, daemon.fresh())
    counted = delta.of("perf_cgroup_instructions_user_total", cgroup="/a")
    assert 20 * MILLION <= counted <= 20 * MILLION + WAY
    assert delta.of("perf_cgroup_cycles_user_total", cgroup="/a") == counted * CYCLES
    assert delta.of("perf_cpu_instructions_user_total", cpu="0") >= counted


def assert_says_why(text, paranoid):
    assert f"kernel.perf_event_paranoid is {paranoid}" in text and "wants CAP_SYS_ADMIN for every event" in text
    assert "60-perfmond.conf" in text and "sys-admin.conf" in text, "both ways out"
    assert "seccomp" not in text and "3 or less" not in text


def assert_counts_nothing(daemon, paranoid):
    events = daemon.json("/api/v1/events")["events"]
    assert {event["state"] for event in events} == {"denied"}
    for event in events:
        assert_says_why(event["reason"], paranoid)
    metrics = daemon.fresh()
    assert {metrics.state(name, scope) for name in ("cycles_user", "page_faults") for scope in ("cpu", "cgroup")} == \
        {"denied"}
    assert not [key for key in metrics.samples if key[0].startswith(("perf_cpu_", "perf_cgroup_")) and
                key[0].endswith("_total")], "absent, not 0"
    status = daemon.json("/api/v1/status")
    assert_says_why(status["problems"][0], paranoid)
    assert status["privileges"] == {"perf_event_paranoid": paranoid, "capabilities": ["CAP_PERFMON"],
                                    "raises_sys_admin": False, "kernel_wants_sys_admin": True, "may_count_cpus": False}
    assert_says_why(re.search("counting nothing: .*", daemon.log)[0], paranoid)
    assert_says_why(re.search("per CPU, denied: .*", daemon.log)[0], paranoid)


def capabilities(guest):
    """The sets of each of its threads, but for those that end meanwhile."""
    threads = guest.run("cat /proc/$(cat /tmp/perfmond.pid)/task/*/status; true")
    names = ("CapInh", "CapPrm", "CapEff", "CapAmb")
    return {name: {int(value, 16) for value in re.findall(rf"^{name}:\s+(\w+)$", threads, re.M)} for name in names}


@pytest.mark.parametrize("paranoid", [3, 4])
def test_cap_perfmon_is_not_enough(guest, perfmond, level, paranoid):
    level(paranoid)
    daemon = perfmond(CONFIG, environment=as_nobody("perfmon"))
    assert_counts_nothing(daemon, paranoid)
    output, _, status = guest.run(f"{as_nobody('perfmon')} perfmond --config=/tmp/perfmond.conf --check; "
                                  "echo $?").rstrip("\n").rpartition("\n")
    assert status == "2"
    assert f"privileges: kernel.perf_event_paranoid is {paranoid}, CAP_PERFMON: yes, CAP_SYS_ADMIN: no, " \
        "which this kernel wants for every event: may NOT count whole CPUs\n" in output
    assert_says_why(re.search(r"^\[1\] .*", output, re.M)[0], paranoid)


def test_without_any_capability(guest, perfmond, level):
    """To set the level is not enough then, and it says so."""
    daemon = perfmond(CONFIG, environment=as_nobody())
    assert "set it to 2 (60-perfmond.conf), which takes CAP_PERFMON as well" in daemon.event("page_faults")["reason"]
    level(2)
    guest.run("sleep 2")
    assert "give the process CAP_PERFMON" in daemon.event("page_faults")["reason"]
    assert not daemon.json("/api/v1/status")["privileges"]["kernel_wants_sys_admin"]


def test_the_sysctl_is_enough(guest, perfmond, level):
    """By the file among the examples."""
    guest.write("/tmp/60-perfmond.conf", SYSCTL.read_text(encoding="utf-8"))
    guest.run("sysctl -p /tmp/60-perfmond.conf")
    assert guest.read(LEVEL).strip() == "2"
    daemon = perfmond(CONFIG, environment=as_nobody("perfmon"))
    assert_counts(guest, daemon)
    assert daemon.json("/api/v1/status")["privileges"] == {
        "perf_event_paranoid": 2, "capabilities": ["CAP_PERFMON"], "raises_sys_admin": False,
        "kernel_wants_sys_admin": False, "may_count_cpus": True}


@pytest.mark.parametrize("how", ["by a reload", "by itself"])
def test_the_level_changes_while_it_runs(guest, perfmond, level, new, how):
    def notice(daemon):
        if how == "by a reload":
            daemon.reload(CONFIG)
        guest.run("sleep 2")

    daemon = perfmond(CONFIG, environment=as_nobody("perfmon"))
    assert_counts_nothing(daemon, 3)
    level(2)
    notice(daemon)
    assert_counts(guest, daemon)
    assert re.search("kernel.perf_event_paranoid is now 2" if how == "by itself" else "reloaded", daemon.log)
    assert daemon.json("/api/v1/status")["privileges"]["may_count_cpus"]

    # What is open goes on, without a gap, and what is new says rightly why it is not counted.
    before = daemon.fresh()
    guest.load("join:a instructions:10000000 leave")
    level(3)
    notice(daemon)
    new()
    guest.run("sleep 2")
    assert_counts(guest, daemon)
    counted = Delta(before, daemon.fresh()).of("perf_cgroup_instructions_user_total", cgroup="/a")
    assert 30 * MILLION <= counted <= 30 * MILLION + 2 * WAY
    cgroup = next(c for c in daemon.json("/api/v1/cgroups")["cgroups"] if c["cgroup"] == "/new")
    assert cgroup["status"] == "failed"
    assert_says_why(cgroup["reason"], 3)
    assert_says_why(daemon.json("/api/v1/status")["problems"][0], 3)
    assert_says_why(re.search("open events go on counting, and no new ones can be opened: .*", daemon.log)[0], 3)

    level(2)
    notice(daemon)
    counted = {c["cgroup"]: c["status"] for c in daemon.json("/api/v1/cgroups")["cgroups"]}
    assert counted["/new"] == "counted"
    assert_counts(guest, daemon)


@pytest.mark.parametrize("caps", [("perfmon", "sys_admin"), ("sys_admin",)], ids="+".join)
@pytest.mark.parametrize("paranoid", [3, 4])
def test_the_drop_in_is_enough(guest, perfmond, level, new, caps, paranoid):
    """CAP_SYS_ADMIN is there for what needs it, and is in force for nothing else."""
    in_force = PERFMON if "perfmon" in caps else 0
    sets = {"CapInh": {in_force}, "CapPrm": {in_force | SYS_ADMIN}, "CapEff": {in_force}, "CapAmb": {in_force}}

    level(paranoid)
    daemon = perfmond(CONFIG, environment=as_nobody(*caps))
    assert capabilities(guest) == sets
    assert_counts(guest, daemon)
    new()
    guest.run("sleep 1")
    assert "/new" in {c["cgroup"] for c in daemon.json("/api/v1/cgroups")["cgroups"] if c["status"] == "counted"}
    daemon.reload(CONFIG)
    assert_counts(guest, daemon)
    assert capabilities(guest) == sets
    assert daemon.json("/api/v1/status")["privileges"] == {
        "perf_event_paranoid": paranoid, "capabilities": ["CAP_PERFMON"] if in_force else [],
        "raises_sys_admin": True, "kernel_wants_sys_admin": True, "may_count_cpus": True}
    check = guest.run(f"{as_nobody(*caps)} perfmond --config=/tmp/perfmond.conf --check")
    assert "CAP_SYS_ADMIN: raised for what needs it, which this kernel wants for every event: may count" in check


def test_root_has_it_in_force_for_nothing_either(guest, perfmond, level):
    """All that root does goes without: CPUs, cgroups, tracepoints, kprobes, breakpoints."""
    daemon = perfmond(config("events = cycles:u, instructions:u",
                             "alone = yes\nevents = sched:sched_switch, kprobe:__arm64_sys_getsid",
                             scope="cpu cgroup", include="/a /b", interval="200ms"))
    sets = capabilities(guest)
    assert all(not value & SYS_ADMIN for name in ("CapEff", "CapAmb") for value in sets[name])
    assert all(value & SYS_ADMIN for value in sets["CapPrm"])
    assert_counts(guest, daemon)
