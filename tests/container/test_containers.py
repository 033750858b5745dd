# SPDX-License-Identifier: MIT
"""What perfmond says and counts in containers of Debian's runc."""

import pytest

import machine
from containers import CONFIG, FAULTS, OWN_CGROUPS, bind
from harness import perf_cgroup_mount, until

PART = "sees only its own part of the cgroup tree"


@pytest.fixture
def host(runc):
    mount, _ = perf_cgroup_mount()
    machine.require("cgroup2")
    return bind(mount, "/host/cgroup")


def test_another_user_without_the_file_capability(runc):
    """The runtime's sets alone do not do: they are lost with execve(2)."""
    done = runc.run("--check", config=CONFIG.format(mount=""), mounts=[OWN_CGROUPS], file_capability=False)
    print(done.stdout + done.stderr)
    assert done.returncode == 2
    assert "CAP_PERFMON: no" in done.stdout and "may NOT count whole CPUs" in done.stdout
    assert "not permitted: give the process CAP_PERFMON" in done.stdout


def test_another_user_with_the_file_capability(runc):
    """Also under no_new_privs, as with allowPrivilegeEscalation: false."""
    done = runc.run("--check", config=CONFIG.format(mount=""), mounts=[OWN_CGROUPS])
    print(done.stdout + done.stderr)
    assert done.returncode == 0
    assert "CAP_PERFMON: yes, CAP_SYS_ADMIN: no" in done.stdout
    assert "all that is configured can be counted" in done.stdout
    # It is in a cgroup namespace of its own.
    assert "cgroups: version 2 at /own; 1 found, 1 counted" in done.stdout and PART in done.stdout


def test_root_with_one_capability(runc):
    done = runc.run("--check", config=CONFIG.format(mount=""), mounts=[OWN_CGROUPS], uid=0, file_capability=False)
    print(done.stdout + done.stderr)
    assert done.returncode == 0
    assert "CAP_PERFMON: yes, CAP_SYS_ADMIN: no" in done.stdout


def test_a_seccomp_filter(runc):
    done = runc.run("--check", config=CONFIG.format(mount=""), mounts=[OWN_CGROUPS], seccomp=True)
    assert done.returncode == 2
    assert "CAP_PERFMON: yes" in done.stdout and "seccomp" in done.stdout


def test_the_hosts_tree_beside_its_own(runc, container, host, cgroups, work):
    """The machine's, whose cgroups it counts exactly; and its own where the config names that."""
    inside = cgroups.make("work")
    helper = work(inside)
    daemon = container(CONFIG.format(mount=""), mounts=[OWN_CGROUPS, host])
    told = daemon.json("/api/v1/status")
    assert told["cgroups"]["mount"] == {"path": "/host/cgroup", "version": 2, "whole": True}
    assert "CAP_PERFMON" in told["privileges"]["capabilities"]
    metrics = daemon.fresh()
    assert metrics.get("perf_cgroup_info", cgroup="/", id="1") == 1
    assert metrics.get(FAULTS, cgroup=runc.label()) is not None
    before = metrics.value(FAULTS, cgroup=inside.label)
    helper.do("faults 1234")
    assert daemon.fresh().value(FAULTS, cgroup=inside.label) - before == 1234
    # What is made later is found, too.
    later = cgroups.make("later")
    until(lambda: daemon.metrics().get(FAULTS, cgroup=later.label) is not None, "found")
    assert PART not in daemon.log
    daemon.stop()


def test_its_own_part(container, host):
    daemon = container(CONFIG.format(mount="/own"), mounts=[host, OWN_CGROUPS])
    daemon.wait_log(PART)
    told = daemon.json("/api/v1/status")
    assert told["cgroups"]["mount"] == {"path": "/own", "version": 2, "whole": False}
    assert any(PART in problem for problem in told["problems"])
    metrics = daemon.fresh()
    assert [labels["cgroup"] for labels, _ in metrics.all(FAULTS)] == ["/."]
    # Its own faults are in it.
    before = metrics.value(FAULTS, cgroup="/.")
    until(lambda: daemon.fresh().value(FAULTS, cgroup="/.") > before, "it works itself")
    daemon.stop()


def test_no_cgroups_at_all(container):
    """/sys without a cgroup mount: CPUs are counted."""
    hidden = {"destination": "/sys/fs/cgroup", "type": "tmpfs", "source": "none", "options": ["ro"]}
    daemon = container(CONFIG.format(mount=""), mounts=[hidden])
    daemon.wait_log("no cgroups: no cgroup hierarchy is mounted")
    assert daemon.fresh().state("context_switches") == "ok"
    daemon.stop()


def test_the_machines_proc_and_sys_elsewhere(runc, host):
    """/sys hidden, and the machine's mounted beside, as /host/sys and /host/proc."""
    config = CONFIG.format(mount="/host/cgroup") + "[daemon]\nprocfs = /host/proc\nsysfs = /host/sys\n"
    nothing = {"destination": "/sys", "type": "tmpfs", "source": "none", "options": ["ro"]}
    mounts = [nothing, host, bind("/proc", "/host/proc"), bind("/sys", "/host/sys")]
    done = runc.run("--check", config=config, mounts=mounts)
    print(done.stdout + done.stderr)
    assert done.returncode == 0
    assert "kernel.perf_event_paranoid is " in done.stdout and "problem" not in done.stdout
    assert "software" in done.stdout.split("PMUs:")[1].split("\n")[0]
    assert "cgroups: version 2 at /host/cgroup" in done.stdout
    done = runc.run("--check", config=CONFIG.format(mount="/host/cgroup"), mounts=mounts)
    assert "problem: can't read a list of CPUs from /sys/devices/system/cpu/online" in done.stdout
    assert "all that is configured can be counted" in done.stdout, done.stdout
