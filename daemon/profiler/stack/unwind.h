/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds the callers of a sampled frame, from its registers and a copy of its stack (perf_event_open(2),
 * PERF_SAMPLE_REGS_USER and PERF_SAMPLE_STACK_USER), by the rules of the files that are mapped (frame-table.h).
 *
 * Code without rules (JIT, assembler) is stepped over by its frame pointer; rules are used again for its callers. The
 * copy is not trusted: reads stay in it, there are at most UNWIND_FRAMES_MAX steps, and none may move down the stack,
 * except one from a signal handler to the code that it has interrupted. If that code is on another stack, the walk ends
 * there (STACK_CUT). unwind() has no side effects, and is told the architecture by the registers.
 */

#include "profiler/archive/stack-end.h"
#include "profiler/stack/frame-table.h"

#define UNWIND_FRAMES_MAX 256

enum unwind_machine {
	UNWIND_X86_64,
	UNWIND_ARM64,
};

struct unwind_registers {
	enum unwind_machine machine;
	uint64_t values[FRAME_REGISTERS]; /* by DWARF's number */
	uint64_t address;		  /* of the instruction */
	uint64_t known;			  /* bits: the registers that have a value */
};

/* A copy of the stack, from the stack pointer on. */
struct unwind_copy {
	uint64_t start;
	const unsigned char *bytes;
	size_t size;
};

enum unwind_code {
	UNWIND_RULE,	/* there is a rule */
	UNWIND_NO_RULE, /* code without rules */
	UNWIND_NO_CODE, /* no code is there */
};

/* Looks up the code at an address. */
typedef enum unwind_code (*unwind_find)(void *userdata, uint64_t address, const struct frame_rule **ret);

struct unwind_frame {
	uint64_t address;
	bool is_return; /* a return address: the call is the instruction before */
	/* The frame pointer, if the code keeps frame pointers and this one leads out of the copy; else 0. */
	uint64_t pointer;
};

/* Finds the frames. The innermost one comes first, with registers->address. Returns how the stack ends. */
enum stack_end unwind(const struct unwind_registers *registers, const struct unwind_copy *copy, unwind_find find,
		      void *userdata, struct unwind_frame frames[static UNWIND_FRAMES_MAX], size_t *ret_nr);

/* Follows frame pointers through the copy, from the sample's own frame pointer on, and counts the steps to `pointer`.
 * False: they do not lead to it. */
bool unwind_pointers(const struct unwind_registers *registers, const struct unwind_copy *copy, uint64_t pointer,
		     size_t *ret);
