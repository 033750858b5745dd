#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The project's own rules for its C, as far as a program can see them: style.py ROOT

Every file says its licence, begins with its own header, keeps its lines and its length within bounds, and uses
no room that comes after its own. Lengths of functions are reported, not judged. Exit status 1 where a rule is
broken.
"""

import re
import statistics
import sys
from pathlib import Path

LICENCE = "/* SPDX-License-Identifier: MIT */"
LINE_MAX, FILE_MAX, TAB = 120, 800, 8
SHORT = 60

# A room may use those that stand before it.
ROOMS = ["util", "config", "event", "target", "count", "snapshot", "expose", "web"]
# Which do not know each other although they have an order.
APART = {("event", "config"), ("target", "config"), ("target", "event"), ("count", "config"), ("web", "config")}


def check_text(path, text):
    lines = text.split("\n")
    if lines[0] != LICENCE:
        yield 1, f"the first line is not {LICENCE}"
    if path.suffix == ".h" and "#pragma once" not in lines[:4]:
        yield 2, "a header has #pragma once behind its licence"
    if len(lines) > FILE_MAX:
        yield len(lines), f"more than {FILE_MAX} lines"
    for number, line in enumerate(lines, 1):
        if len(line.expandtabs(TAB)) > LINE_MAX:
            yield number, f"more than {LINE_MAX} columns"
        if line != line.rstrip():
            yield number, "white space at the end"
        if re.match(r" {8}", line):
            yield number, "indented by spaces"
    if not text.endswith("\n") or text.endswith("\n\n"):
        yield len(lines), "the file ends with one newline"


def check_includes(path, text, root):
    """A .c file includes its own header first; no room includes one that comes after it."""
    includes = re.findall(r'^#include "([^"]+)"', text, re.M)
    header = path.with_suffix(".h")
    if path.suffix == ".c" and header.exists() and root / "daemon" in path.parents:
        own = str(header.relative_to(root / "daemon"))
        if not includes or includes[0] != own:
            yield 1, f"its own header {own} is not included first"
    if path.parent.parent != root / "daemon":
        return
    room = path.parent.name
    for include in includes:
        other = include.partition("/")[0]
        if other in ROOMS and other != room and \
                (ROOMS.index(other) > ROOMS.index(room) or (room, other) in APART):
            yield 1, f"room {room} includes {include}"
        elif other not in ROOMS:
            yield 1, f"room {room} includes {include}, which is above the rooms"


def functions(text):
    """(name, lines) of each function: from the line after a `{` in the first column to its `}`."""
    name, start = None, None
    for number, line in enumerate(text.split("\n")):
        if line == "{":
            start = number
        elif start is None and (found := re.match(r"[\w].*?\b(\w+)\(", line)):
            name = found[1]
        elif line == "}" and start is not None:
            yield name, number - start - 1
            start = None


def main():
    root = Path(sys.argv[1]).resolve()
    broken, lengths = 0, []
    for path in sorted([*root.glob("daemon/**/*.[ch]"), *root.glob("tests/**/*.[ch]")]):
        text = path.read_text(encoding="utf-8")
        for number, what in [*check_text(path, text), *check_includes(path, text, root)]:
            print(f"{path.relative_to(root)}:{number}: {what}")
            broken += 1
        if root / "daemon" in path.parents:
            lengths += [(length, name, path.relative_to(root)) for name, length in functions(text)]

    lengths.sort(reverse=True, key=lambda item: item[0])
    short = sum(length <= SHORT for length, _, _ in lengths) / len(lengths)
    print(f"{len(lengths)} functions in daemon/: median {statistics.median(length for length, _, _ in lengths):.0f} lines,"
          f" {100 * short:.1f} % of at most {SHORT}; the longest:")
    for length, name, path in lengths[:5]:
        print(f"  {length} {name} ({path})")
    print(f"{broken} rules broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
