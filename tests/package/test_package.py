# SPDX-License-Identifier: MIT
"""The Debian package in its life: installed, at work, upgraded, removed and purged. The tests are one story, and each
begins where the one before it has ended."""

import json
import re

import pytest

from packages import PACKAGE
from booted import journal, metrics, show, until, value

# Other suites may run at the same time: the counters of the PMU are theirs, and nothing is to slow their switches down.
SOFTWARE = "[cpu]\ngroups = software\n[cgroup]\ngroups = tasks\nengine = perf\n"
DROPPED_IN = "/etc/perfmond/perfmond.conf.d/software.conf"
CONFFILE = "/etc/perfmond/perfmond.conf"


@pytest.fixture(scope="module")
def package():
    """The path that the package has in the container."""
    found = sorted(PACKAGE.glob("perfmond_*.deb"))
    assert len(found) == 1, found
    return f"/packages/{found[0].name}"


def apt(machine, *arguments):
    return machine.run("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", *arguments, timeout=300).stdout


def write(machine, path, text):
    machine.run("mkdir", "-p", path.rpartition("/")[0])
    machine.run("sh", "-c", 'printf %s "$1" >"$2"', "sh", text, path)


def files(machine):
    """All that is called like the package, but for what dpkg, apt and the journal remember of the past."""
    past = [word for path in ("/var/log", "/var/cache/apt", "/tmp", "/packages") for word in ("-path", path, "-o")][:-1]
    found = machine.run("find", "/", "-xdev", "(", *past, ")", "-prune", "-o", "-name", "*perfmond*", "-print").stdout
    return set(found.split("\n")) - {""}


def switches(machine):
    """Context switches on all CPUs, and of a cgroup."""
    found = re.findall(r'^perf_c\w+_context_switches_total\{(cpu|cgroup)="([^"]*)"\} (\S+)$', metrics(machine), re.M)
    return {(kind, label): float(number) for kind, label, number in found}


def test_installed(machine, package):
    """By apt, which has no network. The libraries come with it."""
    assert files(machine) == set()
    assert machine.run("sh", "-c", "ls /usr/lib/*/libmicrohttpd.so.12", check=False).returncode != 0
    write(machine, DROPPED_IN, SOFTWARE)
    output = apt(machine, "install", package)
    assert "Setting up perfmond" in output and "libmicrohttpd12" in output, output
    assert machine.run("dpkg", "--verify", "perfmond").stdout == ""
    assert machine.run("dpkg-query", "--show", "--showformat=${Status}", "perfmond").stdout == "install ok installed"


def test_the_service_runs_and_the_socket_does_not(machine):
    assert show(machine, "ActiveState", "UnitFileState", "NeedDaemonReload") == \
        {"ActiveState": "active", "UnitFileState": "enabled", "NeedDaemonReload": "no"}
    state = machine.run("systemctl", "show", "perfmond.socket", "--property=ActiveState,UnitFileState").stdout
    assert state == "ActiveState=inactive\nUnitFileState=disabled\n"
    assert machine.run("systemctl", "is-failed", "perfmond.service", check=False).returncode != 0
    assert "man:perfmond(8)" in machine.run("systemctl", "status", "perfmond").stdout
    counting = re.compile(r'Status: "Counting \d+ of \d+ events')
    until(lambda: counting.search(machine.run("systemctl", "status", "perfmond").stdout), "it says that it counts")


def test_it_counts_and_answers(machine):
    status = json.loads(machine.run("curl", "-sf", "http://127.0.0.1:9753/api/v1/status").stdout)
    assert status["privileges"]["capabilities"] == ["CAP_PERFMON", "CAP_BPF"]
    both = {("cpu", "0"), ("cgroup", "/system.slice/perfmond.service")}
    before = until(lambda: (found := switches(machine)).keys() >= both and found, "both are counted")
    until(lambda: sum(switches(machine).values()) > sum(before.values()), "context switches")


def test_optional_libraries_are_in_it(machine):
    needed = machine.run("cat", f"/proc/{show(machine, 'MainPID')}/maps").stdout
    for library in ("libpfm.so.4", "libbpf.so.1", "libdw-", "liblzma.so.5"):
        assert library in needed


@pytest.mark.parametrize("page, says", [
    ("perfmond", "performance counters per CPU and per cgroup, over HTTP"), ("perfmond.conf", "switch_budget"),
    ("perfmond-events", "PERF_TYPE_TRACEPOINT"), ("perfmond-metrics", "perf_cgroup_<event>_total")])
def test_manual_pages(machine, page, says):
    done = machine.run("env", "LC_ALL=C.UTF-8", "MANWIDTH=100", "man", page)
    assert says in done.stdout and done.stderr == "", done.stderr
    assert "perfmond" in machine.run("whatis", page).stdout


def test_the_conffile_is_the_default_config(machine):
    """All of it are comments; dpkg knows that it is the administrator's."""
    conffiles = machine.run("dpkg-query", "--show", "--showformat=${Conffiles}", "perfmond").stdout.split()[::2]
    assert conffiles == [CONFFILE]
    lines = machine.run("cat", CONFFILE).stdout.split("\n")
    assert all(re.fullmatch(r"#.*|\[\w+\]|", line) for line in lines)
    assert machine.run("perfmond", "--check", check=False).returncode in (0, 2)


def test_files_that_it_names_are_there(machine):
    """In README.Debian and in the unit."""
    shared = "/usr/share/doc/perfmond"
    text = machine.run("cat", f"{shared}/README.Debian").stdout + machine.run("systemctl", "cat", "perfmond").stdout
    named = set(re.findall(rf"{shared}/[\w./-]*\w", text)) | \
        {f"{shared}/examples/{name}" for name in re.findall(r"\b([\w-]+\.conf)\b among the examples", text)}
    assert len(named) > 3
    for path in named:
        machine.run("test", "-e", path)


def test_debians_own_tests(machine):
    """By autopkgtest, in the container itself. They upgrade the package to one with another version."""
    # All libraries are there by now, and there is no network in which to look for newer ones.
    machine.run("sh", "-c", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*")
    source = next(path for path in PACKAGE.iterdir() if (path / "debian").is_dir())
    pid, total = show(machine, "MainPID"), switches(machine)
    package = next(PACKAGE.glob("perfmond_*.deb")).name
    done = machine.run("autopkgtest", "--no-built-binaries", f"/packages/{package}", f"/packages/{source.name}", "--",
                       "null", check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert set(re.findall(r"^(service|upgrade) +PASS$", done.stdout, re.M)) == {"service", "upgrade"}, done.stdout
    assert show(machine, "MainPID") != pid and "+next" in machine.run("dpkg-query", "-W", "perfmond").stdout
    now = switches(machine)
    assert all(now[key] >= total[key] for key in total if key in now) and ("cpu", "0") in now


def test_the_upgrade_lost_nothing(machine):
    """Of all perf events, none was closed; a config of the administrator's stays."""
    assert re.search(r"totals go on from systemd's fd store, with all of \d+ perf events", journal(machine))
    assert machine.run("cat", DROPPED_IN).stdout == SOFTWARE
    assert value(machine, "perfmond_reload_failures_total") == 0


def test_removed(machine):
    """The config and the totals stay, and what Debian's tools remember until the package is purged."""
    apt(machine, "remove", "perfmond")
    assert show(machine, "ActiveState") == "inactive"
    left = {path for path in files(machine) if not re.match("/var/lib/(dpkg/info|systemd/deb-systemd-helper-)", path)}
    assert left == {"/etc/perfmond", CONFFILE, "/etc/perfmond/perfmond.conf.d", "/var/lib/perfmond",
                    "/var/lib/private/perfmond", "/etc/systemd/system/multi-user.target.wants/perfmond.service"}
    assert machine.run("ls", "/var/lib/private/perfmond").stdout.split() == ["totals"]


def test_installed_again(machine, package):
    """It goes on from the saved totals."""
    apt(machine, "install", package)
    assert show(machine, "ActiveState") == "active"
    assert "totals go on from /var/lib/perfmond/totals" in journal(machine)


def test_purged(machine):
    """While it listens by its socket, which an administrator has enabled. Nothing of it is left but the administrator's
    own file."""
    machine.run("systemctl", "stop", "perfmond.service")
    machine.run("systemctl", "enable", "--now", "perfmond.socket")
    assert "perf_cpu_context_switches_total" in metrics(machine)
    apt(machine, "purge", "perfmond")
    assert files(machine) == {"/etc/perfmond", "/etc/perfmond/perfmond.conf.d"}
    assert machine.run("find", "/etc/perfmond", "-type", "f").stdout.split() == [DROPPED_IN]
    assert machine.run("dpkg-query", "-W", "perfmond", check=False).returncode != 0
    assert "perfmond" not in machine.run("systemctl", "list-units", "--all").stdout
    assert "perfmond" not in machine.run("systemctl", "list-unit-files").stdout
    assert machine.run("curl", "-s", "http://127.0.0.1:9753/metrics", check=False).returncode == 7
