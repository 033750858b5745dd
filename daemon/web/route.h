/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What is asked for and what is answered, apart from connections and HTTP's syntax.
 *
 * Routes are a const table of path, what may be asked of it, and the function that answers. Below /api/ a
 * query is taken strictly, since a filter that is not understood would go unnoticed, and errors are JSON;
 * elsewhere a query is ignored and errors are plain text.
 */

#include "web/web.h"

#include "util/buf.h"

struct answer {
	unsigned status;
	const char *type; /* Content-Type */
	struct buf body;
};

/*
 * Answers a request; what goes wrong is an answer too. The body is empty for want of memory only. With
 * `crowded`, too much is waiting to be sent already: what can be large is refused (503).
 */
void route_answer(struct answer *ret, const struct web_source *source, const char *method, const char *target,
		  bool crowded);

void answer_release(struct answer *answer);

/* The same for what is refused without being looked at: an error as it is to be put there. */
void route_refuse(struct answer *ret, const char *target, unsigned status, const char *sentence);
