/* SPDX-License-Identifier: MIT */

#include "base/util/log-once.h"

#include "base/util/clock.h"
#include "base/util/log.h"

#include <stdlib.h>
#include <string.h>

bool log_once_is_news(struct log_once *once, const char *text, uint64_t now)
{
	bool known = once->text && strcmp(once->text, text) == 0 && now - once->found < LOG_ONCE_NS;

	once->found = now;
	if (known)
		return false;
	free(once->text);
	once->text = strdup(text);
	return true;
}

void log_once_line(struct log_once *once, int priority, const char *text)
{
	if (log_once_is_news(once, text, clock_monotonic_ns()))
		log_line(priority, "%s", text);
}

void log_once_resolved(struct log_once *once, const char *text)
{
	if (once->text)
		log_notice("%s", text);
	log_once_release(once);
}

void log_once_release(struct log_once *once)
{
	free(once->text);
	once->text = NULL;
}
