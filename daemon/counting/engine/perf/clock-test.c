/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/clock-test.h"

#include "base/host/privilege.h"
#include "base/util/cleanup.h"

#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Between a reading and the stop are hundreds of ns. A clock that does not move meanwhile, each of these times, is
 * lost. */
#define TRIES 3

static bool loses_once(int fd)
{
	uint64_t running, stopped;

	if (ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0 || read(fd, &running, sizeof(running)) != sizeof(running) ||
	    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0) < 0 || read(fd, &stopped, sizeof(stopped)) != sizeof(stopped))
		return false;
	return running == stopped;
}

bool clock_test_loses(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.disabled = 1,
		.exclude_kernel = 1, /* so that it needs no privilege; clocks count all time */
		.exclude_hv = 1,
	};
	_cleanup_(closep) int fd = privilege_open_event(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	for (size_t i = 0; i < TRIES; i++)
		if (fd < 0 || !loses_once(fd))
			return false;
	return true;
}
