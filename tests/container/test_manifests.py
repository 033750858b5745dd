# SPDX-License-Identifier: MIT
"""packaging/kubernetes, as kubectl renders it: by the schemas of Kubernetes and of the Prometheus operator, and that
its parts find each other.
"""

import copy
import json
import re
import subprocess
from pathlib import Path

import pytest

import pods
from tree import BUILD, provide
from pods import KUBERNETES, of_kind

VALIDATE = Path(__file__).parent / "schemas/validate.js"


@pytest.fixture(scope="module")
def manifests():
    return pods.rendered(KUBERNETES / "prometheus-operator")


@pytest.fixture(scope="module")
def faults():
    provide("schemas")
    schemas = BUILD / "schemas"

    def find(manifests):
        done = subprocess.run(["node", VALIDATE], input=json.dumps(manifests), capture_output=True, text=True,
                              cwd=schemas, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return find


def test_they_fit_their_schemas(manifests, faults, tmp_path):
    kinds = {"Namespace", "ServiceAccount", "ConfigMap", "Service", "DaemonSet", "NetworkPolicy", "PodMonitor",
             "PrometheusRule"}
    assert {manifest["kind"] for manifest in manifests} == kinds
    assert faults(manifests) == []
    assert faults(pods.overlay(tmp_path / "overlay", components=["tracepoints"], perfmond_conf="")) == []


def test_the_schemas_find_faults(manifests, faults):
    """A wrong type, a wrong word, and keys that nobody knows."""
    broken = copy.deepcopy(manifests)
    container = of_kind(broken, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
    container["securityContext"]["privilegeEscalation"] = False
    of_kind(broken, "PodMonitor")["spec"]["podMetricsEndpoints"][0]["relabelings"][0]["action"] = "relabel"
    of_kind(broken, "PrometheusRule")["spec"]["groups"][0]["rules"][0]["fur"] = "5m"
    of_kind(broken, "Service")["spec"]["ports"][0]["port"] = "9753"
    found = "\n".join(faults(broken))
    for part in ("securityContext/privilegeEscalation is unknown", "relabelings/0/action", "rules/0/fur is unknown",
                 "ports/0/port must be integer"):
        assert part in found, found


def test_the_parts_find_each_other(manifests):
    daemon = of_kind(manifests, "DaemonSet")["spec"]
    labels = daemon["template"]["metadata"]["labels"]
    [container] = daemon["template"]["spec"]["containers"]
    [port] = container["ports"]
    service, monitor, policy = (of_kind(manifests, kind)["spec"] for kind in ("Service", "PodMonitor", "NetworkPolicy"))
    for selector in (daemon["selector"]["matchLabels"], service["selector"], monitor["selector"]["matchLabels"],
                     policy["podSelector"]["matchLabels"]):
        assert selector and selector.items() <= labels.items()
    [endpoint] = monitor["podMetricsEndpoints"]
    assert {port["name"]} == {endpoint["port"], service["ports"][0]["targetPort"],
                              policy["ingress"][0]["ports"][0]["port"],
                              *(container[f"{probe}Probe"]["httpGet"]["port"] for probe in ("liveness", "readiness"))}
    config = of_kind(manifests, "ConfigMap")["data"]["perfmond.conf"]
    assert re.search(r"^listen = 0\.0\.0\.0:(\d+)$", config, re.M)[1] == str(port["containerPort"])
    # The alerts look for jobs of this name.
    assert re.match("perfmond", labels[monitor["jobLabel"]])


def test_what_a_pod_may(manifests):
    """No more than doc/container.md says."""
    spec = of_kind(manifests, "DaemonSet")["spec"]["template"]["spec"]
    assert not {"hostPID", "hostIPC", "hostNetwork"} & spec.keys() and not spec["automountServiceAccountToken"]
    [container] = spec["containers"]
    context = container["securityContext"]
    assert context == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                       "capabilities": {"drop": ["ALL"], "add": ["PERFMON", "BPF"]}}
    hosts = {volume["name"] for volume in spec["volumes"] if "hostPath" in volume}
    assert hosts == {"cgroup"}
    assert all(mount["readOnly"] for mount in container["volumeMounts"] if mount["name"] in hosts)
