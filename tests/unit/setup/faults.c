/* SPDX-License-Identifier: MIT */

#include "setup/faults.h"

#include "setup/no-memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

struct faults faults;

/* perf_event_open(2), ERRORS; what read(2) and ioctl(2) of an event, and open(2), can say. */
static const int open_errors[] = { E2BIG,  EACCES, EBADF,  EBUSY,      EFAULT,	  EINTR, EINVAL, EMFILE, ENFILE, ENODEV,
				   ENOENT, ENOSPC, ENOSYS, EOPNOTSUPP, EOVERFLOW, EPERM, ESRCH,	 ENOMEM, 0 };
static const int read_errors[] = { EFAULT, EIO, ENOSPC, EINTR, EAGAIN, FAKE_EMPTY, FAKE_SHORT, 0 };
static const int ioctl_errors[] = { EBADF, EFAULT, EINVAL, ENOMEM, ENOTTY, 0 };
static const int directory_errors[] = { EMFILE, ENFILE, ENOENT, ENODEV, EACCES, ENOMEM, 0 };
static const int memory_errors[] = { ENOMEM, 0 };

static const struct {
	const char *name;
	const int *errors;
} kinds[FAULT_KINDS] = {
	[FAKE_OPEN] = { "perf_event_open", open_errors },
	[FAKE_READ] = { "read", read_errors },
	[FAKE_ID] = { "PERF_EVENT_IOC_ID", ioctl_errors },
	[FAKE_ENABLE] = { "PERF_EVENT_IOC_ENABLE", ioctl_errors },
	[FAKE_FILTER] = { "PERF_EVENT_IOC_SET_FILTER", ioctl_errors },
	[FAULT_DIRECTORY] = { "open of a directory", directory_errors },
	[FAULT_MEMORY] = { "memory", memory_errors },
};

const int *fault_errors(int kind)
{
	return kinds[kind].errors;
}

const char *fault_name(int kind)
{
	return kinds[kind].name;
}

/* Steele, Vigna: splitmix64. */
uint64_t faults_random(uint64_t *seed, uint64_t n)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15U;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return (z ^ (z >> 31)) % n;
}

static int random_error(int kind)
{
	size_t nr = 0;

	while (kinds[kind].errors[nr])
		nr++;
	return kinds[kind].errors[faults_random(&faults.seed, nr)];
}

static bool is_chosen(int kind)
{
	if (!faults.on)
		return false;
	if (faults.one_in)
		return faults_random(&faults.seed, faults.one_in) == 0;
	return faults.kind == kind && faults.left >= 0 && faults.left-- == 0;
}

/* 0, or what this call fails with. */
static int ask(int kind)
{
	int error;

	if (!is_chosen(kind))
		return 0;
	error = faults.one_in ? random_error(kind) : faults.error;
	faults.has_failed = true;
	faults.nodev |= kind == FAKE_OPEN && error == ENODEV;
	faults.nr_failed[kind]++;
	return error;
}

static int ask_of_perf(enum fake_call call)
{
	return ask((int)call);
}

static bool ask_of_memory(void)
{
	return ask(FAULT_MEMORY) != 0;
}

void faults_begin(int kind, long left, int error)
{
	faults = (struct faults){ .on = true, .kind = kind, .left = left, .error = error };
	fake_perf.fault = ask_of_perf;
	memory_fails = ask_of_memory;
}

void faults_begin_random(uint64_t seed, unsigned one_in)
{
	faults = (struct faults){ .on = true, .one_in = one_in, .seed = seed };
	fake_perf.fault = ask_of_perf;
	memory_fails = ask_of_memory;
}

void faults_end(void)
{
	faults.on = false;
}

/* --- the C library */

int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
	int error = flags & O_DIRECTORY ? ask(FAULT_DIRECTORY) : 0;
	mode_t mode;
	va_list ap;

	if (error) {
		errno = error;
		return -1;
	}
	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	return __real_open(path, flags, mode);
}
