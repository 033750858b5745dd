/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The totals as bytes: a part of the image of a session (counting/session/session-image.h). While no row comes or goes,
 * only rows that have changed since the last image are written again.
 */

#include "base/util/pack.h"
#include "counting/totals/rows.h"

/* Numbers the totals' rows. */
void image_put_totals(struct rewrite *out, struct totals *totals);
/* totals are empty before. ret_rows: the rows by their numbers, in an array that the caller frees. -EBADMSG: they make
 * no sense; -ENOMEM. */
int image_get_totals(struct unpack *in, struct totals *totals, struct totals_row ***ret_rows, size_t *ret_nr);
