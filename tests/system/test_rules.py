# SPDX-License-Identifier: MIT
"""The files in conf/prometheus: what promtool says of them, and its tests in tests/rules."""

import re
from pathlib import Path

import pytest

from prometheus import promtool

TOP = Path(__file__).parents[2]
CONF = TOP / "conf/prometheus"
KINDS = ["recording", "alerts"]
pytestmark = pytest.mark.once


def rules(kind):
    return CONF / f"{kind}.rules.yml"


def names(kind):
    return re.findall(r"^ +- (?:record|alert): (.+)$", rules(kind).read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_rules(kind):
    done = promtool("check", "rules", "--lint-fatal", rules(kind))
    assert done.returncode == 0 and f"{len(names(kind))} rules found" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_what_they_make_of_series(kind):
    done = promtool("test", "rules", TOP / f"tests/rules/{kind}.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_none_goes_without_a_test(kind, tmp_path):
    """The tests notice when any one of the rules is not there."""
    text = rules(kind).read_text(encoding="utf-8")
    blocks = re.findall(r"^      - (?:record|alert): .*\n(?:        .*\n|\n)*", text, re.M)
    assert len(blocks) == len(names(kind)) > 10
    (tmp_path / "tests/rules").mkdir(parents=True)
    (tmp_path / "conf/prometheus").mkdir(parents=True)
    tests = tmp_path / f"tests/rules/{kind}.yml"
    tests.write_bytes((TOP / f"tests/rules/{kind}.yml").read_bytes())
    for block in blocks:
        (tmp_path / f"conf/prometheus/{kind}.rules.yml").write_text(text.replace(block, "", 1), encoding="utf-8")
        done = promtool("test", "rules", tests)
        assert done.returncode == 1 and "FAILED" in done.stdout + done.stderr, f"nobody misses\n{block}"


def test_the_scrape_config(tmp_path):
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
        assert done.returncode == 0 and "2 rule files found" in done.stdout, done.stdout + done.stderr
