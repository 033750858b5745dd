/* SPDX-License-Identifier: MIT */

#include "config/list.h"

#include <errno.h>
#include <string.h>

int config_place_set(struct config_place *ret, const char *file, unsigned line)
{
	char *copy = strdup(file);

	if (!copy)
		return -ENOMEM;
	free(ret->file);
	*ret = (struct config_place){ .file = copy, .line = line };
	return 0;
}

void config_place_release(struct config_place *place)
{
	free(place->file);
	*place = (struct config_place){};
}

int config_text_set(struct config_text *ret, const char *text, const struct config_place *place)
{
	char *copy = strdup(text);

	if (!copy)
		return -ENOMEM;
	free(ret->text);
	ret->text = copy;
	return config_place_set(&ret->place, place->file, place->line);
}

void config_text_release(struct config_text *text)
{
	free(text->text);
	config_place_release(&text->place);
	*text = (struct config_text){};
}

static bool is_text(const char *item, const char *text, size_t n)
{
	return strncmp(item, text, n) == 0 && !item[n];
}

/* Room for one more in an array that grows by doubling. */
static bool make_room(void *array, size_t nr, size_t size)
{
	void *larger;

	if (nr & (nr - 1))
		return true;
	larger = reallocarray(*(void **)array, nr ? nr * 2 : 1, size);
	if (!larger)
		return false;
	*(void **)array = larger;
	return true;
}

int config_list_add(struct config_list *list, const char *text, size_t n, const struct config_place *place)
{
	struct config_place copy = {};
	char *item;
	int r;

	if (list->nr >= CONFIG_MAX_ENTRIES)
		return -E2BIG;
	if (!make_room(&list->items, list->nr, sizeof(*list->items)) ||
	    !make_room(&list->places, list->nr, sizeof(*list->places)))
		return -ENOMEM;
	r = config_place_set(&copy, place->file, place->line);
	if (r < 0)
		return r;
	item = strndup(text, n);
	if (!item) {
		config_place_release(&copy);
		return -ENOMEM;
	}

	list->items[list->nr] = item;
	list->places[list->nr] = copy;
	list->nr++;
	return 0;
}

bool config_list_has(const struct config_list *list, const char *text, size_t n)
{
	for (size_t i = 0; i < list->nr; i++)
		if (is_text(list->items[i], text, n))
			return true;
	return false;
}

void config_list_release(struct config_list *list)
{
	for (size_t i = 0; i < list->nr; i++) {
		free(list->items[i]);
		config_place_release(&list->places[i]);
	}
	free(list->items);
	free(list->places);
	*list = (struct config_list){};
}

bool config_list_equal(const struct config_list *a, const struct config_list *b)
{
	if (a->nr != b->nr)
		return false;
	for (size_t i = 0; i < a->nr; i++)
		if (strcmp(a->items[i], b->items[i]))
			return false;
	return true;
}

bool config_list_share(const struct config_list *a, const struct config_list *b)
{
	for (size_t i = 0; i < a->nr; i++)
		if (config_list_has(b, a->items[i], strlen(a->items[i])))
			return true;
	return false;
}

int config_list_copy(struct config_list *ret, const struct config_list *list)
{
	_cleanup_(config_list_release) struct config_list copy = { .is_default = list->is_default };

	for (size_t i = 0; i < list->nr; i++) {
		int r = config_list_add(&copy, list->items[i], strlen(list->items[i]), &list->places[i]);

		if (r < 0)
			return r;
	}
	*ret = copy;
	copy = (struct config_list){};
	return 0;
}

int config_take_group(struct config *config, const char *name, size_t n, const struct config_place *place,
		      struct config_group **ret)
{
	_cleanup_(config_group_release) struct config_group new = { .split = true };
	int r;

	for (size_t i = 0; i < config->nr_groups; i++)
		if (is_text(config->groups[i].name, name, n)) {
			*ret = &config->groups[i];
			return config_place_set(&config->groups[i].place, place->file, place->line);
		}

	if (config->nr_groups >= CONFIG_MAX_ENTRIES)
		return -E2BIG;
	if (!make_room(&config->groups, config->nr_groups, sizeof(*config->groups)))
		return -ENOMEM;
	r = config_place_set(&new.place, place->file, place->line);
	if (r < 0)
		return r;
	new.name = strndup(name, n);
	new.events = strdup("");
	if (!new.name || !new.events)
		return -ENOMEM;

	*ret = &config->groups[config->nr_groups++];
	**ret = new;
	new = (struct config_group){};
	return 0;
}

int config_group_copy(struct config_group *ret, const struct config_group *group)
{
	_cleanup_(config_group_release) struct config_group copy = { .alone = group->alone,
								  .split = group->split };
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

	*ret = copy;
	copy = (struct config_group){};
	return 0;
}

void config_group_release(struct config_group *group)
{
	free(group->name);
	free(group->events);
	config_place_release(&group->place);
	config_place_release(&group->events_place);
	*group = (struct config_group){};
}
