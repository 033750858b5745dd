/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From the stack of a sample to places, which are offsets in files: the addresses of a process mean nothing to another,
 * and are not for others to see. Only places in the kernel, and in code that was made at run time, may have an address;
 * no answer shows it.
 *
 * The kernel's part is its call chain. The process's part is unwound where the sample has a copy of the stack, else it
 * is the kernel's call chain too, by frame pointers. Where the copy ends before the stack, the rest is taken from the
 * chain if the chain has the last two unwound frames, one after the other (frame pointers are right there), or if the
 * last frame's own frame pointer leads on. A stack that stays cut has a place that says so as its outermost one.
 */

#include "profiler/archive/archive.h"
#include "profiler/naming/jit-functions.h"
#include "profiler/naming/kernel-functions.h"
#include "profiler/process/processes.h"
#include "profiler/stack/tables.h"
#include "profiler/stack/unwind.h"

/* The name of that place. */
#define STACK_CUT_NAME "[cut]"

/* Borrowed. */
struct stack_source {
	struct record_array chain;		  /* the kernel's: addresses, and PERF_CONTEXT_… */
	const struct mappings *mappings;	  /* NULL: not known */
	struct process_program program;		  /* if they are known */
	struct jit_functions *jit;		  /* NULL: code that was made at run time has no names */
	enum naming unmapped;			  /* what a place in no mapping is */
	const struct unwind_registers *registers; /* NULL: there is no copy, or not all mappings are known */
	const struct unwind_copy *copy;
};

/* As the process is now, without a copy; NULL: it is not known. */
struct stack_source stack_source_of(const struct record_sample *sample, const struct process *process);

/*
 * Fills in at most ARCHIVE_DEPTH_MAX places, the innermost first, and says how the stack ends. Paths, keys and names
 * are borrowed from the source and the functions. A place in a function of the kernel that is known is the function's
 * beginning: no others are told apart. -EAGAIN: a table is being made; if it may not wait, the
 * stack is by frame pointers then.
 */
int places_of_stack(struct archive_place *places, size_t *ret_nr, enum stack_end *ret_end,
		    const struct stack_source *source, struct frame_tables *tables, struct kernel_functions *kernel,
		    bool may_wait);

/* Asks for the tables of all files that the kernel's chain leads through, since unwinding would meet one after the
 * other. */
void stack_ask_tables(const struct stack_source *source, struct frame_tables *tables);
