/* SPDX-License-Identifier: MIT */
#pragma once

/* Why a cgroup is counted or not; kept in struct cgroup's status. */
enum cgroup_status {
	CGROUP_WAITING, /* to be opened */
	CGROUP_COUNTED,
	CGROUP_EXCLUDED, /* [cgroup] include and exclude */
	CGROUP_OVER_MAX, /* [cgroup] max */
	CGROUP_OVER_FDS, /* RLIMIT_NOFILE */
	CGROUP_FAILED,	 /* the reason says */
	_CGROUP_STATUS_MAX,
};

const char *cgroup_status_name(enum cgroup_status status);
