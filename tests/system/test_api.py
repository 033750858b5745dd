# SPDX-License-Identifier: MIT
"""The API's description, doc/openapi.json: that it is one, and that every answer of the daemon is as it says."""

import gzip
import itertools
import json
import os
import re
import time
from pathlib import Path

import jsonschema
import pytest
import requests

import harness
from harness import PATIENCE, until
from openapi import API, DOCUMENT, check, check_schema, follow

KEYS_OF_A_SCHEMA = {"type", "description", "properties", "required", "additionalProperties", "items", "enum", "const",
                    "minimum", "maximum", "minItems", "maxItems",
                    "exclusiveMinimum", "minLength", "maxLength", "pattern", "$ref"}

COLUMNS = """
[daemon]
interval = 200ms
[cpu]
groups = all core
{aggregate}
[cgroup]
groups = all
include = {top}/**
exclude = {top}/inner/b
{per_cpu}
[group "core"]
events = cycles, instructions:u, cache-misses, no_such_pmu/x/
[group "all"]
events = task-clock, context-switches, faults=page-faults:u
"""


def schemas(node, path=()):
    """Each schema below one, with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from schemas(child, (*path, name))
    for name in ("items", "additionalProperties"):
        if isinstance(node.get(name), dict):
            yield from schemas(node[name], (*path, name))


@pytest.mark.once
def test_the_document_is_openapi():
    """Version 3.1: known keys, valid schemas, all objects closed, references that lead somewhere."""
    assert DOCUMENT["openapi"] == "3.1.0"
    assert set(DOCUMENT) == {"openapi", "info", "servers", "security", "paths", "components"}
    assert {"title", "version"} <= set(DOCUMENT["info"])
    for name, top in DOCUMENT["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(top)
        for path, schema in schemas(top, (name,)):
            assert set(schema) <= KEYS_OF_A_SCHEMA, path
            if "object" in schema.get("type", ()):
                assert schema["additionalProperties"] is False or "properties" not in schema, path
                assert set(schema.get("required", ())) <= set(schema.get("properties", ())), path
    for kind in ("schemas", "responses"):
        references = re.findall(rf'"\$ref": "#/components/{kind}/(\w+)"', json.dumps(DOCUMENT))
        assert set(references) == set(DOCUMENT["components"][kind]), "all are used, and none is missing"
    for path, item in DOCUMENT["paths"].items():
        for status, response in item["get"]["responses"].items():
            errors = {"application/json" if path.startswith("/api/") else "text/plain"}
            assert status == "200" or set(follow(response)["content"]) == errors, path


@pytest.mark.once
def test_operations_have_names():
    """For programs that make clients of the document."""
    names = [item["get"]["operationId"] for item in DOCUMENT["paths"].values()]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"get[A-Z]\w+", name) for name in names)


@pytest.fixture
def daemon(shared_perfmond):
    """Without cgroups: of all that a machine has, the history can be more than one answer takes."""
    return shared_perfmond("[profiles]\nenabled = yes\n[cgroup]\ngroups =\n")


def test_the_document_is_served(daemon):
    answer = daemon.get("/api/v1/openapi.json")
    assert answer.headers["Content-Type"] == "application/json" and answer.json() == DOCUMENT
    assert answer.headers["Content-Encoding"] == "gzip"


def test_paths_are_all_there_are(daemon):
    """The paths that the daemon answers are those of the document, and what it says of their errors."""
    for path, item in DOCUMENT["paths"].items():
        answer = daemon.get(path.format(name="profile", id="none"))
        assert answer.status_code == (404 if "{id}" in path else 200)
        response = follow(item["get"]["responses"][str(answer.status_code)])
        assert answer.headers["Content-Type"].partition(";")[0] in response["content"]
    source = (Path(__file__).parents[2] / "daemon/web/api/route.c").read_text(encoding="utf-8")
    assert set(re.findall(r'^\t\{ "(/[^"]*)", TYPE_', source, re.M)) == set(DOCUMENT["paths"])


def with_rates(daemon):
    """A snapshot in which all events of the CPUs have one, or None."""
    snapshot = daemon.json("/api/v1/snapshot")
    return snapshot if all(event["rate"] is not None for row in snapshot["cpus"] for event in row["events"].values()) \
        else None


@pytest.fixture(scope="module")
def top(shared_cgroups):
    """Of cgroups that are there before the daemon is: leaves, and one in between that is left out."""
    for path in ("a", "perfmond-test.service", "inner", "inner/b", "inner/b/c", "inner/b/d", "inner-b"):
        shared_cgroups.make(path)
    return shared_cgroups.label


@pytest.fixture
def counting(shared_perfmond, top):
    return shared_perfmond(COLUMNS.format(top=top, aggregate="", per_cpu=""))


@pytest.mark.parametrize("aggregate, per_cpu", [("", ""), ("aggregate = yes", "per_cpu = yes")])
def test_answers_are_as_described(shared_perfmond, top, aggregate, per_cpu):
    """All of the API. Twice: rates are null first."""
    daemon = shared_perfmond(COLUMNS.format(top=top, aggregate=aggregate, per_cpu=per_cpu))
    for path in API:
        check(daemon.get(path))
    # An event that shares the PMU can miss the next interval, and has no rate again.
    snapshot = until(lambda: with_rates(daemon), "an interval")
    for path in API:
        check(daemon.get(path))
    assert snapshot["cpus"] and snapshot["cgroups"]
    for row in snapshot["cpus"] + snapshot["cgroups"]:
        assert row["events"]
        for event in row["events"].values():
            assert event["rate_1m"] is not None and event["rate_5m"] is not None
            assert event["rate_peak"] >= event["rate"]
        assert isinstance(row["events"]["context_switches"]["total"], int)
    for row in snapshot["cgroups"]:
        assert row["derived"]["cpus_utilized"] >= 0


def busy_by_the_kernel():
    """Seconds by CPU, in /proc/stat: user, nice, system, irq and softirq time."""
    lines = [line.split() for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()]
    return {int(line[0][3:]): sum(int(line[i]) for i in (1, 2, 3, 6, 7)) / os.sysconf("SC_CLK_TCK")
            for line in lines if re.fullmatch(r"cpu\d+", line[0])}


def test_busy_seconds_are_of_now(shared_perfmond):
    """Read for each answer that is made, not when the daemon has last read its counters."""
    daemon = shared_perfmond("[daemon]\ninterval = 60s\n[cgroup]\ngroups =\n")
    for _ in range(3):
        before = busy_by_the_kernel()
        time.sleep(0.2)
        shown = {row["cpu"]: row["busy_seconds"] for row in daemon.json("/api/v1/snapshot")["cpus"]}
        after = busy_by_the_kernel()
        assert set(shown) == set(harness.online_cpus())
        assert all(before[cpu] <= busy <= after[cpu] for cpu, busy in shown.items()), (before, shown, after)


def test_filtered_answers_are_as_described(counting):
    names = {parameter["name"] for parameter in DOCUMENT["paths"]["/api/v1/snapshot"]["get"]["parameters"]}
    for query in ("scope=cpu", "scope=cgroup", "cgroup=/**", "event=context*", "sort=task_clock", "leaves=yes",
                  "leaves=no", "limit=1", "scope=cgroup&sort=context-switches&limit=1", "event=nothing"):
        assert set(re.findall(r"(?:^|&)(\w+)=", query)) <= names, query
        check(counting.get("/api/v1/snapshot?" + query))


def test_leaves_have_no_others_below(counting, top):
    """As /metrics tells them; of what is left out in between, nothing is one."""
    expected = {"a": 0, "perfmond-test.service": 0, "inner": 2, "inner/b/c": 0, "inner/b/d": 0, "inner-b": 0}
    metrics = until(lambda: len((m := counting.fresh()).all("perf_cgroup_descendants")) == len(expected) and m,
                    "all of them are counted")
    assert {labels["cgroup"]: value for labels, value in metrics.all("perf_cgroup_descendants")} == \
        {f"{top}/{path}": number for path, number in expected.items()}
    leaves = check(counting.get("/api/v1/snapshot?scope=cgroup&leaves=yes"))["cgroups"]
    assert {row["cgroup"] for row in leaves} == {f"{top}/{path}" for path in expected if path != "inner"}


WRONG = ["scope=everything", "scope=", "leaves=", "limit=0", "limit=x", "limit=", "cgroup=", "event=", "sort=",
         "sort=no_such_event", "nonsense=1", "scope=cpu&scope=cpu", "cgroup=%ff", "x" * 2000,
         "&".join(f"a{i}=1" for i in range(20))]


def each_in_turn():
    """Three of them for each path, and all of them for the one that takes most parameters."""
    yield from ((path, query) for i, path in enumerate(API) for query in WRONG[i % 5::5])
    yield from (("/api/v1/snapshot", query) for query in WRONG)


@pytest.mark.parametrize("pairs", [list(each_in_turn()),
                                   pytest.param(list(itertools.product(API, WRONG)), marks=pytest.mark.deep)],
                         ids=["each in turn", "all"])
def test_wrong_queries_are_refused(daemon, pairs):
    for path, query in pairs:
        answer = daemon.get(f"{path}?{query}")
        assert answer.status_code == 400, (path, query)
        assert "\n" not in check(answer)["error"], (path, query)


def test_refusals_at_every_path(daemon):
    """Another method than GET, another host, and headers that are too long."""
    for path in (path.format(name="profile", id="none") for path in DOCUMENT["paths"]):
        for status, answer in [(405, requests.post(daemon.url + path, timeout=PATIENCE)),
                               (421, daemon.get(path, headers={"Host": "rebound.example"})),
                               (431, daemon.get(path, headers={"X": "x" * 17000}))]:
            assert answer.status_code == status, path
            check(answer)


def test_unknown_paths_of_the_api_get_json(daemon):
    for answer in (daemon.get("/api/v1/nothing"), daemon.get("/api")):
        assert answer.status_code == 404
    check_schema("Error", daemon.get("/api/v1/nothing").json())


def ask(daemon, path, **kwargs):
    """Once more where the daemon says that it was too busy."""
    return until(lambda: (found := [daemon.get(path, **kwargs)])[0].status_code != 503 and found, path)[0]


ACCEPTED = ("text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0,*/*;q=0.1",
            "application/json;version=1", "application/*;version=2;q=0.5", "*/*;version=1", ";version=1", "image/png")


def test_each_path_answers_whatever_is_accepted(daemon):
    """A type or a version that a path does not have is no error, and ends nothing."""
    for path, accepted in itertools.product([*API, "/metrics", "/"], ACCEPTED):
        answer = ask(daemon, path, headers={"Accept": accepted})
        assert answer.status_code == 200, (path, accepted)
        check(answer)


def test_answers_are_compressed(daemon):
    for path in [*API, "/"]:
        answer = ask(daemon, path, headers={"Accept-Encoding": "gzip"}, stream=True)
        assert answer.headers.get("Content-Encoding") == "gzip", (path, answer.status_code, answer.content)
        body = gzip.decompress(answer.raw.read())
        assert len(body) > 20
        plain = ask(daemon, path, headers={"Accept-Encoding": "identity"})
        assert "Content-Encoding" not in plain.headers and plain.headers["Vary"] == answer.headers["Vary"]
        if path in API:
            assert json.loads(body).keys() == check(plain).keys()
