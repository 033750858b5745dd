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
    "daemon/main.c": LICENCE + '\n#include "web/http/web.h"\n\nint main(void)\n{\n\treturn 0;\n}\n',
    "daemon/base/util/buf.h": HEADER,
    "daemon/base/util/buf.c": LICENCE + '\n#include "base/util/buf.h"\n\n#include <stdio.h>\n',
    "daemon/web/http/web.h": HEADER + '\n#include "base/util/buf.h"\n',
    "daemon/web/http/route.h": HEADER,
    "daemon/web/http/web.c": LICENCE + '\n#include "web/http/web.h"\n\n'
                             '#include "base/util/buf.h"\n#include "web/http/route.h"\n',
    "tests/unit/util/test-buf.c": LICENCE,
    "doc/architecture.md": "`base/util/` is for all, `web/http` is HTTP.\n",
    "dev": "#!/bin/sh\n\techo tab\n",
    "sources.am": "room_sources = daemon/base/util/buf.c daemon/base/util/buf.h\n"
                  "more_sources = daemon/web/http/web.c daemon/web/http/web.h daemon/web/http/route.h\n",
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
    "an unknown room": ("daemon/base/cellar/wine.c", LICENCE, r"daemon/base/cellar/wine\.c:1: room base/cellar is unk"),
    "an unknown wing": ("daemon/cellar/wine.c", LICENCE, r"daemon/cellar/wine\.c:1: room cellar is unknown"),
    "an arrow to a wing above": (
        "daemon/base/util/up.c", LICENCE + '\n#include "web/http/route.h"\n',
        r"daemon/base/util/up\.c:3: web/http/route\.h is included, and wing base does not know wing web"),
    "an arrow upwards, from a folder in a room": (
        "daemon/counting/event/catalog/up.c", LICENCE + '\n#include "counting/plan/plan.h"\n',
        r"daemon/counting/event/catalog/up\.c:3: counting/plan/plan\.h is included, and room counting/plan is above"),
    "counting includes the profiler": (
        "daemon/counting/plan/x.c", LICENCE + '\n#include "profiler/profiler.h"\n',
        r"daemon/counting/plan/x\.c:3: profiler/profiler\.h is included, and wing counting does not know"),
    "the web asks the profiler otherwise than by its protocol": (
        "daemon/web/api/x.c", LICENCE + '\n#include "profiler/profiler.h"\n#include "profiler/protocol.h"\n',
        r"daemon/web/api/x\.c:3: profiler/profiler\.h is included, and wing web does not know wing profiler"),
    "the page includes counting": (
        "daemon/web/page/x.c", LICENCE + '\n#include "counting/plan/plan.h"\n',
        r"daemon/web/page/x\.c:3: counting/plan/plan\.h .* web/page is to stay apart from counting/plan"),
    "an include of no room": ("daemon/base/util/x.c", LICENCE + '\n#include "buf.h"\n',
                              r"daemon/base/util/x\.c:3: buf\.h is included, which is in no room"),
    "a long file": ("daemon/base/util/x.c", LICENCE * 801, r"daemon/base/util/x\.c:801: the file has more than 800"),
    "a long function": ("daemon/base/util/x.c", function_of(61),
                        r"daemon/base/util/x\.c:3: function long_one has 61 lines, more than 60"),
    "a long line": ("daemon/base/util/x.c", LICENCE + "\n/*\t" + "x" * 111 + "*/\n",
                    r"daemon/base/util/x\.c:3: more than 120 columns"),
    "a hidden variable": (
        "daemon/base/util/x.c", LICENCE + "\nint next(void)\n{\n\tstatic int last;\n\n\treturn ++last;\n}\n",
        r"daemon/base/util/x\.c:5: a variable of a function keeps its value"),
    "no licence": ("daemon/base/util/x.c", "\n", r"daemon/base/util/x\.c:1: the first line is not"),
    "no pragma": ("daemon/base/util/x.h", LICENCE, r"daemon/base/util/x\.h:2: a header has #pragma once"),
    "its own header later": (
        "daemon/web/http/web.c", LICENCE + '\n#include "base/util/buf.h"\n#include "web/http/web.h"\n',
        r"daemon/web/http/web\.c:3: its own header web/http/web\.h is not included first"),
    "its own header not at all": ("daemon/web/http/web.c", LICENCE,
                                  r"daemon/web/http/web\.c:1: its own header web/http/web\.h"),
    "unsorted": ("daemon/web/http/x.c",
                 LICENCE + '\n#include "web/http/web.h"\n\n#include "web/http/route.h"\n#include "base/util/buf.h"\n',
                 r"daemon/web/http/x\.c:6: base/util/buf\.h is included after web/http/route\.h: not"),
    "the system's header first": ("daemon/web/http/x.c", LICENCE + '\n#include <stdio.h>\n#include "base/util/buf.h"\n',
                                  r"daemon/web/http/x\.c:4: base/util/buf\.h is included after a header of the system"),
    "white space at the end": ("daemon/base/util/x.c", LICENCE + "\n/* x */ \n",
                               r"daemon/base/util/x\.c:3: white space at the end"),
    "no newline at the end": ("doc/x.md", "text", r"doc/x\.md:1: the file does not end with one newline"),
    "an empty line at the end": ("doc/x.md", "text\n\n", r"doc/x\.md:3: the file does not end with one newline"),
    "a carriage return": ("conf/x.conf", "a\r\nb\n", r"conf/x\.conf:1: (a carriage return|white space)"),
    "not UTF-8": ("conf/x.conf", b"a\n\xff\n", r"conf/x\.conf:2: is not UTF-8"),
    "spaces in C": ("tests/unit/util/test-buf.c", LICENCE + "\n" + " " * 8 + "int a;\n",
                    r"tests/unit/util/test-buf\.c:3: indented with spaces"),
    "spaces in a shell script": ("tests/lib/x.sh", "if x; then\n" + " " * 8 + "y\nfi\n",
                                 r"tests/lib/x\.sh:2: indented with spaces"),
    "tabs in Python": ("tests/x.py", "if x:\n\ty()\n", r"tests/x\.py:2: indented with tabs"),
    "a room not in the document": ("doc/architecture.md", "`base/util/` and web.\n",
                                   r"doc/architecture\.md:1: does not name room `web/http`"),
}


@pytest.mark.parametrize("kind", ONE_BREACH)
def test_one_breach(tree, kind):
    name, content, pattern = ONE_BREACH[kind]
    tree.write(name, content, built=name.startswith("daemon/") and name not in CLEAN)
    if name.startswith("daemon/"):
        tree.append("doc/architecture.md", f"`{'/'.join(Path(name).parts[1:3])}`\n")
    found = tree.run()
    assert found and all(re.match(pattern, line) for line in found), found


def test_limits_themselves(tree):
    """What is as long as it may be."""
    tree.write("daemon/base/util/x.c", function_of(60) + "\n" * 737 + "/*" + "x" * 116 + "*/\n", built=True)
    assert len((tree.root / "daemon/base/util/x.c").read_text().splitlines()) == 800
    assert tree.run() == []


def test_a_circle(tree):
    """Of three pairs, through a .c file and two headers: all its includes are named, with their places."""
    tree.write("daemon/web/http/a.h", HEADER, built=True)
    tree.write("daemon/web/http/a.c", LICENCE + '#include "web/http/a.h"\n#include "web/http/b.h"\n', built=True)
    tree.write("daemon/web/http/b.h", HEADER + '#include "web/http/c.h"\n', built=True)
    tree.write("daemon/web/http/c.h", HEADER + '#include "web/http/a.h"\n#include "web/http/route.h"\n', built=True)
    assert tree.run() == ["daemon/web/http/a.c:3: a circle of file pairs: daemon/web/http/a.c:3 includes web/http/b.h, "
                          "daemon/web/http/b.h:3 includes web/http/c.h, daemon/web/http/c.h:3 includes web/http/a.h"]


def test_circles_of_tests(tree):
    for name, other in ("world", "clock"), ("clock", "world"):
        tree.write(f"tests/unit/setup/{name}.h", HEADER + f'#include "setup/{other}.h"\n')
    found = tree.run()
    assert len(found) == 1 and "setup/clock.h:3 includes setup/world.h" in found[0]


def test_a_file_left_out_of_the_build(tree):
    tree.write("daemon/base/util/new.c", LICENCE)
    assert tree.run() == ["daemon/base/util/new.c:1: is not in the build: neither in sources.am nor in Makefile.am"]
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
    tree.write("daemon/base/util/buf.o", b"\0 \n")
    assert tree.run() == []


def test_git_says_which_files_there_are(tree):
    tree.write("build/x.c", "no licence \n")
    tree.write("notes", "ends with a space \n")
    tree.write(".gitignore", "/build/\n")
    if not shutil.which("git"):
        pytest.skip("no git on this machine")
    subprocess.run(["git", "init", "-q", tree.root], check=True)
    assert tree.run() == ["notes:1: white space at the end of the line"]


def test_the_tables():
    """A room stays apart only from what it might include."""
    for number, (name, room) in enumerate(rules.ROOMS.items()):
        wing, below = name.split("/")[0], rules.WINGS[name.split("/")[0]].split()
        possible = {other for other in rules.ORDER if other.split("/")[0] in below} | {*below}
        assert room.apart <= possible | {other for other in rules.ORDER[:number] if other.startswith(wing)}, name
        assert room.sentence


def test_figures(tree):
    tree.write("daemon/base/util/x.c", LICENCE + "\n/* One,\n * two. */\n"
               "int f(int a,\n      int b)\n{\n\treturn a; /* a */\n}\n", built=True)
    figures = list(rules.figures(rules.read_sources(tree.root)))
    assert figures[0] == "2 functions: median/p90/max 4/5/5 lines"
    assert figures[1].startswith("4 .c files: ")
    # 5 + 2 + 3 + 7 lines, without the licence and empty ones
    assert figures[3] == "comments in .c files: 11.8 % of 17 lines"
