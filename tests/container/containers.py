# SPDX-License-Identifier: MIT
"""Bundles of runc. Their root is a folder with the host's /usr in it, read-only."""

import contextlib
import itertools
import json
import os
import shutil
import stat
import subprocess
from pathlib import Path

import harness

RUNC = shutil.which("runc")

# What containers count.
FAULTS = "perf_cgroup_page_faults_total"
CONFIG = """
[web]
listen = 127.0.0.1:0
[cpu]
groups = cpu
[cgroup]
groups = faults
mount = {mount}
[group "cpu"]
events = context-switches
[group "faults"]
events = page-faults
"""


def bind(source, destination):
    return {"source": str(source), "destination": destination, "type": "bind", "options": ["bind", "ro"]}


BASE_MOUNTS = [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    bind("/sys", "/sys"),
    bind("/usr", "/usr"),
]

# The cgroup2 of the container's own namespace, wherever the host's is among its mounts.
OWN_CGROUPS = {"destination": "/own", "type": "cgroup2", "source": "cgroup2", "options": ["ro"]}


def make_root(root, config, file_capability):
    """With a binary of its own, which has the capability or not."""
    for folder in ("proc", "dev", "sys", "usr", "own", "host"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    (root / "perfmond.conf").write_text(config)
    binary = shutil.copy(harness.PERFMOND, root / "perfmond")
    os.chmod(binary, 0o755)
    if file_capability:
        subprocess.run(["setcap", "cap_perfmon=ep", binary], check=True)


def specification(options, args, mounts, uid, seccomp):
    capabilities = {kind: ["CAP_PERFMON"] for kind in ("bounding", "effective", "permitted", "inheritable")}
    linux = {
        "cgroupsPath": options["cgroup"],
        "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "cgroup")],
        "resources": {},
    }
    if seccomp:
        linux["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["perf_event_open"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}]}
    return {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": uid, "gid": uid}, "args": ["/perfmond", "--config=/perfmond.conf", *args],
                    "cwd": "/", "env": ["PATH=/usr/bin"], "capabilities": capabilities, "noNewPrivileges": True,
                    "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024}]},
        "root": {"path": options["root"], "readonly": True},
        "hostname": "perfmond-test",
        "mounts": [*BASE_MOUNTS, *mounts],
        "linux": linux,
    }


class Runc:
    """What starts containers below a cgroup of the tests' own, in a folder."""

    def __init__(self, folder, top):
        self.folder, self.top, self.numbers = folder, top, itertools.count()
        for path in (folder, *folder.parents):
            # Another user has to get at what is in it.
            if stat.S_IMODE(path.stat().st_mode) & 0o55 != 0o55:
                path.chmod(path.stat().st_mode | 0o55)

    def new_bundle(self):
        """Its folder, and the path of its cgroup."""
        bundle = self.folder / f"{self.top.path.name}-{next(self.numbers)}"
        bundle.mkdir()
        return bundle, f"{self.top.label}/{bundle.name}"

    def command_of(self, bundle, spec):
        bundle.joinpath("config.json").write_text(json.dumps(spec))
        return [RUNC, "--root", str(self.folder / "state"), "run", "--bundle", str(bundle), bundle.name]

    def command(self, *args, config="", mounts=(), uid=65534, file_capability=True, seccomp=False):
        """A bundle is made; the command that runs it."""
        bundle, cgroup = self.new_bundle()
        make_root(bundle / "root", config, file_capability)
        return self.command_of(bundle, specification({"root": "root", "cgroup": cgroup}, args, mounts, uid, seccomp))

    def run(self, *args, **kwargs):
        """perfmond with these arguments, to its end."""
        return run(self.command(*args, **kwargs))

    def label(self, number=-1):
        """Of the last container's cgroup, as the host names it."""
        made = sorted(self.top.path.glob(f"{self.top.path.name}-*"))
        return f"{self.top.label}/{made[number].name}"


def is_cleaned_up(left):
    """Who runs there, as conmon does for a moment after its container, keeps a cgroup busy."""
    for path, _, _ in os.walk(left, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(path)
    return not left.is_dir()


def clean_up(top):
    """Removes what containers leave behind in v1 hierarchies, where there are any."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        left = Path(before.split()[4] + top.label)
        if after.startswith("cgroup "):
            harness.until(lambda left=left: is_cleaned_up(left), f"{left} is removed")


def run(command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


def can_run(runc):
    """Why not, or None."""
    if not RUNC or not shutil.which("setcap"):
        return "needs runc and setcap"
    level = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    if level > 2:
        return f"kernel.perf_event_paranoid is {level}: this kernel may want more than CAP_PERFMON"
    tried = runc.run("--version")
    return None if tried.returncode == 0 else f"runc can't run containers here: {tried.stderr.strip()[-200:]}"
