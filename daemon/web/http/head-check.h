/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Is the head of a request what a proxy in front of this server has read, too?
 *
 * Where the two disagree about where a request ends, a client can send requests past the checks of the proxy (request
 * smuggling, RFC 9112 section 11.2). So everything that servers read differently is refused: bodies (nothing here takes
 * one), several lengths or hosts, lines that do not end with CR LF, folded lines, NUL, and spaces before a colon.
 *
 * libmicrohttpd up to 0.9.76 accepts all of these, and parses the head in place: the request line, names and values are
 * parts of one buffer. The bytes between two parts are what stood between them, or NUL in place of it. Later versions
 * refuse the same by themselves (HEAD_STRICT), and the layout of their buffer is not relied on.
 */

#include <microhttpd.h>
#include <stdbool.h>

/* The options of MHD_start_daemon() with which later versions do so. */
#if MHD_VERSION >= 0x00097701
#define HEAD_STRICT MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1,
#else
#define HEAD_STRICT
#endif

/* The request line, as libmicrohttpd passes it. */
struct request_line {
	const char *method, *version; /* parts of the buffer */
	const char *target;	      /* a copy, as it was received, up to a NUL */
};

/* The sentence that says why the request is refused, or NULL. Without takes_body a request may only have an empty
 * body. */
const char *head_check(struct MHD_Connection *connection, const struct request_line *line, bool takes_body);
