# SPDX-License-Identifier: MIT
"""A machine with a PMU: an arm64 guest that QEMU emulates, with perfmond in it.

In it are the daemon, built for arm64 in build/arm64, beside which there is tests/guest/load (load.c), and what
tests/guest/fetch has fetched into build/guest (the environment can name another folder, GUEST).

The guest runs shell scripts that come through a virtio port (see init). Nothing goes over a network: the
daemon's HTTP is asked by wget in the guest.
"""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

# The tests of the running daemon parse the same texts.
from harness import FRESH, Metrics, until, with_engine
from openapi import check_json
from tree import BUILD, place

PERFMOND = BUILD / "arm64/perfmond"
GUEST = place("GUEST", "guest")
ARM64 = GUEST / "arm64"
LIBRARIES = [ARM64 / "lib/aarch64-linux-gnu", ARM64 / "usr/lib/aarch64-linux-gnu"]
LOADER = "lib/ld-linux-aarch64.so.1"
LOAD = Path(PERFMOND).parent / "tests/guest/load"
AGAINST_LIBDW = Path(PERFMOND).parent / "tests/system/against-libdw"
WAYS = Path(__file__).parents[1] / "system/ways.c"
SETPRIV = ARM64 / "usr/bin/setpriv"

# In the order in which they are loaded.
MODULES = ["virtio_ring", "virtio", "virtio_mmio", "virtio_console"]

# An instruction of the exact guest takes 2 ** SHIFT ns, and as many cycles at 1 GHz.
SHIFT = 4
CYCLES = 2 ** SHIFT

# Seconds for a script, of CPU time: others may leave the guest little of the CPUs.
PATIENCE = 180

# … and for the system to boot.
BOOT_PATIENCE = 90

# Seconds after which a guest that has not worked that much is taken for dead.
SILENCE = 900

# Starts perfmond so that its exit status is kept, and waits until it listens or has ended.
START = """
rm -f /tmp/perfmond.*
cat >/tmp/perfmond.conf <<'END OF FILE'
{config}
END OF FILE
(
    {environment} perfmond --config=/tmp/perfmond.conf >/tmp/perfmond.log 2>&1 &
    echo $! >/tmp/perfmond.pid
    wait $!
    echo $? >/tmp/perfmond.status
) &
until grep -qs 'listening on' /tmp/perfmond.log || [ -s /tmp/perfmond.status ]; do
    sleep 0.2
done
[ ! -s /tmp/perfmond.status ] || cat /tmp/perfmond.log
[ ! -s /tmp/perfmond.status ]
"""

STOP = """
[ -s /tmp/perfmond.status ] || kill $(cat /tmp/perfmond.pid)
until [ -s /tmp/perfmond.status ]; do
    sleep 0.2
done
cat /tmp/perfmond.status
"""

RELOAD = """
cat >/tmp/perfmond.conf <<'END OF FILE'
{config}
END OF FILE
before=$(grep -c reloaded /tmp/perfmond.log)
kill -HUP $(cat /tmp/perfmond.pid)
until [ $(grep -c reloaded /tmp/perfmond.log) -gt $before ] || [ -s /tmp/perfmond.status ]; do
    sleep 0.2
done
grep reloaded /tmp/perfmond.log | tail -n 1
"""


def needed(program):
    """The shared libraries that a program or library names."""
    dump = subprocess.run(["aarch64-linux-gnu-objdump", "-p", program], capture_output=True, text=True, check=True)
    return [line.split()[1] for line in dump.stdout.splitlines() if line.split()[:1] == ["NEEDED"]]


def copy_libraries(program, to):
    """Those that the program needs, and those that they need."""
    to.mkdir(parents=True, exist_ok=True)
    missing = needed(program)
    while missing:
        name = missing.pop()
        if (to / name).exists():
            continue
        found = next(folder / name for folder in LIBRARIES if (folder / name).exists())
        shutil.copy(found, to)
        missing += needed(found)


def build_ways(program):
    """The program whose stacks are known, without frame pointers."""
    subprocess.run(["aarch64-linux-gnu-gcc", f"--sysroot={ARM64}", "-O2", "-fomit-frame-pointer", "-pthread", WAYS,
                    "-o", program], check=True)


def make_initramfs(folder):
    """The guest's root: busybox, perfmond and setpriv with their libraries, the loads, and what compares their stacks;
    packed by cpio."""
    root, initramfs = folder / "root", folder / "initramfs"
    for name in ("bin", "lib", "modules"):
        (root / name).mkdir(parents=True)
    shutil.copy(Path(__file__).parent / "init", root / "init")
    shutil.copy(ARM64 / "bin/busybox", root / "bin")
    for program in (PERFMOND, LOAD, SETPRIV, AGAINST_LIBDW):
        shutil.copy(program, root / "bin")
    build_ways(root / "bin/ways")
    shutil.copy(ARM64 / LOADER, root / LOADER)
    for program in (PERFMOND, SETPRIV, AGAINST_LIBDW, root / "bin/ways"):
        copy_libraries(program, root / "lib/aarch64-linux-gnu")
    for name in MODULES:
        shutil.copy(next((ARM64 / "lib/modules").rglob(f"{name}.ko")), root / "modules")
    os.chmod(root / "init", 0o755)
    return pack(root, initramfs)


def pack(root, initramfs):
    """As the kernel unpacks it."""
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with open(initramfs, "wb") as output:
        subprocess.run(["cpio", "--create", "--format=newc", "--quiet", "--owner=0:0"], cwd=root, stdout=output,
                       input=names.encode(), check=True)
    return initramfs


def config(*groups, scope="cpu", include="/a /b /idle", interval="1h", per_cpu="no", engine=None,
           budget="100%"):
    """A config with these groups, each the lines of its section, counted per CPU, per cgroup, or in both
    ("cpu cgroup"). A counter that counts a cgroup and one that counts all are two. In an emulated machine a BPF program
    takes long: exact counts need a budget without limit. Samples take long, too: test_profile.py has them."""
    names = " ".join(f"g{number}" for number in range(len(groups)))
    scopes = scope.split()
    sections = "".join(f'[group "g{number}"]\n{lines}\n' for number, lines in enumerate(groups))
    return f"""
[daemon]
interval = {interval}
switch_budget = {budget}
[profiles]
enabled = no
[cpu]
groups = {names if "cpu" in scopes else ""}
[cgroup]
groups = {names if "cgroup" in scopes else ""}
include = {include}
per_cpu = {per_cpu}
{f"engine = {engine}" if engine else ""}
{sections}"""


class Failed(Exception):
    """A script ended with another status than 0."""


class Guest:
    """A running guest.

    With `exact`, it has one CPU, and its clock is the number of instructions: each takes 16 ns, which is as many
    cycles, and sleeping takes no time, so that nothing depends on how fast it is emulated. Time then passes
    in it only while a script runs, since the emulator is stopped in between. Without, it has two CPUs and the
    time of the host, and its PMU counts cycles only. `options` are for its kernel; `memory` is in MiB.
    """

    def __init__(self, initramfs, console, exact, options="", shift=SHIFT, memory=512):
        self.exact, self.console, self.problem = exact, console, None
        kernel = next((ARM64 / "boot").glob("vmlinuz-*"))
        here, there = socket.socketpair()
        here.settimeout(SILENCE)
        self.port, self.answers = here, here.makefile("rb")
        clock = ["-smp", "1", "-icount", f"shift={shift},sleep=off"] if exact else ["-smp", "2"]
        with there, open(console, "wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL",
                 "qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a57", "-m", str(memory), *clock,
                 "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
                 "-kernel", kernel, "-initrd", initramfs, "-append", f"console=ttyAMA0 quiet panic=-1 {options}",
                 "-chardev", f"socket,id=tests,fd={there.fileno()}", "-device", "virtio-serial-device",
                 "-device", "virtserialport,chardev=tests"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, pass_fds=[there.fileno()])

    def _gone(self, what):
        self.problem = f"{what}; its console:\n{self.console.read_text(errors='replace')}"
        raise AssertionError(self.problem)

    def _worked(self):
        """The emulator's CPU time, in seconds (proc(5): utime and stime)."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _answer(self, patience=PATIENCE):
        """A line, for which the guest may work so long."""
        end, most = time.monotonic() + SILENCE, self._worked() + patience
        while not select.select([self.port], [], [], 1)[0]:
            if self._worked() > most or time.monotonic() > end:
                self._gone("no answer of the guest")
        return self._read(self.answers.readline)

    def _read(self, read, *args):
        data = read(*args)
        if not data:
            self._gone("the guest has ended")
        return data

    def has_booted(self):
        """The first word on the port says so. On a busy machine, a guest of two CPUs once kept silent for three
        minutes, of which it used two on a CPU: where that happens it is ended. perfmond does not run yet."""
        try:
            word = self._answer(BOOT_PATIENCE).split()
        except AssertionError:
            self.process.kill()
            self.process.wait()
            return False
        assert word == [b"ready"], word
        self._pause()
        return True

    def _pause(self):
        if self.exact:
            self.process.send_signal(signal.SIGSTOP)

    def run(self, script, patience=PATIENCE):
        """Runs a shell script to its end; its output. Failed where its status is not 0."""
        assert not self.problem, self.problem
        text = script.encode()
        self.process.send_signal(signal.SIGCONT)
        self.port.sendall(b"%d\n%s" % (len(text), text))
        status, size = map(int, self._answer(patience).split())
        output = (self._read(self.answers.read, size) if size else b"").decode()
        self._pause()
        if status:
            raise Failed(f"status {status} of: {script}\n{output}")
        return output

    def status(self, command):
        """The command's exit status."""
        return int(self.run(f"{command} >/dev/null 2>&1; echo $?"))

    def write(self, path, text):
        self.run(f"cat >{path} <<'END OF FILE'\n{text}\nEND OF FILE")

    def read(self, path):
        return self.run(f"cat {path}")

    def load(self, *steps):
        """Does work of known size, as load.c has it; several loads at once are several texts."""
        start = "".join(f"load {text} &\npids=\"$pids $!\"\n" for text in steps)
        self.run(start + "for pid in $pids; do wait $pid || exit; done")

    def stop(self):
        """Ends the conversation, at which the guest powers itself off."""
        self.port.close()
        self.answers.close()
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Daemon:
    """perfmond in the guest; one at a time."""

    def __init__(self, guest, config, environment=""):
        self.guest = guest
        guest.run(START.format(config=with_engine(config), environment=environment))
        # Cgroups are opened one after the other, between requests.
        until(lambda: all(cgroup["status"] != "waiting" for cgroup in self.json("/api/v1/cgroups")["cgroups"]),
              "no cgroup waits", PATIENCE)
        # An emulated machine can take longer than the five seconds after which the daemon is ready in any case.
        until(lambda: not any("being started" in problem for problem in self.json("/api/v1/status")["problems"]),
              "the profiler samples", PATIENCE)

    @property
    def log(self):
        return self.guest.read("/tmp/perfmond.log")

    @staticmethod
    def wget(path):
        return f"wget -q -O - 'http://127.0.0.1:9753{path}'"

    def json(self, path, first=""):
        """`first` is a script right before the question. Between two runs there is no telling how much time passes in
        the guest, and whether a load in the background has ended."""
        return check_json(path.partition("?")[0], 200, json.loads(self.guest.run(f"{first}\n{self.wget(path)}")))

    def fresh(self):
        """A scrape for which all counters are read anew."""
        return Metrics(self.guest.run(f"sleep {FRESH}; {self.wget('/metrics')}"))

    def event(self, name, scope="cpu"):
        """What /api/v1/events says of an event."""
        found = [event for event in self.json("/api/v1/events")["events"]
                 if event["event"] == name and event["scope"] == scope]
        assert len(found) == 1, f"{name} per {scope}: {found}"
        return found[0]

    def reload(self, config):
        """Another config, and SIGHUP; it has to be taken."""
        said = self.guest.run(RELOAD.format(config=with_engine(config)))
        assert "perfmond: reloaded" in said, f"{said}\nthe log:\n{self.log}"

    def stop(self):
        """SIGTERM, which has to end it cleanly."""
        status = self.guest.run(STOP).strip()
        assert status == "0", f"exit status {status}:\n{self.log}"


def as_nobody(*caps):
    """What stands before a command that a user is to run with these capabilities alone, as by the unit. With its path:
    busybox has a setpriv of its own."""
    caps = ",".join(["-all", *(f"+{cap}" for cap in caps)])
    return "/bin/setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs " \
           f"--bounding-set={caps} --inh-caps={caps} --ambient-caps={caps}"
