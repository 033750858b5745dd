/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The data that the web room serves, as an interface: whoever owns the loop fills it in, so that the web does not know
 * the monitor.
 */

#include "snapshot/machine-info.h"
#include "snapshot/snapshot.h"
#include "util/reason.h"

struct web_source {
	/* A snapshot no older than a scrape may be, with a reference for the caller; negative errno. */
	int (*snapshot)(void *userdata, struct snapshot **ret);
	/* Is everything counted that should be? False, with the sentence in why: not yet. */
	bool (*ready)(void *userdata, struct reason *why);
	/* Called for each snapshot served. written: it was written for this response, and not found in the cache. */
	void (*scraped)(void *userdata, bool written);
	const struct machine_info *info; /* borrowed; current when a snapshot has been taken */
	struct web_stats *stats;	 /* borrowed; the web keeps them up to date */
	void *userdata;
};
