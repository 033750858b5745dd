/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The past (counting/history/history.h) as text: JSON with rates, and OpenMetrics with the totals and their timestamps,
 * which `promtool tsdb create-blocks-from openmetrics` reads.
 *
 * A query selects scopes, cgroups, events and a stretch of time. Rows and points are those of the last reading: nothing
 * is read for it. A snapshot says how CPUs are shown: as their sum where it aggregates, and where they are.
 */

#include "counting/history/history.h"
#include "web/expose/expose.h"

/* The most points of one answer: some tens of milliseconds of work, and some tens of megabytes. */
#define PAST_POINTS_MAX 200000U

/* 0; -ENOMEM, -E2BIG as of expose.h; -EOVERFLOW: more than PAST_POINTS_MAX; -EINVAL: from is later than to. */
int expose_past_json(struct buf *out, const struct history *history, const struct snapshot *snapshot,
		     const struct expose_query *query);
int expose_past_openmetrics(struct buf *out, const struct history *history, const struct snapshot *snapshot,
			    const struct expose_query *query);

/* The whole past in OpenMetrics, piece by piece, without a bound on its points. 0; -ENOMEM; or what `write` has
 * returned, if that is negative. */
int expose_past_write(const struct history *history, const struct snapshot *snapshot,
		      int (*write)(void *userdata, const char *data, size_t n), void *userdata);
