/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the log knows of a matter, so that what is found again and again is said once: it is news where it is another
 * sentence than the last, and where that one was not found for a while.
 */

#include <stdbool.h>
#include <stdint.h>

#define SAID_NS 60000000000U

struct said {
	char *text;	/* NULL: nothing has been said */
	uint64_t found; /* CLOCK_MONOTONIC ns, the last time */
};

bool said_is_news(struct said *said, const char *text, uint64_t now);
/* Logs it where it is news. */
void said_log(struct said *said, int priority, const char *text);
/* What was wrong, if anything was, is over. */
void said_over(struct said *said, const char *text);
void said_release(struct said *said);
