/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Translates the stack of a sample into places, which are offsets in files: addresses of a process mean nothing in
 * another process, and others must not see them. Only places in the kernel, and in code that was made at run time, may
 * have an address; no answer shows it.
 *
 * The kernel's part is its call chain. The process's part is unwound where the sample has a copy of the stack, else it
 * is the kernel's call chain too, by frame pointers. Where the copy ends before the stack, the rest is taken from the
 * chain if the chain has the last two unwound frames, one after the other (frame pointers are right there), or if the
 * last frame's own frame pointer leads on. If a stack stays cut, its outermost place says so.
 */

#include "profiler/archive/archive.h"
#include "profiler/naming/jit-functions.h"
#include "profiler/naming/kernel-functions.h"
#include "profiler/process/processes.h"
#include "profiler/stack/tables.h"
#include "profiler/stack/unwind.h"

/* The name of the outermost place of a cut stack. */
#define STACK_CUT_NAME "[cut]"

/* Borrowed. */
struct stack_source {
	struct record_array chain;		  /* the kernel's: addresses, and PERF_CONTEXT_… */
	const struct mappings *mappings;	  /* NULL: not known */
	struct process_program program;		  /* if the mappings are known */
	struct jit_functions *jit;		  /* NULL: code that was made at run time has no names */
	enum naming unmapped;			  /* the naming of an address in no mapping */
	const struct unwind_registers *registers; /* NULL: there is no copy, or not all mappings are known */
	const struct unwind_copy *copy;
};

/* The source for a sample without its copy, with the process as it is now; NULL: the process is not known. */
struct stack_source stack_source_of(const struct record_sample *sample, const struct process *process);

/*
 * Fills in at most ARCHIVE_DEPTH_MAX places, the innermost first, and says how the stack ends. Paths, keys and names
 * are borrowed from the source and the functions. All addresses in a known function of the kernel are one place: the
 * function's beginning. -EAGAIN: a table is being made, and the sample may wait (may_wait); if it may not wait, its
 * stack is by frame pointers.
 */
int places_of_stack(struct archive_place *places, size_t *ret_nr, enum stack_end *ret_end,
		    const struct stack_source *source, struct frame_tables *tables, struct kernel_functions *kernel,
		    bool may_wait);

/* Asks for the tables of all files that the kernel's chain leads through, since unwinding would ask for one after the
 * other. */
void stack_ask_tables(const struct stack_source *source, struct frame_tables *tables);
