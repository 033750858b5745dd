# SPDX-License-Identifier: MIT
"""perfmond.service as it is installed, under systemd. A unit can be active and count nothing: each test looks
at the counters."""

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from booted import CAP_BPF, CAP_PERFMON, CONFIG, DROP_INS, hard_limit, journal, metrics, show, until, value

DROP_IN = f"{DROP_INS}/test.conf"


def test_it_starts_and_counts(service):
    assert show(service, "ActiveState") == "active", "start returns when READY=1 has come"
    assert show(service, "NotifyAccess", "Type") == {"NotifyAccess": "main", "Type": "notify"}
    before = sum(float(v) for v in re.findall(r"^perf_cpu_context_switches_total\S* (\S+)$", metrics(service), re.M))
    service.run("sleep", "1.2")
    after = sum(float(v) for v in re.findall(r"^perf_cpu_context_switches_total\S* (\S+)$", metrics(service), re.M))
    assert after > before
    until(lambda: show(service, "StatusText"), "a status")
    assert re.match(r"Counting \d+ of \d+ events on \d+ CPUs", show(service, "StatusText"))


def test_units_are_cgroups_with_their_names(service):
    service.run("systemd-run", "--quiet", "--unit=known-load", "sh", "-c", "while :; do :; done")
    try:
        label = '{cgroup="/system.slice/known-load.service"}'
        until(lambda: (value(service, "perf_cgroup_task_clock_seconds_total", label) or 0) > 0.3, "its CPU time")
        info = re.search(r'^perf_cgroup_info\{cgroup="/system.slice/known-load.service",.*', metrics(service), re.M)[0]
        assert 'unit="known-load.service"' in info and 'slice="system.slice"' in info
    finally:
        service.run("systemctl", "stop", "known-load")


def test_it_has_two_capabilities_and_a_user_of_its_own(service):
    pid = show(service, "MainPID")
    status = service.run("cat", f"/proc/{pid}/status").stdout
    assert int(re.search(r"CapEff:\s+(\w+)", status)[1], 16) == CAP_PERFMON | CAP_BPF
    assert int(re.search(r"CapBnd:\s+(\w+)", status)[1], 16) == CAP_PERFMON | CAP_BPF
    assert re.search(r"NoNewPrivs:\s+1", status) and re.search(r"Seccomp:\s+2", status)
    assert int(re.search(r"Uid:\s+(\d+)", status)[1]) not in (0, 65534)
    answer = json.loads(service.run("curl", "-sf", "http://127.0.0.1:9753/api/v1/status").stdout)
    assert answer["privileges"] == {"perf_event_paranoid": answer["privileges"]["perf_event_paranoid"],
                                    "capabilities": ["CAP_PERFMON", "CAP_BPF"], "raises_sys_admin": False,
                                    "kernel_wants_sys_admin": False, "may_count_cpus": True}
    assert answer["cgroups"]["mount"]["path"] == "/sys/fs/cgroup"


def test_its_limits_are_in_force(service):
    pid = show(service, "MainPID")
    files = re.search(r"Max open files\s+(\d+)\s+(\d+)", service.run("cat", f"/proc/{pid}/limits").stdout)
    assert files[1] == files[2] == str(min(1048576, hard_limit())), "what it may not have is cut to what there is"
    assert show(service, "MemoryMax", "OOMPolicy", "LimitMEMLOCK", "TasksMax", "CPUQuotaPerSecUSec") == \
        {"MemoryMax": str(1 << 30), "OOMPolicy": "continue", "LimitMEMLOCK": str(1 << 30), "TasksMax": "32",
         "CPUQuotaPerSecUSec": "2s"}


# What the unit asks for, by the controllers' files in version 2, and in version 1, where they are the host's.
LIMITS = {"memory": ("memory.max", str(1 << 30), "memory.limit_in_bytes", str(1 << 30)),
          "pids": ("pids.max", "8", "pids.max", "8"),
          "cpu": ("cpu.max", "100000 100000", "cpu.cfs_quota_us", "100000")}


def host_pid(machine, pid):
    """The number that a process of the container has outside."""
    namespace = os.readlink(f"/proc/{machine.leader}/ns/pid")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "ns/pid") == namespace and \
                    re.search(r"^NSpid:.*\s(\d+)$", (folder / "status").read_text(), re.M)[1] == pid:
                return folder.name
        except OSError:
            pass  # it has ended
    raise AssertionError(f"no process {pid}")


def is_removed(folder):
    """A cgroup, whose tasks go to the one above; children of theirs may be made meanwhile, and end by themselves."""
    for task in (folder / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            (folder.parent / "cgroup.procs").write_text(task)
    with contextlib.suppress(OSError):
        folder.rmdir()
    return not folder.exists()


@pytest.fixture
def limited(service):
    """The service with its limits in force: by systemd where the container's cgroups have the controllers, and by
    version 1 of them, on the host, where they are there."""
    pid = show(service, "MainPID")
    has = service.run("cat", "/sys/fs/cgroup/cgroup.controllers").stdout.split()
    made = []
    for controller, (file, limit, old_file, old_limit) in LIMITS.items():
        if controller in has:
            folder = "/sys/fs/cgroup" + show(service, "ControlGroup")
            assert service.run("cat", f"{folder}/{file}").stdout.strip() == limit
            continue
        mount = Path("/sys/fs/cgroup") / controller
        if not (mount / "cgroup.procs").exists():
            pytest.skip(f"there is no {controller} controller, in version 1 or 2")
        made.append(mount / f"perfmond-limits-{os.getpid()}")
        made[-1].mkdir()
        (made[-1] / old_file).write_text(old_limit)
        (made[-1] / "cgroup.procs").write_text(host_pid(service, pid))
    yield service
    for folder in made:
        until(lambda folder=folder: is_removed(folder), "nothing runs in it any more")


def test_its_limits_leave_it_room(limited):
    """Also where it is busy: clients side by side, each with an answer of its own kind, and reloads."""
    paths = ["metrics", "api/v1/snapshot", "api/v1/events", "api/v1/cgroups", ""]
    ask = "".join(f"(for i in $(seq 30); do curl -sf --compressed http://127.0.0.1:9753/{path} >/dev/null || exit 1; "
                  f"done) & pids=\"$pids $!\"; " for path in paths)
    clients = subprocess.Popen(["nsenter", f"--target={limited.leader}", "--all", "sh", "-c",
                                f"{ask} for pid in $pids; do wait $pid || exit 1; done"])
    pid, most, reloads = show(limited, "MainPID"), 0, 0
    while clients.poll() is None or reloads < 3:
        if reloads < 3:
            limited.run("systemctl", "reload", "perfmond")
            reloads += 1
            # Signals do not queue: the next comes when this one has been heard.
            until(lambda nr=reloads: value(limited, "perfmond_reloads_total") == nr, "the reload")
        status = limited.run("cat", f"/proc/{pid}/status").stdout
        most = max(most, int(re.search(r"^Threads:\s+(\d+)$", status, re.M)[1]))
    peak = int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M)[1]) << 10
    print(f"\nat most {most} threads of {show(limited, 'TasksMax')}, {peak / 1e6:.1f} MB of "
          f"{int(show(limited, 'MemoryMax')) / 1e6:.0f} MB")
    assert clients.returncode == 0 and value(limited, "perfmond_reloads_total") == 3
    assert show(limited, "MainPID") == pid, "nothing has ended it"
    assert most <= int(show(limited, "TasksMax")) // 2
    assert peak < int(show(limited, "MemoryMax")) // 10


def test_it_is_as_closed_as_it_says(service):
    """By systemd's own measure."""
    print(service.run("systemd-analyze", "security", "--no-pager", "--threshold=14", "perfmond.service").stdout)


def test_its_root_has_what_it_needs(service):
    """The folders of programs, and of what other services share no more than it uses; a drop-in shows more."""
    def sees(path):
        return service.run("test", "-e", f"/proc/{show(service, 'MainPID')}/root{path}", check=False).returncode == 0

    # Mount points of other starts stay, and are empty.
    hidden = [f"{folder}/file" for folder in ("/boot", "/other", "/home", "/var/lib/private/other")]
    for path in (*hidden, "/opt/file"):
        service.run("install", "-D", "/dev/null", path)
    try:
        service.run("systemctl", "restart", "perfmond")
        for path in ("/usr/bin", "/etc/passwd", "/var/lib", "/opt/file", "/lib64", "/sys/fs/cgroup/cgroup.procs",
                     "/run/systemd/journal/socket", "/run/perfmond/tracepoints", "/var/lib/perfmond/"):
            assert sees(path), path
        for path in (*hidden, "/run/dbus", "/run/systemd/private", "/run/systemd/units"):
            assert not sees(path), path
        service.write(DROP_IN, "[Service]\nBindReadOnlyPaths=-/other\n")
        service.run("systemctl", "daemon-reload")
        service.run("systemctl", "restart", "perfmond")
        assert sees("/other/file") and sees("/opt/file") and not sees("/boot/file")
    finally:
        for path in ("/boot", "/other", "/home/file", "/opt/file", "/var/lib/private/other"):
            service.remove(path)


def test_only_its_own_folders_can_be_written_to(service):
    """A socket elsewhere in /run would be one that nobody sees."""
    service.write(CONFIG, "[web]\nlisten = 127.0.0.1:9753\nlisten = /run/perfmond/web.sock\n")
    service.run("systemctl", "restart", "perfmond")
    service.run("curl", "-sf", "--unix-socket", "/run/perfmond/web.sock", "http://localhost/-/healthy")
    service.write(DROP_IN, "[Service]\nRestart=no\n")
    service.write(CONFIG, "[web]\nlisten = 127.0.0.1:9753\nlisten = /run/web.sock\n")
    service.run("systemctl", "daemon-reload")
    assert service.run("systemctl", "restart", "perfmond", check=False).returncode != 0
    assert "/run/web.sock: Read-only file system" in journal(service)
    service.run("systemctl", "reset-failed", "perfmond")


def test_it_talks_to_this_machine_alone(service):
    """Until it is told otherwise."""
    service.run("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
    try:
        service.write(CONFIG, "[web]\nlisten = 127.0.0.1:9753\nlisten = 192.0.2.1:9753\n")
        service.run("systemctl", "restart", "perfmond")
        assert value(service, "perfmond_up") == 1
        ask = ("curl", "-sf", "http://192.0.2.1:9753/-/healthy")
        ask_in_vain = (*ask, "--max-time", "2")
        if service.run("systemd-run", "--quiet", "--wait", "--property=IPAddressDeny=any", *ask_in_vain,
                       check=False).returncode == 0:
            pytest.skip("the kernel has no filter of addresses for cgroups here")
        assert service.run(*ask_in_vain, check=False).returncode == 28, "no answer"
        service.write(DROP_IN, "[Service]\nIPAddressAllow=192.0.2.0/24\n")
        service.run("systemctl", "daemon-reload")
        service.run("systemctl", "restart", "perfmond")
        service.run(*ask)
    finally:
        service.run("ip", "address", "delete", "192.0.2.1/32", "dev", "lo")


def test_reload(service):
    before = show(service, "MainPID")
    service.write(CONFIG, "[cgroup]\nexclude = /user.slice/**\n[daemon]\ninterval = 500ms\n")
    service.run("systemctl", "reload", "perfmond")
    until(lambda: value(service, "perfmond_reloads_total") == 1, "the reload")
    assert value(service, "perfmond_interval_seconds") == 0.5
    assert show(service, "MainPID") == before and show(service, "ActiveState") == "active"

    service.write(CONFIG, "[daemon]\ninterval = never\n")
    service.run("systemctl", "reload", "perfmond", check=False)
    until(lambda: value(service, "perfmond_reload_failures_total") == 1, "the refusal")
    assert show(service, "ActiveState") == "active"
    assert value(service, "perfmond_interval_seconds") == 0.5
    assert f"{CONFIG}:2: " in journal(service)


def test_a_hanging_loop_is_restarted(service):
    service.write(DROP_IN, "[Service]\nWatchdogSec=15s\nRestartSec=100ms\n")
    service.run("systemctl", "daemon-reload")
    service.run("systemctl", "restart", "perfmond")
    for _ in range(3):
        last = show(service, "WatchdogTimestampMonotonic")
        until(lambda last=last: show(service, "WatchdogTimestampMonotonic") != last, "a sign of life")
    assert show(service, "NRestarts") == "0", "a loop that runs is left alone"
    pid = show(service, "MainPID")
    service.run("kill", "-STOP", pid)
    until(lambda: show(service, "NRestarts", "ActiveState") == {"NRestarts": "1", "ActiveState": "active"}, "a restart")
    assert show(service, "MainPID") != pid
    until(lambda: value(service, "perfmond_up") == 1, "it answers")


def test_a_bad_config_fails_the_start(service):
    service.run("systemctl", "stop", "perfmond")
    service.write(DROP_IN, "[Service]\nRestart=no\n")
    service.write(CONFIG, "[daemon]\nnonsense = 1\n")
    service.run("systemctl", "daemon-reload")
    assert service.run("systemctl", "start", "perfmond", check=False).returncode != 0
    assert show(service, "ActiveState") == "failed" and show(service, "ExecMainStatus") == "1"
    assert f"{CONFIG}:2: " in journal(service)
    service.run("systemctl", "reset-failed", "perfmond")


def test_it_stops_cleanly(service):
    service.run("systemctl", "stop", "perfmond")
    assert show(service, "ActiveState", "Result", "ExecMainStatus") == \
        {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}
    assert "stopping" in journal(service)


def test_log_lines_have_priorities(service):
    lines = service.run("journalctl", "--unit=perfmond", "--output=json", "--no-pager",
                        "--identifier=perfmond").stdout.splitlines()
    entries = [json.loads(line) for line in lines]
    listening = [entry for entry in entries if entry["MESSAGE"].startswith("listening on")]
    assert listening and all(entry["PRIORITY"] == "6" for entry in listening)
    assert not any(re.match(r"<\d>", entry["MESSAGE"]) for entry in entries)
