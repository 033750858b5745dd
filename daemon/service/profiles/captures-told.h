/* SPDX-License-Identifier: MIT */
#pragma once

/* The part of the list of captures that the profiler does not know: the rules, and the values of each capture's
 * counter. The profiler writes the document of it, since values can be 150,000 numbers. */

#include "counting/alarm/capture-rules.h"
#include "counting/alarm/capture-values.h"
#include "profiler/protocol.h"

/* Texts are borrowed. -ENOMEM. */
int captures_told_make(struct told_captures *ret, const struct capture_rules *rules,
		       const struct capture_values_list *values);
void captures_told_release(struct told_captures *told);
