# SPDX-License-Identifier: MIT
"""The file capability cap_perfmon=ep, or =p, which makes another user's daemon count: also under no_new_privs, where
the process that starts it has the capability permitted, as container runtimes do it. And each other capability that the
documents name, as =p, with what they promise of it.
"""

import json
import os
import re
import secrets
import struct
import subprocess
from pathlib import Path

import pytest

from container_names import CONFIG as NAMES
from harness import PATIENCE, as_user, children, readable, until
from machine import needs
from profiling import start_daemon
from test_profile_names import FUNCTIONS, burn_inside, wait_for

# A sanitizer's runtime does not take to programs with capabilities.
pytestmark = [pytest.mark.once, needs("file-capability", "cap-perfmon")]

UID = 65534
NUMBERS = {"dac_read_search": 2, "net_bind_service": 10, "sys_ptrace": 19, "sys_admin": 21, "syslog": 34, "perfmon": 38,
           "bpf": 39}
PERMITTED = as_user(UID, "+perfmon")
BOUNDED = [option for option in PERMITTED if not option.startswith(("--inh", "--amb"))]
NO_NEW_PRIVS = ["setpriv", "--no-new-privs", "--ambient-caps=-all"]
CONFIG = '[cpu]\ngroups = cpu\n[cgroup]\ngroups =\n[group "cpu"]\nevents = context-switches\n'


def set_capability(binary, kind, *names):
    """As setcap cap_perfmon=ep, or =p (capabilities(7)): version 2, effective or not; permitted and inheritable, low
    and high.
    """
    bits = sum(1 << NUMBERS[name] for name in names)
    value = struct.pack("<IIIII", 0x02000000 | (kind == "ep"), bits & 0xffffffff, 0, bits >> 32, 0)
    os.setxattr(binary, "security.capability", value)


@pytest.fixture
def check(privileged, binary_for_all, tmp_path):
    binary = binary_for_all([])["binary"]
    config = Path(binary).with_name("check.conf")
    config.write_text(CONFIG)

    def start(prefix, capable):
        if capable:
            set_capability(binary, capable, "perfmon")
        # From the last of the prefix right to it: a program between would lose what is permitted.
        return subprocess.run([*prefix, binary, f"--config={config}", "--check"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

    return start


@needs("paranoid")
@pytest.mark.parametrize("kind", ["ep", "p"])
@pytest.mark.parametrize("prefix", [BOUNDED, [*PERMITTED, *NO_NEW_PRIVS]], ids=["plain", "no_new_privs"])
def test_a_file_capability_is_enough_to_count(check, prefix, kind):
    without = check(prefix, None)
    assert without.returncode == 2 and "CAP_PERFMON: no" in without.stdout, without.stdout + without.stderr
    done = check(prefix, kind)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "CAP_PERFMON: yes, CAP_SYS_ADMIN: no: may count whole CPUs" in done.stdout


@needs("paranoid")
def test_a_file_capability_gives_nothing_under_no_new_privs(check):
    """Under no_new_privs a file gives nothing that the process has not."""
    done = check([*BOUNDED, "setpriv", "--no-new-privs"], "ep")
    assert done.returncode == 2 and "CAP_PERFMON: no" in done.stdout, done.stdout + done.stderr


@needs("paranoid")
def test_a_file_capability_outside_the_bounding_set(check):
    """With the effective bit, the kernel does not even start it, as doc/container.md says; without, it does."""
    done = check(as_user(UID), "ep")
    assert done.returncode == 126 and "Operation not permitted" in done.stderr, done.stdout + done.stderr
    done = check(as_user(UID), "p")
    assert done.returncode == 2 and "CAP_PERFMON: no" in done.stdout, done.stdout + done.stderr


# --- the others, as =p

@pytest.fixture
def permit(binary_for_all, tmp_path):
    """A prefix that makes a daemon another user's, with these capabilities of its file."""
    readable(tmp_path)

    def permit(*names):
        options = binary_for_all(as_user(UID, " ".join(f"+{name}" for name in names)))
        options["prefix"] = [option for option in options["prefix"] if not option.startswith(("--inh", "--amb"))]
        set_capability(options["binary"], "p", *names)
        return options
    return permit


@pytest.fixture
def run_with(permit):
    def run(*args, names):
        options = permit(*names)
        return subprocess.run([*options["prefix"], options["binary"], *args], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
    return run


@needs("bpf")
def test_cap_bpf_counts_cgroups_by_the_bpf_engine(run_with, tmp_path):
    config = tmp_path / "check.conf"
    config.write_text('[cpu]\ngroups = g\n[cgroup]\ngroups = g\nengine = bpf\n[group "g"]\nevents = page-faults\n')
    assert run_with("--check", f"--config={config}", names=["perfmon"]).returncode == 2
    done = run_with("--check", f"--config={config}", names=["perfmon", "bpf"])
    assert done.returncode == 0 and "(engine bpf)" in done.stdout, done.stdout + done.stderr


@needs("kallsyms")
def test_cap_syslog_shows_the_kernel_s_symbols(run_with, tmp_path):
    folder = tmp_path / "lists"
    folder.mkdir()
    os.chown(folder, UID, UID)
    for names, status in (["perfmon"], 1), (["syslog"], 0):
        done = run_with(f"--save-kallsyms={folder}/kallsyms", names=names)
        assert done.returncode == status, done.stderr


def test_cap_sys_admin_is_raised_for_what_needs_it(run_with, tmp_path):
    (tmp_path / "check.conf").write_text(CONFIG)
    done = run_with("--check", f"--config={tmp_path}/check.conf", names=["perfmon", "sys_admin"])
    assert "CAP_SYS_ADMIN: raised for what needs it" in done.stdout, done.stdout + done.stderr


@needs("low-ports")
def test_cap_net_bind_service_listens_below_1024(perfmond, permit, run_with, tmp_path):
    # Of loopback's addresses one that no other run of this test has.
    config = tmp_path / "low.conf"
    config.write_text("[web]\nlisten = 127." + ".".join(map(str, os.getpid().to_bytes(3, "big"))) + ":1023\n")
    refused = run_with(f"--config={config}", names=["perfmon"])
    assert refused.returncode == 1 and "CAP_NET_BIND_SERVICE" in refused.stderr
    daemon = perfmond(config.read_text(), **permit("perfmon", "net_bind_service"))
    assert daemon.metrics().value("perfmond_up") == 1


def test_cap_dac_read_search_finds_names_of_containers(perfmond, permit, cgroups, tmp_path):
    container, folder = secrets.token_hex(32), tmp_path / "files"
    (folder / container).mkdir(parents=True)
    (folder / container / "config.v2.json").write_text(json.dumps({"Name": "/web", "Config": {"Image": "nginx:1"}}))
    folder.chmod(0o700)
    group = cgroups.make(f"docker-{container}.scope")
    config = NAMES.format(cgroup=cgroups.label, files=folder) + "[profiles]\nenabled = no\n"
    refused = perfmond(config, **permit("perfmon"))
    until(lambda: any("container-names.conf" in text for text in refused.json("/api/v1/status")["problems"]),
          "it may not read the files")
    daemon = perfmond(config, **permit("perfmon", "dac_read_search"))
    until(lambda: daemon.metrics().all("perf_cgroup_info", cgroup=group.label, container="web"), "the name")


def states(daemon):
    """{process: {field: what it is}} of the daemon, its keeper and its profiler."""
    [keeper] = children(daemon.pid)
    texts = {name: Path(f"/proc/{pid}/status").read_text() for name, pid in
             (("daemon", daemon.pid), ("keeper", keeper), ("profiler", daemon.profiler))}
    return {name: dict(re.findall(r"^(Cap\w+|NoNewPrivs):\s+(\w+)$", text, re.M)) for name, text in texts.items()}


@pytest.mark.parametrize("given", [("perfmon",), ("perfmon", "sys_ptrace")], ids="+".join)
@pytest.mark.parametrize("no_new_privs", [False, True], ids=["plain", "no_new_privs"])
def test_cap_sys_ptrace_is_the_profiler_s_alone(perfmond, permit, given, no_new_privs):
    """As the image is started: another user, file capabilities without the effective bit, no CAP_SETPCAP. The
    profiler's capabilities are in no set of the daemon's, and in its bounding set, which it can't change, they are
    worth nothing."""
    options = permit(*given)
    if no_new_privs:
        options["prefix"] = [*as_user(UID, " ".join(f"+{name}" for name in given)), *NO_NEW_PRIVS]
    daemon = perfmond("", **options)
    all_given, perfmon = (sum(1 << NUMBERS[name] for name in names) for names in (given, ("perfmon",)))
    found = states(daemon)
    for process, has in ("daemon", perfmon), ("keeper", all_given), ("profiler", all_given):
        assert int(found[process]["CapPrm"], 16) == has, found
    assert int(found["daemon"]["CapEff"], 16) == perfmon and found["daemon"]["NoNewPrivs"] == "1"
    assert int(found["profiler"]["CapEff"], 16) == all_given
    assert daemon.metrics().value("perfmond_profiler_up") == 1
    assert not [text for text in daemon.json("/api/v1/status")["problems"] if "SYS_PTRACE" in text]


@needs("mount-namespace", "objcopy", "strip", "nm")
def test_cap_sys_ptrace_names_functions_of_containers(perfmond, permit, own_cgroup, burner, tmp_path):
    """In a file that only the process itself sees."""
    group = own_cgroup.make("inside")
    daemon = start_daemon(perfmond, rate=499, extra=f"include = {group.label}\n", **permit("perfmon", "sys_ptrace"))
    with burn_inside(group, burner, tmp_path):
        wait_for(daemon, group, "burn-inside", FUNCTIONS)
