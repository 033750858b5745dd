# SPDX-License-Identifier: MIT
"""The mixin: Debian's jsonnet renders what is installed, and what its _config asks for."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from machine import needs
from prometheus import promtool

TOP = Path(__file__).parents[2]
MIXIN = TOP / "conf/mixin/mixin.libsonnet"
MANIFEST = TOP / "packaging/kubernetes/prometheus-operator/prometheus-rule.json"
RUNBOOKS = "file:///usr/share/doc/perfmond/runbooks.md"

pytestmark = [pytest.mark.once, needs("jsonnet")]


def jsonnet(*args):
    done = subprocess.run(["jsonnet", *args], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(config=""):
    """The three parts that mixins have, which are hidden fields."""
    parts = "{ [part]: mixin[part] for part in ['prometheusAlerts', 'prometheusRules', 'grafanaDashboards'] }"
    return json.loads(jsonnet("-e", f"local mixin = (import '{MIXIN}') + {{ _config+:: {{ {config} }} }}; {parts}"))


def groups(kind):
    """What is installed, with each expression in one line."""
    found = yaml.safe_load((TOP / f"conf/prometheus/{kind}.rules.yml").read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in found for rule in group["rules"]):
        rule["expr"] = " ".join(rule["expr"].split())
    return found


def test_the_mixin_is_what_is_installed():
    assert rendered() == {
        "prometheusAlerts": {"groups": groups("alerts")},
        "prometheusRules": {"groups": groups("recording") + groups("kubernetes")},
        "grafanaDashboards": {
            "perfmond.json": json.loads((TOP / "conf/grafana/perfmond.json").read_text(encoding="utf-8"))},
    }


def test_the_manifest_has_all_rules():
    """A PrometheusRule of all rules."""
    program = TOP / "conf/mixin/prometheus-rule.jsonnet"
    assert jsonnet(program) == MANIFEST.read_text(encoding="utf-8"), \
        f"jsonnet {program.relative_to(TOP)} >{MANIFEST.relative_to(TOP)}"
    assert json.loads(MANIFEST.read_text())["spec"]["groups"] == \
        groups("alerts") + groups("recording") + groups("kubernetes")


def test_the_config_of_the_mixin(tmp_path):
    made = rendered("selector: 'job=\"perf\", env!=\"test\"', runbookURL: 'https://wiki.example/pm', kubernetes: false")
    assert made["prometheusRules"]["groups"] == groups("recording")
    text = json.dumps(made)
    assert 'perfmond.*\\"' not in json.dumps(made["prometheusAlerts"]) and RUNBOOKS not in text
    alerts = {rule["alert"]: rule for rule in made["prometheusAlerts"]["groups"][0]["rules"]}
    assert alerts["PerfmondDown"]["expr"] == 'up{job="perf", env!="test"} == 0'
    assert alerts["PerfmondAbsent"]["expr"] == 'absent(up{job="perf", env!="test"})'
    assert alerts["PerfmondDown"]["annotations"]["runbook_url"] == "https://wiki.example/pm#perfmonddown"
    rules = tmp_path / "rules.yml"
    rules.write_text(json.dumps(made["prometheusAlerts"]), encoding="utf-8")
    done = promtool("check", "rules", "--lint-fatal", rules)
    assert done.returncode == 0, done.stdout + done.stderr
