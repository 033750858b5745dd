/* SPDX-License-Identifier: MIT */
#pragma once

/* Logs a recurring message once, and again when it changes or was absent for LOG_ONCE_NS. One struct is for one matter;
 * a zeroed one has logged nothing. */

#include <stdbool.h>
#include <stdint.h>

#define LOG_ONCE_NS 60000000000U

struct log_once {
	char *text;	/* the last message; NULL: none */
	uint64_t found; /* CLOCK_MONOTONIC ns, when it last occurred */
};

/* Has the message to be logged? Notes that it occurred. now: CLOCK_MONOTONIC ns. */
bool log_once_is_news(struct log_once *once, const char *text, uint64_t now);
/* Logs the message if it is news. */
void log_once_line(struct log_once *once, int priority, const char *text);
/* The matter is over: logs text if a message about it was logged. */
void log_once_resolved(struct log_once *once, const char *text);
void log_once_release(struct log_once *once);
