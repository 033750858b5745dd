# SPDX-License-Identifier: MIT
"""Programs whose profiles are known, and what the daemon answers of them."""

import gzip
import re
import shutil
import subprocess
import time

import requests

from harness import PATIENCE, until
from openapi import check

# A rate at which seconds are enough for the bounds below.
CONFIG = """
[profiles]
enabled = yes
rate = {rate}
memory = {memory}
{extra}
"""

# It burns CPU time in two functions, `hot` of 4 parts of it in the first. With frame pointers, callers are right.
BURNER = """
#include <stdint.h>
#include <time.h>

volatile uint64_t sink;

static uint64_t used(void)
{{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}}

#define LOOP(name) \\
	__attribute__((noinline, noclone)) void name(uint64_t ns) \\
	{{ \\
		for (uint64_t end = used() + ns; used() < end;) \\
			for (int i = 0; i < 20000; i++) \\
				sink += 1; \\
	}}

LOOP(warm_function_of_test)
LOOP(cold_function_of_test)

int main(void)
{{
	uint64_t random = 88172645463325252;

	for (;;) {{
		/* Not in step with the samples. */
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		warm_function_of_test({hot} * (random % 4000000));
		cold_function_of_test((4 - {hot}) * (random % 4000000));
	}}
}}
"""


class Programs:
    """Each is compiled once in a run of pytest; what a test gets is a copy, under a name of its own."""

    def __init__(self, folder):
        self.folder, self.compiled = folder, {}

    def make(self, source, path, flags=()):
        key = source, *flags
        if key not in self.compiled:
            self.compiled[key] = program = self.folder / f"program-{len(self.compiled)}"
            program.with_suffix(".c").write_text(source, encoding="utf-8")
            subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", *flags, "-o", program, program.with_suffix(".c")],
                           check=True)
        return shutil.copy(self.compiled[key], path)


def start_daemon(perfmond, rate=199, memory="8MiB", extra="", **kwargs):
    return perfmond(CONFIG.format(rate=rate, memory=memory, extra=extra), **kwargs)


def ask(daemon, path="/api/v1/profile", **parameters):
    """Answers are worked out by a child, one after the other."""
    answer = requests.get(daemon.url + path, params=parameters, timeout=4 * PATIENCE)
    assert answer.status_code == 200, answer.text
    return check(answer)


def folded(daemon, **parameters):
    """The number of samples of each stack."""
    lines = ask(daemon, format="folded", **parameters).splitlines()
    return {stack: int(count) for stack, _, count in (line.rpartition(" ") for line in lines)}


def samples_with(stacks, *names):
    return sum(count for stack, count in stacks.items() if all(name in stack.split(";") for name in names))


def wait_for_names(daemon, cgroup, at_least, of_all=0.8):
    """The stacks of a cgroup, when there are so many samples and the functions have their names, which are that part of
    all."""
    def stacks():
        found = folded(daemon, cgroup=cgroup.label + "*", **{"from": "-1h"})
        named = samples_with(found, "warm_function_of_test") + samples_with(found, "cold_function_of_test")
        return found if named >= at_least and named > of_all * sum(found.values()) else None
    # Programs that have little of a busy machine's CPUs have few samples.
    return until(stacks, f"{at_least} samples with names", timeout=(4 + at_least / 50) * PATIENCE)


def wait_named(daemon, **query):
    """Until each function has its name, or a reason why it has none: two answers have the same names then."""
    def missing():
        return {row["missing"] for row in ask(daemon, "/api/v1/profile/top", **query)["rows"]}
    until(lambda: not missing() & {"not looked up yet", "being looked up"}, "all functions are looked up",
          4 * PATIENCE)


def wait_taken(daemon):
    """Until the daemon has all samples of what has happened until now."""
    now = time.time() + 0.01  # its clock and ours are looked at one after the other
    until(lambda: ask(daemon, "/api/v1/profile/top")["to"] > now, "samples until now", 4 * PATIENCE)


def wait_told(daemon):
    """A scrape whose figures of profiles are from after the call: the profiler tells all of them together, once a
    second, and what comes first may have been on its way."""
    def figure(metrics):
        return metrics.value("perfmond_profile_cpu_seconds_total")
    metrics = daemon.metrics()
    for _ in range(2):
        before = figure(metrics)
        metrics = until(lambda before=before: figure(now := daemon.metrics()) != before and now,
                        "the profiler tells its figures")
    return metrics


def resident_without_tables(daemon):
    """Bytes of the profiler. Its tables of frames, and copies that wait for them, are as many as there are programs."""
    told = wait_told(daemon)
    return daemon.resident(daemon.profiler) - told.value("perfmond_profile_table_bytes") - \
        told.value("perfmond_profile_waiting_bytes")


def check_nothing_is_sampled(daemon):
    """There are no rings, and no more samples than there were, whose number is returned."""
    metrics, later = wait_told(daemon), wait_told(daemon)
    samples = metrics.value("perfmond_profile_samples_total")
    assert metrics.value("perfmond_profile_ring_bytes") == 0
    assert later.value("perfmond_profile_samples_total") == samples
    return samples


# --- pprof, read by a program of its own

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """(number, value) of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        value, at = varint(data, at)
        if tag & 7 == 2:
            at, value = at + value, data[at:at + value]
        else:
            assert tag & 7 == 0
        yield tag >> 3, value


def packed(data):
    at, values = 0, []
    while at < len(data):
        value, at = varint(data, at)
        values.append(value)
    return values


class Pprof:
    """profile.proto: the samples as (names of functions from the innermost, values, labels).

    It has to satisfy whoever reads it: profile.CheckValid() of github.com/google/pprof, and the validation of profiles
    of Grafana Pyroscope. A sample without a location is not refused by either, and counted by neither."""

    def __init__(self, answer):
        assert answer.status_code == 200 and answer.headers["Content-Type"] == "application/octet-stream"
        top = list(fields(gzip.decompress(answer.content)))
        strings = [value.decode("utf-8") for number, value in top if number == 6]
        assert strings[0] == "" and len(set(strings)) == len(strings)

        def table(field):
            """The messages of a field, by their ids."""
            messages = [dict(fields(value)) for number, value in top if number == field]
            assert all(message.get(1) for message in messages), "an id is 0"
            assert len({message[1] for message in messages}) == len(messages), "an id is there twice"
            return {message[1]: message for message in messages}
        mappings, functions = table(3), table(5)
        self.symbols = {strings[function[2]]: strings[function[3]] for function in functions.values()}
        locations, self.addresses = {}, []
        for number, location in table(4).items():
            assert location.get(2) is None or location[2] in mappings
            locations[number] = strings[functions[dict(fields(location[4]))[1]][2]]
            assert locations[number]
            self.addresses.append(location.get(3, 0))
        types = [dict(fields(value)) for number, value in top if number == 1]
        self.types = [(strings[t[1]], strings[t[2]]) for t in types]
        self.default, self.period = strings[dict(top)[14]], dict(top).get(12)
        names = [name for name, _ in self.types]
        # A selector has them between colons.
        assert all(re.fullmatch("[A-Za-z0-9_]+", text) for pair in self.types for text in pair), self.types
        assert len(set(names)) == len(names) and self.default in names
        assert 0 < dict(top)[9] < 1 << 63 and 0 <= dict(top).get(10, 0) < 1 << 63
        self.samples = []
        for number, value in top:
            if number == 2:
                sample = list(fields(value))
                labels = [dict(fields(label)) for field, label in sample if field == 3]
                self.samples.append((
                    [locations[i] for field, ids in sample if field == 1 for i in packed(ids)],
                    [v for field, values in sample if field == 2 for v in packed(values)],
                    {strings[label[1]]: strings[label[2]] for label in labels}))
                assert self.samples[-1][0], f"{self.samples[-1]} has no location"
                assert len(self.samples[-1][1]) == len(types)
                assert len(self.samples[-1][2]) == len(labels)
                assert all(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) for name in self.samples[-1][2])
