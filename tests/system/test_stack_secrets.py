# SPDX-License-Identifier: MIT
"""Nothing of a sampled program's stack and registers is kept: neither in the profiler's memory, in its rings and in its
children, nor in answers, captures and files. A daemon that does not erase shows that the test would find it.

The rings can't be seen from outside on newer kernels. So a library that the daemon is started with looks at them from
within, and at the memory of each child when it is forked.
"""

import gzip
import re
import secrets
import subprocess
import time
from pathlib import Path

import pytest

from harness import until
from machine import needs

MASK = 0x5A3C69F00FA5C396

LIBRARY = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static volatile const uint64_t mask = 0x5a3c69f00fa5c396;
static uint64_t masked; /* the secret stays out of this library */

static int keeps(void)
{
	return getenv("KEEPS") != NULL;
}

static int is_profiler(void)
{
	char name[16];

	prctl(PR_GET_NAME, name);
	return strcmp(name, "perfmond-sample") == 0;
}

static unsigned long count(uintptr_t from, uintptr_t to)
{
	unsigned long nr = 0;

	for (const volatile uint64_t *at = (uint64_t *)from; at < (uint64_t *)to; at++)
		nr += (*at ^ mask) == masked;
	return nr;
}

/* How often the secret is in the mappings, which are rings or all that can be written to. */
static void tell(const char *file, int rings)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long nr = 0, seen = 0, from, to;
	char line[512], path[256], text[64];
	int fd;

	masked = strtoull(getenv("MASKED"), NULL, 16);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx", &from, &to) != 2 || !strstr(line, " rw"))
			continue;
		if (!rings != !strstr(line, "[perf_event]"))
			continue;
		nr += count(from, to);
		seen++;
	}
	fclose(maps);
	snprintf(path, sizeof(path), "%s/%s", getenv("TOLD"), file);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	write(fd, text, (size_t)snprintf(text, sizeof(text), "%lu %lu\n", nr, seen));
	close(fd);
}

pid_t fork(void)
{
	REAL(fork);
	pid_t pid = real();

	if (pid == 0 && is_profiler())
		tell("children", 0);
	return pid;
}

int epoll_wait(int fd, struct epoll_event *events, int nr, int timeout)
{
	REAL(epoll_wait);
	char path[256];

	snprintf(path, sizeof(path), "%s/asked", getenv("TOLD"));
	if (is_profiler() && unlink(path) == 0)
		tell("rings", 1);
	return real(fd, events, nr, timeout);
}

void explicit_bzero(void *memory, size_t size)
{
	REAL(explicit_bzero);

	if (!keeps())
		real(memory, size);
}

void __explicit_bzero_chk(void *memory, size_t size, size_t room)
{
	(void)room;
	explicit_bzero(memory, size);
}

int madvise(void *memory, size_t size, int advice)
{
	REAL(madvise);

	return keeps() && advice == MADV_DONTNEED ? 0 : real(memory, size, advice);
}

/* Rings are turned in a thread. */
int ioctl(int fd, unsigned long request, ...)
{
	REAL(ioctl);
	va_list ap;
	void *argument;

	va_start(ap, request);
	argument = va_arg(ap, void *);
	va_end(ap);
	errno = EBUSY;
	return keeps() && gettid() != getpid() ? -1 : real(fd, request, argument);
}
"""

# The secret comes by its input, and stands on its stack and in registers that functions save.
PROGRAM = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static __attribute__((noinline)) void spin(uint64_t secret, uint64_t *frame)
{
#ifdef __x86_64__
	__asm__ volatile("mov %0, %%rbx; mov %0, %%r12; mov %0, %%r13; mov %0, %%r14; mov %0, %%r15\n"
			 "mov %%rbp, %%r8; mov %1, %%rbp; mov $2000000, %%ecx; 1: dec %%ecx; jnz 1b; mov %%r8, %%rbp"
			 : : "a"(secret), "d"(frame)
			 : "rbx", "r12", "r13", "r14", "r15", "r8", "rcx", "cc", "memory");
#else
	for (volatile int i = 0; i < 2000000; i++)
		;
#endif
}

/* By its frame pointer, the secret is a return address too, behind one that looks as the kernel's mark of its own part
 * of a call chain (PERF_CONTEXT_KERNEL). */
static __attribute__((noinline)) void deeper(uint64_t secret, int depth)
{
	volatile uint64_t words[32];

	for (int i = 0; i < 32; i++)
		words[i] = secret;
	words[0] = (uintptr_t)&words[2];
	words[1] = (uint64_t)-128;
	if (depth)
		deeper(secret, depth - 1);
	else
		spin(secret, (uint64_t *)words);
	words[0] = 0;
}

int main(void)
{
	char line[64];
	uint64_t secret = strtoull(fgets(line, sizeof(line), stdin), NULL, 16);
	time_t end = time(NULL) + 3;

	while (time(NULL) < end)
		deeper(secret, 8);
	return 0;
}
"""

CONFIG = """
[daemon]
interval = 200ms
[cgroup]
engine = perf
groups = tasks
include = {label}
[profiles]
rate = {rate}
include = {label}
[capture "busy"]
when = task-clock@{label} > 0.01 for 400ms
before = 10s
after = 1s
save = yes
"""

pytestmark = [needs("cc", "perf-cpus"), pytest.mark.once]


def counts(memory, secret):
    return memory.count(secret.to_bytes(8, "little"))


def in_memory(pid, secret):
    """Times that it is in all that can be read of the process."""
    found = 0
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            start, end = (int(number, 16) for number in line.split()[0].split("-"))
            if line.split()[1][0] != "r" or start >= 1 << 63:
                continue
            for at in range(start, end, 1 << 20):
                try:
                    memory.seek(at)
                    found += counts(memory.read(min(end - at, 1 << 20)), secret)
                except OSError:  # a ring
                    break
    return found


class Told:
    """The secret, and what the library finds of it."""

    def __init__(self, programs, folder, keeps):
        self.secret = secrets.randbits(62) | 1 << 63 | 1
        self.folder = folder / "told"
        self.folder.mkdir()
        self.env = {"LD_PRELOAD": str(programs.make(LIBRARY, folder / "told.so", ("-shared", "-fPIC", "-w"))),
                    "TOLD": str(self.folder), "MASKED": f"{self.secret ^ MASK:x}"} | ({"KEEPS": "1"} if keeps else {})

    def children(self):
        """Times that it was in children, and how many there were."""
        lines = (self.folder / "children").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[0]) for line in lines), len(lines)

    def rings(self):
        """Times that it is in rings."""
        told = self.folder / "rings"
        told.unlink(missing_ok=True)
        (self.folder / "asked").touch()
        nr, seen = until(lambda: told.exists() and told.read_text(encoding="ascii"), "rings are looked at").split()
        assert int(seen) > 0
        return int(nr)


def run(program, group, told):
    """The program, which ends soon."""
    process = subprocess.Popen([program], stdin=subprocess.PIPE, text=True)
    group.add(process.pid)
    process.stdin.write(f"{told.secret:x}\n")
    process.stdin.close()
    return process


def sample(perfmond, cgroups, programs, state, told, rate):
    """(a daemon that has sampled the program, which has ended; how it is run again)."""
    group = cgroups.make("unwary")
    daemon = perfmond(CONFIG.format(label=group.label, rate=rate), env={**told.env, "STATE_DIRECTORY": str(state)})
    program = programs.make(PROGRAM, told.folder / "unwary", ("-O2", "-fomit-frame-pointer"))
    run(program, group, told).wait()
    return daemon, lambda: run(program, group, told)


def test_nothing_is_kept(perfmond, cgroups, programs, tmp_path, state):
    told = Told(programs, tmp_path, keeps=False)
    daemon, again = sample(perfmond, cgroups, programs, state, told, rate=99)
    until(lambda: again().wait() == 0 and daemon.metrics().value("perfmond_profile_stacks_total", end="whole") > 20,
          "there were samples")
    until(lambda: daemon.metrics().value("perfmond_profile_waiting_bytes") == 0 and
          "unwary" in daemon.get("/api/v1/profile", params={"format": "folded"}).text, "all is unwound", 120)
    last = time.monotonic()
    until(lambda: told.rings() + in_memory(daemon.profiler, told.secret) == 0, "it is nowhere")
    print(f"it is nowhere after {time.monotonic() - last:.2f} s")
    documents = [daemon.get("/api/v1/profile", params={"format": form}).content for form in ("json", "folded", "pprof")]
    documents[2] = gzip.decompress(documents[2])
    # The stop saves those that still wait for names.
    captures = until(lambda: daemon.json("/api/v1/captures")["captures"], "there is a capture")
    documents.append(daemon.get(f"/api/v1/captures/{captures[0]['id']}", params={"format": "json"}).content)
    core = re.search(r"Max core file size +(\S+) +(\S+)", Path(f"/proc/{daemon.profiler}/limits").read_text())
    assert core.groups() == ("1", "1")  # no program gets a dump either
    daemon.stop()
    saved = [path for path in state.rglob("*") if path.is_file()]
    assert any("captures" in path.parts for path in saved) and any(path.parent == state for path in saved)
    documents += [gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in saved]
    for document in documents:
        assert counts(document, told.secret) == 0
        assert str(told.secret).encode() not in document and f"{told.secret:x}".encode() not in document
    found, children = told.children()
    assert children > 3 and found == 0


def test_what_is_not_erased_is_found(perfmond, cgroups, programs, tmp_path, state):
    told = Told(programs, tmp_path, keeps=True)
    # A ring holds 15 samples: 3 s of a CPU that is busy with others then.
    daemon, again = sample(perfmond, cgroups, programs, state, told, rate=5)
    # One that was told of its samples has read them, and they are left.
    until(lambda: told.rings() > 0 or again().wait() != 0, "it is in a ring")
    until(lambda: in_memory(daemon.profiler, told.secret) > 0, "it is in memory")

    def is_in_child():
        """An answer's child has it if the turn before the fork had samples: others' stacks are written over it."""
        process = again()
        while process.poll() is None and told.children()[0] == 0:
            daemon.get("/api/v1/profile/top")
        process.wait()
        return told.children()[0] > 0
    until(is_in_child, "it is in a child")
