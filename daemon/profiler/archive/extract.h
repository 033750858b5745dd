/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A part of an archive as an archive of its own: the samples of one event, of a cgroup and all below it, in a stretch
 * of time. They are copied a few at a time, as they come into the archive, so that what is dropped there later is not
 * missing. Names that come later still are taken over at last.
 */

#include "profiler/archive/archive.h"

struct extract {
	const char *event; /* the archive's name of it */
	const char *finer; /* that of the same event at a higher rate, or NULL; … */
	/* … it takes the place of the former's samples in this time, CLOCK_MONOTONIC ns. 0: never; UINT64_MAX: it goes
	 * on. */
	uint64_t finer_from, finer_to;
	const char *cgroup; /* label; NULL: all samples */
	const char *as;	    /* the event's name in the copy */
	uint64_t from, to;  /* CLOCK_MONOTONIC ns: [from, to) */

	/* Up to where the archive was looked at: the age of a segment, and a place in it; at first 0. */
	uint32_t age, at;
};

/* Copies the samples that are there, for about budget ns. 1: there are more; 0: all were looked at; -ENOMEM. If `to`
 * has no room for all, the oldest in it go. */
int extract_copy(struct extract *extract, struct archive *to, const struct archive *from, uint64_t budget);

/* Takes over the names of frames that had none when they were copied; returns how many may still get one. */
size_t extract_names(struct archive *to, const struct archive *from);

/* Is a cgroup, by its label, another one or below it? Without the other (NULL), it always is. */
bool extract_is_below(const char *label, const char *other);
