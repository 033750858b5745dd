# SPDX-License-Identifier: MIT
"""The files in conf/prometheus: what promtool says of them, and its tests in tests/rules."""

import re
from pathlib import Path

import pytest

from prometheus import promtool

TOP = Path(__file__).parents[2]
CONF = TOP / "conf/prometheus"
NUMBERS = {"recording": 18, "alerts": 18, "kubernetes": 9}
KINDS = list(NUMBERS)
pytestmark = pytest.mark.once


def rules(kind):
    return CONF / f"{kind}.rules.yml"


def names(kind):
    return re.findall(r"^ +- (?:record|alert): (.+)$", rules(kind).read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("kind", KINDS)
def test_promtool_takes_the_rules(kind):
    done = promtool("check", "rules", "--lint-fatal", rules(kind))
    assert done.returncode == 0 and f"{len(names(kind))} rules found" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_rules_make_of_series(kind):
    done = promtool("test", "rules", TOP / f"tests/rules/{kind}.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_each_rule_is_named_in_a_test(kind):
    tests = (TOP / f"tests/rules/{kind}.yml").read_text(encoding="utf-8")
    assert len(names(kind)) == NUMBERS[kind]
    assert not [name for name in names(kind) if name not in tests]


@pytest.mark.deep
@pytest.mark.parametrize("kind", KINDS)
def test_none_goes_without_a_test(kind, tmp_path):
    """The tests that name a rule notice when it is not there."""
    text = rules(kind).read_text(encoding="utf-8")
    blocks = re.findall(r"^      - (?:record|alert): .*\n(?:        .*\n|\n)*", text, re.M)
    assert len(blocks) == len(names(kind)) == NUMBERS[kind]
    whole = (TOP / f"tests/rules/{kind}.yml").read_text(encoding="utf-8")
    head, *tests = re.split(r"^(?=  - name: )", whole, flags=re.M)
    (tmp_path / "tests/rules").mkdir(parents=True)
    (tmp_path / "conf/prometheus").mkdir(parents=True)
    file = tmp_path / f"tests/rules/{kind}.yml"
    for name, block in zip(names(kind), blocks):
        file.write_text(head + "".join(test for test in tests if name in test), encoding="utf-8")
        (tmp_path / f"conf/prometheus/{kind}.rules.yml").write_text(text.replace(block, "", 1), encoding="utf-8")
        done = promtool("test", "rules", file)
        assert done.returncode == 1 and "FAILED" in done.stdout + done.stderr, f"nobody misses\n{block}"


def test_each_alert_has_a_runbook():
    """Its runbook_url leads to its own entry of doc/runbooks.md, which has the three parts and no others' entries."""
    text = (TOP / "doc/runbooks.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    entries = dict(zip(parts[1::2], parts[2::2]))
    assert list(entries) == names("alerts")
    for name, entry in entries.items():
        assert re.findall(r"^\*\*(.+?):\*\* \S", entry, re.M) == ["Means", "Look at", "Do"], name
    blocks = re.split(r"^ +- alert: ", rules("alerts").read_text(encoding="utf-8"), flags=re.M)[1:]
    for block in blocks:
        name = block.split()[0]
        link = re.search(r"^ +runbook_url: (\S+)$", block, re.M)
        assert link and link[1] == f"file:///usr/share/doc/perfmond/runbooks.md#{name.lower()}", name


def test_the_scrape_config_is_one(tmp_path):
    """As it is, and with what is commented out: all of it is a config together with the rules."""
    text = (CONF / "scrape.yml").read_text(encoding="utf-8")
    everything = re.sub(r"^#(?=  )", "", text, flags=re.M)
    for name in ("perfmond-ca.pem", "perfmond-password"):
        (tmp_path / name).write_text("secret", encoding="utf-8")
    for jobs, content in ((1, text), (3, everything)):
        assert len(re.findall(r"^  - job_name: perfmond", content, re.M)) == jobs
        path = tmp_path / "prometheus.yml"
        path.write_text(f"rule_files: [{CONF}/*.rules.yml]\n" + content.replace("/etc/prometheus", str(tmp_path)))
        done = promtool("check", "config", path)
        assert done.returncode == 0 and "3 rule files found" in done.stdout, done.stdout + done.stderr
