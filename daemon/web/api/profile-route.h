/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The routes of profiles: /api/v1/profile, /top and /heat below it, /debug/pprof/NAME for each event, and
 * /api/v1/captures/ID for each capture. They answer from memory, which can take long, so that a child does it
 * (work-child.h). Their parameters are checked like those of other routes below /api/: one that is not understood is
 * an error.
 */

#include "web/api/response.h"
#include "web/api/source.h"

/* The event's name follows, or "profile" for cpu-clock. */
#define PROFILE_PPROF_PATH "/debug/pprof/"
/* The capture's id follows. */
#define PROFILE_CAPTURE_PATH "/api/v1/captures/"

enum profile_route {
	PROFILE_ROUTE_TREE,
	PROFILE_ROUTE_TOP,
	PROFILE_ROUTE_HEAT,
	PROFILE_ROUTE_PPROF,
	PROFILE_ROUTE_CAPTURE,
};

/* Fills in the response, also if it is an error; -ENOMEM. path: of the request, for errors. */
int profile_route_respond(struct response *ret, const struct web_source *source, const struct request_head *head,
			  const char *path, enum profile_route route);
