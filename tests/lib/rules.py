#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The project's own rules for its files, as far as a program can check them: rules.py ROOT

Prints a line `path:line: sentence` for each breach, then figures of functions, files and comments in daemon/. The exit
status is 1 where a rule is broken.

The rules of rooms: daemon/ has main.c and five wings. A wing has rooms, and may have files of its own. Files include
headers of the wings that WINGS names for theirs; of their own wing, those of rooms above theirs in the table. A room
may have to stay apart from some of these. A .c file and its header are a pair; pairs do not include each other in a
circle.
"""

import io
import re
import statistics
import subprocess
import sys
import tokenize
from collections import namedtuple
from pathlib import Path

from editorconfig import get_properties

Room = namedtuple("Room", "name sentence apart")

# The wings that each may include.
WINGS = {"base": "", "counting": "base", "profiler": "base", "web": "base counting", "service": "base counting web"}

# Of each wing, from the lowest to the highest. `apart`: rooms that it could include, and does not know all the same. A
# room with the name of its wing is the files that stand in the wing itself.
ROOMS = {name: Room(name, sentence, set(apart.split())) for name, sentence, apart in (
    ("base/util", "what is about no room: text, files, clocks, logs, writers of numbers", ""),
    ("base/config", "the configuration file, as values", ""),
    ("base/elf", "ELF files and symbols of the kernel, as bytes", "base/config"),
    ("base/host", "CPUs, capabilities, privileges, busy time, the budget of files, processes of /proc", "base/config"),
    ("base/cgroup", "the tree of cgroups, their identities and mounts", "base/config base/elf"),
    ("counting/event", "events as text become perf_event_attr; what this machine has of them",
     "base/config base/cgroup"),
    ("counting/plan", "what is counted: columns, counters, groups", "base/config base/elf"),
    ("counting/totals", "the one place that scales and adds: monotonic totals, rates", "base/config base/elf"),
    ("counting/history", "the past of the totals, in a bound of memory", "base/config base/host base/elf"),
    ("counting/engine", "ways to count, a folder each", "base/config base/elf counting/history"),
    ("counting/session", "counting as a whole: plans, targets, readings, takeover",
     "base/config base/elf counting/history"),
    ("counting/alarm", "rates that are unusual: rules of captures, and the values of their counters", "base/elf"),
    ("counting/snapshot", "one consistent reading, flat and immutable", "base/config base/elf counting/history"),
    ("counting/world", "configuration, machine, cgroups and counting together", ""),
    ("profiler/sample", "rings of records, merged by time", "base/config base/cgroup"),
    ("profiler/process", "processes and their mappings", "base/config base/cgroup"),
    ("profiler/naming", "names of functions, found by a child", "base/config base/cgroup profiler/sample"),
    ("profiler/archive", "samples in memory, by time", "base/config base/host profiler/sample profiler/process"),
    ("profiler/stack", "tables for unwinding, made by a child; addresses become places", "base/config base/cgroup"),
    ("profiler/answer", "questions to samples, and the formats of answers",
     "base/config profiler/sample profiler/process"),
    ("profiler/capture", "samples that are kept when a rate was unusual", "profiler/sample profiler/process"),
    ("profiler", "profiles as a whole", ""),
    ("web/expose", "a snapshot as text, a writer for each format", "base/config base/elf"),
    ("web/page", "the page at /", "base counting"),
    ("web/api", "from a request to its response: routes and their formats", "base/elf"),
    ("web/http", "connections, limits, TLS, passwords", "base/elf"),
    ("service/persist", "what outlives the process: images, the fd store, sockets of systemd", "counting/history web"),
    ("service/profiles", "the daemon's side of the profiler: its keeper, settings, questions, captures", ""),
    ("service/cli", "the command line", ""),
    ("service/lifecycle", "the loop; starting, reloading, stopping", ""),
)}
ORDER = list(ROOMS)

# All that web and service know of the profiler. Rooms of the profiler include it too.
PROTOCOL = "profiler/protocol.h"

LICENCE = "/* SPDX-License-Identifier: MIT */"
TAB = 8
FILE_MAX = 800
FUNCTION_MAX = 60

# Written by make, for builds inside of the tree.
GENERATED = {"daemon/web/page/page-data.c", "daemon/web/api/openapi-data.c",
             "daemon/counting/engine/bpf/credit.skel.h", "tests/bench/floor.skel.h"}

# What people edit, where no git says which files these are.
FOLDERS = ("conf", "daemon", "doc", "packaging", "systemd", "tests")
SUFFIXES = {".c", ".conf", ".css", ".h", ".html", ".in", ".js", ".json", ".md", ".py", ".sh", ".socket", ".txt", ".yml"}

# Where `#include "..."` is looked for.
INCLUDE_FOLDERS = ("daemon", "tests/unit")

Source = namedtuple("Source", "path name lines includes")  # includes: (line, text between the quotes)


def read_source(root, path):
    lines = path.read_text(encoding="utf-8").split("\n")
    includes = [(number, found[1]) for number, line in enumerate(lines, 1)
                if (found := re.match(r'#include "([^"]+)"', line))]
    return Source(path, str(path.relative_to(root)), lines, includes)


def read_sources(root):
    paths = [path for folder in ("daemon", "tests") for path in sorted((root / folder).rglob("*.[ch]"))]
    return [source for source in (read_source(root, path) for path in paths) if source.name not in GENERATED]


# --- one file

def check_file(source):
    if source.lines[0] != LICENCE:
        yield 1, f"the first line is not {LICENCE}"
    if source.path.suffix == ".h" and "#pragma once" not in source.lines[:4]:
        yield 2, "a header has #pragma once after its licence"
    if len(source.lines) - 1 > FILE_MAX:
        yield len(source.lines) - 1, f"the file has more than {FILE_MAX} lines"


def functions(source):
    """(line, name, number of lines) of each function, from the first line of its declarator to its `}`."""
    name = start = body = None
    for number, line in enumerate(source.lines, 1):
        if line == "{" and name:
            body = number
        elif line == "}" and body:
            yield start, name, number - start + 1
            name = body = None
        elif body is None and (found := re.match(r"[A-Za-z_].*?\b(\w+)\(", line)) and not line.endswith(";"):
            name, start = found[1], number


def check_functions(source):
    """Of the daemon. Those of tests have tables of cases, which may be as long as they like."""
    for line, name, length in functions(source):
        if length > FUNCTION_MAX:
            yield line, f"function {name} has {length} lines, more than {FUNCTION_MAX}"


def check_statics(source):
    """A variable that outlives its function is seen by all of the file."""
    for line, text in enumerate(source.lines, 1):
        if re.match(r"\t+static (?!.*\bconst\b|inline\b)[^(]*[;=]", text):
            yield line, "a variable of a function keeps its value: give it an owner, or put it in front of the function"


def check_own_header(source):
    """A .c file includes its own header first, where it has one."""
    if source.path.suffix == ".c" and source.path.with_suffix(".h").exists():
        own = re.sub(r"^(daemon|tests/unit)/", "", source.name)[:-2] + ".h"
        if [text for _, text in source.includes][:1] != [own]:
            yield source.includes[0][0] if source.includes else 1, f"its own header {own} is not included first"


def check_order_of_includes(source):
    """The header that a .c file is about, those of the project sorted, then the system's."""
    rest = source.includes[1 if source.path.suffix == ".c" else 0:]
    for (_, before), (line, text) in zip(rest, rest[1:]):
        if text <= before:
            yield line, f"{text} is included after {before}: not sorted, or twice"
    for line, text in source.includes:
        if any(earlier.startswith("#include <") for earlier in source.lines[:line]):
            yield line, f"{text} is included after a header of the system"


# --- rooms

def room_of(text):
    """Of a path below daemon/, or of an include: WING/ROOM, or WING of a file that stands in the wing itself."""
    return "/".join(text.split("/")[:-1][:2])


def why_not(room, text):
    """A sentence's end on why a room may not include that header, or None."""
    other = room_of(text)
    wing, other_wing = room.split("/")[0], other.split("/")[0]
    if text == PROTOCOL and wing in ("profiler", "web", "service"):
        return None
    if other not in ORDER:
        return "which is in no room"
    if other_wing != wing and other_wing not in WINGS[wing].split():
        return f"and wing {wing} does not know wing {other_wing}"
    if other_wing == wing and ORDER.index(other) > ORDER.index(room):
        return f"and room {other} is above {room}"
    return f"and {room} is to stay apart from {other}" if ROOMS[room].apart & {other, other_wing} else None


def check_rooms(source):
    """Breaches of one file below daemon/ against the tables."""
    inside = source.name.removeprefix("daemon/")
    room = room_of(inside)
    if not room:
        if inside != "main.c":
            yield 1, "a loose file: all but main.c stand in a room"
    elif room not in ORDER:
        yield 1, f"room {room} is unknown: name it in the table of {Path(__file__).name}"
    else:
        for line, text in source.includes:
            if room_of(text) != room and (why := why_not(room, text)):
                yield line, f"{text} is included, {why}"


def pair_of(name):
    return name.rpartition(".")[0]


def edges_of(root, sources):
    """{pair: {other pair: the include, as "file:line includes text"}}: either file of the one includes the other's."""
    edges = {}
    for source in sources:
        edges.setdefault(pair_of(source.name), {})
        for line, text in source.includes:
            for folder in INCLUDE_FOLDERS:
                if (root / folder / text).exists() and pair_of(f"{folder}/{text}") != pair_of(source.name):
                    edges[pair_of(source.name)].setdefault(pair_of(f"{folder}/{text}"),
                                                           (source.name, line, text))
    return edges


def shortest_way(edges, start, end):
    """The pairs from start to end, both included, where there is a way."""
    came_from, waiting = {start: None}, [start]
    for pair in waiting:
        for other in edges.get(pair, ()):
            if other not in came_from:
                came_from[other] = pair
                waiting.append(other)
    way = [end]
    while end in came_from and way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1] if end in came_from else None


def circles(edges):
    """The shortest circles, so that each pair that is in one is in one of those returned."""
    seen = set()
    for pair in sorted(edges):
        ways = [way for other in edges[pair] if (way := shortest_way(edges, other, pair))]
        if pair not in seen and ways:
            circle = [pair, *min(ways, key=len)]
            seen.update(circle)
            yield circle


def check_circles(root, sources):
    edges = edges_of(root, sources)
    for circle in circles(edges):
        includes = [edges[a][b] for a, b in zip(circle, circle[1:])]
        sentence = ", ".join(f"{name}:{line} includes {text}" for name, line, text in includes)
        yield includes[0][0], includes[0][1], f"a circle of file pairs: {sentence}"


# --- .editorconfig

def inside_strings(text):
    """The lines of a Python program that go on with a string, and so are no indentation."""
    return {line for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.STRING
            for line in range(token.start[0] + 1, token.end[0] + 1)}


def check_lines(name, text, properties):
    style, widest = properties.get("indent_style"), properties.get("max_line_length", "off")
    strings = inside_strings(text) if name.endswith(".py") else ()
    for number, line in enumerate(text.split("\n"), 1):
        if properties.get("trim_trailing_whitespace") == "true" and line != line.rstrip():
            yield number, "white space at the end of the line"
        if style == "tab" and line.startswith(" " * TAB):
            yield number, "indented with spaces, not with tabs"
        if style == "space" and re.match(r" *\t", line) and number not in strings:
            yield number, "indented with tabs, not with spaces"
        if widest.isdigit() and len(line.expandtabs(TAB)) > int(widest):
            yield number, f"more than {widest} columns"


def check_format(path):
    """A file is as .editorconfig has it: (line, sentence) for each thing that is otherwise."""
    properties, content = get_properties(str(path)), path.read_bytes()
    if properties.get("charset") != "utf-8":
        return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        yield content[:error.start].count(b"\n") + 1, "is not UTF-8"
        return
    if properties.get("end_of_line") == "lf" and "\r" in text:
        yield text[:text.index("\r")].count("\n") + 1, "a carriage return"
    if properties.get("insert_final_newline") == "true" and text and (not text.endswith("\n") or text.endswith("\n\n")):
        yield text.count("\n") + 1, "the file does not end with one newline"
    yield from check_lines(path.name, text, properties)


# --- the tree

def check_build(root, sources):
    """Each file of daemon/ is a source of the library or of the daemon."""
    lists = [root / name for name in ("Makefile.am", "sources.am")]
    missing = [path.name for path in lists if not path.exists()]
    if missing:
        yield missing[0], 1, "is missing: tests/lib/list-sources writes sources.am"
        return
    built = {word for path in lists for word in re.split(r"[\s\\]+", path.read_text(encoding="utf-8"))}
    for source in sources:
        if source.name.startswith("daemon/") and source.name not in built:
            yield source.name, 1, "is not in the build: neither in sources.am nor in Makefile.am"


def check_architecture(root):
    """doc/architecture.md names each room there is."""
    document = root / "doc/architecture.md"
    if not document.exists():
        return
    text = document.read_text(encoding="utf-8")
    folders = sorted(path for path in (root / "daemon").glob("*/*") if path.is_dir())
    for room in (str(path.relative_to(root / "daemon")) for path in folders):
        if not re.search(rf"`(daemon/)?{re.escape(room)}/?`", text):
            yield "doc/architecture.md", 1, f"does not name room `{room}`"


def breaches(root, sources):
    everywhere, in_daemon = [check_file, check_own_header], [check_functions, check_statics, check_order_of_includes,
                                                                  check_rooms]
    for source in sources:
        for check in everywhere + (in_daemon if source.name.startswith("daemon/") else []):
            for line, sentence in check(source):
                yield source.name, line, sentence
    yield from check_circles(root, sources)
    yield from check_build(root, sources)
    yield from check_architecture(root)
    for name in tree_files(root):
        for line, sentence in check_format((root / name).resolve()):
            yield name, line, sentence


def tree_files(root):
    """The names of all files that git has; without git, as in an unpacked tarball, of those that people edit."""
    try:
        done = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                              capture_output=True, text=True, check=True)
        names = done.stdout.split("\0")[:-1]
    except (OSError, subprocess.CalledProcessError):
        names = ["dev", "Makefile.am", "configure.ac"]
        names += [str(path.relative_to(root)) for folder in FOLDERS for path in (root / folder).rglob("*")
                  if path.suffix in SUFFIXES]
    return sorted(name for name in names if (root / name).is_file() and name not in GENERATED)


# --- figures

def comment_lines(lines):
    """How many lines are comment alone."""
    count, inside = 0, False
    for line in lines:
        count += inside or line.lstrip().startswith("/*")
        for mark in re.findall(r"/\*|\*/", line):
            inside = mark == "/*"
    return count


def spread(numbers):
    numbers = sorted(numbers)
    return "/".join(f"{number:.0f}" for number in
                    (statistics.median(numbers), numbers[int(len(numbers) * 0.9)], numbers[-1]))


def figures(sources):
    """Sentences on daemon/, without a file's licence and its empty lines where the share of comments is worked out."""
    sources = [source for source in sources if source.name.startswith("daemon/")]
    bodies = [source for source in sources if source.path.suffix == ".c"]
    lengths = [length for source in sources for _, _, length in functions(source)]
    if not lengths:
        return
    written = [line for source in bodies for line in source.lines[1:] if line.strip()]
    comments = sum(comment_lines(source.lines[1:]) for source in bodies)
    yield f"{len(lengths)} functions: median/p90/max {spread(lengths)} lines"
    for kind, files in ((".c", bodies), (".c and .h", sources)):
        yield f"{len(files)} {kind} files: median/p90/max {spread(len(source.lines) - 1 for source in files)} lines"
    yield f"comments in .c files: {100 * comments / len(written):.1f} % of {len(written)} lines"


def main():
    root = Path(sys.argv[1]).resolve()
    sources = read_sources(root)
    broken = 0
    for name, line, sentence in breaches(root, sources):
        print(f"{name}:{line}: {sentence}")
        broken += 1
    print("daemon/:", *figures(sources), sep="\n  ")
    print(f"{broken} breaches of the rules")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
