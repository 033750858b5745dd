# SPDX-License-Identifier: MIT
"""packaging/image and packaging/kubernetes: the image, unpacked by umoci, in the pods that kubectl renders, by runc."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import containers
import harness
import pods
from containers import FAULTS
from harness import until
from machine import needs
from tree import BUILD as TREES, provide

BUILD = pods.TOP / "packaging/image/build"
CONFIG = containers.CONFIG.format(mount="")
KINDS = ("bounding", "effective", "permitted")

# A pod counts by BPF where it can: what that engine can't see on some machines is allowed for, as in the system tests.

# A sanitizer's libraries are of no image, nor do they take to file capabilities.
DOCKER = TREES / "golang-github-docker-docker-dev/usr/share/gocode/src/github.com/docker/docker"

pytestmark = pytest.mark.skipif(harness.SANITIZED, reason="not of a sanitizer's build")


def build(folder, program=harness.PERFMOND, **env):
    done = subprocess.run([BUILD, program, folder], capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="session")
def layout(tmp_path_factory):
    """(folder, what skopeo and umoci call it)"""
    folder = tmp_path_factory.mktemp("image") / "layout"
    return folder, build(folder)


@pytest.fixture(scope="session")
def image(layout):
    """(root, configuration) of the image, as umoci finds them in it."""
    provide("containers")
    folder = layout[0].parent
    done = subprocess.run(["umoci", "unpack", "--image", layout[1], folder / "bundle"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for path in (folder, *folder.parents[:2], folder / "bundle"):
        path.chmod(path.stat().st_mode | 0o55)
    blobs = layout[0] / "blobs/sha256"
    index = json.loads((layout[0] / "index.json").read_text())
    manifest = json.loads((blobs / index["manifests"][0]["digest"][7:]).read_text())
    return folder / "bundle/rootfs", json.loads((blobs / manifest["config"]["digest"][7:]).read_text())["config"]


@pytest.fixture
def pod(runc, image, tmp_path):
    """Makes the pod of an overlay; returns what starts its containers."""
    def make(config=CONFIG, **kwargs):
        manifests = pods.overlay(tmp_path / "overlay", perfmond_conf=config, **kwargs)
        made = pods.Pod(manifests, tmp_path / "volumes", image)

        def command(container=made.spec["containers"][0], **options):
            bundle, cgroup = runc.new_bundle()
            return runc.command_of(bundle, made.specification(container, cgroup, **options))

        return made, command

    return make


# --- the image

def test_what_is_in_it(image):
    """The program with its capabilities, its libraries with their licences, another user; nothing else that runs."""
    root, config = image
    assert config["User"] == "65534:65534" and config["Entrypoint"] == ["/usr/sbin/perfmond"]
    done = subprocess.run(["getcap", "-n", root / "usr/sbin/perfmond"], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "cap_perfmon,cap_bpf=p"
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    runs = {path.name for path in files if path.stat().st_mode & 0o111}
    assert "perfmond" in runs and all(".so." in name for name in runs - {"perfmond"}), runs
    packages = {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "libmicrohttpd12", "libsystemd0"} <= packages
    assert packages == {path.parent.name for path in (root / "usr/share/doc").glob("*/copyright")}
    assert sum(path.stat().st_size for path in files) < 40e6
    for path in root.rglob("*"):
        assert path.is_symlink() or path.name == "tmp" or not path.stat().st_mode & 0o6022, path


def test_it_is_the_same_each_time(layout, tmp_path):
    """Wherever it is made; and the time it tells is SOURCE_DATE_EPOCH."""
    def content(folder):
        return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    build(tmp_path / "again")
    first = content(layout[0])
    assert first == content(tmp_path / "again")
    build(tmp_path / "later", SOURCE_DATE_EPOCH="1700000000")
    later = content(tmp_path / "later")
    assert later.keys() != first.keys() and any(b"2023-11-14T22:13:20Z" in blob for blob in later.values())


@pytest.mark.parametrize("program, why", [("/nonexistent", "nonexistent"), (str(BUILD), "non-zero exit status")])
def test_what_can_not_be_made(tmp_path, program, why):
    done = subprocess.run([BUILD, program, tmp_path / "out"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0 and why in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_it_runs_without_anything(pod):
    """A file capability with the effective bit could not even be started."""
    _, command = pod()
    none = dict.fromkeys(KINDS, [])
    done = containers.run(command(args=["--config=/etc/perfmond/perfmond.conf", "--check"], capabilities=none))
    assert done.returncode == 2 and "CAP_PERFMON: no" in done.stdout, done.stdout + done.stderr


# --- the pod

@needs("cgroup2")
def test_the_pod_counts_the_machine(pod, container, cgroups, work):
    """By another user without privilege escalation: CPUs and the host's cgroups by name, exactly; its probes answer."""
    made, command = pod()
    inside = cgroups.make("work")
    helper = work(inside)
    daemon = container(command=command())
    told = daemon.json("/api/v1/status")
    assert told["cgroups"]["mount"]["path"].startswith("/host/cgroup") and told["cgroups"]["mount"]["whole"]
    assert {"CAP_PERFMON", "CAP_BPF"} == set(told["privileges"]["capabilities"])
    # The three processes of the program, in the pod's root: samples are taken too.
    [program] = harness.children(daemon.pid)
    [keeper] = harness.children(program)
    profiler = until(lambda: harness.find_profiler(program), "the profiler")
    for pid in (program, keeper, profiler):
        assert "CapPrm:\t000000c000000000" in Path(f"/proc/{pid}/status").read_text()
    until(lambda: daemon.metrics().value("perfmond_profile_samples_total") > 0, "samples")
    metrics = daemon.fresh()
    assert metrics.get("perf_cgroup_info", cgroup="/", id="1") == 1 and metrics.state("context_switches") == "ok"
    before = metrics.value(FAULTS, cgroup=inside.label)
    helper.do("faults 1234")
    assert daemon.fresh().value(FAULTS, cgroup=inside.label) - before == 1234
    for probe in ("livenessProbe", "readinessProbe"):
        assert daemon.get(made.spec["containers"][0][probe]["httpGet"]["path"]).status_code == 200
    # Its state goes on in the next container of the pod.
    counted = daemon.fresh().value(FAULTS, cgroup=inside.label)
    daemon.stop()
    again = container(command=command())
    assert again.fresh().value(FAULTS, cgroup=inside.label) >= counted
    again.wait_log("totals go on")


def test_perfmon_alone(pod, container):
    """For clusters whose policy has no BPF: perf counts."""
    _, command = pod()
    daemon = container(command=command(capabilities=dict.fromkeys(KINDS, ["CAP_PERFMON"])))
    told = daemon.json("/api/v1/status")
    assert told["privileges"]["capabilities"] == ["CAP_PERFMON"] and daemon.fresh().state("context_switches") == "ok"


def test_docker(pod):
    """Its runtime permits another user nothing before the program starts: no_new_privs then takes the file's away."""
    made, command = pod()
    sets = {"bounding": ["CAP_PERFMON", "CAP_BPF"]}
    check = ["--config=/etc/perfmond/perfmond.conf", "--check"]
    done = containers.run(command(args=check, capabilities=sets))
    assert done.returncode == 2 and "CAP_PERFMON: no" in done.stdout, done.stdout + done.stderr
    # As doc/container.md has it.
    made.spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    done = containers.run(command(args=check, capabilities=sets))
    assert done.returncode == 0 and "CAP_PERFMON: yes" in done.stdout, done.stdout + done.stderr


def test_tracepoints(pod, container, tracefs):
    """The component: a container of root without capabilities lists them, and the daemon counts one."""
    made, command = pod(CONFIG.replace("context-switches", "sched:sched_switch"), components=["tracepoints"])
    [first] = made.spec["initContainers"]
    done = containers.run(command(first))
    assert done.returncode == 0, done.stdout + done.stderr
    daemon = container(command=command())
    assert daemon.fresh().state("sched_sched_switch") == "ok", daemon.log


# --- the runtime's filter of system calls

def default_profile(*more):
    """Docker's, of Debian's package, for this machine and our capabilities; `more` are rules that newer ones have."""
    provide("docker_profile")
    path = DOCKER / "profiles/seccomp/default.json"
    profile = json.loads(path.read_text())
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]

    def is_for_us(rule):
        wanted, unwanted = rule.get("includes", {}), rule.get("excludes", {})
        return not wanted.get("caps") and arch in wanted.get("arches", [arch]) and \
            arch not in unwanted.get("arches", [])

    rules = [{key: rule[key] for key in ("names", "action", "args") if rule.get(key)}
             for rule in profile["syscalls"] if is_for_us(rule)]
    return {"defaultAction": profile["defaultAction"], "syscalls": rules + [
        {"names": [name], "action": "SCMP_ACT_ALLOW"} for name in more]}


def test_a_runtime_whose_profile_knows_no_perfmon(pod):
    _, command = pod()
    done = containers.run(command(args=["--config=/etc/perfmond/perfmond.conf", "--check"], seccomp=default_profile()))
    assert done.returncode == 2 and "CAP_PERFMON: yes" in done.stdout and "seccomp" in done.stdout, done.stdout


def test_a_runtime_whose_profile_does(pod, container, cgroups):
    """All other system calls that the daemon makes are in it, also those of the BPF engine."""
    _, command = pod()
    without = container(command=command())
    engine = without.json("/api/v1/status")["engine"]
    without.stop()
    daemon = container(command=command(seccomp=default_profile("perf_event_open", "bpf")))
    assert daemon.json("/api/v1/status")["engine"] == engine
    label = cgroups.make("later").label
    until(lambda: daemon.metrics().get(FAULTS, cgroup=label) is not None, "found")
    assert not re.search("Operation not permitted|seccomp", daemon.log), daemon.log
