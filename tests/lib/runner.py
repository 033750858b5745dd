#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What ./dev test does: runs tests, and adds up their results.

usage: ./dev test [OPTION...]                       the gate
       ./dev test all [OPTION...]                   the gate, then the deep suites
       ./dev test WHAT... [OPTION...] [PYTEST-OPTION...]   those alone: unit, unit/util/test-glob, system/test_reload.py

  -k WORDS     those whose names match, as pytest has it: of WHAT, of all, or else of all that is not deep
  --repeat N   each of them N times
  --tree TREE  of that build (default, asan, clang, coverage)

Unit tests are run by `make check`, all others by pytest. A stage is one run of either, with its log and its results in
build/results. Stages follow each other, but for the gate's unit tests, which are built and run beside the others.
`./dev test all` runs a test that failed twice more, alone, after all others: when it passes both times, it is unstable,
which is told and does not fail the run. The gate alone repeats nothing.
"""

import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import machine
from tree import BUILD, TOP, build, changed_files

RESULTS = BUILD / "results"
WORKERS = 3 * os.cpu_count()  # tests of a daemon mostly wait

# The deep suites end so many minutes after the run has begun; what is not begun then is skipped. Repeating what failed
# ends so many minutes after it has begun.
DEEP_MINUTES, REPEAT_MINUTES = float(os.environ.get("DEEP_MINUTES", 58)), 6

Result = namedtuple("Result", "stage name verdict why")  # verdict: passed, failed, skipped
Stage = namedtuple("Stage", "name tree marks workers paths")

GATE = (Stage("gate", "default", "not deep and not alone", WORKERS, ()),
        Stage("gate-alone", "default", "not deep and alone", 0, ()))
DEEP = (Stage("sanitized", "asan", "not once and not alone", WORKERS, ("system",)),
        Stage("deep", "default", "deep and not alone", 2 * os.cpu_count(), ()),
        Stage("deep-alone", "default", "deep and alone", 0, ()),
        Stage("sanitized-alone", "asan", "not once and not deep and alone", 0, ("system",)),
        Stage("sanitized-hardware", "asan", "not once", 0, ("hardware",)))


def say(text):
    print(text, flush=True)


def read_record(stage, path):
    """A test that failed in its call and after it is one failure."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        name, verdict, why, _ = json.loads(line)
        if found.get(name, Result("", "", "", "")).verdict != "failed":
            found[name] = Result(stage, name, verdict, why)
    return list(found.values())


def run_pytest(stage, *args, patience=3600, shown=False):
    """Its results; its output goes to a log, or is shown."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    record, log = RESULTS / f"{stage.name}.jsonl", RESULTS / f"{stage.name}.log"
    record.unlink(missing_ok=True)
    # Under /tmp, and for all: daemons of other users run from there.
    folder = Path(subprocess.check_output(["mktemp", "-d", "/tmp/pm.XXXXXX"], text=True).strip())
    folder.chmod(0o755)
    tree = BUILD / stage.tree
    command = [sys.executable, "-m", "pytest", f"--rootdir={TOP}/tests", "-c", f"{TOP}/tests/pytest.ini",
               f"--record={record}", f"--basetemp={folder}/t",
               *(["-n", str(stage.workers), "--dist", "loadgroup"] if stage.workers else []),
               *(["-m", stage.marks] if stage.marks else []),
               *(str(TOP / "tests" / path) for path in stage.paths or [""]), *args]
    # A sanitizer keeps 256 MiB of freed memory, with which a profiler is too large.
    env = {"ASAN_OPTIONS": "quarantine_size_mb=16", **os.environ, "PERFMOND": f"{tree}/perfmond",
           "WORK": f"{tree}/tests/system/work", "PYTHONDONTWRITEBYTECODE": "1"}
    with open(log, "w", encoding="utf-8") as output:
        try:
            status = subprocess.run(command, cwd=TOP, env=env, stdin=subprocess.DEVNULL, check=False, timeout=patience,
                                    stdout=None if shown else output, stderr=None if shown else output).returncode
        except subprocess.TimeoutExpired:
            status = f"it did not end in {patience} s"
    results = read_record(stage.name, record)
    if status not in (0, 1, 5):
        results.append(Result(stage.name, stage.name, "failed", f"pytest: {status}: {log}"))
    if status == 0:
        shutil.rmtree(folder, ignore_errors=True)
    return results


def read_log(stage, trs):
    """The cases of a unit test program, as cmocka tells them in its log; and how it ended, where they do not explain
    that."""
    program, said = f"tests/unit/{trs.parent.name}/{trs.stem}", trs.with_suffix(".log").read_text(errors="replace")
    said = re.sub(r"^\[=+\] \d+ test\(s\) run\..*?(?=^\[=+\] Running|\Z)", "", said, flags=re.M | re.S)  # sums
    words = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}
    lacks = re.search(r"^(?:needs|skipped:|SKIPPED:) .*", said, re.M)
    cases = [(name, words[word]) for word, name in re.findall(r"^\[ +(OK|FAILED|SKIPPED) +\] (.+)$", said, re.M)]
    ended = re.search(r":test-result: (\w+)", trs.read_text())[1]
    if not cases or (ended not in ("PASS", "SKIP") and not any(verdict == "failed" for _, verdict in cases)):
        cases.append((f"ended with {ended} after {len(cases)} cases", "failed"))
    why = {"passed": "", "failed": said, "skipped": lacks[0] if lacks else f"{program} says so"}
    return [Result(stage, f"{program}::{name}", verdict, why[verdict]) for name, verdict in cases]


def run_units(name, tree, programs=()):
    """make check in a tree: all of them, or some (util/test-glob)."""
    targets = [f"tests/unit/{program}" for program in programs]
    where = build(tree, *(targets or ["all", "test-programs"]))
    for old in (where / "tests/unit").rglob("*.trs"):
        old.unlink()
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / f"{name}.log", "w", encoding="utf-8") as log:
        subprocess.run(["make", "-s", "-C", where, f"-j{os.cpu_count()}", "check-TESTS",
                        *([f"TESTS={' '.join(targets)}"] if targets else [])], check=False, stdin=subprocess.DEVNULL,
                       stdout=log, stderr=log)
    results = [result for trs in sorted((where / "tests/unit").rglob("*.trs")) for result in read_log(name, trs)]
    return results or [Result(name, name, "failed", f"no unit test ran: {log.name}")]


def unit_programs(what):
    """unit/util/test-glob, or all of a folder but those that stand in for a library (test-pfm-none)."""
    base = TOP / "tests" / what
    found = [base] if base.with_suffix(".c").exists() else \
        [path.with_suffix("") for path in sorted(base.rglob("test-*.c")) if not path.stem.endswith("-none")]
    return [str(path.relative_to(TOP / "tests/unit")) for path in found]


# --- the whole

def timed(stage_name, function, *args, **kwargs):
    start = time.monotonic()
    results = function(*args, **kwargs)
    say(f"{stage_name}: {counted(results)} ({time.monotonic() - start:.0f} s)")
    for result in results:
        if result.verdict == "failed":
            say(f"failed: {result.stage}: {result.name}: {result.why[-3000:]}")
    return results


def run_gate():
    build("default", "all", "tests/system/work")
    with ThreadPoolExecutor() as pool:
        units = pool.submit(timed, "unit", run_units, "unit", "asan")
        results = timed(GATE[0].name, run_pytest, GATE[0])
        results += units.result()
    return results + timed(GATE[1].name, run_pytest, GATE[1])


def run_deep(start):
    os.environ["DEEP_END"] = str(start + 60 * DEEP_MINUTES)
    build("asan", "all", "test-programs")
    results = [result for stage in DEEP for result in timed(stage.name, run_pytest, stage)]
    del os.environ["DEEP_END"]
    return results


def repeat_failed(results):
    """Those that fail are failures; those that pass twice are called unstable, and are passed."""
    end, stages = time.monotonic() + 60 * REPEAT_MINUTES, {stage.name: stage for stage in GATE + DEEP}
    kept = []
    for result in results:
        if result.verdict == "failed" and result.stage in stages and "::" in result.name and time.monotonic() < end:
            again = Stage("repeat", stages[result.stage].tree, "", 0, (result.name.removeprefix("tests/"),))
            verdicts = ["failed"]
            for _ in range(2):
                verdicts += [done.verdict for done in run_pytest(again, patience=600)] or ["failed"]
            say(f"again: {result.stage}: {result.name}: {', '.join(verdicts)}")
            if set(verdicts[1:]) == {"passed"}:
                result = result._replace(verdict="unstable")
        kept.append(result)
    return kept


# --- what has changed

def room_of(name):
    """The room of a file below daemon/ or tests/unit, also as #include names it; the wing of a file in no room."""
    parts = re.sub("^(daemon|tests/unit)/", "", name).split("/")
    return parts[1] if len(parts) > 2 else parts[0]


def changed_rooms(names):
    """The rooms of files of daemon/ and tests/unit, and those that include a header of such a room."""
    includes = collections.defaultdict(set)
    for path in (TOP / "daemon").rglob("*.[ch]"):
        texts = re.findall('^#include "(.+)"', path.read_text(encoding="utf-8"), re.M)
        includes[room_of(str(path.relative_to(TOP)))].update(map(room_of, texts))
    changed = {room_of(name) for name in names if name.startswith(("daemon/", "tests/unit/"))}
    return {room for room in includes if "setup" in changed or changed & {room, *includes[room]}}


def run_quick():
    rooms = changed_rooms(changed_files())
    say(f"rooms that changed, or include one that did: {len(rooms)}: {' '.join(sorted(rooms))}")
    programs = [program for room in sorted(rooms) for program in unit_programs(f"unit/{room}")]
    build("default", "perfmond")
    results = timed("unit", run_units, "quick-unit", "default", programs) if programs else []
    stage = Stage("quick", "default", "not deep", 2, ("lint", "system/test_smoke.py"))
    return results + timed("lint, and a smoke of the daemon", run_pytest, stage)


def run_some(options, rest):
    """What was named; pytest shows what it does."""
    units, paths = [], []
    for what in [what for what in options.what if what != "all"]:
        what = what.removeprefix("tests/").rstrip("/")
        found = unit_programs(what) if what.split("/")[0] == "unit" else []
        if not found and not (TOP / "tests" / what.split("::")[0]).exists():
            sys.exit(f"dev: there is no tests/{what}")
        units += found
        paths += [] if found else [what]
    results = []
    for _ in range(options.repeat if units else 0):
        results += timed("unit", run_units, "some-units", options.tree, units)
    if paths or not units:
        build(options.tree, "perfmond", "tests/system/work")
        words = ["-k", options.k] if options.k else []
        stage = Stage("some", options.tree, "" if options.what else "not deep", 0, paths)
        results += run_pytest(stage, *words, f"--repeat={options.repeat}", *rest, shown=True)
    return results


def counted(results):
    verdicts = collections.Counter(result.verdict for result in results)
    return (f"{verdicts['passed'] + verdicts['unstable']} passed, {verdicts['failed']} failed, "
            f"{verdicts['skipped']} skipped")


def report(results):
    """What did not pass; the last line has the sums. Returns the exit status."""
    skips = collections.Counter(result.why.split("\n")[0] for result in results if result.verdict == "skipped")
    for why, number in skips.most_common():
        say(f"skipped: {number:4} {why}")
    for verdict in ("unstable", "failed"):
        for result in results:
            if result.verdict == verdict:
                lines = result.why.strip().splitlines() or [""]
                why = next((line[1:].strip() for line in lines if line.startswith("E ")), lines[0])
                say(f"{verdict}: {result.stage}: {result.name}: {why}")
    if unstable := sum(result.verdict == "unstable" for result in results):
        say(f"{unstable} unstable")
    say(counted(results))
    verdicts = {result.verdict for result in results}
    return 1 if "failed" in verdicts or not verdicts & {"passed", "unstable"} else 0


def main():
    parser = argparse.ArgumentParser(prog="./dev test", add_help=False)
    parser.add_argument("what", nargs="*")
    parser.add_argument("-k")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--tree", default="default")
    options, rest = parser.parse_known_args()
    start = time.time()
    say("\n".join(machine.describe()))
    if options.what == ["quick"]:
        results = run_quick()
    elif not options.k and options.what in ([], ["all"]):
        results = run_gate()
        if options.what:
            results = repeat_failed(results + run_deep(start))
    else:
        results = run_some(options, rest)
    return report(results)


if __name__ == "__main__":
    sys.exit(main())
