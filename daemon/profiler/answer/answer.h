/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The answer to a question (profiler/protocol.h), as the document that was asked for. It only reads memory, and may
 * take long. The samples are those of the profiler or of a capture.
 */

#include "base/util/buf.h"
#include "base/util/reason.h"
#include "profiler/answer/query.h"

/* Has what profile_new() makes of the samples. Its errors are those of the answer; others than -ENOMEM and -E2BIG come
 * with the sentence in why. */
struct answer_samples {
	int (*ask)(const void *userdata, const struct profile_query *query, struct profile **ret,
		   struct profile_measure *ret_measure, struct reason *why);
	const void *userdata;
	const struct clock_steps *clock; /* that may remember more than the question's; its last note is not used */
};

/* Appends to out. Errors come with the sentence in why: -EINVAL: the stretch has its end before its beginning; -E2BIG:
 * the globs take too long; -ENOMEM; and those of ask(). */
int answer_question(struct buf *out, const struct profile_question *question, const struct answer_samples *samples,
		    struct reason *why);
