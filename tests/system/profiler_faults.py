# SPDX-License-Identifier: MIT
"""Faults of the profiler, its keeper and the daemon at points that a test names: a library that the daemon is started
with takes the place of some functions of the C library in all three.

A point is PROCESS.CALL, and a file of that name arms it, once. PROCESS is the name that the process has given itself.
The calls, K and L being numbers of enum profiler_message:

    received.K                  the process is killed when it has received the message, and before it looks at it
    stopped.K                   it is stopped then (SIGSTOP)
    sending.K, sent.K           it is killed before, and after, it sends a message
    sending.K.L, sent.K.L       the same, if L is what it has received since it has sent the last one
    forked                      it is killed as soon as it has a child for an answer or a capture
    hanging                     that child is stopped
    large                       before it sends a message, it takes 300 MiB of memory
    memfd, work-memfd           memfd_create(2) fails: ENOMEM; of a child's work, or any other
    fork, work-fork             so does fork(2): EAGAIN
"""

import os
import subprocess
from pathlib import Path

from harness import until

KEEPER, PROFILER, DAEMON = "perfmond-keeper", "perfmond-sample", "perfmond"

SETTINGS, CGROUPS, QUESTION, CANCEL, KEEP, _, STOP, STATE, ANSWER, REFUSAL, _, ARCHIVE = range(12)

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define PROTOCOL 0x50664d /* of any version */
#define PING 5

static int last = -1; /* the message that was received last, if none was sent since */
static bool is_work;  /* the next child works out an answer, or saves a capture */

__attribute__((format(printf, 1, 2))) static bool is_armed(const char *format, ...)
{
	char name[16], call[64], path[PATH_MAX];
	va_list ap;

	va_start(ap, format);
	vsnprintf(call, sizeof(call), format, ap);
	va_end(ap);
	prctl(PR_GET_NAME, name);
	snprintf(path, sizeof(path), "%s/%s.%s", getenv("FAULTS"), name, call);
	return unlink(path) == 0;
}

/* The kind of a message between daemon and profiler, or -1. */
static int kind_of(const struct msghdr *packet)
{
	uint32_t words[2];

	if (packet->msg_iovlen != 2 || packet->msg_iov[0].iov_len != 32)
		return -1;
	memcpy(words, packet->msg_iov[0].iov_base, sizeof(words));
	return words[0] >> 8 == PROTOCOL ? (int)words[1] : -1;
}

static void die_at(const char *when, int kind)
{
	if (is_armed("%s.%d", when, kind) || (last >= 0 && is_armed("%s.%d.%d", when, kind, last)))
		raise(SIGKILL);
}

ssize_t sendmsg(int fd, const struct msghdr *packet, int flags)
{
	REAL(sendmsg);
	int kind = kind_of(packet);
	ssize_t n;

	if (kind >= 0 && is_armed("large"))
		mmap(NULL, 300 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (kind >= 0)
		die_at("sending", kind);
	n = real(fd, packet, flags);
	if (kind >= 0) {
		die_at("sent", kind);
		last = -1;
	}
	return n;
}

ssize_t recvmsg(int fd, struct msghdr *packet, int flags)
{
	REAL(recvmsg);
	ssize_t n = real(fd, packet, flags);
	int kind = n > 0 ? kind_of(packet) : -1;

	if (kind < 0 || kind == PING)
		return n;
	if (is_armed("received.%d", kind))
		raise(SIGKILL);
	if (is_armed("stopped.%d", kind))
		raise(SIGSTOP);
	last = kind;
	return n;
}

int memfd_create(const char *name, unsigned flags)
{
	REAL(memfd_create);

	is_work = strcmp(name, "perfmond-work") == 0;
	if (!is_armed(is_work ? "work-memfd" : "memfd"))
		return real(name, flags);
	errno = ENOMEM;
	return -1;
}

pid_t fork(void)
{
	REAL(fork);
	bool is_of_work = is_work;
	pid_t pid;

	is_work = false;
	if (is_armed(is_of_work ? "work-fork" : "fork")) {
		errno = EAGAIN;
		return -1;
	}
	pid = real();
	if (is_of_work && pid == 0 && is_armed("hanging")) {
		/* As the child does it next. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		raise(SIGSTOP);
	}
	if (is_of_work && pid > 0 && is_armed("forked"))
		raise(SIGKILL);
	return pid;
}
"""


class Faults:
    """The library, for the env of a daemon."""

    def __init__(self, programs, folder):
        self.folder = folder / "faults"
        self.folder.mkdir()
        (folder / "faults.so").unlink(missing_ok=True)
        library = programs.make(SOURCE, folder / "faults.so", ("-shared", "-fPIC"))
        # A sanitizer wants to be first.
        asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
        self.env = {"LD_PRELOAD": str(library), "FAULTS": str(self.folder), "ASAN_OPTIONS": asan}

    def path(self, point, process=PROFILER):
        return self.folder / f"{process}.{point}"

    def arm(self, point, process=PROFILER):
        self.path(point, process).touch()

    def wait(self, point, process=PROFILER):
        """Until the process has come to it."""
        until(lambda: not self.path(point, process).exists(), f"{process} has come to {point}")
