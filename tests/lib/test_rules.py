# SPDX-License-Identifier: MIT
"""rules.py and editorconfig.py: each kind of breach, made in a small tree, is found at its place; and no other is."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import rules

TOP = Path(__file__).resolve().parents[2]
LICENCE = "/* SPDX-License-Identifier: MIT */\n"
HEADER = LICENCE + "#pragma once\n"

CLEAN = {
    "daemon/main.c": LICENCE + '\n#include "web/web.h"\n\nint main(void)\n{\n\treturn 0;\n}\n',
    "daemon/util/buf.h": HEADER,
    "daemon/util/buf.c": LICENCE + '\n#include "util/buf.h"\n\n#include <stdio.h>\n',
    "daemon/web/web.h": HEADER + '\n#include "util/buf.h"\n',
    "daemon/web/route.h": HEADER,
    "daemon/web/web.c": LICENCE + '\n#include "web/web.h"\n\n#include "util/buf.h"\n#include "web/route.h"\n',
    "tests/unit/util/test-buf.c": LICENCE,
    "doc/architecture.md": "`util/` is for all, `web` is HTTP.\n",
    "dev": "#!/bin/sh\n\techo tab\n",
    "sources.am": "room_sources = daemon/util/buf.c daemon/util/buf.h daemon/web/web.c daemon/web/web.h "
                  "daemon/web/route.h\n",
    "Makefile.am": "perfmond_SOURCES = daemon/main.c\n",
}


def function_of(lines):
    """A .c file with a function of so many lines, from its name to its brace."""
    return LICENCE + "\nstatic int long_one(int a)\n{\n" + "\treturn a;\n" * (lines - 3) + "}\n"


class Tree:
    """A small tree of the project, and what rules.py says about it."""

    def __init__(self, root):
        self.root = root
        for name, text in CLEAN.items():
            self.write(name, text)
        shutil.copy(TOP / ".editorconfig", root)

    def write(self, name, content, built=False):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if built:
            self.append("sources.am", f"more_sources = {name}\n")

    def append(self, name, text):
        self.write(name, (self.root / name).read_text() + text)

    def run(self):
        done = subprocess.run([sys.executable, TOP / "tests/lib/rules.py", self.root], capture_output=True, text=True,
                              check=False)
        assert not done.stderr
        found = re.findall(r"^[^\s:]+:\d+: .*", done.stdout, re.M)
        assert done.returncode == (1 if found else 0)
        return found


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_a_clean_tree(tree):
    assert tree.run() == []


# What is written, in place of what is there or beside it; the only breach that is found, as a pattern.
ONE_BREACH = {
    "a loose file": ("daemon/loose.c", LICENCE, r"daemon/loose\.c:1: a loose file"),
    "an unknown room": ("daemon/cellar/wine.c", LICENCE, r"daemon/cellar/wine\.c:1: room cellar is unknown"),
    "an arrow upwards": ("daemon/util/up.c", LICENCE + '\n#include "web/route.h"\n',
                         r"daemon/util/up\.c:3: room util includes web/route\.h, and room web is above it"),
    "an arrow upwards, from a folder in a room": (
        "daemon/event/catalog/up.c", LICENCE + '\n#include "web/route.h"\n',
        r"daemon/event/catalog/up\.c:3: room event includes web/route\.h, and room web is above it"),
    "monitor includes web": ("daemon/monitor/x.c", LICENCE + '\n#include "util/buf.h"\n#include "web/web.h"\n',
                             r"daemon/monitor/x\.c:4: room monitor includes web/web\.h, .* apart from room web"),
    "an include of no room": ("daemon/util/x.c", LICENCE + '\n#include "buf.h"\n',
                              r"daemon/util/x\.c:3: buf\.h is included, which is in no room"),
    "a long file": ("daemon/util/x.c", LICENCE * 801, r"daemon/util/x\.c:801: the file has more than 800 lines"),
    "a long function": ("daemon/util/x.c", function_of(61),
                        r"daemon/util/x\.c:3: function long_one has 61 lines, more than 60"),
    "a long line": ("daemon/util/x.c", LICENCE + "\n/*\t" + "x" * 111 + "*/\n",
                    r"daemon/util/x\.c:3: more than 120 columns"),
    "no licence": ("daemon/util/x.c", "\n", r"daemon/util/x\.c:1: the first line is not"),
    "no pragma": ("daemon/util/x.h", LICENCE, r"daemon/util/x\.h:2: a header has #pragma once"),
    "its own header later": (
        "daemon/web/web.c", LICENCE + '\n#include "util/buf.h"\n#include "web/web.h"\n',
        r"daemon/web/web\.c:3: its own header web/web\.h is not included first"),
    "its own header not at all": ("daemon/web/web.c", LICENCE, r"daemon/web/web\.c:1: its own header web/web\.h"),
    "unsorted": ("daemon/web/x.c",
                 LICENCE + '\n#include "web/web.h"\n\n#include "web/route.h"\n#include "util/buf.h"\n',
                 r"daemon/web/x\.c:6: util/buf\.h is included after web/route\.h: not sorted"),
    "the system's header first": ("daemon/web/x.c", LICENCE + '\n#include <stdio.h>\n#include "util/buf.h"\n',
                                  r"daemon/web/x\.c:4: util/buf\.h is included after a header of the system"),
    "white space at the end": ("daemon/util/x.c", LICENCE + "\n/* x */ \n",
                               r"daemon/util/x\.c:3: white space at the end"),
    "no newline at the end": ("doc/x.md", "text", r"doc/x\.md:1: the file does not end with one newline"),
    "an empty line at the end": ("doc/x.md", "text\n\n", r"doc/x\.md:3: the file does not end with one newline"),
    "a carriage return": ("conf/x.conf", "a\r\nb\n", r"conf/x\.conf:1: (a carriage return|white space)"),
    "not UTF-8": ("conf/x.conf", b"a\n\xff\n", r"conf/x\.conf:2: is not UTF-8"),
    "spaces in C": ("tests/unit/util/test-buf.c", LICENCE + "\n" + " " * 8 + "int a;\n",
                    r"tests/unit/util/test-buf\.c:3: indented with spaces"),
    "spaces in a shell script": ("tests/lib/x.sh", "if x; then\n" + " " * 8 + "y\nfi\n",
                                 r"tests/lib/x\.sh:2: indented with spaces"),
    "tabs in Python": ("tests/x.py", "if x:\n\ty()\n", r"tests/x\.py:2: indented with tabs"),
    "a room not in the document": ("doc/architecture.md", "`util/` and web.\n",
                                   r"doc/architecture\.md:1: does not name room `web`"),
}


@pytest.mark.parametrize("kind", ONE_BREACH)
def test_one_breach(tree, kind):
    name, content, pattern = ONE_BREACH[kind]
    tree.write(name, content, built=name.startswith("daemon/") and name not in CLEAN)
    if name.startswith("daemon/"):
        tree.append("doc/architecture.md", f"`{Path(name).parts[1]}`\n")
    found = tree.run()
    assert found and all(re.match(pattern, line) for line in found), found


def test_limits_themselves(tree):
    """What is as long as it may be."""
    tree.write("daemon/util/x.c", function_of(60) + "\n" * 737 + "/*" + "x" * 116 + "*/\n", built=True)
    assert len((tree.root / "daemon/util/x.c").read_text().splitlines()) == 800
    assert tree.run() == []


def test_a_circle(tree):
    """Of three pairs, through a .c file and two headers: all its includes are named, with their places."""
    tree.write("daemon/web/a.h", HEADER, built=True)
    tree.write("daemon/web/a.c", LICENCE + '#include "web/a.h"\n#include "web/b.h"\n', built=True)
    tree.write("daemon/web/b.h", HEADER + '#include "web/c.h"\n', built=True)
    tree.write("daemon/web/c.h", HEADER + '#include "web/a.h"\n#include "web/route.h"\n', built=True)
    assert tree.run() == ["daemon/web/a.c:3: a circle of file pairs: daemon/web/a.c:3 includes web/b.h, "
                          "daemon/web/b.h:3 includes web/c.h, daemon/web/c.h:3 includes web/a.h"]


def test_circles_of_tests(tree):
    for name, other in ("world", "clock"), ("clock", "world"):
        tree.write(f"tests/unit/setup/{name}.h", HEADER + f'#include "setup/{other}.h"\n')
    found = tree.run()
    assert len(found) == 1 and "setup/clock.h:3 includes setup/world.h" in found[0]


def test_a_file_left_out_of_the_build(tree):
    tree.write("daemon/util/new.c", LICENCE)
    assert tree.run() == ["daemon/util/new.c:1: is not in the build: neither in sources.am nor in Makefile.am"]
    (tree.root / "sources.am").unlink()
    assert [line.split(": ")[0] for line in tree.run()] == ["sources.am:1"]


def test_no_document(tree):
    (tree.root / "doc/architecture.md").unlink()
    assert tree.run() == []


def test_bytes_are_left_alone(tree):
    """What is no text, and tabs in a string of a Python program."""
    tree.write("tests/fuzz/corpus/text/seed", b"\xff \r\n")
    tree.write("doc/x.png", b"\x89PNG \r\n\0")
    tree.write("tests/x.py", 'TEXT = """a\n\tb\n"""\n')
    tree.write("daemon/util/buf.o", b"\0 \n")
    assert tree.run() == []


def test_git_says_which_files_there_are(tree):
    tree.write("build/x.c", "no licence \n")
    tree.write("notes", "ends with a space \n")
    tree.write(".gitignore", "/build/\n")
    if not shutil.which("git"):
        pytest.skip("no git on this machine")
    subprocess.run(["git", "init", "-q", tree.root], check=True)
    assert tree.run() == ["notes:1: white space at the end of the line"]


def test_the_table():
    """A room stays apart only from rooms that it might include."""
    for number, room in enumerate(rules.ROOMS):
        assert room.apart <= set(rules.ORDER[:number])
        assert room.sentence
    assert "web" in rules.ROOMS[rules.ORDER.index("monitor")].apart


def test_figures(tree):
    tree.write("daemon/util/x.c", LICENCE + "\n/* One,\n * two. */\n"
               "int f(int a,\n      int b)\n{\n\treturn a; /* a */\n}\n", built=True)
    figures = list(rules.figures(rules.read_sources(tree.root)))
    assert figures[0] == "2 functions: median/p90/max 4/5/5 lines"
    assert figures[1].startswith("4 .c files: ")
    # 5 + 2 + 3 + 7 lines, without the licence and empty ones
    assert figures[3] == "comments in .c files: 11.8 % of 17 lines"
