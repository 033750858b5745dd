# SPDX-License-Identifier: MIT
"""The API's description, doc/openapi.json: that it is one, and that every answer of the daemon is as it says."""

import gzip
import json
import re
from pathlib import Path

import jsonschema
import pytest
import requests

from harness import PATIENCE, until
from openapi import API, DOCUMENT, check, check_schema, follow

KEYS_OF_A_SCHEMA = {"type", "description", "properties", "required", "additionalProperties", "items", "enum", "const",
                    "minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "pattern", "$ref"}

COLUMNS = """
[cpu]
groups = all core
[cgroup]
groups = all
include = {include}
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
def test_the_document():
    """It is OpenAPI 3.1: known keys, valid schemas, all objects closed, references that lead somewhere."""
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


def test_paths_are_all_there_are(perfmond):
    """The paths that the daemon answers are those of the document, and what it says of their errors."""
    daemon = perfmond("")
    for path, item in DOCUMENT["paths"].items():
        answer = daemon.get(path)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].partition(";")[0] in item["get"]["responses"]["200"]["content"]
    source = (Path(__file__).parents[2] / "daemon/web/route.c").read_text(encoding="utf-8")
    assert set(re.findall(r'^\t\{ "(/[^"]*)", TYPE_', source, re.M)) == set(DOCUMENT["paths"])


def with_rates(daemon):
    """A snapshot in which all events of the CPUs have one, or None."""
    snapshot = daemon.json("/api/v1/snapshot")
    return snapshot if all(event["rate"] is not None for row in snapshot["cpus"] for event in row["events"].values()) \
        else None


@pytest.mark.parametrize("extra", ["", "[cpu]\naggregate = yes\n", "[cgroup]\nper_cpu = yes\n"])
def test_answers(perfmond, cgroups, extra):
    """Twice: rates are null first."""
    cgroups.make("a")
    cgroups.make("perfmond-test.service")
    daemon = perfmond(COLUMNS.format(include=f"{cgroups.label}/**") + extra)
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


@pytest.mark.parametrize("query", ["scope=cpu", "scope=cgroup", "cgroup=/**", "event=context*", "sort=task_clock",
                                   "limit=1", "scope=cgroup&sort=context-switches&limit=1", "event=nothing"])
def test_filtered_answers(perfmond, cgroups, query):
    cgroups.make("a")
    daemon = perfmond(COLUMNS.format(include=f"{cgroups.label}/**"))
    names = {parameter["name"] for parameter in DOCUMENT["paths"]["/api/v1/snapshot"]["get"]["parameters"]}
    assert set(re.findall(r"(?:^|&)(\w+)=", query)) <= names
    check(daemon.get("/api/v1/snapshot?" + query))


@pytest.mark.parametrize("query", ["scope=everything", "scope=", "limit=0", "limit=x", "limit=", "cgroup=", "event=",
                                   "sort=", "sort=no_such_event", "nonsense=1", "scope=cpu&scope=cpu", "cgroup=%ff",
                                   "x" * 2000, "&".join(f"a{i}=1" for i in range(20))])
@pytest.mark.parametrize("path", API)
def test_wrong_queries(perfmond, path, query):
    answer = perfmond("").get(f"{path}?{query}")
    assert answer.status_code == 400
    assert "\n" not in check(answer)["error"]


@pytest.mark.parametrize("path", DOCUMENT["paths"])
def test_refused(perfmond, path):
    """What does not get as far as its path."""
    daemon = perfmond("")
    url = daemon.url + path
    for status, answer in [(405, requests.post(url, timeout=PATIENCE)),
                           (421, daemon.get(path, headers={"Host": "rebound.example"})),
                           (431, daemon.get(path, headers={"X": "x" * 17000}))]:
        assert answer.status_code == status
        check(answer)


def test_what_has_no_path(perfmond):
    """It is JSON of the same kind below /api/."""
    daemon = perfmond("")
    for answer in (daemon.get("/api/v1/nothing"), daemon.get("/api")):
        assert answer.status_code == 404
    check_schema("Error", daemon.get("/api/v1/nothing").json())


def test_compressed_answers(perfmond):
    daemon = perfmond("")
    for path in [*API, "/"]:
        answer = daemon.get(path, headers={"Accept-Encoding": "gzip"}, stream=True)
        assert answer.headers["Content-Encoding"] == "gzip"
        body = gzip.decompress(answer.raw.read())
        assert len(body) > 20
        plain = daemon.get(path, headers={"Accept-Encoding": "identity"})
        assert "Content-Encoding" not in plain.headers and plain.headers["Vary"] == answer.headers["Vary"]
        if path in API:
            assert json.loads(body).keys() == check(plain).keys()
