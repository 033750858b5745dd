/* SPDX-License-Identifier: MIT */

/* Globs: what matches, against a plain way to find out, and how many steps it takes at worst. */

#include "base/util/glob.h"

#include "base/util/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_glob(_unused_ void **state)
{
	static const struct {
		const char *glob, *text;
		bool match;
	} cases[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "a", "", false },
		{ "*", "", true },
		{ "**", "", true },
		{ "**", "/", true },
		{ "**", "/a/b/c", true },
		{ "*", "a/b", false },
		{ "/", "/", true },
		{ "/*", "/a", true },
		{ "/*", "/a/b", false },
		{ "/**", "/a/b", true },
		{ "/user.slice/**", "/user.slice", false },
		{ "/user.slice/**", "/user.slice/a", true },
		{ "/user.slice/**", "/user.slice/a/b", true },
		{ "/user.slice/**", "/user.slicer/a", false },
		{ "/user.slice**", "/user.slice", true },
		{ "**/nginx.service", "/system.slice/nginx.service", true },
		{ "**/nginx.service", "/nginx.service", true },
		{ "**/nginx.service", "/xnginx.service", false },
		{ "**/*.service", "/a/b/c.service", true },
		{ "**/*.service", "/a/b/c.service/d", false },
		{ "**/*.service/**", "/a/b.service/c/d", true },
		{ "/a/*/c", "/a/b/c", true },
		{ "/a/*/c", "/a//c", true },
		{ "/a/*/c", "/a/b/b/c", false },
		{ "/a/**/c", "/a/b/b/c", true },
		{ "/a/**/c", "/a/c", false },
		{ "/a***c", "/a/b/c", true },
		{ "?", "a", true },
		{ "?", "/", false },
		{ "?", "", false },
		{ "a?c", "abc", true },
		{ "?", "\xc3\xbc", true },
		{ "??", "\xc3\xbc", false },
		{ "*\xc3\xbc", "x\xc3\xbc", true },
		{ "*?x?", "\xc3\xbcx\xc3\xbc", true },
		{ "?", "\xff", true },
		{ "\xff", "\xff", true },
		{ "\xff", "\xfe", false },
		{ "[a-c]", "b", true },
		{ "[a-c]", "d", false },
		{ "[!a-c]", "d", true },
		{ "[^a-c]", "d", true },
		{ "[!a-c]", "b", false },
		{ "[!a]", "/", false },
		{ "[+-0]", "/", false },
		{ "[]a]", "]", true },
		{ "[]a]", "a", true },
		{ "[!]a]", "]", false },
		{ "[!]a]", "b", true },
		{ "[a-]", "-", true },
		{ "[-a]", "-", true },
		{ "[\\]", "\\", true },
		{ "[\\]]", "\\]", true },
		{ "[*]", "*", true },
		{ "[*]", "a", false },
		{ "[?]", "?", true },
		{ "[[]", "[", true },
		{ "[\xc3\xa4-\xc3\xbc]", "\xc3\xb6", true },
		{ "[\xc3\xa4-\xc3\xbc]", "\xc3", false },
		{ "[!\xc3\xa4]", "\xc3\xb6", true },
		{ "[a", "[a", true },
		{ "[a", "a", false },
		{ "[", "[", true },
		{ "[!", "[!", true },
		{ "[a-", "[a-", true },
		{ "x[0-9][0-9]", "x42", true },
		{ "*[0-9]", "abc7", true },
		{ "\\*", "\\", true },
		{ "\\*", "\\ab", true },
		{ "\\*", "*", false },
		{ "\\x2d", "\\x2d", true },
		{ "/a.slice/dev-*\\x2d?.mount", "/a.slice/dev-disk\\x2db.mount", true },
		{ "\\x2d", "x2d", false },
		{ "\\", "\\", true },
		{ "*a*b*c", "xaxbxc", true },
		{ "*a*b*c", "xaxcxb", false },
		{ "*.slice/*.service", "a.slice/b.slice/c.service", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (glob_match(cases[i].glob, cases[i].text) != cases[i].match)
			fail_msg("'%s' and '%s': not %d", cases[i].glob, cases[i].text, cases[i].match);
}

/* What the header says, and nothing else: every way of dividing the text is tried. */
static bool matches_plainly(const char *glob, const char *text)
{
	if (glob[0] == '*') {
		bool deep = glob[1] == '*';

		for (const char *rest = text;; rest++) {
			if (matches_plainly(glob + 1 + deep, rest))
				return true;
			if (!*rest || (*rest == '/' && !deep))
				return false;
		}
	}
	if (!*glob || !*text)
		return *glob == *text;
	return (*glob == *text || (*glob == '?' && *text != '/')) && matches_plainly(glob + 1, text + 1);
}

/* The number in the digits of an alphabet; false where it is the next length's. */
static void spell(char *out, size_t length, unsigned number, const char *alphabet)
{
	size_t n = strlen(alphabet);

	for (size_t i = 0; i < length; i++, number /= (unsigned)n)
		out[i] = alphabet[number % n];
	out[length] = '\0';
}

static void compare(const char *glob, const char *text)
{
	if (glob_match(glob, text) != matches_plainly(glob, text))
		fail_msg("'%s' and '%s': %d", glob, text, glob_match(glob, text));
}

static void test_glob_exhaustively(_unused_ void **state)
{
	char glob[16], text[16];

	for (size_t m = 0, nr_globs = 1; m <= 5; m++, nr_globs *= 4)
		for (unsigned i = 0; i < nr_globs; i++) {
			spell(glob, m, i, "a/*b");
			for (size_t n = 0, nr_texts = 1; n <= 5; n++, nr_texts *= 3)
				for (unsigned j = 0; j < nr_texts; j++) {
					spell(text, n, j, "ab/");
					compare(glob, text);
				}
		}
}

static void test_glob_at_random(_unused_ void **state)
{
	char glob[16], text[16];
	unsigned random = 1;

	for (int i = 0; i < 300000; i++) {
		random = random * 1103515245 + 12345;
		spell(glob, random >> 16 & 15, random, "*a/b*?");
		random = random * 1103515245 + 12345;
		spell(text, random >> 16 & 15, random, "aab/");
		compare(glob, text);
	}
}

/* Each of these takes for ever where every star is tried anew for each of the others. */
static void test_glob_time(_unused_ void **state)
{
	char text[4096], glob[256];

	memset(text, 'a', sizeof(text));
	for (size_t i = 200; i < sizeof(text); i += 200)
		text[i] = '/';
	text[sizeof(text) - 1] = '\0';

	for (size_t i = 0; i < 100; i++)
		memcpy(glob + i * 2, "*a", 2);
	strcpy(glob + 200, "b");
	assert_false(glob_match(glob, text));
	for (size_t i = 0; i < 60; i++)
		memcpy(glob + i * 3, "**a", 3);
	strcpy(glob + 180, "b");
	assert_false(glob_match(glob, text));
	for (size_t i = 0; i < 30; i++)
		memcpy(glob + i * 5, "**a*a", 5);
	strcpy(glob + 150, "b");
	assert_false(glob_match(glob, text));
}

/* --- how much work it is */

/* The glob is matched with so many texts, as a query does: the steps are within their bound, and so are the bytes. */
static void check_steps(const char *text_of_glob, const char *text)
{
	struct glob glob;

	glob_init(&glob, text_of_glob);
	for (int k = 0; k < 50; k++)
		assert_false(glob_matches(&glob, text));
	assert_true(glob.steps <= GLOB_STEPS_ONCE + GLOB_STEPS_PER_BYTE * glob.bytes);
	assert_true(glob.bytes <= 50 * strlen(text));
	glob_release(&glob);
}

/* A glob of GLOB_MAX bytes, of head, as much of middle as fits, and tail. */
static char *made_glob(const char *head, const char *middle, const char *tail)
{
	struct buf b = {};

	buf_str(&b, head);
	while (b.len + strlen(middle) + strlen(tail) <= GLOB_MAX)
		buf_str(&b, middle);
	buf_str(&b, tail);
	return buf_steal(&b);
}

/* The worst there is takes no more steps than are allowed, nor does what is asked every day. */
static void test_glob_at_worst(_unused_ void **state)
{
	static const struct {
		const char *head, *middle, *tail;
	} cases[] = {
		{ "**", "[", "Z" },
		{ "**", "[", "]Z" },
		{ "**?*[", "abcdefghijklmnopqrstuvwxyz0123456789-_.", "]Z" },
		{ "**?*", "a", "Z" },
		{ "**?*", "?", "Z" },
		{ "**", "*?**?", "Z" },
		{ "", "*a**a", "Z" },
		{ "**", "[!/-9A-Z]", "Z" },
		{ "**?*[", "\xc3\xa4-\xc3\xb6", "]Z" },
	};
	char text[600];

	/* Two characters that are the same in their lowest 7 bits. */
	for (size_t i = 0; i < sizeof(text) / 3; i++)
		memcpy(text + 3 * i, "a\xc3\xa1", 3);
	text[300] = '/';
	text[sizeof(text) - 3] = '\0';
	check_steps("**a*Z", text);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		_cleanup_(freep) char *glob = made_glob(cases[i].head, cases[i].middle, cases[i].tail);

		check_steps(glob, text);
	}
}

/* As many places as there can be, and characters that are kept in one slot. */
static void test_glob_of_all_sizes(_unused_ void **state)
{
	char glob[GLOB_MAX + 2], text[GLOB_MAX + 3];

	/* Each size below 128, and those around the ends of words of 64 places. */
	for (size_t n = 1; n <= GLOB_MAX; n++) {
		if (n > 128 && n < GLOB_MAX - 1 && (n + 1) % 64 > 2)
			continue;
		memset(glob, '?', n);
		memset(text, n % 2 ? 'a' : 'a' + n % 4, n + 1);
		glob[n] = text[n] = '\0';
		assert_true(glob_match(glob, text));
		strcpy(text + n, "a");
		assert_false(glob_match(glob, text));
		glob[n - 1] = '*';
		assert_true(glob_match(glob, text));
		text[n - 1] = '/';
		assert_false(glob_match(glob, text));
	}
	memset(glob, '*', GLOB_MAX + 1);
	glob[GLOB_MAX + 1] = '\0';
	assert_false(glob_match(glob, "a"));
	assert_true(glob_match(glob + 1, "a"));
	/* U+00E1 is 'a' and 128. */
	assert_true(glob_match("a\xc3\xa1*[a][\xc3\xa1]x", "a\xc3\xa1xxa\xc3\xa1x"));
	assert_false(glob_match("a\xc3\xa1*[a][\xc3\xa1]x", "a\xc3\xa1xxaax"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_glob),	       cmocka_unit_test(test_glob_exhaustively),
		cmocka_unit_test(test_glob_at_random), cmocka_unit_test(test_glob_time),
		cmocka_unit_test(test_glob_at_worst),  cmocka_unit_test(test_glob_of_all_sizes),
	};

	return cmocka_run_group_tests_name("glob", tests, NULL, NULL);
}
