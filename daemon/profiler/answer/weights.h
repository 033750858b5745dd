/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The weights of samples, made to fit exact counts: samples tell the shares within a cgroup, and its counter tells the
 * sum. A counter counts a cgroup together with the cgroups below it, and a sample is of the one that the task is in: so
 * what the cgroups below have counted is taken away.
 *
 * A cgroup whose counter was not known in a slot in which there are samples of it, or of a cgroup below it that is not
 * counted, is not covered: its weights stay as they are, and the reason is given.
 */

#include "profiler/archive/archive.h"
#include "profiler/protocol.h"

/* Narrows the stretch to the whole slots in it; false: there is none. */
bool profile_counts_narrow(const struct profile_counts *counts, uint64_t *from, uint64_t *to);

struct weights;

/* For the samples of an event (the archive's name) in the stretch. All are borrowed until it is freed. -ENOMEM. */
int weights_new(struct weights **ret, const struct archive *archive, const struct profile_counts *counts,
		const char *event, uint64_t from, uint64_t to);
struct weights *weights_free(struct weights *weights);
DEFINE_CLEANUP(struct weights *, weights_free)

/* The weight of the next sample of a cgroup (text of the archive). Those of all its samples add up to what was counted,
 * rounded to whole numbers on the way. */
uint64_t weights_fit(struct weights *weights, uint32_t cgroup, uint64_t weight);

/* Why the cgroup is not covered; NULL: it is. */
const char *weights_problem(const struct weights *weights, uint32_t cgroup);
