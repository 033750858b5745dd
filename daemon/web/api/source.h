/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The data that the web room serves, as an interface: whoever owns the loop fills it in, so that the web does not know
 * the world.
 */

#include "base/util/buf.h"
#include "base/util/reason.h"
#include "counting/history/history.h"
#include "counting/snapshot/machine-info.h"
#include "counting/snapshot/snapshot.h"
#include "profiler/capture/capture-list.h"
#include "profiler/protocol.h"

struct web_source {
	/* A snapshot no older than a scrape may be, with a reference for the caller; negative errno. */
	int (*snapshot)(void *userdata, struct snapshot **ret);
	/* Takes the samples that are due, before profiles are asked for. */
	void (*update_profiles)(void *userdata);
	/* Appends the answer to a question about samples: see world_answer(). It may take long, and only reads what is
	 * in memory, so that it can be called in a child (answer-child.h). */
	int (*answer)(void *userdata, const struct profile_question *question, struct buf *out, struct reason *why);
	/* The captures that there are. The rules are the caller's, to be freed; -ENOMEM. */
	int (*captures)(void *userdata, const struct captures **ret, struct capture_rule_info **ret_rules,
			size_t *ret_nr);
	/* The captures on disk, the newest first, to be freed; and the file of one, for pprof: -ENOENT, there is none.
	 * Both read the disk, and are called in a child. */
	int (*saved_captures)(void *userdata, struct capture_saved **ret, size_t *ret_nr);
	int (*saved_capture)(void *userdata, const char *id, struct buf *ret);
	/* Is everything counted that should be? False, with the sentence in why: not yet. */
	bool (*ready)(void *userdata, struct reason *why);
	/* Called for each snapshot served. written: it was written for this response, and not found in the cache. */
	void (*scraped)(void *userdata, bool written);
	const struct history *history;	 /* borrowed */
	const struct clock_steps *clock; /* borrowed */
	const struct machine_info *info; /* borrowed; current when a snapshot has been taken */
	struct web_stats *stats;	 /* borrowed; the web keeps them up to date */
	void *userdata;
};
