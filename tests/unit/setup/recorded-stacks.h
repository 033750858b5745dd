/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Samples of a program that were recorded on a machine, perhaps of another architecture: registers, copies of the
 * stacks, mappings, tables of frames as far as they are needed, and the frames that were found there.
 *
 * tests/system/against-libdw.c records them. In the file, structs stand as they are in memory, which is the same on all
 * machines of 64 bits with the low byte first; a table is as frame-table.h has it, and has to be recorded anew when
 * that format changes.
 */

#include "profiler/stack/unwind.h"

#include <stdio.h>

#define RECORDED_MAGIC 0x314b5453 /* "STK1" */

struct recorded_stack {
	struct unwind_registers registers;
	struct unwind_copy copy;
	enum stack_end end;
	size_t nr;
	size_t confirmed; /* of the frames, those that libdw has found too */
	uint64_t frames[UNWIND_FRAMES_MAX];
	unsigned char is_return[UNWIND_FRAMES_MAX];
};

struct recorded_mapping {
	uint64_t start, size, offset;
	uint64_t file; /* its number, or that of all of them: it has no table */
};

struct recorded_stacks {
	size_t nr_mappings, nr_files, nr;
	struct recorded_mapping *mappings;
	struct frame_table **tables;
	struct recorded_stack *stacks; /* whose bytes are owned */
};

/* tables: files in memory, as a frame builder writes them. False: writing has failed. */
bool recorded_stacks_write(FILE *file, const struct recorded_stacks *recorded, const int *tables);

/* -EBADMSG: it is malformed, or of another kind of machine; -ENOMEM; negative errno of fopen(3). */
int recorded_stacks_read(struct recorded_stacks *ret, const char *path);
void recorded_stacks_release(struct recorded_stacks *recorded);

/* An unwind_find(); userdata: a struct recorded_stacks. */
enum unwind_code recorded_stacks_find(void *userdata, uint64_t address, const struct frame_rule **ret);
