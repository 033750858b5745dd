/* SPDX-License-Identifier: MIT */

#include "web/api/accept.h"

#include <string.h>
#include <strings.h>

#define SPACE " \t"

/* q in thousandths. NO_Q: malformed, or the header does not name it. */
#define NO_Q (-1)
#define FULL_Q 1000

/* A part of the header, with white space around it removed. */
struct word {
	const char *text;
	size_t len;
};

/* An element of the list: `text/plain;version=0.0.4;q=0.5`. */
struct element {
	struct word name;
	const char *parameters; /* from the first semicolon on, up to the end of the header */
	int q;
};

static bool word_is(const struct word *word, const char *text, size_t n)
{
	return word->len == n && strncasecmp(word->text, text, n) == 0;
}

static bool word_is_text(const struct word *word, const char *text)
{
	return word_is(word, text, strlen(text));
}

static struct word word_trim(const char *text, size_t n)
{
	while (n && strchr(SPACE, text[n - 1]))
		n--;
	while (n && strchr(SPACE, *text)) {
		text++;
		n--;
	}
	return (struct word){ text, n };
}

/* The length up to the first of the separators outside quoted strings, or to the end. */
static size_t length_until(const char *text, const char *separators)
{
	bool quoted = false;
	size_t n = 0;

	for (; text[n] && (quoted || !strchr(separators, text[n])); n++) {
		if (text[n] == '"')
			quoted = !quoted;
		else if (text[n] == '\\' && quoted && text[n + 1])
			n++;
	}
	return n;
}

/* 0 to 1 with at most three decimals; NO_Q for anything else. */
static int q_parse(struct word q)
{
	int v = 0, unit = FULL_Q;

	if (q.len == 0 || q.len > strlen("0.123") || (q.len > 1 && q.text[1] != '.'))
		return NO_Q;
	for (size_t i = 0; i < q.len; i++) {
		if (i == 1)
			continue;
		if (q.text[i] < '0' || q.text[i] > '9')
			return NO_Q;
		v += unit * (q.text[i] - '0');
		unit /= 10;
	}
	return v <= FULL_Q ? v : NO_Q;
}

/* Takes the next one off the list, which begins with a semicolon. False: it has no value. */
static bool parameter_next(const char **list, struct word *ret_name, struct word *ret_value)
{
	size_t n = length_until(*list + 1, ",;");
	const struct word parameter = word_trim(*list + 1, n);
	const char *equals = memchr(parameter.text, '=', parameter.len);
	struct word value;

	*list += n + 1;
	if (!equals)
		return false;
	n = (size_t)(equals - parameter.text);
	*ret_name = word_trim(parameter.text, n);
	value = word_trim(equals + 1, parameter.len - n - 1);
	if (value.len >= 2 && value.text[0] == '"' && value.text[value.len - 1] == '"')
		value = (struct word){ value.text + 1, value.len - 2 };
	*ret_value = value;
	return true;
}

/* The last one of that name. False: there is none. */
static bool element_parameter(const struct element *element, const char *name, struct word *ret)
{
	struct word found, value;
	bool has = false;

	for (const char *p = element->parameters; *p == ';';)
		if (parameter_next(&p, &found, &value) && word_is_text(&found, name)) {
			*ret = value;
			has = true;
		}
	return has;
}

/* Takes the next element off the list. False at the end of the list. */
static bool element_next(const char **header, struct element *ret)
{
	const char *p = *header;
	struct word q;
	size_t n;

	p += strspn(p, SPACE ",");
	if (!*p)
		return false;
	n = length_until(p, ",;");
	*ret = (struct element){ .name = word_trim(p, n), .parameters = p + n, .q = FULL_Q };
	if (element_parameter(ret, "q", &q))
		ret->q = q_parse(q);
	*header = p + length_until(p, ",");
	return true;
}

/* Has the element the offer's values where it has parameters of these names? *ret_nr: so many of them; *ret_all: it has
 * all. */
static bool element_suits(const struct element *element, const struct media *offer, unsigned *ret_nr, bool *ret_all)
{
	bool has_version = false;
	struct word value;

	*ret_nr = 0;
	*ret_all = true;
	for (size_t i = 0; i < MEDIA_PARAMETERS && offer->parameters[i].name; i++) {
		bool has = element_parameter(element, offer->parameters[i].name, &value);

		if (has && !word_is_text(&value, offer->parameters[i].value))
			return false;
		has_version |= strcmp(offer->parameters[i].name, "version") == 0;
		*ret_nr += has;
		*ret_all &= has;
	}
	return has_version || !element_parameter(element, "version", &value);
}

/* How specifically the element names the offer; 0: not at all. */
static unsigned element_specificity(const struct element *element, const struct media *offer)
{
	size_t type = (size_t)(strchr(offer->type, '/') - offer->type) + 1;
	unsigned parameters;
	bool all;

	if (word_is_text(&element->name, "*/*"))
		return 1;
	if (!element_suits(element, offer, &parameters, &all))
		return 0;
	if (element->name.len == type + 1 && element->name.text[type] == '*' &&
	    strncasecmp(element->name.text, offer->type, type) == 0)
		return 2;
	if (!word_is_text(&element->name, offer->type) || (offer->needs_parameters && !all))
		return 0;
	return 3 + parameters;
}

/* The header's preference for an offer: the most specific element decides (RFC 9110, 12.5.1). */
struct preference {
	int q;
	unsigned specificity;
};

static struct preference preference_for(const char *header, const struct media *offer)
{
	struct preference preference = { .q = NO_Q };
	struct element element;

	while (element_next(&header, &element)) {
		unsigned specific = element_specificity(&element, offer);

		if (specific > preference.specificity && element.q != NO_Q)
			preference = (struct preference){ element.q, specific };
	}
	return preference;
}

size_t accept_media(const char *header, const struct media *offers, size_t nr)
{
	struct preference best = { .q = 0 };
	size_t found = 0;

	for (size_t i = 0; header && i < nr; i++) {
		struct preference preference = preference_for(header, &offers[i]);

		if (preference.q < best.q || (preference.q == best.q && preference.specificity <= best.specificity))
			continue;
		best = preference;
		found = i;
	}
	return best.q > 0 ? found : 0;
}

bool accept_gzip(const char *header)
{
	int gzip = NO_Q, identity = NO_Q, any = 0;
	struct element element;

	while (header && element_next(&header, &element)) {
		if (word_is_text(&element.name, "gzip") || word_is_text(&element.name, "x-gzip"))
			gzip = element.q;
		else if (word_is_text(&element.name, "identity"))
			identity = element.q;
		else if (word_is_text(&element.name, "*") && element.q != NO_Q)
			any = element.q;
	}
	if (gzip == NO_Q)
		gzip = any;
	if (identity == NO_Q)
		identity = any;
	return gzip > 0 && gzip >= identity;
}
