# SPDX-License-Identifier: MIT
"""The command line: --check, --once, --list-events and the rest, and what is wrong with options."""

import json
import re
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from harness import PATIENCE, PERFMOND, Daemon, Metrics, run, until
from machine import needs


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "perfmond.conf"
        path.write_text(text, encoding="utf-8")
        return f"--config={path}"
    return write


SOFTWARE = """
[cpu]
groups = software
[cgroup]
groups = software
include = /
"""


@pytest.mark.once
def test_version_and_help():
    version = run("--version")
    assert version.returncode == 0 and version.stderr == ""
    assert version.stdout.startswith("perfmond ") and version.stdout.count("\n") == 1
    for option in ("--help", "-h"):
        text = run(option)
        assert text.returncode == 0 and text.stderr == ""
        for name in ("--config=FILE", "--listen=", "--check", "--once", "--list-events", "--log-level", "--version",
                     "--duration"):
            assert name in text.stdout, name


@pytest.mark.parametrize("args, says", [
    (["--no-such-option"], "no-such-option"),
    (["--listen"], "listen"),
    (["--listen=nowhere"], "nowhere"),
    (["--listen=127.0.0.1:99999"], "99999"),
    (["--listen=localhost:80"], "localhost"),
    (["--once=yaml"], "yaml"),
    (["--once", "--duration=forever"], "forever"),
    (["--once", "--duration=0"], "duration"),
    (["--log-level=loud"], "loud"),
    (["--version=2"], "version"),
    (["something"], "something"),
    (["--check", "/etc/passwd"], "/etc/passwd"),
    (["--config=/nonexistent/perfmond.conf"], "/nonexistent/perfmond.conf"),
    (["--config=/"], "/"),
    (["-c"], "c"),
])
def test_bad_options(args, says):
    done = run(*args, timeout=20)
    assert done.returncode == 1
    assert says in done.stderr
    assert "listening" not in done.stderr
    assert done.stdout == ""


def test_check_says_that_all_can_be_counted(privileged, write):
    done = run("--check", write(SOFTWARE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all that is configured can be counted" in done.stdout
    for word in ("machine: Linux", "privileges:", "kernel.perf_event_paranoid", "PMUs:", "software", "tracefs:",
                 "cgroups:", "open files:", "context-switches"):
        assert word in done.stdout, word


def test_check_says_what_cannot_be_counted(privileged, write):
    done = run("--check", write(SOFTWARE.replace("groups = software", "groups = odd") +
                                '[group "odd"]\nevents = page-faults, nopmu/event=1/, nosuch:tracepoint\n'))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "nopmu" in done.stdout and "nosuch:tracepoint" in done.stdout
    assert "can't be counted" in done.stdout


RULES = SOFTWARE + """
[profile "good"]
event = page-faults
period = 1000
[capture "good"]
when = page-faults > 1e12
"""
NO_TRACEPOINT = '[profile "p"]\nevent = sched:nosuch\nperiod = 1\n'


@pytest.mark.parametrize("more, says", [
    ("", ""),
    (NO_TRACEPOINT, r"1 of the \[profile\] sections can't be sampled"),
    (NO_TRACEPOINT + "[profiles]\nenabled = no\n", r"1 of the captures above can't be made"),
    ('[capture "c"]\nwhen = cycles > 3\n', r"1 of the captures above can't be made"),
    (NO_TRACEPOINT + '[capture "c"]\nwhen = page-faults > 3\nevent = p\n', r"1 of the captures above can't be made"),
])
def test_check_of_captures(privileged, tracefs, write, more, says):
    """Profiles and rules that can't work are something configured that can't be counted."""
    done = run("--check", write(RULES + more))
    assert done.returncode == (2 if says else 0), done.stdout + done.stderr
    assert re.search(f"^{says or 'all that is configured can be counted'}$", done.stdout, re.M), done.stdout
    works = "ok" if "enabled = no" not in more else r"not evaluated \[\d+\]"
    assert re.search(rf"^captures:\n  good +page-faults > 1e12 +{works}$", done.stdout, re.M), done.stdout
    if '"c"' in more:
        number = re.search(r"^  c +\S+ > 3 +not evaluated \[(\d+)\]$", done.stdout, re.M)[1]
        why = "sched:nosuch" if "event = p" in more else r"no group of \[cpu\] groups counts 'cycles'"
        assert re.search(rf"^\[{number}\] .*{why}", done.stdout, re.M), done.stdout


@pytest.mark.parametrize("number", [3, pytest.param(12, marks=pytest.mark.deep)])
def test_check_leaves_no_removed_cgroup_out(privileged, cgroups, write, number):
    """While cgroups come and go: one that was removed before it could be opened is not left out."""
    option = write(f"[cpu]\ngroups =\n[cgroup]\ngroups = software\nengine = perf\ninclude = {cgroups.label}/**\n")
    ending = threading.Event()

    def churn(folder):
        while not ending.is_set():
            for i in range(20):
                (folder / str(i)).mkdir()
            for i in range(20):
                (folder / str(i)).rmdir()

    threads = [threading.Thread(target=churn, args=(cgroups.make(name).path,), daemon=True) for name in "ab"]
    for thread in threads:
        thread.start()
    try:
        checks = [run("--check", option) for _ in range(number)]
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    for done in checks:
        assert done.returncode == 0 and ", 0 left out\n" in done.stdout, done.stdout + done.stderr


def test_check_tells_how_many_cgroups_are_left_out(privileged, cgroups, write):
    """One cgroup is left out, or two are."""
    for number, says in ((2, "1 cgroup is left out"), (3, "2 cgroups are left out")):
        cgroups.make("a" if number == 2 else "b")
        done = run("--check", write(SOFTWARE + f"max = 1\ninclude = {cgroups.label}/**\n"))
        assert done.returncode == 2 and done.stdout.endswith(f"\n{says}\n"), done.stdout


def test_check_tames_names(privileged, cgroups, write):
    """A name of a cgroup is no command to the terminal: ESC, C1 in UTF-8 and as a byte, a tab."""
    cgroups.make("\x1b[7m-\u009b7m-\udc9b7m-\tall that is configured-\u00fc").make("below")
    done = subprocess.run([PERFMOND, "--check", write("[cgroup]\nmax = 1\n" + f"include = {cgroups.label}/**\n")],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False)
    text = done.stdout.decode("utf-8")
    assert done.returncode == 2 and done.stderr == b"", done
    assert " [7m-  7m-\ufffd9b7m- all that is configured-\u00fc/below: " in text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), text


def test_a_group_that_is_not_used_is_a_warning(privileged, perfmond, write):
    """Of --check and of the log; one of the built-in groups is none."""
    says = r"\.conf:7: group 'x' is not used: neither \[cpu\] groups nor \[cgroup\] groups names it"
    text = SOFTWARE + '[group "x"]\nevents = page-faults\n'
    done = run("--check", write(text))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"^warning: \S*{says}$", done.stdout, re.M) and done.stdout.count("is not used") == 1
    used = text.replace("[cgroup]\ngroups = software", "[cgroup]\ngroups = x")
    assert "not used" not in run("--check", write(used)).stdout
    daemon = perfmond(text)
    daemon.wait_log(says)
    after = len(daemon.lines)
    daemon.reload(text)
    daemon.wait_log(says, after=after)


@pytest.mark.parametrize("config", ["[daemon]\ninterval = 0\n", "[nonsense]\n", '[group "core"]\nevents = xyzzy\n',
                                    '[capture "c"]\nwhen = nosuch > 3\n'])
def test_check_of_a_bad_config(write, config):
    done = run("--check", write(config))
    assert done.returncode == 1
    assert "perfmond.conf:" in done.stderr


def test_once_counts_for_as_long_as_it_is_told(privileged, write):
    """As Prometheus' text, which is the default, OpenMetrics, and JSON."""
    texts = []
    for option in ("--once", "--once=prometheus", "--once=openmetrics", "--once=json"):
        start = time.monotonic()
        done = run(option, "--duration=300ms", write(SOFTWARE))
        assert time.monotonic() - start >= 0.3 and done.returncode == 0, done.stderr
        texts.append(done.stdout)
    for text in texts[:2]:
        metrics = Metrics(text)
        assert sum(value for _, value in metrics.all("perf_cpu_context_switches_total")) > 0
        assert metrics.value("perf_cgroup_context_switches_total", cgroup="/") > 0
    families = {family.name: family for family in text_string_to_metric_families(texts[2])}
    assert families["perf_cpu_context_switches"].type == "counter"
    assert sum(sample.value for sample in families["perf_cpu_context_switches"].samples) > 0
    snapshot = json.loads(texts[3])
    assert [row["cgroup"] for row in snapshot["cgroups"]] == ["/"]
    assert all(row["events"]["context_switches"]["state"] == "ok" for row in snapshot["cpus"])


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
@pytest.mark.parametrize("args", [["--once", "--duration=50ms"], ["--check"], ["--list-events"], ["--version"]])
def test_a_command_fails_where_its_answer_cannot_be_written(privileged, write, args, where):
    done = run(write(SOFTWARE), *args, prefix=["sh", "-c", f'exec "$@" {where}', "sh"])
    assert done.returncode == 1 and "standard output: " in done.stderr, done.stderr


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("args", [[], ["--once", "--duration=1h"], ["--record=record", "--duration=1h"]])
def test_dev_null_is_in_the_place_of_closed_standard_files(privileged, write, tmp_path, monkeypatch, args, closed):
    """In each mode: the log, or an answer, would go into another file that has the number."""
    monkeypatch.chdir(tmp_path)
    write(f"[web]\nlisten = {tmp_path}/http.sock\n{SOFTWARE}")
    close = " ".join(f"{fd}>&-" for fd in closed)
    daemon = Daemon(tmp_path / "perfmond.conf", args, prefix=["sh", "-c", f'exec "$@" {close}', "sh"])
    try:
        files = until(lambda: "anon_inode:[perf_event]" in daemon.files().values() and daemon.files(), "it counts")
        assert {files[fd] for fd in closed} == {"/dev/null"}, files
        assert args or until(lambda: is_ready(tmp_path / "http.sock"), "it answers")
    finally:
        daemon.process.kill()
        daemon.end()


def test_list_events_lists_events_of_each_pmu_and_tracepoints(privileged, tracefs):
    done = run("--list-events")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    names = [line.split()[0] for line in lines]
    assert "context-switches" in names and "syscalls:sys_enter_getppid" in names
    assert all("[" in line for line in lines)
    for pmu in Path("/sys/bus/event_source/devices").iterdir():
        for event in (pmu / "events").glob("*"):
            if "." not in event.name:
                assert f"{pmu.name}/{event.name}/" in names or event.name in names, event


def test_list_events_by_glob(privileged, tracefs):
    done = run("--list-events=*:sys_enter_getp*")
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert "syscalls:sys_enter_getppid" in names and "syscalls:sys_enter_getpid" in names
    assert all(":sys_enter_getp" in name for name in names)
    nothing = run("--list-events=no-such-thing")
    assert nothing.stdout == "" and nothing.returncode == 0


def test_each_event_that_is_listed_can_be_configured(privileged, write):
    """Every name of --list-events is an event for --check, but for the forms of breakpoints and probes; tracepoints
    are left out (there are thousands)."""
    names = [line.split()[0] for line in run("--list-events").stdout.splitlines()
             if not re.search(r"\[(Tracepoint|Hardware breakpoint|(Kernel|User) probe)", line)]
    assert names
    config = '[cpu]\ngroups = all\n[cgroup]\ngroups =\n[group "all"]\nalone = yes\nevents = ' + ", ".join(names)
    done = run("--check", write(config))
    # Some ask for a value ("event=?"), which is a config error that says so; none may be unknown.
    assert done.returncode in (0, 2), done.stderr


def test_listen_on_the_command_line_replaces_the_config_s(perfmond):
    """It can be given more than once."""
    daemon = perfmond("[web]\nlisten = 127.0.0.1:1\n", args=["--listen=127.0.0.1:0", "--listen=[::1]:0"])
    daemon.wait_log(r"listening on http://\[::1\]:\d+")
    urls = [line.split("listening on ")[1] for line in daemon.lines if "listening on" in line]
    assert len(urls) == 2
    for url in urls:
        assert not url.endswith(":1")
        daemon.url = url
        assert daemon.metrics().value("perfmond_up") == 1


@needs("ipv6", "network-namespace", "ip", "nsenter", "curl")
def test_a_link_local_address_is_listened_on_at_its_interface(perfmond):
    """In a network of its own: by name and by number. The URLs in the log are such as curl takes."""
    script = 'ip link set lo up && ip -6 address add fe80::1 dev lo nodad && exec "$@"'
    daemon = perfmond("[web]\nlisten = [fe80::1%lo]:0\nlisten = [fe80::1%1]:0\n", ready=False,
                      prefix=["unshare", "--net", "sh", "-c", script, "sh"])

    def urls():
        found = re.findall(r"listening on (\S+)", daemon.log)
        return found if len(found) == 2 else None
    for url in until(urls, "it listens"):
        assert re.fullmatch(r"http://\[fe80::1%25lo\]:\d+", url)
        done = subprocess.run(["nsenter", f"--net=/proc/{daemon.pid}/ns/net", "curl", "-sS", "--fail", "--globoff",
                               f"{url}/-/healthy"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0 and "healthy" in done.stdout, done.stderr
    daemon.reload("[web]\nlisten = [fe80::1%none]:0\n", expect="'.fe80::1%none.:0' names a network interface")


@pytest.mark.parametrize("address, says", [
    ("[fe80::1%none]:0", "cannot listen: '[fe80::1%none]:0' names a network interface that this machine does not have"),
    ("[fe80::1]:0", "--listen: '[fe80::1]:0' is a link-local address, which needs its network interface"),
])
def test_a_link_local_address_without_its_interface_is_refused(privileged, write, address, says):
    done = run(write(SOFTWARE), f"--listen={address}")
    assert done.returncode == 1 and says in done.stderr, done.stderr


def is_ready(path):
    """The daemon that is to listen on that Unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(PATIENCE)
        try:
            s.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        s.sendall(b"GET /-/ready HTTP/1.0\r\n\r\n")
        return b" 200 " in s.recv(1000)


def test_log_level_err_silences_a_start_and_a_stop(perfmond, tmp_path):
    path = tmp_path / "http.sock"
    quiet = perfmond(f"[web]\nlisten = {path}\n", ready=False, args=["--log-level=err"])
    until(lambda: is_ready(path), "ready")
    quiet.stop()
    assert quiet.lines == []


def test_sigint_stops_it(perfmond):
    daemon = perfmond("")
    daemon.process.send_signal(2)
    assert daemon.end() == 0
    assert any("stopping" in line for line in daemon.lines)
