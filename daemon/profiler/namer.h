/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Names the functions of an archive, soon after they were sampled, since a container's files may be gone later. Places
 * in files are looked up in lists of the files' functions (profiler/naming/function-lists.h). Places in the kernel, and
 * in code that was made at run time, have a name from the beginning if a list has it by then; the rest is named here.
 */

#include "profiler/archive/archive.h"
#include "profiler/naming/jit-functions.h"
#include "profiler/naming/kernel-functions.h"
#include "profiler/process/processes.h"

struct namer;

/* procfs is "/proc" but in tests. -ENOMEM, or the error of epoll_create(2). */
int namer_new(struct namer **ret, const char *procfs);
struct namer *namer_free(struct namer *namer);
DEFINE_CLEANUP(struct namer *, namer_free)

/* Readable when a child has ended. It stays the namer's. */
int namer_fd(const struct namer *namer);

/* Names places whose functions are known, for a while, and has lists of others made. jit: NULL: there are no names for
 * code that was made at run time. */
void namer_turn(struct namer *namer, struct archive *archive, const struct processes *processes,
		struct kernel_functions *kernel, struct jit_functions *jit);

/* The archive will be another. */
void namer_forget(struct namer *namer);

/* CPU time of all children that have ended. */
uint64_t namer_cpu_ns(const struct namer *namer);

/* Of the lists of files. */
size_t namer_list_bytes(const struct namer *namer);
