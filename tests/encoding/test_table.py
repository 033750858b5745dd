# SPDX-License-Identifier: MIT
"""The table that tests/unit/event/test-encoding compares with is what perf says of the same texts."""

import re
import subprocess
import sys

import pytest

from machine import needs
from tree import TOP, build, check

TABLE = TOP / "tests/encoding/table.txt"


@pytest.mark.deep
@needs("perf")
def test_perf_encodes_events_as_the_table_has_them():
    version = re.match(r"perf version \d+\.\d+", subprocess.check_output(["perf", "--version"], text=True))[0]
    if version not in TABLE.read_text():
        pytest.skip(f"the table is of another perf than this {version}")
    program = build("default", "tests/encoding/on-machine") / "tests/encoding/on-machine"
    check(sys.executable, TOP / "tests/encoding/generate.py", "--check", program, TABLE)
