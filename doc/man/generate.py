#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes a manual page from Markdown: generate.py VERSION NAME.SECTION.md >NAME.SECTION

The sources beside this file are short. A comment in them includes one of the documents above it, so that nothing is
written twice:

    <!-- include config.md -->                    the whole document
    <!-- include config.md: Options, Files -->    these sections of it
    <!-- include config.md but: Options -->       all but these sections

Python's markdown_it (Debian: python3-markdown-it) reads them; the output is that of man(7). Tables become lists, since
a terminal is too narrow for them: the first cell of a row is the term, the last one its text, and the ones between
stand before the text with the names of their columns.

A page is dated by SOURCE_DATE_EPOCH, or else by the day on which it is made.
"""

import os
import re
import sys
import textwrap
import time
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

FOLDER = Path(__file__).resolve().parent
DOCUMENTS = FOLDER.parent

# Links to these documents are links to the pages.
PAGES = {"config.md": "perfmond.conf(5)", "events.md": "perfmond-events(7)", "metrics.md": "perfmond-metrics(7)"}

BOLD, ITALIC = "\\fB{}\\fR", "\\fI{}\\fR"

# What roff would take for something else; "-" is a hyphen in a sentence, and the character itself in code.
ESCAPES = str.maketrans({"\\": "\\e", "'": "\\(aq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"})


class Unknown(Exception):
    """Something in a source that has no place in a page yet."""


# --- sources

def sections(text):
    """[(heading, text with the heading)] of a document; what stands before the first heading is under None."""
    parts = re.split(r"^## (.*)\n", re.sub(r"\A# .*\n", "", text), flags=re.M)
    return [(None, parts[0])] + [(name, f"## {name}\n{body}") for name, body in zip(parts[1::2], parts[2::2])]


def include(found):
    """The part of a document that a comment asks for."""
    name, but, listed = found.groups()
    parts = sections((DOCUMENTS / name).read_text(encoding="utf-8"))
    wanted = {heading.strip() for heading in (listed or "").split(",")} - {""}
    if missing := wanted - {heading for heading, _ in parts}:
        raise Unknown(f"{name} has no section {', '.join(sorted(missing))}")
    return "".join(text for heading, text in parts if not wanted or (heading in wanted) != bool(but))


def read_source(path):
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^<!-- include (\S+?)(?:( but)?: (.*))? -->$", include, text, flags=re.M)


# --- words

def escape(text):
    text = text.translate(ESCAPES)
    return "".join(char if ord(char) < 128 else f"\\[u{ord(char):04X}]" for char in text)


def code(text):
    return BOLD.format(escape(text).replace("-", "\\-"))


def link(node):
    """A link's text, and where it leads to: another page, or a document by its name."""
    text = words(node)
    path = node.attrs["href"].partition("#")[0]
    name = path.rpartition("/")[2]
    if not path or not name.endswith(".md"):
        return text
    target = ITALIC.format(escape(PAGES.get(name, name)))
    return target if text in (name, escape(name)) else f"{text} ({target})"


def word(node):
    if node.type == "text":
        return escape(node.content).replace(" - ", " \\- ")
    if node.type == "code_inline":
        return code(node.content)
    if node.type in ("strong", "em"):
        return (BOLD if node.type == "strong" else ITALIC).format(words(node))
    if node.type == "inline":
        return words(node)
    if node.type == "link":
        return link(node)
    if node.type == "softbreak":
        return "\n"
    raise Unknown(node.type)


def words(node):
    text = "".join(word(child) for child in node.children)
    # No parentheses in parentheses.
    return re.sub(r"\(([^()]*) \((\\fI\S+?\\fR)\)\)", r"(\1: \2)", text)


# --- blocks

def filled(text):
    """Lines of a paragraph, none of which begins like a request."""
    lines = textwrap.wrap(text, 78, break_long_words=False, break_on_hyphens=False)
    return [f"\\&{line}" if line[0] in ".'" else line for line in lines]


def paragraph(node, start=".PP"):
    return [start] * bool(start) + [line for child in node.children for line in filled(words(child))]


def heading(node):
    text = node.children[0].content.replace("`", "")
    if node.tag == "h2":
        return [f'.SH "{escape(text if text[0] == "[" else text.upper())}"']
    return [f'.SS "{escape(text)}"']


def listing(node):
    lines = escape(node.content.rstrip("\n").expandtabs(4)).replace("-", "\\-").split("\n")
    return [".PP", ".RS 4", ".nf", *(f"\\&{line}" if line[:1] in (".", "'") else line for line in lines), ".fi", ".RE"]


def bullets(node):
    lines = []
    for item in node.children:
        first, *more = item.children
        lines += [".IP \\(bu 2", *paragraph(first, "")]
        for child in more:
            lines += [".IP", *paragraph(child, "")]
    return lines


def table(node):
    head, body = node.children
    names = [words(cell) for cell in head.children[0].children]
    lines = []
    for row in body.children:
        term, *between, text = (words(cell) for cell in row.children)
        facts = "; ".join(f"{name}: {cell}" for name, cell in zip(names[1:], between) if cell)
        if between and names[-1] != "meaning" and text:
            text = f"{names[-1]}: {text}"
        lines += [".TP", term, *filled(facts), *[".br"] * bool(facts and text), *filled(text)]
    return lines


BLOCKS = {"paragraph": paragraph, "heading": heading, "fence": listing, "bullet_list": bullets, "table": table}


def block(node):
    if node.type not in BLOCKS:
        raise Unknown(f"{node.type}: {node.content!r}" if node.type == "html_block" else node.type)
    return BLOCKS[node.type](node)


def page(path, version):
    name, section, _ = path.name.rsplit(".", 2)
    day = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
    tree = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(read_source(path)))
    lines = [f'.\\" Written by doc/man/generate.py from {path.name} and the documents that it includes.',
             f'.TH {name.upper()} {section} {day} "perfmond {version}"',
             # Names are long: without even margins and hyphens they stay whole.
             ".nh", ".ad l"]
    for node in tree.children:
        made = block(node)
        # A heading brings its own space.
        after_heading = lines[-1].startswith((".SH", ".SS"))
        lines += made[1:] if after_heading and made[0] == ".PP" else made
    return "\n".join(lines) + "\n"


def main():
    version, source = sys.argv[1:]
    try:
        sys.stdout.write(page(Path(source), version))
    except Unknown as error:
        sys.exit(f"{source}: {error}")


if __name__ == "__main__":
    main()
