/* SPDX-License-Identifier: MIT */

#include "profiler/archive/table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 64U
#define FIRST_SLOTS 128U

static unsigned char *entry_at(const struct table *table, uint32_t number)
{
	return table->entries + (size_t)number * table->size;
}

void *table_at(const struct table *table, uint32_t number)
{
	assert(number > 0 && number < table->nr);
	return entry_at(table, number);
}

static uint32_t entry_last(const struct table *table, uint32_t number)
{
	uint32_t last;

	memcpy(&last, entry_at(table, number), sizeof(last));
	return last;
}

/* The first member of a free entry is 0, and the second is the next free one. */
static uint32_t next_free(const struct table *table, uint32_t number)
{
	uint32_t next;

	memcpy(&next, entry_at(table, number) + sizeof(uint32_t), sizeof(next));
	return next;
}

static void set_free(struct table *table, uint32_t number)
{
	const uint32_t head[2] = { 0, table->free };

	memcpy(entry_at(table, number), head, sizeof(head));
	table->free = number;
	table->nr_free++;
}

void table_release(struct table *table)
{
	free(table->entries);
	free(table->slots);
	table->entries = NULL;
	table->slots = NULL;
	table->nr = table->cap = table->free = table->nr_free = table->nr_slots = 0;
}

size_t table_bytes(const struct table *table)
{
	return table->cap * table->size + table->nr_slots * sizeof(*table->slots);
}

uint32_t table_nr(const struct table *table)
{
	return table->nr ? table->nr - 1 - table->nr_free : 0;
}

uint32_t table_end(const struct table *table)
{
	return table->nr;
}

/* Keys are small and have no padding. */
static uint32_t hash_key(const struct table *table, const void *entry)
{
	const unsigned char *at = (const unsigned char *)entry + table->key;
	uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < table->keys; i += sizeof(uint32_t)) {
		uint32_t word;

		memcpy(&word, at + i, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0xff51afd7ed558ccd);
		hash ^= hash >> 32;
	}
	return (uint32_t)(hash ^ hash >> 29);
}

static bool is_same(const struct table *table, uint32_t number, const void *entry)
{
	return memcmp(entry_at(table, number) + table->key, (const unsigned char *)entry + table->key, table->keys) ==
	       0;
}

/* The slot of the entry with that key, or the free one where it would be. There is always a free one. */
static uint32_t *find_slot(const struct table *table, const void *entry)
{
	uint32_t mask = table->nr_slots - 1, at = hash_key(table, entry) & mask;

	while (table->slots[at] && !is_same(table, table->slots[at], entry))
		at = (at + 1) & mask;
	return &table->slots[at];
}

uint32_t table_find(const struct table *table, const void *entry)
{
	return table->nr_slots ? *find_slot(table, entry) : 0;
}

static int spend(size_t *budget, size_t bytes)
{
	if (bytes > *budget)
		return -ENOSPC;
	*budget -= bytes;
	return 0;
}

static void fill_slots(struct table *table)
{
	memset(table->slots, 0, table->nr_slots * sizeof(*table->slots));
	for (uint32_t number = 1; number < table->nr; number++)
		if (entry_last(table, number))
			*find_slot(table, entry_at(table, number)) = number;
}

/* At most three quarters of the slots are taken. */
static int grow_slots(struct table *table, size_t *budget)
{
	uint32_t nr = table->nr_slots ? table->nr_slots * 2 : FIRST_SLOTS;
	uint32_t *slots;

	if (table->nr_slots && table_nr(table) + 1 <= table->nr_slots / 4 * 3)
		return 0;
	if (nr < table->nr_slots || spend(budget, (nr - table->nr_slots) * sizeof(*slots)) < 0)
		return -ENOSPC;
	slots = calloc(nr, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(table->slots);
	table->slots = slots;
	table->nr_slots = nr;
	fill_slots(table);
	return 0;
}

static int grow_entries(struct table *table, size_t *budget)
{
	uint32_t cap = table->cap + table->cap / 4 + FIRST_CAP;
	unsigned char *entries;

	if (table->free || table->nr < table->cap)
		return 0;
	if (cap < table->cap || spend(budget, (cap - table->cap) * table->size) < 0)
		return -ENOSPC;
	entries = reallocarray(table->entries, cap, table->size);
	if (!entries)
		return -ENOMEM;
	table->entries = entries;
	table->cap = cap;
	if (table->nr == 0)
		memset(entry_at(table, table->nr++), 0, table->size); /* number 0 */
	return 0;
}

static uint32_t take_number(struct table *table)
{
	uint32_t number = table->free;

	if (!number)
		return table->nr++;
	table->free = next_free(table, number);
	table->nr_free--;
	return number;
}

int table_put(struct table *table, const void *entry, uint32_t age, size_t *budget, uint32_t *ret, bool *ret_new)
{
	uint32_t number = table_find(table, entry);
	int r = 0;

	assert(age > 0);
	*ret_new = !number;
	if (!number) {
		r = grow_slots(table, budget);
		if (r == 0)
			r = grow_entries(table, budget);
		if (r < 0)
			return r;
		number = take_number(table);
		memcpy(entry_at(table, number), entry, table->size);
		*find_slot(table, entry) = number;
	}
	/* A child that answers a question shares the page until it is written to. */
	if (entry_last(table, number) != age)
		memcpy(entry_at(table, number), &age, sizeof(age));
	*ret = number;
	return 0;
}

void table_sweep(struct table *table, uint32_t age, void (*leaving)(void *userdata, void *entry), void *userdata)
{
	for (uint32_t number = 1; number < table->nr; number++) {
		uint32_t last = entry_last(table, number);

		if (!last || last >= age)
			continue;
		if (leaving)
			leaving(userdata, entry_at(table, number));
		set_free(table, number);
	}
	if (table->nr_slots)
		fill_slots(table);
}
