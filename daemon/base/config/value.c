/* SPDX-License-Identifier: MIT */

#include "base/config/value.h"

#include "base/config/address.h"
#include "base/config/capture-rule.h"
#include "base/config/settings.h"
#include "base/util/cpulist.h"
#include "base/util/glob.h"
#include "base/util/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

/* Bytes of events in indented lines, each of which copies the lines before it. */
#define MAX_JOINED (64 * 1024)

static int set_bool(bool *ret, const char *text, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	if (parse_bool(text, ret) < 0)
		return reason_set(why, -EINVAL, "'%s' is neither yes nor no", text_excerpt(excerpt, text));
	return 0;
}

static int set_bounded(uint64_t *ret, const struct config_key *key, const char *text, struct reason *why)
{
	static const struct {
		int (*parse)(const char *text, uint64_t *ret);
		const char *what;
	} kinds[] = {
		[VALUE_NUMBER] = { parse_u64, "whole number" },
		[VALUE_DURATION] = { parse_duration, "duration; write for example 250ms, 1s or 5min" },
		[VALUE_SIZE] = { parse_size, "size; write for example 65536, 64KiB or 1MiB" },
		[VALUE_SHARE] = { parse_share, "share; write for example 1% or 0.5%" },
	};
	char excerpt[EXCERPT_MAX];
	uint64_t v;
	int r;

	r = kinds[key->type].parse(text, &v);
	if (r == -EINVAL)
		return reason_set(why, -EINVAL, "'%s' is not a %s", text_excerpt(excerpt, text), kinds[key->type].what);
	if (r < 0 || v < key->min || v > key->max)
		return reason_set(why, -EINVAL, "%s is out of bounds; %s is allowed", text_excerpt(excerpt, text),
				  key->bounds);
	if (key->step && v % key->step)
		return reason_set(why, -EINVAL, "%s is not a multiple of %u", text_excerpt(excerpt, text),
				  (unsigned)key->step);
	*ret = v;
	return 0;
}

/* As browsers send it (RFC 6454): in lower case, and with nothing behind the host and its port. */
static int check_origin(const char *text, struct reason *why)
{
	char excerpt[EXCERPT_MAX];
	const char *host = strstr(text, "://");

	host = host ? host + 3 : text;
	if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
		host = "";
	if (!*host || host[strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789-._:[]")])
		return reason_set(why, -EINVAL,
				  "'%s' is not an origin; write https://grafana.example or http://host:3000",
				  text_excerpt(excerpt, text));
	return 0;
}

static int check_path(const char *text, size_t min, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	if (strlen(text) < min)
		return reason_set(why, -EINVAL, "a path is missing");
	if (text[0] != '/')
		return reason_set(why, -EINVAL, "'%s' is not an absolute path", text_excerpt(excerpt, text));
	if (strlen(text) >= PATH_MAX)
		return reason_set(why, -EINVAL, "'%s' is longer than %d bytes", text_excerpt(excerpt, text),
				  PATH_MAX - 1);
	return 0;
}

static int check_rule(const char *text, struct reason *why)
{
	_cleanup_(capture_rule_release) struct capture_rule rule = {};

	return capture_rule_parse(&rule, text, why);
}

static int set_text(struct config_text *ret, const struct config_key *key, const struct config_value *value,
		    struct reason *why)
{
	int r = 0;

	if (key->type == VALUE_ORIGIN && *value->text)
		r = check_origin(value->text, why);
	else if (key->type == VALUE_PATH && (*value->text || key->min))
		r = check_path(value->text, key->min, why);
	else if (key->type == VALUE_RULE)
		r = check_rule(value->text, why);
	return r < 0 ? r : config_text_set(ret, value->text, &value->place);
}

/* --- lists */

/* Takes the next word off *text; its length is 0 at the end. */
static size_t next_word(const char **text, enum value_type type, const char **word)
{
	const char *separators = type == VALUE_GROUPS ? " \t\r\f\v," : " \t\r\f\v", *p;

	if (type == VALUE_ADDRESS) {
		*word = *text;
		*text += strlen(*text);
		return (size_t)(*text - *word);
	}

	p = *text + strspn(*text, separators);
	*word = p;
	while (*p && !strchr(separators, *p))
		p += p[0] == '\\' && p[1] && type == VALUE_GLOBS ? 2 : 1;
	*text = p;
	return (size_t)(p - *word);
}

static int check_cpus(const char *text, struct reason *why)
{
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	char excerpt[EXCERPT_MAX];
	int r;

	if (strcmp(text, "isolated") == 0 || strcmp(text, "nohz_full") == 0)
		return 0;
	r = cpulist_parse(&cpus, text);
	if (r == -EINVAL)
		return reason_set(why, r, "'%s' is neither a list of CPUs such as 1,3-5, nor isolated or nohz_full",
				  text_excerpt(excerpt, text));
	return r;
}

static int check_word(const char *word, size_t n, enum value_type type, struct reason *why)
{
	_cleanup_(freep) char *copy = strndup(word, n);
	char excerpt[EXCERPT_MAX];

	if (!copy)
		return -ENOMEM;
	if (type == VALUE_ADDRESS)
		return address_check(copy, why);
	if (type == VALUE_CPUS)
		return check_cpus(copy, why);
	if (type == VALUE_PATHS)
		return check_path(copy, 1, why);
	if (type == VALUE_GROUPS && !config_is_group_name(word, n))
		return reason_set(why, -EINVAL,
				  "'%s' is not the name of a group (letters, digits, - and _, at most %d)",
				  text_excerpt(excerpt, copy), CONFIG_GROUP_NAME_MAX);
	if (type == VALUE_GLOBS && !strchr("/*?[\\", word[0]))
		return reason_set(why, -EINVAL,
				  "'%s' matches nothing, as the paths of cgroups begin with '/'; write "
				  "'/%s' or '**/%s'",
				  text_excerpt(excerpt, copy), excerpt, excerpt);
	if ((type == VALUE_GLOBS || type == VALUE_NAMES) && n > GLOB_MAX)
		return reason_set(why, -EINVAL, "'%s' is longer than %d bytes", text_excerpt(excerpt, copy), GLOB_MAX);
	return 0;
}

static int set_list(struct config_list *list, const struct config_key *key, const struct config_value *value,
		    struct reason *why)
{
	size_t n, max = key->max ? key->max : CONFIG_MAX_ENTRIES;
	const char *text = value->text, *word;
	int r;

	if (!*text || (list->is_default && !value->defaults))
		config_list_release(list);

	while ((n = next_word(&text, key->type, &word))) {
		r = check_word(word, n, key->type, why);
		if (r < 0)
			return r;
		if (config_list_has(list, word, n))
			continue;
		r = list->nr >= max ? -E2BIG : config_list_add(list, word, n, &value->place);
		if (r == -E2BIG)
			return reason_set(why, -EINVAL, "more than %zu values", max);
		if (r < 0)
			return r;
	}
	list->is_default = value->defaults;
	return 0;
}

static int set_events(struct config_group *group, const struct config_value *value, struct reason *why)
{
	char *joined;

	if (value->goes_on && strlen(group->events) + strlen(value->text) > MAX_JOINED)
		return reason_set(why, -EINVAL, "more than %d bytes in indented lines; make several groups",
				  MAX_JOINED);
	if (!value->goes_on || !*group->events)
		joined = strdup(value->text);
	else if (asprintf(&joined, "%s %s", group->events, value->text) < 0)
		joined = NULL;
	if (!joined)
		return -ENOMEM;
	free(group->events);
	group->events = joined;
	return value->goes_on ? 0 : config_place_set(&group->events_place, value->place.file, value->place.line);
}

static int set_engine(uint64_t *ret, const char *text, struct reason *why)
{
	static const char *const names[] = {
		[CONFIG_ENGINE_AUTO] = "auto",
		[CONFIG_ENGINE_BPF] = "bpf",
		[CONFIG_ENGINE_PERF] = "perf",
	};
	char excerpt[EXCERPT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(text, names[i]) == 0) {
			*ret = i;
			return 0;
		}
	return reason_set(why, -EINVAL, "'%s' is no engine; write auto, bpf or perf", text_excerpt(excerpt, text));
}

int config_value_set(void *object, const struct config_key *key, const struct config_value *value, struct reason *why)
{
	void *member = (char *)object + key->offset;

	switch (key->type) {
	case VALUE_BOOL:
		return set_bool(member, value->text, why);
	case VALUE_NUMBER:
	case VALUE_DURATION:
	case VALUE_SIZE:
	case VALUE_SHARE:
		return set_bounded(member, key, value->text, why);
	case VALUE_ENGINE:
		return set_engine(member, value->text, why);
	case VALUE_FILE:
	case VALUE_PATH:
	case VALUE_TEXT:
	case VALUE_ORIGIN:
	case VALUE_RULE:
		return set_text(member, key, value, why);
	case VALUE_GROUPS:
	case VALUE_GLOBS:
	case VALUE_NAMES:
	case VALUE_ADDRESS:
	case VALUE_CPUS:
	case VALUE_PATHS:
		return set_list(member, key, value, why);
	case VALUE_EVENTS:
		return set_events(object, value, why);
	}
	return -EINVAL;
}
