# SPDX-License-Identifier: MIT
"""Fixtures of the tests that watch a daemon. A suite's conftest.py imports those that it wants.

A fixture requires what it needs of the machine (lib/machine.py).
"""

import contextlib
import fcntl
import itertools
import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import harness
import machine
import profiling
import tree
from counter import Keeper
from credentials import Files
from fdstore import FdStore, Service
from prometheus import Prometheus


numbers = itertools.count()


@pytest.fixture(autouse=True)
def engine(request):
    """By which the test's daemons count cgroups."""
    harness.Engine.name = getattr(request, "param", harness.Engine.whole_run)
    if harness.Engine.name == "bpf":
        machine.require("bpf")
    credits = harness.Engine.name != "perf" and Keeper.is_there() and not machine.why_lacks("bpf")
    harness.Engine.keeper = keeper = Keeper() if credits else None
    yield harness.Engine.name
    harness.Engine.name, harness.Engine.keeper = harness.Engine.whole_run, None
    if keeper:
        keeper.close()


@pytest.fixture(scope="session")
def privileged():
    machine.require("root")


@contextlib.contextmanager
def daemons(folder):
    """Starts daemons, each with a config of its own, and stops them at the end: SIGTERM has to end each with
    status 0, and a sanitizer must have nothing to say."""
    running = []

    def start(config="", ready=True, access=None, **kwargs):
        path = folder / f"perfmond-{len(running)}.conf"
        path.write_text(harness.with_engine(with_listen(config)), encoding="utf-8")
        daemon = harness.Daemon(path, **kwargs)
        daemon.access = access or {}
        running.append(daemon)
        return daemon.wait_ready() if ready else daemon

    yield start
    # All of them, also where one has failed.
    with contextlib.ExitStack() as ends:
        for daemon in reversed(running):
            ends.callback(daemon.stop)


@pytest.fixture
def perfmond(tmp_path, privileged):
    with daemons(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def shared_perfmond(tmp_path_factory, privileged):
    """The daemon of a file of tests with this config, and this engine: the first test that asks for it starts it. For
    tests that only look, or that count in cgroups of their own below shared_cgroups."""
    running = {}
    with daemons(tmp_path_factory.mktemp("shared")) as start:
        def get(config="", **kwargs):
            key = config, harness.Engine.name, repr(sorted(kwargs.items()))
            if key not in running:
                running[key] = start(config, **kwargs)
            return running[key]
        yield get


def with_listen(config):
    """A free port of 127.0.0.1, where a config does not say where to listen."""
    return config if "listen" in config else config + "\n[web]\nlisten = 127.0.0.1:0\n"


@pytest.fixture
def prometheus(tmp_path):
    """Starts a Prometheus server with these jobs and rule files."""
    tree.provide("prometheus")
    running = []

    def start(*args, **kwargs):
        running.append(Prometheus(tmp_path, *args, **kwargs))
        return running[-1].wait_ready()

    yield start
    for server in running:
        server.stop()


@contextlib.contextmanager
def made_cgroup(name):
    """A cgroup in which tests make their own; all of them are removed at the end."""
    machine.require("cgroup")
    mount, version = harness.perf_cgroup_mount()
    if harness.perf_v1_hierarchy() and version == 2:
        pytest.fail("perf_event is in a v1 hierarchy that is mounted nowhere: mount it and unmount it again")
    top = harness.Cgroup(mount / f"perfmond-{name}-{os.getpid()}-{secrets.token_hex(2)}", mount)
    try:
        yield top
    finally:
        top.remove()


@pytest.fixture
def cgroups(privileged):
    with made_cgroup("test") as top:
        yield top


@pytest.fixture(scope="module")
def shared_cgroups(privileged):
    """Of a file of tests."""
    with made_cgroup("tests") as top:
        yield top


@pytest.fixture
def own_cgroup(shared_cgroups):
    """A test's own, below that of its file: whatever it makes there has a name that no other run of it has."""
    top = shared_cgroups.make(f"test{next(numbers)}")
    yield top
    top.remove()


@contextlib.contextmanager
def helpers():
    """Starts helpers. They end before the cgroups they are in are removed."""
    running = []

    def start(*args, **kwargs):
        helper = harness.Work(*args, **kwargs)
        running.append(helper)
        return helper

    yield start
    for helper in running:
        helper.stop()


@pytest.fixture
def work(privileged):
    with helpers() as start:
        yield start


@pytest.fixture(scope="module")
def shared_work(shared_cgroups):
    with helpers() as start:
        yield start


def find_tracefs():
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        if " - tracefs " in line:
            return Path(line.split()[4])
    return None


def mount_tracefs(where):
    subprocess.run(["mount", "-t", "tracefs", "nodev", where], check=True)


@pytest.fixture(scope="session")
def tracefs(privileged):
    """The root of tracefs; mounted for the tests and unmounted again where it was not mounted. Several runs at a time
    share it: the first one mounts it, the last one unmounts it."""
    machine.require("tracefs")
    with open(Path(tempfile.gettempdir()) / "perfmond-tracefs.lock", "a+", encoding="ascii") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.truncate(0)
                if not find_tracefs():
                    mount_tracefs("/sys/kernel/tracing")
                    lock.write("mounted")
                    lock.flush()
            except BlockingIOError:
                pass
            fcntl.flock(lock, fcntl.LOCK_SH)
            if found := find_tracefs():
                break
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield found
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.seek(0)
            if lock.read():
                lock.truncate(0)
                # It is busy while somebody looks into it.
                harness.until(lambda: subprocess.run(["umount", found], check=False).returncode == 0, f"umount {found}")


@pytest.fixture
def whole_machine():
    """For tests that change what all see: the online CPUs, or where cgroups are counted. One at a time, and none while
    a container's service is tested."""
    with open(Path(tempfile.gettempdir()) / "perfmond-machine.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def debug_registers(turn_of_debug_registers):
    """They fire."""
    machine.require("breakpoint")


@pytest.fixture
def turn_of_debug_registers():
    """A CPU has four: tests that need some of them go one after the other on this machine. Before `perfmond`, so that
    they are free again when the next one begins."""
    with open(Path(tempfile.gettempdir()) / "perfmond-breakpoints.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def binary_for_all(privileged, tmp_path_factory):
    """What a daemon behind a prefix that makes it another user needs: a binary which everyone may run."""
    folder = tmp_path_factory.mktemp("binary")
    for part in itertools.takewhile(lambda part: part != Path(tempfile.gettempdir()), [folder, *folder.parents]):
        os.chmod(part, 0o755)
    binary = shutil.copy(harness.PERFMOND, folder / "perfmond")
    os.chmod(binary, 0o755)
    # A coverage build could not write its counts there.
    return lambda prefix: {"prefix": prefix, "binary": binary, "env": {"GCOV_PREFIX": "/nonexistent"}}


@pytest.fixture
def nobody(binary_for_all):
    """The daemon as a user without any privilege."""
    return binary_for_all(harness.as_user(65534))


@pytest.fixture
def bpf(privileged):
    machine.require("bpf")


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


@pytest.fixture
def cpus():
    return harness.online_cpus()


# --- profiles

@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    return profiling.Programs(tmp_path_factory.mktemp("programs"))


@contextlib.contextmanager
def burners(programs, folder):
    """Builds programs that burn CPU time, and starts them in cgroups."""
    running = []

    def start(name, cgroup, hot=3, flags=()):
        program = folder / name
        if not program.exists():
            programs.make(profiling.BURNER.format(hot=hot), program, flags)
        process = subprocess.Popen([program], preexec_fn=lambda: cgroup.add(os.getpid()))
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.fixture
def burner(programs, tmp_path):
    with burners(programs, tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def shared_burner(programs, tmp_path_factory):
    with burners(programs, tmp_path_factory.mktemp("burners")) as start:
        yield start


# --- restarts

@pytest.fixture
def new_store(tmp_path):
    made = []

    def make(**kwargs):
        made.append(FdStore(tmp_path, **kwargs))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def new_service(tmp_path, privileged, new_store):
    made = []

    def make(*args, **kwargs):
        made.append(Service(tmp_path, *args, **kwargs))
        return made[-1]

    yield make
    for service in made:
        if service.daemon and service.daemon.process.poll() is None:
            service.stop()


@pytest.fixture
def store(new_store):
    return new_store()


@pytest.fixture
def service(new_service, store):
    return new_service(store)


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    return folder
