# SPDX-License-Identifier: MIT
"""Profiles in the guest, whose counts are known, on the kernel of Debian 12, which is older than many fields."""

from guests import Daemon, as_nobody
from harness import Delta, until
from test_events import symbol
from test_suspend import uptime

CONFIG = """
[cpu]
groups =
[cgroup]
groups =
[profiles]
enabled = yes
{sections}
"""

PERIOD = 1000000

EVENTS = f"""
[profile "instructions"]
event = instructions:u
period = {PERIOD}
[profile "calls"]
event = syscalls:sys_enter_getsid
period = 1
[profile "writes"]
event = mem:{{watched:#x}}/4:w
period = 10
"""


def top(daemon, event, by="command", **parameters):
    query = "".join(f"&{name}={value}" for name, value in {"from": "-1h", **parameters}.items())
    return daemon.json(f"/api/v1/profile/top?event={event}&by={by}{query}")


def settled(daemon, event, **parameters):
    """The answer, when the last samples of the load are in it."""
    def same():
        before, after = top(daemon, event, **parameters), top(daemon, event, **parameters)
        return after if after["total"] == before["total"] > 0 else None
    return until(same, f"samples of {event}", timeout=60)


def test_samples_by_overflow(guest, perfmond):
    """The PMU makes a sample after each million of instructions, and tracepoints and breakpoints after each of
    theirs: as many as there must be, in the cgroup and the command that did it."""
    # The loads keep the profiler off the only CPU for as long as a ring of the clock's copies lasts, 12 samples.
    sections = "stack_bytes = 0\n" + EVENTS.format(watched=symbol("watched"))
    daemon = perfmond(CONFIG.format(sections=sections))
    # Nothing else runs meanwhile, such as the daemon's children: which of two at once is met by a sample is chance.
    guest.load("alone join:a instructions:30000000 getsid:300 write:200 leave")
    guest.load("alone join:b instructions:10000000 getsid:100 leave")

    for cgroup, millions in (("/a", 30), ("/b", 10)):
        answer = settled(daemon, "instructions", cgroup=cgroup)
        # A CPU's counter goes on from one cgroup to the next.
        assert abs(answer["samples"] - millions) <= 1, answer
        assert answer["total"] == answer["samples"] * PERIOD and answer["period"] == PERIOD
        assert [row["name"] for row in answer["rows"]] == ["load"]
    for cgroup, calls in (("/a", 300), ("/b", 100)):
        assert settled(daemon, "calls", cgroup=cgroup)["total"] == calls
    writes = settled(daemon, "writes", cgroup="/a")
    assert writes["total"] in (190, 200, 210) and writes["samples"] * 10 == writes["total"]
    assert daemon.fresh().value("perfmond_profile_lost_total") == 0
    assert not [problem for problem in daemon.json("/api/v1/status")["problems"] if "profile" in problem]


def set_limits(guest, **values):
    for name, value in values.items():
        guest.run(f"echo {value} >/proc/sys/kernel/perf_event_{name}")


def test_rate_and_limits(guest, perfmond):
    """A rate that the kernel does not allow any more is lowered, which is said; and so are rings without memory."""
    set_limits(guest, paranoid=2, max_sample_rate=50, mlock_kb=150)
    try:
        sections = 'rate = 99\n[profile "switches"]\nevent = context-switches\nperiod = 1\n'
        daemon = perfmond(CONFIG.format(sections=sections), environment="ulimit -l 0; " + as_nobody("perfmon"))
        problems = " ".join(daemon.json("/api/v1/status")["problems"])
        assert "cpu-clock is sampled at 50 Hz" in problems
        assert "perf_event_mlock_kb" in problems
        # It is null where samples differ: those after a pause weigh more, which the kernel makes at its own limit.
        period = top(daemon, "cpu-clock")["period"]
        assert period is None or abs(period - 0.02) < 1e-9
        guest.load("join:a cpu:500 leave")
        assert settled(daemon, "cpu-clock", cgroup="/a")["samples"] >= 5
    finally:
        set_limits(guest, paranoid=3, max_sample_rate=100000, mlock_kb=516)


def test_cpu_goes_and_comes(pair):
    """A CPU that was offline is sampled again when it is back, and the gap of opening anew is told."""
    daemon = Daemon(pair, CONFIG.format(sections=""))
    try:
        begun = uptime(daemon)
        pair.run("echo 0 >/sys/devices/system/cpu/cpu1/online")
        gap = until(lambda: daemon.fresh().value("perfmond_profile_gap_seconds_total"), "a sampler without it", 60)
        # Before a CPU is left out, samples are taken a second before at most.
        assert 0 < gap < uptime(daemon) - begun + 1
        pair.run("echo 1 >/sys/devices/system/cpu/cpu1/online")
        until(lambda: daemon.fresh().value("perfmond_profile_gap_seconds_total") > gap, "a sampler with it", 60)

        def some():
            # A CPU of the guest that the host does not run for a while is met by one sample for all of that time.
            pair.run("load pin:1 join:b cpu:1000 leave")
            answer = top(daemon, "cpu-clock", cgroup="/b")
            return answer if answer["samples"] >= 5 else None

        answer = until(some, "samples of the CPU that is back", 60)
        assert 0 < answer["gap_seconds"] < uptime(daemon) - begun + 1
        assert answer["since"] <= answer["from"] < answer["to"]
    finally:
        pair.run("echo 1 >/sys/devices/system/cpu/cpu1/online")
        daemon.stop()


FAULTS = """
[cpu]
groups =
[cgroup]
groups = faults
include = /a /b
[group "faults"]
events = page-faults
[profiles]
rate = 19
[profile "faults"]
event = page-faults
period = 1
"""


def test_each_page_fault(guest, perfmond):
    """With a period of 1 a cgroup has as many samples as its counter says. All that run make page faults, those by
    which a program starts at once: where rings have no room for them, as in an emulated machine, that is told."""
    daemon = perfmond(FAULTS)
    before = daemon.fresh()
    # Sleeping takes no time, and the daemon reads what was before.
    guest.run("sleep 5; load join:a touch:100 leave; sleep 5; load join:b touch:50 leave; sleep 5")
    after = daemon.fresh()
    for cgroup, pages in (("/a", 100), ("/b", 50)):
        counted = Delta(before, after).of("perf_cgroup_page_faults_total", cgroup=cgroup)
        assert counted >= pages
        assert top(daemon, "faults", cgroup=cgroup)["total"] == counted
    # So many at once fill a ring ten times.
    guest.run("sleep 5; load join:b touch:5000 leave; sleep 5")
    delta = Delta(after, daemon.fresh())
    counted, lost = delta.of("perf_cgroup_page_faults_total", cgroup="/b"), delta.of("perfmond_profile_lost_total")
    taken = Delta(before, after).of("perf_cgroup_page_faults_total", cgroup="/b")
    taken = top(daemon, "faults", cgroup="/b")["total"] - taken
    assert counted >= 5000 and taken < counted <= taken + lost
