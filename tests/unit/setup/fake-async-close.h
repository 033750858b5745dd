/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A closer that takes its time: what it was given is open until close_slow(). It takes the place of
 * util/async-close in each program that includes this header (tests/lib/list-sources).
 */

#include "base/util/async-close.h"

struct async_close {
	int fds[1024];
	size_t nr;
	unsigned paused, nr_pauses; /* now; ever */
};

extern struct async_close slow;

void close_slow(void);
