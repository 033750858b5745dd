#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Adds up the results of test suites: summary.py RESULTS SUITE...

RESULTS/SUITE holds XML of cmocka and pytest, and automake's .trs files. What failed and what was skipped is
listed with its reason; the last line is "N passed, N failed, N skipped". The exit status is 1 where a test
failed, or where a suite ran none.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import namedtuple
from pathlib import Path

Result = namedtuple("Result", "verdict name why")

# Automake's words for how a test ended.
VERDICTS = {"PASS": "passed", "XFAIL": "passed", "SKIP": "skipped", "FAIL": "failed", "XPASS": "failed",
            "ERROR": "failed"}


def first_line(text):
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[0] if lines else ""


def read_xml(path):
    """What a cmocka or pytest program reported, one result a test case."""
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{path.stem}: {case.get('classname', '')} {case.get('name')}".replace(":  ", ": ")
        bad = case.find("failure")
        bad = case.find("error") if bad is None else bad
        skipped = case.find("skipped")
        if bad is not None:
            yield Result("failed", name, bad.get("message", "").split("\n")[0] or first_line(bad.text))
        elif skipped is not None:
            yield Result("skipped", name, skipped.get("message", "") or first_line(skipped.text))
        else:
            yield Result("passed", name, "")


def read_trs(path):
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(":test-result:"):
            verdict, _, name = line[len(":test-result:"):].strip().partition(" ")
            name, _, why = name.partition(" - ")
            yield Result(VERDICTS[verdict], name or path.stem, why)


def read_unit_program(path):
    """A unit test program: its cases, and the program itself where they do not explain how it ended."""
    ended = next(read_trs(path))
    cases = [result for xml in sorted(path.parent.glob(path.stem + "-*.xml")) for result in read_xml(xml)]
    if ended.verdict == "failed" and not any(case.verdict == "failed" for case in cases):
        cases.append(Result("failed", ended.name, "the program failed outside of its test cases"))
    elif ended.verdict == "passed" and not cases:
        cases.append(Result("failed", ended.name, "the program ran no test case"))
    elif ended.verdict == "skipped" and not cases:
        cases.append(ended)
    return cases


def read_folder(folder):
    """All results in a folder and those in it."""
    results = []
    programs = [path for path in sorted(folder.rglob("*.trs")) if path.stem.startswith("test-")]
    for path in programs:
        results += read_unit_program(path)
    for path in sorted(folder.rglob("*.trs")):
        if path not in programs:
            results += read_trs(path)
    for path in sorted(folder.rglob("*.xml")):
        if not path.stem.startswith("test-"):
            results += read_xml(path)
    return results


def count(results):
    return [sum(result.verdict == verdict for result in results) for verdict in ("passed", "failed", "skipped")]


def sentence(results):
    return "{} passed, {} failed, {} skipped".format(*count(results))


def main():
    root, suites = Path(sys.argv[1]), sys.argv[2:]
    total = []
    for suite in suites:
        results = read_folder(root / suite)
        if not results:
            results.append(Result("failed", suite, "the suite ran no test"))
        for result in results:
            if result.verdict != "passed":
                print(f"{result.verdict}: {suite}: {result.name}: {result.why}")
        print(f"{suite}: {sentence(results)}")
        total += results
    print(sentence(total))
    return 1 if count(total)[1] or not count(total)[0] else 0


if __name__ == "__main__":
    sys.exit(main())
