/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Puts samples into the archive, with their stacks as places in files. A sample with a copy of its stack waits for at
 * most STACKS_WAIT_NS for the tables that it needs; after that, or without room, its stack is that of the frame
 * pointers.
 */

#include "profiler/archive/archive.h"
#include "profiler/protocol.h"
#include "profiler/stack/places.h"
#include "profiler/stack/waiting.h"

#define STACKS_WAIT_NS (10 * (uint64_t)NS_PER_S)

struct stacks {
	struct frame_tables *tables;
	struct jit_functions *jit; /* NULL: code that was made at run time has no names */
	struct waiting *waiting;
	uint64_t ended[_STACK_END_MAX]; /* stacks, by how they end */
};

/* -ENOMEM, or the error of epoll_create(2). */
int stacks_init(struct stacks *stacks, const char *procfs);
/* Samples that wait are gone. Their processes' mappings have to be there still. */
void stacks_release(struct stacks *stacks);

/* Switches names of code that is made at run time on or off. Those that were found stay. The epoll wakes up when there
 * is one. -ENOMEM, or the error of epoll_create(2) or epoll_ctl(2). */
int stacks_use_jit(struct stacks *stacks, bool is_on, const char *procfs, int epoll_fd);

/* A sample, whose places it fills in. */
void stacks_add(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel,
		const struct archive_sample *sample, const struct stack_source *source);

/* Has tables made, and adds samples that need not wait any more. */
void stacks_turn(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel,
		 const struct processes *processes);

/* Adds all that wait by their frame pointers, and leaves them waiting: for a child, which has no copies. */
void stacks_add_waiting(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel);

/* The same in this process: no sample waits any more. */
void stacks_end_waiting(struct stacks *stacks, struct archive *archive, struct kernel_functions *kernel);

/* Until then all samples are in the archive, of those that were taken until `drained`; CLOCK_MONOTONIC ns. */
uint64_t stacks_drained(const struct stacks *stacks, uint64_t drained);

/* The archive will be another, and those that wait are not for it. */
void stacks_forget_waiting(struct stacks *stacks);

/* Why some stacks are not as whole as they could be, if something can be done about it; else unchanged. */
void stacks_explain(const struct stacks *stacks, struct reason *ret);

/* Adds to the statistics. */
void stacks_add_stats(const struct stacks *stacks, struct profiler_stats *stats);
