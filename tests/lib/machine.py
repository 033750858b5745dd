#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What this machine can do, found out once for a run of tests; as a program, it prints that.

An ability is there, with a fact to print, or lacks, with a reason. A test names what it needs, @needs("breakpoint"),
and is skipped with that word and the reason. The C tests read the reasons from MACHINE_LACKS. LACKS="tracefs pmu" in
the environment takes abilities away, to see what a run on such a machine leaves out.

QUESTIONS are looks of one line. A function marked @ability looks for the ability of its name, with dashes; it returns
the fact, and fails with the reason.
"""

import contextlib
import ctypes
import json
import os
import platform
import re
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "system"))
import pmu as PMU  # noqa: E402, N812 (as a program this file has no pytest.ini)

needs = pytest.mark.needs
TAKEN_AWAY = "taken away by LACKS"

PROBES = {}
BPF = {"x86_64": 321, "aarch64": 280}
YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
DEVICES = "/sys/bus/event_source/devices"


def ability(look):
    PROBES[look.__name__.replace("_", "-")] = look


def read(path):
    return Path(path).read_text(encoding="ascii", errors="replace").strip()


def mounts():
    """(folder, kind, options) of each mount that is seen."""
    for line in read("/proc/self/mountinfo").splitlines():
        before, after = line.split(" - ")
        yield before.split()[4], after.split()[0], after.split()[2].split(",")


def run_apart(*command):
    """In namespaces of its own (unshare(1))."""
    done = subprocess.run(["unshare", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.strip()


def level():
    return int(read("/proc/sys/kernel/perf_event_paranoid"))


def permitted():
    return int(re.search(r"^CapPrm:\s+(\w+)$", read("/proc/self/status"), re.M)[1], 16)


def release():
    return [int(part) for part in re.findall(r"\d+", platform.release())[:2]]


def symbol(name):
    """One of the kernel, with its address."""
    return re.search(rf"^(?!0+ )\w+ \w {name}$", read("/proc/kallsyms"), re.M)


def call(number, *args):
    """A system call: what it returns; its error is an OSError."""
    result = ctypes.CDLL(None, use_errno=True).syscall(number, *args)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


@ability
def pmu():
    assert not (why := PMU.why_none()), why
    events = []
    with contextlib.suppress(OSError):
        while len(events) < 32:
            events.append(PMU.Event("instructions", pinned=True))
    sum(range(100000))
    return f"{sum(bool(event.read()) for event in events)} counters count"


@ability
def breakpoint():
    """They can open and never fire: one write of our own has to be counted."""
    word, attr = ctypes.c_uint64(0), bytearray(112)
    struct.pack_into("=II", attr, 0, 5, len(attr))                    # PERF_TYPE_BREAKPOINT
    struct.pack_into("=IQQ", attr, 52, 2, ctypes.addressof(word), 8)  # HW_BREAKPOINT_W
    attr[40] |= 1 << 5                                                # exclude_kernel
    fd = call(PMU.PERF_EVENT_OPEN[platform.machine()], bytes(attr), 0, -1, -1, 8)
    word.value = 1
    count = struct.unpack("=Q", os.read(fd, 8))[0]
    os.close(fd)
    assert count, "a breakpoint opens and never fires"
    return "fires"


@ability
def bpf():
    """Loads `return 0`."""
    program = ctypes.create_string_buffer(struct.pack("=BBhiBBhi", 0xb7, 0, 0, 0, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    attr = struct.pack("=IIQQ", 5, 2, ctypes.addressof(program), ctypes.addressof(licence)).ljust(120, b"\0")
    os.close(call(BPF[platform.machine()], 5, attr, len(attr)))  # BPF_PROG_LOAD
    return "programs load"


@ability
def tracefs():
    for folder, kind, _ in mounts():
        if kind == "tracefs" and os.access(f"{folder}/events", os.R_OK):
            return f"at {folder}"
    assert re.search(r"\ttracefs$", read("/proc/filesystems"), re.M), "not in this kernel"
    run_apart("--mount", "mount", "-t", "tracefs", "nodev", "/sys/kernel/tracing")
    return "can be mounted"


@ability
def cgroup():
    """Where perf counts cgroups: a v1 mount with perf_event, or else cgroup2."""
    v1 = [folder for folder, kind, options in mounts() if kind == "cgroup" and "perf_event" in options]
    v2 = [folder for folder, kind, _ in mounts() if kind == "cgroup2"]
    assert v1 + v2, "no hierarchy is mounted that perf can use"
    assert os.access((v1 + v2)[0], os.W_OK), f"{(v1 + v2)[0]} can't be written to"
    others = sum(kind == "cgroup" for _, kind, _ in mounts())
    return f"v1 perf_event at {v1[0]}" if v1 else f"v2 at {v2[0]}" + (f", beside {others} of v1" if others else "")


@ability
def perf_event_v1():
    """It isn't tried: to mount it takes it away from cgroup2 for the whole machine."""
    assert "nodev\tcgroup\n" in read("/proc/filesystems") + "\n", "this kernel has no cgroups of version 1"
    found = re.search(r"^perf_event\t(\d+)\t\d+\t(\d+)", read("/proc/cgroups"), re.M)
    assert found and found[2] != "0", "/proc/cgroups has no perf_event, or it is disabled"
    assert found[1] == "0", f"it is in hierarchy {found[1]} already: all tests use that"


@ability
def root_cgroup():
    """The mount's top is the machine's root, and not the one of a cgroup namespace."""
    mount = PROBES["cgroup"]().split(" at ")[1].split(",")[0]
    assert os.stat(mount).st_ino == 1, f"{mount} is not the machine's root cgroup"


@ability
def cgroup2():
    """Cgroups are counted in cgroup2."""
    found = PROBES["cgroup"]()
    assert found.startswith("v2"), found
    assert not re.search(r"^perf_event\t[1-9]", read("/proc/cgroups"), re.M), "perf_event is in a hierarchy of v1"
    return found


@ability
def hotplug():
    files = sorted(Path("/sys/devices/system/cpu").glob("cpu[1-9]*/online"))
    assert files, "no CPU can be taken offline"
    assert os.access(files[-1], os.W_OK), f"{files[-1]} can't be written to"
    return f"{len(files)} CPUs can go offline"


@ability
def file_capability():
    """In the folder where the tests' programs are: the value of setcap cap_perfmon=ep (capabilities(7))."""
    with tempfile.NamedTemporaryFile() as file:
        os.setxattr(file.name, "security.capability", struct.pack("=IIIII", 0x02000001, 0, 0, 1 << 6, 0))


@ability
def limits():
    """Soft and hard."""
    return "; ".join(f"{word}: {'/'.join(map(str, resource.getrlimit(which)))}" for word, which in (
        ("open files", resource.RLIMIT_NOFILE), ("locked memory", resource.RLIMIT_MEMLOCK)))


# What a look tells at once: the question, and the reason where its answer is no.
QUESTIONS = {
    "root": (lambda: os.geteuid() == 0, "not root"),
    "two-cpus": (lambda: len(os.sched_getaffinity(0)) > 1, "one CPU"),
    "no-pmu": (PMU.why_none, "there is a PMU"),
    "swap": (lambda: "\n" in read("/proc/swaps"), "none is on"),
    "kallsyms": (lambda: symbol(".*"), "/proc/kallsyms shows no addresses (kernel.kptr_restrict)"),
    # It stands for all of them: CONFIG_KALLSYMS_ALL, and BTF.
    "kernel-variables": (lambda: symbol("__start_BTF"), "/proc/kallsyms has no variables, or no addresses"),
    "paranoid": (lambda: level() > 0, "kernel.perf_event_paranoid lets everyone count whole CPUs"),
    "cap-perfmon": (lambda: level() < 3, "kernel.perf_event_paranoid is above 2: CAP_PERFMON may not be enough"),
    "sys-admin": (lambda: permitted() >> 21 & 1, "it is not among our capabilities"),
    "bpf-privileged": (lambda: read("/proc/sys/kernel/unprivileged_bpf_disabled") != "0", "anyone may load programs"),
    "memory-of-maps": (lambda: release() >= [6, 4], "Linux before 6.4 does not tell it all"),
    "inotify-overflow": (lambda: int(read("/proc/sys/fs/inotify/max_queued_events")) <= 200000,
                         "its queue holds more events than can be made"),
    "low-ports": (lambda: int(read("/proc/sys/net/ipv4/ip_unprivileged_port_start")) > 1023,
                  "net.ipv4.ip_unprivileged_port_start lets everyone listen below 1024"),
    "perf-self": (lambda: level() < 3 or os.geteuid() == 0, "kernel.perf_event_paranoid is above 2"),
    "perf-cpus": (lambda: level() < 1 or os.geteuid() == 0, "kernel.perf_event_paranoid is above 0"),
    "ptrace": (lambda: not YAMA.exists() or int(read(YAMA)) < 2, "kernel.yama.ptrace_scope is above 1"),
    **{name: (Path(path).exists, f"no {path}") for name, path in (
        ("ipv6", "/proc/net/if_inet6"), ("event-sources", DEVICES), ("btf", "/sys/kernel/btf/vmlinux"),
        ("kvm", "/dev/kvm"), ("kprobe", f"{DEVICES}/kprobe"),
        ("uprobe", f"{DEVICES}/uprobe"), ("msr", f"{DEVICES}/msr/events/tsc"))},
}
NAMESPACES = {"mount-namespace": ["--mount"], "user-namespace": ["--user", "--map-root-user"],
              "network-namespace": ["--net"], "time-namespace": ["--time", "--boottime", "1000"]}


def look_for(name):
    if name in QUESTIONS:
        assert QUESTIONS[name][0](), QUESTIONS[name][1]
        return None
    return run_apart(*NAMESPACES[name], "true") if name in NAMESPACES else PROBES[name]()


def probe():
    """{ability: (is it there, fact or reason)}"""
    found = {}
    for name in (*QUESTIONS, *NAMESPACES, *PROBES):
        try:
            found[name] = True, look_for(name)
        except (AssertionError, OSError, ValueError, KeyError) as reason:
            found[name] = False, str(reason)
    for name in os.environ.get("LACKS", "").split():
        if name not in found:
            sys.exit(f"LACKS names {name}; there are: {' '.join(found)}")
        found[name] = False, TAKEN_AWAY
    return found


def abilities():
    """Found out once, and passed on in the environment to all that runs below."""
    if "MACHINE" not in os.environ:
        found = probe()
        os.environ["MACHINE"] = json.dumps(found)
        os.environ["MACHINE_LACKS"] = "\n".join(f"{name}: {why}" for name, (there, why) in found.items() if not there)
    return json.loads(os.environ["MACHINE"])


def why_lacks(name):
    """None: this machine has it. A name that is no ability's is that of a program."""
    there, why = abilities().get(name, (shutil.which(name), f"no program {name}"))
    return None if there else why


def require(*names):
    """For fixtures, as @needs is for tests."""
    for name in names:
        if why := why_lacks(name):
            pytest.skip(f"needs {name}: {why}")


def describe():
    has = ", ".join(name + (f" ({why})" if why else "") for name, (there, why) in abilities().items() if there)
    yield f"this machine: Linux {platform.release()}, {platform.machine()}, {os.cpu_count()} CPUs"
    yield from textwrap.wrap(f"has {has}", 118, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    yield from (f"  lacks {name}: {why}" for name, (there, why) in abilities().items() if not there)


if __name__ == "__main__":
    print("\n".join(describe()))
