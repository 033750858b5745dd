/* SPDX-License-Identifier: MIT */

#include "said.h"

#include "count/count.h"
#include "util/log.h"

#include <stdlib.h>
#include <string.h>

bool said_is_news(struct said *said, const char *text, uint64_t now)
{
	bool known = said->text && strcmp(said->text, text) == 0 && now - said->found < SAID_NS;

	said->found = now;
	if (known)
		return false;
	free(said->text);
	said->text = strdup(text);
	return true;
}

void said_log(struct said *said, int priority, const char *text)
{
	if (said_is_news(said, text, count_now()))
		log_line(priority, "%s", text);
}

void said_over(struct said *said, const char *text)
{
	if (said->text)
		log_notice("%s", text);
	said_release(said);
}

void said_release(struct said *said)
{
	free(said->text);
	said->text = NULL;
}
