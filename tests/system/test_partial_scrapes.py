# SPDX-License-Identifier: MIT
"""Scrapes of a part: /metrics with scope=, cgroup=, leaves= and event=."""

import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from harness import PATIENCE, Metrics, until
from openapi import check

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


@pytest.fixture(scope="module")
def top(shared_cgroups):
    """Two cgroups with a leaf each below it, for all tests."""
    for name in ("a", "b"):
        shared_cgroups.make(name).make("leaf")
    return shared_cgroups


@pytest.fixture
def daemon(shared_perfmond, top):
    return shared_perfmond(f"[cgroup]\ninclude = {top.label}/**\n")


def part(daemon, query, **headers):
    answer = daemon.get("/metrics" + query, headers=headers)
    assert answer.status_code == 200, answer.text
    return check(answer)


def kinds(text):
    """Of the samples that are there: cpu, cgroup, self, and states by their scope."""
    found = set()
    for name, scope in re.findall(r'^(\w+)(?:\{scope="(\w+)")?', text, re.M):
        found.add("self" if name.startswith(("perfmond_", "process_")) else scope or name.split("_")[1])
    return found


SCOPES = {"?scope=cpu": {"cpu"}, "?scope=cgroup": {"cgroup"}, "?scope=self": {"self"}, "": {"cpu", "cgroup", "self"}}


def test_scope_chooses_series_of_cpus_cgroups_or_the_daemon(daemon):
    for query, wanted in {**SCOPES, "?scope=cpu&scope=self": {"cpu", "self"},
                          "?scope=self&scope=cgroup&scope=cpu": {"cpu", "cgroup", "self"}}.items():
        assert kinds(part(daemon, query)) == wanted, query
        text = part(daemon, query, **OPENMETRICS)
        assert kinds(text) == wanted and text.endswith("# EOF\n"), query
        assert kinds(part(daemon, query, **{"Accept-Encoding": "gzip"})) == wanted, query


def test_cgroup_leaves_and_event_choose_series(daemon, top):
    def labels(query):
        return {labels["cgroup"].removeprefix(top.label) for labels, _ in
                Metrics(part(daemon, f"?scope=cgroup&{query}")).all("perf_cgroup_page_faults_total")}
    assert labels("event=page_faults") == {"/a", "/b", "/a/leaf", "/b/leaf"}
    assert labels(f"cgroup={top.label}/a/**") == {"/a/leaf"}
    assert labels("cgroup=**/b") == {"/b"} and labels("leaves=yes") == {"/a/leaf", "/b/leaf"}
    assert labels("cgroup=/none") == set()
    metrics = Metrics(part(daemon, "?event=page-faults"))
    assert metrics.all("perf_cpu_page_faults_total") and not metrics.all("perf_cpu_context_switches_total")
    assert {labels["event"] for labels, _ in metrics.all("perf_event_state")} == {"page_faults"}
    assert metrics.value("perfmond_up") == 1


WRONG = {
    "?scope=cpus": "scope 'cpus' is neither cpu, cgroup nor self", "?scope=cpu&scope=": "scope '' is neither",
    "?cgroup=": "cgroup is empty", "?event=": "event is empty", "?leaves=1": "leaves '1' is neither yes nor no",
    "?cgroup=/a&cgroup=/b": "'cgroup' is given twice", "?match[]=up": "unknown query parameter 'match[]'",
    "?collect%5B%5D=cpu": "unknown query parameter 'collect[]'; known are scope, cgroup, leaves and event",
}


def test_a_wrong_parameter_is_answered_with_400(daemon):
    for query, says in WRONG.items():
        answer = daemon.get("/metrics" + query)
        assert answer.status_code == 400 and says in check(answer), query


@pytest.mark.parametrize("times", [5, pytest.param(30, marks=pytest.mark.deep)])
def test_answers_at_the_same_time_are_not_mixed_up(daemon, times):
    """Many clients, each with another part, coding and format."""
    def ask(query, accept, coding):
        for _ in range(times):
            answer = requests.get(daemon.url + "/metrics" + query, headers={**accept, "Accept-Encoding": coding},
                                  timeout=PATIENCE)
            openmetrics = answer.headers["Content-Type"].startswith("application/openmetrics-text")
            assert answer.status_code == 200 and kinds(answer.text) == SCOPES[query], (query, answer.text[:100])
            assert openmetrics == bool(accept) == answer.text.endswith("# EOF\n"), (query, accept, coding)
    clients = list(itertools.product(SCOPES, ({}, OPENMETRICS), ("gzip", "identity")))
    with ThreadPoolExecutor(len(clients)) as pool:
        for client in [pool.submit(ask, *client) for client in clients]:
            client.result()


@pytest.mark.once
def test_two_jobs_of_a_prometheus_scrape_different_parts(daemon, top, prometheus):
    """CPUs and the daemon often, some cgroups more seldom: by `params` of its jobs."""
    target = daemon.url.removeprefix("http://")
    server = prometheus(f"""  - job_name: cpus
    params: {{ scope: [cpu, self] }}
    static_configs: [{{ targets: ['{target}'] }}]
  - job_name: cgroups
    scrape_interval: 2s
    params: {{ scope: [cgroup], cgroup: ['{top.label}/a/**'], event: [page_faults] }}
    static_configs: [{{ targets: ['{target}'] }}]
""")
    until(lambda: len(server.query("up == 1")) == 2, "both jobs have scraped")
    names = {job: {labels["__name__"] for labels, _ in server.query(f'{{job="{job}",__name__=~"perf.*"}}')}
             for job in ("cpus", "cgroups")}
    assert "perf_cpu_page_faults_total" in names["cpus"] and "perfmond_up" in names["cpus"]
    assert not any(name.startswith("perf_cgroup") for name in names["cpus"])
    assert {name for name in names["cgroups"] if "group_" not in name.removeprefix("perf_cgroup_")} == \
        {"perf_cgroup_page_faults_total", "perf_cgroup_info", "perf_cgroup_descendants", "perf_event_state"}
    labels = [labels["cgroup"] for labels, _ in server.query("perf_cgroup_page_faults_total")]
    assert labels == [top.label + "/a/leaf"]
