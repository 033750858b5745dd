/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Events by the names in the makers' manuals of CPUs ("INST_RETIRED:ANY_P"), which libpfm4 knows:
 *
 *   [PMU::]EVENT[:UNIT-MASK …][:ATTRIBUTE[=VALUE] …]
 *
 * in any case of letters, with '.' for ':' where one likes (but a ':' has to come before a '=', which else ends
 * a label). PMU is libpfm's name for it ("skx", "rapl"). Where none is given, libpfm says which kind of PMU the
 * event belongs to, core or uncore, and all PMUs of that kind count it that have it: all memory controllers, both
 * kinds of cores of a hybrid machine.
 *
 * libpfm looks at the machine when it is first asked: CPUID or /proc/cpuinfo, /sys/bus/event_source (which is no
 * parameter here) and its environment variables LIBPFM_*, see libpfm(3). On a CPU that it does not know there
 * are no such events. What it keeps stays for the life of the process; the catalogue of PMUs does not know it.
 *
 * pfm.c is behind this, or pfm-none.c, for which there are no such events, where configure was told so or found
 * no libpfm.
 */

#include "util/reason.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>

struct pfm_encoding {
	/* type, config, config1, config2, exclude_*, precise_ip, pinned, exclusive; only what the text leaves out
	 * is excluded. */
	struct perf_event_attr attr;
	const char *pmu; /* libpfm's name */
};

struct pfm_encoding_list {
	struct pfm_encoding *items;
	size_t nr;
};

static inline void pfm_encoding_list_release(struct pfm_encoding_list *list)
{
	free(list->items);
	*list = (struct pfm_encoding_list){};
}

bool pfm_is_built_in(void);

/*
 * What the text stands for, an encoding for each PMU. -ENOENT where this machine has no event of that name, or
 * there are none; with the sentence in why: -ENODEV where it is on a PMU that this machine, its kernel or libpfm
 * lacks, -EINVAL where it can't be right; -ENOMEM.
 */
int pfm_encode(struct pfm_encoding_list *ret, const char *text, struct reason *why);

/* What is to be said of a name that looks like one of these and is none ("; …"), or "". */
void pfm_hint(struct reason *ret, const char *text);

/* Calls each() for every event with each unit mask that it can have alone, as they can be written in a config.
 * each() returning other than 0 ends the walk with that value; -ENOMEM. */
int pfm_walk(int (*each)(void *userdata, const char *name, const struct pfm_encoding *encoding), void *userdata);
