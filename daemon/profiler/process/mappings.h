/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The executable mappings of a process: which file's code is at which address. A forked process shares its parent's
 * until one of them changes; so they are counted references, and are copied before a change.
 *
 * There is no record of munmap(2): a later mapping takes the place of what it overlaps.
 */

#include "base/elf/module.h"

struct mapping {
	uint64_t start, size, offset; /* offset: of start, in the file */
	struct module *module;	      /* a reference */
};

struct mappings;

/* Without any, and with one reference. *account (which outlives it) is the number of mappings that there is room for in
 * all that count there. NULL: no memory. */
struct mappings *mappings_new(size_t *account);
struct mappings *mappings_ref(struct mappings *mappings);
struct mappings *mappings_unref(struct mappings *mappings);
DEFINE_CLEANUP(struct mappings *, mappings_unref)

/* Puts a mapping into *mappings, which others may share: it is copied then. Takes a reference to the module. -ENOMEM;
 * -E2BIG: there are too many. */
int mappings_put(struct mappings **mappings, uint64_t start, uint64_t size, uint64_t offset, struct module *module);

/* The mapping at an address, or NULL. */
const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address);

/* The first mapping of a file, or NULL. */
const struct mapping *mappings_of(const struct mappings *mappings, const struct module_key *key, const char *path);

size_t mappings_nr(const struct mappings *mappings);
/* One of them, by its number in the order of addresses. */
const struct mapping *mappings_get(const struct mappings *mappings, size_t i);
