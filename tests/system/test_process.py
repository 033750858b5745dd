# SPDX-License-Identifier: MIT
"""The process: its files, its protocol with systemd, and what it does with less than it would like."""

import contextlib
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import time

import pytest
import requests

from harness import PATIENCE, PERFMOND, SANITIZED, as_user, readable, run, until
from machine import needs

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


def test_it_has_one_thread(perfmond, cgroups):
    """Beside the one that writes answers, and apart from those that read the mappings of sampled processes, and that
    close what others have removed."""
    daemon = perfmond(f"[profiles]\nenabled = no\n[cgroup]\ninclude = {cgroups.label}\n")
    daemon.metrics()
    assert len(os.listdir(f"/proc/{daemon.pid}/task")) == 2


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


def test_a_limit_of_24_files_is_enough_to_answer(perfmond, cgroups):
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n", limits=[(resource.RLIMIT_NOFILE, (24, 24))])
    assert daemon.metrics().value("perfmond_up") == 1


def test_half_requests_use_up_no_files(perfmond):
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


@needs("paranoid")
def test_without_privileges_it_starts_and_says_what_it_lacks(perfmond, nobody, tmp_path):
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


@needs("cap-perfmon")
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


def test_a_tracepoint_is_denied_where_tracefs_is_not_readable(perfmond, nobody, tracefs, tmp_path):
    readable(tmp_path)
    daemon = perfmond(TRACEPOINT, **nobody)
    events = {e["text"]: e for e in daemon.json("/api/v1/events")["events"]}
    event = events["syscalls:sys_enter_getppid"]
    assert event["state"] == "denied"
    assert str(tracefs) in event["reason"] and event["absent"] == "EACCES"


@needs("cap-perfmon")
def test_a_list_of_tracepoints_stands_in_for_tracefs(perfmond, counter, cgroups, work, cpus, tracefs, tmp_path):
    """Root saves it (--save-tracepoints), and a daemon with CAP_PERFMON alone counts by it."""
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


def test_a_list_of_tracepoints_is_ignored_where_tracefs_is_readable(tracefs, tmp_path):
    (tmp_path / "tracepoints").write_text("made:up 1\n")
    done = run("--list-events=*:*", env={**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)})
    assert "syscalls:sys_enter_getppid" in done.stdout and "made:up" not in done.stdout


@needs("mount-namespace")
def test_save_tracepoints_without_tracefs_writes_no_file(privileged, tmp_path):
    """It is a sentence on standard error."""
    done = run(f"--save-tracepoints={tmp_path}/list", prefix=WITHOUT_TRACEFS)
    assert done.returncode == 1
    assert "mount -t tracefs" in done.stderr
    assert not list(tmp_path.iterdir())
    done = run(f"--save-tracepoints={tmp_path}/none/list")
    assert done.returncode == 1 and done.stderr.count("\n") == 1


@needs("mount-namespace")
def test_a_tracepoint_is_unsupported_where_tracefs_is_not_mounted(perfmond):
    """In a mount namespace of its own."""
    daemon = perfmond(TRACEPOINT, prefix=WITHOUT_TRACEFS)
    events = {e["text"]: e for e in daemon.json("/api/v1/events")["events"]}
    event = events["syscalls:sys_enter_getppid"]
    assert event["state"] == "unsupported" and event["absent"]
    assert "tracefs" in event["reason"] and "mount" in event["reason"]
    assert events["page-faults"]["state"] == "ok"
    assert daemon.metrics().all("perf_cpu_page_faults_total")


@needs("mount-namespace")
def test_without_a_cgroup_hierarchy_it_counts_cpus_and_tells_why(perfmond, cpus):
    hide = "umount -l -R /sys/fs/cgroup; umount -a -l -t cgroup,cgroup2; exec \"$@\""
    daemon = perfmond("", prefix=["unshare", "--mount", "sh", "-c", hide, "sh"])
    metrics = daemon.metrics()
    assert len(metrics.all("perf_cpu_context_switches_total")) == len(cpus)
    assert metrics.all("perf_cgroup_context_switches_total") == []
    assert metrics.state("context_switches", "cgroup") == "unsupported"
    daemon.wait_log("cgroup")


@needs("mount-namespace")
def test_without_sys_it_says_so(privileged, tmp_path):
    hide = "mount -t tmpfs none /sys; exec \"$@\""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", PERFMOND, "--check"], capture_output=True,
                          text=True, timeout=PATIENCE, check=False)
    assert done.returncode in (1, 2)
    assert "/sys" in done.stdout + done.stderr


@needs("no-pmu")
def test_without_a_pmu_hardware_events_are_unsupported(shared_perfmond):
    """Each with the reason, and all else counts. Where there is a PMU, tests/hardware has the opposite."""
    daemon = shared_perfmond("")
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


def test_systemd_is_told_ready_status_reloading_watchdog_and_stopping(perfmond, notify):
    """It listens before it says READY=1; the watchdog's messages come again and again."""
    daemon = perfmond("[daemon]\ninterval = 100ms\n", ready=False,
                      env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "1000000"})
    first = notify.until("READY", "1")
    daemon.url = daemon.wait_log(r"listening on (http://\S+)")[1]
    assert daemon.get("/-/healthy").status_code == 200
    assert not any("STOPPING" in message or "RELOADING" in message for message in first)
    told = [message["STATUS"] for message in first if "STATUS" in message] or [notify.until("STATUS")[-1]["STATUS"]]
    assert "events" in told[-1] and "cgroups" in told[-1]
    for _ in range(2):
        notify.until("WATCHDOG", "1")

    asked = time.monotonic()
    daemon.process.send_signal(signal.SIGHUP)
    reloading = notify.until("RELOADING", "1")[-1]
    assert int(asked * 1e6) <= int(reloading["MONOTONIC_USEC"]) <= time.monotonic() * 1e6
    notify.until("READY", "1")

    daemon.process.terminate()
    notify.until("STOPPING", "1")
    assert daemon.end() == 0


@pytest.mark.deep
@pytest.mark.alone
def test_the_watchdog_is_fed_in_time(perfmond, notify):
    """Within the time that systemd grants, but where the machine stood still; and by nothing while the loop stands."""
    daemon = perfmond("", env={"NOTIFY_SOCKET": notify.path, "WATCHDOG_USEC": "1000000"})
    gaps = []
    for _ in range(6):
        start = time.monotonic()
        notify.until("WATCHDOG", "1")
        gaps.append(time.monotonic() - start)
    assert sorted(gaps)[3] < 1, gaps
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(0.1)
        notify.socket.settimeout(2)
        with pytest.raises(TimeoutError):
            while True:
                notify.receive()
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def test_systemd_is_not_told_ready_with_a_bad_config(notify, tmp_path):
    path = tmp_path / "bad.conf"
    path.write_text("[daemon]\nnonsense = 1\n")
    done = run(f"--config={path}", env={**os.environ, "NOTIFY_SOCKET": notify.path})
    assert done.returncode != 0
    notify.socket.setblocking(False)  # all that it has sent is there
    with pytest.raises(BlockingIOError):
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

@pytest.mark.deep
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


def resident_kb(daemon):
    daemon.metrics()
    text = open(f"/proc/{daemon.pid}/status", encoding="ascii").read()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text)[1])


@pytest.mark.once
def test_its_resident_memory_is_below_20_mb(perfmond, cgroups):
    """Without profiles, whose memory is that of all that runs on the machine."""
    assert resident_kb(perfmond(f"[profiles]\nenabled = no\n[cgroup]\ninclude = {cgroups.label}\n")) < 20000


@pytest.mark.deep
@pytest.mark.alone
@pytest.mark.once
def test_its_resident_memory_is_below_20_mb_with_the_defaults(perfmond):
    """When it has just begun to sample a machine on which little runs."""
    assert resident_kb(perfmond("")) < 20000
