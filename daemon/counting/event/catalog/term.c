/* SPDX-License-Identifier: MIT */

#include "counting/event/catalog/term.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

void term_list_release(struct term_list *list)
{
	free(list->terms);
	free(list->text);
	*list = (struct term_list){};
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

bool term_is_name(const char *name)
{
	if (!*name)
		return false;
	while (is_name_char(*name))
		name++;
	return !*name;
}

/* The character behind the value at p: ',' or the end; NULL if a quote is not closed. */
static char *end_of_value(char *p)
{
	if (*p != '\'')
		return p + strcspn(p, ",");
	p = strchr(p + 1, '\'');
	return p ? p + 1 : NULL;
}

static int cut_value(char **cursor, struct term *term, struct reason *why)
{
	char *value = *cursor, *end = end_of_value(value);

	if (!end || (*end && *end != ','))
		return reason_set(why, -EINVAL, "the quotes of term '%.60s' don't end its value", term->name);
	if (end == value)
		return reason_set(why, -EINVAL, "term '%.60s' has no value after its '='", term->name);

	*cursor = end;
	if (*value == '\'') {
		value++;
		end[-1] = '\0';
	}
	term->value = value;
	return 0;
}

/* Parses the term at *cursor and leaves *cursor at its end, which is a ',' or the end of the text. */
static int cut_term(char **cursor, struct term *ret, struct reason *why)
{
	char *p = *cursor;
	struct term term = { .name = p };

	while (is_name_char(*p))
		p++;
	if (*p && *p != '=' && *p != ',')
		return reason_set(why, -EINVAL, "a term is NAME or NAME=NUMBER, not '%.60s'", term.name);
	if (p == term.name)
		return reason_set(why, -EINVAL, "there is an empty term");

	if (*p == '=') {
		int r;

		*p++ = '\0';
		r = cut_value(&p, &term, why);
		if (r < 0)
			return r;
	}
	*cursor = p;
	*ret = term;
	return 0;
}

static size_t count_commas(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == ',';
	return n;
}

int term_list_parse(struct term_list *ret, const char *text, struct reason *why)
{
	_cleanup_(term_list_release) struct term_list list = {};
	char *p;

	list.text = p = strdup(text);
	list.terms = calloc(count_commas(text) + 1, sizeof(*list.terms));
	if (!list.text || !list.terms)
		return -ENOMEM;

	for (bool more = *p; more;) {
		int r = cut_term(&p, &list.terms[list.nr], why);

		if (r < 0)
			return r;
		list.nr++;
		more = *p;
		*p++ = '\0';
	}

	*ret = steal_struct(list);
	return 0;
}

const struct term *term_list_find(const struct term_list *list, const char *name)
{
	for (size_t i = list->nr; i > 0; i--)
		if (list->terms[i - 1].value && strcmp(list->terms[i - 1].name, name) == 0)
			return &list->terms[i - 1];
	return NULL;
}
