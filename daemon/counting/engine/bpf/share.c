/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/share.h"

#include "counting/engine/account.h"

/* One row for all CPUs, or one for each that is counted. What is left of a CPU that is not counted any more goes to the
 * first. */
struct totals_row *share_row(const struct bpf_engine *engine, const struct bpf_target *target, uint32_t cpu)
{
	for (size_t i = 0; i < engine->cpus.nr && i < target->nr_rows; i++)
		if (engine->cpus.cpu[i] == (int)cpu)
			return target->rows[i];
	return target->rows[0];
}

/* A row of one CPU is decided by what is given to it: the cgroup can have been observed on other CPUs alone. */
static void decide_on_cpu(const struct bpf_engine *engine, const struct bpf_target *target, struct totals_row *row,
			  const struct bpf_share *share)
{
	const struct set *set = &bpf_plan(engine)->sets[share->set];

	if (row->cpu == ROW_ALL_CPUS || !cpulist_has(&set->cpus, row->cpu) || set->exact ||
	    engine->sets[share->set].lost || target->lacks)
		return;
	if (share->counts && share->covered > 0 && target->sets[share->set].ran)
		totals_decide(row, bpf_plan(engine), share->set, 1U << OBSERVED_RUNNING);
}

/* It begins to run: it is no true 0 any more, and what is added is not shown until enough was observed. */
static void decide_at_first(const struct bpf_engine *engine, struct totals_row *row, const struct bpf_share *share)
{
	if (share->enabled > 0 && row->times[share->set].enabled == 0 && !bpf_plan(engine)->sets[share->set].exact)
		totals_decide(row, bpf_plan(engine), share->set, 1U << OBSERVED_PENDING);
}

/* Was enough observed? The row has the times of the share. */
static bool is_enough(const struct bpf_target_set *set, const struct totals_row *row, const struct bpf_share *share)
{
	return !set->scaled || set->readings >= SHARE_ENOUGH || row->times[share->set].running >= SHARE_ENOUGH_NS;
}

void share_give(struct bpf_engine *engine, struct bpf_target *target, const struct bpf_share *share)
{
	struct bpf_target_set *set = &target->sets[share->set];
	const struct account account = {
		.row = share_row(engine, target, share->cpu),
		.plan = bpf_plan(engine),
		.set = share->set,
		.health = &engine->engine.env.health[SCOPE_CGROUP][share->set],
	};

	if (target->fed || set->ended)
		return;
	decide_at_first(engine, account.row, share);
	account_add_times(&account, share->enabled, share->running);
	if (share->counts)
		account_add_counts(&account, share->counts, share->covered);
	bpf_note_given(engine, target);
	/* Memory that is not written to is not copied after a fork. */
	if (share->enabled > 0 && !set->enabled) {
		set->enabled = true;
		engine->kernel->targets_saved.changed = true;
	}
	if (share->running < share->enabled && !set->scaled) {
		set->scaled = true;
		engine->kernel->targets_saved.changed = true;
	}
	if (share->counts && share->covered > 0 && !set->ran) {
		set->readings += share->readings;
		set->ran = is_enough(set, account.row, share);
		engine->kernel->targets_saved.changed |= set->ran;
	}
	account_note_run(&account, share->counts ? 0 : share->enabled, set->ran, false);
	decide_on_cpu(engine, target, account.row, share);
}

/* Programs write the number. */
size_t share_nr_ancestors(const struct credit_slot *owner)
{
	return owner->nr_ancestors < CREDIT_DEPTH_MAX ? owner->nr_ancestors : CREDIT_DEPTH_MAX;
}

const struct bpf_family *share_family(struct bpf_engine *engine, const struct credit_slot *owner)
{
	struct bpf_family *family = &engine->family;
	size_t nr = share_nr_ancestors(owner);

	if (nr == 0)
		return NULL;
	if (family->parent == owner->ancestors[0])
		return family->nr ? family : NULL;
	family->parent = owner->ancestors[0];
	family->nr = 0;
	for (size_t i = 0; i < nr; i++) {
		struct bpf_target *target = bpf_target_find(engine, owner->ancestors[i]);

		if (target)
			family->above[family->nr++] = target;
	}
	return family->nr ? family : NULL;
}

void share_give_above(struct bpf_engine *engine, const struct credit_slot *owner, const struct bpf_share *share)
{
	const struct bpf_family *family = share_family(engine, owner);
	struct bpf_share times = *share;

	times.counts = NULL;
	for (size_t i = 0; family && i < family->nr; i++) {
		share_give(engine, family->above[i], i < share->blind ? &times : share);
		/* Of rows of one CPU each, nothing says whose it is going to be. */
		if (i < share->blind && family->above[i]->nr_rows == 1)
			family->above[i]->sets[share->set].unguessed += share->covered;
	}
}

struct bpf_target *share_find_nearest(const struct bpf_engine *engine, const struct credit_slot *owner,
				      size_t *ret_place)
{
	for (size_t i = 0; i < share_nr_ancestors(owner); i++) {
		struct bpf_target *target = bpf_target_find(engine, owner->ancestors[i]);

		if (target && ret_place)
			*ret_place = i;
		if (target)
			return target;
	}
	return NULL;
}
