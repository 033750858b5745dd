# SPDX-License-Identifier: MIT
"""Breakpoints, probes and filtered tracepoints on this machine's kernel: each has to count exactly what the helper
does.

Nobody else writes the helper's variable or runs its function, so that these are exact per CPU as well. Most tests share
a daemon with all probes, or all filters; breakpoints, of which a CPU has four, are each test's own.
"""

import contextlib
import itertools
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from counter import Breakpoints
from harness import WORK, online_cpus, run
from machine import TAKEN_AWAY, needs, require, why_lacks

NUMBERS = itertools.count()


def config(top, events, more=""):
    return f"""
[cpu]
groups = probes
[cgroup]
groups = probes
include = {top.label}/**
[group "probes"]
alone = yes
events = {events}
{more}"""


def reasons(daemon, name):
    return [event["reason"] for event in daemon.json("/api/v1/events")["events"] if event["event"] == name]


class Counted:
    """What a counter rose by since this was made: on all CPUs, and in cgroups."""

    def __init__(self, daemon, event):
        self.daemon, self.event = daemon, event
        self.before = daemon.fresh()
        for scope in ("cpu", "cgroup"):
            assert self.before.state(event, scope) == "ok", reasons(daemon, event)

    def _total(self, metrics, kind, **labels):
        found = metrics.all(f"perf_{kind}_{self.event}_total", **labels)
        assert found, f"no perf_{kind}_{self.event}_total {labels}"
        return sum(value for _, value in found)

    def now(self, *cgroups):
        """(on all CPUs, in each of the cgroups…)"""
        after = self.daemon.fresh()
        kinds = [("cpu", {})] + [("cgroup", {"cgroup": cgroup.label}) for cgroup in cgroups]
        return tuple(self._total(after, kind, **labels) - self._total(self.before, kind, **labels)
                     for kind, labels in kinds)


def kernel_symbol(pattern):
    """The name in kallsyms that matches, and its address."""
    found = re.search(rf"^([0-9a-f]+) \w ({pattern})$", Path("/proc/kallsyms").read_text(), re.M)
    return found[2], int(found[1], 16)


# --- breakpoints

def count_writes(perfmond, cgroups, work, cpus, number):
    """After each of two rounds: what is counted on CPUs and in two cgroups, and how many traps the machine has shown.
    None where the helper was killed by a trap that is nobody's."""
    first, second = cgroups.make(f"first{number}"), cgroups.make(f"second{number}")
    helper = work(first, cpus[0])
    address = helper.do("watched")
    daemon = perfmond(config(cgroups, f"writes=mem:{address:#x}/8:w"))
    shown = Breakpoints(address, 8, Breakpoints.WRITE)
    try:
        counted = Counted(daemon, "writes")
        helper.do("write 500")
        after_first = (*counted.now(first, second), shown.read())
        second.add(helper.process.pid)
        helper.do(f"pin {cpus[-1]}")
        helper.do("write 1000")
        return after_first, (*counted.now(first, second), shown.read())
    except AssertionError:
        # It closes its files before its end is seen.
        with contextlib.suppress(subprocess.TimeoutExpired):
            helper.process.wait(5)
        if helper.process.poll() != -signal.SIGTRAP:
            raise
        # Each cgroup takes a breakpoint, of which a CPU has four.
        first.remove()
        second.remove()
        return None
    finally:
        shown.close()
        daemon.stop()


@pytest.mark.usefixtures("debug_registers")
def test_a_breakpoint_is_exact(perfmond, cgroups, work, cpus):
    """1,500 writes of a variable in all, 500 of them in one cgroup, by one process that moves. That a trap kills the
    program, as the kernel does where it is nobody's, is tried again; what is counted has to be exactly what this
    machine shows of it."""
    seen = None
    for number in range(5):
        seen = seen or count_writes(perfmond, cgroups, work, cpus, number)
    (_, _, _, shown), (_, _, _, all_shown) = seen
    assert 450 <= shown <= 500 and 900 <= all_shown - shown <= 1000
    assert seen == ((shown, shown, 0, shown), (all_shown, shown, all_shown - shown, all_shown))


@needs("kernel-variables")
@pytest.mark.usefixtures("debug_registers")
def test_a_variable_of_the_kernel_is_exact(perfmond, cgroups, work):
    """Reading a byte of the kernel's BTF copies it from where the symbol says."""
    symbol, address = kernel_symbol("__start_BTF")
    group, other = cgroups.make("reading"), cgroups.make("other")
    helper, noise = work(group), work(other)
    daemon = perfmond(config(cgroups, f"mem:{symbol}/1:rw:k"))
    shown = Breakpoints(address, 1, Breakpoints.READ_WRITE)

    counted = Counted(daemon, f"mem_{symbol.lower()}_1_rw_kernel")
    begin = shown.read()
    helper.do("btf 321")
    in_group = shown.read()
    noise.do("btf 45")
    noise.do("getppid 1000")
    in_other = shown.read()
    on_cpus, *in_cgroups = counted.now(group, other)
    shown.close()
    # Others may read it too.
    lost = [max(0, wanted - seen) for wanted, seen in ((321, in_group - begin), (45, in_other - in_group))]
    assert in_cgroups == [321 - lost[0], 45 - lost[1]] and sum(lost) <= 36
    assert on_cpus >= sum(in_cgroups)


@pytest.mark.parametrize("access", ["w", "rw", "x"])
@pytest.mark.usefixtures("turn_of_debug_registers")
def test_a_breakpoint_is_not_ok_where_it_never_fires(perfmond, cgroups, access):
    """On this machine they fire, or the daemon says that they never do, and shows no total, in --check too."""
    text = f"mem:0x7ff000000000{'' if access == 'x' else '/8'}:{access}"
    daemon = perfmond(config(cgroups, f"odd={text}, page-faults"))
    metrics = daemon.fresh()
    fires = why_lacks("breakpoint") in (None, TAKEN_AWAY)
    assert metrics.state("odd") == metrics.state("odd", "cgroup") == ("ok" if fires else "never_fires")
    assert bool(metrics.all("perf_cpu_odd_total")) == fires
    assert metrics.state("page_faults") == "ok"
    checked = run("--check", f"--config={daemon.config_path}").stdout
    assert re.search(rf"{re.escape(text)} +{'ok' if fires else 'never_fires'}", checked), checked
    assert fires or all("was not counted" in reason for reason in reasons(daemon, "odd"))


@pytest.mark.usefixtures("debug_registers")
def test_a_breakpoint_that_the_kernel_refuses_says_why(perfmond, cgroups):
    """An address that is not aligned to the length; the event beside it is counted."""
    daemon = perfmond(config(cgroups, "odd=mem:0x1001/8:w, page-faults"))
    assert daemon.fresh().state("odd") == "failed"
    assert daemon.fresh().state("page_faults") == "ok"
    assert all("EINVAL" in reason and "aligned" in reason for reason in reasons(daemon, "odd"))


@needs("uprobe")
@pytest.mark.usefixtures("debug_registers")
def test_a_probe_joins_a_group(perfmond, cgroups, work, tracefs):
    """Read together with software events and a tracepoint, as one group of the kernel's."""
    group = cgroups.make("working")
    helper = work(group)
    events = f"faults=page-faults, probed=uprobe:{WORK}:probed, writes=mem:{helper.do('watched'):#x}/8:w, " \
             "calls=syscalls:sys_enter_getppid"
    daemon = perfmond(config(cgroups, events).replace("alone = yes", ""))

    for command in ("probed 1", "write 1"):
        helper.do(command)
    counted = [Counted(daemon, name) for name in ("faults", "probed", "writes", "calls")]
    for command in ("faults 11", "probed 22", "write 33", "getppid 44"):
        helper.do(command)
    assert [each.now(group)[1] for each in counted] == [11, 22, 33, 44]


# --- uprobes and kprobes

def libc_of(pid):
    """The path of the C library that the process has mapped."""
    return re.search(r" (/\S*/libc[.-]\S*\.so\S*|/\S*/libc\.so\.\S+)$", Path(f"/proc/{pid}/maps").read_text(), re.M)[1]


class Shared:
    """A daemon that a file of tests counts with, a helper in the cgroup `calling`, and another in `other`."""

    def __init__(self, cgroups, work, cpus):
        self.top = cgroups.make(f"probes{next(NUMBERS)}")
        self.calling, self.other = self.top.make("calling"), self.top.make("other")
        self.helper, self.noise = work(self.calling, cpus[0]), work(self.other, cpus[-1])
        self.pid, self.daemon = self.helper.process.pid, None


# Probes that this machine can't have, and why: each takes down itself alone.
LACKING = {"no_file": ("/no/such/file:main", "/no/such/file: No such file or directory"),
           "no_program": ("/etc/passwd:main", "not an ELF program"),
           "no_function": (WORK + ":porbed", "did you mean 'probed'?")}


@pytest.fixture(scope="module")
def probes(shared_perfmond, shared_cgroups, shared_work):
    require("uprobe")
    made = Shared(shared_cgroups, shared_work, online_cpus())
    libc, (kernels, _) = libc_of(made.pid), kernel_symbol(r"__\w+_sys_getppid")
    made.daemon = shared_perfmond(config(made.top, f"""page-faults,
        uprobe:{libc}:getsid, libc_returned=uretprobe:{libc}:getsid,
        entered=uprobe:{WORK}:probed, returned=uretprobe:{WORK}:probed,
        mine=uprobe:{WORK}:probed/filter='common_pid == {made.pid}'/,
        kernel_entered=kprobe:{kernels}, kernel_returned=kretprobe:{kernels},
        """ + ", ".join(f"{name}=uprobe:{place}" for name, (place, _) in LACKING.items())))
    made.libc = "uprobe_" + re.sub(r"\W", "_", Path(libc).name) + "_getsid"
    return made


def test_a_uprobe_on_libc_is_exact(probes):
    """A function of the C library, called 777 times in one cgroup and not in the other."""
    entered, returned = Counted(probes.daemon, probes.libc), Counted(probes.daemon, "libc_returned")
    probes.helper.do("getsid 777")
    probes.noise.do("getppid 50")
    for counted in (entered, returned):
        on_cpus, in_calling, in_other = counted.now(probes.calling, probes.other)
        assert (in_calling, in_other) == (777, 0)
        assert on_cpus >= 777, "others may call it too"


def test_a_uprobe_on_a_program_is_exact_per_cpu(probes):
    """One with a filter by process too."""
    counted = {name: Counted(probes.daemon, name) for name in ("entered", "returned", "mine")}
    probes.helper.do("probed 1234")
    probes.noise.do("probed 66")
    seen = {name: one.now(probes.calling, probes.other) for name, one in counted.items()}
    assert seen == {"entered": (1300, 1234, 66), "returned": (1300, 1234, 66), "mine": (1234, 1234, 0)}


def test_a_probe_that_this_machine_lacks_says_why(probes):
    metrics = probes.daemon.fresh()
    assert metrics.state("page_faults") == "ok"
    for name, (_, part) in LACKING.items():
        assert metrics.state(name) == "unsupported"
        assert metrics.all(f"perf_cpu_{name}_total") == []
        assert all(part in reason for reason in reasons(probes.daemon, name))


def test_kprobes_are_exact_or_say_why_not(probes):
    if not why_lacks("kprobe"):
        counted = [Counted(probes.daemon, "kernel_entered"), Counted(probes.daemon, "kernel_returned")]
        probes.helper.do("getppid 99")
        assert [each.now(probes.calling)[1] for each in counted] == [99, 99]
        return
    metrics = probes.daemon.fresh()
    assert metrics.state("kernel_entered") == metrics.state("kernel_returned") == "unsupported"
    assert "this kernel has no kprobes (CONFIG_KPROBE_EVENTS)" in reasons(probes.daemon, "kernel_entered")[0]


@needs("uprobe")
def test_a_reload_probes_a_file_that_was_upgraded(perfmond, cgroups, work, tmp_path):
    """The kernel's probe stays with the old file."""
    group, other = cgroups.make("old"), cgroups.make("new")
    program = tmp_path / "with, comma"
    shutil.copy(WORK, program)
    text = config(cgroups, f"probed=uprobe:'{program}':probed, page-faults") + "[web]\nlisten = 127.0.0.1:0\n"
    old = work(group, program=program)
    daemon = perfmond(text)

    counted = Counted(daemon, "probed")
    old.do("probed 10")
    assert counted.now(group) == (10, 10)
    shutil.copy(WORK, tmp_path / "new")
    (tmp_path / "new").rename(program)
    new = work(other, program=program)
    daemon.reload(text)
    new.do("probed 20")
    assert counted.now(other)[1] == 20
    assert daemon.fresh().state("probed") == "ok"


# --- filters

@pytest.fixture(scope="module")
def filters(tracefs, shared_perfmond, shared_cgroups, shared_work):
    made = Shared(shared_cgroups, shared_work, online_cpus())
    made.helper.fork()
    getsid = "syscalls:sys_enter_getsid"
    made.daemon = shared_perfmond(config(made.top, f"""all={getsid}, half={getsid}/filter='pid == 1'/,
        mine={getsid}/filter='common_pid == {made.pid} && (pid == 0 || pid == 1)'/,
        none={getsid}/filter='pid > 1'/, broken={getsid}/filter='no_such_field == 1'/,
        from=sched:sched_switch/filter='prev_comm == "work"'/, to=sched:sched_switch/filter='prev_comm == "a, b/c"'/,
        every=sched:sched_switch"""))
    return made


def test_a_filter_is_exact(filters):
    """Half of the calls match; with the process's id in it, the filter is exact per CPU as well."""
    inside = filters.calling, filters.other
    counted = {name: Counted(filters.daemon, name) for name in ("all", "half", "mine", "none")}
    filters.helper.do("getsid 100")
    filters.noise.do("getsid 10")
    seen = {name: one.now(*inside) for name, one in counted.items()}
    assert {name: cgroups for name, (_, *cgroups) in seen.items()} == \
        {"all": [100, 10], "half": [50, 5], "mine": [100, 0], "none": [0, 0]}
    assert seen["mine"][0] == 100


def test_a_filter_can_have_a_string(filters):
    """Quotes inside of quotes, commas and slashes, through the config to the kernel."""
    counted = [Counted(filters.daemon, name) for name in ("from", "to", "every")]
    filters.helper.do("switches 1000")
    from_work, to_odd, every = [each.now(filters.calling)[1] for each in counted]
    assert 2000 <= from_work <= every and to_odd == 0


def test_a_filter_that_the_kernel_refuses_says_so(filters):
    """The other events are counted, as the tests before have seen."""
    assert filters.daemon.fresh().state("broken") == "failed"
    assert all("filter" in reason for reason in reasons(filters.daemon, "broken"))
    assert filters.daemon.fresh().all("perf_cpu_broken_total") == []
    assert filters.daemon.fresh().state("all") == "ok"


def test_an_event_with_another_filter_is_another_event(perfmond, cgroups, work, tracefs):
    """Also under the same name, after a reload."""
    group = cgroups.make("calling")
    helper = work(group)
    text = config(cgroups, "calls=syscalls:sys_enter_getsid/filter='pid == 0'/") + "[web]\nlisten = 127.0.0.1:0\n"
    daemon = perfmond(text)

    helper.do("getsid 100")
    daemon.reload(text.replace("pid == 0", "pid == 7"))
    counted = Counted(daemon, "calls")
    helper.do("getsid 100")
    assert counted.now(group)[1] == 0


def test_events_that_this_machine_has_are_listed(privileged):
    lines = run("--list-events").stdout.splitlines()
    for pmu, form in (("breakpoint", "mem:ADDRESS"), ("uprobe", "uprobe:/FILE:FUNCTION"),
                      ("kprobe", "kprobe:FUNCTION")):
        there = Path("/sys/bus/event_source/devices", pmu).exists()
        assert any(line.startswith(form) for line in lines) == there
