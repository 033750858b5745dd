/* SPDX-License-Identifier: MIT */

/* Config files: the bytes are one or more of them, a file separator (0x1c) apart, read one on top of the
 * other. */

#include "fuzz.h"

#include "base/config/config.h"
#include "base/config/value.h"

#include <errno.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static void check_list(const struct config_list *list, unsigned lines)
{
	for (size_t i = 0; i < list->nr; i++) {
		CHECK(*list->items[i]);
		CHECK(list->is_default == (strcmp(list->places[i].file, "built-in defaults") == 0));
		CHECK(list->places[i].line >= 1 && (list->is_default || list->places[i].line <= lines));
		for (size_t j = 0; j < i; j++)
			CHECK(strcmp(list->items[i], list->items[j]));
	}
}

static void check_values(const struct config *config, unsigned lines)
{
	CHECK(config->interval >= SECOND / 100 && config->interval <= 3600 * SECOND);
	CHECK(config->linger <= 24 * 3600 * SECOND);
	CHECK(config->cgroup_max <= 1000000);
	check_list(&config->listen, lines);
	check_list(&config->cpu_groups, lines);
	check_list(&config->cgroup_groups, lines);
	check_list(&config->include, lines);
	check_list(&config->exclude, lines);
	for (size_t i = 0; i < config->listen.nr; i++)
		CHECK(address_check(config->listen.items[i], NULL) == 0);
	for (size_t i = 0; i < config->cpu_groups.nr; i++)
		CHECK(config_is_group_name(config->cpu_groups.items[i], strlen(config->cpu_groups.items[i])));
	for (size_t i = 0; i < config->nr_groups; i++) {
		const struct config_group *group = &config->groups[i];

		CHECK(config_is_group_name(group->name, strlen(group->name)));
		CHECK(config_find_group(config, group->name) == group);
		CHECK(group->place.file && group->place.line);
		CHECK(!*group->events || group->events_place.file);
		CHECK(!strchr(group->events, '\n'));
	}
}

/* A short sentence on one line, which begins with the file and, but for what is about the whole, a line. */
static void check_sentence(const struct reason *why, const char *start)
{
	CHECK(strncmp(why->text, start, strlen(start)) == 0);
	CHECK(strlen(why->text) > strlen(start) + 5);
	for (const char *p = why->text; *p; p++)
		CHECK((unsigned char)*p >= 0x20 && *p != 0x7f);
}

static unsigned count_lines(const uint8_t *data, size_t size)
{
	unsigned lines = 1;

	for (size_t i = 0; i < size; i++)
		lines += data[i] == '\n';
	return lines;
}

static void parse(struct config *config, const uint8_t *data, size_t size)
{
	const struct config before = *config;
	struct reason why = {};
	int r = config_parse(config, "file", (const char *)data, size, &why);

	CHECK(r == 0 || r == -EINVAL);
	if (r == 0)
		return;
	check_sentence(&why, "file:");
	CHECK(memcmp(config, &before, sizeof(before)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(config_freep) struct config *config = NULL;
	unsigned lines = count_lines(data, size);
	struct reason why = {};

	CHECK(config_new(&config) == 0);
	for (;;) {
		const uint8_t *separator = size ? memchr(data, 0x1c, size) : NULL;
		size_t n = separator ? (size_t)(separator - data) : size;

		parse(config, data, n);
		check_values(config, lines);
		if (!separator)
			break;
		data += n + 1;
		size -= n + 1;
	}
	if (config_check(config, &why) < 0)
		check_sentence(&why, "");
	return 0;
}
