/* SPDX-License-Identifier: MIT */
#pragma once

/* A request as routes see it, and the response that they fill in. */

#include "base/util/blob.h"
#include "base/util/buf.h"

#include <stdbool.h>

/* The parts of a request that decide about its response. Texts are borrowed, as they were received; NULL: absent. */
struct request_head {
	const char *method, *target;
	const char *accept, *accept_encoding;
	bool crowded; /* too many bytes wait to be sent: responses that can be large are refused (503) */
};

#define RESPONSE_TEXT_TYPE "text/plain; charset=utf-8"
#define RESPONSE_JSON_TYPE "application/json"

struct response {
	unsigned status;
	const char *type;     /* Content-Type */
	const char *encoding; /* Content-Encoding, or NULL */
	const char *vary;     /* Vary, or NULL */
	/* Retry-After, in seconds, if not that of all errors with its status; or NULL */
	const char *retry_after;
	struct buf body;     /* of this response alone; empty where shared is set */
	struct blob *shared; /* a reference to a body from the cache, or NULL */
};

/* The Retry-After of an error that will be over in a moment. */
#define RESPONSE_RETRY_SOON "1"

/* Makes of a response an error below that path, in place of what it was. The sentence may contain foreign text. */
void response_set_error(struct response *ret, const char *path, unsigned status, const char *sentence);
void response_release(struct response *response);
