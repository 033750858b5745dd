/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The functions of files that samples are in. A file is read once, when it is first asked for, one file after the other
 * (list-maker.h), and its list is kept in a bound of memory: the one that was not used for the longest time goes, and
 * is made again when it is needed. Of a file whose functions take too much, those of the places that were asked for are
 * listed, a batch after the other. A file that could not be read is tried again later.
 */

#include "base/util/cleanup.h"
#include "profiler/naming/list-maker.h"

/* Files whose functions are known, or why they are not. */
#define FUNCTION_LISTS_MAX 4096

struct function_lists;

struct function_lists_stats {
	size_t bytes, files; /* now */
	uint64_t made;	     /* ever */
	uint64_t cpu_ns;     /* of the children that have ended */
};

/* limit: bytes of all lists; a list has at most half of it. -ENOMEM, or the error of epoll_create(2). */
int function_lists_new(struct function_lists **ret, const struct list_roots *roots, size_t limit);
struct function_lists *function_lists_free(struct function_lists *lists);
DEFINE_CLEANUP(struct function_lists *, function_lists_free)

/* The list that has the function at a place of a file, or says why it has no name; until the next turn. NULL: it is
 * being made, or will be. */
const struct function_list *function_lists_find(struct function_lists *lists, const struct module_key *key,
						const char *path, uint64_t place);

/* Readable when a child has ended. It stays the lists'. */
int function_lists_fd(const struct function_lists *lists);

/* Takes a list that was made, and has the next one made. True: there is another one. */
bool function_lists_turn(struct function_lists *lists, const struct processes *processes);

/* Forgets the files that are not used any more. */
void function_lists_tidy(struct function_lists *lists,
			 bool (*is_used)(const void *userdata, const struct module_key *key, const char *path),
			 const void *userdata);

struct function_lists_stats function_lists_stats(const struct function_lists *lists);
