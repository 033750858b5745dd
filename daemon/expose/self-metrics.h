/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The daemon's figures about itself as metrics: one line of a table for each member of struct self.
 */

#include "expose/family.h"

struct self_metric {
	struct family family;
	size_t offset; /* of the uint64_t in struct self */
	bool nanoseconds;
	const char *label, *value; /* NULL: none. Lines of one family stand together. */
};

extern const struct self_metric self_metrics[];
extern const size_t self_metrics_size;
