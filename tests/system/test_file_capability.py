# SPDX-License-Identifier: MIT
"""The file capability cap_perfmon=ep, or =p, which makes another user's daemon count: also under no_new_privs, where
the process that starts it has the capability permitted, as container runtimes do it.
"""

import os
import struct
import subprocess
from pathlib import Path

import pytest

from harness import PATIENCE, as_user
from machine import needs

# A sanitizer's runtime does not take to programs with capabilities.
pytestmark = [pytest.mark.once, needs("file-capability", "cap-perfmon")]

UID = 65534
CAP_PERFMON = 38
PERMITTED = as_user(UID, "+perfmon")
BOUNDED = [option for option in PERMITTED if not option.startswith(("--inh", "--amb"))]
NO_NEW_PRIVS = ["setpriv", "--no-new-privs", "--ambient-caps=-all"]
CONFIG = '[cpu]\ngroups = cpu\n[cgroup]\ngroups =\n[group "cpu"]\nevents = context-switches\n'


def set_capability(binary, kind):
    """As setcap cap_perfmon=ep, or =p (capabilities(7)): version 2, effective or not; permitted and inheritable, low
    and high.
    """
    value = struct.pack("<IIIII", 0x02000000 | (kind == "ep"), 0, 0, 1 << CAP_PERFMON - 32, 0)
    os.setxattr(binary, "security.capability", value)


@pytest.fixture
def check(privileged, binary_for_all, tmp_path):
    binary = binary_for_all([])["binary"]
    config = Path(binary).with_name("check.conf")
    config.write_text(CONFIG)

    def start(prefix, capable):
        if capable:
            set_capability(binary, capable)
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
