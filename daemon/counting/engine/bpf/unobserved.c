/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/unobserved.h"

#include "counting/engine/bpf/chunks.h"
#include "counting/totals/estimate.h"

#include <math.h>

/* What was observed is as good as none where it is less than this. */
#define LEAST_NS 1e6
/* Of what was observed, so much tells of now: it is halved when it is more. */
#define MOST_NS 1e9

struct bpf_pool {
	double running;	 /* ns that were observed */
	double counts[]; /* in that time, of each event of the set */
};

static struct bpf_target *find_above(const struct bpf_engine *engine, uint32_t slot)
{
	return share_find_nearest(engine, slot_at(engine->kernel, slot), NULL);
}

static struct bpf_pool *pool_of(const struct bpf_engine *engine, struct bpf_target *target, size_t set)
{
	struct bpf_pool **pool = &target->sets[set].pool;

	if (!*pool)
		*pool = calloc(1, sizeof(**pool) + bpf_plan(engine)->sets[set].nr * sizeof((*pool)->counts[0]));
	return *pool;
}

void unobserved_learn(struct bpf_engine *engine, uint32_t slot, size_t set, const struct baseline *base,
		      const struct reading *now)
{
	const size_t nr = bpf_plan(engine)->sets[set].nr;
	struct bpf_target *above = find_above(engine, slot);
	struct bpf_pool *pool;

	if (!above || now->running <= base->running)
		return;
	/* Without memory, nothing is learnt. */
	pool = pool_of(engine, above, set);
	if (!pool)
		return;
	pool->running += (double)(now->running - base->running);
	for (size_t i = 0; i < nr; i++) {
		uint64_t unscaled = now->unscaled ? now->unscaled[i] : 0, least = base->values[i] + unscaled;

		pool->counts[i] += now->values[i] > least ? (double)(now->values[i] - least) : 0;
	}
	for (size_t i = 0; pool->running > MOST_NS && i < nr; i++)
		pool->counts[i] /= 2;
	if (pool->running > MOST_NS)
		pool->running /= 2;
}

bool unobserved_estimate(const struct bpf_engine *engine, uint32_t slot, uint32_t cpu, size_t set, uint64_t covered,
			 uint64_t *ret)
{
	const struct set *planned = &bpf_plan(engine)->sets[set];
	const struct bpf_target *above = find_above(engine, slot);
	const struct bpf_pool *pool = above ? above->sets[set].pool : NULL;
	const struct totals_row *row;

	if (!above || covered == 0)
		return false;
	/* Before any has ended that was observed, all below the target tell more than none. */
	row = share_row(engine, above, cpu);
	if (!pool || pool->running < LEAST_NS) {
		/* The root cgroup has the idle time of its CPUs, too. */
		double time = above->fed ? 0 : (double)row->times[set].enabled;

		for (size_t i = 0; time >= LEAST_NS && i < planned->nr; i++)
			ret[i] = (uint64_t)llround((double)row->cells[planned->columns[i]].total / time *
						   (double)covered);
		return time >= LEAST_NS;
	}
	for (size_t i = 0; i < planned->nr; i++)
		ret[i] = (uint64_t)llround(pool->counts[i] / pool->running * (double)covered);
	return true;
}
