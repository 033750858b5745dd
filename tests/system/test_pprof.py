# SPDX-License-Identifier: MIT
"""Profiles beside the field's own programs: `go tool pprof` and protoc, which read them, and perf, which makes its own.

PPROF is the program, PPROF_PROTO the folder of profile.proto, which Debian has with pprof's source."""

import bisect
import collections
import gzip
import math
import re
import subprocess
import time

import pytest
import requests

from harness import PATIENCE, until
from machine import needs
from tree import BUILD, provide
from profiling import ask, start_daemon, wait_for_names, wait_named, wait_taken

PROTO = BUILD / "golang-github-google-pprof-dev/usr/share/gocode/src/github.com/google/pprof/proto"
# It leaves out functions below 0.5 % by itself: on a busy machine, the kernel's are several.
ALL_NODES = ("-top", "-nodefraction=0", "-nodecount=1000")


@pytest.fixture(scope="module")
def burnt(shared_perfmond, shared_cgroups, shared_burner):
    """Two programs, of three to one and one to three, whose samples have come to an end: the daemon, the cgroups, and
    the query for their samples."""
    groups = {name: shared_cgroups.make(name) for name in ("a", "b")}
    # Names of others would take time.
    daemon = start_daemon(shared_perfmond, rate=499, extra=f"include = {shared_cgroups.label}/**\n")
    processes = [shared_burner(f"burn-{name}", groups[name], hot=hot) for name, hot in (("a", 3), ("b", 1))]
    last = {"cgroup": f"{shared_cgroups.label}/**", "from": "-1h"}
    for group in groups.values():
        wait_for_names(daemon, group, 50)
    for process in processes:
        process.kill()
        process.wait()
    wait_taken(daemon)
    wait_named(daemon, **last)
    return daemon, groups, last


def pprof(daemon, tmp_path, *arguments, **query):
    """What it prints of a profile that it fetches itself."""
    provide("pprof")
    program = next((BUILD / "golang-1.19-go/usr/lib").glob("go-*/pkg/tool/*/pprof"))
    url = requests.Request("GET", f"{daemon.url}/debug/pprof/profile", params=query).prepare().url
    done = subprocess.run([program, *arguments, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={"HOME": str(tmp_path), "PPROF_TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
                          timeout=4 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower() and "warning" not in done.stderr.lower(), done.stderr
    return done.stdout


def shares(text):
    """The share of each function's own, of -top."""
    lines = text.partition("flat%")[2].splitlines()[1:]
    rows = [line.split() for line in lines if line.strip()]
    return {" ".join(row[5:]): float(row[1].rstrip("%")) / 100 for row in rows}


def share(daemon, name, **query):
    """A function's own share, as the daemon tells it. Each program has one of that name."""
    return sum(row["share"] for row in ask(daemon, "/api/v1/profile/top", **query)["rows"] if row["name"] == name)


def test_pprof_top_has_the_shares_of_the_daemon(burnt, tmp_path):
    """`pprof -top` has the functions and the shares that the daemon itself tells."""
    daemon, groups, last = burnt
    everything = {"cgroup": last["cgroup"], "seconds": 3600}
    text = pprof(daemon, tmp_path, *ALL_NODES, **everything)
    found = shares(text)
    for name in ("warm_function_of_test", "cold_function_of_test"):
        assert found[name] == pytest.approx(share(daemon, name, **last), abs=0.0002)
    samples = pprof(daemon, tmp_path, "-top", "-sample_index=samples", **everything)
    assert f"Total samples = {ask(daemon, **last)['samples']} " in samples + " ", samples.splitlines()[:6]
    assert "Type: cpu" in text and re.search(r"Duration: [\d.]+(m?s|mins)", text)
    # Samples of others have no stack to be seen, and are in the whole that shares are of.
    whole = shares(pprof(daemon, tmp_path, *ALL_NODES, seconds=3600))
    assert whole["(hidden)"] > 0 and sum(whole.values()) == pytest.approx(1, abs=0.00005 * (len(whole) + 1))
    # By cgroup, with its own labels.
    for name, group in groups.items():
        of_one = pprof(daemon, tmp_path, *ALL_NODES, f"-tagfocus=cgroup={group.label}", **everything)
        # It shows shares of the whole, with two digits: each row is rounded by so much at most.
        active = shares(of_one)
        rounded = 0.00005 * (len(active) + 1) / sum(active.values())
        assert active["warm_function_of_test"] / sum(active.values()) == pytest.approx(
            share(daemon, "warm_function_of_test", **{**last, "cgroup": group.label}), abs=0.0002 + rounded), of_one
        assert f"burn-{name}" in pprof(daemon, tmp_path, "-tags", f"-tagfocus=cgroup={group.label}", **everything)


def test_pprof_reads_it_for_each_of_its_outputs(burnt, tmp_path):
    """Other ways to look at it work as well, and name callers and files."""
    daemon, groups, last = burnt
    everything = {"cgroup": last["cgroup"], "seconds": 3600}
    tags = pprof(daemon, tmp_path, "-tags", **everything)
    assert all(group.label in tags for group in groups.values()) and "burn-a" in tags
    traces = pprof(daemon, tmp_path, "-traces", **everything)
    assert re.search(r"warm_function_of_test\n\s+main\n", traces)
    dot = pprof(daemon, tmp_path, "-dot", **everything)
    nodes = dict(re.findall(r'^(N\d+) \[label="(\w+)', dot, re.MULTILINE))
    calls = re.findall(r"^(N\d+) -> (N\d+) ", dot, re.MULTILINE)
    assert ("main", "warm_function_of_test") in {(nodes.get(caller), nodes.get(callee)) for caller, callee in calls}
    raw = pprof(daemon, tmp_path, "-raw", **everything)
    assert re.search(r"\d+: 0x0/0x[0-9a-f]+/0x0 \S*/burn-a [0-9a-f]{40}", raw), "the program with its build id"
    # Without a sample, too, it is a profile.
    empty = pprof(daemon, tmp_path, "-raw", cgroup="/none", seconds=30)
    assert "PeriodType: cpu nanoseconds" in empty


def test_the_profile_is_as_profile_proto_has_it(burnt):
    """profile.proto knows each field, and each text is UTF-8."""
    daemon, _, last = burnt
    provide("protoc")
    answer = requests.get(daemon.url + "/api/v1/profile", params={**last, "format": "pprof"}, timeout=PATIENCE)
    done = subprocess.run(["protoc", "--decode=perftools.profiles.Profile", f"--proto_path={PROTO}", "profile.proto"],
                          input=gzip.decompress(answer.content), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    text = done.stdout.decode("utf-8")
    assert not re.search(r"^\s*\d+: ", text, re.MULTILINE), "fields that it does not know"
    values = [int(value) for value in re.findall(r"^  value: (\d+)$", text, re.MULTILINE)]
    assert sum(values[::2]) == ask(daemon, **last)["samples"]
    assert 'string_table: "warm_function_of_test"' in text and "duration_nanos: " in text


def perf_places(file, program):
    """(seconds of CLOCK_MONOTONIC, function) of each sample that perf has of the program."""
    script = subprocess.run(["perf", "script", f"--input={file}", f"--comms={program.name}", "--ns",
                             "--fields=time,ip"], check=True, stdout=subprocess.PIPE, text=True).stdout
    nm = subprocess.run(["nm", "--numeric-sort", "--defined-only", program], check=True, stdout=subprocess.PIPE,
                        text=True).stdout
    symbols = [(int(line.split()[0], 16), line.split()[2]) for line in nm.splitlines()]
    starts = [start for start, _ in symbols]
    for line in script.splitlines():
        moment, place = line.split()
        yield float(moment.rstrip(":")), symbols[bisect.bisect(starts, int(place, 16)) - 1][1]


@needs("perf", "nm")
@pytest.mark.deep
@pytest.mark.alone
def test_perf_record_finds_the_same_shares(perfmond, cgroups, burner, tmp_path):
    """perf samples the same program at the same time: both have the same shares and as many samples, but for chance."""
    group, file = cgroups.make("a"), tmp_path / "perf.data"
    daemon = start_daemon(perfmond, extra=f"include = {group.label}\n")
    functions = "warm_function_of_test", "cold_function_of_test"
    process = burner("burn-a", group, flags=["-no-pie"])
    # Debian 12's perf can crash on files of other programs when it looks for their build ids.
    subprocess.run(["perf", "record", "--quiet", "--no-buildid", "--no-buildid-cache", "--no-bpf-event",
                    f"--pid={process.pid}", "--clockid=CLOCK_MONOTONIC", "--event=cpu-clock", "--freq=199",
                    f"--output={file}", "--", "sleep", "8"], check=True)
    samples = sorted(perf_places(file, tmp_path / "burn-a"))
    perfs, epoch = collections.Counter(name for _, name in samples), time.time() - time.monotonic()
    stretch = {"from": f"{samples[0][0] + epoch:.3f}", "to": f"{samples[-1][0] + epoch:.3f}"}

    wait_taken(daemon)

    def ours():
        rows = ask(daemon, "/api/v1/profile/top", cgroup=group.label, **stretch)["rows"]
        found = {row["name"]: row["samples"] for row in rows if row["name"] in functions}
        return found if len(found) == 2 else None
    own = until(ours, "names", 4 * PATIENCE)
    warm = functions[0]
    nr = [sum(counts[name] for name in functions) for counts in (perfs, own)]
    shares = [counts[warm] / total for counts, total in zip((perfs, own), nr)]
    sigma = math.sqrt(shares[0] * (1 - shares[0]) * (1 / nr[0] + 1 / nr[1]))
    assert abs(shares[0] - shares[1]) <= 5.5 * sigma, (perfs, own)
    # On a busy machine it runs in many short pieces, and each has a part of a period.
    assert abs(nr[1] - nr[0]) <= 4 * math.sqrt(sum(nr)), (perfs, own)
