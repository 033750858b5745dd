/* SPDX-License-Identifier: MIT */

#include "counting/event/modifier.h"

#include <errno.h>

/* The highest level of the kernel: no skid at all (perf_event_open(2), precise_ip). */
#define PRECISE_MAX 3

static bool *find_flag(struct modifier *modifier, char letter)
{
	switch (letter) {
	case 'u':
		return &modifier->user;
	case 'k':
		return &modifier->kernel;
	case 'h':
		return &modifier->hv;
	case 'G':
		return &modifier->guest;
	case 'H':
		return &modifier->host;
	case 'I':
		return &modifier->not_idle;
	case 'D':
		return &modifier->pinned;
	case 'e':
		return &modifier->exclusive;
	default:
		return NULL;
	}
}

int modifier_parse(struct modifier *ret, const char *text, struct reason *why)
{
	struct modifier modifier = {};

	if (!*text)
		return reason_set(why, -EINVAL, "a modifier is missing after the ':'");

	for (; *text; text++) {
		bool *flag = find_flag(&modifier, *text);

		if (*text == 'p') {
			if (++modifier.precise > PRECISE_MAX)
				return reason_set(why, -EINVAL, "modifier 'p' can be given %d times at most",
						  PRECISE_MAX);
			continue;
		}
		if (!flag)
			return reason_set(why, -EINVAL, "unknown modifier '%c'; there are u, k, h, G, H, I, D, p and e",
					  *text);
		if (*flag)
			return reason_set(why, -EINVAL, "modifier '%c' is given twice", *text);
		*flag = true;
	}
	*ret = modifier;
	return 0;
}

void modifier_apply(const struct modifier *modifier, struct perf_event_attr *attr)
{
	if (modifier->user || modifier->kernel || modifier->hv) {
		attr->exclude_user = !modifier->user;
		attr->exclude_kernel = !modifier->kernel;
		attr->exclude_hv = !modifier->hv;
	}
	if (modifier->guest || modifier->host) {
		attr->exclude_guest = !modifier->guest;
		attr->exclude_host = !modifier->host;
	} else if (modifier->user || modifier->precise) {
		attr->exclude_guest = 1;
	}
	attr->exclude_idle = modifier->not_idle;
	attr->pinned = modifier->pinned;
	attr->exclusive = modifier->exclusive;
	attr->precise_ip = modifier->precise & PRECISE_MAX;
}

bool modifier_narrows(const struct modifier *modifier)
{
	return modifier->user || modifier->kernel || modifier->hv || modifier->guest || modifier->host;
}

void modifier_add_suffix(const struct modifier *modifier, struct buf *name)
{
	if (modifier->user)
		buf_str(name, "_user");
	if (modifier->kernel)
		buf_str(name, "_kernel");
	if (modifier->hv)
		buf_str(name, "_hv");
	if (modifier->guest)
		buf_str(name, "_guest");
	if (modifier->host)
		buf_str(name, "_host");
}
