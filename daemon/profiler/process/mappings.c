/* SPDX-License-Identifier: MIT */

#include "profiler/process/mappings.h"

#include "base/host/proc-maps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mappings {
	unsigned refs;
	size_t *account;
	size_t nr, cap;
	struct mapping *items; /* by start; none overlaps another */
};

struct mappings *mappings_new(size_t *account)
{
	struct mappings *mappings = calloc(1, sizeof(*mappings));

	if (!mappings)
		return NULL;
	mappings->refs = 1;
	mappings->account = account;
	return mappings;
}

struct mappings *mappings_ref(struct mappings *mappings)
{
	mappings->refs++;
	return mappings;
}

struct mappings *mappings_unref(struct mappings *mappings)
{
	if (!mappings || --mappings->refs)
		return NULL;
	for (size_t i = 0; i < mappings->nr; i++)
		module_unref(mappings->items[i].module);
	*mappings->account -= mappings->cap;
	free(mappings->items);
	free(mappings);
	return NULL;
}

/* Room for a mapping, and for the second half of one that it splits. */
static int make_room(struct mappings *mappings)
{
	size_t cap = mappings->nr + 2 + mappings->nr / 4;
	struct mapping *items;

	if (mappings->nr + 2 <= mappings->cap)
		return 0;
	items = reallocarray(mappings->items, cap, sizeof(*items));
	if (!items)
		return -ENOMEM;
	*mappings->account += cap - mappings->cap;
	mappings->items = items;
	mappings->cap = cap;
	return 0;
}

/* Makes *mappings this holder's own. */
static int make_own(struct mappings **mappings)
{
	_cleanup_(mappings_unrefp) struct mappings *copy = NULL;

	if ((*mappings)->refs == 1)
		return 0;
	copy = mappings_new((*mappings)->account);
	if (!copy)
		return -ENOMEM;
	copy->items = calloc((*mappings)->nr + 2, sizeof(*copy->items));
	if (!copy->items)
		return -ENOMEM;
	copy->cap = (*mappings)->nr + 2;
	*copy->account += copy->cap;
	for (; copy->nr < (*mappings)->nr; copy->nr++) {
		copy->items[copy->nr] = (*mappings)->items[copy->nr];
		module_ref(copy->items[copy->nr].module);
	}
	mappings_unref(*mappings);
	*mappings = steal_ptr(copy);
	return 0;
}

/* The first mapping that ends behind the address. */
static size_t find_place(const struct mappings *mappings, uint64_t address)
{
	size_t low = 0, high = mappings->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct mapping *mapping = &mappings->items[middle];

		if (mapping->start + mapping->size <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void insert_at(struct mappings *mappings, size_t at, const struct mapping *mapping)
{
	memmove(&mappings->items[at + 1], &mappings->items[at], (mappings->nr - at) * sizeof(*mapping));
	mappings->items[at] = *mapping;
	mappings->nr++;
}

static void remove_at(struct mappings *mappings, size_t at)
{
	module_unref(mappings->items[at].module);
	mappings->nr--;
	memmove(&mappings->items[at], &mappings->items[at + 1], (mappings->nr - at) * sizeof(*mappings->items));
}

/* Takes [start, end) out of the mappings; returns the place for one that begins at start. */
static size_t cut_out(struct mappings *mappings, uint64_t start, uint64_t end)
{
	size_t at = find_place(mappings, start);

	if (at < mappings->nr && mappings->items[at].start < start) {
		struct mapping *left = &mappings->items[at++], right = *left;

		left->size = start - left->start;
		if (right.start + right.size > end) {
			right.offset += end - right.start;
			right.size -= end - right.start;
			right.start = end;
			module_ref(right.module);
			insert_at(mappings, at, &right);
			return at;
		}
	}
	while (at < mappings->nr && mappings->items[at].start + mappings->items[at].size <= end)
		remove_at(mappings, at);
	if (at < mappings->nr && mappings->items[at].start < end) {
		struct mapping *right = &mappings->items[at];

		right->offset += end - right->start;
		right->size -= end - right->start;
		right->start = end;
	}
	return at;
}

int mappings_put(struct mappings **mappings, uint64_t start, uint64_t size, uint64_t offset, struct module *module)
{
	struct mapping mapping = { .start = start, .size = size, .offset = offset, .module = module };
	int r;

	if (size == 0 || size > UINT64_MAX - start)
		return 0;
	if ((*mappings)->nr >= MAPPINGS_MAX)
		return -E2BIG;
	r = make_own(mappings);
	if (r == 0)
		r = make_room(*mappings);
	if (r < 0)
		return r;
	module_ref(module);
	insert_at(*mappings, cut_out(*mappings, start, start + size), &mapping);
	return 0;
}

const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address)
{
	size_t at = find_place(mappings, address);

	return at < mappings->nr && mappings->items[at].start <= address ? &mappings->items[at] : NULL;
}

const struct mapping *mappings_of(const struct mappings *mappings, const struct module_key *key, const char *path)
{
	for (size_t i = 0; i < mappings->nr; i++)
		if (module_is(mappings->items[i].module, key, path))
			return &mappings->items[i];
	return NULL;
}

size_t mappings_nr(const struct mappings *mappings)
{
	return mappings->nr;
}

const struct mapping *mappings_get(const struct mappings *mappings, size_t i)
{
	return &mappings->items[i];
}
