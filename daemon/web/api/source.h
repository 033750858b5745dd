/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The data that the web room serves, as an interface: whoever owns the loop fills it in, so that the web does not know
 * the world.
 *
 * Most of it is there when it is asked for. Answers about samples are not: the profiler works them out, one at a time,
 * and the web has them later.
 */

#include "base/util/blob.h"
#include "base/util/reason.h"
#include "counting/history/history.h"
#include "counting/snapshot/machine-info.h"
#include "counting/snapshot/snapshot.h"
#include "profiler/protocol.h"

/*
 * The answer to a question. error 0: the document, which is borrowed for the call (take a reference). Or negative errno
 * with the sentence in why: -EINVAL and -E2BIG: the question is wrong; -ENOENT: there is no such event or capture;
 * -EAGAIN: the profiler has ended, and is being started again; others: it can't be answered.
 */
typedef void (*web_answered_t)(void *asker, int error, struct blob *document, const char *why);

struct web_source {
	/* A snapshot no older than a scrape may be, with a reference for the caller; negative errno. */
	int (*snapshot)(void *userdata, struct snapshot **ret);
	/*
	 * Puts a question to the profiler, which works at one at a time. answered() is called once, later, on the loop,
	 * and never from within ask(); after cancel() it is not called. The question is borrowed for the call. Negative
	 * errno with the sentence in why: there will be no answer. -EAGAIN: there is no profiler right now, and it is
	 * being started again.
	 */
	int (*ask)(void *userdata, const struct profile_question *question, web_answered_t answered, void *asker,
		   struct reason *why);
	/* The answer to the question that the profiler works at is not wanted any more: the next one may be put. */
	void (*cancel)(void *userdata);
	/* Why some events are not sampled although they should be; "": nothing is wrong. */
	const char *(*no_profiles)(void *userdata);
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
