# SPDX-License-Identifier: MIT
"""The daemon, cgroups and work of known size, for the system tests.

The environment can say what is tested: PERFMOND is the daemon, WORK the helper program (work.c); else they are those in
build/default.
"""

import collections
import contextlib
import ctypes
import itertools
import os
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

import openapi
from tree import BUILD, place

PERFMOND = str(place("PERFMOND", "default/perfmond"))
WORK = str(place("WORK", "default/tests/system/work"))
PROMETHEUS = BUILD / "prometheus/usr/bin"

# Under a sanitizer everything takes longer.
SANITIZED = Path(PERFMOND).exists() and b"__asan_init" in Path(PERFMOND).read_bytes()

# For how long to wait for what has to happen, on a busy machine too. What is claimed of a time has its own number.
PATIENCE = 90

# What is older than this is read afresh by a scrape; a little more, to be sure.
FRESH = 0.12

SANITIZER_REPORT = re.compile(r"AddressSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer|runtime error:")


def until(condition, what, timeout=None):
    """Waits until condition() is true, and returns what it was. Where looking takes long, ten looks are had."""
    end = time.monotonic() + (timeout or PATIENCE)
    for looks in itertools.count(1):
        result = condition()
        if result:
            return result
        assert time.monotonic() < end or looks < 10, f"waited in vain: {what}"
        time.sleep(0.02)


class Credited(float):
    """A cgroup's number of an event, where the engine bpf can't see each switch (counter.Keeper): it equals what it is
    too high for by no more than the event's leeway, and so do sums and differences."""

    EVENTS = {f"perf_cgroup_{event}_total": event for event in ("page_faults", "context_switches")}

    def __new__(cls, value, event):
        made = super().__new__(cls, value)
        made.event = event
        return made

    def __eq__(self, other):
        return float(self) == other or \
            isinstance(other, (int, float)) and 0 <= float(self) - other <= leeway(self.event)

    def __ne__(self, other):
        return not self == other

    __hash__ = float.__hash__

    def __add__(self, other):
        return Credited(float(self) + other, self.event)

    __radd__ = __add__

    def __sub__(self, other):
        return Credited(float(self) - other, self.event)

    def __rsub__(self, other):
        return Credited(other - float(self), self.event)


class Metrics:
    """One exposition, parsed."""

    def __init__(self, text):
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        self.samples = {}
        for family in self.families:
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.samples, f"twice: {sample}"
                event = Credited.EVENTS.get(sample.name) if Engine.keeper else None
                self.samples[key] = Credited(sample.value, event) if event else sample.value
        # Whatever a test is about: cgroups and CPUs add up, at every reading.
        errors = self.get("perfmond_credit_errors_total")
        assert errors in (None, 0), f"{errors} events are credited to nobody, or twice"

    def all(self, name, **labels):
        """The samples of that name which have these labels (and maybe more), as (labels, value)."""
        wanted = set(labels.items())
        return [(dict(have), value) for (sample, have), value in self.samples.items()
                if sample == name and wanted <= have]

    def get(self, name, **labels):
        """The one sample, or None."""
        found = self.all(name, **labels)
        assert len(found) <= 1, f"{name} {labels} is ambiguous: {found}"
        return found[0][1] if found else None

    def value(self, name, **labels):
        value = self.get(name, **labels)
        others = self.all(name) or sorted({sample for sample, _ in self.samples})
        assert value is not None, f"no {name} {labels}; there are {others}"
        return value

    def state(self, event, scope="cpu"):
        """The current state of an event: the one that is 1."""
        states = [labels["state"] for labels, value in self.all("perf_event_state", event=event, scope=scope)
                  if value == 1]
        assert len(states) == 1, f"{event} per {scope} has the states {states}"
        return states[0]


class Delta:
    """What counters rose by between two scrapes."""

    def __init__(self, before, after):
        self.before, self.after = before, after

    def of(self, name, **labels):
        return self.after.value(name, **labels) - self.before.value(name, **labels)


class Engine:
    """By which engine the daemons of a test count cgroups, where their config does not say it: ENGINE in the
    environment says it for the whole run, else the tests do that are marked `engines` (conftest.py). None: as it is
    by default."""

    NAMES = ("perf", "bpf")
    whole_run = os.environ.get("ENGINE")
    name = whole_run
    keeper = None  # a counter.Keeper, where the engine can't see each switch


def leeway(event):
    """By how many a cgroup's count of that event can be too high: nobody compares upper bounds without it."""
    return Engine.keeper.most(event) if Engine.keeper else 0


def with_engine(text):
    """The config, with the test's engine, unless it names one itself."""
    return text if not Engine.name or "engine =" in text else f"{text}\n[cgroup]\nengine = {Engine.name}\n"


def children(pid):
    """The pids of a process's children; none of one that has ended."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def find_profiler(pid):
    """The process that takes samples for the daemon: a child of its keeper, which is a child of its own; or None, also
    while children of one that has died are still there."""
    found = []
    for child in (child for keeper in children(pid) for child in children(keeper)):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if "--profiler" in Path(f"/proc/{child}/cmdline").read_text(errors="replace").split("\0"):
                found.append(child)
    return found[0] if len(found) == 1 else None


class Daemon:
    """A running perfmond. Its standard error is read all the time and kept in `lines`."""

    def __init__(self, config_path, args=(), prefix=(), env=None, binary=PERFMOND, limits=None, fds=()):
        self.config_path = config_path
        command = [*prefix, binary, f"--config={config_path}", *args]
        self.lines = []
        self.url = None
        self.access = {}  # what requests needs to get in: verify, auth
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env={**os.environ, **(env or {})}, pass_fds=fds,
            preexec_fn=(lambda: [resource.setrlimit(*limit) for limit in limits]) if limits else None)
        self.readers = [threading.Thread(target=self._read, args=(stream,), daemon=True)
                        for stream in (self.process.stdout, self.process.stderr)]
        for reader in self.readers:
            reader.start()

    def _read(self, stream):
        for line in stream:
            self.lines.append(line.rstrip("\n"))

    @property
    def pid(self):
        return self.process.pid

    @property
    def profiler(self):
        """The pid of the process that takes samples, when there is one."""
        return until(lambda: find_profiler(self.pid), "the profiler's process")

    @property
    def log(self):
        return "\n".join(self.lines)

    def wait_log(self, pattern, timeout=None, after=0):
        """Waits for a line that matches; `after` is how many lines to leave out."""
        def find():
            for line in self.lines[after:]:
                if found := re.search(pattern, line):
                    return found
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{self.log}"
            return None
        try:
            return until(find, pattern, timeout)
        except AssertionError as error:
            raise AssertionError(f"{error}; the log:\n{self.log}") from None

    def wait_ready(self):
        self.url = self.wait_log(r"listening on (https?://\S+)")[1]
        started, answers = time.monotonic(), []

        def is_ready():
            answer = self.get("/-/ready")
            answers.append(f"{time.monotonic() - started:.2f} s: {answer.text.strip()}")
            return answer.status_code == 200
        try:
            until(is_ready, "ready")
        except AssertionError as error:
            text = "\n".join([f"{error}; what it answered:", *answers[-5:], "the log:", self.log])
            raise AssertionError(text) from None
        return self

    def get(self, path, **kwargs):
        return requests.get(self.url + path, **{"timeout": PATIENCE, **self.access, **kwargs})

    def json(self, path, **params):
        """What the API answers; it is as its description says. Of large ones, that takes too long to see."""
        answer = self.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return openapi.check(answer) if len(answer.content) < 100_000 else answer.json()

    def metrics(self):
        """A scrape, as it comes."""
        answer = self.get("/metrics")
        assert answer.status_code == 200, answer.text
        return Metrics(answer.text)

    def fresh(self):
        """A scrape for which all counters are read anew."""
        time.sleep(FRESH)
        return self.metrics()

    def configure(self, text):
        """Replaces the config file, as a whole."""
        new = self.config_path.with_suffix(".new")
        new.write_text(with_engine(text), encoding="utf-8")
        new.rename(self.config_path)

    def reload(self, text, expect=r"perfmond: reloaded"):
        """Writes another config, sends SIGHUP and waits for what the log should say."""
        self.configure(text)
        after = len(self.lines)
        self.process.send_signal(signal.SIGHUP)
        return self.wait_log(expect, after=after)

    def files(self, pid=None):
        """{fd: what it is} of its open files, or those of another process of it, without those that are closed while
        one looks."""
        folder, found = f"/proc/{pid or self.pid}/fd", {}
        for fd in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                found[int(fd)] = os.readlink(f"{folder}/{fd}")
        return found

    def fds(self, pid=None):
        """What its open files are, as many as there are of each kind."""
        return collections.Counter(re.sub(r"\d+", "", file) for file in self.files(pid).values())

    def mappings(self):
        """What it has mapped that has no path (rings, maps of BPF, memory files), as many as there are of each kind."""
        names = re.findall(r"(?:anon_inode:|/memfd:).*", Path(f"/proc/{self.pid}/maps").read_text())
        return collections.Counter(re.sub(r"\d+", "", name) for name in names)

    def resident(self, pid=None):
        """In bytes; of another process of it, too."""
        return int(Path(f"/proc/{pid or self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def anonymous(self):
        """What of it is its own, in bytes: without files, and without maps of BPF, whose size is the config's."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"RssAnon:\s*(\d+) kB", status)[1]) * 1024

    def end(self, timeout=None):
        """Waits for the end; the exit status."""
        status = self.process.wait(timeout or PATIENCE)
        for reader in self.readers:
            reader.join(PATIENCE)
        assert not SANITIZER_REPORT.search(self.log), self.log
        return status

    def stop(self):
        """SIGTERM, which has to end it cleanly."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.end()
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert status == 0, f"exit status {status}:\n{self.log}"


# Becomes the daemon, with the fds given first as 3, 4, …
PASS = """
import fcntl, os, sys
fds = [int(fd) for fd in sys.argv[1].split(",") if fd]
copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(fds)) for fd in fds]
for fd in fds:
    os.close(fd)
for i, fd in enumerate(copies):
    os.dup2(fd, 3 + i)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(fds)), LISTEN_FDNAMES=sys.argv[2])
os.execvp(sys.argv[3], sys.argv[3:])
"""


def passing(files):
    """What makes a Daemon be passed these files, (name, fd) each, as systemd passes them (sd_listen_fds(3))."""
    fds = [fd for _, fd in files]
    names = ":".join(name for name, _ in files)
    return {"prefix": [sys.executable, "-c", PASS, ",".join(map(str, fds)), names], "fds": fds}


def run(*args, timeout=60, prefix=(), **kwargs):
    """perfmond with these arguments, to its end. A sanitizer's report fails the test."""
    done = subprocess.run([*prefix, PERFMOND, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          errors="replace", timeout=timeout, check=False, **kwargs)
    assert not SANITIZER_REPORT.search(done.stderr), done.stderr
    return done


def as_user(uid, caps=""):
    """What stands in front of a command that another user is to run, with these capabilities alone."""
    caps = ",".join(["-all", *caps.split()])
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", f"--bounding-set={caps}",
            f"--inh-caps={caps}", f"--ambient-caps={caps}"]


def read_paranoid():
    return int(Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii"))


def readable(path):
    os.chmod(path, 0o755)
    return path


class Work:
    """The helper: work of known size, in a cgroup and on a CPU. See work.c for the commands."""

    def __init__(self, cgroup=None, cpu=None, program=WORK):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pids, self.busy = [self.process.pid], False
        if cgroup:
            # A task that is moved while it runs is in between for a moment, in which observers differ.
            self.wait_asleep()
            cgroup.add(self.process.pid)
        if cpu is not None:
            self.do(f"pin {cpu}")
        # Code and stack are touched before anything is measured.
        for command in ("faults 1", "getppid 1", "cpu 1", "ticks 1000 1"):
            self.do(command)

    def fork(self):
        """A partner for `switches`, in the same cgroup and on the same CPU."""
        self.pids.append(self.do("fork"))
        self.do("switches 10")

    def begin(self, command):
        self.busy = True
        self.process.stdin.write(command + "\n")

    def is_done(self):
        """There is an answer for finish(). select() takes no descriptor from 1024 on."""
        poll = select.poll()
        poll.register(self.process.stdout, select.POLLIN)
        return bool(poll.poll(0))

    def finish(self):
        answer = self.process.stdout.readline().split(maxsplit=1)
        self.busy = False
        assert answer and answer[0] == "ok", f"work: {answer}"
        return int(answer[1])

    def do(self, command):
        self.begin(command)
        return self.finish()

    def is_asleep(self):
        """A task is shown as asleep a moment before it is off its CPU, and that switch is counted."""
        return all(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S" and
                   not Path(f"/proc/{pid}/syscall").read_text().startswith("running") for pid in self.pids)

    def wait_asleep(self):
        """Going to sleep is a context switch, and comes after the answer."""
        until(self.is_asleep, "the helper sleeps")

    def switches(self):
        """The kernel's own count of context switches of all its tasks, once all of them sleep."""
        self.wait_asleep()
        total = 0
        for pid in self.pids:
            status = Path(f"/proc/{pid}/status").read_text()
            total += sum(int(n) for n in re.findall(r"^(?:non)?voluntary_ctxt_switches:\s+(\d+)", status, re.M))
        return total

    def faults(self):
        """The kernel's own count of page faults, minor and major."""
        self.wait_asleep()
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[7]) + int(fields[9])

    def stop(self):
        """What nobody has waited for is given up."""
        if self.busy:
            self.process.kill()
        self.process.stdin.close()
        self.process.wait(10)


class Repeated:
    """A helper's command, again and again in the background, until end()."""

    def __init__(self, helper, command):
        self.helper, self.command, self.ending = helper, command, False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.ending:
            self.helper.do(self.command)

    def end(self):
        self.ending = True
        self.thread.join()


class Stalls:
    """For how long others have to wait for a CPU while something is measured: by that much a busy machine alone can
    make an answer late. There is a helper on each CPU that sleeps and looks when it is woken up."""

    def __init__(self, work):
        self.helpers = [work(cpu=cpu) for cpu in online_cpus()]
        for helper in self.helpers:
            helper.begin("stalls")

    def end(self):
        """The longest one, in seconds."""
        for helper in self.helpers:
            helper.begin("")
        return max(helper.finish() for helper in self.helpers) / 1e9


def run_delay(task):
    """For how many seconds a thread wanted a CPU and had none: the first of a process, or "thread-self". 0: the kernel
    does not tell (CONFIG_SCHED_INFO)."""
    path = Path(f"/proc/{task}/schedstat")
    return int(path.read_text().split()[1]) / 1e9 if path.exists() else 0


def stolen():
    """For how many seconds a hypervisor has kept CPUs from this machine, all of them added up (proc(5), steal)."""
    return int(Path("/proc/stat").read_text().split(maxsplit=9)[8]) / os.sysconf("SC_CLK_TCK")


class Timed:
    """How long answers take, apart from the time for which the daemon's loop, or who asks, wanted a CPU and had none,
    or the machine itself: by that much a busy machine alone makes them late. Where the kernel does not tell it, Stalls
    do."""

    def __init__(self, daemon, work):
        self.daemon, self.took = daemon, []
        self.stalls = None if run_delay("thread-self") else Stalls(work)

    def withheld(self):
        return run_delay(self.daemon.pid) + run_delay("thread-self") + stolen()

    @contextlib.contextmanager
    def one(self):
        withheld, start = self.withheld(), time.monotonic()
        yield
        took = time.monotonic() - start
        self.took.append(took - (self.withheld() - withheld))

    def end(self):
        """The seconds of each."""
        stall = self.stalls.end() if self.stalls else 0
        return [took - stall for took in self.took]


def perf_stat(*args):
    """perf stat, in the background; call the result to end it and get {event: value}."""
    (control, tell), (listen, ack) = os.pipe(), os.pipe()
    # It counts nothing (-D -1) before it is told to, and says when it does.
    process = subprocess.Popen(["perf", "stat", "-x,", "-a", "-D", "-1", "--control", f"fd:{control},{ack}", *args],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, pass_fds=(control, ack))
    for fd in (control, ack):
        os.close(fd)

    def finish():
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=30)
        for fd in (tell, listen):
            os.close(fd)
        assert process.returncode in (0, -signal.SIGINT), text
        rows = [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
        return {row[2]: float(row[0]) for row in rows if len(row) > 2}

    os.write(tell, b"enable\n")
    assert os.read(listen, 100).startswith(b"ack"), process.communicate()[1]
    return finish


def perf_cgroup_mount():
    """(path, version) of where the cgroups are that perf events are counted in: a v1 perf_event mount, or else
    cgroup2; None where neither is mounted."""
    found = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = line.split(" - ")
        kind, _, options = after.split()[:3]
        if kind == "cgroup" and "perf_event" in options.split(","):
            found[1] = Path(before.split()[4])
        elif kind == "cgroup2":
            found.setdefault(2, Path(before.split()[4]))
    return next(((found[version], version) for version in (1, 2) if version in found), None)


def perf_v1_hierarchy():
    """The number of the v1 hierarchy that perf_event is in; 0: it is with cgroup2; None: not known."""
    path = Path("/proc/cgroups")
    found = re.search(r"^perf_event\t(\d+)", path.read_text() if path.exists() else "", re.M)
    return int(found[1]) if found else None


class Cgroup:
    """A cgroup of the tests' own."""

    def __init__(self, path, mount):
        self.path, self.mount = path, mount
        self.path.mkdir()

    @property
    def label(self):
        return "/" + str(self.path.relative_to(self.mount))

    def make(self, name):
        return Cgroup(self.path / name, self.mount)

    def add(self, pid):
        (self.path / "cgroup.procs").write_text(str(pid))

    def usage_usec(self):
        """CPU time by cpu.stat."""
        return int(re.search(r"usage_usec (\d+)", (self.path / "cpu.stat").read_text())[1])

    def dying(self):
        """How many removed cgroups below it the kernel still keeps; 0 where it does not say."""
        path = self.path / "cgroup.stat"
        found = re.search(r"nr_dying_descendants (\d+)", path.read_text()) if path.exists() else None
        return int(found[1]) if found else 0

    def remove(self):
        """With all below it. Whoever is still in it is sent out first."""
        for path, _, _ in os.walk(self.path, topdown=False):
            until(lambda path=path: self._try_remove(Path(path)), f"rmdir {path}")

    def _try_remove(self, path):
        try:
            for pid in (path / "cgroup.procs").read_text().split():
                (self.mount / "cgroup.procs").write_text(pid)
            path.rmdir()
        except (FileNotFoundError, ProcessLookupError):
            return not path.exists()
        except OSError:
            return False
        return True


class Reference:
    """Page faults of a cgroup on all CPUs, by perf events of the tests' own. The kernel's count of a task's page
    faults can differ by one or two: a fault that has to be begun anew is an event twice."""

    CALL = {"x86_64": 298, "aarch64": 241}
    SOFTWARE, PAGE_FAULTS, PID_CGROUP, CLOEXEC = 1, 2, 4, 8

    def __init__(self, cgroup):
        libc = ctypes.CDLL(None, use_errno=True)
        attr = struct.pack("IIQ", self.SOFTWARE, 128, self.PAGE_FAULTS).ljust(128, b"\0")
        directory = os.open(cgroup.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.fds = [libc.syscall(self.CALL[os.uname().machine], attr, directory, cpu, -1,
                                     self.PID_CGROUP | self.CLOEXEC) for cpu in online_cpus()]
        finally:
            os.close(directory)
        assert min(self.fds) >= 0, os.strerror(ctypes.get_errno())

    def read(self):
        return sum(struct.unpack("Q", os.read(fd, 8))[0] for fd in self.fds)

    def close(self):
        for fd in self.fds:
            os.close(fd)


def nr_cgroups(mount):
    """All that there are, the root among them."""
    return sum(1 for _ in os.walk(mount))


taken_ports = []


def free_port():
    """None of those that the kernel gives out by itself (ip_local_port_range), and one for each caller, also in other
    processes: until this one ends, a Unix socket's name keeps it. Nobody gets it meanwhile."""
    while True:
        port = random.randrange(20000, 32000)
        with contextlib.suppress(OSError), socket.socket() as s, contextlib.ExitStack() as keeps:
            name = keeps.enter_context(socket.socket(socket.AF_UNIX))
            name.bind(f"\0perfmond-test-port-{port}")
            s.bind(("127.0.0.1", port))
            taken_ports.append(keeps.pop_all())
            return port


def online_cpus():
    cpus = []
    for part in Path("/sys/devices/system/cpu/online").read_text().strip().split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus
