/* SPDX-License-Identifier: MIT */

#include "config/value.h"

#include "config/list.h"
#include "util/cpulist.h"
#include "util/glob.h"
#include "util/text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/un.h>

#define MS UINT64_C(1000000)
#define HOUR (3600 * 1000 * MS)
#define KIB UINT64_C(1024)

/* Bytes of events in lines that go on. */
#define MAX_JOINED (64 * 1024)

const char *const config_sections[_SECTION_MAX] = {
	[SECTION_DAEMON] = "daemon", [SECTION_WEB] = "web",	[SECTION_CPU] = "cpu",
	[SECTION_CGROUP] = "cgroup", [SECTION_GROUP] = "group",
};

/* clang-format off */
const struct config_key config_keys[] = {
	{ .section = SECTION_DAEMON, .name = "interval", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, interval), .min = 10 * MS, .max = HOUR, .bounds = "10ms to 1h" },
	{ .section = SECTION_DAEMON, .name = "procfs", .type = VALUE_PATH,
	  .offset = offsetof(struct config, procfs), .min = 1 },
	{ .section = SECTION_DAEMON, .name = "sysfs", .type = VALUE_PATH,
	  .offset = offsetof(struct config, sysfs), .min = 1 },

	{ .section = SECTION_WEB, .name = "listen", .type = VALUE_ADDRESS,
	  .offset = offsetof(struct config, listen) },
	{ .section = SECTION_WEB, .name = "created", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, created) },
	{ .section = SECTION_WEB, .name = "peaks", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, peaks) },
	{ .section = SECTION_WEB, .name = "tls_certificate", .type = VALUE_FILE,
	  .offset = offsetof(struct config, tls_certificate) },
	{ .section = SECTION_WEB, .name = "tls_key", .type = VALUE_FILE,
	  .offset = offsetof(struct config, tls_key) },
	{ .section = SECTION_WEB, .name = "users", .type = VALUE_FILE,
	  .offset = offsetof(struct config, users) },
	{ .section = SECTION_WEB, .name = "cors_origin", .type = VALUE_ORIGIN,
	  .offset = offsetof(struct config, cors_origin) },
	{ .section = SECTION_WEB, .name = "max_connections", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config, max_connections), .min = 1, .max = 10000, .bounds = "1 to 10000" },
	{ .section = SECTION_WEB, .name = "max_connections_per_address", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config, max_connections_per_address), .min = 1, .max = 10000,
	  .bounds = "1 to 10000" },
	{ .section = SECTION_WEB, .name = "max_header_bytes", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, max_header_bytes), .min = KIB, .max = KIB * KIB,
	  .bounds = "1KiB to 1MiB" },
	{ .section = SECTION_WEB, .name = "request_timeout", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, request_timeout), .min = 1000 * MS, .max = HOUR, .bounds = "1s to 1h" },
	{ .section = SECTION_WEB, .name = "answer_timeout", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, answer_timeout), .min = 1000 * MS, .max = HOUR, .bounds = "1s to 1h" },
	{ .section = SECTION_WEB, .name = "idle_timeout", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, idle_timeout), .min = 1000 * MS, .max = HOUR, .bounds = "1s to 1h" },
	{ .section = SECTION_WEB, .name = "max_unsent_bytes", .type = VALUE_SIZE,
	  .offset = offsetof(struct config, max_unsent_bytes), .min = KIB * KIB, .max = 16 * KIB * KIB * KIB,
	  .bounds = "1MiB to 16GiB" },

	{ .section = SECTION_CPU, .name = "groups", .type = VALUE_GROUPS,
	  .offset = offsetof(struct config, cpu_groups) },
	{ .section = SECTION_CPU, .name = "aggregate", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, cpu_aggregate) },
	{ .section = SECTION_CPU, .name = "exclude", .type = VALUE_CPUS,
	  .offset = offsetof(struct config, cpu_exclude) },

	{ .section = SECTION_CGROUP, .name = "groups", .type = VALUE_GROUPS,
	  .offset = offsetof(struct config, cgroup_groups) },
	{ .section = SECTION_CGROUP, .name = "include", .type = VALUE_GLOBS,
	  .offset = offsetof(struct config, include) },
	{ .section = SECTION_CGROUP, .name = "exclude", .type = VALUE_GLOBS,
	  .offset = offsetof(struct config, exclude) },
	{ .section = SECTION_CGROUP, .name = "mount", .type = VALUE_PATH,
	  .offset = offsetof(struct config, cgroup_mount) },
	{ .section = SECTION_CGROUP, .name = "max", .type = VALUE_NUMBER,
	  .offset = offsetof(struct config, cgroup_max), .min = 0, .max = 1000000, .bounds = "0 to 1000000" },
	{ .section = SECTION_CGROUP, .name = "per_cpu", .type = VALUE_BOOL,
	  .offset = offsetof(struct config, cgroup_per_cpu) },
	{ .section = SECTION_CGROUP, .name = "linger", .type = VALUE_DURATION,
	  .offset = offsetof(struct config, linger), .min = 0, .max = 24 * HOUR, .bounds = "0s to 24h" },

	{ .section = SECTION_GROUP, .name = "events", .type = VALUE_EVENTS },
	{ .section = SECTION_GROUP, .name = "alone", .type = VALUE_BOOL,
	  .offset = offsetof(struct config_group, alone) },
	{ .section = SECTION_GROUP, .name = "split", .type = VALUE_BOOL,
	  .offset = offsetof(struct config_group, split) },
};
/* clang-format on */
const size_t config_nr_keys = ARRAY_SIZE(config_keys);

bool config_key_goes_on(const struct config_key *key)
{
	return key->type == VALUE_GROUPS || key->type == VALUE_GLOBS || key->type == VALUE_ADDRESS ||
	       key->type == VALUE_CPUS || key->type == VALUE_EVENTS;
}

bool config_is_group_name(const char *name, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '-' && name[i] != '_')
			return false;
	return n > 0 && n <= CONFIG_GROUP_NAME_MAX;
}

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
	};
	char excerpt[EXCERPT_MAX];
	uint64_t v;
	int r;

	r = kinds[key->type].parse(text, &v);
	if (r == -EINVAL)
		return reason_set(why, -EINVAL, "'%s' is no %s", text_excerpt(excerpt, text), kinds[key->type].what);
	if (r < 0 || v < key->min || v > key->max)
		return reason_set(why, -EINVAL, "%s is out of bounds; %s is allowed",
				  text_excerpt(excerpt, text), key->bounds);
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
		return reason_set(why, -EINVAL, "'%s' is no origin; write https://grafana.example or http://host:3000",
				  text_excerpt(excerpt, text));
	return 0;
}

static int check_path(const char *text, const struct config_key *key, struct reason *why)
{
	char excerpt[EXCERPT_MAX];

	if (strlen(text) < key->min)
		return reason_set(why, -EINVAL, "a path is missing");
	if (text[0] != '/')
		return reason_set(why, -EINVAL, "'%s' is no absolute path", text_excerpt(excerpt, text));
	if (strlen(text) >= PATH_MAX)
		return reason_set(why, -EINVAL, "'%s' is longer than %d bytes", text_excerpt(excerpt, text),
				  PATH_MAX - 1);
	return 0;
}

static int set_text(struct config_text *ret, const struct config_key *key, const struct config_value *value,
		    struct reason *why)
{
	int r = 0;

	if (key->type == VALUE_ORIGIN && *value->text)
		r = check_origin(value->text, why);
	else if (key->type == VALUE_PATH && (*value->text || key->min))
		r = check_path(value->text, key, why);
	return r < 0 ? r : config_text_set(ret, value->text, &value->place);
}

/* --- addresses */

static int check_port(const char *text, struct reason *why)
{
	uint64_t port;

	if (!isdigit((unsigned char)text[0]) || text[strspn(text, "0123456789")] ||
	    parse_u64(text, &port) < 0 || port > 65535)
		return reason_set(why, -EINVAL, "the port has to be a number from 0 to 65535");
	return 0;
}

static int check_unix_path(const char *path, struct reason *why)
{
	struct sockaddr_un address;

	if (strlen(path) >= sizeof(address.sun_path))
		return reason_set(why, -EINVAL, "the path of a Unix socket has at most %zu bytes",
				  sizeof(address.sun_path) - 1);
	return 0;
}

int config_check_listen(const char *text, struct reason *why)
{
	char host[INET6_ADDRSTRLEN], excerpt[EXCERPT_MAX];
	const char *colon = strrchr(text, ':'), *start = text;
	struct in6_addr address;
	bool v6 = text[0] == '[';
	size_t n;
	int r;

	if (text[0] == '/')
		return check_unix_path(text, why);

	n = colon ? (size_t)(colon - text) : 0;
	if (v6 && n > 1 && text[n - 1] == ']') {
		start++;
		n -= 2;
	}
	if (n == 0 || (v6 && start == text))
		return reason_set(
			why, -EINVAL,
			"'%s' is no address to listen on; write 127.0.0.1:9753, [::1]:9753, or the path "
			"of a Unix socket",
			text_excerpt(excerpt, text));

	(void)snprintf(host, sizeof(host), "%.*s", (int)(n < sizeof(host) ? n : 0), start);
	if (inet_pton(v6 ? AF_INET6 : AF_INET, host, &address) != 1)
		return reason_set(
			why, -EINVAL,
			"'%s' has no numeric address (names are not looked up); write 127.0.0.1:9753, "
			"[::1]:9753, or 0.0.0.0:9753 for all interfaces",
			text_excerpt(excerpt, text));
	r = check_port(colon + 1, why);
	return r < 0 ? reason_prefix(why, r, "'%s'", text_excerpt(excerpt, text)) : 0;
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
		return reason_set(why, r, "'%s' is no list of CPUs such as 1,3-5, nor one of isolated and nohz_full",
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
		return config_check_listen(copy, why);
	if (type == VALUE_CPUS)
		return check_cpus(copy, why);
	if (type == VALUE_GROUPS && !config_is_group_name(word, n))
		return reason_set(why, -EINVAL,
				  "'%s' is no name of a group (letters, digits, - and _, at most %d)",
				  text_excerpt(excerpt, copy), CONFIG_GROUP_NAME_MAX);
	if (type == VALUE_GLOBS && !strchr("/*?[\\", word[0]))
		return reason_set(why, -EINVAL,
				  "'%s' matches nothing, as the paths of cgroups begin with '/'; write "
				  "'/%s' or '**/%s'",
				  text_excerpt(excerpt, copy), excerpt, excerpt);
	if (type == VALUE_GLOBS && n > GLOB_MAX)
		return reason_set(why, -EINVAL, "'%s' is longer than %d bytes", text_excerpt(excerpt, copy), GLOB_MAX);
	return 0;
}

static int set_list(struct config_list *list, const struct config_key *key, const struct config_value *value,
		    struct reason *why)
{
	const char *text = value->text, *word;
	size_t n;
	int r;

	if (!*text || (list->is_default && !value->defaults))
		config_list_release(list);

	while ((n = next_word(&text, key->type, &word))) {
		r = check_word(word, n, key->type, why);
		if (r < 0)
			return r;
		if (config_list_has(list, word, n))
			continue;
		r = config_list_add(list, word, n, &value->place);
		if (r == -E2BIG)
			return reason_set(why, -EINVAL, "more than %d values", CONFIG_MAX_ENTRIES);
		if (r < 0)
			return r;
	}
	list->is_default = value->defaults;
	return 0;
}

static int set_events(struct config_group *group, const struct config_value *value, struct reason *why)
{
	char *joined;

	/* Each line that is added copies those before it. */
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
	return value->goes_on ? 0
			      : config_place_set(&group->events_place, value->place.file, value->place.line);
}

int config_value_set(void *object, const struct config_key *key, const struct config_value *value,
		     struct reason *why)
{
	void *member = (char *)object + key->offset;

	switch (key->type) {
	case VALUE_BOOL:
		return set_bool(member, value->text, why);
	case VALUE_NUMBER:
	case VALUE_DURATION:
	case VALUE_SIZE:
		return set_bounded(member, key, value->text, why);
	case VALUE_FILE:
	case VALUE_PATH:
	case VALUE_ORIGIN:
		return set_text(member, key, value, why);
	case VALUE_GROUPS:
	case VALUE_GLOBS:
	case VALUE_ADDRESS:
	case VALUE_CPUS:
		return set_list(member, key, value, why);
	case VALUE_EVENTS:
		return set_events(object, value, why);
	}
	return -EINVAL;
}
