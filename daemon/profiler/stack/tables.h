/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The frame tables of sampled files. A child makes the table of a file when the table is first asked for, one file at a
 * time (table-maker.h). All tables together have a limit of memory: the table that was not used for the longest time is
 * dropped, and made again when it is needed. A file without a table is tried again after a minute, and then ever later.
 */

#include "base/elf/module.h"
#include "profiler/process/processes.h"
#include "profiler/stack/frame-table.h"

/* The most files that are known, with a table or without one. */
#define FRAME_TABLES_MAX 4096

struct frame_tables;

enum frame_tables_state {
	FRAME_TABLES_READY,
	FRAME_TABLES_ABSENT, /* the file has no table, or none can be made of it */
	FRAME_TABLES_ASKED,  /* the table is being made, or will be */
};

struct frame_tables_stats {
	size_t bytes, files;   /* now, with a table */
	uint64_t made, absent; /* ever; absent: tries in vain */
	uint64_t dropped;      /* tables that went for want of memory */
	size_t stuck;	       /* files that hang now when they are opened, and so are not tried again */
	bool is_short;	       /* a table that was in use has gone for want of memory, within the last minute */
	uint64_t cpu_ns;       /* of the makers that have ended */
};

/* procfs: "/proc" but in tests. -ENOMEM, or the error of epoll_create(2). */
int frame_tables_new(struct frame_tables **ret, const char *procfs);
struct frame_tables *frame_tables_free(struct frame_tables *tables);
DEFINE_CLEANUP(struct frame_tables *, frame_tables_free)

/* Bytes of all tables; 0 at first. */
void frame_tables_set_limit(struct frame_tables *tables, size_t limit);

/* The table of a file, valid until the next turn. */
enum frame_tables_state frame_tables_find(struct frame_tables *tables, const struct module *module,
					  const struct frame_table **ret);

/* Readable when a maker has ended. It stays the tables'. */
int frame_tables_fd(const struct frame_tables *tables);

/* Takes a table that was made, and has the next one made. True: a table that was asked for is ready or absent now. */
bool frame_tables_turn(struct frame_tables *tables, const struct processes *processes);

size_t frame_tables_limit(const struct frame_tables *tables);

struct frame_tables_stats frame_tables_stats(const struct frame_tables *tables);

/* The path of a file that has come to hang since the last call, or NULL. It is valid until the next turn. */
const char *frame_tables_take_stuck(struct frame_tables *tables);
