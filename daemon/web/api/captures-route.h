/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The document of /api/v1/captures: the profiler's list of captures, to which the daemon adds its own part: the rules,
 * and the values of each capture's counter.
 */

#include "base/util/blob.h"
#include "web/api/response.h"
#include "web/api/source.h"

/* list: of the profiler (PROFILE_FORM_CAPTURES). -ENOMEM, also if it is not JSON. */
int captures_route_respond(struct response *ret, const struct web_source *source, const struct blob *list);
