# SPDX-License-Identifier: MIT
"""doc/page.png and doc/profile.png: the page of the real daemon, of real cgroups in which something happens. Made by
`./dev screenshot`, as it takes a while."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from harness import Cgroup, perf_cgroup_mount

FOLDER = Path(os.environ.get("SCREENSHOTS", "/nonexistent"))
SECONDS = 150

CONFIG = """
[daemon]
interval = 1s
[cgroup]
include = / {top} {top}/**
"""

POD = "kubepods-burstable-pod3f0c1d9e_6b1e_4c53_9a57_6c2d59d7cb77.slice"
CONTAINERS = ["cri-containerd-80742a371c9227b5d4a7b6b0c1d7f0f3a1c0f8b7e6d5c4b3a2918070605f4e3d.scope",
              "cri-containerd-1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90a.scope"]

# The cgroups, and what is done in each: the part of a CPU that is used, MB that are touched anew a second, and of how
# much of that a wave of 40 s takes away.
LOADS = {
    "web.slice/nginx.service": (0.16, 4, 0.7),
    "web.slice/php-fpm.service": (0.28, 24, 0.5),
    "data.slice/postgresql.service": (0.22, 40, 0.3),
    "data.slice/redis.service": (0.05, 1, 0.2),
    "batch.slice/backup.service": (0.30, 90, 1.0),
    f"kubepods.slice/{POD}/{CONTAINERS[0]}": (0.12, 12, 0.4),
    f"kubepods.slice/{POD}/{CONTAINERS[1]}": (0.03, 2, 0.1),
    "system.slice/cron.service": (0, 0, 0),
    "system.slice/ssh.service": (0.002, 0.1, 0),
    "system.slice/systemd-journald.service": (0.01, 1, 0.2),
    "system.slice/systemd-networkd.service": (0.001, 0, 0),
}
LOAD = """
import math, mmap, random, sys, time
used, touched, wave = map(float, sys.argv[1:])
while True:
    now = 1 - wave * (0.5 + 0.5 * math.sin(time.time() / 40 * 2 * math.pi + used * 50)) * random.uniform(0.7, 1.3)
    end = time.thread_time() + used * now / 20
    if touched:
        with mmap.mmap(-1, max(4096, int(touched * max(now, 0) * 1e6 / 20))) as memory:
            for at in range(0, len(memory), 4096):
                memory[at] = 1
    while time.thread_time() < end:
        pass
    time.sleep(0.05 if used else 5)
"""
JOINING = 'echo $$ >"$0/cgroup.procs" && exec python3 -c "$@"'


@pytest.fixture
def town():
    """A tree as systemd and Kubernetes make them, below a folder of its own."""
    mount = perf_cgroup_mount()[0]
    top = Cgroup(mount / "machine.slice", mount)
    made, processes = {"": top}, []
    for path, load in LOADS.items():
        above = ""
        for name in path.split("/"):
            below = f"{above}/{name}".lstrip("/")
            made[below] = made.get(below) or made[above].make(name)
            above = below
        processes.append(subprocess.Popen(["sh", "-c", JOINING, str(made[path].path), LOAD, *map(str, load)]))
    yield top
    for process in processes:
        process.kill()
        process.wait()
    top.remove()


def test_picture(perfmond, town, browser):
    daemon = perfmond(CONFIG.format(top=town.label))
    browser.size(1240, 780)
    browser.prefer(color_scheme="light")
    browser.open(daemon.url)
    time.sleep(SECONDS)
    browser.picture(FOLDER / "page.png")
    browser.open(daemon.url + "/#show=profile")
    time.sleep(5)
    browser.picture(FOLDER / "profile.png")
    for name in ("page.png", "profile.png"):
        assert (FOLDER / name).stat().st_size < 250_000
