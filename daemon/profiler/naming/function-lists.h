/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Lists of the functions of sampled files. A child makes the list of a file when the file is first asked for, one file
 * at a time (list-maker.h). All lists together have a limit of memory: the list that was not used for the longest time
 * is dropped, and made again when it is needed. If all functions of a file take too much memory, only the functions at
 * the places that were asked for are listed, batch by batch. A file that could not be read is tried again later.
 */

#include "base/util/cleanup.h"
#include "profiler/naming/list-maker.h"

/* The most files that are known, each with a list, or with the reason why it has none. */
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

/* The list that has the function at a place of a file, or says why the place has no name; valid until the next turn.
 * NULL: the list is being made, or will be. */
const struct function_list *function_lists_find(struct function_lists *lists, const struct module_key *key,
						const char *path, uint64_t place);

/* Readable when a child has ended. It stays the lists'. */
int function_lists_fd(const struct function_lists *lists);

/* Takes a list that was made, and has the next one made. True: places that wait may be asked for again. */
bool function_lists_turn(struct function_lists *lists, const struct processes *processes);

/* Forgets the files that are not used any more. */
void function_lists_tidy(struct function_lists *lists,
			 bool (*is_used)(const void *userdata, const struct module_key *key, const char *path),
			 const void *userdata);

struct function_lists_stats function_lists_stats(const struct function_lists *lists);
