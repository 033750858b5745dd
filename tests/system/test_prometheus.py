# SPDX-License-Identifier: MIT
"""A real Prometheus server scrapes the daemon."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
import requests

from harness import PROMETHEUS, free_port, until

pytestmark = pytest.mark.once


@pytest.fixture
def prometheus(tmp_path):
    """Starts the server on a free port of 127.0.0.1; returns a function that asks its query API."""
    if not (PROMETHEUS / "prometheus").exists():
        pytest.skip(f"needs Prometheus: {PROMETHEUS}/prometheus is not there")
    running = []

    def start(target, more=""):
        port = free_port()
        config = tmp_path / "prometheus.yml"
        config.write_text(f"""
global:
  scrape_interval: 1s
  scrape_timeout: 1s
scrape_configs:
  - job_name: perfmond
    static_configs:
      - targets: ['{target.partition("://")[2]}']
    {more}
""")
        log = open(tmp_path / "prometheus.log", "w", encoding="utf-8")
        running.append((subprocess.Popen(
            [PROMETHEUS / "prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT), log))

        def query(expression):
            answer = requests.get(f"http://127.0.0.1:{port}/api/v1/query", params={"query": expression}, timeout=10)
            return [(row["metric"], float(row["value"][1])) for row in answer.json()["data"]["result"]]

        until(lambda: _ready(port), f"Prometheus is ready, see {log.name}", 30)
        return query

    yield start
    for process, log in running:
        process.terminate()
        process.wait(30)
        log.close()


def _ready(port):
    try:
        return requests.get(f"http://127.0.0.1:{port}/-/ready", timeout=5).ok
    except requests.ConnectionError:
        return False


def test_the_rate_of_a_known_load(perfmond, cgroups, work, cpus, prometheus):
    """400 sleeps a second in a cgroup, which are as many switches by the kernel's own count."""
    group = cgroups.make("load")
    helper = work(group, cpus[-1])
    daemon = perfmond(f"[cgroup]\ninclude = {cgroups.label}/**\n")
    query = prometheus(daemon.url)
    # The server takes a few seconds from being ready to its first scrape.
    until(lambda: query('up{job="perfmond"} == 1'), "the first scrape", 30)

    switches, start = helper.switches(), time.monotonic()
    helper.begin("ticks 400 16000")
    time.sleep(13)
    selector = f'perf_cgroup_context_switches_total{{cgroup="{group.label}"}}'
    rates = query(f"rate({selector}[10s])")
    other = query(f'sum by (cpu) (rate(perf_cpu_context_switches_total{{cpu="{cpus[-1]}"}}[10s]))')
    helper.finish()
    rate = (helper.switches() - switches) / (time.monotonic() - start)

    assert rate == pytest.approx(400, rel=0.05), "the load is what it should be"
    assert len(rates) == 1 and rates[0][0]["cgroup"] == group.label
    assert rates[0][1] == pytest.approx(rate, rel=0.05)
    assert other[0][1] >= rate * 0.95
    assert query("up")[0][1] == 1
    joined = query(f"rate({selector}[10s]) * on (cgroup) group_left (id) perf_cgroup_info")
    assert joined[0][0]["id"] and joined[0][1] == pytest.approx(rate, rel=0.1)
    assert query("resets(perfmond_reads_total[10s])")[0][1] == 0
    assert query('max(scrape_samples_scraped)')[0][1] > 20


def test_promtool_finds_nothing_to_complain_about(perfmond, cgroups):
    if not (PROMETHEUS / "promtool").exists():
        pytest.skip(f"needs {PROMETHEUS}/promtool")
    cgroups.make("a")
    text = perfmond("").fresh().text
    done = subprocess.run([PROMETHEUS / "promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0 and done.stdout + done.stderr == "", done.stdout + done.stderr


def test_the_queries_in_the_readme(tmp_path):
    if not (PROMETHEUS / "promtool").exists():
        pytest.skip(f"needs {PROMETHEUS}/promtool")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```promql\n(.*?)```", readme, re.S)[1]
    queries = [" ".join(query.split()) for query in re.split(r"^#.*\n", block, flags=re.M) if query.strip()]
    rules = [{"record": f"q{i}", "expr": query} for i, query in enumerate(queries)]
    path = tmp_path / "rules.json"  # which is YAML, too
    path.write_text(json.dumps({"groups": [{"name": "readme", "rules": rules}]}))
    done = subprocess.run([PROMETHEUS / "promtool", "check", "rules", path], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0 and f"{len(queries)} rules found" in done.stdout, done.stdout + done.stderr
    assert len(queries) >= 5
