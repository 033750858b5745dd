# SPDX-License-Identifier: MIT
"""Names of containers, from files that this test makes: good ones, hostile ones, ones that may not be read.
tests/container/test_names.py has those of real runtimes."""

import json
import os
import secrets
import time

import pytest

from container_names import CONFIG, names_in
from harness import Stalls, as_user, run_delay, until
from machine import needs

DOCKER = json.dumps({"Name": "/web", "Config": {"Image": "nginx:1"}})
BUNDLE = json.dumps({"annotations": {
    "io.kubernetes.pod.namespace": "retail", "io.kubernetes.pod.name": "shop-0", "io.kubernetes.container.name": "cart",
    "io.kubernetes.cri-o.ImageName": "quay.io/cart:2"}})
POD = "12345678-1234-1234-1234-123456789abc"
GIB = 1 << 30


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "files"
    path.mkdir()
    return path


@pytest.fixture
def start(perfmond, cgroups, folder):
    """Without profiles, whose memory is that of all that runs on the machine."""
    config = CONFIG.format(cgroup=cgroups.label, files=folder) + "[profiles]\nenabled = no\n"
    return lambda **kwargs: perfmond(config, **kwargs)


def write(folder, container, text, name="config.v2.json"):
    path = folder / container / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def names(daemon, cgroup):
    """Of its series, of which there is one."""
    labels, = [labels for labels, _ in daemon.metrics().all("perf_cgroup_info", cgroup=cgroup.label)]
    return names_in(labels)


def wait_for(daemon, cgroup, expected):
    until(lambda: names(daemon, cgroup) == expected, f"{expected}")


def problems(daemon):
    return [text for text in daemon.json("/api/v1/status")["problems"] if "name" in text]


def new_id():
    return secrets.token_hex(32)


def test_containers_pods_and_machines_have_names(start, cgroups, folder):
    """A pod, what is above and below its container; one that comes while the daemon runs; a machine."""
    first, second = new_id(), new_id()
    write(folder, first, BUNDLE, "userdata/config.json")
    write(folder, second, DOCKER)
    pod = cgroups.make("kubepods").make(f"pod{POD}")
    inside = pod.make(first).make("inside")
    machine = cgroups.make("machine-qemu\\x2d3\\x2dbuild.scope")
    daemon = start()
    expected = {"namespace": "retail", "pod": "shop-0", "container": "cart", "image": "quay.io/cart:2"}
    wait_for(daemon, inside, expected)
    assert names(daemon, pod) == {"namespace": "retail", "pod": "shop-0"}
    assert names(daemon, machine) == {"machine": "build"}

    later = cgroups.make(f"docker-{second}.scope")
    until(lambda: daemon.metrics().all("perf_cgroup_info", cgroup=later.label), "the cgroup")
    wait_for(daemon, later, {"container": "web", "image": "nginx:1"})
    rows = {row["cgroup"]: row for row in daemon.json("/api/v1/cgroups")["cgroups"]}
    assert {key: rows[inside.label][key] for key in expected} == expected
    assert rows[machine.label]["machine"] == "build"
    assert problems(daemon) == []


def test_names_outlast_a_reload_and_a_removal(start, cgroups, folder):
    """The last totals of a removed cgroup have its names, and so has a reload without folders."""
    container = new_id()
    write(folder, container, DOCKER)
    group = cgroups.make(f"docker-{container}.scope")
    daemon = start()
    expected = {"container": "web", "image": "nginx:1"}
    wait_for(daemon, group, expected)
    daemon.reload(CONFIG.format(cgroup=cgroups.label, files="\nlinger = 1h"))
    assert names(daemon, group) == expected
    group.remove()
    until(lambda: daemon.metrics().value("perfmond_cgroups", state="lingering") == 1, "it is seen to be removed")
    assert names(daemon, group) == expected


def make_hostile(folder, containers):
    """A file of a gigabyte, a million labels, no UTF-8, a link out of the folder, a FIFO, lists in lists."""
    large, labels, latin, link, fifo, deep = containers
    for container in containers:
        (folder / container).mkdir()
    with open(folder / large / "config.v2.json", "wb") as file:
        file.truncate(GIB)
    many = ",".join(f'"label-{number}":"x"' for number in range(1_000_000))
    write(folder, labels, '{"Config":{"Labels":{' + many + '}},"Name":"/many"}')
    write(folder, latin, DOCKER.encode().replace(b"web", b"w\xfcb"))
    secret = folder.parent / "secret.json"
    secret.write_text(DOCKER)
    (folder / link / "config.v2.json").symlink_to(secret)
    os.mkfifo(folder / fifo / "config.v2.json")
    write(folder, deep, "[" * 4_000_000)


@pytest.fixture
def hostile(start, cgroups, folder):
    """A daemon that has looked at hostile files, and at others beside them: (the daemon, the cgroups of the hostile
    ones)."""
    bad, good, later = [new_id() for _ in range(6)], [new_id() for _ in range(3)], new_id()
    make_hostile(folder, bad)
    for container in good:
        write(folder, container, DOCKER)
    groups = {container: cgroups.make(f"docker-{container}.scope") for container in bad + good}
    # A sanitizer would keep what is freed.
    daemon = start(env={"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=0"})
    before = daemon.anonymous()
    named = {"container": "web", "image": "nginx:1"}
    for container in good:
        wait_for(daemon, groups[container], named)
    until(lambda: problems(daemon), "a problem")
    # It is asked for behind the others.
    write(folder, later, DOCKER)
    last = cgroups.make(f"docker-{later}.scope")
    until(lambda: daemon.metrics().all("perf_cgroup_info", cgroup=last.label), "the cgroup")
    wait_for(daemon, last, named)
    assert daemon.anonymous() < before + 8 * 1024 * 1024
    return daemon, [groups[container] for container in bad]


def test_hostile_files_give_no_names_and_disturb_no_others(hostile):
    daemon, bad = hostile
    problem, = problems(daemon)
    assert problem.startswith("container ") and " has no names: " in problem
    assert [names(daemon, cgroup) for cgroup in bad] == [{}] * len(bad)
    until(lambda: [line for line in daemon.lines if "has no names" in line] == [f"perfmond: {problem}"], "the log")


@pytest.fixture
def stalls(work):
    return Stalls(work)


@pytest.mark.deep
@pytest.mark.alone
def test_hostile_files_hold_up_no_iteration_of_the_loop(stalls, hostile):
    daemon, bad = hostile
    time.sleep(2)
    assert [names(daemon, cgroup) for cgroup in bad] == [{}] * len(bad)
    busy = max(stalls.end(), run_delay(daemon.pid))
    assert daemon.metrics().value("perfmond_loop_lag_seconds") < 0.5 + busy


@needs("cap-perfmon")
def test_files_that_may_not_be_read_are_one_problem(start, cgroups, folder, binary_for_all, tmp_path):
    """The reason once, whatever the number of containers; and CAP_DAC_READ_SEARCH is enough."""
    containers = [new_id() for _ in range(5)]
    for container in containers:
        write(folder, container, DOCKER)
    os.chmod(tmp_path, 0o755)
    os.chmod(folder, 0o700)
    groups = [cgroups.make(f"docker-{container}.scope") for container in containers]
    daemon = start(**binary_for_all(as_user(65534, "+perfmon")))
    problem, = until(lambda: problems(daemon), "a problem")
    assert problem.startswith(f"names of containers can't be read: {folder}: Permission denied: container-names.conf")
    assert all(names(daemon, group) == {} for group in groups)
    until(lambda: [line for line in daemon.lines if "can't be read" in line] == [f"perfmond: {problem}"], "the log")
    daemon.stop()

    daemon = start(**binary_for_all(as_user(65534, "+perfmon +dac_read_search")))
    for group in groups:
        wait_for(daemon, group, {"container": "web", "image": "nginx:1"})
    assert problems(daemon) == []
