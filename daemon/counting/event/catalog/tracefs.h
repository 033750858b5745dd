/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tracepoints: the names and ids below tracefs's events/ (perf_event_open(2), PERF_TYPE_TRACEPOINT).
 *
 * A root is the folder where tracefs is mounted, or a plain file with a list of its tracepoints (tracelist.h), for a
 * process that may not read tracefs.
 */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Finds where tracefs is mounted, from a mountinfo file (proc(5); "/proc/self/mountinfo" but in tests): a tracefs
 * mount, else "tracing" below a debugfs mount. A string to be freed, without a slash at its end. -ENOENT if there is
 * none; the error of reading the file; both with the sentence in why. -ENOMEM.
 */
int tracefs_find(const char *mountinfo, char **ret, struct reason *why);

/* May this process read the tracefs at root? */
bool tracefs_is_readable(const char *root);

/*
 * Saves a list of all tracepoints at root in a file, which can then be the root of other processes; an older one is
 * replaced. Returns the number of tracepoints; negative errno with the sentence in why: the error of reading or
 * writing, -ENOENT for a tracefs without tracepoints.
 */
int tracefs_save(const char *root, const char *file, struct reason *why);

/*
 * The id of subsystem:name at root (NULL: not mounted). Negative errno with the sentence in why: -ENOENT there is no
 * such tracepoint; -EACCES this user may not read tracefs (by default only root may); -ENODEV not mounted; -EBADMSG the
 * id file holds no number; else the error of reading.
 */
int tracefs_id(const char *root, const char *subsystem, const char *name, uint64_t *ret, struct reason *why);

/* Calls each() for every tracepoint that has an id, in the order of their names; for none if tracefs can't be read or
 * root is NULL. If each() returns other than 0, the walk ends with that value; -ENOMEM. */
int tracefs_walk(const char *root, int (*each)(void *userdata, const char *subsystem, const char *name),
		 void *userdata);
