# SPDX-License-Identifier: MIT
"""Names of code that programs make at run time, as they tell them themselves."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

import profiling
from harness import PATIENCE, until
from machine import needs
from profiling import ask, folded

# It copies a function of its own into memory, tells its name in a perf map or in a jitdump, and calls it. With each
# SIGUSR1, the code there gets the next name.
MAKER = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_SIZE 256

static volatile uint64_t sink;
static volatile sig_atomic_t wanted = 1;
static FILE *file;

__attribute__((noinline, noclone, aligned(64))) void burn(volatile uint64_t *to, uint64_t n)
{
	while (n--)
		*to += 1;
}

static void take_signal(int number)
{
	(void)number;
	wanted++;
}

static void tell_map(const void *code, int number)
{
	fprintf(file, "%llx %x made_%d_of_test\n", (unsigned long long)(uintptr_t)code, CODE_SIZE, number);
	fflush(file);
}

static void begin_dump(void)
{
	const struct {
		uint32_t magic, version, size, machine, pad, pid;
		uint64_t time, flags;
	} header = { 0x4a695444, 1, 40, 0, 0, (uint32_t)getpid(), 0, 0 };

	fwrite(&header, sizeof(header), 1, file);
	fflush(file);
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED)
		exit(1);
}

static void tell_dump(const void *code, int number)
{
	char name[32];
	struct {
		uint32_t id, size;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, address, code_size, index;
	} load = { .pid = (uint32_t)getpid(), .vma = (uintptr_t)code, .address = (uintptr_t)code,
		   .code_size = CODE_SIZE, .index = (uint64_t)number };
	size_t length = (size_t)snprintf(name, sizeof(name), "made_%d_of_test", number) + 1;

	load.size = (uint32_t)(sizeof(load) + length + CODE_SIZE);
	fwrite(&load, sizeof(load), 1, file);
	fwrite(name, length, 1, file);
	fwrite(code, CODE_SIZE, 1, file);
	fflush(file);
}

int main(int argc, char **argv)
{
	void (*made)(volatile uint64_t *, uint64_t);
	int is_dump = argc > 1 && strcmp(argv[1], "dump") == 0;
	char path[64], *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(code, (const void *)burn, CODE_SIZE);
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC) < 0)
		return 1;
	__builtin___clear_cache(code, code + CODE_SIZE);
	memcpy(&made, &code, sizeof(made));
	signal(SIGUSR1, take_signal);
	snprintf(path, sizeof(path), is_dump ? "jit-%d.dump" : "/tmp/perf-%d.map", getpid());
	file = fopen(path, "w+");
	if (!file)
		return 1;
	if (is_dump)
		begin_dump();
	for (int told = 0;;) {
		if (told < wanted) {
			told++;
			if (is_dump)
				tell_dump(code, told);
			else
				tell_map(code, told);
		}
		made(&sink, 20000);
	}
}
"""

NODE = """
function burn_of_test(n) {
	let sum = 0;
	for (let i = 0; i < n; i++)
		sum = (sum * 31 + i) % 1000003;
	return sum;
}
function caller_of_test(n) {
	return burn_of_test(n) + 1;
}
let total = 0;
for (;;)
	total += caller_of_test(100000 + total % 7);
"""

JAVA = """
public class Burn {
	static long burnOfTest(long n) {
		long sum = 0;
		for (long i = 0; i < n; i++)
			sum = (sum * 31 + i) % 1000003;
		return sum;
	}
	public static void main(String[] args) {
		long total = 0;
		while (total >= 0)
			total += burnOfTest(100000 + total % 7);
		System.out.println(total);
	}
}
"""


@pytest.fixture
def daemon(shared_perfmond, shared_cgroups):
    return profiling.start_daemon(shared_perfmond, rate=99,
                                  extra=f"jit = yes\ninclude = {shared_cgroups.label}/**\n")


@contextlib.contextmanager
def running(group, *command, **kwargs):
    """Removes its perf map: a process that is killed does not."""
    process = subprocess.Popen(command, preexec_fn=lambda: group.add(os.getpid()), **kwargs)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)


def rows(daemon, group, since="-1h"):
    """The innermost functions: {name: (module, reason why it is no name, samples)}."""
    found = ask(daemon, "/api/v1/profile/top", cgroup=group.label + "*", **{"from": str(since)})["rows"]
    return {row["name"]: (row["module"], row["missing"], row["self"]) for row in found if row["self"]}


def wait_for(daemon, group, name, since="-1h"):
    return until(lambda: rows(daemon, group, since).get(name), f"samples in {name}", 4 * PATIENCE)


@pytest.fixture
def maker(programs, tmp_path):
    return programs.make(MAKER, tmp_path / "maker")


@pytest.mark.parametrize("what", ["map", "dump"])
def test_a_program_tells_the_names_of_its_code(daemon, own_cgroup, maker, tmp_path, what):
    """Also where it puts other code in its place: what was sampled before keeps its name, and its callers are right."""
    group = own_cgroup.make(f"made-{what}")
    with running(group, maker, what, cwd=tmp_path) as process:
        module, missing, _ = wait_for(daemon, group, "made_1_of_test")
        assert module == "[jit]" and missing is None
        until(lambda: any(stack.endswith("main;made_1_of_test") for stack in folded(
            daemon, cgroup=group.label + "*", **{"from": "-1h"})), "its caller, once that has a table", 4 * PATIENCE)
        before = time.time()
        os.kill(process.pid, signal.SIGUSR1)
        wait_for(daemon, group, "made_2_of_test")
        # The samples until the file was looked at again may be either's.
        later = time.time() + 1
        until(lambda: ask(daemon, "/api/v1/profile/top")["to"] > later + 1, "samples of the second", 4 * PATIENCE)
        assert "made_1_of_test" not in rows(daemon, group, later)
        found = ask(daemon, "/api/v1/profile/top", cgroup=group.label + "*", to=str(before), **{"from": "-1h"})["rows"]
        assert not any(row["name"] == "made_2_of_test" for row in found)
        assert any(row["name"] == "made_1_of_test" for row in found)
        # Callers are in the program, which has a table, and nothing shows where its code is.
        text = str(ask(daemon, cgroup=group.label + "*", **{"from": "-1h"}))
        assert "[jit]+" not in text and "[anon]" not in text


@needs("mount-namespace")
def test_a_program_in_a_container(daemon, own_cgroup, maker):
    """With a /tmp and a pid of its own."""
    group = own_cgroup.make("inside")
    # The program is below /tmp.
    script = f"exec 3<{maker} && mount -t tmpfs tmpfs /tmp && exec /proc/self/fd/3 map"
    with running(group, "unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script):
        wait_for(daemon, group, "made_1_of_test")


def test_without_names_there_is_a_reason(daemon, own_cgroup, maker, tmp_path):
    """The file is another user's, as anybody may make one."""
    group = own_cgroup.make("nameless")
    with running(group, maker, "dump", cwd=tmp_path) as process:
        until(lambda: (tmp_path / f"jit-{process.pid}.dump").exists(), "its dump")
        os.chown(tmp_path / f"jit-{process.pid}.dump", 12345, 12345)
        module, missing, _ = wait_for(daemon, group, "[jit]")
        assert module == "[jit]"
        until(lambda: rows(daemon, group)["[jit]"][1] == "the process has no file of names for code that it makes, or "
              "none that can be read", "the reason", 4 * PATIENCE)
        assert missing


def test_it_is_off_by_default(perfmond, cgroups, maker):
    """No file is read, and the code has no name."""
    group = cgroups.make("off")
    daemon = profiling.start_daemon(perfmond, rate=99, extra=f"include = {cgroups.label}/**\n")
    with running(group, maker, "map"):
        module, missing, _ = wait_for(daemon, group, "[anon]")
        assert module == "[anon]" and missing == "code without a file"
        # A reload switches it on.
        extra = f"jit = yes\ninclude = {cgroups.label}/**\n[web]\nlisten = 127.0.0.1:0\n"
        daemon.reload(profiling.CONFIG.format(rate=99, memory="8MiB", extra=extra))
        wait_for(daemon, group, "made_1_of_test")


def shares(daemon, group, since):
    """Of the samples' weight: with a name, and with a whole stack."""
    answer = ask(daemon, cgroup=group.label + "*", **{"from": str(since)})
    found = rows(daemon, group, since)
    total = sum(weight for _, _, weight in found.values())
    named = sum(weight for _, missing, weight in found.values() if missing is None)
    return named / total, answer["stack_ends"]["whole"]


@needs("node")
def test_functions_of_node_have_names(daemon, own_cgroup, tmp_path):
    group = own_cgroup.make("node")
    (tmp_path / "burn.js").write_text(NODE, encoding="utf-8")
    with running(group, "node", "--perf-basic-prof", "--interpreted-frames-native-stack", "burn.js", cwd=tmp_path):
        until(lambda: any("burn_of_test" in name for name in rows(daemon, group)), "its name", 4 * PATIENCE)
        since = time.time()
        until(lambda: ask(daemon, "/api/v1/profile/top")["to"] > since + 3, "samples", 4 * PATIENCE)
        print("node: named, whole:", shares(daemon, group, since))
        stacks = folded(daemon, cgroup=group.label + "*", **{"from": str(since)})
        assert any("caller_of_test" in stack for stack in stacks), stacks


@pytest.mark.deep
@needs("javac", "jcmd")
def test_functions_of_java_have_names(daemon, own_cgroup, tmp_path):
    """When it is told to write them."""
    group = own_cgroup.make("java")
    (tmp_path / "Burn.java").write_text(JAVA, encoding="utf-8")
    subprocess.run(["javac", "Burn.java"], check=True, cwd=tmp_path)
    with running(group, "java", "-XX:+PreserveFramePointer", "-cp", tmp_path, "Burn") as process:
        wait_for(daemon, group, "[jit]")
        subprocess.run(["jcmd", str(process.pid), "Compiler.perfmap"], check=True)
        until(lambda: any("burnOfTest" in name for name in rows(daemon, group)), "its name", 8 * PATIENCE)
        since = time.time()
        until(lambda: ask(daemon, "/api/v1/profile/top")["to"] > since + 3, "samples", 4 * PATIENCE)
        print("java: named, whole:", shares(daemon, group, since))
