# SPDX-License-Identifier: MIT
"""The manual pages and the shells' completion: clean, and as complete as the program and the documents.

PERFMOND is the program; its pages are in doc/man beside it, or in the tree itself if that is a release.
"""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

import harness

TOP = Path(__file__).resolve().parents[2]
PERFMOND = Path(harness.PERFMOND)
PAGES = ["perfmond.8", "perfmond.conf.5", "perfmond-events.7", "perfmond-metrics.7"]


def path_of(page):
    made = PERFMOND.parent / "doc/man" / page
    return made if made.exists() else TOP / "doc/man" / page


def rendered(page):
    """The page as man shows it, in lines that are not broken."""
    done = subprocess.run(["man", "--local-file", path_of(page)], capture_output=True, text=True, check=True,
                          env={**os.environ, "MANWIDTH": "5000", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""})
    return done.stdout


def terms(page):
    """The terms of its lists, by section: {section: [term, ...]}."""
    found, section = {}, None
    lines = path_of(page).read_text(encoding="utf-8").split("\n")
    for before, line in zip(lines, lines[1:]):
        if heading := re.fullmatch(r'\.S[HS] "(.*)"', line):
            section = heading[1]
        elif before == ".TP":
            found.setdefault(section, []).append(re.sub(r"\\f.|\\", "", line))
    return found


def documented(name, heading):
    """The first cells of all tables in a section of a document, without the marks of code."""
    text = (TOP / "doc" / name).read_text(encoding="utf-8")
    section = re.search(rf"^(##+) {re.escape(heading)}\n(.*?)(?=^##|\Z)", text, re.M | re.S)[2]
    rows = re.sub(r"^\|.*\n\|---.*\n", "", section, flags=re.M)
    return [re.sub(r"[`\\]", "", cell) for cell in re.findall(r"^\| (.*?) (?<!\\)\|", rows, re.M)]


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", text))


# --- clean

@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("command", [
    ["mandoc", "-T", "lint", "-W", "warning"],
    ["groff", "-ww", "-man", "-T", "utf8", "-z"],
    ["man", "--warnings=all", "--local-file"],
], ids=lambda command: command[0])
def test_no_warning(command, page):
    if not shutil.which(command[0]):
        pytest.skip(f"needs {command[0]}")
    done = subprocess.run([*command, path_of(page)], capture_output=True, text=True, check=False,
                          env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
    complaints = done.stderr if command[0] != "mandoc" else done.stdout + done.stderr
    assert done.returncode == 0 and not complaints, complaints


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_a_name_that_whatis_finds(page):
    if not shutil.which("lexgrog"):
        pytest.skip("needs man-db")
    done = subprocess.run(["lexgrog", path_of(page)], capture_output=True, text=True, check=False)
    name, section = page.rsplit(".", 1)
    assert done.returncode == 0 and f'"{name} - ' in done.stdout, done.stdout + done.stderr
    assert re.search(rf'^\.TH {re.escape(name.upper())} {section} \d{{4}}-\d\d-\d\d "perfmond \S+"$',
                     path_of(page).read_text(encoding="utf-8"), re.M)


def test_pages_name_pages_and_documents_that_exist():
    """Those of perfmond; others belong to the system."""
    for page in PAGES:
        text = rendered(page)
        for name, section in re.findall(r"\b(perfmond[\w.-]*)\((\d)\)", text):
            assert f"{name}.{section}" in PAGES, f"{page}: {name}({section})"
        for name in re.findall(r"\b[a-z]+\.md\b", text):
            assert (TOP / "doc" / name).exists(), f"{page}: {name}"


# --- complete

HELP = subprocess.run([PERFMOND, "--help"], capture_output=True, text=True, check=True).stdout


def test_options():
    """The program, the page and the document have the same."""
    known = options_of(HELP)
    assert len(known) > 10
    assert options_of(" ".join(documented("config.md", "Options"))) == known
    assert options_of(" ".join(terms("perfmond.8")["OPTIONS"])) == known


def sections_of(name):
    return re.findall(r"^##+ (.*)$", (TOP / "doc" / name).read_text(encoding="utf-8"), re.M)


@pytest.mark.parametrize("page, document, but", [
    ("perfmond.conf.5", "config.md", {"Options"}),
    ("perfmond-events.7", "events.md", set()),
    ("perfmond-metrics.7", "metrics.md", set()),
])
def test_each_row_of_a_document_is_in_the_page(page, document, but):
    """Keys, kinds, metrics, labels, states. The documents themselves are compared with the daemon by other tests."""
    def letters(text):
        return re.sub(r"\(aq|\[u\w+\]|[^\w<>]", "", text.lower(), flags=re.A)

    shown = {letters(section): [letters(term) for term in found] for section, found in terms(page).items()}
    for section in sections_of(document):
        if section not in but:
            rows = [letters(cell) for cell in documented(document, section)]
            assert shown.get(letters(section), []) == rows, section
    assert sum(map(len, shown.values())) > 15


def test_each_key_is_in_the_page():
    """By the table in the source."""
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(TOP.glob("daemon/base/config/*.c")))
    keys = re.findall(r"SECTION_(\w+), \.name = \"(\w+)\"", source)
    assert len(keys) > 30
    shown = terms("perfmond.conf.5")
    for section, key in keys:
        heading = next(name for name in shown if re.match(rf"\[{section.lower()}\b", name))
        assert key in shown[heading], f"[{section.lower()}] {key}"


# --- completion

# What each shell needs so that the first tab lists all candidates.
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"],
             "bind 'set show-all-if-ambiguous on'; bind 'set page-completions off'; "
             "bind 'set completion-query-items 0'; . conf/completion/perfmond"),
    "zsh": (["zsh", "-f", "-i"],
            "setopt no_list_ambiguous; fpath=($PWD/conf/completion $fpath); autoload -Uz compinit; compinit -u -D; "
            "LISTMAX=1000"),
}


class Shell:
    """An interactive shell on a terminal, in which the program can be called by its name."""

    def __init__(self, folder, command, begin):
        (folder / "perfmond").symlink_to(PERFMOND)
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(PATH=f"{folder}:{os.environ['PATH']}", TERM="dumb", HOME=str(folder))
            os.chdir(TOP)
            os.execvp(command[0], command)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 250, 0, 0))
        self.type(f"{begin}; echo rea''dy\n", lambda answer: "ready" in answer)

    def type(self, text, is_enough):
        """What the shell writes then, until that is enough."""
        os.write(self.terminal, text.encode())
        answer, end = "", time.monotonic() + 30
        while not is_enough(answer):
            assert time.monotonic() < end, f"typed {text!r}, and got {answer!r}"
            if select.select([self.terminal], [], [], 0.2)[0]:
                answer += os.read(self.terminal, 65536).decode(errors="replace")
        return answer

    def offered(self, typed, pattern, wanted):
        """What it offers to go on with, of what looks like the pattern; it is waited for."""
        self.type("\x15", lambda answer: True)
        answer = self.type(f"{typed}\t", lambda answer: set(re.findall(pattern, answer)) >= wanted)
        return set(re.findall(pattern, answer))

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path):
    if not shutil.which(request.param):
        pytest.skip(f"needs {request.param}")
    shell = Shell(tmp_path, *SHELLS[request.param])
    yield shell
    shell.close()


def test_completion_has_all_options(shell):
    known = options_of(HELP)
    assert shell.offered("perfmond --", r"(?<![\w-])--[a-z][a-z-]*(?![\w-])", known) == known


def test_completion_of_values(shell):
    formats = {"prometheus", "openmetrics", "json"}
    assert shell.offered("perfmond --once=", "|".join(formats), formats) == formats
    levels = {"err", "warning", "notice", "info", "debug"}
    assert shell.offered("perfmond --log-level=", "|".join(levels), levels) == levels
    assert shell.offered("perfmond --config=conf/prometheus/", r"\w+\.rules\.yml", {"alerts.rules.yml"})
    events = {"context-switches", "cpu-clock", "cpu-migrations"}
    assert shell.offered("perfmond --list-events=c", r"\bc[a-z]+-\w+", events) >= events
