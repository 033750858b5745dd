/* SPDX-License-Identifier: MIT */

#include "web/expose/sieve.h"

#define SIEVE_STEPS 16000000U
#define SIEVE_STEPS_PER_BYTE 4

void sieve_init(struct sieve *sieve, const char *glob)
{
	sieve->on = glob;
	if (glob)
		glob_init(&sieve->glob, glob);
}

void sieve_release(struct sieve *sieve)
{
	if (sieve->on)
		glob_release(&sieve->glob);
}

bool sieve_is_exhausted(const struct sieve *sieve)
{
	return sieve->on && glob_steps(&sieve->glob) > SIEVE_STEPS + SIEVE_STEPS_PER_BYTE * glob_bytes(&sieve->glob);
}

bool sieve_admits_text(struct sieve *sieve, const char *text)
{
	return !sieve->on || glob_matches(&sieve->glob, text);
}

bool sieve_admits_event(struct sieve *sieve, const struct event *event)
{
	return sieve_admits_text(sieve, event->metric) || sieve_admits_text(sieve, event->text);
}
