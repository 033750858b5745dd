/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From a request to its response, apart from connections and the syntax of HTTP.
 *
 * Routes are a const table of paths, with the query parameters that each takes and the function that fills in its
 * response. Some need an answer of the profiler first: the request becomes a question, and the response is made when
 * the answer is there. Others are written from a snapshot, which takes long: unless the cache has it, the request
 * becomes a rendering, and the response is made when that is done.
 *
 * Below /api/, errors are JSON. There and at /metrics an unknown or malformed parameter is an error, since a filter
 * that is ignored would go unnoticed. Elsewhere errors are plain text and a query is ignored.
 */

#include "web/api/rendering.h"
#include "web/api/request-target.h"
#include "web/api/response.h"
#include "web/api/source.h"

/* A question to the profiler, and the texts that it borrows. */
struct route_question {
	struct profile_question question;
	char *path;
	struct parameters parameters;
};

void route_question_release(struct route_question *question);

enum route_next {
	ROUTE_RESPONDS, /* there is a response */
	ROUTE_ASKS, /* the profiler has to be asked, *ret_question; route_answer() makes the response of its answer */
	ROUTE_RENDERS, /* *ret_rendering, a reference, has to be run; route_rendered() makes the response of it */
};

/* Fills in the response to a request. Errors are responses too. Only when out of memory there is no body. */
enum route_next route_respond(struct response *ret, const struct web_source *source, struct response_cache *cache,
			      const struct request_head *head, struct route_question *ret_question,
			      struct rendering **ret_rendering);

/* An answer as web_answered_t has it, or the error of ask(). */
struct route_answer {
	int error;
	struct blob *document;
	const char *why;
};

/* Fills in the response to a request for which route_respond() has returned ROUTE_ASKS. It does not take long. */
void route_answer(struct response *ret, const struct web_source *source, const struct request_head *head,
		  const struct route_answer *answer);

/* The same for ROUTE_RENDERS, when the rendering is done. Several requests can share one. */
void route_rendered(struct response *ret, const struct web_source *source, struct rendering *rendering);

/* Other methods than GET and HEAD are refused. */
bool route_reads_only(const char *method);
