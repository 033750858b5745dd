/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Content negotiation: Accept and Accept-Encoding of RFC 9110, with their q-values. Pure. Headers are foreign bytes: an
 * element that cannot be parsed is ignored, and no request is refused for one.
 */

#include <stdbool.h>
#include <stddef.h>

#define MEDIA_PARAMETERS 2

struct media {
	const char *type; /* "text/plain" */
	/* The values that parameters of a media range must have, if it has them. A range with a version is of something
	 * else where there is none here. Other parameters are ignored. */
	struct {
		const char *name, *value;
	} parameters[MEDIA_PARAMETERS];
	bool needs_parameters; /* a range that names the type must have them */
};

/*
 * The index of the offer that the header (NULL: absent) prefers: by q, then by how specifically it is named, then by
 * the order of the offers. The first if none is acceptable: a response that the client may not understand is better
 * than an error.
 */
size_t accept_media(const char *header, const struct media *offers, size_t nr);

/* Is gzip acceptable, and not less than no coding at all? */
bool accept_gzip(const char *header);
