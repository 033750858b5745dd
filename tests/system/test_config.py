# SPDX-License-Identifier: MIT
"""Config files: what is wrong in one ends the start, before anything is counted or listened on, with a
message that names file and line."""

import random
import re
import socket
import subprocess
from pathlib import Path

import pytest

from harness import PATIENCE, PERFMOND, run, until


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "perfmond.conf"
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(text, encoding="utf-8")
        return path
    return write


@pytest.mark.parametrize("text, line, says", [
    ("[daemon]\n\nintervall = 1s\n", 3, "intervall"),
    ("[daemons]\n", 1, "daemons"),
    ("interval = 1s\n", 1, "interval"),
    ("[daemon]\ninterval = 1 fortnight\n", 2, "1 fortnight"),
    ("[daemon]\ninterval = -1s\n", 2, "-1s"),
    ("[daemon]\ninterval =\n", 2, "interval"),
    ("[daemon]\ninterval = 1ns\n", 2, "10ms"),
    ("[daemon]\ninterval = 99999999999999999999h\n", 2, "interval"),
    ("[cpu]\naggregate = perhaps\n", 2, "perhaps"),
    ("[cgroup]\nmax = many\n", 2, "many"),
    ("[cgroup]\nmax = -1\n", 2, "-1"),
    ("[cpu]\ngroups = nowhere\n", 2, "nowhere"),
    ("# one\n# two\n[group \"core\"]\nevents = cycles, bogus-event\n", 4, "bogus-event"),
    ("[group \"core\"]\nevents = page-faults:z\n", 2, "page-faults:z"),
    ("[group \"core\"]\nevents = r\n", 2, "'r'"),
    ("[group \"core\"]\nevents = msr/tsc\n", 2, "msr/tsc"),
    ("[group \"core\"]\nevents = msr/nosuchterm=1/\n", 2, "nosuchterm"),
    ("[group \"core\"]\nevents = page-faults,,minor-faults\n", 2, "core"),
    ("[group \"core\"]\nevents =\n", 2, "core"),
    ("[group \"core]\n", 1, "group"),
    ("[group]\n", 1, "group"),
    ("[web\n", 1, ""),
    ("[web]\nlisten\n", 2, ""),
    ("[web]\nlisten = 127.0.0.1\n", 2, "127.0.0.1"),
    ("[web]\nlisten = example.org:80\n", 2, "example.org"),
    ("[daemon]\ninterval = 1s\n\x00\x00\n", 3, ""),
])
def test_a_bad_file_is_named_with_its_line(write, text, line, says):
    path = write(text)
    done = run(f"--config={path}")
    assert done.returncode == 1
    message = [message for message in done.stderr.splitlines() if f"{path}:{line}: " in message]
    assert message, done.stderr
    assert says in message[0]
    assert "listening" not in done.stderr and "counting" not in done.stderr
    assert len(message[0]) < 500


def test_a_megabyte_of_noise_is_one_short_message(write):
    """Of bytes, of characters that mean something, and of one line."""
    printable = "".join(random.Random(1).choices("[]=\"; #abcdefghijk\n", k=1 << 20))
    one_line = '[group "core"]\nevents = ' + "page-faults," * 80000
    for noise in (random.Random(0).randbytes(1 << 20), printable, one_line):
        done = run(f"--config={write(noise)}")
        assert done.returncode == 1
        assert "perfmond.conf:" in done.stderr and len(done.stderr) < 1000
        assert all(line.isprintable() for line in done.stderr.splitlines())
    assert "perfmond.conf:2: " in done.stderr


def test_a_config_file_that_is_missing_is_named(tmp_path):
    done = run(f"--config={tmp_path}/none.conf")
    assert done.returncode == 1
    assert f"{tmp_path}/none.conf" in done.stderr and "No such file" in done.stderr


def test_a_bad_drop_in_is_named_with_its_line(write, tmp_path):
    path = write("")
    (tmp_path / "perfmond.conf.d").mkdir()
    (tmp_path / "perfmond.conf.d" / "10-good.conf").write_text("[daemon]\ninterval = 2s\n")
    (tmp_path / "perfmond.conf.d" / "20-bad.conf").write_text("[daemon]\ninterval = no\n")
    (tmp_path / "perfmond.conf.d" / "30-ignored.txt").write_text("nonsense")
    done = run(f"--config={path}")
    assert done.returncode == 1
    assert f"{tmp_path}/perfmond.conf.d/20-bad.conf:2: " in done.stderr


def test_drop_ins_are_read_in_order(perfmond, tmp_path):
    folder = tmp_path / "perfmond.conf.d"
    folder.mkdir()
    (folder / "20.conf").write_text("[daemon]\ninterval = 20s\n")
    (folder / "10.conf").write_text("[daemon]\ninterval = 10s\n[cpu]\naggregate = yes\n")
    metrics = perfmond("[daemon]\ninterval = 5s\n").metrics()
    assert metrics.value("perfmond_interval_seconds") == 20
    assert metrics.get("perf_cpu_page_faults_total") is not None, "summed over CPUs"


def test_an_address_in_use_ends_the_start(write):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        path = write(f"[web]\nlisten = 127.0.0.1:{port}\n")
        done = run(f"--config={path}")
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stderr
    assert "in use" in done.stderr
    assert "listening" not in done.stderr


def test_a_config_can_be_a_pipe():
    """--config=/dev/stdin and process substitution work as with other programs."""
    done = subprocess.run([PERFMOND, "--config=/dev/stdin", "--check"], input="[daemon]\ninterval = never\n",
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 1
    assert "/dev/stdin:2: " in done.stderr


def test_the_example_is_the_defaults(privileged, tmp_path):
    """conf/perfmond.conf with its comments taken away is accepted and changes nothing. What a PMU that is shared makes
    of an event changes by itself."""
    example = (Path(__file__).parents[2] / "conf/perfmond.conf").read_text(encoding="utf-8")
    settings = re.sub(r"^#(\[|\w)", r"\1", example, flags=re.M)
    assert settings.count("\n[") >= 6 or settings.count("[group") >= 3
    (tmp_path / "all.conf").write_text(settings, encoding="utf-8")
    (tmp_path / "none.conf").write_text("", encoding="utf-8")

    def check(name):
        text = run("--check", f"--config={tmp_path}/{name}.conf").stdout
        # Others' cgroups come and go, and there can be more of them than [cgroup] max.
        text = re.sub(r"\d+ (found|counted|left out|for counting)|(a limit of) \d+", r"N \1\2", text)
        text = re.sub(r"^  /.*\n|^  and \d+ more\n|^\d+ cgroups? (?:is|are) left out$", "", text, flags=re.M)
        text = re.sub(r" (ok|multiplexed|never_scheduled|stalled)( \[\d+\])?$", " opened", text, flags=re.M)
        return re.sub(r" \[\d+\]$|^\[\d+\] .*\n|^.* the events above can.t be counted$|^all that is configured .*$", "",
                      text, flags=re.M).rstrip()

    # A cgroup that just goes is not listed.
    until(lambda: check("all") == check("none") != "", "--check says the same with both")


def test_the_example_in_the_document_is_valid(write, tracefs):
    document = (Path(__file__).parents[2] / "doc/config.md").read_text(encoding="utf-8")
    path = write(re.search(r"```ini\n(.*?)```", document, re.S)[1])
    done = run("--check", f"--config={path}")
    assert done.returncode in (0, 2), done.stderr
    assert "sched:sched_process_fork     ok" in done.stdout


def test_hundreds_of_groups_are_counted(perfmond):
    groups = [f"g{i}" for i in range(300)]
    text = f"[cpu]\ngroups = {' '.join(groups)}\n[cgroup]\ngroups =\n"
    text += "".join(f'[group "{name}"]\nevents = e_{name}=page-faults\n' for name in groups)
    metrics = perfmond(text).fresh()
    assert metrics.all("perf_cpu_e_g299_total")
