/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who uses the CPUs, continuously: samples of all CPUs (profiler/sample/sampler.h) become stacks of places in files, by
 * the mappings of their processes, and go into memory with cgroup and command (profiler/archive/archive.h). Functions
 * are named soon after, by lists that children make (profiler/namer.h), since a container's files may be gone later.
 *
 * It is driven from the outside: profiler_turn() is called when its fd is readable and several times a second.
 *
 * Where nothing can be sampled, the samples in memory stay, and profiler_problem() says why there are no more. Over
 * other settings they are kept, unless what may be seen of them changes (include, exclude). The times in which nothing
 * is sampled, while events are opened anew or no profiler runs, are counted.
 */

#include "base/util/reason.h"
#include "profiler/answer/query.h"
#include "profiler/protocol.h"

struct profiler;

/* Nothing is sampled before profiler_use(). procfs: "/proc" but in tests. Negative errno, with the sentence in why. */
int profiler_new(struct profiler **ret, const char *procfs, struct reason *why);
struct profiler *profiler_free(struct profiler *profiler);
DEFINE_CLEANUP(struct profiler *, profiler_free)

/* Takes the processes that the profiler before has left in these files, and writes its own there every 10 s. To be
 * called before profiler_use(). files: as of PROFILER_FD_TABLE; borrowed. */
void profiler_keep_processes(struct profiler *profiler, const int files[static PROFILER_NR_TABLES]);

/*
 * The samples, with how they came about, as bytes (archive/archive-image.h), to be taken up by the profiler of the next
 * daemon before its profiler_use() with those settings, which become the gap's end. -ENODATA: there are none to be
 * kept; with the sentence in why: errors as of archive_write() and archive_read(), whose bounds are the same.
 */
int profiler_save(const struct profiler *profiler, size_t max, uint64_t deadline, struct buf *out, struct reason *why);
int profiler_take_up(struct profiler *profiler, const struct profiler_settings *settings, const void *bytes, size_t len,
		     struct reason *why);

/* Takes the settings over, and samples as they have it from now on. To be called, as profiler_reopen() is, after a last
 * turn, and when no event is raised any more. -ENOMEM. */
int profiler_use(struct profiler *profiler, struct profiler_settings *settings);

/* Opens all events anew: those of a CPU that was offline for a moment are dead, or rates have to be others. */
void profiler_reopen(struct profiler *profiler);

/* Notes the kernel's limit (kernel.perf_event_max_sample_rate), and events that it has paused. False: by the limit,
 * events have to be opened anew: with lower rates where it is lower, not at all where samples could hang the kernel,
 * and with those of the settings where it allows them again. */
bool profiler_follow_rate(struct profiler *profiler);

/* Why nothing is sampled, or what is wrong with some of it, such as an event that can't be sampled here; "": nothing
 * is. */
const char *profiler_problem(const struct profiler *profiler);
bool profiler_is_on(const struct profiler *profiler);

/* Those in force, until the next profiler_use(). */
const struct profiler_settings *profiler_settings(const struct profiler *profiler);
/* Why the event of that number in the settings is not sampled; "": it is. */
const char *profiler_event_problem(const struct profiler *profiler, size_t event);

/* Readable when there is something to do; it stays the profiler's. */
int profiler_fd(const struct profiler *profiler);

/* Takes the samples that are due, and names functions. */
void profiler_turn(struct profiler *profiler);

/* A cgroup has come, by id; or has gone: path is NULL. */
void profiler_note_cgroup(struct profiler *profiler, uint64_t id, const char *path);
/* All have gone. is_new_tree: and their ids may be those of others. */
void profiler_end_cgroups(struct profiler *profiler, bool is_new_tree);

/* Adds samples that wait for tables, by their frame pointers: in a child that answers, which has no copies. */
void profiler_add_waiting(struct profiler *profiler);

/* The same in this process, before it ends: no sample waits any more. */
void profiler_end_waiting(struct profiler *profiler);

/* Answers the question about the event of that name, which query->event need not be, and fills in what its numbers are.
 * The stretch ends where the archive has all samples, if it was to end later and is not to be told in slots.
 * -ENOENT: there is no such event; -EOPNOTSUPP: it can't be sampled here; others as of profile_new(). The answers are
 * valid until the next call that is no question. Nothing but memory is read, and nothing is changed. */
int profiler_ask(const struct profiler *profiler, const char *event, const struct profile_query *query,
		 struct profile **ret, struct profile_measure *ret_measure, struct reason *why);

void profiler_stats(const struct profiler *profiler, struct profiler_stats *ret);

/* --- for captures (capturer.h) */

/* What the numbers of an event are, and its name in the archive, which stays until profiler_use(). Errors as of
 * profiler_ask(). */
int profiler_describe(const struct profiler *profiler, const char *event, struct profile_measure *ret,
		      const char **ret_key, struct reason *why);

/* The samples: in another archive, nothing is left of those in the one before. */
const struct archive *profiler_archive(const struct profiler *profiler);
/* CLOCK_MONOTONIC ns: the archive has all samples until then. */
uint64_t profiler_drained(const struct profiler *profiler);

/* The stretches in which nothing was sampled. */
const struct archive_gaps *profiler_gaps(const struct profiler *profiler);

/* May a cgroup be seen, by its label? */
bool profiler_admits(const struct profiler *profiler, const char *label);

/*
 * Samples an event at a higher rate for a while, beside its own, of a cgroup and all below it (a directory's fd,
 * borrowed) or of all (-1). In the archive these samples have the name `key`. Returns a number for profiler_lower();
 * profiler_use() ends it too. Negative errno with the sentence in why: nothing has changed.
 */
int profiler_raise(struct profiler *profiler, const char *event, uint64_t rate, int cgroup, const char *key,
		   struct reason *why);
void profiler_lower(struct profiler *profiler, int number);
