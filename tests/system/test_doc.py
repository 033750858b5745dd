# SPDX-License-Identifier: MIT
"""What the documents say is so."""

import re
from pathlib import Path

import pytest

import harness

TOP = Path(__file__).parents[2]
pytestmark = pytest.mark.once


def table(text, heading):
    """The rows of the first table below a heading, each a list of its cells."""
    section = text.split(f"\n## {heading}\n", 1)[1]
    rows = re.findall(r"^\|(.*)\|$", section.split("\n## ", 1)[0], re.M)
    return [[cell.strip() for cell in row.split(" | ")] for row in rows[2:]]


def events_of(cell):
    return re.findall(r"`([^`]+)`", cell)


EVENTS = (TOP / "doc/events.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("row", table(EVENTS, "Kinds"), ids=lambda row: row[0].split()[0])
def test_examples_are_events(row, tmp_path):
    """An example may be absent here, but is never refused, unless this build or CPU knows no such names."""
    assert len(row) == 6, row
    examples = events_of(row[2])
    assert examples
    config = tmp_path / "doc.conf"
    for example in examples:
        config.write_text(f'[cpu]\ngroups = g\n[cgroup]\ngroups =\n[group "g"]\nevents = {example}\n', encoding="utf-8")
        done = harness.run(f"--config={config}", "--check")
        if row[0] == "libpfm" and "unknown event" in done.stderr:
            continue
        assert done.returncode in (0, 2), f"{example}: {done.stderr}"
        assert re.search(rf"^  g +{re.escape(example)} +\w+( \[\d+\])?$", done.stdout, re.M), done.stdout


def test_modifiers(tmp_path):
    """Each modifier of the table is one, and all there are stand in it."""
    letters = {name[0] for row in table(EVENTS, "Modifiers") for name in events_of(row[0])}
    config = tmp_path / "doc.conf"
    config.write_text('[cpu]\ngroups = g\n[group "g"]\nevents = cycles:x\n', encoding="utf-8")
    refused = harness.run(f"--config={config}", "--check").stderr
    assert letters == set(re.search(r"there are (.*)", refused)[1].replace(" and ", ", ").split(", ")), refused


def test_states():
    states = {events_of(row[0])[0] for row in table(EVENTS, "States")}
    assert states == set(re.findall(r"\[EVENT_\w+\] = \"(\w+)\"", (TOP / "daemon/count/open.c").read_text()))
