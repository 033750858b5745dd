/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The open events, and their values when counts were last added, as bytes (engine_ops save, restore).
 */

#include "counting/engine/perf/target.h"

void perf_save(const struct engine *engine, struct rewrite *out);
int perf_restore(struct engine *engine, struct unpack *in, struct totals_row *const *rows, size_t nr_rows,
		 struct stored_pool *stored);
