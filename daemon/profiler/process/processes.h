/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The processes that samples are of: their commands and mappings, from side-band records. A process that ran before is
 * looked up in /proc when it is first met, by a sample or as a parent, or is taken from a list that root saves. Where
 * its mappings can't be read in time (maps-reader.h), it goes without until they are.
 *
 * Where the kernel had no room for records, any process may have become another, or have more mappings: from then on,
 * each is looked up again when it is met by a sample.
 *
 * A process that has ended is kept for a while, since records of other threads may follow the end of the first one.
 * The number of processes and of mappings is bounded: those met first are forgotten first, and looked up again if
 * they are still there.
 *
 * Known processes outlive a crash in a table (process-table.h). The next profiler takes those processes that still run,
 * and looks at each in /proc when a sample meets it, as after a loss of records. Where /proc hides it, it stays as it
 * was: what it has executed or mapped between the last writing and the next profiler's first record is not known.
 */

#include "base/host/proc-maps.h"
#include "profiler/process/mappings.h"
#include "profiler/sample/record.h"

#define PROCESSES_MAX 8192
#define PROCESSES_MAPPINGS_MAX 65536

/* A program that a process runs: another one after each exec(2). */
struct process_program {
	uint32_t pid;
	uint64_t life;	      /* no other program has this number */
	uint64_t executed_at; /* CLOCK_MONOTONIC ns; 0: not known, or the process has it from a fork */
};

struct process {
	uint32_t pid;
	struct process_program program;
	char comm[PROC_COMM_SIZE]; /* bytes; "": not known */
	struct mappings *mappings;
	int mappings_error; /* as of maps_reader_read(); 0: they are known */
};

/* It has its mappings locked, or so many others have that they can't be read: they are not known yet. */
bool process_is_locked(const struct process *process);

struct processes;
struct process_table;

struct processes_stats {
	size_t processes, mappings;    /* now; mappings: that there is room for */
	uint64_t looked_up, not_found; /* in /proc, for the first time; those that were gone */
};

/* procroot is "/proc" but in tests; list: where root saves a list of processes (process-list.h), or NULL; patience: for
 * how long a process may be waited for, in ns (maps-reader.h). -ENOMEM. */
int processes_new(struct processes **ret, const char *procroot, const char *list, uint64_t patience);
struct processes *processes_free(struct processes *processes);
DEFINE_CLEANUP(struct processes *, processes_free)

/* Takes the list, if it is another than the last time; those in it that are known are left as they are. To be called
 * before the records of the meantime are taken. */
void processes_follow_list(struct processes *processes);

/* Takes the table's processes, and with them the list of root's that is in it, if all of that is. To be called first,
 * before processes_note_lost(). Returns their number; -ENOENT: there is no whole one; others as of
 * process_table_load(). */
int processes_take_table(struct processes *processes, struct process_table *table);
/* Writes the table, if anything has changed since. -ENOMEM; negative errno of pwrite(2). */
int processes_save_table(struct processes *processes, struct process_table *table);

/* A side-band record; those of other types are ignored. */
void processes_take(struct processes *processes, const struct record *record);

/* Side-band records were lost of which no PERF_RECORD_LOST tells, as yet. */
void processes_note_lost(struct processes *processes);

/* The process, or NULL: it is gone and was never met, or there is no memory. Valid until the next call. */
const struct process *processes_find(struct processes *processes, uint32_t pid);

/* The process as it is known, without looking it up; NULL: it is not. Valid until the next call. */
const struct process *processes_known(const struct processes *processes, uint32_t pid);

/* The bytes of a thread's name, until the next call; NULL: it is the process's first thread, or is not known. */
const char *processes_thread_name(struct processes *processes, uint32_t pid, uint32_t tid);

/* A process that has a file mapped, and where. */
struct file_user {
	uint32_t pid; /* 0: none */
	uint64_t start, end;
};
struct file_user processes_user_of(const struct processes *processes, const struct module_key *key, const char *path);

/* Forgets processes that have ended, and modules that nobody has mapped. now: CLOCK_MONOTONIC ns. */
void processes_tidy(struct processes *processes, uint64_t now);

struct processes_stats processes_stats(const struct processes *processes);
