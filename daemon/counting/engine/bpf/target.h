/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engine's own side: targets, and the numbers of the plan's sets in the kernel.
 *
 * A target opens nothing. It is a name under which counts are asked for: the slot of its cgroup is there when the
 * cgroup has run.
 */

#include "counting/engine/bpf/kernel.h"
#include "counting/engine/engine.h"
#include "counting/totals/unobserved.h"

#include <utlist.h>

struct bpf_target {
	uint64_t id;
	UT_hash_handle hh;
	bool fed;   /* the root cgroup: the CPUs' readings feed it */
	bool lacks; /* a part of its counts is in those of a cgroup above it (layout.h) */
	bool given; /* it is in that list of the engine */
	struct bpf_target *prev, *next;
	size_t nr_rows;
	struct totals_row **rows;    /* one for all CPUs, or one a CPU; of the same allocation */
	struct bpf_target_set *sets; /* one a set of the plan; of the same allocation */
};

struct bpf_target_set {
	bool ended;	   /* another engine counts it now */
	bool enabled;	   /* it has been; */
	bool scaled;	   /* … and not all of that was observed; */
	bool ran;	   /* … but enough of it to be told (share.h) */
	uint64_t readings; /* of it, until then */
	bool told;	   /* the rows know the observation: */
	enum observation observation;
	struct unobserved_pool *pool; /* of cgroups below that have ended, or NULL */
	uint64_t unguessed;	      /* ns of those of which nothing can be told yet */
};

/* A set of the plan, which is counted under these numbers. */
struct bpf_set {
	bool used;
	bool lost;     /* an event is not open on some CPU; */
	bool was_lost; /* … at the last reading */
	uint32_t number, first_event;
};

/* The targets above the children of a cgroup, the nearest first. */
struct bpf_family {
	uint64_t parent; /* the cgroup's id; 0: it is not worked out */
	size_t nr;
	struct bpf_target *above[CREDIT_DEPTH_MAX];
};

struct bpf_engine {
	struct engine engine;
	struct bpf_kernel *kernel; /* NULL: nothing is counted (yet, or any more) */
	struct bpf_kernel *trial;  /* a part that was loaded to try it, and is there for the first cgroup; or NULL */
	struct bpf_target *targets;
	uint64_t nr_added;	    /* chunks that the kernel had added, as far as that was told */
	size_t nr_lacking;	    /* targets that lack counts */
	struct bpf_target *given;   /* those that are new, or were given something since the last reading */
	uint64_t targets_number;    /* of these targets; another one after each change (bpf_note_targets()) */
	struct bpf_family family;   /* of the last slot: most are of the same as the one before */
	struct bpf_set *sets;	    /* one a set of the plan */
	struct cpulist cpus;	    /* of the targets' rows */
	uint64_t *deltas;	    /* counts of the set that is being read; */
	struct reading_cost *costs; /* … and what its readings cost */
	struct bpf_conservation *conservations; /* by CPU and set (conservation.h) */
	struct bpf_engine *from;		/* in a takeover: the predecessor, or NULL */
};

static inline struct bpf_engine *bpf_engine(struct engine *engine)
{
	return (struct bpf_engine *)engine;
}

static inline const struct bpf_engine *bpf_engine_const(const struct engine *engine)
{
	return (const struct bpf_engine *)engine;
}

static inline const struct scope_plan *bpf_plan(const struct bpf_engine *engine)
{
	return &engine->engine.env.plan->scope[SCOPE_CGROUP];
}

/* The targets, or the part in the kernel, have changed: what slots know of targets is outdated. */
static inline void bpf_note_targets(struct bpf_engine *engine)
{
	engine->targets_number = engine->kernel ? ++engine->kernel->nr_targets : 0;
	engine->family.parent = 0;
}

/* It may have changed which of the target's events are measured. */
static inline void bpf_note_given(struct bpf_engine *engine, struct bpf_target *target)
{
	if (target->given)
		return;
	target->given = true;
	DL_PREPEND(engine->given, target);
}

/* Slots that are reserved for targets that are still to come. */
static inline uint32_t bpf_slots_to_reserve(const struct bpf_engine *engine)
{
	uint64_t most = engine->engine.env.max_cgroups, nr = HASH_COUNT(engine->targets);
	uint64_t part = engine->kernel->sizes.slots / 3 * 2, to_come = nr < most ? most - nr : 0;

	return (uint32_t)(to_come < part ? to_come : part);
}

struct bpf_target *bpf_target_find(const struct bpf_engine *engine, uint64_t id);
/* NULL: no memory. */
struct bpf_target *bpf_target_new(struct bpf_engine *engine, uint64_t id, struct totals_row *const *rows,
				  size_t nr_rows);
void bpf_target_free(struct bpf_engine *engine, struct bpf_target *target);
