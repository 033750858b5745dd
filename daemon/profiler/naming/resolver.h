/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Names places in a file in a child process: the file may be hostile, and opening it may hang.
 *
 * The child (naming-child.h) opens the file and its files of debug symbols, and gives up nearly all system calls before
 * it looks at them. Only one kind of file can't be opened before: that of debug symbols by a name in the file itself.
 * So the child hands out the name, and a second child begins anew with that file too. The answers are in memory that
 * the daemon shares, and it checks all of it: in the worst case names are wrong. A child that takes too long is killed.
 *
 * One question is worked on at a time.
 */

#include "profiler/naming/naming-child.h"

#define RESOLVER_PLACES NAMING_PLACES

struct resolver;

/* Where things are: "/proc" and "/usr/lib/debug" but in tests. */
struct resolver_roots {
	const char *proc, *debug;
};

/* -ENOMEM, or the error of epoll_create(2). */
int resolver_new(struct resolver **ret, const struct resolver_roots *roots);
struct resolver *resolver_free(struct resolver *resolver);
DEFINE_CLEANUP(struct resolver *, resolver_free)

/* Does a child run? */
bool resolver_is_busy(const struct resolver *resolver);

/*
 * Begins with the places at these offsets, sorted, of the file at path, which must be the one of the key. user: a
 * process that has the file mapped, since the path may be one in its mount namespace; 0: none. Negative errno.
 */
int resolver_start(struct resolver *resolver, const char *path, const struct module_key *key, uint32_t user,
		   const uint64_t *offsets, size_t nr);

/* Readable when resolver_finish() has something to do. It stays the resolver's. */
int resolver_fd(const struct resolver *resolver);

/* Is all done? A child that has run for too long is killed. Then the answers are there, until the next start. */
bool resolver_finish(struct resolver *resolver);

/* CPU time of all children that have ended. */
uint64_t resolver_cpu_ns(const struct resolver *resolver);

/* The answer for an offset's index. The name is NULL, or a name of printable ASCII or UTF-8, of at most
 * FUNCTION_NAME_MAX bytes. */
struct resolver_answer {
	const char *name;
	uint64_t start, end; /* of the function, which has the offset in it; both 0: not known */
};
enum naming resolver_answer(const struct resolver *resolver, size_t index, struct resolver_answer *ret);

/* The answers are not needed any more: their memory is given back. */
void resolver_forget(struct resolver *resolver);
