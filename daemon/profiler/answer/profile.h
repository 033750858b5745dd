/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The answer to a question about profiles (profiler/answer/query.h) in each format. Everything here is pure.
 *
 * No format has an address: a place without a name is its module and the offset in its file ("libc.so.6+0x1b2c40"), and
 * in the kernel the module alone. Functions append to `out` and return 0. On failure they release `out` and return
 * -ENOMEM.
 */

#include "base/util/buf.h"
#include "base/util/clock-steps.h"
#include "profiler/answer/query.h"

struct expose_profile {
	const struct profile *profile;
	struct profile_measure measure;
	const struct clock_steps *clock; /* tells the wall times that were shown */
	uint64_t reach;			 /* ns: the age of the oldest sample in memory */
	double min;			 /* nodes with a smaller share of the whole are left out */
	size_t limit;			 /* rows of the top; 0: all */
	enum profile_top_by top_by;
	size_t columns, rows; /* of the heat map: the profile has a slot for each of them */
};

/* The weight of each sample in the answer; 0: they differ. */
uint64_t expose_profile_period(const struct expose_profile *what);

/* The wall time that was shown at a time of CLOCK_MONOTONIC, in ns. */
static inline uint64_t expose_profile_shown(const struct expose_profile *what, uint64_t time)
{
	return clock_steps_shown(what->clock, clock_steps_moment(what->clock, time));
}

/* "libc.so.6+0x1b2c40", or the function, command or cgroup: for people. */
void expose_profile_name(struct buf *out, const struct profile *profile, const struct profile_node *node);

/* The thing that stands for the functions of samples whose node is no function: readers of some formats drop a sample
 * with an empty stack without a word, so that shares are of the rest. */
struct profile_thing expose_profile_no_function(const struct profile *profile, const struct profile_node *node);
/* The name of that, "(hidden)" or "(no function)" (there was no stack, or it is left out of a tree that is cut); and of
 * any other thing of a stack, as above. */
void expose_profile_thing_name(struct buf *out, const struct profile *profile, const struct profile_thing *thing);

/* The documents of /api/v1/profile and /api/v1/profile/top. */
int expose_profile_json(struct buf *out, const struct expose_profile *what);
int expose_profile_top(struct buf *out, const struct expose_profile *what);
/* /api/v1/profile/heat, of a profile with slots. */
int expose_profile_heat(struct buf *out, const struct expose_profile *what);

/* speedscope's file format: a profile for each cgroup, if the tree is by cgroup. */
int expose_profile_speedscope(struct buf *out, const struct expose_profile *what);

/* A line for each stack: its names from the outermost on, separated by ";", and the number of samples. */
int expose_profile_folded(struct buf *out, const struct expose_profile *what);

/*
 * profile.proto of pprof, with gzip around it. The profile has to be by cgroup and command.
 *
 * It satisfies the checks of those who read it: profile.CheckValid() of github.com/google/pprof (each id is there once,
 * and not 0; each sample has a value of each type), and the validation of Grafana Pyroscope (all text is UTF-8, no type
 * of samples has a '-' in its name). Each sample has a location: pprof, Pyroscope and others leave out one that has
 * none, and shares would be of the rest.
 */
int expose_profile_pprof(struct buf *out, const struct expose_profile *what);
