# SPDX-License-Identifier: MIT
"""Profiles on kernels that lack what newer ones have, as the daemon sees them: a library in front of the C library
refuses it, as those kernels do. (Debian's own 6.1 runs in the guest: tests/guest/test_profile.py.)"""

import os
import subprocess

import pytest

from harness import until
from machine import needs
from profiling import start_daemon, wait_for_names

# KERNEL is 508 for Linux 5.8. What is refused is written to REFUSED, a character each time.
OLD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FORMAT_LOST (1 << 4)
#define PROCMAP_QUERY_OF_PROCFS (('f' << 8) | 17)

static int is_before(int version)
{
	return atoi(getenv("KERNEL")) < version;
}

static int refuse(char what, int error)
{
	int fd = open(getenv("REFUSED"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	(void)!write(fd, &what, 1);
	close(fd);
	errno = error;
	return -1;
}

long syscall(long number, ...)
{
	static long (*real)(long, ...);
	const struct perf_event_attr *attr;
	long args[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		args[i] = va_arg(ap, long);
	va_end(ap);
	attr = (const void *)args[0];
	if (number == SYS_perf_event_open && is_before(600) && attr->read_format & FORMAT_LOST)
		return refuse('l', EINVAL);
	if (number == SYS_perf_event_open && is_before(512) && attr->build_id)
		return refuse('b', EINVAL);
	if (!real)
		real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	return real(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

int ioctl(int fd, unsigned long request, ...)
{
	static int (*real)(int, unsigned long, ...);
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	if ((request & 0xffff) == PROCMAP_QUERY_OF_PROCFS && is_before(611))
		return refuse('q', ENOTTY);
	if (!real)
		real = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
	return real(fd, request, arg);
}
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("old")
    (folder / "old.c").write_text(OLD)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "old.so", folder / "old.c", "-ldl"], check=True)
    return folder / "old.so"


DEEP = [pytest.param(kernel, refused, marks=pytest.mark.deep)
        for kernel, refused in (("512", "lq"), ("600", "q"), ("611", ""))]


@needs("cc")
@pytest.mark.parametrize("kernel, refused", [("508", "blq"), *DEEP])
def test_functions_have_names_on_old_kernels(perfmond, cgroups, burner, library, tmp_path, kernel, refused):
    """Of programs that ran before, whose mappings are asked for, and of those that come later, whose mappings the
    kernel tells of: with build ids or without."""
    before, later = cgroups.make("before"), cgroups.make("later")
    burner("burn-before", before)
    # A sanitizer wants to be first.
    asan = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
    env = {"LD_PRELOAD": str(library), "KERNEL": kernel, "ASAN_OPTIONS": asan, "REFUSED": str(tmp_path / "refused")}
    # Naming has little CPU time, which others on this machine, such as compilers, would need.
    daemon = start_daemon(perfmond, extra=f"include = {cgroups.label}/**\n", env=env)
    burner("burn-later", later)
    for group in (before, later):
        stacks = wait_for_names(daemon, group, 50)
        assert any("warm_function_of_test" in stack for stack in stacks), stacks
    told = set((tmp_path / "refused").read_text()) if refused else set()
    # A kernel that has no such ioctl(2) for real is asked once, too.
    assert told == set(refused)
    assert not [problem for problem in daemon.json("/api/v1/status")["problems"] if "profile" in problem]
    samples = daemon.metrics().value("perfmond_profile_samples_total")
    until(lambda: daemon.metrics().value("perfmond_profile_samples_total") > samples + 100, "more samples")
