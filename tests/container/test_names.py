# SPDX-License-Identifier: MIT
"""Names of containers that real runtimes have started."""

import shutil
import tempfile
from pathlib import Path

import pytest

import containers
import machine
import runtimes
from tree import provide
from container_names import CONFIG, names_in
from harness import until


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    provide("containers")
    provide("runtimes")
    folder = tmp_path_factory.mktemp("image") / "root"
    runtimes.make_root(folder)
    return folder


def is_removed(folder):
    """Beside `podman rm`, conmon runs another podman that cleans up after the container; it may still write there."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


@pytest.fixture
def runtime(root, cgroups):
    """Starts one, with a folder of its own, and stops it at the end. podman wants short paths."""
    machine.require("cgroup2")
    running, folders = [], []

    def start(kind, *args):
        folder = Path(tempfile.mkdtemp(prefix="run-"))
        folders.append(folder)
        running.append(kind(folder, cgroups.label, *args))
        return running[-1]

    yield start
    for one in reversed(running):
        one.stop()
    for folder in folders:
        until(lambda folder=folder: is_removed(folder), f"{folder} is removed")
    containers.clean_up(cgroups)


@pytest.fixture
def names(perfmond, cgroups):
    """What the labels and the JSON tell of a container, when there are names."""
    def ask(container, *files):
        daemon = perfmond(CONFIG.format(cgroup=cgroups.label, files=" ".join(str(folder) for folder in files)))

        def find():
            found = daemon.metrics().all("perf_cgroup_info", container_id=container)
            assert len(found) <= 1
            return found[0][0] if found and "container" in found[0][0] else None

        labels = until(find, "names")
        wanted = names_in(labels)
        row, = [row for row in daemon.json("/api/v1/cgroups")["cgroups"] if row.get("container_id") == container]
        assert {key: row[key] for key in wanted} == wanted
        row, = [row for row in daemon.json("/api/v1/snapshot")["cgroups"] if row.get("container_id") == container]
        assert {key: row[key] for key in wanted} == wanted
        assert not [text for text in daemon.json("/api/v1/status")["problems"] if "names" in text]
        return wanted

    return ask


def test_podman(runtime, names, root):
    podman = runtime(runtimes.Podman)
    container = podman.start(root.with_suffix(".tar"), "web-1", "localhost/web:1.0")
    assert names(container, podman.files) == {"container": "web-1", "image": "localhost/web:1.0"}


def test_containerd(runtime, names, root):
    containerd = runtime(runtimes.Containerd)
    container = containerd.start(root, {
        "io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.container-name": "cart",
        "io.kubernetes.cri.image-name": "docker.io/library/cart:2", "io.kubernetes.cri.sandbox-name": "shop-0",
        "io.kubernetes.cri.sandbox-namespace": "retail"})
    assert names(container, containerd.files) == {
        "namespace": "retail", "pod": "shop-0", "container": "cart", "image": "docker.io/library/cart:2"}


def test_docker(runtime, names, root):
    """Whose containers are containerd's too, where they have no names."""
    containerd = runtime(runtimes.Containerd)
    docker = runtime(runtimes.Docker, containerd)
    container = docker.start(root.with_suffix(".tar"), "front", "web:3")
    assert names(container, containerd.files, docker.files) == {"container": "front", "image": "web:3"}
