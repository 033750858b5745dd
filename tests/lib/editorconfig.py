# SPDX-License-Identifier: MIT
"""Whether files are as .editorconfig has them: as much of https://editorconfig.org as the project's own file uses."""

import io
import re
import tokenize
from fnmatch import fnmatchcase

TAB = 8


def alternatives(pattern):
    """`*.{c,h}` is `*.c` and `*.h`."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    return [text for word in found[1].split(",")
            for text in alternatives(pattern[:found.start()] + word + pattern[found.end():])]


def read_sections(text):
    """[(patterns, properties)], in the file's order: a later one is stronger."""
    sections = []
    for line in text.split("\n"):
        line = line.strip()
        if found := re.fullmatch(r"\[(.*)\]", line):
            sections.append((alternatives(found[1]), {}))
        elif sections and "=" in line and line[0] not in "#;":
            key, _, value = line.partition("=")
            sections[-1][1][key.strip()] = value.strip()
    return sections


def matches(name, pattern):
    """A pattern without a slash is about the last part of the name."""
    if "/" in pattern:
        return fnmatchcase(name, pattern.lstrip("/"))
    return fnmatchcase(name.rpartition("/")[2], pattern)


def properties_of(name, sections):
    properties = {}
    for patterns, more in sections:
        if any(matches(name, pattern) for pattern in patterns):
            properties.update(more)
    return properties


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


def check_bytes(name, content, properties):
    """(line, sentence) for each thing that is otherwise."""
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
    yield from check_lines(name, text, properties)


def check_tree(root, names):
    """(name, line, sentence) for each breach in the files."""
    path = root / ".editorconfig"
    sections = read_sections(path.read_text(encoding="utf-8")) if path.exists() else []
    for name in names:
        for line, sentence in check_bytes(name, (root / name).read_bytes(), properties_of(name, sections)):
            yield name, line, sentence
