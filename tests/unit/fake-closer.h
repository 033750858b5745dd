/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A closer that takes its time: what it was given is open until it is told to close it. A program that uses it is
 * linked with
 *
 *   -Wl,--wrap=closer_close -Wl,--wrap=closer_pending -Wl,--wrap=closer_pause -Wl,--wrap=closer_resume
 */

#include "util/closer.h"

struct closer {
	int fds[1024];
	size_t nr;
	unsigned paused, nr_pauses; /* now; ever */
};

extern struct closer slow;

void close_slow(void);
