/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Has the functions of an archive named, soon after they were sampled, since a container's files may be gone later: the
 * places that nobody has looked up yet, those of one file after the other. A child finds the names
 * (profiler/naming/resolver.h). Naming has a budget of CPU time: two seconds at first, and then 1 ms a second.
 */

#include "profiler/archive/archive.h"
#include "profiler/naming/kernel-functions.h"
#include "profiler/process/processes.h"

struct namer;

/* procfs is "/proc" but in tests. -ENOMEM, or the error of epoll_create(2). */
int namer_new(struct namer **ret, const char *procfs);
struct namer *namer_free(struct namer *namer);
DEFINE_CLEANUP(struct namer *, namer_free)

/* Readable when a child has ended. It stays the namer's. */
int namer_fd(const struct namer *namer);

/* Takes names that were found, and looks for others: the kernel's at once. */
void namer_turn(struct namer *namer, struct archive *archive, const struct processes *processes,
		struct kernel_functions *kernel);

/* The archive will be another: names that are being looked for are of the one before. */
void namer_forget(struct namer *namer);

/* CPU time of all children that have ended. */
uint64_t namer_cpu_ns(const struct namer *namer);
