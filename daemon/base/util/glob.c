/* SPDX-License-Identifier: MIT */

#include "base/util/glob.h"

#include "base/util/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The highest that next_char() returns. */
#define CHAR_MAX_ANY 0x1100ffU

/* Characters that are looked up item by item before the table is made, which is about as much work. */
#define LOOK_UPS 256

/* Characters of an interval are taken by the same places. */
struct glob_table {
	size_t nr;
	uint32_t *lows;	     /* sorted, from 0 on: an interval ends where the next begins */
	uint64_t *fits;	     /* of each, the places that take its characters: `words` each */
	uint16_t ascii[128]; /* the interval of each */
};

/* Takes one character off the text; a byte that is no UTF-8 is a character of its own beyond Unicode. */
static uint32_t next_char(const char **text)
{
	static const unsigned char lead[] = { 0, 0, 0x1f, 0x0f, 0x07 };
	const unsigned char *p = (const unsigned char *)*text;
	size_t n = p[0] < 0x80 ? 1 : utf8_length(*text);
	uint32_t c;

	if (n <= 1) {
		*text += 1;
		return n ? p[0] : 0x110000U + p[0];
	}
	c = p[0] & lead[n];
	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3f);
	*text += n;
	return c;
}

/* --- the glob */

/* The end of the class that begins at glob ("[a-z]"); NULL if it has none, and '[' is a plain character. */
static const char *class_end(const char *glob)
{
	const char *p = glob + 1;

	if (*p == '!' || *p == '^')
		p++;
	for (bool first = true; first || *p != ']'; first = false) {
		if (!*p)
			return NULL;
		p++;
	}
	return p;
}

static void add_item(struct glob *glob, uint32_t low, uint32_t high, bool wild)
{
	if (low <= high)
		glob->items[glob->nr_items++] = (struct glob_item){ low, high, (uint16_t)glob->end, wild };
}

static int compare_items(const void *a, const void *b)
{
	const struct glob_item *x = a, *y = b;

	return (x->low > y->low) - (x->low < y->low);
}

/* Replaces the items from `first` on by the gaps between them. There is one gap more at most, and room for it, since
 * "[!" is one byte longer than "[". */
static void complement_class(struct glob *glob, size_t first)
{
	struct glob_item *items = glob->items + first;
	size_t nr = glob->nr_items - first;
	uint32_t next = 0;

	qsort(items, nr, sizeof(*items), compare_items);
	glob->steps += nr * 10; /* its comparisons */
	glob->nr_items = first;
	/* A gap takes the place of the item behind it, or of one before that. */
	for (size_t i = 0; i < nr; i++) {
		struct glob_item item = items[i];

		if (item.low > next)
			add_item(glob, next, item.low - 1, true);
		next = item.high >= next ? item.high + 1 : next;
	}
	add_item(glob, next, CHAR_MAX_ANY, true);
}

static void add_class(struct glob *glob, const char *text, const char *end)
{
	const char *p = text + 1;
	bool negate = *p == '!' || *p == '^';
	size_t first = glob->nr_items;

	if (negate)
		p++;
	while (p < end) {
		uint32_t low, high;

		low = high = next_char(&p);
		if (*p == '-' && p + 1 < end) {
			p++;
			high = next_char(&p);
		}
		add_item(glob, low, high, true);
	}
	if (negate)
		complement_class(glob, first);
}

static void set_bit(uint64_t *bits, size_t i)
{
	bits[i / 64] |= UINT64_C(1) << i % 64;
}

static bool has_bit(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

/* Takes the stars off at *glob, which are at the place that is the last so far. */
static void take_stars(struct glob *glob, const char **text)
{
	size_t n = strspn(*text, "*");

	*text += n;
	if (n > 0)
		set_bit(glob->stays[false], glob->end);
	if (n > 1)
		set_bit(glob->stays[true], glob->end);
}

/* Takes one place off at *text. unclosed: a '[' before it had no end, so that none behind it can have one. */
static void take_place(struct glob *glob, const char **text, bool *unclosed)
{
	const char *end = **text == '[' && !*unclosed ? class_end(*text) : NULL;
	uint32_t c;

	*unclosed |= **text == '[' && !end;
	if (end) {
		add_class(glob, *text, end);
		*text = end + 1;
	} else if (**text == '?') {
		add_item(glob, 0, CHAR_MAX_ANY, true);
		(*text)++;
	} else {
		c = next_char(text);
		add_item(glob, c, c, false);
	}
	glob->end++;
}

void glob_init(struct glob *glob, const char *text)
{
	size_t length = strlen(text);
	bool unclosed = false;

	/* The items are as many as nr_items says. */
	glob->end = glob->words = glob->nr_items = 0;
	glob->looked = 0;
	glob->table = NULL;
	glob->bytes = 0;
	glob->steps = length;
	memset(glob->stays, 0, sizeof(glob->stays));
	if (length > GLOB_MAX)
		return;
	take_stars(glob, &text);
	while (*text) {
		take_place(glob, &text, &unclosed);
		take_stars(glob, &text);
	}
	glob->words = glob->end / 64 + 1;
}

/* --- which places take a character */

static struct glob_table *table_free(struct glob_table *table)
{
	if (table) {
		free(table->lows);
		free(table->fits);
	}
	free(table);
	return NULL;
}

void glob_release(struct glob *glob)
{
	glob->table = table_free(glob->table);
}

static int compare_chars(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The beginnings of intervals: at 0, around each item, and around '/', which only plain characters take. */
static void find_lows(struct glob_table *table, struct glob *glob)
{
	size_t nr = 0, all = 0;

	table->lows[all++] = 0;
	table->lows[all++] = '/';
	table->lows[all++] = '/' + 1;
	for (size_t i = 0; i < glob->nr_items; i++) {
		table->lows[all++] = glob->items[i].low;
		table->lows[all++] = glob->items[i].high + 1;
	}
	qsort(table->lows, all, sizeof(*table->lows), compare_chars);
	glob->steps += all * 14; /* its comparisons, and the loop below */
	for (size_t i = 0; i < all; i++)
		if (nr == 0 || table->lows[i] != table->lows[nr - 1])
			table->lows[nr++] = table->lows[i];
	table->nr = nr;
}

/* The interval that c is in. */
static size_t find_interval(const struct glob_table *table, uint32_t c)
{
	size_t low = 0, high = table->nr;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (table->lows[middle] <= c)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static void fill_fits(struct glob_table *table, struct glob *glob)
{
	size_t slash = find_interval(table, '/');

	for (size_t i = 0; i < glob->nr_items; i++) {
		const struct glob_item *item = &glob->items[i];

		for (size_t k = find_interval(table, item->low); k < table->nr && table->lows[k] <= item->high; k++) {
			if (k != slash || !item->wild)
				set_bit(table->fits + k * glob->words, item->place);
			glob->steps++;
		}
	}
	for (uint32_t c = 0; c < 128; c++)
		table->ascii[c] = (uint16_t)find_interval(table, c);
	glob->steps += 13 * (glob->nr_items + 128);
}

/* If there is no memory, it is tried again later. */
static void make_table(struct glob *glob)
{
	struct glob_table *table = calloc(1, sizeof(*table));

	glob->looked = 0;
	if (!table)
		return;
	table->lows = calloc(2 * glob->nr_items + 3, sizeof(*table->lows));
	if (table->lows)
		find_lows(table, glob);
	table->fits = calloc(table->nr * glob->words, sizeof(*table->fits));
	if (!table->lows || !table->fits) {
		table_free(table);
		return;
	}
	fill_fits(table, glob);
	glob->steps += table->nr * glob->words;
	glob->table = table;
}

/* Item by item. */
static void look_up(struct glob *glob, uint32_t c, uint64_t *fits)
{
	memset(fits, 0, glob->words * sizeof(*fits));
	for (size_t i = 0; i < glob->nr_items; i++) {
		const struct glob_item *item = &glob->items[i];

		if (c >= item->low && c <= item->high && !(c == '/' && item->wild))
			set_bit(fits, item->place);
	}
	glob->looked++;
	glob->steps += glob->nr_items;
}

/* The places that c leads on from; scratch is for them, where they are not in the table. */
static const uint64_t *places_of(struct glob *glob, uint32_t c, uint64_t *scratch)
{
	size_t interval;

	if (!glob->table && glob->looked >= LOOK_UPS)
		make_table(glob);
	if (!glob->table) {
		look_up(glob, c, scratch);
		return scratch;
	}
	interval = c < 128 ? glob->table->ascii[c] : find_interval(glob->table, c);
	glob->steps += c < 128 ? 1 : 12;
	return glob->table->fits + interval * glob->words;
}

/* --- the text */

/* Replaces the places reached, which are in the first nr words, by those reached after one more character; returns how
 * many words those are in. */
static size_t advance_places(const struct glob *glob, uint64_t *reached, size_t nr, const uint64_t *fits, bool slash)
{
	const uint64_t *stays = glob->stays[slash];
	uint64_t carry = 0;

	for (size_t i = 0; i < nr; i++) {
		uint64_t leads_on = reached[i] & fits[i];

		reached[i] = (reached[i] & stays[i]) | leads_on << 1 | carry;
		carry = leads_on >> 63;
	}
	/* The last place is in the last word, and leads on nowhere. */
	if (carry)
		reached[nr++] = carry;
	while (nr > 0 && !reached[nr - 1])
		nr--;
	return nr;
}

bool glob_matches(struct glob *glob, const char *text)
{
	uint64_t reached[GLOB_WORDS] = { 1 }, scratch[GLOB_WORDS];
	const char *begin = text;
	size_t nr = glob->words > 0;

	while (nr > 0 && *text) {
		uint32_t c = next_char(&text);

		glob->steps += nr;
		nr = advance_places(glob, reached, nr, places_of(glob, c, scratch), c == '/');
	}
	glob->bytes += (size_t)(text - begin);
	return nr > 0 && has_bit(reached, glob->end);
}

uint64_t glob_steps(const struct glob *glob)
{
	return glob->steps;
}

uint64_t glob_bytes(const struct glob *glob)
{
	return glob->bytes;
}

bool glob_match(const char *glob, const char *text)
{
	struct glob once;
	bool matches;

	/* Most globs begin with a path, and most texts with another one: these need no parsing. */
	for (; isascii(*glob) && *glob && !strchr("*?[", *glob); glob++, text++)
		if (*glob != *text)
			return false;
	glob_init(&once, glob);
	matches = glob_matches(&once, text);
	glob_release(&once);
	return matches;
}
