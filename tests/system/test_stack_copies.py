# SPDX-License-Identifier: MIT
"""Samples of cpu-clock have copies of stacks, as far as the config and the limit of locked memory allow."""

import os
import re
import resource
from pathlib import Path

import pytest

import harness
from harness import as_user, until
from machine import needs
from profiling import wait_for_names

PAGE = os.sysconf("SC_PAGE_SIZE")
# Rings of a CPU without copies: that of the side-band, and that of cpu-clock.
PLAIN = (32 + 16) * PAGE
LISTEN = "[web]\nlisten = 127.0.0.1:0\n"


def ring_bytes(daemon):
    """When it has told them."""
    return until(lambda: daemon.metrics().value("perfmond_profile_ring_bytes"), "there are rings")


def problems(daemon):
    return [problem for problem in daemon.json("/api/v1/status")["problems"] if "stack" in problem]


def test_copies_by_default(perfmond, cgroups, burner, cpus):
    """Two rings of 12 records for each CPU, which are told, and samples as ever."""
    group = cgroups.make("a")
    daemon = perfmond("")
    burner("burn", group)
    wait_for_names(daemon, group, 5)
    assert ring_bytes(daemon) >= len(cpus) * 2 * 12 * 32768 or problems(daemon)
    assert ring_bytes(daemon) <= max(64 << 20, len(cpus) * PLAIN)
    assert daemon.metrics().value("perfmond_profile_lost_total") == 0


@pytest.mark.parametrize("text", ["stack_bytes = 0", "rate = 100"])
def test_no_copies(perfmond, cpus, text):
    """Switched off, or sampled too often: rings are as small as they can be. A reload makes copies, and none again."""
    daemon = perfmond(f"[profiles]\n{text}\n")
    assert ring_bytes(daemon) == len(cpus) * PLAIN
    daemon.reload("[profiles]\nrate = 19\nstack_bytes = 8192\n" + LISTEN)
    until(lambda: ring_bytes(daemon) > len(cpus) * PLAIN, "there are copies")
    daemon.reload(f"[profiles]\n{text}\n{LISTEN}")
    until(lambda: ring_bytes(daemon) == len(cpus) * PLAIN, "there are none")
    assert not problems(daemon)


def test_a_section_asks_for_copies(perfmond, cpus):
    """At any rate, and of any event."""
    daemon = perfmond('[profiles]\nstack_bytes = 0\n[profile "often"]\nevent = cpu-clock\nrate = 199\n'
                      'stack_bytes = 8192\n')
    assert ring_bytes(daemon) >= len(cpus) * 2 * 79 * 8192 or problems(daemon)


@needs("cap-perfmon", "setpriv")
def test_little_locked_memory_halves_copies(perfmond, binary_for_all, cgroups, burner, cpus, tmp_path):
    """A user who may not lock more than the kernel gives everyone: smaller copies, which is said, and all samples."""
    pool = int(Path("/proc/sys/kernel/perf_event_mlock_kb").read_text(encoding="ascii")) << 10
    if harness.read_paranoid() < 0 or pool > 1 << 20:
        pytest.skip("this machine has no such limit")
    os.chmod(tmp_path, 0o755)
    group = cgroups.make("a")
    # The limit is that of a user, who is nobody else's.
    daemon = perfmond("", limits=[(resource.RLIMIT_MEMLOCK, (0, 0))],
                      **binary_for_all(as_user(1900000000 + os.getpid(), "+perfmon")))
    said = until(lambda: problems(daemon), "it is said")
    size = re.search(r"copies of stacks have (\d+) bytes instead of 32768: this user may not lock more memory; raise "
                     r"kernel.perf_event_mlock_kb, or LimitMEMLOCK=", said[0])
    assert size and int(size[1]) in (4096, 8192, 16384), said
    assert len(cpus) * PLAIN < ring_bytes(daemon) <= len(cpus) * pool
    burner("burn", group)
    until(lambda: daemon.metrics().value("perfmond_profile_samples_total") > 50, "samples")
    assert daemon.metrics().value("perfmond_profile_lost_total") == 0
