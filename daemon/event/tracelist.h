/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A list of tracepoints: lines "subsystem:name ID". tracefs, which has the ids, is root's alone, while opening a
 * tracepoint takes nothing but its id and CAP_PERFMON: root makes the list, and the daemon reads it.
 */

#include "util/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* A kernel with all modules has some thousand tracepoints, of about 40 bytes each. */
#define TRACELIST_MAX (4 * 1024 * 1024)

struct tracepoint {
	const char *subsystem, *name; /* both term_is_name() */
	uint64_t id;
};

void tracelist_add(struct buf *list, const char *subsystem, const char *name, uint64_t id);

/* Takes the next tracepoint from text, which is cut up in place; *cursor starts at its beginning. A line that is
 * none is skipped. False at the end. */
bool tracelist_next(char **cursor, struct tracepoint *ret);
