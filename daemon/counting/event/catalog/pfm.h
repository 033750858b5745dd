/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Events by the names in the makers' manuals of CPUs ("INST_RETIRED:ANY_P"), which libpfm4 knows:
 *
 *   [PMU::]EVENT[:UNIT-MASK …][:ATTRIBUTE[=VALUE] …]
 *
 * in upper or lower case, with '.' or ':' between the parts (but a ':' has to come before a '=', which would end a
 * label otherwise). PMU is libpfm's name of the PMU ("skx", "rapl"). Without one, libpfm finds the kind of PMU that the
 * event belongs to, core or uncore, and all PMUs of that kind which have the event count it: all memory controllers,
 * both kinds of cores of a hybrid machine.
 *
 * libpfm examines the machine on its first call: CPUID or /proc/cpuinfo, /sys/bus/event_source (which is no parameter
 * here) and its environment variables LIBPFM_*, see libpfm(3). On a CPU that it does not know there are no such events.
 * Its state lives as long as the process.
 *
 * pfm.c implements this, or pfm-none.c, without any events, if configure found no libpfm or was called with
 * --without-libpfm.
 */

#include "base/util/reason.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>

struct pfm_encoding {
	/* type, config, config1, config2, exclude_*, precise_ip, pinned, exclusive. Nothing is excluded unless the text
	 * asks for it. */
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
 * The encodings of the text, one for each PMU. -ENOENT, without a sentence, if libpfm has no event of that name on this
 * machine. With the sentence in why: -ENODEV if its PMU is missing in this machine, its kernel or libpfm; -EINVAL if
 * the text can't be right. -ENOMEM.
 */
int pfm_encode(struct pfm_encoding_list *ret, const char *text, struct reason *why);

/* The end of a sentence ("; …") on a name that looks like one of libpfm's and is none, or "". */
void pfm_hint(struct reason *ret, const char *text);

/* Calls each() for every event with each unit mask that is sufficient alone, written as in a config. If each() returns
 * other than 0, the walk ends with that value; -ENOMEM. */
int pfm_walk(int (*each)(void *userdata, const char *name, const struct pfm_encoding *encoding), void *userdata);
