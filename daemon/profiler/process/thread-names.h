/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names of threads that are not the first ones of their processes, whose names are the commands (processes.h).
 *
 * A thread has the name of the one that made it until it is given another (prctl(2), PR_SET_NAME), of which a
 * PERF_RECORD_COMM tells. One that was there before is looked up in /proc when a sample meets it first. Their number is
 * bounded: those that were met first are forgotten first.
 */

#include "base/util/cleanup.h"
#include "profiler/sample/record.h"

#define THREAD_NAMES_MAX 16384

struct thread_names;

/* procroot is "/proc" but in tests. -ENOMEM. */
int thread_names_new(struct thread_names **ret, const char *procroot);
struct thread_names *thread_names_free(struct thread_names *names);
DEFINE_CLEANUP(struct thread_names *, thread_names_free)

/* A side-band record; those of other types are ignored. */
void thread_names_take(struct thread_names *names, const struct record *record);
/* To be called where records were lost: threads are looked up again. */
void thread_names_forget(struct thread_names *names);

/* The bytes of its name, until the next call; NULL: it is the first thread, or is not known. */
const char *thread_names_find(struct thread_names *names, uint32_t pid, uint32_t tid);
