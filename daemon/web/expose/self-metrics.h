/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The metrics that the daemon exposes about itself, perfmond_* and process_*: a table with one line for each shown
 * member of struct self_stats.
 */

#include "web/expose/family.h"

struct self_metric {
	struct family family;
	size_t offset;		   /* of the uint64_t in struct self_stats */
	bool nanoseconds;	   /* shown in seconds */
	const char *label, *value; /* NULL: no label. Lines of one family stand together. */
};

extern const struct self_metric self_metrics[];
extern const size_t self_metrics_size;
