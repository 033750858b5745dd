/* SPDX-License-Identifier: MIT */
#pragma once

/* The rows of all CPUs of a snapshot summed into one, which has ROW_ALL_CPUS as its CPU. */

#include "counting/snapshot/snapshot.h"

/* Makes the table with the sum; without CPUs, it has no row. It is zeroed before, and borrows the columns. On -ENOMEM,
 * it is to be released too. */
int snapshot_sum(struct snapshot_table *sums, const struct snapshot_table *from);
void snapshot_sum_release(struct snapshot_table *sums);
