/* SPDX-License-Identifier: MIT */

#include "base/config/list.h"

#include "base/util/cleanup.h"

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
	_cleanup_(freep) char *copy = strdup(text);
	int r = copy ? config_place_set(&ret->place, place->file, place->line) : -ENOMEM;

	if (r < 0)
		return r;
	free(ret->text);
	ret->text = steal_ptr(copy);
	return 0;
}

void config_text_release(struct config_text *text)
{
	free(text->text);
	config_place_release(&text->place);
	*text = (struct config_text){};
}

static bool item_is(const char *item, const char *text, size_t n)
{
	return strncmp(item, text, n) == 0 && !item[n];
}

bool config_array_grow(void *array, size_t nr, size_t size)
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
	if (!config_array_grow(&list->items, list->nr, sizeof(*list->items)) ||
	    !config_array_grow(&list->places, list->nr, sizeof(*list->places)))
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
		if (item_is(list->items[i], text, n))
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
	*ret = steal_struct(copy);
	return 0;
}
