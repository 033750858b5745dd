/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * After a takeover, rows that were carried over and are not counted now, or only in part: whether they are shown, and
 * which of their cells are measured.
 */

#include "counting/session/engines.h"

/* cpus: those that are counted; excluded: CPUs of which nothing is to be counted, or NULL. */
void decide_rows(struct totals *totals, const struct engines *engines, const struct cpulist *cpus,
		 const struct cpulist *excluded);
