#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What this machine can do, found out once for a run of tests; as a program, it prints that.

An ability is there, with a fact to print, or lacks, with a reason. A test names what it needs, @needs("breakpoint"),
and is skipped with that word and the reason. The C tests read the reasons from MACHINE_LACKS. LACKS="tracefs pmu" in
the environment takes abilities away, to see what a run on such a machine leaves out.
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
import pmu  # noqa: E402 (as a program this file has no pytest.ini)

needs = pytest.mark.needs

PMUS = Path("/sys/bus/event_source/devices")
BPF = {"x86_64": 321, "aarch64": 280}


class Lacks(Exception):
    """The reason."""


def lacks_if(condition, reason):
    if condition:
        raise Lacks(reason)


def read(path):
    return Path(path).read_text(encoding="ascii", errors="replace").strip()


def mounts():
    """(folder, kind, options) of each mount that is seen."""
    for line in read("/proc/self/mountinfo").splitlines():
        before, after = line.split(" - ")
        yield before.split()[4], after.split()[0], after.split()[2].split(",")


def in_namespace(*options):
    """Can a program be run in such a namespace?"""
    done = subprocess.run(["unshare", *options, "true"], capture_output=True, text=True, check=False)
    lacks_if(done.returncode, done.stderr.strip())
    return "yes"


def root():
    lacks_if(os.geteuid() != 0, "not root")
    return "yes"


def a_pmu():
    lacks_if(why := pmu.why_none(), why)
    events = []
    with contextlib.suppress(OSError):
        while len(events) < 32:
            events.append(pmu.Event("instructions", pinned=True))
    sum(range(100000))
    return f"{sum(bool(event.read()) for event in events)} counters count"


def no_pmu():
    """The opposite of pmu: hardware events are refused."""
    lacks_if(not pmu.why_none(), "there is a PMU")
    return "yes"


def breakpoint():
    """They can open and never fire: one write of our own has to be counted."""
    word = ctypes.c_uint64(0)
    attr = bytearray(112)
    struct.pack_into("=II", attr, 0, 5, 112)                               # PERF_TYPE_BREAKPOINT
    struct.pack_into("=IQQ", attr, 52, 2, ctypes.addressof(word), 8)  # HW_BREAKPOINT_W
    attr[40] |= 1 << 5                                                     # exclude_kernel
    fd = ctypes.CDLL(None, use_errno=True).syscall(pmu.PERF_EVENT_OPEN[platform.machine()], bytes(attr), 0, -1, -1, 8)
    lacks_if(fd < 0, os.strerror(ctypes.get_errno()))
    word.value = 1
    count = struct.unpack("=Q", os.read(fd, 8))[0]
    os.close(fd)
    lacks_if(not count, "a breakpoint opens and never fires")
    return "fires"


def bpf():
    """Loads `return 0`."""
    program = ctypes.create_string_buffer(struct.pack("=BBhiBBhi", 0xb7, 0, 0, 0, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    attr = struct.pack("=IIQQ", 5, 2, ctypes.addressof(program), ctypes.addressof(licence)).ljust(120, b"\0")
    fd = ctypes.CDLL(None, use_errno=True).syscall(BPF[platform.machine()], 5, attr, len(attr))  # BPF_PROG_LOAD
    lacks_if(fd < 0, os.strerror(ctypes.get_errno()))
    os.close(fd)
    return "programs load"


def bpf_privileged():
    path = "/proc/sys/kernel/unprivileged_bpf_disabled"
    lacks_if(read(path) == "0", "BPF programs need no privilege")
    return "yes"


def memory_of_maps():
    release = platform.release()
    lacks_if([int(part) for part in re.findall(r"\d+", release)[:2]] < [6, 4], f"Linux {release} does not tell it all")
    return "yes"


def tracefs():
    for folder, kind, _ in mounts():
        if kind == "tracefs" and os.access(f"{folder}/events", os.R_OK):
            return f"at {folder}"
    lacks_if(not re.search(r"\ttracefs$", read("/proc/filesystems"), re.M), "not in this kernel")
    done = subprocess.run(["unshare", "--mount", "mount", "-t", "tracefs", "nodev", "/sys/kernel/tracing"],
                          capture_output=True, text=True, check=False)
    lacks_if(done.returncode, done.stderr.strip())
    return "can be mounted"


def cgroup():
    """Where perf counts cgroups: a v1 mount with perf_event, or else cgroup2."""
    v1 = [folder for folder, kind, options in mounts() if kind == "cgroup" and "perf_event" in options]
    v2 = [folder for folder, kind, _ in mounts() if kind == "cgroup2"]
    lacks_if(not v1 + v2, "no hierarchy is mounted that perf can use")
    lacks_if(not os.access((v1 + v2)[0], os.W_OK), f"{(v1 + v2)[0]} can't be written to")
    others = sum(kind == "cgroup" for _, kind, _ in mounts())
    return f"v1 perf_event at {v1[0]}" if v1 else f"v2 at {v2[0]}" + (f", beside {others} of v1" if others else "")


def root_cgroup():
    """The mount's top is the machine's root, and not the one of a cgroup namespace."""
    cgroup()
    folders = {kind: folder for folder, kind, options in mounts() if kind == "cgroup2" or "perf_event" in options}
    mount = folders.get("cgroup", folders.get("cgroup2"))
    lacks_if(os.stat(mount).st_ino != 1, f"{mount} is not the machine's root cgroup")
    return "seen"


def cgroup2():
    """Cgroups are counted in cgroup2."""
    found = cgroup()
    lacks_if(not found.startswith("v2"), found)
    lacks_if(re.search(r"^perf_event\t[1-9]", read("/proc/cgroups"), re.M), "perf_event is in a hierarchy of v1")
    return found


def cpus():
    return len(os.sched_getaffinity(0))


def two_cpus():
    lacks_if(cpus() < 2, "one CPU")
    return f"{cpus()} CPUs"


def hotplug():
    files = sorted(Path("/sys/devices/system/cpu").glob("cpu[1-9]*/online"))
    lacks_if(not files, "no CPU can be taken offline")
    lacks_if(not os.access(files[-1], os.W_OK), f"{files[-1]} can't be written to")
    return f"{len(files)} CPUs can go offline"


def swap():
    lacks_if(not Path("/proc/swaps").exists(), "not in this kernel")
    used = read("/proc/swaps").splitlines()[1:]
    lacks_if(not used, "no swap is on")
    return f"{len(used)} on"


def kallsyms():
    with open("/proc/kallsyms", encoding="ascii") as file:
        lacks_if(not int(file.readline().split()[0], 16), "/proc/kallsyms shows no addresses (kernel.kptr_restrict)")
    return "with addresses"


def paranoid():
    level = int(read("/proc/sys/kernel/perf_event_paranoid"))
    lacks_if(level < 1, f"kernel.perf_event_paranoid is {level}: everyone may count whole CPUs")
    return f"kernel.perf_event_paranoid is {level}"


def cap_perfmon():
    """CAP_PERFMON is enough to count whole CPUs. Kernels of Debian and Ubuntu want more above level 2."""
    level = int(read("/proc/sys/kernel/perf_event_paranoid"))
    lacks_if(level > 2, f"kernel.perf_event_paranoid is {level}: CAP_PERFMON may not be enough")
    return "enough to count"


def sys_admin():
    permitted = int(re.search(r"^CapPrm:\s+(\w+)$", read("/proc/self/status"), re.M)[1], 16)
    lacks_if(not permitted >> 21 & 1, "it is not among our capabilities")
    return "yes"


def file_capability():
    """In the folder where the tests' programs are: the value of setcap cap_perfmon=ep (capabilities(7))."""
    with tempfile.NamedTemporaryFile() as file:
        os.setxattr(file.name, "security.capability", struct.pack("=IIIII", 0x02000001, 0, 0, 1 << 6, 0))
    return "can be set"


def limits():
    """Soft and hard."""
    return "; ".join(f"{word}: {'/'.join(map(str, resource.getrlimit(which)))}" for word, which in (
        ("open files", resource.RLIMIT_NOFILE), ("locked memory", resource.RLIMIT_MEMLOCK)))


def there(path):
    lacks_if(not Path(path).exists(), f"no {path}")
    return "yes"


PROBES = {
    "root": root, "two-cpus": two_cpus, "pmu": a_pmu, "no-pmu": no_pmu, "breakpoint": breakpoint, "bpf": bpf,
    "bpf-privileged": bpf_privileged, "memory-of-maps": memory_of_maps, "root-cgroup": root_cgroup,
    "tracefs": tracefs, "cap-perfmon": cap_perfmon, "sys-admin": sys_admin, "file-capability": file_capability,
    "cgroup": cgroup, "cgroup2": cgroup2, "hotplug": hotplug, "swap": swap, "kallsyms": kallsyms, "paranoid": paranoid,
    "btf": lambda: there("/sys/kernel/btf/vmlinux"), "kprobe": lambda: there(PMUS / "kprobe"),
    "uprobe": lambda: there(PMUS / "uprobe"), "msr": lambda: there(PMUS / "msr/events/tsc"),
    "kvm": lambda: there("/dev/kvm"), "mount-namespace": lambda: in_namespace("--mount"),
    "user-namespace": lambda: in_namespace("--user", "--map-root-user"),
    "time-namespace": lambda: in_namespace("--time", "--boottime", "1000"), "limits": limits,
}


def probe():
    """{ability: (is it there, fact or reason)}"""
    found = {}
    for name, look in PROBES.items():
        try:
            found[name] = True, str(look())
        except (Lacks, OSError, ValueError, KeyError) as reason:
            found[name] = False, str(reason)
    for name in os.environ.get("LACKS", "").split():
        if name not in PROBES:
            sys.exit(f"LACKS names {name}; there are: {' '.join(PROBES)}")
        found[name] = False, "taken away by LACKS"
    return found


def abilities():
    """Found out once, and passed on in the environment to all that runs below."""
    if "MACHINE" not in os.environ:
        found = probe()
        os.environ["MACHINE"] = json.dumps(found)
        os.environ["MACHINE_LACKS"] = "\n".join(f"{name}: {why}" for name, (there, why) in found.items() if not there)
    return json.loads(os.environ["MACHINE"])


def why_lacks(name):
    """None: this machine has it. What is no ability is the name of a program."""
    if name in PROBES:
        there, why = abilities()[name]
        return None if there else why
    return None if shutil.which(name) else f"no program {name}"


def require(*names):
    """For fixtures, as @needs is for tests."""
    for name in names:
        if why := why_lacks(name):
            pytest.skip(f"needs {name}: {why}")


def describe():
    has = ", ".join(name if why == "yes" else f"{name} ({why})" for name, (there, why) in abilities().items() if there)
    yield f"this machine: Linux {platform.release()}, {platform.machine()}, {cpus()} CPUs"
    yield from textwrap.wrap(f"has {has}", 118, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    yield from (f"  lacks {name}: {why}" for name, (there, why) in abilities().items() if not there)


if __name__ == "__main__":
    print("\n".join(describe()))
