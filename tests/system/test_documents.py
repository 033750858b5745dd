# SPDX-License-Identifier: MIT
"""The documents hang together: links lead somewhere, and what they name is there. Needs neither root nor the daemon."""

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

TOP = Path(__file__).parents[2]
README_MAX = 200
DOCUMENTS = [*(TOP / f"{name}.md" for name in ("README", "CONTRIBUTING", "NEWS", "SECURITY")),
             *sorted(TOP.glob("doc/*.md"))]

pytestmark = pytest.mark.once


def read(path):
    return (TOP / path).read_text(encoding="utf-8")


def name_of(path):
    return str(path.relative_to(TOP))


def prose(text):
    """Without blocks of code, whose lines are no headings and no links."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchors(path):
    """Of the headings, as GitHub makes them: in lower case, without punctuation, with - for each space."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(read(path)), re.M):
        anchor = base = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        number = 0
        while anchor in found:
            number += 1
            anchor = f"{base}-{number}"
        found.add(anchor)
    return found


def test_the_readme_is_short():
    lines = read("README.md").count("\n")
    assert lines < README_MAX, f"{lines} lines: move something to doc/"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(document):
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(read(document))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / unquote(path)).resolve() if path else document
        if not target.exists() or TOP not in (target, *target.parents):
            broken.append(f"{link}: no such file")
        elif anchor and anchor not in anchors(target):
            broken.append(f"{link}: no such heading")
    assert not broken, broken


def test_the_readme_leads_to_all_documents():
    readme = read("README.md")
    others = [name_of(path) for path in (*DOCUMENTS[1:], *TOP.glob("doc/*.json"))]
    missing = [name for name in others if f"]({name})" not in readme]
    assert not missing


def sections(text, heading):
    """Pairs of a section's name and its text."""
    parts = re.split(heading, text, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def test_each_config_key_is_described():
    """doc/config.md has the keys and defaults of conf/perfmond.conf, which another test compares with the daemon."""
    shown = {}
    for section, text in sections(read("conf/perfmond.conf"), r"^\[(\w+)\]$"):
        text = re.split(r"^#?\[", text, maxsplit=1, flags=re.M)[0]
        for key, value in re.findall(r"^#(\w+) = ?(.*)$", text, re.M):
            shown[section, key] = f"{shown.get((section, key), '')} {value}".strip()  # a list may take several lines
    # Of a rule, what has a default.
    rule = re.search(r'^# \[capture "busy"\]\n((?:# .+\n)+)', read("conf/perfmond.conf"), re.M)[1]
    shown |= {("capture", key): value for key, value in re.findall(r"^# (\w+) = (.+)$", rule, re.M)
              if key not in ("when", "rate")}
    source = "".join(read(path) for path in sorted(TOP.glob("daemon/base/config/*.c")))
    keys = re.findall(r"SECTION_(\w+), \.name = \"(\w+)\"", source)
    documented = {}
    for section, text in sections(read("doc/config.md"), r"^## \[(\w+)(?: \"NAME\")?\]$"):
        table = re.search(r"^(?:\|.*\n)+", text, re.M)[0]
        rows = re.findall(r"^\| `(\w+)` \| ((?:`[^`]*` )*)\| \S.*\|$", table, re.M)
        documented |= {(section, key): value.replace("`", "").strip() for key, value in rows}
    assert keys and {(section.lower(), key) for section, key in keys} == set(documented)
    without_default = {("capture", "when"), ("capture", "rate")}
    assert {key: value for key, value in documented.items()
            if key[0] not in ("group", "profile") and key not in without_default} == shown


@pytest.mark.parametrize("document", [TOP / "doc/architecture.md", TOP / "CONTRIBUTING.md"], ids=name_of)
def test_what_the_source_is_said_to_have(document):
    """Each function, file and room that these documents name."""
    text = prose(read(document))
    source = "".join(read(path) for path in sorted(TOP.glob("daemon/**/*.[ch]")))
    functions = set(re.findall(r"\b(\w+)\(", source))
    missing = [name for name in re.findall(r"`(\w+)\(\)`", text) if name not in functions]
    assert not missing, f"there are no functions {missing}"
    for path in re.findall(r"`([a-z.-]+/[a-z0-9./-]+\.\w+)`", text):
        assert (TOP / path).exists() or (TOP / "daemon" / path).exists(), f"there is no {path}"
    if document.name == "architecture.md":
        rooms = re.findall(r"^\| `(\w+/\w+)` \|", text, re.M)
        folders = (path for path in TOP.glob("daemon/*/[a-z]*") if path.is_dir())
        assert sorted(rooms) == sorted(str(path.relative_to(TOP / "daemon")) for path in folders)


def test_each_folder_of_tests_is_described():
    """In the table of tests/README.md, and nothing else is."""
    folders = {path.parent.relative_to(TOP / "tests").parts[0] for path in TOP.glob("tests/*/**/*.*")
               if "__pycache__" not in path.parts and path.is_file()}
    table = re.search(r"^\| folder \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", read("tests/README.md"), re.M)[1]
    documented = re.findall(r"^\| `(\w+)` \|", table, re.M)
    assert sorted(documented) == sorted(folders)


def test_each_file_of_system_tests_holds_a_promise():
    """By the table of tests/README.md, whose files are there."""
    table = read("tests/README.md").partition("| promise | tests |")[2]
    named = set()
    for row in table.splitlines():
        folder = "system"
        for name in re.findall(r"`([\w/]+\.py)`", row):
            folder = name.partition("/")[0] if "/" in name else folder
            named.add(f"{folder}/{name.rpartition('/')[2]}")
    missing = [name for name in sorted(named) if not (TOP / "tests" / name).exists()]
    assert not missing
    unnamed = sorted({f"system/{path.name}" for path in TOP.glob("tests/system/test_*.py")} - named)
    assert not unnamed


def test_dev_help_names_all_commands():
    """Those that the documents tell to call."""
    shown = subprocess.run([TOP / "dev", "help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  ([a-z]+)\b", shown, re.M))
    told = set(re.findall(r"\./dev ([a-z]+)", "".join(read(name_of(path)) for path in DOCUMENTS)))
    assert told - {"help"} <= commands, told - commands
