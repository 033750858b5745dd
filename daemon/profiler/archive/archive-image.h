/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An archive as bytes, from which the profiler of the next daemon goes on: the samples, all that they refer to, and
 * how they came about (struct archive_past).
 *
 * An image is of one boot of one machine, because times, kernel addresses and inodes are, and of one choice of cgroups
 * that may be seen. It may be cut short, or be anything at all; it is then refused as a whole. Its entries are numbered
 * in an order in which each refers to earlier ones only: so there are no circles, and nothing is read twice. They are
 * put into the new archive as those of new samples are, within its limit.
 */

#include "base/util/buf.h"
#include "base/util/reason.h"
#include "profiler/archive/archive-gaps.h"
#include "profiler/archive/archive.h"

/* How the samples came about. */
struct archive_past {
	uint64_t since;	  /* CLOCK_MONOTONIC ns: nothing was sampled before; 0: nothing was sampled */
	uint64_t drained; /* … all samples are there until then; 0: the same */
	struct archive_gaps gaps;
	uint64_t samples, lost, unfollowed, unsampled, throttled; /* counters, as of struct profiler_stats */
};

/* An image is taken up where these are the same as where it was written. */
struct archive_origin {
	const char *boot_id; /* "" (not known) is that of no image */
	const char *visible; /* which cgroups may be seen, as a text */
};

/* Appends the image to out, which is empty; the oldest samples are left out where it would have more than max bytes.
 * -ENOMEM; -EFBIG: not even the newest have room; -ETIME: it takes until after the deadline, CLOCK_MONOTONIC ns. Out is
 * of no use then. */
int archive_write(const struct archive *archive, const struct archive_past *past, const struct archive_origin *origin,
		  size_t max, uint64_t deadline, struct buf *out);

/* The archive in its new limit: if that has no room for all, the oldest samples are left out. -ENOMEM; or, with the
 * sentence in why: -EPROTO: it is no image, one of another version, or damaged; -ESTALE: it is of another origin. */
int archive_read(struct archive **ret, struct archive_past *ret_past, const struct archive_origin *origin,
		 const void *bytes, size_t len, size_t limit, struct reason *why);
