# SPDX-License-Identifier: MIT
"""How soon the functions of a program have their names, also on a machine whose CPUs are all taken."""

import contextlib
import os
import re
import subprocess
import time

import pytest

import profiling
from profiling import folded

pytestmark = [pytest.mark.alone, pytest.mark.deep]

# So many functions, one as likely as another: nearly each sample is in one that was not met before.
PROGRAM = """
#include <stdint.h>
#include <stddef.h>
#include <time.h>

__asm__(".text\\n"
	".macro work_of_test\\n"
	".type work_of_test_\\\\@, %function\\n"
	"work_of_test_\\\\@:\\n"
	".rept 24\\n nop\\n .endr\\n"
	"ret\\n"
	".size work_of_test_\\\\@, . - work_of_test_\\\\@\\n"
	".balign 32\\n"
	".endm\\n"
	".balign 32\\n"
	"first_of_test:\\n"
	".rept 200000\\n work_of_test\\n .endr\\n"
	"last_of_test:\\n");

extern char first_of_test[], last_of_test[];

int main(void)
{
	size_t size = (size_t)(last_of_test - first_of_test) / 200000;
	uint64_t random = 88172645463325252;

	while (clock() < SECONDS_OF_CPU * CLOCKS_PER_SEC)
		for (int i = 0; i < 100; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			void (*work)(void) = (void (*)(void))(void *)(first_of_test + random % 200000 * size);
			for (int k = 0; k < 1000; k++)
				work();
		}
	return 0;
}
"""

SECONDS_OF_CPU = 8


@contextlib.contextmanager
def busy_cpus():
    programs = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def named_share(daemon, group):
    """The part of the samples whose innermost function has its name."""
    stacks = folded(daemon, cgroup=group.label, **{"from": "-1h"})
    named = sum(count for stack, count in stacks.items() if not re.search(r"\+0x[0-9a-f]+$|\[unknown\]$", stack))
    return named / sum(stacks.values()), sum(stacks.values())


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
def test_a_new_program_has_names_soon_after_its_end(perfmond, cgroups, tmp_path, programs, busy):
    """97 % of its samples: within 12 s on a machine whose CPUs are all taken, and within 5 s on an idle one."""
    group = cgroups.make("new")
    daemon = profiling.start_daemon(perfmond, rate=999, memory="32MiB", extra=f"include = {cgroups.label}/**\n")
    program = programs.make(PROGRAM, tmp_path / "many-functions", (f"-DSECONDS_OF_CPU={SECONDS_OF_CPU}",))
    with busy_cpus() if busy else contextlib.nullcontext():
        subprocess.run([program], check=True, preexec_fn=lambda: group.add(os.getpid()))
        time.sleep(12 if busy else 5)
        share, samples = named_share(daemon, group)
    print(f"{share:.1%} of {samples} samples have names")
    assert samples > 2000 and share >= 0.97
