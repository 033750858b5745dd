# SPDX-License-Identifier: MIT
"""Cgroups whose owner closes their directory to the daemon (chmod 0700), which runs as the unit has it: as a user of
its own with CAP_PERFMON alone."""

import os

import pytest

from harness import as_user, until
from machine import needs

pytestmark = needs("cap-perfmon")

FAULTS = "perf_cgroup_page_faults_total"
CONFIG = """
[cpu]
groups =
[cgroup]
groups = work
include = {top}/**
max = {max}
linger = 1s
[group "work"]
events = page-faults
"""


@pytest.fixture
def daemon(perfmond, binary_for_all, cgroups, tmp_path):
    os.chmod(tmp_path, 0o755)
    return lambda most=100: perfmond(CONFIG.format(top=cgroups.label, max=most),
                                     **binary_for_all(as_user(65534, "+perfmon")))


def statuses(daemon, cgroups):
    return {c["cgroup"].removeprefix(cgroups.label): c["status"] for c in daemon.json("/api/v1/cgroups")["cgroups"]
            if c["cgroup"].startswith(cgroups.label + "/")}


def test_a_closed_cgroup_is_counted_on_over_a_reload(daemon, cgroups, work):
    own = cgroups.make("own")
    d = daemon()
    until(lambda: statuses(d, cgroups) == {"/own": "counted"}, "it is counted")
    helper = work(own)
    before = d.fresh().value(FAULTS, cgroup=own.label)
    os.chmod(own.path, 0o700)
    for _ in range(2):
        helper.do("faults 300")
        d.reload(d.config_path.read_text())
        assert statuses(d, cgroups) == {"/own": "counted"}
    helper.do("faults 400")
    assert d.fresh().value(FAULTS, cgroup=own.label) - before == 1000


def test_cgroups_removed_below_a_closed_one_are_let_go(daemon, cgroups):
    own = cgroups.make("own")
    children = [own.make(f"child{i}") for i in range(4)]
    d = daemon(5)
    until(lambda: list(statuses(d, cgroups).values()) == ["counted"] * 5, "all are counted")
    os.chmod(own.path, 0o700)
    for child in children:
        child.path.rmdir()
    until(lambda: statuses(d, cgroups) == {"/own": "counted"}, "those removed are let go")
    cgroups.make("service")
    until(lambda: statuses(d, cgroups) == {"/own": "counted", "/service": "counted"}, "there is room for another")
    until(lambda: own.dying() == 0, "nothing holds those that are gone")
    os.chmod(own.path, 0o755)
