/* SPDX-License-Identifier: MIT */

#include "web/accept.h"

#include <string.h>
#include <strings.h>

#define SPACE " \t"

/* q in thousandths; also: not named. */
#define NO_Q (-1)
#define FULL_Q 1000

/* A part of the header. */
struct word {
	const char *text;
	size_t len;
};

/* A member of the list: `text/plain;version=0.0.4;q=0.5`. */
struct wish {
	struct word what;
	struct word version; /* .text NULL: none */
	int q;
};

static bool is(const struct word *word, const char *text, size_t n)
{
	return word->len == n && strncasecmp(word->text, text, n) == 0;
}

static bool is_text(const struct word *word, const char *text)
{
	return is(word, text, strlen(text));
}

static struct word trimmed(const char *text, size_t n)
{
	while (n && strchr(SPACE, text[n - 1]))
		n--;
	while (n && strchr(SPACE, *text)) {
		text++;
		n--;
	}
	return (struct word){ text, n };
}

/* How far it is to one of the separators that is in no quoted string, or to the end. */
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
static int parse_q(struct word q)
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

static void take_parameter(struct wish *wish, struct word parameter)
{
	const char *equals = memchr(parameter.text, '=', parameter.len);
	size_t n = equals ? (size_t)(equals - parameter.text) : 0;
	struct word name = trimmed(parameter.text, n), value;

	if (!equals)
		return;
	value = trimmed(equals + 1, parameter.len - n - 1);
	if (value.len >= 2 && value.text[0] == '"' && value.text[value.len - 1] == '"')
		value = (struct word){ value.text + 1, value.len - 2 };
	if (is_text(&name, "q"))
		wish->q = parse_q(value);
	else if (is_text(&name, "version"))
		wish->version = value;
}

/* Takes the next one off the list. False at its end. One of which the q is wrong has NO_Q. */
static bool next_wish(const char **header, struct wish *ret)
{
	const char *p = *header;
	size_t n;

	p += strspn(p, SPACE ",");
	if (!*p)
		return false;
	n = length_until(p, ",;");
	*ret = (struct wish){ .what = trimmed(p, n), .q = FULL_Q };
	for (p += n; *p == ';'; p += n) {
		p++;
		n = length_until(p, ",;");
		take_parameter(ret, trimmed(p, n));
	}
	*header = p;
	return true;
}

/* How exactly the wish names the offer; 0: not at all. */
static unsigned exactness(const struct wish *wish, const struct media *offer)
{
	size_t type = (size_t)(strchr(offer->type, '/') - offer->type) + 1;
	bool with_version = wish->version.text;

	if (is_text(&wish->what, "*/*"))
		return 1;
	if (with_version && !is_text(&wish->version, offer->version))
		return 0;
	if (wish->what.len == type + 1 && wish->what.text[type] == '*' &&
	    strncasecmp(wish->what.text, offer->type, type) == 0)
		return 2;
	if (is_text(&wish->what, offer->type))
		return with_version ? 4 : 3;
	return 0;
}

/* What the header thinks of an offer: the most exact wish decides. */
struct opinion {
	int q;
	unsigned exactness;
};

static struct opinion opinion_of(const char *header, const struct media *offer)
{
	struct opinion opinion = { .q = NO_Q };
	struct wish wish;

	while (next_wish(&header, &wish)) {
		unsigned exact = exactness(&wish, offer);

		if (exact > opinion.exactness && wish.q != NO_Q)
			opinion = (struct opinion){ wish.q, exact };
	}
	return opinion;
}

size_t accept_media(const char *header, const struct media *offers, size_t nr)
{
	struct opinion best = { .q = 0 };
	size_t found = 0;

	for (size_t i = 0; header && i < nr; i++) {
		struct opinion opinion = opinion_of(header, &offers[i]);

		if (opinion.q < best.q || (opinion.q == best.q && opinion.exactness <= best.exactness))
			continue;
		best = opinion;
		found = i;
	}
	return best.q > 0 ? found : 0;
}

bool accept_gzip(const char *header)
{
	int gzip = NO_Q, identity = NO_Q, any = 0;
	struct wish wish;

	while (header && next_wish(&header, &wish)) {
		if (is_text(&wish.what, "gzip") || is_text(&wish.what, "x-gzip"))
			gzip = wish.q;
		else if (is_text(&wish.what, "identity"))
			identity = wish.q;
		else if (is_text(&wish.what, "*") && wish.q != NO_Q)
			any = wish.q;
	}
	if (gzip == NO_Q)
		gzip = any;
	if (identity == NO_Q)
		identity = any;
	return gzip > 0 && gzip >= identity;
}
