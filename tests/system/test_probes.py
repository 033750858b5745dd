# SPDX-License-Identifier: MIT
"""Breakpoints, probes and filtered tracepoints on this machine's kernel: each has to count exactly what the helper
does.

Nobody else writes the helper's variable or runs its function, so that these are exact per CPU as well.
"""

import contextlib
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from counter import Breakpoints
from harness import WORK, run

PMUS = Path("/sys/bus/event_source/devices")


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


def needs_pmu(name):
    if not (PMUS / name).exists():
        pytest.skip(f"this kernel has no PMU '{name}'")


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
    """The name in kallsyms that matches, and its address; or a skip."""
    found = re.search(rf"^([0-9a-f]+) \w ({pattern})$", Path("/proc/kallsyms").read_text(), re.M)
    if not found:
        pytest.skip(f"/proc/kallsyms has no symbol {pattern} (a kernel without CONFIG_KALLSYMS_ALL has no variables)")
    if int(found[1], 16) == 0:
        pytest.skip("/proc/kallsyms shows no addresses (kernel.kptr_restrict)")
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
    needs_pmu("breakpoint")
    seen = None
    for number in range(5):
        seen = seen or count_writes(perfmond, cgroups, work, cpus, number)
    (_, _, _, shown), (_, _, _, all_shown) = seen
    assert 450 <= shown <= 500 and 900 <= all_shown - shown <= 1000
    assert seen == ((shown, shown, 0, shown), (all_shown, shown, all_shown - shown, all_shown))


@pytest.mark.usefixtures("debug_registers")
def test_a_variable_of_the_kernel_is_exact(perfmond, cgroups, work):
    """Reading a byte of the kernel's BTF copies it from where the symbol says."""
    needs_pmu("breakpoint")
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


@pytest.mark.usefixtures("debug_registers")
def test_a_breakpoint_the_cpu_has_not(perfmond, cgroups):
    """An address that is not aligned to the length: the kernel refuses, and what stands beside it is counted."""
    needs_pmu("breakpoint")
    daemon = perfmond(config(cgroups, "odd=mem:0x1001/8:w, page-faults"))
    assert daemon.fresh().state("odd") == "failed"
    assert daemon.fresh().state("page_faults") == "ok"
    assert all("EINVAL" in reason and "aligned" in reason for reason in reasons(daemon, "odd"))


# --- uprobes

def libc_of(pid):
    """The path of the C library that the process has mapped."""
    found = re.search(r" (/\S*/libc[.-]\S*\.so\S*|/\S*/libc\.so\.\S+)$", Path(f"/proc/{pid}/maps").read_text(), re.M)
    if not found:
        pytest.skip("the helper has no shared C library")
    return found[1]


def test_a_uprobe_on_libc_is_exact(perfmond, cgroups, work):
    """A function of the C library, called 777 times in one cgroup and not in the other."""
    needs_pmu("uprobe")
    calling, other = cgroups.make("calling"), cgroups.make("other")
    helper, noise = work(calling), work(other)
    libc = libc_of(helper.process.pid)
    daemon = perfmond(config(cgroups, f"uprobe:{libc}:getsid, returned=uretprobe:{libc}:getsid"))

    name = "uprobe_" + re.sub(r"\W", "_", Path(libc).name) + "_getsid"
    entered, returned = Counted(daemon, name), Counted(daemon, "returned")
    helper.do("getsid 777")
    noise.do("getppid 50")
    for counted in (entered, returned):
        on_cpus, in_calling, in_other = counted.now(calling, other)
        assert (in_calling, in_other) == (777, 0)
        assert on_cpus >= 777, "others may call it too"


def test_a_uprobe_on_a_program_is_exact_per_cpu(perfmond, cgroups, work, cpus):
    needs_pmu("uprobe")
    first, second = cgroups.make("first"), cgroups.make("second")
    helper, partner = work(first, cpus[0]), work(second, cpus[-1])
    daemon = perfmond(config(cgroups, f"entered=uprobe:{WORK}:probed, returned=uretprobe:{WORK}:probed"))

    entered, returned = Counted(daemon, "entered"), Counted(daemon, "returned")
    helper.do("probed 1234")
    partner.do("probed 66")
    assert entered.now(first, second) == (1300, 1234, 66)
    assert returned.now(first, second) == (1300, 1234, 66)


@pytest.mark.usefixtures("debug_registers")
def test_a_probe_joins_a_group(perfmond, cgroups, work, tracefs):
    """Read together with software events and a tracepoint, as one group of the kernel's."""
    needs_pmu("uprobe")
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


def test_a_file_that_was_upgraded(perfmond, cgroups, work, tmp_path):
    """The kernel's probe stays with the old file; a reload puts one into the new."""
    needs_pmu("uprobe")
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


@pytest.mark.parametrize("place, part", [
    ("/no/such/file:main", "/no/such/file: No such file or directory"),
    ("/etc/passwd:main", "not an ELF program"),
    (WORK + ":porbed", "did you mean 'probed'?"),
])
def test_a_probe_this_machine_lacks(perfmond, cgroups, place, part):
    """It takes down itself alone."""
    daemon = perfmond(config(cgroups, f"lacking=uprobe:{place}, page-faults"))
    metrics = daemon.fresh()
    assert metrics.state("lacking") == "unsupported" and metrics.state("page_faults") == "ok"
    assert metrics.all("perf_cpu_lacking_total") == []
    assert all(part in reason for reason in reasons(daemon, "lacking"))


# --- kprobes

def test_kprobes(perfmond, cgroups, work):
    """Exact where the kernel has them; where it has not, the event says so."""
    group = cgroups.make("calling")
    helper = work(group)
    symbol, _ = kernel_symbol(r"__\w+_sys_getppid")
    daemon = perfmond(config(cgroups, f"entered=kprobe:{symbol}, returned=kretprobe:{symbol}, page-faults"))

    if (PMUS / "kprobe").exists():
        counted = [Counted(daemon, "entered"), Counted(daemon, "returned")]
        helper.do("getppid 99")
        assert [each.now(group)[1] for each in counted] == [99, 99]
    else:
        assert daemon.fresh().state("entered") == daemon.fresh().state("returned") == "unsupported"
        assert "this kernel has no kprobes (CONFIG_KPROBE_EVENTS)" in reasons(daemon, "entered")[0]
    assert daemon.fresh().state("page_faults") == "ok"


# --- filters

def test_a_filter_is_exact(perfmond, cgroups, work, tracefs):
    """Half of the calls match; with the process's id in it, the filter is exact per CPU as well."""
    group = cgroups.make("calling")
    helper, noise = work(group), work(group)
    pid = helper.process.pid
    events = f"""all=syscalls:sys_enter_getsid, half=syscalls:sys_enter_getsid/filter='pid == 1'/,
	mine=syscalls:sys_enter_getsid/filter='common_pid == {pid} && (pid == 0 || pid == 1)'/,
	none=syscalls:sys_enter_getsid/filter='pid > 1'/"""
    daemon = perfmond(config(cgroups, events))

    counted = {name: Counted(daemon, name) for name in ("all", "half", "mine", "none")}
    helper.do("getsid 100")
    noise.do("getsid 10")
    assert counted["all"].now(group)[1] == 110
    assert counted["half"].now(group)[1] == 55
    assert counted["mine"].now(group) == (100, 100)
    assert counted["none"].now(group)[1] == 0


def test_a_filter_with_a_string(perfmond, cgroups, work, tracefs, cpus):
    """Quotes inside of quotes, commas and slashes, through the config to the kernel."""
    group = cgroups.make("switching")
    helper = work(group, cpus[0])
    helper.fork()
    events = """
	from=sched:sched_switch/filter='prev_comm == "work"'/, to=sched:sched_switch/filter='prev_comm == "a, b/c"'/,
	every=sched:sched_switch"""
    daemon = perfmond(config(cgroups, events))

    counted = [Counted(daemon, name) for name in ("from", "to", "every")]
    helper.do("switches 1000")
    from_work, to_odd, every = [each.now(group)[1] for each in counted]
    assert 2000 <= from_work <= every and to_odd == 0


def test_a_filter_of_a_uprobe(perfmond, cgroups, work):
    needs_pmu("uprobe")
    group = cgroups.make("calling")
    helper, noise = work(group), work(group)
    daemon = perfmond(config(cgroups, f"mine=uprobe:{WORK}:probed/filter='common_pid == {helper.process.pid}'/"))

    counted = Counted(daemon, "mine")
    helper.do("probed 40")
    noise.do("probed 30")
    assert counted.now(group) == (40, 40)


def test_a_filter_the_kernel_refuses(perfmond, cgroups, work, tracefs):
    group = cgroups.make("calling")
    helper = work(group)
    daemon = perfmond(config(cgroups, "broken=syscalls:sys_enter_getsid/filter='no_such_field == 1'/, "
                                      "whole=syscalls:sys_enter_getsid"))
    assert daemon.fresh().state("broken") == "failed"
    assert all("filter" in reason for reason in reasons(daemon, "broken"))
    assert daemon.fresh().all("perf_cpu_broken_total") == []

    counted = Counted(daemon, "whole")
    helper.do("getsid 9")
    assert counted.now(group)[1] == 9


def test_another_filter_at_a_reload(perfmond, cgroups, work, tracefs):
    """The same event under the same name, with another filter, is another event."""
    group = cgroups.make("calling")
    helper = work(group)
    text = config(cgroups, "calls=syscalls:sys_enter_getsid/filter='pid == 0'/") + "[web]\nlisten = 127.0.0.1:0\n"
    daemon = perfmond(text)

    helper.do("getsid 100")
    daemon.reload(text.replace("pid == 0", "pid == 7"))
    counted = Counted(daemon, "calls")
    helper.do("getsid 100")
    assert counted.now(group)[1] == 0


def test_it_is_listed(privileged):
    lines = run("--list-events").stdout.splitlines()
    for pmu, form in (("breakpoint", "mem:ADDRESS"), ("uprobe", "uprobe:/FILE:FUNCTION"),
                      ("kprobe", "kprobe:FUNCTION")):
        assert any(line.startswith(form) for line in lines) == (PMUS / pmu).exists()
