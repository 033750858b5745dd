/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A profiler's knowledge of processes, in two files in memory that outlive it: where /proc hides other users'
 * processes, the next profiler could learn it nowhere else. The files are written by turns, and whatever was being
 * written at a crash does not count: the newest whole one does. A profiler is the same program as the one before.
 *
 * It is no text as process-list.h has it: with a file's build id and path in each line of some 110 bytes, 1 MiB has
 * room for fewer than 10,000 mappings, and there is no place for what tells a process from others that had its pid.
 * Here a file is told once, and a mapping is four numbers.
 *
 * Processes are added from the one that was met last. Those without room were met first: root's list
 * (process-list.h) has most of these, and it is read again then.
 */

#include "base/host/proc-maps.h"
#include "base/util/buf.h"
#include "profiler/process/mappings.h"

#define PROCESS_TABLE_FILES 2

/* Which list of root's is in it; all 0: none, or not all of it is. */
struct process_table_list {
	uint64_t inode, seconds, nanoseconds;
};

struct saved_process {
	uint32_t pid;
	uint64_t identity;	   /* as of process_identity() */
	char comm[PROC_COMM_SIZE]; /* bytes; "": not known */
	struct mappings *mappings; /* borrowed; NULL in one that was read */
	int mappings_error;	   /* as of maps_reader_read(); 0: they are known */
};

/* --- what is in a file */

struct process_table_image {
	struct buf bytes;
	size_t limit; /* bytes of a file */
	uint64_t nr_modules, nr_processes;
	struct numbered_module *modules; /* those in it */
};

void process_table_image_begin(struct process_table_image *image, size_t limit);
/* -E2BIG: there is no room for it, but there may be for a smaller one. -ENOMEM. */
int process_table_image_add(struct process_table_image *image, const struct saved_process *process);
/* number: the higher one is newer. -ENOMEM. */
int process_table_image_end(struct process_table_image *image, uint64_t number, const struct process_table_list *list);
void process_table_image_release(struct process_table_image *image);

/* The reader of it. An error of these ends the reading, and is returned. */
struct process_table_reader {
	int (*process)(void *userdata, const struct saved_process *process);
	int (*mapping)(void *userdata, const struct proc_mapping *mapping); /* of the last process */
	void *userdata;
};

/* The number of what is written in these bytes, which may have others behind; 0: it is not whole. */
uint64_t process_table_image_number(const void *bytes, size_t size);

/* Reads the processes of a whole one, from the one that was met first. Any bytes can be read: -EBADMSG, and nothing was
 * told. -ENOMEM. */
int process_table_image_read(const void *bytes, size_t size, const struct process_table_reader *reader,
			     struct process_table_list *ret);

/* --- the files */

struct process_table;

/* The files are borrowed, and closed in an exec. -EBADF: these are no such files: memfds of this size, sealed against
 * another. -ENOMEM. */
int process_table_new(struct process_table **ret, const int files[static PROCESS_TABLE_FILES], size_t size);
struct process_table *process_table_free(struct process_table *table);
DEFINE_CLEANUP(struct process_table *, process_table_free)

size_t process_table_size(const struct process_table *table);

/* Ends what was added, and writes it in the place of the older one. -ENOMEM; negative errno of pwrite(2). */
int process_table_save(struct process_table *table, struct process_table_image *image,
		       const struct process_table_list *list);

/* Reads the newest whole one. -ENOENT: there is none; -ENOMEM; errors of the reader. */
int process_table_load(struct process_table *table, const struct process_table_reader *reader,
		       struct process_table_list *ret);
