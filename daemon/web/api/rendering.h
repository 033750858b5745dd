/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The body of a response that takes long to write, as a piece of work for a thread: it is written from a snapshot,
 * which is immutable, or from a copy of the past, which is made on the loop before. Only rendering_run() is called in
 * the thread. All else is done on the loop, before and after it: references are not atomic.
 */

#include "web/api/request-target.h"
#include "web/api/response.h"
#include "web/expose/past.h"
#include "web/expose/response-cache.h"

/* Bytes of a body before it is compressed. Longer ones are refused. */
#define RENDERING_MAX (16 * 1024 * 1024)

/* Writes into out. Negative errno with out released. */
typedef int (*rendering_writer)(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query);
typedef int (*rendering_past_writer)(struct buf *out, struct past *past);

struct rendering {
	unsigned refs;
	char *path;		   /* of the request */
	char *key;		   /* of the response in the cache; NULL: it is not kept there */
	const char *type;	   /* Content-Type */
	bool is_scrape;		   /* it is told to the source (struct web_source, scraped()) */
	struct snapshot *snapshot; /* a reference; NULL: it only tells what is waited for */
	struct blob *plain;	   /* a reference: the same in plain, which only has to be compressed; or NULL */
	enum response_coding coding;
	rendering_writer write;
	struct past *past; /* owned: the response is written from it, by write_past(); or NULL */
	rendering_past_writer write_past;
	struct expose_query query; /* borrows from the parameters */
	struct parameters parameters;
	/* The result: */
	bool is_done, is_told; /* is_told: one response has counted as written for it */
	int error;
	struct blob *body; /* a reference; NULL: an error */
};

/* The same response, if it is of the same snapshot. */
bool rendering_equals(const struct rendering *a, const struct rendering *b);

/* Copies, on the loop and for a few milliseconds, what is not immutable. 1: there is more to do, later; 0: it can be
 * run; negative: error says so, and there is nothing to run. */
int rendering_prepare(struct rendering *rendering);

/* Writes and compresses the body. error is -EFBIG: it would be longer than RENDERING_MAX. */
void rendering_run(struct rendering *rendering);

struct rendering *rendering_ref(struct rendering *rendering);
struct rendering *rendering_unref(struct rendering *rendering);
DEFINE_CLEANUP(struct rendering *, rendering_unref)
