/* SPDX-License-Identifier: MIT */

#include "base/config/parse.h"

#include "base/config/keys.h"
#include "base/config/value.h"
#include "base/util/buf.h"
#include "base/util/names.h"
#include "base/util/text.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>

struct parser {
	struct config *config;
	const char *name;
	bool defaults;

	const char *rest, *end; /* of the text */
	unsigned line;

	enum config_section section; /* _SECTION_MAX: before the first */
	size_t item;		     /* in a section with a name: its index */
	const struct config_key
		*key; /* of the last key; NULL: there is no value that an indented line could continue */
	bool goes_on; /* the current line is indented and continues that key's value */

	int error;
	struct reason *why;
};

/* --- unknown names, and the known one that is nearest */

/* Names the candidate that is spelt most like the written name, or all of them if none is near. */
static void add_suggestion(struct buf *b, const char *written, const char *const *candidates, size_t nr)
{
	struct nearest nearest;

	nearest_init(&nearest, written);
	for (size_t i = 0; i < nr; i++)
		nearest_offer(&nearest, candidates[i]);
	if (nearest.name[0]) {
		buf_printf(b, "; did you mean '%s'?", nearest.name);
		return;
	}
	for (size_t i = 0; i < nr; i++)
		buf_printf(b, "%s%s", i ? ", " : "; known: ", candidates[i]);
}

static int fail_unknown(struct parser *p, const char *what, const char *written, size_t n,
			const char *const *candidates, size_t nr)
{
	_cleanup_(freep) char *copy = strndup(written, n), *hint = NULL;
	struct buf b = {};
	char excerpt[EXCERPT_MAX];

	if (!copy)
		return -ENOMEM;
	add_suggestion(&b, copy, candidates, nr);
	hint = buf_steal(&b);
	if (!hint)
		return -ENOMEM;
	return reason_set(p->why, -EINVAL, "%s '%s'%s", what, text_excerpt(excerpt, copy), hint);
}

static int fail_unknown_key(struct parser *p, const char *name)
{
	const char *candidates[16], *section = config_sections[p->section];
	char what[64];
	size_t nr = 0;

	for (size_t i = 0; i < config_nr_keys && nr < ARRAY_SIZE(candidates); i++)
		if (config_keys[i].section == p->section)
			candidates[nr++] = config_keys[i].name;
	(void)snprintf(what, sizeof(what), config_is_named(p->section) ? "[%s \"…\"] has no key" : "[%s] has no key",
		       section);
	return fail_unknown(p, what, name, strlen(name), candidates, nr);
}

/* --- sections */

static size_t skip_space(const char *s, size_t n, size_t at)
{
	while (at < n && isspace((unsigned char)s[at]))
		at++;
	return at;
}

/* The number of the section with that name, which is added if there is none. */
static int add_named(struct parser *p, enum config_section section, const char *name, size_t n)
{
	const struct config_place place = { .file = (char *)p->name, .line = p->line };
	struct config *config = p->config;
	struct config_group *group = NULL;
	struct config_profile *profile = NULL;
	struct config_capture *capture = NULL;
	int r;

	if (section == SECTION_GROUP)
		r = config_add_group(config, name, n, &place, &group);
	else if (section == SECTION_PROFILE)
		r = config_add_profile(config, name, n, &place, &profile);
	else
		r = config_add_capture(config, name, n, &place, &capture);
	p->item = (size_t)(group   ? group - config->groups :
			   profile ? profile - config->profiles :
			   capture ? capture - config->captures :
				     0);
	return r;
}

static void *named_object(const struct parser *p)
{
	if (p->section == SECTION_GROUP)
		return &p->config->groups[p->item];
	if (p->section == SECTION_PROFILE)
		return &p->config->profiles[p->item];
	return &p->config->captures[p->item];
}

static int enter_named(struct parser *p, enum config_section section, const char *s, size_t n)
{
	static const char *const what[_SECTION_MAX] = {
		[SECTION_GROUP] = "group of events",
		[SECTION_PROFILE] = "profile",
		[SECTION_CAPTURE] = "capture",
	};
	int r;

	if (n < 2 || s[0] != '"' || s[n - 1] != '"' || !config_is_group_name(s + 1, n - 2))
		return reason_set(p->why, -EINVAL,
				  "a %s begins with [%s \"NAME\"]; a name has letters, digits, - and _, at most %d",
				  what[section], config_sections[section], CONFIG_GROUP_NAME_MAX);

	r = add_named(p, section, s + 1, n - 2);
	if (r == -E2BIG)
		return reason_set(p->why, -EINVAL, "more than %d %ss",
				  section == SECTION_CAPTURE ? CONFIG_MAX_CAPTURES : CONFIG_MAX_ENTRIES,
				  config_sections[section]);
	if (r < 0)
		return r;
	p->section = section;
	return 0;
}

/* The section whose name is the first n bytes; _SECTION_MAX: none. */
static enum config_section find_section(const char *name, size_t n)
{
	unsigned i = 0;

	while (i < _SECTION_MAX && (strlen(config_sections[i]) != n || memcmp(config_sections[i], name, n)))
		i++;
	return (enum config_section)i;
}

/* The line "[…]". libinih would cut the name at 49 characters and accept any text behind the section. */
static int enter_section(struct parser *p, const char *s, size_t n)
{
	const char *close = memchr(s, ']', n);
	size_t length, after, word;
	enum config_section section;

	if (!close)
		return reason_set(p->why, -EINVAL, "this section has no ']' at its end");
	length = (size_t)(close - s) - 1;
	after = skip_space(s, n, length + 2);
	if (after < n && s[after] != ';' && s[after] != '#')
		return reason_set(p->why, -EINVAL, "there is text after the section; keys go on lines of their own");

	s++;
	for (word = 0; word < length && !isspace((unsigned char)s[word]) && s[word] != '"'; word++)
		;
	p->key = NULL;
	section = find_section(s, word);
	if (config_is_named(section)) {
		size_t at = skip_space(s, length, word);

		return enter_named(p, section, s + at, length - at);
	}
	if (section != _SECTION_MAX && word == length) {
		p->section = section;
		return 0;
	}
	return fail_unknown(p, "there is no section", s, length, config_sections, _SECTION_MAX);
}

/* --- lines */

/* Does the line begin with a key of the section, or is it a section? Many people indent those, and an indented one does
 * not continue the value before it. */
static bool begins_anew(const struct parser *p, const char *s, size_t n)
{
	size_t word = 0, at;

	if (s[0] == '[') {
		while (word + 1 < n && isalnum((unsigned char)s[word + 1]))
			word++;
		return find_section(s + 1, word) != _SECTION_MAX;
	}

	while (word < n && !isspace((unsigned char)s[word]) && s[word] != '=' && s[word] != ':')
		word++;
	at = skip_space(s, n, word);
	return at < n && (s[at] == '=' || s[at] == ':') && config_key_find(p->section, s, word);
}

/* The length of the line without a comment at its end. All versions of libinih cut comments behind a value, but not all
 * cut those in the lines that continue it. */
static size_t without_comment(const char *s, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if ((s[i] == ';' || s[i] == '#') && isspace((unsigned char)s[i - 1]))
			return i;
	return n;
}

static bool next_line(struct parser *p, const char **ret, size_t *ret_n)
{
	const char *newline;

	if (p->rest == p->end)
		return false;
	newline = memchr(p->rest, '\n', (size_t)(p->end - p->rest));
	*ret = p->rest;
	*ret_n = (size_t)((newline ? newline : p->end) - p->rest);
	p->rest = newline ? newline + 1 : p->end;
	p->line++;
	return true;
}

/* Finds out which kind of line it is; *n is 0 for one that libinih need not see. A line that continues a value keeps
 * one space in front, by which libinih knows it. */
static int prepare_line(struct parser *p, const char **s, size_t *n)
{
	size_t at;

	if (memchr(*s, '\0', *n))
		return reason_set(p->why, -EINVAL, "there is a NUL byte in this line; this is not a text file");
	at = skip_space(*s, *n, 0);
	if (at == *n || (*s)[at] == '#' || (*s)[at] == ';') {
		*n = 0;
		return 0;
	}
	p->goes_on = at > 0 && p->key && !begins_anew(p, *s + at, *n - at);
	if (p->goes_on) {
		at--;
		*n = without_comment(*s, *n);
	}
	*s += at;
	*n -= at;
	return (*s)[0] == '[' ? enter_section(p, *s, *n) : 0;
}

/* Hands out one line, in the manner of fgets(3). size has room for the longest (prepare_library()). */
static char *read_line(char *line, int size, void *stream)
{
	struct parser *p = stream;
	const char *s;
	size_t n;

	do {
		if (p->error || !next_line(p, &s, &n))
			return NULL;
		p->error = prepare_line(p, &s, &n);
		if (p->error)
			return NULL;
	} while (n == 0);

	if (n + 2 > (size_t)size) {
		p->error = reason_set(p->why, -EINVAL, "this line is too long");
		return NULL;
	}
	memcpy(line, s, n);
	memcpy(line + n, "\n", 2);
	return line;
}

/* A key and its value, or a further line of the last key's value. */
static int take_value(struct parser *p, const char *name, const char *text)
{
	const struct config_value value = {
		.text = text,
		.place = { .file = (char *)p->name, .line = p->line },
		.goes_on = p->goes_on,
		.defaults = p->defaults,
	};
	char excerpt[EXCERPT_MAX];
	int r;

	if (p->section == _SECTION_MAX)
		return reason_set(p->why, -EINVAL, "'%s' stands before the first [section]",
				  text_excerpt(excerpt, name));
	if (p->goes_on && !config_key_goes_on(p->key))
		return reason_set(p->why, -EINVAL,
				  "an indented line adds to the value above it, which '%s' does not take; begin the "
				  "line without spaces",
				  p->key->name);
	if (!p->goes_on)
		p->key = config_key_find(p->section, name, strlen(name));
	if (!p->key)
		return fail_unknown_key(p, name);

	r = config_value_set(config_is_named(p->section) ? named_object(p) : p->config, p->key, &value, p->why);
	return r == -EINVAL ? reason_prefix(p->why, r, "%s", p->key->name) : r;
}

static int on_value(void *user, _unused_ const char *section, const char *name, const char *text)
{
	struct parser *p = user;

	p->error = take_value(p, name, text);
	return p->error == 0;
}

/* --- the library */

static int longest_line(const char *text, size_t size)
{
	size_t longest = 0;

	for (size_t at = 0; at < size;) {
		const char *newline = memchr(text + at, '\n', size - at);
		size_t n = newline ? (size_t)(newline - text) - at : size - at;

		if (n > longest)
			longest = n;
		at += n + 1;
	}
	return (int)longest;
}

/* libinih's settings are variables of the whole process; this is the only user. Its buffer is made for
 * the longest line at once. */
static void prepare_library(const char *text, size_t size)
{
	ini_use_stack = false;
	ini_allow_realloc = false;
	ini_max_line = ini_initial_alloc = longest_line(text, size) + 3;
	ini_allow_multiline = true;
	ini_allow_no_value = false;
	ini_allow_inline_comments = true;
	ini_inline_comment_prefixes = (char *)";#";
	ini_start_comment_prefixes = (char *)";#";
	ini_stop_on_first_error = true;
}

int config_apply(struct config *config, const char *name, const char *text, size_t size, bool defaults,
		 struct reason *why)
{
	struct parser p = {
		.config = config,
		.name = name,
		.defaults = defaults,
		.rest = text,
		.end = size ? text + size : text,
		.section = _SECTION_MAX,
		.why = why,
	};
	int r;

	if (size > CONFIG_MAX_SIZE)
		return reason_set(why, -EINVAL, "%s is larger than %d MiB; this is not a configuration file", name,
				  CONFIG_MAX_SIZE / 1024 / 1024);

	if (size == 0)
		return 0;
	prepare_library(text, size);
	r = ini_parse_stream(read_line, &p, on_value, &p);
	if (p.error == 0 && r > 0)
		p.error = reason_set(why, -EINVAL, "this line is neither KEY = VALUE nor [section]");
	if (r < 0 || p.error == -ENOMEM)
		return reason_set(why, -ENOMEM, "%s: out of memory", name);
	if (p.error)
		return reason_prefix(why, p.error, "%s:%u", name, p.line);
	return 0;
}
