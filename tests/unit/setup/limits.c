/* SPDX-License-Identifier: MIT */

#include "setup/limits.h"

#include "base/util/cleanup.h"
#include "setup/needs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define EVENTS_MAX 200000U

rlim_t limit_files(rlim_t nr)
{
	struct rlimit limit;
	rlim_t before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = nr;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

rlim_t next_file(void)
{
	int fd = dup(STDERR_FILENO);

	assert_true(fd >= 0);
	close(fd);
	return (rlim_t)fd;
}

size_t nr_open_files(void)
{
	_cleanup_(closedirp) DIR *dir = opendir("/proc/self/fd");
	size_t nr = 0;

	assert_non_null(dir);
	while (readdir(dir))
		nr++;
	return nr;
}

unsigned long queued_events_max(void)
{
	FILE *f = fopen("/proc/sys/fs/inotify/max_queued_events", "re");
	unsigned long max = 0;

	needs("inotify-overflow");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &max), 1);
	fclose(f);
	assert_in_range(max, 1, EVENTS_MAX);
	return max;
}
