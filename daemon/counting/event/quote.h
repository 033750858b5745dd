/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Single quotes in an event's text. They enclose characters that would be syntax: white space, commas, slashes, colons.
 * There are no escapes, and so no single quote inside. A quote that is not closed reaches to the end of the text.
 */

/* The first character of stop that is not quoted, or the end. */
char *quote_find(const char *text, const char *stop);

/* As strsep(3), but not at quoted characters. */
char *quote_sep(char **cursor, const char *stop);

/* Removes the quotes around a word, in place; NULL if there are other quotes than a pair around the whole. */
char *quote_strip(char *word);
