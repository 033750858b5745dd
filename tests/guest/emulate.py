#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The suite `hardware` in an emulated machine, for who has no PMU: its tests, Python and all that they need are in the
guest.

usage: hardware.py FOLDER [PYTEST-ARGUMENT...]

FOLDER gets the guest's console. The environment is that of guest.py; GUEST has Python, pytest and the packages of the
system's tests, too. An instruction takes 1 ns here: the tests wait by the clock, as on a machine of 1 GHz.
"""

import shlex
import shutil
import sys
import tempfile
from pathlib import Path

from guests import ARM64, MODULES, PERFMOND, Failed, Guest, pack
from tree import BUILD

WORK = BUILD / "arm64/tests/system/work"

TOP = Path(__file__).parents[2]

# What the guest has no use for.
LEFT_OUT = shutil.ignore_patterns("boot", "modules", "doc", "man", "locale", "include", "gconv", "__pycache__", "*.a")

# Seconds of the emulator's CPU time; all tests take ten minutes.
PATIENCE = 3600

SCRIPT = """
exec >/dev/console 2>&1
export PATH=/usr/bin:/bin:/usr/sbin:/sbin HOME=/root PYTHONDONTWRITEBYTECODE=1
export PERFMOND=/bin/perfmond WORK=/bin/work
cd /perfmond
python3 -m pytest -v -ra --color=no -p no:cacheprovider --rootdir=tests tests/hardware {}
"""


def make_initramfs(folder):
    """The fetched packages, with the tests and the documents that these read."""
    root = folder / "root"
    shutil.copytree(ARM64, root, symlinks=True, ignore=LEFT_OUT)
    (root / "modules").mkdir()
    for name in MODULES:
        shutil.copy(next((ARM64 / "lib/modules").rglob(f"{name}.ko")), root / "modules")
    shutil.copy(TOP / "tests/guest/init", root / "init")
    (root / "init").chmod(0o755)
    for program in (PERFMOND, WORK):
        shutil.copy(program, root / "bin")
    for name in ("tests", "doc", "conf"):
        shutil.copytree(TOP / name, root / "perfmond" / name)
    return pack(root, folder / "initramfs")


def main():
    console, arguments = Path(sys.argv[1]) / "console", shlex.join(sys.argv[2:])
    with tempfile.TemporaryDirectory() as folder:
        guest = Guest(make_initramfs(Path(folder)), console, exact=True, shift=0, memory=3072)
        if not guest.has_booted():
            sys.exit(guest.problem)
    print(f"the console: {console}", flush=True)
    status = 0
    try:
        guest.run(SCRIPT.format(arguments), PATIENCE)
    except Failed:
        status = 1
    guest.stop()
    print(console.read_text(errors="replace"))
    sys.exit(status)


if __name__ == "__main__":
    main()
