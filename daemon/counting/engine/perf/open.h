/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The perf_event_open(2) call, and every error of it in words.
 */

#include "base/host/privilege.h"
#include "counting/event/event.h"
#include "counting/plan/plan.h"

/*
 * Opens the event on cpu, for all processes (cgroup_fd < 0) or for those of a cgroup; attr is the event's, as
 * the plan has settled it. group_fd is the leader's, or -1 for a leader, which is opened disabled:
 * perf_enable_group() starts the whole group at once when it is complete. Read format: GROUP, ID,
 * TOTAL_TIME_ENABLED, TOTAL_TIME_RUNNING. The fd is close-on-exec. Returns it, or negative errno; -EBADMSG
 * where the kernel does not take the event's filter.
 */
int perf_open(const struct event *event, const struct perf_event_attr *attr, int cpu, int cgroup_fd, int group_fd);

/* The same; on -EBADMSG *ret_refused is the event without the filter, for the caller to close. */
int perf_open_unfiltered(const struct event *event, const struct perf_event_attr *attr, int cpu, int cgroup_fd,
			 int group_fd, int *ret_refused);

/* Before Linux 6.6, arm's PMUs refuse a generic event with a PMU's type in the upper half of config (ENOENT). On the
 * CPUs of that PMU, which are the only ones it is opened on, the event is the same without: takes the type out of attr.
 * False: there is none. */
bool perf_attr_make_plain(struct perf_event_attr *attr, const struct event *event);

/* PERF_EVENT_IOC_ENABLE on a leader; negative errno. */
int perf_enable_group(int leader_fd);

/* Is the pinned group in error state (perf_event_open(2), "pinned"), because there were no counters for it? */
bool perf_is_in_error(int leader_fd);

/* Can the same call work later, because the PMU was busy, or files or memory were short? */
bool perf_open_may_recover(int error);

/* The state for an error (negative errno) of perf_open(), with a sentence that says what it means for this event and
 * what to do (perf_event_open(2), ERRORS). */
enum event_state perf_open_explain(int error, const struct event *event, enum scope scope, int cpu,
				   const struct privilege *privilege, struct reason *why);
