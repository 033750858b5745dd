# SPDX-License-Identifier: MIT
"""Instructions and cycles of work of known size are counted exactly."""

import pytest

from guests import CYCLES, config
from harness import Delta

MILLION = 1000000

# Of the load itself: its way out of the system call by which it joins, and into the one by which it leaves.
WAY = 100
# What it executes outside of its cgroup, after it has left and until it has ended.
END = 1000

USER = "events = cycles:u, instructions:u"
ALL = "events = cycles, cycles:u, cycles:k, instructions, instructions:u, instructions:k"


def test_cgroups_side_by_side(guest, perfmond):
    daemon = perfmond(config(USER, scope="cgroup"))

    before = daemon.fresh()
    guest.load("join:a instructions:80000000 leave", "join:b instructions:40000000 leave")
    delta = Delta(before, daemon.fresh())

    for cgroup, work in (("/a", 80 * MILLION), ("/b", 40 * MILLION)):
        instructions = delta.of("perf_cgroup_instructions_user_total", cgroup=cgroup)
        assert work <= instructions <= work + WAY
        assert delta.of("perf_cgroup_cycles_user_total", cgroup=cgroup) == instructions * CYCLES
    assert delta.after.value("perf_cgroup_instructions_user_total", cgroup="/idle") == 0
    assert delta.after.value("perf_cgroup_cycles_user_total", cgroup="/idle") == 0
    assert [delta.after.state(event, "cgroup") for event in ("cycles_user", "instructions_user")] == ["ok", "ok"]


def test_a_cpu(guest, perfmond):
    """All processes of the guest but the load are in /rest: what the CPU counts beyond that is the load's. The engine
    bpf reads cgroups before CPUs, and what the daemon executes in between counts in /rest at the next reading."""
    daemon = perfmond(config(USER, scope="cpu cgroup", include="/ /rest", engine="perf"))

    before = daemon.fresh()
    guest.load("join:a instructions:10000000 leave")
    delta = Delta(before, daemon.fresh())

    for event, each in (("instructions_user", 1), ("cycles_user", CYCLES)):
        cpu = delta.of(f"perf_cpu_{event}_total", cpu="0")
        rest = delta.of(f"perf_cgroup_{event}_total", cgroup="/rest")
        assert 10 * MILLION * each <= cpu - rest <= (10 * MILLION + WAY + END) * each
        assert delta.of(f"perf_cgroup_{event}_total", cgroup="/") == cpu, "all processes"
    enabled = delta.of("perf_cpu_group_enabled_seconds_total", cpu="0", group="g0")
    assert delta.of("perf_cpu_group_running_seconds_total", cpu="0", group="g0") == enabled, "nothing shares the PMU"


@pytest.mark.parametrize("work, user_share", [("instructions:100000000", (0.9, 1)), ("getsid:20000", (0.01, 0.5))])
def test_user_and_kernel_make_up_all(guest, perfmond, work, user_share):
    daemon = perfmond(config(ALL, scope="cgroup"))

    before = daemon.fresh()
    guest.load(f"join:a {work} leave")
    delta = Delta(before, daemon.fresh())

    for event in ("cycles", "instructions"):
        everything, user, kernel = (delta.of(f"perf_cgroup_{event}{which}_total", cgroup="/a")
                                    for which in ("", "_user", "_kernel"))
        # The three begin and end one after the other.
        assert user + kernel == pytest.approx(everything, rel=0.0001)
        assert user_share[0] <= user / everything <= user_share[1]
        assert kernel > 0


def test_system_calls_one_by_one(guest, perfmond):
    """The loop around each is a handful of instructions in user mode, the same for each."""
    daemon = perfmond(config(ALL, scope="cgroup"))

    first = daemon.fresh()
    guest.load("join:a getsid:1000 leave")
    second = daemon.fresh()
    guest.load("join:a getsid:3000 leave")
    third = daemon.fresh()

    user, kernel = (Delta(second, third).of(metric, cgroup="/a") - Delta(first, second).of(metric, cgroup="/a")
                    for metric in ("perf_cgroup_instructions_user_total", "perf_cgroup_instructions_kernel_total"))
    assert user % 2000 == 0 and 5 <= user / 2000 <= 50
    assert kernel > user


def test_the_pmu_in_sysfs_is_the_generic_one(guest, perfmond):
    """The same two events, under their generic names and as the PMU names them."""
    name = guest.run("basename /sys/bus/event_source/devices/armv8_pmuv3*").strip()
    daemon = perfmond(config(f"events = cycles:u, cpu_cycles={name}/cpu_cycles/u, instructions:u, "
                             f"inst_retired={name}/inst_retired/u, by_number={name}/event=0x8/u", scope="cgroup"))

    before = daemon.fresh()
    guest.load("join:a instructions:10000000 leave")
    delta = Delta(before, daemon.fresh())

    counts = {event: delta.of(f"perf_cgroup_{event}_total", cgroup="/a")
              for event in ("cycles_user", "cpu_cycles", "instructions_user", "inst_retired", "by_number")}
    assert 10 * MILLION <= counts["inst_retired"] <= 10 * MILLION + WAY
    assert counts["inst_retired"] == counts["by_number"] == counts["instructions_user"]
    assert counts["cpu_cycles"] == counts["cycles_user"]
    encoding = daemon.event("by_number", "cgroup")["encoding"]
    kind = int(guest.read(f"/sys/bus/event_source/devices/{name}/type"))
    assert encoding["type"] == kind and encoding["config"] == "0x8" and encoding["exclude_kernel"]


def test_ratios_and_rates(guest, perfmond):
    """While it works, an interval of the CPU is nothing but that: so many instructions a second, and a cycle."""
    daemon = perfmond(config("events = cycles, instructions", interval="500ms"))

    row = daemon.json("/api/v1/snapshot?scope=cpu", first="load cpu:3000 &\nsleep 2")["cpus"][0]
    guest.run("sleep 2")

    assert row["derived"]["ipc"] == pytest.approx(1 / CYCLES, rel=0.01)
    assert row["events"]["instructions"]["rate"] == pytest.approx(1e9 / CYCLES, rel=0.02)
    assert row["events"]["cycles"]["rate"] == pytest.approx(1e9, rel=0.02)
