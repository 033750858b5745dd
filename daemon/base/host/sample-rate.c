/* SPDX-License-Identifier: MIT */

#include "base/host/sample-rate.h"

#include "base/util/file.h"
#include "base/util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Where the kernel can hang: the share of its limit, and the lowest limit, which is ten samples in each tick of a
 * kernel of 1000 Hz. */
#define FAR_BELOW 10
#define LOWEST_LIMIT 10000

static int read_sysctl(const char *procfs, const char *name, char **ret)
{
	char path[PATH_MAX];
	int r;

	(void)snprintf(path, sizeof(path), "%s/sys/kernel/%s", procfs, name);
	r = read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, ret);
	if (r == 0)
		(*ret)[strcspn(*ret, "\n")] = '\0';
	return r;
}

/* "6.17.5-arch1-1". Later ones of 6.16 have the fault as well. */
static bool can_hang(const char *release)
{
	unsigned version = 0, patchlevel = 0, sublevel = 0;

	if (sscanf(release, "%u.%u.%u", &version, &patchlevel, &sublevel) < 2 || version != 6)
		return false;
	return patchlevel == 16 || (patchlevel == 17 && sublevel < 8);
}

void sample_rate_read(struct sample_rate *ret, const char *procfs)
{
	_cleanup_(freep) char *max = NULL, *release = NULL;

	*ret = (struct sample_rate){ .max = UINT64_MAX };
	if (read_sysctl(procfs, "perf_event_max_sample_rate", &max) == 0 &&
	    (parse_u64(max, &ret->max) < 0 || !ret->max))
		ret->max = UINT64_MAX;
	if (read_sysctl(procfs, "osrelease", &release) < 0)
		return;
	(void)snprintf(ret->release, sizeof(ret->release), "%s", release);
	ret->hangs = can_hang(release);
}

uint64_t sample_rate_limit(const struct sample_rate *rate)
{
	return rate->hangs && rate->max != UINT64_MAX ? rate->max / FAR_BELOW : rate->max;
}

int sample_rate_check(const struct sample_rate *rate, struct reason *why)
{
	if (!rate->hangs || rate->max >= LOWEST_LIMIT)
		return 0;
	return reason_set(why, -EOPNOTSUPP,
			  "Linux %s can hang when it pauses cpu-clock, which it may since "
			  "kernel.perf_event_max_sample_rate is %" PRIu64 ": set it to 100000, or use Linux 6.17.8 or "
			  "later",
			  rate->release, rate->max);
}
