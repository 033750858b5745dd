/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes tables of frames (frame-table.h), a file at a time, in a child process: the file may be hostile, and opening it
 * may hang.
 *
 * The child opens the file, wherever it may be (profiler/naming/file-candidates.h), with the rights of the profiler,
 * and executes perfmond anew for the rest (frame-table-child.h). The table is foreign bytes, and is checked when it is
 * taken.
 */

#include "base/elf/module.h"
#include "profiler/stack/frame-table-child.h"
#include "profiler/stack/frame-table.h"

struct table_maker;

/* proc: "/proc" but in tests. -ENOMEM, or the error of epoll_create(2). */
int table_maker_new(struct table_maker **ret, const char *proc);
struct table_maker *table_maker_free(struct table_maker *maker);
DEFINE_CLEANUP(struct table_maker *, table_maker_free)

/* Does a child run? */
bool table_maker_is_busy(const struct table_maker *maker);

/*
 * Starts a child for the file at path, an absolute path or MODULE_VDSO, which must be the file of the key. user: a
 * process that has the file mapped; pid 0: none is known. A table that was not taken is dropped. -EBUSY; negative errno
 * of memfd_create(2), write(2) or fork(2).
 */
int table_maker_start(struct table_maker *maker, const char *path, const struct module_key *key,
		      const struct file_user *user);

/* Readable when table_maker_finish() has something to do. It stays the maker's. */
int table_maker_fd(const struct table_maker *maker);

/* Is the table made? True once. A child that has run for too long is killed. */
bool table_maker_finish(struct table_maker *maker);

/* Once after table_maker_finish(): FRAME_NO_PROBLEM, and the table of at most max bytes, which becomes the caller's; or
 * why there is no table. */
enum frame_problem table_maker_take(struct table_maker *maker, struct frame_table **ret, size_t max);

/* Children that hang, so that no signal ends them (helper.h). Their files are FRAME_STUCK. */
size_t table_maker_nr_stuck(struct table_maker *maker);

/* CPU time of all children that have ended. */
uint64_t table_maker_cpu_ns(const struct table_maker *maker);
