# SPDX-License-Identifier: MIT
"""Stacks of programs as Debian ships them, stripped and without frame pointers, reach the entry of program or thread.

Where a program or thread enters is told by readelf: the return address of such a function is undefined.
"""

import collections
import contextlib
import functools
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from harness import PATIENCE, until
from machine import needs
from tree import BUILD, provide

pytestmark = [pytest.mark.deep, pytest.mark.once, pytest.mark.alone, needs("readelf")]

SECONDS = 8
RATE = 99  # Hz
# So many samples say something of a program.
LEAST = 150

STRIPPED = {"the file is stripped, and has no debug symbols here", "no symbol is there"}
UNTRIED = {"not looked up yet", "being looked up"}

Found = collections.namedtuple("Found", "samples entries frames unknown starts ends")


# The code of the dynamic linker at its entry point.
ENTRY_BYTES = 64

# --- which functions begin where, and which are entries

def offset_of(segments, address):
    """In the file, of an address in one of its segments."""
    return next((address - start + offset for start, size, offset in segments if 0 <= address - start < size), None)


def segments_of(path):
    """(address, size, offset) of those that are loaded."""
    with open(path, "rb") as file:
        start = file.read(64)
        table, size, number = struct.unpack_from("<Q", start, 32)[0], *struct.unpack_from("<HH", start, 54)
        file.seek(table)
        headers = [struct.unpack("<IIQQQQQQ", file.read(size)) for _ in range(number)]
    return [(header[3], header[5], header[2]) for header in headers if header[0] == 1]  # PT_LOAD


@functools.lru_cache
def functions_of(path):
    """{offset of a function's beginning: is it an entry?}, as call-frame information has them."""
    segments = segments_of(path)
    dump = subprocess.run(["readelf", "--wide", "--debug-dump=frames", path], capture_output=True, text=True,
                          errors="replace", check=False).stdout
    found, parts, at = {}, {}, None
    for line in dump.splitlines():
        if begun := re.match(r"([0-9a-f]+) .* CIE$", line):
            at = begun[1]
            parts[at] = False
        elif begun := re.match(r".* FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.", line):
            at = offset_of(segments, int(begun[2], 16))
            found[at] = parts.get(begun[1], False)
        elif "DW_CFA_undefined: r16 " in line:
            (found if at in found else parts)[at] = True
    return found


@functools.lru_cache
def entry_point(path):
    with open(path, "rb") as file:
        start = file.read(64)
    return offset_of(segments_of(path), struct.unpack_from("<Q", start, 24)[0])


def offset_in(name):
    """That of a place: file+0x123."""
    found = re.search(r"\+0x([0-9a-f]+)$", name)
    return int(found[1], 16) if found else None


def is_entry(frame):
    name, module = frame["name"], frame["module"]
    if name in ("_start", "clone", "clone3", "__clone", "__clone3", "thread_start"):
        return True
    if frame["kind"] != "place" or not (module or "").startswith("/"):
        return False
    offset = offset_in(name)
    return functions_of(module).get(offset, False) or \
        module.rpartition("/")[2].startswith("ld-") and 0 <= offset - entry_point(module) < ENTRY_BYTES


def is_start(frame):
    """Of a stripped file, a place that is the beginning of a function is as good as its name."""
    return frame["missing"] in STRIPPED and (frame["module"] or "").startswith("/") and \
        offset_in(frame["name"]) in functions_of(frame["module"])


# --- what was sampled

def stacks(daemon, group, since):
    """(frames, samples) of each stack, the outermost frame first; and how they end."""
    told = daemon.json("/api/v1/profile", cgroup=group.label, **{"from": str(since)})
    nodes, names = told["nodes"], ("kind", "name", "module", "missing")
    found = []
    for number, share in enumerate(nodes["self"]):
        frames, at = [], number
        while share and at >= 0:
            if nodes["kind"][at] in ("function", "place"):
                frames.append({name: nodes[name][at] for name in names})
            at = nodes["parent"][at]
        if frames:
            found.append((frames[::-1], share * RATE))
    return found, told["stack_ends"]


def look(daemon, group, since):
    """Without looking at files, which is for those that have bounds."""
    found, ends = stacks(daemon, group, since)
    return found, ends, not any(frame["missing"] in UNTRIED for frames, _ in found for frame in frames)


def judge(found, ends):
    samples = sum(number for _, number in found)
    entries = sum(number for frames, number in found if is_entry(frames[0]))
    frames = sum(number * len(frames) for frames, number in found)
    starts = sum(number for frames, number in found for frame in frames if frame["missing"] and is_start(frame))
    unknown = sum(number for frames, number in found for frame in frames if frame["missing"] and not is_start(frame))
    return Found(samples, entries, frames, unknown, starts, ends)


def lost(found):
    """Where most of those that have not reached an entry end."""
    ends = collections.Counter()
    for frames, number in found:
        if not is_entry(frames[0]):
            ends[" < ".join(frame["name"] for frame in frames[:3])] += number
    return ends.most_common(5)


# --- programs, each with its load, until the end of the block

def unpacked(package):
    return BUILD / package / "usr"


def start_in(group, command, **kwargs):
    """In the cgroup, whose samples are looked at; a session of its own is ended as a whole."""
    words = ["sh", "-c", f'echo $$ >{group.path}/cgroup.procs; exec "$@"', "sh", *map(str, command)] if group \
        else list(map(str, command))
    return subprocess.Popen(words, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, **kwargs)


@contextlib.contextmanager
def running(group, *command, **kwargs):
    process = start_in(group, command, **kwargs)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()


def answers(address):
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as client:
        return client.connect_ex(address) == 0


@contextlib.contextmanager
def redis(group, folder):
    programs, place = unpacked("redis-tools") / "bin", str(folder / "redis.sock")
    server = folder / "redis-server"
    shutil.copy(programs / "redis-check-rdb", server)  # the same program, by its name
    with running(group, server, "--port", 0, "--unixsocket", place, "--save", "", "--dir", folder):
        until(lambda: answers(place), "redis answers")
        with running(None, programs / "redis-benchmark", "-s", place, "-l", "-q", "-n", 100000, "-P", 4,
                     "-t", "set,get,lpush,zadd,lrange_100"):
            yield


NGINX = """
daemon off;
user root;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
	access_log {folder}/access.log;
	client_body_temp_path {folder}/body;
	proxy_temp_path {folder}/proxy;
	fastcgi_temp_path {folder}/fastcgi;
	uwsgi_temp_path {folder}/uwsgi;
	scgi_temp_path {folder}/scgi;
	gzip on;
	gzip_min_length 1;
	gzip_types text/plain;
	server {{
		listen 127.0.0.1:{port};
		root {folder};
	}}
}}
"""


def free_port():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


@contextlib.contextmanager
def nginx(group, folder):
    port = free_port()
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port), encoding="utf-8")
    (folder / "text.txt").write_text("".join(f"a line of text, {n}\n" for n in range(2000)), encoding="ascii")
    with running(group, unpacked("nginx") / "sbin/nginx", "-p", folder, "-c", folder / "nginx.conf"):
        until(lambda: answers(("127.0.0.1", port)), "nginx answers")
        with running(None, unpacked("apache2-utils") / "bin/ab", "-q", "-k", "-c", 4, "-t", 600, "-n", 100000000,
                     "-H", "Accept-Encoding: gzip", f"http://127.0.0.1:{port}/text.txt"):
            yield


@contextlib.contextmanager
def postgres(group, folder):
    """It does not run as root, and is copied to where the other user can read it."""
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    shutil.copytree(unpacked("postgresql-15"), folder / "usr", symlinks=True,
                    ignore=shutil.ignore_patterns("bitcode", "doc", "man", "locale"))
    programs, data = folder / "usr/lib/postgresql/15/bin", folder / "data"
    data.mkdir(mode=0o700)
    os.chown(data, 65534, 65534)
    subprocess.run([*nobody, programs / "initdb", "-D", data, "-A", "trust", "-N", "--locale=C", "-U", "tests"],
                   check=True, cwd=data, stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})
    with running(group, *nobody, programs / "postgres", "-D", data, "-k", data, "-c", "listen_addresses=",
                 "-c", "fsync=off", cwd=data):
        bench = [*nobody, programs / "pgbench", "-h", data, "-U", "tests"]
        until(lambda: answers(f"{data}/.s.PGSQL.5432"), "postgres answers")
        until(lambda: subprocess.run([*bench, "-i", "-q", "-s", "2", "postgres"], check=False, cwd=data,
                                     capture_output=True).returncode == 0, "tables for pgbench")
        with running(None, *bench, "-c", 2, "-T", 600, "postgres", cwd=data):
            yield


PYTHON = """
import json, re
while True:
    rows = [{"name": f"row {n}", "values": list(range(n % 50))} for n in range(2000)]
    again = json.loads(json.dumps(rows))
    again.sort(key=lambda row: (len(row["values"]), row["name"]))
    re.sub("(row) ([0-9]+)", lambda found: found[2] + found[1], json.dumps(again))
"""


@contextlib.contextmanager
def python(group, _):
    with running(group, "/usr/bin/python3", "-c", PYTHON):
        yield


# It is in C++: strings, regular expressions, lists and functions.
CMAKE = """
cmake_minimum_required(VERSION 3.25)
function(sum list result)
	set(total 0)
	foreach(item IN LISTS ${list})
		math(EXPR total "${total} + ${item}")
	endforeach()
	set(${result} ${total} PARENT_SCOPE)
endfunction()
while(TRUE)
	set(numbers)
	foreach(number RANGE 200)
		list(APPEND numbers ${number})
	endforeach()
	sum(numbers total)
	list(SORT numbers COMPARE NATURAL ORDER DESCENDING)
	string(REGEX REPLACE "([0-9]+);" "<\\\\1>" text "${numbers}")
	string(SHA256 hash "${text}${total}")
endwhile()
"""


@contextlib.contextmanager
def cmake(group, folder):
    (folder / "loop.cmake").write_text(CMAKE, encoding="ascii")
    with running(group, "cmake", "-P", folder / "loop.cmake"):
        yield


@contextlib.contextmanager
def ripgrep(group, folder):
    """It is in Rust, and has threads."""
    for number in range(8):
        lines = (f"{n * 7919 % 10007} word_{n % 101} some text that is looked through {n}\n" for n in range(40000))
        (folder / f"text-{number}").write_text("".join(lines), encoding="ascii")
    loop = f"while :; do {unpacked('ripgrep')}/bin/rg -j 2 -i -c '(word|text)_[0-9]+5 .*thro[a-z]+ .*7$' {folder}; done"
    with running(group, "bash", "-c", loop):
        yield


NODE = """
for (;;) {
    const rows = Array.from({ length: 2000 }, (_, n) => ({ name: `row ${n}`, value: n * 7919 % 10007 }));
    rows.sort((a, b) => a.value - b.value);
    JSON.parse(JSON.stringify(rows)).map((row) => row.name.replace(/(row) ([0-9]+)/, "$2$1"));
}
"""


@contextlib.contextmanager
def node(group, _):
    with running(group, "node", "-e", NODE):
        yield


JAVA = """
import java.util.*;

class Loop {
    public static void main(String[] arguments) {
        for (Random random = new Random(1);;) {
            TreeMap<String, Integer> map = new TreeMap<>();
            for (int n = 0; n < 2000; n++)
                map.merge("row " + random.nextInt(500), n, Integer::sum);
            map.values().stream().mapToInt(Integer::intValue).sum();
        }
    }
}
"""


@contextlib.contextmanager
def java(group, folder):
    (folder / "Loop.java").write_text(JAVA, encoding="ascii")
    subprocess.run(["javac", "-d", folder, folder / "Loop.java"], check=True)
    with running(group, "java", "-cp", folder, "Loop"):
        yield


# --- the tests

@pytest.fixture
def folder():
    """For programs of all users. It has a short name, for sockets."""
    with tempfile.TemporaryDirectory(prefix="pm.", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def sample(daemon, group, program, folder):
    """Its stacks, when tables and names are known. The load goes on meanwhile."""
    folder.mkdir()

    def are_known(since, least):
        found, ends, named = look(daemon, group, since)
        waiting = daemon.metrics().value("perfmond_profile_waiting_bytes")
        return (found, ends) if named and not waiting and sum(number for _, number in found) >= least else None

    with program(group, folder):
        begun = time.time()
        until(lambda: are_known(begun, 20), f"the first samples of {program.__name__} have names", 2 * PATIENCE)
        since = time.time()
        time.sleep(SECONDS)
    # Compilers at run time go on to make code, and new functions are met until the end.
    return until(lambda: are_known(since, LEAST), f"samples of {program.__name__} have names", 4 * PATIENCE)


def start(perfmond, cgroups):
    return perfmond(f"[profiles]\nrate = {RATE}\ninclude = {cgroups.label}/*\n")


@needs("perf-cpus")
def test_programs(perfmond, cgroups, folder):
    """Of each program 95 % of the samples reach an entry, of all 97 %; and 3 % of the frames at most are unknown."""
    provide("sampled")
    daemon, all_found, problems = start(perfmond, cgroups), [], []
    for program in (redis, nginx, postgres, python, cmake, ripgrep):
        name = program.__name__
        stacks_found, ends = sample(daemon, cgroups.make(name), program, folder / name)
        found = judge(stacks_found, ends)
        all_found.append(found)
        report = f"{name}: {found.samples:.0f} samples, {100 * found.entries / found.samples:.1f} % reach an entry; " \
                 f"{100 * found.unknown / found.frames:.2f} % of the frames are unknown, " \
                 f"{100 * found.starts / found.frames:.1f} % have no name but a function's beginning; {found.ends}; " \
                 f"others end so: {lost(stacks_found)}"
        print(report, file=sys.stderr)
        if found.entries < 0.95 * found.samples:
            problems.append(report)
    samples, entries, frames, unknown = (sum(getattr(found, part) for found in all_found)
                                         for part in ("samples", "entries", "frames", "unknown"))
    assert not problems
    assert entries >= 0.97 * samples
    assert unknown <= 0.03 * frames, [(found.unknown, found.frames) for found in all_found]


@pytest.mark.parametrize("program", [pytest.param(node, marks=needs("node")),
                                     pytest.param(java, marks=needs("java", "javac"))])
def test_compilers_at_run_time(perfmond, cgroups, folder, program):
    """Reported, without a bound: their code has no tables. They are sampled, and nothing fails."""
    daemon = start(perfmond, cgroups)
    found, ends = sample(daemon, cgroups.make("compiled"), program, folder / "compiled")
    print(f"{program.__name__}: {sum(number for _, number in found):.0f} samples, {ends}", file=sys.stderr)
    assert found
