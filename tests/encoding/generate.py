#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Asks perf what it encodes for the texts of a table of events: generate.py [--check] ON_MACHINE TABLE

    make -C build/default test-programs
    tests/encoding/generate.py build/default/tests/encoding/on-machine tests/encoding/table.txt

Writes the table anew with perf's answers of today. A new text is a new line in the table that has the text alone,
and a run of this; look at the difference before it is kept. Comments, and what perfmond says where it differs on
purpose, stay as they are. Events that `perf list` names on a machine and the table lacks are added.

With --check the table stays as it is. The exit status is 0 where it is what perf says, 1 with the difference, and
77 where there is no perf of the table's version. `./dev test encoding` does this.

perf runs as `perf stat -vv -e TEXT true` on the machines that tests/unit/machines.c makes, and shows the
perf_event_attr that it would open. It is Debian's linux-perf; $PERF names another one.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SKIPPED = 77
PERF = os.environ.get("PERF", "perf")
REFUSED = 129  # perf's exit status for a text that it does not take
COLUMN = 42

# What perf shows, in the order in which the table has it.
NUMBERS = {"type": "type", "config": "config", "config1": "config1", "{ bp_addr, config1 }": "config1",
           "config2": "config2", "{ bp_len, config2 }": "config2", "config3": "config3", "bp_type": "bp_type"}
EXCLUDED = {"exclude_user": "u", "exclude_kernel": "k", "exclude_hv": "h", "exclude_guest": "G",
            "exclude_host": "H", "exclude_idle": "I"}
SWITCHES = ["pinned", "exclusive"]
# What perf sets for its own way of counting and reading.
PERFS_OWN = {"size", "sample_type", "{ sample_period, sample_freq }", "read_format", "disabled", "inherit",
             "enable_on_exec"}
KNOWN = {*NUMBERS, *EXCLUDED, *SWITCHES, *PERFS_OWN, "precise_ip"}


def perf_version():
    """Which series of perf's versions it is (they encode alike), and for which machine; None where there is none."""
    try:
        said = subprocess.run([PERF, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{re.match(r'perf version [0-9]+[.][0-9]+', said)[0]} {os.uname().machine}"


def attributes(output):
    """Each perf_event_attr that perf shows, by perf's names."""
    for block in re.findall(r"^perf_event_attr:\n(.*?)^-+$", output, re.M | re.S):
        attr = dict(re.fullmatch(r"  (\{.*?\}|\S+) +(\S+)", line).groups() for line in block.splitlines())
        if unknown := attr.keys() - KNOWN:
            sys.exit(f"perf shows what this script does not know: {', '.join(sorted(unknown))}")
        # One without a size is a trial: perf opens hybrid cache events before it takes them.
        if "size" in attr:
            yield attr


def speaks_of_guests(text):
    """Whether its modifiers decide about guests. Else perf leaves them out, which is no part of the text."""
    modifiers = re.search(r"[:/]([A-Za-z]*)$", text)
    return bool(modifiers and re.search("[upGH]", modifiers[1]))


def encoding(attr, text):
    """The table's words for it, as tests/unit/test-encoding.c has them too."""
    numbers = {NUMBERS[name]: int(value, 0) for name, value in attr.items() if name in NUMBERS}
    words = [f"type={numbers.get('type', 0)}", f"config={numbers.get('config', 0):#x}"]
    words += [f"{name}={numbers[name]:#x}" for name in ("config1", "config2", "config3", "bp_type")
              if numbers.get(name)]
    excluded = "".join(letter for name, letter in EXCLUDED.items() if name in attr)
    if not speaks_of_guests(text):
        excluded = excluded.replace("G", "")
    words += [f"exclude={excluded}"] if excluded else []
    words += [f"precise={attr['precise_ip']}"] if "precise_ip" in attr else []
    return " ".join(words + [name for name in SWITCHES if name in attr])


class Perf:
    def __init__(self, on_machine, folder):
        self.on_machine, self.folder = on_machine, folder

    def run(self, machine, *arguments):
        return subprocess.run([self.on_machine, f"{self.folder}/{machine}", machine, PERF, *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={**os.environ, "LC_ALL": "C"}, check=False)

    def encode(self, machine, text):
        """The events that perf makes of a text, sorted, each once for all of its CPUs; or "refused"."""
        ran = self.run(machine, "stat", "-vv", "-e", text, "true")
        if ran.returncode == REFUSED and "Run 'perf list'" in ran.stderr:
            return ["refused"]
        found = {encoding(attr, text) for attr in attributes(ran.stderr)}
        if not found or ran.returncode:
            sys.exit(f"{machine}: {text}: perf ended with {ran.returncode}:\n{ran.stderr}")
        return sorted(found)

    def listed(self, machine):
        """The names of events that `perf list` finds in the machine's sysfs."""
        ran = self.run(machine, "list", "--raw-dump", "pmu")
        if ran.returncode:
            sys.exit(f"{machine}: perf list ended with {ran.returncode}:\n{ran.stderr}")
        return sorted(set(ran.stdout.split()))


class Row:
    """A text of the table on a machine; notes are the lines below it that are perfmond's, not perf's."""

    def __init__(self, machine, text):
        self.machine, self.text, self.notes = machine, text, []

    def lines(self, perf):
        answers = perf.encode(self.machine, self.text)
        return [f"{self.text:<{COLUMN}} {answers[0]}", *(f"{'':<{COLUMN}} {more}" for more in answers[1:]), *self.notes]


def read_table(lines, perf):
    """The table as Rows, and as text what else is in it. What `perf list` names comes behind a machine's own texts;
    asking for it makes the machine, before many ask at once."""
    table, machine, seen = [], None, set()

    def close():
        at = 1 + max(i for i, item in enumerate(table) if isinstance(item, Row) or item.startswith("machine "))
        table[at:at] = [Row(machine, name) for name in perf.listed(machine) if name not in seen]

    for line in lines:
        first, *rest = line.split() or [""]
        if line[:1].isspace():
            if first in ("perfmond", "because"):
                table[-1].notes.append(line)
        elif first in ("", "#") or line.startswith("perf version "):
            table.append(line)
        elif first == "machine" and len(rest) == 1:
            if machine:
                close()
            machine, seen = rest[0], set()
            table.append(line)
        elif not machine or first in seen:
            sys.exit(f"{first} {'stands twice on ' + machine if machine else 'stands on no machine'}")
        else:
            seen.add(first)
            table.append(Row(machine, first))
    if machine:
        close()
    return table


def regenerate(text, perf, version):
    table = read_table(text.splitlines(), perf)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(lambda item: item.lines(perf) if isinstance(item, Row) else [item], table)
        lines = [line for lines in made for line in lines]
    return "".join(re.sub("^perf version .*", version, line) + "\n" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("on_machine", type=Path, help="the program tests/encoding/on-machine")
    parser.add_argument("table", type=Path)
    arguments = parser.parse_args()

    version, text = perf_version(), arguments.table.read_text(encoding="utf-8")
    wanted = re.search("^perf version .*", text, re.M)
    if not wanted:
        sys.exit(f"{arguments.table}: no line names perf's version")
    if not version or (arguments.check and version != wanted[0]):
        print(f"the table is of {wanted[0]}; here is {version or 'no perf'}", file=sys.stderr)
        return SKIPPED

    with tempfile.TemporaryDirectory() as folder:
        new = regenerate(text, Perf(arguments.on_machine.resolve(), folder), version)
    if not arguments.check:
        arguments.table.write_text(new, encoding="utf-8")
        return 0
    difference = difflib.unified_diff(text.splitlines(), new.splitlines(), str(arguments.table), version, lineterm="")
    return int(bool([print(line) for line in difference]))


if __name__ == "__main__":
    sys.exit(main())
