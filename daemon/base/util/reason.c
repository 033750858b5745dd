/* SPDX-License-Identifier: MIT */

#include "base/util/reason.h"

#include <string.h>

int reason_set(struct reason *why, int r, const char *format, ...)
{
	va_list ap;

	if (!why)
		return r;

	va_start(ap, format);
	(void)vsnprintf(why->text, sizeof(why->text), format, ap);
	va_end(ap);
	return r;
}

int reason_prefix(struct reason *why, int r, const char *format, ...)
{
	struct reason old;
	va_list ap;
	size_t at;

	if (!why)
		return r;

	old = *why;
	va_start(ap, format);
	(void)vsnprintf(why->text, sizeof(why->text) - 2, format, ap);
	va_end(ap);

	at = strlen(why->text);
	memcpy(why->text + at, ": ", 3);
	at += 2;
	if (!memccpy(why->text + at, old.text, '\0', sizeof(why->text) - at))
		why->text[sizeof(why->text) - 1] = '\0';
	return r;
}
