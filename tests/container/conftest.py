# SPDX-License-Identifier: MIT
"""perfmond in containers of runc, each with a cgroup, mount and PID namespace of its own, as kubelet and others start
them: another user than root, CAP_PERFMON in all sets but the ambient one, no_new_privs.
"""

import shlex
from pathlib import Path

import pytest

import containers
import harness
import tree
from fixtures import *  # noqa: F403


@pytest.fixture
def runc(privileged, cgroups, tmp_path):
    tree.provide("containers")
    made = containers.Runc(tmp_path, cgroups)
    why = containers.can_run(made)
    if why:
        pytest.skip(why)
    yield made
    containers.clean_up(cgroups)


@pytest.fixture
def container(runc):
    """Starts daemons in containers, and stops them at the end."""
    running = []

    def start(config="", command=None, **kwargs):
        command = command or runc.command(config=config, **kwargs)
        # The daemon's own arguments are in the bundle, and not those that follow.
        running.append(harness.Daemon(Path("/perfmond.conf"), prefix=["sh", "-c", f"exec {shlex.join(command)}"]))
        return running[-1].wait_ready()

    yield start
    for daemon in running:
        daemon.stop()
