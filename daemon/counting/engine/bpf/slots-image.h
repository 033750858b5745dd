/* SPDX-License-Identifier: MIT */
#pragma once

/* engine_ops.save() and restore(): where the engine stands, and the ids of the files of its part in the kernel, which
 * counts on meanwhile. */

#include "counting/engine/bpf/target.h"

void bpf_save(const struct engine *engine, struct rewrite *out);
int bpf_restore(struct engine *engine, struct unpack *in, struct totals_row *const *rows, size_t nr_rows,
		struct stored_pool *stored);
