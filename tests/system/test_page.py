# SPDX-License-Identifier: MIT
"""The page at / as it is sent; what it does is tested in a browser (tests/browser)."""

import base64
import hashlib
import re

import pytest

pytestmark = pytest.mark.once


def test_policy_names_script_and_style(shared_perfmond):
    """The Content-Security-Policy allows the one script and the one style that the page has, and nothing else."""
    page = shared_perfmond().get("/")
    policy = dict(part.split(" ", 1) for part in page.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    for tag in ("script", "style"):
        inside = re.findall(f"^<{tag}>$(.*?)^</{tag}>$".encode(), page.content, re.M | re.S)
        assert len(inside) == 1
        assert policy[f"{tag}-src"] == f"'sha256-{base64.b64encode(hashlib.sha256(inside[0]).digest()).decode()}'"
