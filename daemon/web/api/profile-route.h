/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The routes of profiles: /api/v1/profile, /top and /heat below it, /debug/pprof/NAME for each event, and
 * /api/v1/captures/ID for each capture. Their parameters become a question to the profiler, and are checked like those
 * of other routes below /api/: one that is not understood is an error. The profiler's document is the response.
 */

#include "base/util/blob.h"
#include "profiler/protocol.h"
#include "web/api/request-target.h"
#include "web/api/response.h"

/* The event's name follows, or "profile" for cpu-clock. */
#define PROFILE_PPROF_PATH "/debug/pprof/"
/* The capture's id follows. */
#define PROFILE_CAPTURE_PATH "/api/v1/captures/"

enum profile_route {
	PROFILE_ROUTE_NONE,
	PROFILE_ROUTE_TREE,
	PROFILE_ROUTE_TOP,
	PROFILE_ROUTE_HEAT,
	PROFILE_ROUTE_PPROF,
	PROFILE_ROUTE_CAPTURE,
	PROFILE_ROUTE_CAPTURES, /* the list */
};

/* Makes a question of a request for that path. It borrows texts from path and from the parameters, which are the
 * caller's to release. -EINVAL with the sentence in why; -ENOMEM. */
int profile_route_question(struct profile_question *ret, struct parameters *ret_parameters, const char *target,
			   const char *path, enum profile_route route, const struct clock_steps *clock,
			   struct reason *why);

/* Fills in the type, the encoding and the body: a reference to the document. */
void profile_route_respond(struct response *ret, const struct profile_question *question, struct blob *document);
