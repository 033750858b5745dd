/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Samples whose stacks can't be followed yet, since the table of a file is being made. A sample has its process's
 * command and mappings of that time, and the copy of the stack.
 *
 * Copies and registers stand in one mapping, each in a place of its own, which is in no core dump and in no child. They
 * are erased, and their memory given back, when they are not needed any more. Samples and copies are bounded: without
 * room, a sample does not wait. The kernel's chain is for children too; if code has no frame pointers, any value of the
 * stack may be in it, so that addresses in no mapping are left out.
 */

#include "profiler/archive/archive.h"
#include "profiler/process/processes.h"
#include "profiler/sample/record.h"
#include "profiler/stack/unwind.h"

#include <sys/queue.h>

#define WAITING_MAX 1024
#define WAITING_BYTES ((size_t)8 << 20) /* of all copies and registers, in whole pages */
#define WAITING_COPY_MAX ((size_t)64 << 10)
#define WAITING_MAPPINGS ((size_t)16384) /* of all processes' mappings: each sample may hold a list of its own */

/* In page 0, where no process has a mapping. */
#define WAITING_NO_ADDRESS 8

struct waiting_place {
	struct unwind_registers registers;
	unsigned char bytes[WAITING_COPY_MAX];
};

struct waiting_sample {
	uint64_t time, weight;
	char *event, *cgroup, *command;
	char *thread;		   /* or NULL */
	struct mappings *mappings; /* a reference */
	struct process_program program;
	size_t nr_mappings;			  /* when it began to wait */
	const struct unwind_registers *registers; /* in the place */
	struct unwind_copy copy;		  /* … its bytes too */
	struct record_array chain;		  /* the kernel's; an entry in no mapping is WAITING_NO_ADDRESS */
	struct waiting_place *place;
	TAILQ_ENTRY(waiting_sample) in_all; /* the oldest first */
};

struct waiting;

/* -ENOMEM. */
int waiting_new(struct waiting **ret);
/* Erases all copies. */
struct waiting *waiting_free(struct waiting *waiting);
DEFINE_CLEANUP(struct waiting *, waiting_free)

/* Copies what it is given. -ENOBUFS: there is no room; -ENOMEM. */
int waiting_put(struct waiting *waiting, const struct waiting_sample *sample);
/* Erases the copy and the registers of a sample, and forgets it. */
void waiting_remove(struct waiting *waiting, struct waiting_sample *sample);

/* The oldest sample, or NULL; TAILQ_NEXT() leads to the others. */
struct waiting_sample *waiting_first(const struct waiting *waiting);
/* Bytes of copies and registers that wait. */
size_t waiting_bytes(const struct waiting *waiting);
