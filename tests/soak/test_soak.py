# SPDX-License-Identifier: MIT
"""All at once, for SOAK_MINUTES (2): no counter falls, nothing is lost or left behind (everything.py)."""

import os
import sys

import pytest

import harness
from machine import needs
from tree import TOP, check


@pytest.mark.deep
@pytest.mark.once
@needs("root", "cgroup")
def test_nothing_is_lost_while_everything_happens():
    path = ":".join(str(TOP / "tests" / folder) for folder in ("lib", "system"))
    print(check(sys.executable, TOP / "tests/soak/everything.py", os.environ.get("SOAK_MINUTES", "2"),
                env={**os.environ, "PYTHONPATH": path, "PERFMOND": harness.PERFMOND, "WORK": harness.WORK}))
