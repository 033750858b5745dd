/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Samples whose stacks can't be followed yet, since the table of a file is being made. They have all that their process
 * was at the sample, and the copy of its stack.
 *
 * Copies stand in one mapping, each in a place of its own, which is in no core dump and in no child. A copy is erased,
 * and its memory given back, when it is not needed any more. Samples and copies are bounded: where there is no room, a
 * sample does not wait.
 */

#include "profiler/archive/archive.h"
#include "profiler/process/mappings.h"
#include "profiler/sample/record.h"
#include "profiler/stack/unwind.h"

#define WAITING_MAX 1024
#define WAITING_BYTES ((size_t)8 << 20) /* of all copies, in whole pages */
#define WAITING_COPY_MAX ((size_t)64 << 10)
#define WAITING_MAPPINGS ((size_t)16384) /* of all processes' mappings: each sample may hold a list of its own */

struct waiting_sample {
	uint64_t time, weight;
	char *event, *cgroup, *command;
	struct mappings *mappings; /* a reference */
	size_t nr_mappings;	   /* when it began to wait */
	struct unwind_registers registers;
	struct unwind_copy copy;
	struct record_array chain; /* the kernel's */
	unsigned char *place;	   /* of the copy */
	TAILQ_ENTRY(waiting_sample) in_all;
};
TAILQ_HEAD(waiting_list, waiting_sample);

struct waiting {
	unsigned char *room; /* NULL: none */
	size_t bytes;	     /* of copies that wait */
	size_t mappings;     /* … and their mappings */
	struct waiting_sample *all;
	struct waiting_list samples; /* the oldest first */
	struct waiting_list unused;
};

/* -ENOMEM. */
int waiting_init(struct waiting *waiting);
/* Erases all copies. */
void waiting_release(struct waiting *waiting);

/* Copies what it is given. -ENOBUFS: there is no room; -ENOMEM. */
int waiting_put(struct waiting *waiting, const struct waiting_sample *sample);
/* Erases the copy of one of them, and forgets it. */
void waiting_remove(struct waiting *waiting, struct waiting_sample *sample);
