/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The data that the web room serves, as an interface: whoever owns the loop fills it in, so that the web does not know
 * the world.
 */

#include "base/util/buf.h"
#include "base/util/reason.h"
#include "counting/alarm/capture-values.h"
#include "counting/history/history.h"
#include "counting/snapshot/machine-info.h"
#include "counting/snapshot/snapshot.h"
#include "profiler/protocol.h"

struct web_source {
	/* A snapshot no older than a scrape may be, with a reference for the caller; negative errno. */
	int (*snapshot)(void *userdata, struct snapshot **ret);
	/* Takes the samples that are due, before profiles are asked for. */
	void (*update_profiles)(void *userdata);
	/* Appends the answer to a question about samples: see world_answer(). It may take long, and changes
	 * nothing, so that it can be called in a child (work-child.h). */
	int (*answer)(void *userdata, const struct profile_question *question, struct buf *out, struct reason *why);
	/* Appends the captures that there are, as a JSON object without rules and values: see world_list_captures(). It
	 * reads the disk, and is called in a child. -ENOMEM. */
	int (*captures)(void *userdata, struct buf *out);
	/* Number i of the rules that make captures; false after the last. */
	bool (*rule)(void *userdata, size_t i, struct capture_rule_info *ret);
	/* Is everything counted that should be? False, with the sentence in why: not yet. */
	bool (*ready)(void *userdata, struct reason *why);
	/* Called for each snapshot served. written: it was written for this response, and not found in the cache. */
	void (*scraped)(void *userdata, bool written);
	const struct history *history;		  /* borrowed */
	const struct capture_values_list *values; /* borrowed */
	const struct clock_steps *clock;	  /* borrowed */
	const struct machine_info *info;	  /* borrowed; current when a snapshot has been taken */
	struct web_stats *stats;		  /* borrowed; the web keeps them up to date */
	void *userdata;
};
