# SPDX-License-Identifier: MIT
"""Dashboard and rules with the daemon's own series in a real Prometheus server: everything has data."""

import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

import machine
from harness import PATIENCE, Metrics, Repeated, as_user, until
from prometheus import job, promtool

CONF = Path(__file__).parents[2] / "conf"
DASHBOARD = json.loads((CONF / "grafana/perfmond.json").read_text(encoding="utf-8"))
RULES = sorted((CONF / "prometheus").glob("*.rules.yml"))
# Folded rows hold their panels.
ALL = [inner for panel in DASHBOARD["panels"] for inner in (panel, *panel.get("panels", []))]
PANELS = [panel for panel in ALL if panel["type"] not in ("row", "text")]
# What Grafana would put in place of its variables.
VARIABLES = {"$__rate_interval": "10s", "$__range": "30s", "$cluster": ".*", "$job": "perfmond", "$instance": ".*",
             "$cgroup": "/.+", "$namespace": ".*", "$pod": ".*", "$top": "10", "$level": "== 0", "$port": "9753"}
pytestmark = pytest.mark.once


class Hardware:
    """A machine with a PMU, as the daemon would show it, where this one may have none. Its counters rise with time, and
    groups run for a share of it. Each cgroup is below the one before it."""

    PER_SECOND = {"cycles": 2e9, "instructions": 3e9, "cache_references": 1e7, "cache_misses": 1e6,
                  "branch_instructions": 5e8, "branch_misses": 5e6}

    def __init__(self, share=0.75, cgroups=("/", "/a.slice", "/a.slice/b.service"), states=""):
        self.share, self.cgroups, self.states = share, cgroups, states
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
        for scope, rows in (("cpu", ['cpu="0"', 'cpu="1"']), ("cgroup", [f'cgroup="{path}"' for path in self.cgroups])):
            series = {f"perf_{scope}_{event}_total": ("", rate) for event, rate in self.PER_SECOND.items()}
            for what, share in (("enabled", 1), ("running", self.share)):
                series[f"perf_{scope}_group_{what}_seconds_total"] = (',group="core"', share)
            for name, (more, rate) in series.items():
                lines.append(f"# TYPE {name} counter")
                lines += [f"{name}{{{row}{more}}} {seconds * rate:.9f}" for row in rows]
        lines.append("# TYPE perf_cgroup_info gauge")
        lines += [f'perf_cgroup_info{{cgroup="{path}",id="{i}"}} 1' for i, path in enumerate(self.cgroups)]
        lines.append("# TYPE perf_cgroup_descendants gauge")
        lines += [f'perf_cgroup_descendants{{cgroup="{path}"}} {len(self.cgroups) - 1 - i}'
                  for i, path in enumerate(self.cgroups)]
        return "\n".join(lines) + "\n" + self.states

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def machines():
    """Starts played machines."""
    running = []

    def start(**kwargs):
        running.append(Hardware(**kwargs))
        return running[-1]

    yield start
    for server in running:
        server.stop()


@pytest.fixture
def hardware(machines):
    return machines()


# --- the file

def test_the_dashboard_is_what_the_generator_makes():
    made = subprocess.run([sys.executable, CONF / "grafana/generate.py"], capture_output=True, text=True, check=True,
                          timeout=PATIENCE).stdout
    assert made == (CONF / "grafana/perfmond.json").read_text(encoding="utf-8"), \
        "conf/grafana/generate.py >conf/grafana/perfmond.json"


def check_places(panels):
    taken = {}
    for panel in panels:
        pos = panel["gridPos"]
        assert pos["w"] > 0 and pos["h"] > 0 and 0 <= pos["x"] <= 24 - pos["w"], panel["title"]
        for x in range(pos["x"], pos["x"] + pos["w"]):
            for y in range(pos["y"], pos["y"] + pos["h"]):
                other = taken.setdefault((x, y), panel)
                assert other is panel, f"{panel['title']} lies on {other['title']}"


def test_ids_and_places_of_panels():
    """Each panel has an id of its own, and a place of its own on a grid of 24 columns: in the folded row below which it
    is, or among all that are not folded. The first row is open."""
    ids = [panel["id"] for panel in ALL]
    assert len(set(ids)) == len(ids)
    check_places(DASHBOARD["panels"])
    rows = [panel for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert not rows[0]["collapsed"] and len(rows) > 3
    for row in rows[1:]:
        assert row["collapsed"] and row["panels"], row["title"]
        assert all(panel["gridPos"]["y"] > row["gridPos"]["y"] for panel in row["panels"])
        check_places(row["panels"])


def test_the_dashboard_needs_nothing_but_grafana():
    """Its own panels, and the Prometheus that is chosen."""
    assert {panel["type"] for panel in ALL} <= \
        {"row", "text", "stat", "timeseries", "table", "state-timeline"}
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    for panel in PANELS:
        assert panel["targets"] and panel["datasource"] == chosen, panel["title"]
        assert all(target["datasource"] == chosen for target in panel["targets"]), panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs), panel["title"]
    assert all(variables[name]["datasource"] == chosen for name in ("cluster", "job", "instance", "namespace", "pod"))
    # Series without the label are among all.
    assert all(variables[name]["allValue"] == ".*" for name in ("cluster", "namespace", "pod"))
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(DASHBOARD)))
    assert used == variables.keys()


# --- its data

def replaced(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    assert not re.search(r"\$[^1]", expression), expression
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


def has_data(server, expression, instant, at):
    if instant:
        return bool(server.query(expression, time=at))
    return any(value != "NaN" for row in server.get("query_range", query=expression, start=at - 5, end=at,
                                                    step=1)["result"] for _, value in row["values"])


def rules_of(server, kind):
    return [rule for group in server.get("rules")["groups"] for rule in group["rules"] if rule["type"] == kind]


def without_data(server, at, *more):
    """What has none (yet): recording rules, expressions of the dashboard, and more of them."""
    names = [*more, *(rule["name"] for rule in rules_of(server, "recording"))]
    missing = [name for name in names if not server.query(name, time=at)]
    missing += [where for where, expression, instant in expressions() if not has_data(server, expression, instant, at)]
    return missing


def test_expressions_are_promql_of_what_there_is(tmp_path):
    """Of the dashboard and the rules: each name is one of doc/metrics.md, of a recording rule, or of Prometheus. With
    data: below, and the rules in test_rules.py."""
    rules = [{"record": f"q{i}", "expr": expression} for i, (_, expression, _) in enumerate(expressions())]
    path = tmp_path / "rules.json"  # which is YAML, too
    path.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}), encoding="utf-8")
    done = promtool("check", "rules", path)
    assert done.returncode == 0 and f"{len(rules)} rules found" in done.stdout, done.stdout + done.stderr
    documented = re.findall(r"^\| `(perf\w*[<\w>]*)` \|", (CONF.parent / "doc/metrics.md").read_text(), re.M)
    pattern = "|".join(name.replace("<event>", r"\w+") for name in documented)
    own = [rule for file in RULES for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]
           for rule in group["rules"]]
    recorded = {rule["record"] for rule in own if "record" in rule}
    texts = [expression for _, expression, _ in expressions()] + [rule["expr"] for rule in own]
    names = {name for text in texts for name in re.findall(r"(?<![\w:\"/.])(?:\w+:)*perf(?:mond)?_[\w:]+", text)}
    assert len(names) > 20
    assert not [name for name in names if name not in recorded and not re.fullmatch(pattern, name)]


def check_shape(hardware, metrics):
    """What stands in for a PMU has the labels that the daemon gives to what it counts here."""
    made = Metrics(hardware.text())
    for (name, labels) in made.samples:
        scope, _, event = name.removeprefix("perf_").partition("_")
        like = name if event in ("descendants", "info") else f"perf_{scope}_context_switches_total"
        if event.startswith("group_"):
            like = f"perf_{scope}_group_enabled_seconds_total"
        own = metrics.all(like)[0][0].keys()
        # More labels tell where a cgroup is from.
        assert own >= dict(labels).keys() if event == "info" else own == dict(labels).keys(), name


def make_container(unit, files):
    """In a pod, with a file of its runtime."""
    container = 64 * "a"
    files.joinpath(container).mkdir()
    files.joinpath(container, "config.v2.json").write_text(json.dumps(
        {"Name": "/load", "Config": {"Labels": {"io.kubernetes.pod.name": "shop-0"}}}))
    return unit.make("kubepods").make("pod12345678-1234-1234-1234-123456789abc").make(container)


# What kube-state-metrics says of a pod, and perfmond of its container.
POD = """perf_cgroup_info{cgroup="/a.slice/b.service",id="9",container_id="c0ffee",pod_uid="1-2"} 1
perf_cgroup_task_clock_seconds_total{cgroup="/a.slice/b.service"} 5
perf_cgroup_context_switches_total{cgroup="/a.slice/b.service"} 5
perf_cgroup_major_faults_total{cgroup="/a.slice/b.service"} 5
kube_pod_container_info{namespace="shop",pod="web-0",container="web",container_id="containerd://c0ffee"} 1
"""


@pytest.mark.deep
@pytest.mark.alone
def test_every_rule_and_expression_has_data(perfmond, cgroups, work, cpus, machines, hardware, prometheus, tmp_path):
    """Under load, in a cgroup that is a unit by its name and a container, beside a machine with a PMU, and one with a
    pod. One event is counted nowhere: this machine may have a PMU that counts all others."""
    helper = work(make_container(cgroups.make("load.service"), tmp_path), cpus[-1])
    daemon = perfmond("[web]\nlisten = 127.0.0.1:0\npeaks = yes\n"
                      f"[cgroup]\ninclude = {cgroups.label} {cgroups.label}/**\ncontainer_files = {tmp_path}\n"
                      "[cpu]\ngroups = core software lost\n[group \"lost\"]\nevents = no_such_pmu/x/\n")
    check_shape(hardware, daemon.fresh())
    cluster = machines(states=POD)
    server = prometheus(job(daemon.url, hardware.url) + job(cluster.url, name="cluster"), RULES)

    load = Repeated(helper, "ticks 400 500")
    until(lambda: server.query('count(up{job="perfmond"} == 1) == 2'), "the first scrapes", 2 * PATIENCE)
    own, played = (url.removeprefix("http://") for url in (daemon.url, hardware.url))
    of_own = f'instance:perf_context_switches:rate5m{{instance="{own}"}}'
    of_played = f'instance:perf_instructions_per_cycle:ratio_rate5m{{instance="{played}"}}'
    largest = next(target for panel in PANELS if panel["title"] == "Cycles, top $top" for target in panel["targets"])
    everything = replaced(largest["expr"].replace("$level", ">= 0"))
    of_pod = largest["expr"].replace("$job", "cluster").replace("$namespace", "shop")
    awaited = of_own, of_played, replaced(largest["expr"]), everything, replaced(of_pod.replace("$pod", "web-.*"))
    end = time.monotonic() + 2 * PATIENCE
    # Scrapes that began before then have ended, also those that come too late, after which nothing is there at first.
    while (missing := without_data(server, at := time.time() - 2, *awaited)) and time.monotonic() < end:
        time.sleep(1)
    assert not missing, f"no data: {missing}"
    for kind, count in (("recording", 25), ("alerting", 15)):
        found = rules_of(server, kind)
        assert len(found) >= count
        assert all(rule["health"] == "ok" and not rule.get("lastError") for rule in found), found

    rate, ratio = server.query(of_own, time=at)[0][1], server.query(of_played, time=at)[0][1]
    assert rate > 0 and ratio == pytest.approx(1.5, rel=0.01)
    assert server.query("instance_unit:perf_cpus_used:rate5m", time=at)[0][0]["unit"] == "load.service"
    pods = [labels for labels, _ in server.query("instance_pod_container:perf_cpus_used:rate5m", time=at)]
    assert {(labels["pod"], labels.get("container")) for labels in pods} == {("shop-0", None), ("shop-0", "load")}
    load.end()
    pods = server.query("namespace_pod_container:perf_instructions_per_cycle:ratio_rate5m", time=at)
    assert [(labels["pod"], labels["container"], value) for labels, value in pods] == \
        [("web-0", "web", pytest.approx(1.5, rel=0.01))]

    # Of the largest cgroups, only those that hold no others.
    shown = server.query(replaced(largest["expr"]), time=at)
    assert [labels["cgroup"] for labels, _ in shown] == ["/a.slice/b.service"]
    # The job of the pod's machine, and its pod: with a name that is nobody's there is nothing.
    for pod, count in (("web-.*", 1), ("db-0", 0)):
        assert len(server.query(replaced(of_pod.replace("$pod", pod)), time=at)) == count
    assert {labels["cgroup"] for labels, _ in server.query(everything, time=at)} == {"/a.slice", "/a.slice/b.service"}


def test_links_lead_to_what_is_not_counted(prometheus):
    """By the address that a machine is scraped at, or by its name and the port that is given."""
    server = prometheus("")
    link = next(panel for panel in PANELS if panel["title"] == "What is not counted, and its state")
    assert all("${__data.fields.address}/api/v1/events" in one["url"]
               for one in link["fieldConfig"]["defaults"]["links"])
    expression = replaced(link["targets"][0]["expr"])
    series = re.search(r"max by .*?\)\)?(?=, \"address\")", expression)[0]
    for instance, address in (("10.0.0.1:9753", "10.0.0.1:9753"), ("db1", "db1:9753"), ("a.example", "a.example:9753"),
                              ("[::1]:80", "[::1]:80"), ("[2001:db8::1]", "[2001:db8::1]:9753")):
        played = f'label_replace(vector(1), "instance", "{instance}", "", "")'
        assert [labels["address"] for labels, _ in server.query(expression.replace(series, played))] == [address]


# --- alerts

# What is slow and large in a test, with a scrape each second, need not be so elsewhere; and before the first scrape
# there is none.
OF_TESTS = {"PerfmondLoopLag", "PerfmondCPUHigh", "PerfmondMemoryHigh", "PerfmondAbsent"}
# Each of them can fire with these; the slowest is PerfmondEventsNotCounted.
STATES = """# TYPE perf_event_state gauge
perf_event_state{scope="cpu",group="core",event="cycles",state="ok"} 1
perf_event_state{scope="cpu",group="large",event="ref_cycles",state="never_scheduled"} 1
"""


def quick_alerts(folder):
    """The rules, with seconds in place of minutes: an alert is due after two to twelve of them."""
    text = (CONF / "prometheus/alerts.rules.yml").read_text(encoding="utf-8")
    text = re.sub(r"(?<=for: )(\d+)m$", lambda found: f"{int(found[1]) * 400}ms", text, flags=re.M)
    text = re.sub(r"\[(\d+)m\]", r"[\1s]", text).replace("[1h]", "[1m]").replace("[1d]", "[24m]")
    assert not re.search(r"\d(m|h|d)$|\[\d+[hd]\]", text, re.M)
    rules = folder / "alerts.rules.yml"
    rules.write_text(text, encoding="utf-8")
    return rules


@pytest.mark.deep
@pytest.mark.alone
def test_what_fires_with_the_default_config(perfmond, cgroups, work, cpus, machines, prometheus, binary_for_all,
                                            tmp_path):
    """Nothing, on a tree of five levels: neither here, nor on a machine whose PMU has two counters for all of that, so
    that each set of events runs a twelfth of the time. A daemon without privileges is one alert."""
    paths = list(itertools.accumulate("abcde", lambda path, name: f"{path}/{name}", initial=""))[1:]
    deepest = [cgroups.make(path[1:]) for path in paths][-1]
    helper = work(deepest, cpus[-1])
    helper.begin("ticks 100 8000")
    include = f"[cgroup]\ninclude = {cgroups.label}/**\n"
    here = perfmond(include)
    twelfth = machines(share=1 / 12, cgroups=["/", *paths], states=STATES.splitlines()[1] + "\n")
    scarce = machines(share=0.02, states=STATES)
    os.chmod(tmp_path, 0o755)
    bare = perfmond(include, **binary_for_all(as_user(12345)))
    server = prometheus(job(*(machine.url for machine in (here, twelfth, scarce, bare))), [quick_alerts(tmp_path)])

    expected = {("PerfmondRunningShareLow", scarce.url), ("PerfmondEventsNotCounted", scarce.url)}
    if not machine.why_lacks("paranoid"):
        expected.add(("PerfmondCountsNothing", bare.url))

    def down():
        """A busy machine can be too late for a scrape. By Prometheus's word alone: another alert is none of that."""
        return {("PerfmondDown", f"http://{labels['instance']}") for labels, lowest
                in server.query("min_over_time(up[10m])") if lowest == 0}

    def fired():
        alerts = server.query('count_over_time(ALERTS{alertstate="firing"}[10m])')
        return {(labels["alertname"], "http://" + labels.get("instance", "")) for labels, _ in alerts
                if labels["alertname"] not in OF_TESTS}

    until(lambda: expected <= fired(), "the alerts that are meant", 4 * PATIENCE)
    assert fired() - down() == expected
    # After a scrape that came too late nothing is there until the next one.
    states = until(lambda: server.query(f'perf_event_state{{instance="{here.url[7:]}"}}'), "a scrape")
    assert "ok" in {labels["state"] for labels, _ in states}
    assert len(here.fresh().all("perf_cgroup_context_switches_total")) == len(paths)
    helper.process.kill()
