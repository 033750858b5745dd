/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The past as text: JSON with rates, and OpenMetrics with the totals and their timestamps, which
 * `promtool tsdb create-blocks-from openmetrics` reads.
 *
 * Both write a copy that is complete (past.h), and return -ENOMEM with out released on failure.
 */

#include "web/expose/past.h"

/* Of PAST_RATES. */
int past_text_json(struct buf *out, struct past *past);
/* Of PAST_TOTALS. */
int past_text_openmetrics(struct buf *out, struct past *past);

/* The whole past in OpenMetrics, piece by piece, without a bound on its points. 0; -ENOMEM; or what `write` has
 * returned, if that is negative. */
int past_text_write(const struct history *history, const struct snapshot *snapshot,
		    int (*write)(void *userdata, const char *data, size_t n), void *userdata);
