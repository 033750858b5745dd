/* SPDX-License-Identifier: MIT */
#pragma once

/* The layout of the maps: of the BPF program, and of the daemon that reads them. */

#include <linux/types.h>

struct credit_cell {
	__u64 switches;
};
