/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Who uses the CPUs, continuously: samples of all CPUs (profiler/sample/sampler.h) become stacks of places in files, by
 * the mappings of their processes, and go into memory with cgroup and command (profiler/archive/archive.h). A child
 * names the functions soon after (profiler/naming/resolver.h), since a container's files may be gone later.
 *
 * It is driven from the outside: profiler_turn() is called when its fd is readable, once a second, and before a
 * question, which only reads memory. A turn ends after some milliseconds, and the fd is readable again where records
 * are left: many samples, or many processes whose mappings have to be read first, don't keep the loop. Naming has a
 * budget of CPU time: two seconds at first, and then 1 ms a second.
 *
 * Without [profiles] enabled there is no profiler. Over a restart samples are lost; over a reload they are kept, unless
 * what may be seen of them changes ([profiles] include, exclude). The times in which nothing is sampled, while events
 * are opened anew or no daemon runs, are counted.
 */

#include "base/cgroup/tree.h"
#include "base/config/config.h"
#include "base/host/sample-rate.h"
#include "base/util/async-close.h"
#include "base/util/cpulist.h"
#include "counting/event/env.h"
#include "profiler/answer/query.h"
#include "profiler/protocol.h"

struct profile_event;
struct profiler;

/* What samples refer to, as it is now; the tree may be NULL. */
struct profiler_world {
	const struct cgroup_tree *tree;
	bool part; /* the tree is a part of the hierarchy */
};

/* What is sampled, and where. The config and the closer are borrowed until the next profiler_use(), the others for the
 * call. */
struct profiler_setup {
	const struct config *config;
	const struct cpulist *cpus;
	const struct event_env *env;
	struct async_close *closer;
	const struct sample_rate *rate;
	uint64_t fd_limit;
	uint64_t sampled; /* by a profiler before: until this time, CLOCK_MONOTONIC ns; 0: there was none */
};

/* Files that it takes, of a limit that they fit into; 0: it is off, or they would be more than a quarter of it. */
size_t profiler_fds(const struct config *config, size_t cpus, uint64_t fd_limit);

/* -EINVAL with FILE:LINE in why: an event of a [profile "NAME"] is none on any machine; -ENOMEM. */
int profiler_check(const struct config *config, const struct event_env *env, struct reason *why);

/* Negative errno, with the sentence in why. */
int profiler_new(struct profiler **ret, const struct profiler_setup *setup, struct reason *why);
struct profiler *profiler_free(struct profiler *profiler);
DEFINE_CLEANUP(struct profiler *, profiler_free)

/* Another config, other CPUs, or another tree of cgroups, after a last turn with those before. Negative errno, with the
 * sentence in why: nothing is sampled any more, and the profiler should be freed. */
int profiler_use(struct profiler *profiler, const struct profiler_setup *setup, struct reason *why);

/* Takes note of the kernel's limit, and of events that it has paused, in profiler_problem(). False: by the limit,
 * events have to be opened anew, with other rates (profiler_use()). */
bool profiler_follow_rate(struct profiler *profiler, const struct event_env *env, const struct sample_rate *rate);

/* What is wrong with some of it, such as an event that can't be sampled here; "": nothing. */
const char *profiler_problem(const struct profiler *profiler);

/* [profile "NAME"] sections of which nothing is sampled. */
size_t profiler_nr_lost(const struct profiler *profiler);

/* Readable when there is something to do; it stays the profiler's. */
int profiler_fd(const struct profiler *profiler);

/* Takes the samples that are due, and answers of the resolver. */
void profiler_turn(struct profiler *profiler, const struct profiler_world *world);

/* The event of that name, valid until profiler_use(); NULL: there is none, or it is not sampled. */
const struct profile_event *profiler_event(const struct profiler *profiler, const char *name);

/* Answers the question about the event of that name, which query->event need not be, and fills in what its numbers are.
 * The stretch ends where the archive has all samples, if it was to end later and is not to be told in slots.
 * -ENOENT: there is no such event; -EOPNOTSUPP: it can't be sampled here; others as of profile_new(). The answers are
 * valid until the next call that is no question. Nothing but memory is read, and nothing is changed. */
int profiler_ask(const struct profiler *profiler, const char *event, const struct profile_query *query,
		 struct profile **ret, struct profile_measure *ret_measure, struct reason *why);

/* All but those of captures. */
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

/* ns of the stretch, CLOCK_MONOTONIC, in which nothing was sampled, as far as that is remembered. */
uint64_t profiler_gaps(const struct profiler *profiler, uint64_t from, uint64_t to);

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
