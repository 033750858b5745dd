# SPDX-License-Identifier: MIT
"""boundaries.py: in a small tree each kind of breach is found at its place, and no other is."""

import re

import pytest

pytest.importorskip("clang.cindex", reason="no module clang of Python")

import boundaries  # pylint: disable=wrong-import-position

HEADER = """\
#pragma once
struct box {
	int size;
};
struct point {
	int x;
};
struct box *box_free(struct box *box);
"""
USE = '#include "base/util/box.h"\nint use(struct box *box, struct point *point);\n' \
      "int use(struct box *box, struct point *point)\n{\n\treturn %s;\n}\n"
BOX = "base/util/box.h"


@pytest.fixture
def find(tmp_path):
    def find(expression, values=None, opened=None, room="web/http"):
        """Breaches where a source of the room has the expression."""
        for name, text in ((BOX, HEADER), (f"{room}/use.c", USE % expression)):
            path = tmp_path / "daemon" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        uses = boundaries.uses_of((str(tmp_path / "daemon" / room / "use.c"), str(tmp_path),
                                   [f"-I{tmp_path}/daemon"]))
        return list(boundaries.breaches(uses, boundaries.find_objects(tmp_path), values or {}, opened or {}))
    return find


def test_what_is_allowed(find):
    assert find("box->size", room="base/util") == []
    assert find("point->x++") == []
    assert find("box->size += 1", values={BOX: "box"}) == []
    assert find("box->size + 1", opened={BOX: ("box", "")}) == []
    assert find("box->size = 1", opened={BOX: ("box", "web/http")}) == []


@pytest.mark.parametrize("expression, tables, sentence", [
    ("box->size", {}, r"daemon/web/http/use\.c:5: knows size of struct box \(base/util/box\.h\), which its room alone"),
    *((write, {"opened": {BOX: ("box", "")}}, r"daemon/web/http/use\.c:5: writes size of struct box")
      for write in ("box->size = 1", "box->size |= 1", "++box->size", "(box->size)--")),
    ("box->size = 1", {"opened": {BOX: ("box", "web/api")}, }, r".*use\.c:5: writes size"),
    ("box->size", {"opened": {BOX: ("box point", "")}},
     r"daemon/base/util/box\.h:1: struct point is open, and no other"),
    ("point->x", {"values": {BOX: "box point"}}, r"daemon/base/util/box\.h:1: struct box is open, and no other"),
    ("box->size", {"opened": {BOX: ("box", "web/http")}}, r"daemon/base/util/box\.h:1: web/http may write its structs"),
])
def test_each_breach(find, expression, tables, sentence):
    found = find(expression, **tables)
    assert re.match(sentence, found[0]), found


def test_a_source_that_does_not_compile(find):
    with pytest.raises(SystemExit, match="use of undeclared identifier"):
        find("nothing->size")
