# SPDX-License-Identifier: MIT
"""The API's description, doc/openapi.json, and that an answer is as it says."""

import json
import re
from pathlib import Path

import jsonschema

DOCUMENT = json.loads((Path(__file__).parents[2] / "doc/openapi.json").read_text(encoding="utf-8"))
RESOLVER = jsonschema.RefResolver.from_schema(DOCUMENT)
API = [path for path in DOCUMENT["paths"] if path.startswith("/api/") and "{" not in path]


def follow(node):
    """What a reference within the document leads to; anything else as it is."""
    while "$ref" in node:
        assert node["$ref"].startswith("#/")
        found = DOCUMENT
        for name in node["$ref"][2:].split("/"):
            found = found[name]
        node = found
    return node


def response_of(path, status):
    """What the document says of an answer, by its path and status."""
    return follow(DOCUMENT["paths"][path]["get"]["responses"][str(status)])


def validate(schema, value):
    jsonschema.Draft202012Validator(schema, resolver=RESOLVER).validate(value)


def check_schema(name, value):
    validate({"$ref": f"#/components/schemas/{name}"}, value)


def check_json(path, status, value):
    """An answer's JSON has the schema of its path and status."""
    validate(response_of(path, status)["content"]["application/json"]["schema"], value)
    return value


def check(answer):
    """The status, the type, the headers and the body of an answer (of requests) are as the document says. Its JSON, or
    its text where it is none."""
    path = re.sub(r"^https?://[^/]+|\?.*", "", answer.url)
    path = re.sub(r"^/debug/pprof/[^/]+$", "/debug/pprof/{name}", path)
    path = re.sub(r"^/api/v1/captures/[^/]+$", "/api/v1/captures/{id}", path)
    response = response_of(path, answer.status_code)
    kind = answer.headers["Content-Type"].partition(";")[0]
    assert kind in response["content"], f"{path}: {answer.status_code} as {kind}"
    for name, header in response.get("headers", {}).items():
        assert not header["required"] or name in answer.headers, f"{path}: {answer.status_code} without {name}"
    return check_json(path, answer.status_code, answer.json()) if kind == "application/json" else answer.text
