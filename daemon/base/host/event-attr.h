/* SPDX-License-Identifier: MIT */
#pragma once

/* perf_event_attr as of Linux 6.3, which has config3; the kernel headers of the build may be older. */

#include <linux/perf_event.h>
#include <stdint.h>

union event_attr {
	struct perf_event_attr attr;
	struct {
		uint8_t before[128]; /* PERF_ATTR_SIZE_VER7 */
		uint64_t config3;
	};
};
