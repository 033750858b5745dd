/* SPDX-License-Identifier: MIT */

#include "count/lifeline.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

/* Over less, the time between two readings says nothing. */
#define STILL_NS 10000000U

void lifeline_open(struct lifeline *ret, int cpu, uint64_t now)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
	};
	long fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	*ret = (struct lifeline){
		.cpu = cpu,
		.fd = (int)fd,
		.read_at = now,
		.broken = fd < 0 && errno == ENODEV,
	};
}

void lifeline_close(struct lifeline *lifeline)
{
	lifeline->fd = safe_close(lifeline->fd);
}

void lifeline_check(struct lifeline *lifeline, uint64_t now)
{
	uint64_t values[2]; /* the count, which is 0, and the time */

	if (lifeline->fd < 0 || now < lifeline->read_at + STILL_NS ||
	    read(lifeline->fd, values, sizeof(values)) != sizeof(values))
		return;
	lifeline->broken |= values[1] == lifeline->enabled;
	lifeline->enabled = values[1];
	lifeline->read_at = now;
}
