/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A table of equal-sized entries, each of which exists once: an entry is found by its key, or added, and then has a
 * number by which others refer to it. Number 0 is nobody's.
 *
 * Every entry begins with the number of the age in which it was last used. Entries that were not used since an age are
 * removed all at once (table_sweep()); their numbers are given to others. A table grows by small steps, each of which
 * its owner's budget has to allow.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
	size_t size;	  /* of an entry, whose first member is uint32_t last; 0: it is not in use */
	size_t key, keys; /* the key's place in the entry, and its size */
	unsigned char *entries;
	uint32_t nr, cap; /* nr: with those that are free, and number 0 */
	uint32_t free, nr_free;
	uint32_t *slots; /* numbers by hash, a power of two of them; 0: free */
	uint32_t nr_slots;
};

/* For entries of a struct, with a key between two of its members. */
#define TABLE_OF(type, first, last)                                                                                    \
	{                                                                                                              \
		.size = sizeof(type), .key = offsetof(type, first),                                                    \
		.keys = offsetof(type, last) + sizeof(((type *)0)->last) - offsetof(type, first),                      \
	}

void table_release(struct table *table);
/* Bytes allocated. */
size_t table_bytes(const struct table *table);
/* Entries in use. */
uint32_t table_nr(const struct table *table);

/* The numbers of entries are below it. */
uint32_t table_end(const struct table *table);

/* The entry of that number, until the next one is added. */
void *table_at(const struct table *table, uint32_t number);

/*
 * The number of the entry that has the key of `entry`, which is used in this age from now on; if there is none, a copy
 * of `entry` is added. *budget: bytes by which the table may grow; taken away from. -ENOSPC: it had to grow by more.
 * -ENOMEM.
 */
int table_put(struct table *table, const void *entry, uint32_t age, size_t *budget, uint32_t *ret, bool *ret_new);

/* The same, without adding; 0: there is none. */
uint32_t table_find(const struct table *table, const void *entry);

/* Removes entries that were last used before that age; leaving() is called for each before, or is NULL. */
void table_sweep(struct table *table, uint32_t age, void (*leaving)(void *userdata, void *entry), void *userdata);
