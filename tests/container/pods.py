# SPDX-License-Identifier: MIT
"""Pods of packaging/kubernetes, as kubectl renders them, for runc: what kubelet and containerd make of their fields.

Not all of a pod is here: it has the machine's network, and no /dev/shm, /etc/hosts and the like.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from machine import require

TOP = Path(__file__).parents[2]
KUBERNETES = TOP / "packaging/kubernetes"

# As containerd has them for a pod's containers.
MASKED = ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
          "/proc/scsi", "/sys/firmware"]
READ_ONLY = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"]
MOUNTS = [
    {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
    {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "nodev", "ro"]},
    {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
     "options": ["nosuid", "noexec", "nodev", "relatime", "ro"]},
]


# Debian 12's kubectl is 1.20, whose kustomize has neither components nor labels.
NEEDED = (1, 22)


def rendered(folder):
    """The manifests that `kubectl kustomize` makes of a folder."""
    require("kubectl")
    told = subprocess.run(["kubectl", "version", "--client", "-o", "json"], capture_output=True, text=True, timeout=60,
                          check=True).stdout
    version = json.loads(told)["clientVersion"]
    if (int(version["major"]), int(version["minor"].rstrip("+"))) < NEEDED:
        pytest.skip(f"needs kubectl 1.22, and this is {version['gitVersion']}")
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def overlay(folder, components=(), **files):
    """A kustomization of a user's own: the base, with another config."""
    folder.mkdir()
    link = folder / "kubernetes"
    shutil.copytree(KUBERNETES, link)
    for name, text in files.items():
        folder.joinpath(name.replace("_", ".")).write_text(text, encoding="utf-8")
    folder.joinpath("kustomization.yaml").write_text(json.dumps({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "namespace": "perfmond",
        "resources": ["kubernetes/base"], "components": [f"kubernetes/{name}" for name in components],
        "images": [{"name": "perfmond", "newName": "registry.example.org/perfmond", "newTag": "0.1.0"}],
        "configMapGenerator": [{"name": "perfmond", "behavior": "replace",
                                "files": [name.replace("_", ".") for name in files]}],
    }), encoding="utf-8")
    return rendered(folder)


def of_kind(manifests, kind):
    [found] = [manifest for manifest in manifests if manifest["kind"] == kind]
    return found


class Pod:
    """The pod of a DaemonSet. Its volumes are in a folder."""

    def __init__(self, manifests, folder, image):
        self.spec = of_kind(manifests, "DaemonSet")["spec"]["template"]["spec"]
        self.image = image  # its unpacked root and its configuration, as (path, dict)
        self.volumes = {volume["name"]: self._volume(volume, manifests, folder / volume["name"])
                        for volume in self.spec["volumes"]}

    @staticmethod
    def _volume(volume, manifests, folder):
        """Where it is."""
        if host := volume.get("hostPath"):
            assert host["type"] == "Directory" and Path(host["path"]).is_dir(), host
            return host["path"]
        folder.mkdir(parents=True)
        folder.chmod(0o777)
        if config := volume.get("configMap"):
            found = of_kind(manifests, "ConfigMap")
            assert found["metadata"]["name"] == config["name"]
            for name, text in found["data"].items():
                folder.joinpath(name).write_text(text, encoding="utf-8")
        else:
            assert "emptyDir" in volume, volume
        return str(folder)

    def mounts(self, container):
        for mount in container["volumeMounts"]:
            propagation = {"HostToContainer": "rslave"}.get(mount.get("mountPropagation"), "rprivate")
            yield {"source": self.volumes[mount["name"]], "destination": mount["mountPath"], "type": "bind",
                   "options": ["rbind", propagation, "ro" if mount.get("readOnly") else "rw"]}

    def specification(self, container, cgroup, args=None, capabilities=None, seccomp=None):
        """`capabilities` are others than the manifest's, by set; `seccomp` is the runtime's default profile."""
        context = {**self.spec["securityContext"], **container["securityContext"]}
        assert context["seccompProfile"] == {"type": "RuntimeDefault"} and context["capabilities"]["drop"] == ["ALL"]
        assert context["runAsNonRoot"] == (context["runAsUser"] != 0)
        added = [f"CAP_{name}" for name in context["capabilities"].get("add", [])]
        root, config = self.image
        limits = container["resources"]["limits"]
        assert limits["memory"].endswith("i")
        memory = int(limits["memory"][:-2]) << {"M": 20, "G": 30}[limits["memory"][-2]]
        env = [f"{entry['name']}={entry['value']}" for entry in container.get("env", [])]
        linux = {
            "cgroupsPath": cgroup, "maskedPaths": MASKED, "readonlyPaths": READ_ONLY,
            "namespaces": [{"type": kind} for kind in ("pid", "mount", "ipc", "uts", "cgroup")],
            "resources": {"memory": {"limit": memory}},
        }
        return {
            "ociVersion": "1.0.2", "hostname": "node",
            "process": {"user": {"uid": context["runAsUser"], "gid": context["runAsGroup"]},
                        "args": [*config["Entrypoint"], *(args or container["args"])], "cwd": config["WorkingDir"],
                        "env": config["Env"] + env, "noNewPrivileges": not context["allowPrivilegeEscalation"],
                        # For each user, not only for root.
                        "capabilities": capabilities or dict.fromkeys(("bounding", "effective", "permitted"), added)},
            "root": {"path": str(root), "readonly": context["readOnlyRootFilesystem"]},
            "mounts": [*MOUNTS, *self.mounts(container)],
            "linux": {**linux, **({"seccomp": seccomp} if seccomp else {})},
        }
