# SPDX-License-Identifier: MIT
"""A container (machine.py) with perfmond installed in it: its root is a folder with a handful of files, and its /usr is
the host's, with the installed tree (DEST) laid over it.
"""

import os
import shutil

import pytest

from booted import CONFIG, DROP_INS, SOCKET_DROP_INS, booted
from tree import BUILD, build, check, provide

DEST = BUILD / "clang/dest"

ROOT_FILES = {
    "etc/passwd": "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n"
                  "messagebus:x:100:100::/:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\nmessagebus:x:100:\n",
    "etc/nsswitch.conf": "passwd: files systemd\ngroup: files systemd\n",
    "etc/hostname": "perfmond-test\n",
    # Not empty: a first boot would enable all that the host has installed.
    "etc/machine-id": "706572666d6f6e642d74657374000001\n",
}


def make_root(root):
    for folder in ("etc/systemd/system", "var", "root", "tmp", "proc", "sys", "dev", "run", "usr"):
        (root / folder).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    for name, text in ROOT_FILES.items():
        (root / name).write_text(text)
    # A file of its own: /usr is not there yet when nspawn looks.
    shutil.copy("/usr/lib/os-release", root / "etc/os-release")


@pytest.fixture(scope="session")
def machine(tmp_path_factory):
    provide("nspawn")
    build("default", "perfmond")
    shutil.rmtree(DEST, ignore_errors=True)
    check("make", "-s", "-C", build("clang", "all"), "install", f"DESTDIR={DEST}")
    folder = tmp_path_factory.mktemp("nspawn")
    os.chmod(folder, 0o755)
    make_root(folder / "root")
    with booted(folder / "root", folder / "log", f"--overlay-ro=/usr:{DEST}/usr:/usr") as machine:
        yield machine


@pytest.fixture
def installed(machine):
    """The units as they are installed, nothing started; what a test adds to them is removed."""
    machine.run("systemctl", "reset-failed", check=False)
    yield machine
    machine.run("systemctl", "disable", "--now", "perfmond.socket", "perfmond.service")
    for path in (DROP_INS, SOCKET_DROP_INS, CONFIG):
        machine.remove(path)
    machine.run("systemctl", "daemon-reload")


@pytest.fixture
def service(installed):
    """With a socket of its own."""
    installed.run("systemctl", "start", "perfmond")
    return installed


@pytest.fixture
def sandboxed(installed):
    """With systemd's socket and no network, as doc/security.md says."""
    installed.run("mkdir", "-p", DROP_INS)
    installed.run("cp", "/usr/share/doc/perfmond/examples/sandbox.conf", DROP_INS)
    installed.run("systemctl", "enable", "--now", "perfmond.socket")
    return installed
