/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How to get from a frame to its caller's, for each place in a file.
 *
 * A table has rows, sorted by offset in the file; a row holds until the next one, and names a rule by its number: files
 * have many rows and few rules. A rule says where the canonical frame address is (CFA: the caller's stack pointer), and
 * where the caller's registers are. Registers have their numbers of DWARF.
 *
 * Tables are made from call-frame information (.eh_frame, .debug_frame) by a sealed child (frame-table-child.h), which
 * writes them into a file in memory. The file is foreign bytes: frame_table_read() checks each row and each rule.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* x86-64: 0 to 15, and 16 the return address. arm64: 0 to 30 (30: the return address), 31 the stack pointer. */
#define FRAME_REGISTERS 32

enum frame_kind {
	FRAME_UNKNOWN,	  /* no call-frame information, or none that is understood */
	FRAME_OUTERMOST,  /* no caller: the return address is undefined */
	FRAME_SIGRETURN,  /* rt_sigreturn(2): all registers are in the kernel's signal frame, at the stack pointer */
	FRAME_CFA,	  /* the CFA is the register + offset */
	FRAME_CFA_LOADED, /* … the number in memory there + added (realigned stacks, signal frames, assembler) */
	FRAME_PLT, /* … the stack pointer + 8, + 8 more if the last 4 bits of the address are `offset` or more */
	_FRAME_KIND_MAX,
};

/* Where a caller's register is. Other values than these: in memory, so many words of 8 bytes from the CFA, or from the
 * value of the rule's base register if from_base has the register's bit. */
#define FRAME_SAME INT16_MIN		 /* where it was; the stack pointer: it is the CFA */
#define FRAME_UNDEFINED (INT16_MIN + 1)	 /* nowhere */
#define FRAME_REGISTER_0 (INT16_MIN + 2) /* in another register: + its number */
#define FRAME_SAVED_MIN (FRAME_REGISTER_0 + FRAME_REGISTERS)

#define FRAME_SIGNAL 1	 /* a signal has interrupted the caller, whose address is no return address */
#define FRAME_POINTERS 2 /* the code keeps frame pointers, also where it changes the stack (Go) */

/* A rule has no padding: rules are compared by their bytes. A rule without a CFA has nothing but flags. */
struct frame_rule {
	uint8_t kind; /* enum frame_kind */
	uint8_t reg;  /* of the CFA */
	uint8_t base; /* the base register, with its value in the frame itself */
	uint8_t flags;
	int32_t offset;
	int32_t added;	    /* of FRAME_CFA_LOADED; else 0 */
	uint32_t from_base; /* bits: the caller's registers whose places are relative to the base, not to the CFA */
	int16_t saved[FRAME_REGISTERS];
};

#define FRAME_RULES_MAX 65535
#define FRAME_ROWS_MAX ((uint32_t)4 << 20)

struct frame_table {
	uint32_t nr_rows, nr_rules;
	size_t bytes; /* all memory of the table */
	struct frame_rule *rules;
	uint32_t *offsets; /* of the rows, in the file */
	uint16_t *numbers; /* … and the numbers of their rules */
};

/* Reads a table from a file in memory. -EBADMSG: it is malformed; -EFBIG: it takes more than max bytes; -ENOMEM;
 * negative errno of pread(2). */
int frame_table_read(struct frame_table **ret, int fd, size_t max);
struct frame_table *frame_table_free(struct frame_table *table);
DEFINE_CLEANUP(struct frame_table *, frame_table_free)

/* The rule at an offset in the file; NULL: below the first row, or FRAME_UNKNOWN. */
const struct frame_rule *frame_table_find(const struct frame_table *table, uint64_t offset);

/* --- the format of the file in memory */

#define FRAME_TABLE_MAGIC 0x31544650 /* "PFT1" */

/* The rules, offsets and numbers follow, and nothing else. With a problem (enum frame_problem, frame-table-child.h)
 * there is no table. */
struct frame_table_header {
	uint32_t magic, nr_rows, nr_rules, problem;
};
