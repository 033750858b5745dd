/* SPDX-License-Identifier: MIT */
#pragma once

/* The document of /api/v1/captures: the rules that make captures, the captures that there are in memory, and
 * those on disk. Pure. */

#include "base/util/buf.h"
#include "profiler/capture/captures.h"

struct expose_captures {
	const struct captures *captures;
	const struct capture_rule_info *rules;
	size_t nr_rules;
	const struct capture_saved *files; /* on disk */
	size_t nr_files;
};

/* Appends to `out`; -ENOMEM with out released. */
int expose_captures_json(struct buf *out, const struct expose_captures *what);
