/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a client would like to get: the Accept and Accept-Encoding of RFC 9110, with their q-values. Pure. Foreign
 * bytes: what can't be understood of a header is as good as not there, and nothing is refused for it.
 */

#include <stdbool.h>
#include <stddef.h>

struct media {
	const char *type;    /* "text/plain" */
	const char *version; /* what a range's version= has to be, where it has one; its other parameters are ignored */
};

/*
 * The number of the offer that header (or NULL: there is none) likes best: by q, then by how exactly it is named, then
 * as they are offered. The first where none is acceptable: that one is better than an error.
 */
size_t accept_media(const char *header, const struct media *offers, size_t nr);

/* Is gzip wanted, and no less than no coding at all? */
bool accept_gzip(const char *header);
