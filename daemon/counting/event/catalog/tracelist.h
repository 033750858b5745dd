/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A list of tracepoints: lines "subsystem:name ID". Only root may read the ids in tracefs, while opening a tracepoint
 * needs no more than its id and CAP_PERFMON. So root makes the list, and the daemon reads it.
 */

#include "base/util/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes of a list. A kernel with all modules has some thousand tracepoints, of about 40 bytes each. */
#define TRACELIST_MAX (4 * 1024 * 1024)

struct tracepoint {
	const char *subsystem, *name; /* both term_is_name() */
	uint64_t id;
};

void tracelist_add(struct buf *list, const char *subsystem, const char *name, uint64_t id);

/* Takes the next tracepoint from a text, which is cut up in place; *cursor starts at its beginning. Malformed lines are
 * skipped. False at the end. */
bool tracelist_next(char **cursor, struct tracepoint *ret);
