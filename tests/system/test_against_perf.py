# SPDX-License-Identifier: MIT
"""The shares of stacks are those that perf record --call-graph dwarf finds, of the same program at the same time."""

import collections
import math
import re
import subprocess

import pytest

from harness import until
from machine import needs
from test_whole_stacks import run, stacks_of

pytestmark = [pytest.mark.deep, pytest.mark.once, needs("perf", "gcc")]

STACKS, HOTTEST = 30, 20
SECONDS = 20
RATE, THEIRS = 99, 199  # Hz

# Stack n is main, outer_n, (in every third qsort and compare_n,) as many inner_n as depth() says, and burn_n. By chance
# it runs next, in proportion to its heat, for up to 2 ms: nothing is in step with the samples.
PROGRAM = """
#include <alloca.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define KEPT __attribute__((noipa, used)) static

static volatile uint64_t sum;
static uint64_t ns;

static uint64_t used(void)
{{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}}

{functions}
static void (*const all[])(void) = {{ {names} }};

int main(int argc, char **argv)
{{
	uint64_t end = used() + (uint64_t)((argc > 1 ? atof(argv[1]) : 1) * 1e9), random = 88172645463325252;

	while (used() < end) {{
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		/* Of two numbers the lesser: stack 0 is the hottest. */
		uint64_t a = random % {stacks}, b = (random >> 20) % {stacks};
		ns = (random >> 40) % 2000000;
		all[a < b ? a : b]();
		sum++;
	}}
	return 0;
}}
"""
FUNCTIONS = """
KEPT void burn_{n}(void)
{{
	for (uint64_t end = used() + ns; used() < end;)
		for (int i = 0; i < 20000; i++)
			sum += 1;
}}
KEPT void inner_{n}(int depth)
{{
	volatile char *room = alloca(16 + sum % {room});

	room[0] = 1;
	if (depth)
		inner_{n}(depth - 1);
	else
		burn_{n}();
	sum += (uint64_t)room[0];
}}
KEPT int compare_{n}(const void *a, const void *b)
{{
	inner_{n}({depth});
	return *(const int *)a - *(const int *)b;
}}
KEPT void outer_{n}(void)
{{
	int numbers[] = {{ 2, 1 }};

	if ({n} % 3 == 0)
		qsort(numbers, 2, sizeof(int), compare_{n});
	else
		inner_{n}({depth});
	sum += (uint64_t)numbers[0];
}}
"""


def depth(n):
    return n * 7 % 12


def room(n):
    """Up to so many bytes in each frame: all are in the copy."""
    return 20 + 40 * n


def wanted(n):
    return (f"outer_{n}", *([f"compare_{n}"] if n % 3 == 0 else []), *[f"inner_{n}"] * (depth(n) + 1), f"burn_{n}")


def build(folder):
    functions = "".join(FUNCTIONS.format(n=n, depth=depth(n), room=room(n)) for n in range(STACKS))
    text = PROGRAM.format(functions=functions, names=", ".join(f"outer_{n}" for n in range(STACKS)), stacks=STACKS)
    source = folder / "mixed-stacks.c"
    source.write_text(text, encoding="ascii")
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-o", source.with_suffix(""), source], check=True)
    return source.with_suffix("")


def own_part(frames):
    """From main to burn_N, without functions of the C library; None: it is in no burn_N."""
    for at, frame in enumerate(frames):
        if frame.startswith("burn_"):
            return tuple(frame for frame in frames[frames.index("main") + 1 if "main" in frames else 0:at + 1]
                         if re.match("(outer|compare|inner|burn)_", frame))
    return None


def read_perf(data, command):
    """The number of samples of each stack."""
    text = subprocess.run(["perf", "script", "-i", data, "--no-inline", "-F", "comm,ip,sym"], capture_output=True,
                          text=True, check=True).stdout
    found = collections.Counter()
    for block in text.split("\n\n"):
        first, *lines = block.strip("\n").split("\n")
        frames = [line.split()[1] for line in reversed(lines) if len(line.split()) > 1]
        if first.strip() == command and (stack := own_part(frames)):
            found[stack] += 1
    return found


def read_perfmond(daemon, command, since):
    found = collections.Counter()
    for frames, number in stacks_of(daemon, command, since):
        if stack := own_part(frames):
            found[stack] += number
    return found


def test_same_shares(perfmond, cgroups, tmp_path):
    """Of the 20 hottest stacks at least 19 differ by at most three standard errors of both. All are stacks of the
    program, whole."""
    group = cgroups.make("mixed")
    daemon = perfmond(f"[profiles]\nrate = {RATE}\ninclude = {group.label}\n")
    program, data = build(tmp_path), tmp_path / "perf.data"
    until(lambda: read_perfmond(daemon, program.name, run(daemon, group, program, 0.5)), "tables and names are known")
    # The kernel tells build ids: perf 6.1 crashes of notes in the vdso of some kernels when it reads them itself.
    record = f"perf record -q --buildid-mmap -N -e cpu-clock -F {THEIRS} --call-graph dwarf,32768 -o {data} " \
             f"-- {program}"
    since = run(daemon, group, record, SECONDS)
    theirs, ours = read_perf(data, program.name), read_perfmond(daemon, program.name, since)
    data.unlink()

    both, numbers = ours + theirs, (sum(ours.values()), sum(theirs.values()))
    # The program has used its time, whoever else had the CPUs.
    assert numbers[0] > 0.9 * RATE * SECONDS and numbers[1] > 0.8 * THEIRS * SECONDS, numbers
    hottest = [stack for stack, _ in both.most_common(HOTTEST)]
    off = {}
    for stack in hottest:
        share = both[stack] / sum(numbers)
        error = math.sqrt(share * (1 - share) * sum(1 / number for number in numbers))
        difference = ours[stack] / numbers[0] - theirs[stack] / numbers[1]
        print(f"{stack[-1]}: {difference / error:+.1f} standard errors, of {share:.4f}")
        if abs(difference) > 3 * error:
            off[stack] = ours[stack], theirs[stack]
    assert len(off) <= HOTTEST // 20, (off, numbers)
    assert set(hottest) <= {wanted(n) for n in range(STACKS)}
    known = sum(ours[wanted(n)] for n in range(STACKS))
    assert known >= 0.99 * numbers[0], ours - collections.Counter({wanted(n): ours[wanted(n)] for n in range(STACKS)})
