# SPDX-License-Identifier: MIT
"""A systemd of the tests' own, in a container of systemd-nspawn, and a perfmond that is a service there.

The container has a network of its own with nothing but a loopback device, and its own part of the cgroup tree. Where
such a container can't be run, the tests are skipped with the reason.
"""

import fcntl
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from machine import require

CONFIG = "/etc/perfmond/perfmond.conf"
DROP_INS = "/etc/systemd/system/perfmond.service.d"
SOCKET_DROP_INS = "/etc/systemd/system/perfmond.socket.d"

CAP_PERFMON, CAP_BPF = 1 << 38, 1 << 39

NAME = f"perfmond-test-{os.getpid()}"


def cgroup_parents():
    """Where the container's cgroup goes: the cgroup2 mount, and v1's systemd hierarchy where there is one."""
    parents = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        kind, _, options = after.split()[:3]
        if kind == "cgroup2" or (kind == "cgroup" and "name=systemd" in options.split(",")):
            parents.append(Path(before.split()[4]))
    return parents


def until(condition, what, timeout=60):
    end = time.monotonic() + timeout
    while not (result := condition()):
        assert time.monotonic() < end, f"waited in vain: {what}"
        time.sleep(0.05)
    return result


class NoContainer(Exception):
    """It does not boot here."""


class Machine:
    """The running container."""

    def __init__(self, root, log, options):
        self.root, self.log, self.leader = root, log, None
        self.cgroups = [parent / NAME for parent in cgroup_parents()]
        for cgroup in self.cgroups:
            cgroup.mkdir()
        # The command moves itself into the cgroups before it becomes nspawn: the container's tree begins there.
        join = "for c in " + " ".join(map(str, self.cgroups)) + '; do echo $$ >"$c/cgroup.procs"; done; exec "$@"'
        self.process = subprocess.Popen(
            ["sh", "-c", join, "sh", "systemd-nspawn", "--quiet", "--boot", f"--machine={NAME}",
             f"--directory={root}", "--register=no", "--keep-unit", "--private-network", "--console=pipe",
             "--capability=all", "--system-call-filter=@debug perf_event_open bpf", *options],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"})

    def wait_booted(self):
        self.leader = until(self.find_leader, "the container's init", 120)
        until(lambda: self.run("test", "-S", "/run/systemd/private", check=False).returncode == 0, "its systemd", 120)
        self.run("systemctl", "is-system-running", "--wait", check=False, timeout=300)

    def find_leader(self):
        """Its PID 1. Before that, systemd-nspawn has a child that makes it, and ends."""
        if self.process.poll() is not None:
            raise NoContainer("systemd-nspawn has ended")
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            try:
                status = Path(f"/proc/{child}/status").read_text()
            except OSError:
                continue
            if re.search(r"^NSpid:(\t\d+)+\t1$", status, re.M):
                return int(child)
        return None

    def run(self, *command, check=True, timeout=60):
        """A command in the container. What systemctl says of a job that failed, the journal has."""
        done = subprocess.run(["nsenter", f"--target={self.leader}", "--all", *command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=timeout, check=False)
        if check and done.returncode:
            more = command[0] == "systemctl" and self.run("journalctl", "--no-pager", "--lines=40", check=False).stdout
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}{done.stderr}{more or ''}")
        return done

    def write(self, path, text):
        target = self.root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def remove(self, path):
        target = self.root / path.lstrip("/")
        shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)

    def stop(self):
        if self.process.poll() is None and self.leader:
            self.run("systemctl", "poweroff", "--no-block", check=False)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for top in self.cgroups:
            for path, _, _ in os.walk(top, topdown=False):
                until(lambda path=path: not os.path.isdir(path) or remove_folder(path), f"rmdir {path}")
        shutil.rmtree(f"/run/systemd/nspawn/propagate/{NAME}", ignore_errors=True)


def remove_folder(path):
    try:
        os.rmdir(path)
        return True
    except OSError:
        return False


@contextmanager
def booted(root, log_path, *options):
    """The container of that root folder, while it runs; with more options of systemd-nspawn."""
    require("root", "systemd-nspawn", "nsenter")
    with open(Path(tempfile.gettempdir()) / "perfmond-machine.lock", "w", encoding="ascii") as lock, \
            open(log_path, "w", encoding="utf-8") as log:
        # Tests that change CPUs or hierarchies of the machine have to wait.
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            machine = Machine(root, log, options)
        except OSError as error:
            pytest.skip(f"no cgroup can be made for a container: {error}")
        try:
            machine.wait_booted()
            yield machine
        except NoContainer as error:
            last = log_path.read_text().strip().splitlines()[-1:]
            pytest.skip(f"a container can't be run here: {error}: {' '.join(last)}")
        finally:
            machine.stop()


# --- the service

def hard_limit():
    """Of open files, for whoever is in the container: PID 1's there is ours."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]



def show(machine, *names):
    text = machine.run("systemctl", "show", "perfmond", *[f"--property={name}" for name in names]).stdout
    values = dict(line.split("=", 1) for line in text.splitlines())
    return values[names[0]] if len(names) == 1 else values


def metrics(machine):
    return machine.run("curl", "-sf", "http://127.0.0.1:9753/metrics").stdout


def value(machine, name, labels=""):
    found = re.search(rf"^{name}{re.escape(labels)} (\S+)$", metrics(machine), re.M)
    return float(found[1]) if found else None


def journal(machine):
    machine.run("journalctl", "--sync")
    return machine.run("journalctl", "--unit=perfmond", "--output=cat", "--no-pager").stdout
