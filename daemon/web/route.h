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

#include "util/blob.h"
#include "util/buf.h"

/* What is known of a request; texts are as they came, and NULL where they did not. */
struct request_head {
	const char *method, *target;
	const char *accept, *accept_encoding;
	bool crowded; /* too much is waiting to be sent already: what can be large is refused (503) */
};

struct answer {
	unsigned status;
	const char *type;     /* Content-Type */
	const char *encoding; /* Content-Encoding, or NULL */
	const char *vary;     /* Vary, or NULL */
	struct buf body;      /* of this answer alone */
	struct blob *shared;  /* or, with a reference: one that others have too */
};

/* Answers a request; what goes wrong is an answer too. The body is empty for want of memory only. */
void route_answer(struct answer *ret, const struct web_source *source, const struct request_head *head);

void answer_release(struct answer *answer);

/* The same for what is refused without being looked at: an error as it is to be put there. */
void route_refuse(struct answer *ret, const char *target, unsigned status, const char *sentence);
