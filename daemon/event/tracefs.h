/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Tracepoints: the names and ids below tracefs's events/ (perf_event_open(2), PERF_TYPE_TRACEPOINT).
 *
 * A root is the folder where tracefs is mounted, or, for whom that is not readable, a list of what is in it
 * (tracelist.h), which is a plain file.
 */

#include "util/reason.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Finds where tracefs is mounted, from a mountinfo file (proc(5); "/proc/self/mountinfo" but in tests):
 * a tracefs mount, else "tracing" below a debugfs mount. A string to be freed, without a slash at its
 * end; -ENOENT with the sentence in why where there is none, -ENOMEM, or what reading the file said.
 */
int tracefs_find(const char *mountinfo, char **ret, struct reason *why);

/* May this process look into the tracefs at root? */
bool tracefs_is_readable(const char *root);

/*
 * Saves a list of all tracepoints at root in a file, which can then be a root for others, and takes the place of an
 * older one. How many they are; negative errno with the sentence in why: what reading or writing said, -ENOENT for
 * a tracefs without any.
 */
int tracefs_save(const char *root, const char *file, struct reason *why);

/*
 * The id of subsystem:name at root (NULL: there is none). Negative errno with the
 * sentence in why: -ENOENT there is no such tracepoint; -EACCES tracefs is not readable by this user
 * (it is root's alone by default); -ENODEV not mounted; -EBADMSG the id file holds no number. What else
 * reading says stays as it is.
 */
int tracefs_id(const char *root, const char *subsystem, const char *name, uint64_t *ret,
	       struct reason *why);

/* Calls each() for every tracepoint that has an id, in the order of their names; for none where tracefs
 * can't be read or root is NULL. each() returning other than 0 ends the walk with that value; -ENOMEM. */
int tracefs_walk(const char *root, int (*each)(void *userdata, const char *subsystem, const char *name),
		 void *userdata);
