/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What a set has counted in a cgroup on a CPU between two readings, and who gets it: the cgroup's own target, and each
 * ancestor which is one.
 */

#include "counting/engine/bpf/target.h"

/* An estimate by fewer stretches of running, or by less time, is not told: one by n stretches is off by about
 * 1/sqrt(n), and by more where they differ (tests/guest/test_truth.py, the storm one-rare). */
#define SHARE_ENOUGH 100U
#define SHARE_ENOUGH_NS 200000000U

struct bpf_share {
	size_t set;
	uint32_t cpu;
	uint64_t enabled, running; /* ns */
	const uint64_t *counts;	   /* NULL: they are not known (yet) */
	uint64_t covered;	   /* enabled time that they cover, ns */
	uint64_t readings;	   /* that they are made of: stretches of running that were observed */
	size_t blind;		   /* so many of the nearest targets above get the times alone */
};

/* Adds the share to the target's row that has the CPU's counts, or to those of all targets above a slot's cgroup. */
void share_give(struct bpf_engine *engine, struct bpf_target *target, const struct bpf_share *share);
void share_give_above(struct bpf_engine *engine, const struct credit_slot *owner, const struct bpf_share *share);
/* These targets, the nearest first; NULL: there is none. Valid until the next call. */
const struct bpf_family *share_family(struct bpf_engine *engine, const struct credit_slot *owner);
/* That row. */
struct totals_row *share_row(const struct bpf_engine *engine, const struct bpf_target *target, uint32_t cpu);

/* The nearest ancestor that is a target, or NULL; and its place among the slot's ancestors, if that is asked for. */
struct bpf_target *share_find_nearest(const struct bpf_engine *engine, const struct credit_slot *owner,
				      size_t *ret_place);
size_t share_nr_ancestors(const struct credit_slot *owner);
