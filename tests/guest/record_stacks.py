#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Records stacks of arm64 for unit/stack/test-recorded.c anew: in a guest, where libdw confirms them.

usage: record_stacks.py

PYTHONPATH has tests/lib and tests/system. It is wanted when the format of tables or ways.c changes.
"""

import base64
import sys
import tempfile
from pathlib import Path

import guests
from tree import TOP, build, dev

RECORDED = TOP / "tests/unit/stack/arm64.stacks"

# Each way is in so many samples.
SCRIPT = """
against-libdw --record /tmp/arm64.stacks 300 /bin/ways 1000 >/tmp/told 2>&1 || { cat /tmp/told; exit 1; }
base64 /tmp/arm64.stacks
"""


def main():
    dev("provide", "guest")
    build("arm64", "perfmond", "tests/guest/load", "tests/system/against-libdw")
    with tempfile.TemporaryDirectory() as folder:
        guest = guests.Guest(guests.make_initramfs(Path(folder)), Path(folder) / "console", exact=True)
        if not guest.has_booted():
            sys.exit(guest.problem)
        recorded = base64.b64decode(guest.run(SCRIPT, 1200))
        told = guest.read("/tmp/told")
        guest.stop()
    RECORDED.write_bytes(recorded)
    print(f"{told}{RECORDED}: {len(recorded)} bytes")


if __name__ == "__main__":
    main()
