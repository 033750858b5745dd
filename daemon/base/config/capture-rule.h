/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The rule of a [capture "NAME"]: EVENT@CGROUP > NUMBER [for DURATION], with < as well. Pure.
 *
 * EVENT is an event that a group counts, as written there or by its name in metrics. CGROUP is a glob on labels; "cpu",
 * or no @ at all, stands for all CPUs together. NUMBER is per second, in the event's unit: of task-clock, it is CPUs.
 */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stdint.h>

struct capture_rule {
	char *event;
	char *cgroup; /* NULL: all CPUs together */
	bool below;   /* <, not > */
	double threshold;
	uint64_t duration; /* ns for which it has to hold; 0: an interval is enough */
};

/* -EINVAL with the sentence in why; -ENOMEM. */
int capture_rule_parse(struct capture_rule *ret, const char *text, struct reason *why);
void capture_rule_release(struct capture_rule *rule);
