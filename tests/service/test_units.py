# SPDX-License-Identifier: MIT
"""The systemd units, alone and with each drop-in: systemd verifies them, and scores their exposure."""

import shutil

import pytest

from machine import needs
from tree import BUILD, build, check

ROOT = BUILD / "default/root"
UNITS = ROOT / "lib/systemd/system"

# With which drop-in, and the most that `systemd-analyze security` may say, in tenths.
SCORES = {None: 14, "sandbox": 7, "sys-admin": 17, "without-bpf": 13, "container-files": 17, "container-names": 16}


@pytest.fixture(scope="module")
def installed():
    """The units, where they are installed: systemd-analyze looks for the program in ExecStart=."""
    build("default", "all", "install")


@needs("systemd-analyze")
@pytest.mark.parametrize("drop_in", SCORES)
def test_units_are_valid_and_exposed_no_more_than(installed, tmp_path, drop_in):
    """A drop-in is put into the unit's file, since systemd-analyze --offline= reads none."""
    service, socket = tmp_path / "perfmond.service", tmp_path / "perfmond.socket"
    text = (UNITS / service.name).read_text()
    if drop_in:
        text += (ROOT / f"share/doc/perfmond/examples/{drop_in}.conf").read_text()
    service.write_text(text)
    shutil.copy(UNITS / socket.name, socket)
    # With the manual pages that the units name, where these could be made.
    manual = ROOT / "share/man"
    man = "yes" if (manual / "man8/perfmond.8").exists() else "no"
    check("env", f"MANPATH={manual}", "systemd-analyze", "verify", f"--man={man}", service, socket)
    check("systemd-analyze", "security", "--offline=yes", f"--threshold={SCORES[drop_in]}", "--no-pager", service)
