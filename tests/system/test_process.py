# SPDX-License-Identifier: MIT
"""The process: its files, its protocol with systemd, and what it does with less than it would like."""

import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest
import requests

import pmu
from harness import PATIENCE, PERFMOND, SANITIZED, as_user, read_paranoid, readable, run, until

O_CLOEXEC = 0o2000000


def test_all_files_are_close_on_exec(perfmond, cgroups):
    cgroups.make("a").make("b")
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n")
    daemon.metrics()
    seen = set()
    for fd in os.listdir(f"/proc/{daemon.pid}/fd"):
        try:
            link = os.readlink(f"/proc/{daemon.pid}/fd/{fd}")
            info = open(f"/proc/{daemon.pid}/fdinfo/{fd}", encoding="ascii").read()
        except FileNotFoundError:
            continue  # the connection of the scrape above, which is about to be closed
        if int(fd) > 2:
            seen.add(re.sub(r"\d+", "", link))
            assert int(re.search(r"flags:\s+(\d+)", info)[1], 8) & O_CLOEXEC, f"{fd}: {link}"
    for kind in ("perf_event", "inotify", "eventpoll", "signalfd", "timerfd", "socket"):
        assert any(kind in link for link in seen), f"{kind} is not among {seen}"


def test_one_thread(perfmond, cgroups):
    """Apart from those that read the mappings of sampled processes, and that close what others have removed."""
    daemon = perfmond(f"[profiles]\nenabled = no\n[cgroup]\ninclude = {cgroups.label}\n")
    daemon.metrics()
    assert len(os.listdir(f"/proc/{daemon.pid}/task")) == 1


def test_the_soft_limit_of_files_is_raised(perfmond):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    daemon = perfmond("", limits=[(resource.RLIMIT_NOFILE, (64, hard))])
    assert daemon.metrics().value("perfmond_max_fds") == hard
    text = open(f"/proc/{daemon.pid}/limits", encoding="ascii").read()
    assert re.search(r"Max open files\s+(\d+)", text)[1] == str(hard)


def test_a_low_limit_of_files_leaves_cgroups_out(perfmond, cgroups, cpus):
    """What does not fit is named and counted, and the rest works: HTTP above all."""
    limit = 64 * max(2, len(cpus))  # what the CPUs take of it is less than half, with the events of a PMU, too
    for i in range(40):
        cgroups.make(f"g{i}")
    daemon = perfmond(f"[cgroup]\nengine = perf\ninclude = {cgroups.label}/**\n",
                      limits=[(resource.RLIMIT_NOFILE, (limit, limit))])
    metrics = daemon.fresh()
    assert metrics.value("perfmond_max_fds") == limit
    left_out = metrics.value("perfmond_cgroups", state="over_fds")
    assert left_out > 0
    assert metrics.value("perfmond_cgroups", state="counted") == 40 - left_out
    assert metrics.state("context_switches") == "ok"
    assert len(metrics.all("perf_cpu_context_switches_total")) == len(cpus)
    reasons = {c["reason"] for c in daemon.json("/api/v1/cgroups")["cgroups"] if c["status"] == "over_fds"}
    assert reasons and all("LimitNOFILE" in reason for reason in reasons)
    assert any("open files" in problem for problem in daemon.json("/api/v1/status")["problems"])
    assert len(os.listdir(f"/proc/{daemon.pid}/fd")) < limit


def test_hardly_any_files_at_all(perfmond, cgroups):
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n", limits=[(resource.RLIMIT_NOFILE, (24, 24))])
    assert daemon.metrics().value("perfmond_up") == 1


def test_few_files_and_many_connections(perfmond):
    """Half requests, which are gone or go on, keep nobody else from an answer, and the machine can be looked at."""
    events = "page-faults, minor-faults, major-faults, cpu-migrations, task-clock, cpu-clock, context-switches, dummy"
    # Places are given up for others, long before a request's time is up.
    daemon = perfmond(f"[cpu]\ngroups = g\n[group \"g\"]\nevents = {events}\nalone = yes\n[cgroup]\ngroups =\n"
                      "[web]\nlisten = 127.0.0.1:0\nrequest_timeout = 5min\n",
                      limits=[(resource.RLIMIT_NOFILE, (32, 32))])
    host, port = daemon.url.removeprefix("http://").split(":")
    for stays in (False, True):
        half = [socket.create_connection((host, int(port))) for _ in range(70)]
        for connection in half:
            # One that was slow, since this process was, has lost its place already.
            with contextlib.suppress(ConnectionError):
                connection.send(b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n")
            if not stays:
                connection.close()
        until(lambda: answers(daemon), "it answers")
        for connection in half:
            connection.close()
        until(lambda: daemon.metrics().value("perfmond_connections") == 1, "the others are gone")
    assert "Too many open files" not in daemon.log


def answers(daemon):
    try:
        return daemon.get("/-/healthy").status_code == 200
    except requests.ConnectionError:
        return False


# --- privileges

@pytest.fixture
def counter(binary_for_all):
    """The same with CAP_PERFMON."""
    return binary_for_all(as_user(65534, "+perfmon"))


def test_without_privileges_it_starts_and_says_what_it_lacks(perfmond, nobody, tmp_path):
    if read_paranoid() <= 0:
        pytest.skip("kernel.perf_event_paranoid lets everyone count whole CPUs")
    readable(tmp_path)
    daemon = perfmond("", **nobody)
    metrics = daemon.metrics()
    assert metrics.state("context_switches") == "denied"
    assert metrics.state("context_switches", "cgroup") == "denied"
    assert metrics.all("perf_cpu_context_switches_total") == [], "what is not measured is absent"
    daemon.wait_log(r"denied: .*CAP_PERFMON")
    status = daemon.json("/api/v1/status")
    assert status["privileges"]["may_count_cpus"] is False
    assert status["privileges"]["capabilities"] == []
    assert any("CAP_PERFMON" in problem for problem in status["problems"])
    reasons = [e["reason"] for e in daemon.json("/api/v1/events")["events"] if e["state"] == "denied"]
    assert reasons and all("CAP_PERFMON" in reason for reason in reasons)


def test_cap_perfmon_is_enough(perfmond, counter, cgroups, work, cpus, tmp_path):
    readable(tmp_path)
    group = cgroups.make("counted")
    helper = work(group, cpus[0])
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n", **counter)
    before = daemon.fresh().value("perf_cgroup_page_faults_total", cgroup=group.label)
    helper.do("faults 555")
    assert daemon.fresh().value("perf_cgroup_page_faults_total", cgroup=group.label) - before == 555
    assert daemon.json("/api/v1/status")["privileges"]["capabilities"] == ["CAP_PERFMON"]


TRACEPOINT = '[cpu]\ngroups = trace\n[cgroup]\ngroups =\n[group "trace"]\n' \
             'events = page-faults, syscalls:sys_enter_getppid\n'
WITHOUT_TRACEFS = ["unshare", "--mount", "sh", "-c",
                   'umount -l -t tracefs -a 2>/dev/null; umount -l /sys/kernel/debug 2>/dev/null; exec "$@"', "sh"]


def test_tracefs_that_is_not_readable(perfmond, nobody, tracefs, tmp_path):
    readable(tmp_path)
    daemon = perfmond(TRACEPOINT, **nobody)
    events = {e["text"]: e for e in daemon.json("/api/v1/events")["events"]}
    event = events["syscalls:sys_enter_getppid"]
    assert event["state"] == "denied"
    assert str(tracefs) in event["reason"] and event["absent"] == "EACCES"


def test_a_list_for_who_may_not_read_tracefs(perfmond, counter, cgroups, work, cpus, tracefs, tmp_path):
    """Root saves it, and it counts by it with CAP_PERFMON alone."""
    group = cgroups.make("traced")
    helper = work(group, cpus[0])
    done = run(f"--save-tracepoints={tmp_path}/tracepoints")
    assert done.returncode == 0 and not done.stdout, done.stderr
    assert stat.S_IMODE(os.stat(tmp_path / "tracepoints").st_mode) == 0o644
    readable(tmp_path)
    user = {**counter, "env": {**counter["env"], "RUNTIME_DIRECTORY": f"{tmp_path}:/elsewhere"}}
    daemon = perfmond(TRACEPOINT.replace("[cgroup]\ngroups =", f"[cgroup]\ngroups = trace\ninclude = {group.label}"),
                      **user)
    status = daemon.json("/api/v1/status")
    assert status["privileges"]["capabilities"] == ["CAP_PERFMON"]
    assert status["tracefs"] == f"{tmp_path}/tracepoints"
    name = "perf_cgroup_syscalls_sys_enter_getppid_total"
    before = daemon.fresh().value(name, cgroup=group.label)
    helper.do("getppid 1234")
    assert daemon.fresh().value(name, cgroup=group.label) - before == 1234

    (tmp_path / "tracepoints").write_text("sched:sched_switch 1\n")
    # What is open goes on without its name; who starts with that list has none of it.
    daemon.reload(TRACEPOINT + "[web]\nlisten = 127.0.0.1:0\n")
    events = {e["text"]: e for e in daemon.json("/api/v1/events")["events"]}
    assert events["syscalls:sys_enter_getppid"]["state"] == "ok"
    daemon.stop()
    daemon = perfmond(TRACEPOINT, **user)
    events = {e["text"]: e for e in daemon.json("/api/v1/events")["events"]}
    assert events["syscalls:sys_enter_getppid"]["absent"] == "ENOENT"
    assert f"{tmp_path}/tracepoints" in events["syscalls:sys_enter_getppid"]["reason"]
    assert events["page-faults"]["state"] == "ok"


def test_tracefs_is_taken_where_it_can_be_read(tracefs, tmp_path):
    """Whatever a list says."""
    (tmp_path / "tracepoints").write_text("made:up 1\n")
    done = run("--list-events=*:*", env={**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)})
    assert "syscalls:sys_enter_getppid" in done.stdout and "made:up" not in done.stdout


def test_nothing_to_save(privileged, tmp_path):
    """A sentence, and no file."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare (util-linux)")
    done = run(f"--save-tracepoints={tmp_path}/list", prefix=WITHOUT_TRACEFS)
    assert done.returncode == 1
    assert "mount -t tracefs" in done.stderr
    assert not list(tmp_path.iterdir())
    done = run(f"--save-tracepoints={tmp_path}/none/list")
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_tracefs_that_is_not_mounted(perfmond, privileged):
    """In a mount namespace of its own."""
    if not shutil.which("unshare"):
        pytest.skip("needs unshare (util-linux)")
    daemon = perfmond(TRACEPOINT, prefix=WITHOUT_TRACEFS)
    events = {e["text"]: e for e in daemon.json("/api/v1/events")["events"]}
    event = events["syscalls:sys_enter_getppid"]
    assert event["state"] == "unsupported" and event["absent"]
    assert "tracefs" in event["reason"] and "mount" in event["reason"]
    assert events["page-faults"]["state"] == "ok"
    assert daemon.metrics().all("perf_cpu_page_faults_total")


def test_without_cgroups(perfmond, privileged, cpus):
    """No hierarchy at all: CPUs are counted, and the reason is told."""
    hide = "umount -l -R /sys/fs/cgroup; umount -a -l -t cgroup,cgroup2; exec \"$@\""
    daemon = perfmond("", prefix=["unshare", "--mount", "sh", "-c", hide, "sh"])
    metrics = daemon.metrics()
    assert len(metrics.all("perf_cpu_context_switches_total")) == len(cpus)
    assert metrics.all("perf_cgroup_context_switches_total") == []
    assert metrics.state("context_switches", "cgroup") == "unsupported"
    daemon.wait_log("cgroup")


def test_without_proc_and_sys_it_says_so(privileged, tmp_path):
    hide = "mount -t tmpfs none /sys; exec \"$@\""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", PERFMOND, "--check"], capture_output=True,
                          text=True, timeout=30, check=False)
    assert done.returncode in (1, 2)
    assert "/sys" in done.stdout + done.stderr


def test_no_pmu_is_no_reason_not_to_run(perfmond, privileged, cpus):
    """Where no core PMU is, hardware events are unsupported, each with the reason, and all else counts. Where one is,
    tests/hardware has the same the other way round."""
    if any(pmu.opens(name, cpus[0]) for name in pmu.EVENTS):
        pytest.skip("this machine has a PMU")
    daemon = perfmond("")
    states = {(e["scope"], e["event"]): e for e in daemon.json("/api/v1/events")["events"]}
    for name in ("cycles", "instructions", "cache_misses", "branch_misses"):
        assert states["cpu", name]["state"] == "unsupported"
        assert "PMU" in states["cpu", name]["reason"]
    assert states["cpu", "context_switches"]["state"] == "ok"
    assert run("--check", f"--config={daemon.config_path}").returncode == 2


# --- the protocol with systemd

class NotifySocket:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.socket.bind(str(path))
        self.socket.settimeout(PATIENCE)
        self.path = str(path)

    def receive(self):
        """One message, as a dict."""
        return dict(line.split("=", 1) for line in self.socket.recv(65536).decode().splitlines())

    def until(self, key, value=None):
        """Messages up to one that has key (=value)."""
        seen = []
        while True:
            message = self.receive()
            seen.append(message)
            if key in message and value in (None, message[key]):
                return seen


@pytest.fixture
def notify(tmp_path):
    notify = NotifySocket(tmp_path / "notify")
    yield notify
    notify.socket.close()


def test_sd_notify(perfmond, notify):
    daemon = perfmond("[daemon]\ninterval = 100ms\n", env={"NOTIFY_SOCKET": notify.path})
    first = notify.until("READY", "1")
    assert not any("STOPPING" in message or "RELOADING" in message for message in first)
    status = notify.until("STATUS")[-1]["STATUS"] if not any("STATUS" in m for m in first) else \
        [m["STATUS"] for m in first if "STATUS" in m][-1]
    assert "events" in status and "cgroups" in status

    asked = time.monotonic()
    daemon.process.send_signal(signal.SIGHUP)
    reloading = notify.until("RELOADING", "1")[-1]
    assert int(asked * 1e6) <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic() * 1e6
    notify.until("READY", "1")

    daemon.process.terminate()
    notify.until("STOPPING", "1")
    assert daemon.end() == 0


def test_it_listens_when_it_says_ready(perfmond, notify):
    daemon = perfmond("", ready=False, env={"NOTIFY_SOCKET": notify.path})
    notify.until("READY", "1")
    daemon.url = daemon.wait_log(r"listening on (http://\S+)")[1]
    assert daemon.get("/-/healthy").status_code == 200


def test_the_watchdog_is_fed_by_the_loop(perfmond, notify):
    daemon = perfmond("", env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "1000000"})
    gaps = []
    for _ in range(6):
        start = time.monotonic()
        notify.until("WATCHDOG", "1")
        gaps.append(time.monotonic() - start)
    assert sorted(gaps)[3] < 1, f"within the time, but where the machine stood still: {gaps}"
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(0.1)
        notify.socket.settimeout(2)
        with pytest.raises(TimeoutError):
            while True:
                notify.receive()
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def test_no_ready_with_a_bad_config(notify, tmp_path):
    path = tmp_path / "bad.conf"
    path.write_text("[daemon]\nnonsense = 1\n")
    done = run(f"--config={path}", env={**os.environ, "NOTIFY_SOCKET": notify.path})
    assert done.returncode != 0
    notify.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        notify.until("READY")


def test_log_lines_have_priorities_for_the_journal(perfmond, tmp_path, privileged):
    """$JOURNAL_STREAM names standard error's inode: lines then begin with sd-daemon's <N>."""
    wrapper = 'exec 2>"$0"; JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"'
    log = tmp_path / "journal"
    daemon = perfmond("", ready=False, prefix=["sh", "-c", wrapper, str(log)])
    until(lambda: log.exists() and "listening on" in log.read_text(), "it has begun")
    daemon.stop()
    for line in log.read_text().splitlines():
        assert re.match(r"<[3-7]>", line), line


# --- cost

@pytest.mark.once
def test_memory_does_not_grow(perfmond, cgroups):
    """Thousands of readings and scrapes, reloads and cgroups that come and go: what is taken is given back. Samples
    fill their own memory, up to its bound (test_profile_life.py)."""
    assert not SANITIZED
    daemon = perfmond(f"[daemon]\ninterval = 10ms\n[profiles]\nenabled = no\n"
                      f"[cgroup]\nlinger = 0s\ninclude = {cgroups.label}/**\n")

    def load():
        for _ in range(40):
            group = cgroups.make("x")
            daemon.metrics()
            daemon.json("/api/v1/snapshot")
            group.remove()
            daemon.process.send_signal(signal.SIGHUP)

    def kept():
        """While nothing is in progress: a reload takes memory for two configs, an answer for itself."""
        daemon.metrics()  # signals come before
        seen = []
        for _ in range(20):
            seen.append(daemon.anonymous())
            time.sleep(0.02)
        return min(seen)

    load()
    before = kept()
    for _ in range(5):
        load()
    assert kept() - before < 300000


@pytest.mark.once
def test_it_is_small(perfmond):
    daemon = perfmond("")
    daemon.metrics()
    text = open(f"/proc/{daemon.pid}/status", encoding="ascii").read()
    assert int(re.search(r"VmRSS:\s+(\d+) kB", text)[1]) < 20000
