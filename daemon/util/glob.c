/* SPDX-License-Identifier: MIT */

#include "util/glob.h"

#include "util/text.h"

#include <ctype.h>
#include <string.h>

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

/* Where the class that begins at glob ("[a-z]") has its end; NULL where it has none, and '[' is a
 * character like others. */
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

static bool class_has(const char *glob, const char *end, uint32_t c)
{
	const char *p = glob + 1;
	bool negate = *p == '!' || *p == '^', hit = false;

	if (negate)
		p++;
	while (p < end && !hit) {
		uint32_t low, high;

		low = high = next_char(&p);
		if (*p == '-' && p + 1 < end) {
			p++;
			high = next_char(&p);
		}
		hit = c >= low && c <= high;
	}
	return hit != negate;
}

/* Does c fit what stands at *glob, which is no star? Moves on behind it. */
static bool fits_one(const char **glob, uint32_t c)
{
	const char *end;

	if (**glob == '?') {
		(*glob)++;
		return c != '/';
	}
	if (**glob == '[' && (end = class_end(*glob))) {
		bool has = class_has(*glob, end, c);

		*glob = end + 1;
		return has && c != '/';
	}
	return next_char(glob) == c;
}

static void set_bit(uint64_t *bits, size_t i)
{
	bits[i / 64] |= UINT64_C(1) << i % 64;
}

static bool has_bit(const uint64_t *bits, size_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

/* Takes the stars off at *glob, which are at that place. */
static void take_stars(struct glob *glob, const char **text, size_t place)
{
	size_t n = strspn(*text, "*");

	*text += n;
	if (n > 0)
		set_bit(glob->stays[false], place);
	if (n > 1)
		set_bit(glob->stays[true], place);
}

void glob_init(struct glob *glob, const char *text)
{
	const char *p = text;

	glob->text = text;
	glob->end = 0;
	glob->words = 0;
	memset(glob->stays, 0, sizeof(glob->stays));
	memset(glob->known, 0, sizeof(glob->known));
	if (strlen(text) > GLOB_MAX)
		return;
	take_stars(glob, &p, 0);
	while (*p) {
		(void)fits_one(&p, 0);
		take_stars(glob, &p, ++glob->end);
	}
	glob->words = glob->end / 64 + 1;
}

/* --- the text */

/* The places that c leads on from. */
static const uint64_t *places_of(struct glob *glob, uint32_t c)
{
	size_t slot = c % GLOB_SLOTS;
	uint64_t *fits = glob->fits[slot];
	const char *p = glob->text;

	if (glob->known[slot] == c)
		return fits;
	glob->known[slot] = c;
	memset(fits, 0, glob->words * sizeof(*fits));
	for (size_t place = 0; place < glob->end; place++) {
		p += strspn(p, "*");
		if (fits_one(&p, c))
			set_bit(fits, place);
	}
	return fits;
}

/* From the places reached to those reached with one character more. False: there are none. */
static bool advance(const struct glob *glob, uint64_t *reached, const uint64_t *fits, bool slash)
{
	const uint64_t *stays = glob->stays[slash];
	uint64_t carry = 0, any = 0;

	for (size_t i = 0; i < glob->words; i++) {
		uint64_t leads_on = reached[i] & fits[i];

		reached[i] = (reached[i] & stays[i]) | leads_on << 1 | carry;
		carry = leads_on >> 63;
		any |= reached[i];
	}
	return any;
}

bool glob_matches(struct glob *glob, const char *text)
{
	uint64_t reached[GLOB_WORDS] = { 1 };

	if (glob->words == 0)
		return false;
	while (*text) {
		uint32_t c = next_char(&text);

		if (!advance(glob, reached, places_of(glob, c), c == '/'))
			return false;
	}
	return has_bit(reached, glob->end);
}

bool glob_match(const char *glob, const char *text)
{
	struct glob once;

	/* Most begin with a path, and most texts with another one. */
	for (; isascii(*glob) && *glob && !strchr("*?[", *glob); glob++, text++)
		if (*glob != *text)
			return false;
	glob_init(&once, glob);
	return glob_matches(&once, text);
}
