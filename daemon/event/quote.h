/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Single quotes in an event's text. They hold what would be taken for syntax otherwise: white space, commas,
 * slashes, colons. Inside there are no escapes, and so no single quote. A quote that is not closed reaches to the
 * end of the text.
 */

/* The first character that is one of stop and not quoted, or the end. */
char *quote_find(const char *text, const char *stop);

/* As strsep(3), for which quoted characters are none of stop. */
char *quote_sep(char **cursor, const char *stop);

/* Takes the quotes off a word, in place; NULL where there are others than a pair around the whole. */
char *quote_strip(char *word);
