/* SPDX-License-Identifier: MIT */

#include "base/util/text.h"

#include "base/util/buf.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

/* U+FFFD */
static const char replacement[] = "\xef\xbf\xbd";

int parse_u64(const char *text, uint64_t *ret)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	unsigned long long v;
	char *end;

	if (hex ? !isxdigit((unsigned char)text[2]) : !isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, hex ? 16 : 10);
	if (*end)
		return -EINVAL;
	if (errno)
		return -errno;
	*ret = v;
	return 0;
}

int parse_bool(const char *text, bool *ret)
{
	static const char *const words[] = { "no", "yes", "false", "true", "off", "on", "0", "1" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasecmp(text, words[i]) == 0) {
			*ret = i % 2;
			return 0;
		}
	return -EINVAL;
}

/* A number such as 0.5, and what comes behind it. strtod() takes signs, exponents and hex, which nothing here has, and
 * a comma in some locales; the daemon never calls setlocale(). */
static int parse_decimal(const char *text, double *ret, const char **ret_unit)
{
	size_t digits = strspn(text, "0123456789.");
	char *end;

	if (!isdigit((unsigned char)text[0]) || digits > 32)
		return -EINVAL;
	*ret = strtod(text, &end);
	if (end != text + digits)
		return -EINVAL;
	*ret_unit = end + strspn(end, " ");
	return 0;
}

int parse_duration(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {
		{ "", 1e9 },  { "ns", 1 },     { "us", 1e3 },	{ "ms", 1e6 },
		{ "s", 1e9 }, { "min", 60e9 }, { "h", 3600e9 }, { "d", 86400e9 },
	};
	const char *unit;
	double v, ns;

	if (parse_decimal(text, &v, &unit) < 0)
		return -EINVAL;

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(unit, units[i].name))
			continue;
		ns = round(v * units[i].ns);
		if (ns >= 0x1p63)
			return -ERANGE;
		*ret_ns = (uint64_t)ns;
		return 0;
	}
	return -EINVAL;
}

int parse_share(const char *text, uint64_t *ret_ppm)
{
	const char *unit;
	double v;

	if (parse_decimal(text, &v, &unit) < 0 || strcmp(unit, "%") != 0)
		return -EINVAL;
	if (v > 100)
		return -ERANGE;
	*ret_ppm = (uint64_t)round(v * (PPM / 100));
	return 0;
}

int parse_size(const char *text, uint64_t *ret)
{
	static const struct {
		const char *name;
		unsigned shift;
	} units[] = {
		{ "", 0 }, { "K", 10 }, { "KiB", 10 }, { "M", 20 }, { "MiB", 20 }, { "G", 30 }, { "GiB", 30 },
	};
	size_t digits = strspn(text, "0123456789");
	const char *unit = text + digits + strspn(text + digits, " ");
	char number[24];
	uint64_t v;
	int r;

	if (digits >= sizeof(number))
		return -ERANGE;
	memcpy(number, text, digits);
	number[digits] = '\0';
	r = parse_u64(number, &v);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(unit, units[i].name))
			continue;
		if (v > UINT64_MAX >> units[i].shift)
			return -ERANGE;
		*ret = v << units[i].shift;
		return 0;
	}
	return -EINVAL;
}

size_t utf8_length(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n;

	if (p[0] < 0x80)
		return p[0] ? 1 : 0;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4;
	else
		return 0;

	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

/* Length of the character at s if utf8_printable() leaves it as it is, or 0. */
static size_t unescaped_length(const char *s)
{
	size_t n = utf8_length(s);

	return n == 3 && memcmp(s, replacement, 3) == 0 ? 0 : n;
}

/* The first byte that utf8_printable() escapes, or the end. */
static const char *first_escaped(const char *bytes)
{
	size_t n;

	while (*bytes && (n = unescaped_length(bytes)))
		bytes += n;
	return bytes;
}

bool utf8_is_printable(const char *bytes)
{
	return !*first_escaped(bytes);
}

char *utf8_printable(const char *bytes)
{
	const char *p = first_escaped(bytes);
	struct buf b = {};

	/* A copy that fits: there is one for each cgroup. */
	if (!*p)
		return strdup(bytes);

	buf_add(&b, bytes, (size_t)(p - bytes));
	while (*p) {
		size_t n = unescaped_length(p);

		if (n)
			buf_add(&b, p, n);
		else
			buf_printf(&b, "%s%02x", replacement, (unsigned char)*p);
		p += n ? n : 1;
	}
	return buf_steal(&b);
}

size_t plain_length(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	size_t n = utf8_length(s);

	/* C1 is U+0080 to U+009F. */
	if ((n == 1 && (p[0] < 0x20 || p[0] == 0x7f)) || (n == 2 && p[0] == 0xc2 && p[1] < 0xa0))
		return 0;
	return n;
}

bool text_is_plain(const char *text)
{
	size_t n;

	while ((n = plain_length(text)))
		text += n;
	return !*text;
}

char *text_make_plain(char *text, char with)
{
	for (char *p = text; *p;) {
		size_t n = plain_length(p);

		if (n)
			p += n;
		else
			/* Of a C1 character, the second byte alone is no valid UTF-8. */
			*p++ = with;
	}
	return text;
}

char *text_excerpt(char out[static EXCERPT_MAX], const char *text)
{
	size_t at = 0;

	while (*text) {
		bool plain = plain_length(text) > 0;
		size_t n = utf8_length(text) ?: 1;

		if (at + n + sizeof("...") > EXCERPT_MAX) {
			memcpy(out + at, "...", 3);
			at += 3;
			break;
		}
		if (plain)
			memcpy(out + at, text, n);
		else
			out[at] = '?';
		at += plain ? n : 1;
		text += n;
	}
	out[at] = '\0';
	return out;
}

size_t text_unify_lines(char *text, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		bool starts = left == 0 || text[left - 1] == '\n';

		if (starts && n - i >= 3 && memcmp(text + i, "\xef\xbb\xbf", 3) == 0)
			i += 2;
		else if (text[i] != '\r' || (i + 1 < n && text[i + 1] != '\n'))
			text[left++] = text[i];
	}
	return left;
}

bool texts_are_equal(char *const *a, size_t nr_a, char *const *b, size_t nr_b)
{
	bool equal = nr_a == nr_b;

	for (size_t i = 0; equal && i < nr_a; i++)
		equal = strcmp(a[i], b[i]) == 0;
	return equal;
}

char *metric_name(const char *text)
{
	_cleanup_(buf_release) struct buf b = {};

	for (; *text; text++)
		buf_char(&b, isalnum((unsigned char)*text) ? (char)tolower((unsigned char)*text) : '_');
	while (b.len && b.data[b.len - 1] == '_')
		b.len--;
	return buf_steal(&b);
}
