/* SPDX-License-Identifier: MIT */

#include "counting/event/quote.h"

#include <stdbool.h>
#include <string.h>

char *quote_find(const char *text, const char *stop)
{
	bool quoted = false;

	for (; *text; text++) {
		if (*text == '\'')
			quoted = !quoted;
		else if (!quoted && strchr(stop, *text))
			break;
	}
	return (char *)text;
}

char *quote_sep(char **cursor, const char *stop)
{
	char *word = *cursor, *end;

	if (!word)
		return NULL;
	end = quote_find(word, stop);
	*cursor = *end ? end + 1 : NULL;
	*end = '\0';
	return word;
}

char *quote_strip(char *word)
{
	size_t length = strlen(word);

	if (length >= 2 && word[0] == '\'' && word[length - 1] == '\'') {
		word[length - 1] = '\0';
		word++;
	}
	return strchr(word, '\'') ? NULL : word;
}
