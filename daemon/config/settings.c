/* SPDX-License-Identifier: MIT */

#include "config/settings.h"

#include <errno.h>
#include <string.h>

/* Where the texts and the lists are in struct config, so that freeing and copying need not name each. */
static const size_t text_offsets[] = {
	offsetof(struct config, procfs),       offsetof(struct config, sysfs), offsetof(struct config, tls_certificate),
	offsetof(struct config, tls_key),      offsetof(struct config, users), offsetof(struct config, cors_origin),
	offsetof(struct config, cgroup_mount),
};

static const size_t list_offsets[] = {
	offsetof(struct config, listen),      offsetof(struct config, cpu_groups),
	offsetof(struct config, cpu_exclude), offsetof(struct config, cgroup_groups),
	offsetof(struct config, include),     offsetof(struct config, exclude),
};

/* --- groups */

static void group_release(struct config_group *group)
{
	free(group->name);
	free(group->events);
	config_place_release(&group->place);
	config_place_release(&group->events_place);
	*group = (struct config_group){};
}

static int group_copy(struct config_group *ret, const struct config_group *group)
{
	_cleanup_(group_release) struct config_group copy = { .alone = group->alone, .split = group->split };
	int r;

	copy.name = strdup(group->name);
	copy.events = strdup(group->events);
	if (!copy.name || !copy.events)
		return -ENOMEM;
	r = config_place_set(&copy.place, group->place.file, group->place.line);
	if (r == 0 && group->events_place.file)
		r = config_place_set(&copy.events_place, group->events_place.file, group->events_place.line);
	if (r < 0)
		return r;

	*ret = steal_struct(copy);
	return 0;
}

static struct config_group *group_find(const struct config *config, const char *name, size_t n)
{
	for (size_t i = 0; i < config->nr_groups; i++)
		if (strncmp(config->groups[i].name, name, n) == 0 && !config->groups[i].name[n])
			return &config->groups[i];
	return NULL;
}

const struct config_group *config_find_group(const struct config *config, const char *name)
{
	return group_find(config, name, strlen(name));
}

/* Without events, which have to be given; split, which is the default of its key. */
static int group_append(struct config *config, const char *name, size_t n, struct config_group **ret)
{
	_cleanup_(group_release) struct config_group new = { .split = true };

	if (config->nr_groups >= CONFIG_MAX_ENTRIES)
		return -E2BIG;
	if (!config_array_grow(&config->groups, config->nr_groups, sizeof(*config->groups)))
		return -ENOMEM;
	new.name = strndup(name, n);
	new.events = strdup("");
	if (!new.name || !new.events)
		return -ENOMEM;

	*ret = &config->groups[config->nr_groups++];
	**ret = steal_struct(new);
	return 0;
}

int config_add_group(struct config *config, const char *name, size_t n, const struct config_place *place,
		     struct config_group **ret)
{
	_cleanup_(config_place_release) struct config_place copy = {};
	struct config_group *group = group_find(config, name, n);
	int r = config_place_set(&copy, place->file, place->line);

	if (r == 0 && !group)
		r = group_append(config, name, n, &group);
	if (r < 0)
		return r;
	config_place_release(&group->place);
	group->place = steal_struct(copy);
	*ret = group;
	return 0;
}

/* --- the whole */

static struct config_text *text_at(const struct config *config, size_t i)
{
	return (struct config_text *)((char *)(uintptr_t)config + text_offsets[i]);
}

static struct config_list *list_at(const struct config *config, size_t i)
{
	return (struct config_list *)((char *)(uintptr_t)config + list_offsets[i]);
}

void config_release(struct config *config)
{
	for (size_t i = 0; i < ARRAY_SIZE(text_offsets); i++)
		config_text_release(text_at(config, i));
	for (size_t i = 0; i < ARRAY_SIZE(list_offsets); i++)
		config_list_release(list_at(config, i));
	for (size_t i = 0; i < config->nr_groups; i++)
		group_release(&config->groups[i]);
	free(config->groups);
	*config = (struct config){};
}

struct config *config_free(struct config *config)
{
	if (!config)
		return NULL;
	config_release(config);
	free(config);
	return NULL;
}

static int copy_texts(struct config *ret, const struct config *config)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(text_offsets); i++) {
		const struct config_text *text = text_at(config, i);

		if (text->text)
			r = config_text_set(text_at(ret, i), text->text, &text->place);
	}
	return r;
}

static int copy_lists(struct config *ret, const struct config *config)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(list_offsets); i++)
		r = config_list_copy(list_at(ret, i), list_at(config, i));
	return r;
}

static int copy_groups(struct config *ret, const struct config *config)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < config->nr_groups; i++) {
		if (!config_array_grow(&ret->groups, i, sizeof(*ret->groups)))
			return -ENOMEM;
		r = group_copy(&ret->groups[i], &config->groups[i]);
		ret->nr_groups += r == 0;
	}
	return r;
}

int config_copy(struct config *ret, const struct config *config)
{
	_cleanup_(config_release) struct config copy = *config;
	int r;

	/* Owned members are copied; the others are plain values. */
	for (size_t i = 0; i < ARRAY_SIZE(text_offsets); i++)
		*text_at(&copy, i) = (struct config_text){};
	for (size_t i = 0; i < ARRAY_SIZE(list_offsets); i++)
		*list_at(&copy, i) = (struct config_list){};
	copy.groups = NULL;
	copy.nr_groups = 0;

	r = copy_texts(&copy, config);
	if (r == 0)
		r = copy_lists(&copy, config);
	if (r == 0)
		r = copy_groups(&copy, config);
	if (r < 0)
		return r;

	*ret = steal_struct(copy);
	return 0;
}
