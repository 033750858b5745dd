/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The letters behind an event: which parts of the count are excluded, and how the kernel schedules it.
 *
 *   u k h   user, kernel, hypervisor: with any of them given, the others are excluded
 *   G H     guest, host: with one of them given, the other is excluded
 *   I       excludes the time when a CPU is idle
 *   p       precise (up to three times); D pinned; e exclusive
 *
 * Without a letter nothing is excluded. The bits are those that perf(1) sets, down to its habit of excluding guests if
 * u or p is given without G and H.
 */

#include "base/util/buf.h"
#include "base/util/reason.h"

#include <linux/perf_event.h>

struct modifier {
	bool user, kernel, hv, guest, host, not_idle;
	bool pinned, exclusive;
	unsigned precise;
};

/* -EINVAL with the sentence in why: no letter, an unknown one, or one that is given twice. */
int modifier_parse(struct modifier *ret, const char *text, struct reason *why);

void modifier_apply(const struct modifier *modifier, struct perf_event_attr *attr);

/* Is any part of the count excluded? */
bool modifier_narrows(const struct modifier *modifier);

/* Appends the part of a metric's name that stands for it: "_user_kernel". */
void modifier_add_suffix(const struct modifier *modifier, struct buf *name);
