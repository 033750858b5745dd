/* SPDX-License-Identifier: MIT */

#include "counting/session/cgroup-status.h"

const char *cgroup_status_name(enum cgroup_status status)
{
	static const char *const names[_CGROUP_STATUS_MAX] = {
		[CGROUP_WAITING] = "waiting",	[CGROUP_COUNTED] = "counted",	[CGROUP_EXCLUDED] = "excluded",
		[CGROUP_OVER_MAX] = "over_max", [CGROUP_OVER_FDS] = "over_fds", [CGROUP_FAILED] = "failed",
	};

	return names[status];
}
