# SPDX-License-Identifier: MIT
"""Dashboard and rules with the daemon's own series in a real Prometheus server: everything has data."""

import json
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness import Metrics, until
from prometheus import job

CONF = Path(__file__).parents[2] / "conf"
DASHBOARD = json.loads((CONF / "grafana/perfmond.json").read_text(encoding="utf-8"))
RULES = sorted((CONF / "prometheus").glob("*.rules.yml"))
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] not in ("row", "text")]
# What Grafana would put in place of its variables.
VARIABLES = {"$__rate_interval": "10s", "$__range": "30s", "$job": "perfmond", "$instance": ".*", "$cgroup": "/.+",
             "$top": "10"}
pytestmark = pytest.mark.once


class Hardware:
    """A machine with a PMU, as the daemon would show it, where this one may have none. Its counters rise with time."""

    PER_SECOND = {"cycles": 2e9, "instructions": 3e9, "cache_references": 1e7, "cache_misses": 1e6,
                  "branch_instructions": 5e8, "branch_misses": 5e6}

    def __init__(self):
        hardware = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                body = hardware.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.start = time.monotonic()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def text(self):
        seconds = 1 + time.monotonic() - self.start
        lines = []
        for scope, rows in (("cpu", ['cpu="0"', 'cpu="1"']), ("cgroup", ['cgroup="/"', 'cgroup="/a.slice"'])):
            series = {f"perf_{scope}_{event}_total": ("", rate) for event, rate in self.PER_SECOND.items()}
            for what, share in (("enabled", 1), ("running", 0.75)):
                series[f"perf_{scope}_group_{what}_seconds_total"] = (',group="core"', share)
            for name, (more, rate) in series.items():
                lines.append(f"# TYPE {name} counter")
                lines += [f"{name}{{{row}{more}}} {seconds * rate:.9f}" for row in rows]
        return "\n".join(lines) + "\n"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hardware():
    server = Hardware()
    yield server
    server.stop()


# --- the file

def test_it_is_what_the_generator_makes():
    made = subprocess.run([sys.executable, CONF / "grafana/generate.py"], capture_output=True, text=True, check=True,
                          timeout=30).stdout
    assert made == (CONF / "grafana/perfmond.json").read_text(encoding="utf-8"), \
        "conf/grafana/generate.py >conf/grafana/perfmond.json"


def test_ids_and_places():
    """Each panel has an id of its own, and a place of its own on a grid of 24 columns."""
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken = {}
    for panel in DASHBOARD["panels"]:
        pos = panel["gridPos"]
        assert pos["w"] > 0 and pos["h"] > 0 and 0 <= pos["x"] <= 24 - pos["w"], panel["title"]
        for x in range(pos["x"], pos["x"] + pos["w"]):
            for y in range(pos["y"], pos["y"] + pos["h"]):
                other = taken.setdefault((x, y), panel)
                assert other is panel, f"{panel['title']} lies on {other['title']}"


def test_it_needs_nothing_but_grafana():
    """Its own panels, and the Prometheus that is chosen."""
    assert {panel["type"] for panel in DASHBOARD["panels"]} <= \
        {"row", "text", "stat", "timeseries", "table", "state-timeline"}
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    for panel in PANELS:
        assert panel["targets"] and panel["datasource"] == chosen, panel["title"]
        assert all(target["datasource"] == chosen for target in panel["targets"]), panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs), panel["title"]
    assert all(variables[name]["datasource"] == chosen for name in ("job", "instance"))
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert used == variables.keys()


# --- its data

def replaced(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


def expressions():
    """All of the dashboard, as (where, expression, is it of one point in time)."""
    for panel in PANELS:
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", replaced(target["expr"]), target["instant"]
    for annotation in DASHBOARD["annotations"]["list"]:
        yield annotation["name"], replaced(annotation["expr"]), False
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"]).groups()
            yield variable["name"], replaced(f'count by ({label}) ({metric}) and on ({label}) {metric}'), True


def has_data(server, expression, instant):
    if instant:
        return bool(server.query(expression))
    now = time.time()
    return any(value != "NaN" for row in server.get("query_range", query=expression, start=now - 5, end=now,
                                                    step=1)["result"] for _, value in row["values"])


def rules_of(server, kind):
    return [rule for group in server.get("rules")["groups"] for rule in group["rules"] if rule["type"] == kind]


def without_data(server):
    """What has none (yet): recording rules, and expressions of the dashboard."""
    missing = [rule["name"] for rule in rules_of(server, "recording") if not server.query(rule["name"])]
    missing += [where for where, expression, instant in expressions() if not has_data(server, expression, instant)]
    return missing


def check_shape(hardware, metrics):
    """What stands in for a PMU has the labels that the daemon gives to what it counts here."""
    made = Metrics(hardware.text())
    for (name, labels) in made.samples:
        scope, event = re.fullmatch(r"perf_(cpu|cgroup)_(\w+)_total", name).groups()
        like = name if event.startswith("group_") else f"perf_{scope}_context_switches_total"
        assert metrics.all(like)[0][0].keys() == dict(labels).keys(), name


def test_every_rule_and_expression_has_data(perfmond, cgroups, work, cpus, hardware, prometheus):
    """Under load, in a cgroup that is a unit by its name, beside a machine with a PMU. One event is counted nowhere:
    this machine may have a PMU that counts all others."""
    helper = work(cgroups.make("load.service"), cpus[-1])
    daemon = perfmond("[web]\nlisten = 127.0.0.1:0\npeaks = yes\n"
                      f"[cgroup]\ninclude = {cgroups.label} {cgroups.label}/**\n"
                      "[cpu]\ngroups = core software lost\n[group \"lost\"]\nevents = no_such_pmu/x/\n")
    check_shape(hardware, daemon.fresh())
    server = prometheus(job(daemon.url, hardware.url), RULES)

    helper.begin("ticks 400 16000")
    until(lambda: server.query('count(up{job="perfmond"} == 1) == 2'), "the first scrapes", 30)
    end = time.monotonic() + 30
    while (missing := without_data(server)) and time.monotonic() < end:
        time.sleep(1)
    assert not missing, f"no data: {missing}"
    for kind, count in (("recording", 30), ("alerting", 15)):
        found = rules_of(server, kind)
        assert len(found) >= count
        assert all(rule["health"] == "ok" and not rule.get("lastError") for rule in found), found

    rate = server.query('instance_cgroup:perf_context_switches:rate5m{cgroup=~".+/load.service"}')[0][1]
    played = hardware.url.removeprefix("http://")
    ratio = server.query(f'instance_cpu:perf_instructions_per_cycle:ratio_rate5m{{cpu="0", instance="{played}"}}')[0][1]
    assert rate > 0 and ratio == pytest.approx(1.5, rel=0.01)
    assert server.query("instance_unit:perf_cpus_used:rate5m")[0][0]["unit"] == "load.service"
    helper.process.kill()
