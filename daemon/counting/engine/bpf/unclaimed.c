/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/unclaimed.h"

#include "counting/engine/bpf/chunks.h"
#include "counting/engine/bpf/slot-bits.h"

#include <string.h>

/* The words of a set in what is kept. */
struct words {
	uint64_t *enabled, *running, *readings, *counts, *covered;
};

static struct words find_words(const struct bpf_engine *engine, const struct bpf_slot *known, size_t cpu, size_t set)
{
	const struct bpf_sizes *sizes = &engine->kernel->sizes;
	const struct bpf_set *numbers = &engine->sets[set];
	uint64_t *words = known->unclaimed + cpu * unclaimed_words(sizes);

	return (struct words){
		.enabled = words + CREDIT_CELL_ENABLED(numbers->number),
		.running = words + CREDIT_CELL_RUNNING(numbers->number),
		.readings = words + CREDIT_CELL_READINGS(numbers->number),
		.counts = words + CREDIT_CELL_EVENTS(sizes->sets) + numbers->first_event,
		.covered = words + CREDIT_CELL_WORDS(sizes->sets, sizes->events) + numbers->number,
	};
}

static uint64_t nearest_id(const struct bpf_engine *engine, const struct credit_slot *owner)
{
	const struct bpf_target *above = share_find_nearest(engine, owner, NULL);

	return above ? above->id : 0;
}

/* Has the ancestor what is kept? The one that is noted has, and those above it. */
static bool has_kept(const struct credit_slot *owner, const struct bpf_slot *known, uint64_t id)
{
	for (size_t i = 0; i < share_nr_ancestors(owner); i++) {
		if (owner->ancestors[i] == known->claimed_by)
			return true;
		if (owner->ancestors[i] == id)
			return false;
	}
	return false;
}

/* While targets go over to this engine one by one, the nearest may be above the one that has it. */
static void note_claimed(const struct bpf_engine *engine, const struct credit_slot *owner, struct bpf_slot *known)
{
	uint64_t id = nearest_id(engine, owner);

	if (id && !has_kept(owner, known, id))
		known->claimed_by = id;
}

static bool make_room(const struct bpf_engine *engine, uint32_t slot, size_t nr_cpus)
{
	struct bpf_slot *known = slot_known(engine->kernel, slot);
	size_t words = unclaimed_words(&engine->kernel->sizes);
	uint64_t *more;

	if (nr_cpus <= known->nr_unclaimed)
		return true;
	more = reallocarray(known->unclaimed, nr_cpus * words, sizeof(*more));
	if (!more)
		return false;
	memset(more + known->nr_unclaimed * words, 0, (nr_cpus - known->nr_unclaimed) * words * sizeof(*more));
	slot_unsettle(engine->kernel, slot);
	if (known->nr_unclaimed == 0)
		known->claimed_by = nearest_id(engine, slot_at(engine->kernel, slot));
	known->unclaimed = more;
	known->nr_unclaimed = nr_cpus;
	return true;
}

void unclaimed_add(struct bpf_engine *engine, uint32_t slot, const struct bpf_share *share)
{
	struct words words;

	/* Without memory, its ancestors have it alone. */
	if (!make_room(engine, slot, (size_t)share->cpu + 1))
		return;
	words = find_words(engine, slot_known(engine->kernel, slot), share->cpu, share->set);
	*words.enabled += share->enabled;
	*words.running += share->running;
	if (!share->counts)
		return;
	*words.covered += share->covered;
	*words.readings += share->readings;
	for (size_t i = 0; i < bpf_plan(engine)->sets[share->set].nr; i++)
		words.counts[i] += share->counts[i];
}

static void give_set(struct bpf_engine *engine, struct bpf_target *target, const struct bpf_slot *known, size_t set)
{
	for (size_t cpu = 0; cpu < known->nr_unclaimed; cpu++) {
		const struct words words = find_words(engine, known, cpu, set);
		const struct bpf_share share = {
			.set = set,
			.cpu = (uint32_t)cpu,
			.enabled = *words.enabled,
			.running = *words.running,
			.counts = *words.covered > 0 ? words.counts : NULL,
			.covered = *words.covered,
			.readings = *words.readings,
		};

		if (share.enabled > 0 || share.counts)
			share_give(engine, target, &share);
	}
}

static void give_all(struct bpf_engine *engine, struct bpf_target *target, const struct bpf_slot *known)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used)
			give_set(engine, target, known, i);
}

void unclaimed_drop(struct bpf_slot *known)
{
	free(known->unclaimed);
	known->unclaimed = NULL;
	known->nr_unclaimed = 0;
}

void unclaimed_claim(struct bpf_engine *engine, uint32_t slot)
{
	const struct credit_slot *owner = slot_at(engine->kernel, slot);
	struct bpf_slot *known = slot_known(engine->kernel, slot);
	struct bpf_target *own, *target;

	if (known->targets == engine->targets_number && engine->targets_number > 0)
		return;
	own = bpf_target_find(engine, owner->id);
	if (known->unclaimed && own)
		give_all(engine, own, known);
	for (size_t i = 0; known->unclaimed && i < share_nr_ancestors(owner); i++) {
		if (owner->ancestors[i] == known->claimed_by)
			break;
		target = bpf_target_find(engine, owner->ancestors[i]);
		if (target)
			give_all(engine, target, known);
	}
	if (own)
		unclaimed_drop(known);
	if (known->unclaimed)
		note_claimed(engine, owner, known);
	known->target = own;
	known->targets = engine->targets_number;
}

/* The predecessor has credited the set too, as this engine does. */
static bool was_credited(const struct bpf_engine *engine, size_t set)
{
	const struct bpf_engine *from = engine->from;
	size_t old = from ? set_find_equal(bpf_plan(engine), &bpf_plan(engine)->sets[set], bpf_plan(from)) : NO_SET;

	return old != NO_SET && from->sets[old].used;
}

static void give_credited(struct bpf_engine *engine, struct bpf_target *target, const struct bpf_slot *known)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used && was_credited(engine, i))
			give_set(engine, target, known, i);
}

void unclaimed_disclaim(struct bpf_engine *engine, struct bpf_target *target)
{
	struct bpf_kernel *kernel = engine->kernel;

	for (uint32_t slot = 1; slot < kernel->config->nr_slots; slot++) {
		const struct credit_slot *owner = slot_at(kernel, slot);
		struct bpf_slot *known = slot_known(kernel, slot);

		if (!known->unclaimed)
			continue;
		if (owner->id == target->id) {
			give_credited(engine, target, known);
			unclaimed_drop(known);
		} else if (nearest_id(engine, owner) == target->id && !has_kept(owner, known, target->id)) {
			give_credited(engine, target, known);
			known->claimed_by = target->id;
		}
	}
}

void unclaimed_drop_set(struct bpf_engine *engine, size_t set)
{
	const struct bpf_kernel *kernel = engine->kernel;

	for (uint32_t slot = 1; slot < kernel->config->nr_slots; slot++) {
		const struct bpf_slot *known = slot_known(kernel, slot);

		for (size_t cpu = 0; cpu < known->nr_unclaimed; cpu++) {
			struct words words = find_words(engine, known, cpu, set);

			*words.enabled = *words.running = *words.readings = *words.covered = 0;
			memset(words.counts, 0, bpf_plan(engine)->sets[set].nr * sizeof(*words.counts));
		}
	}
}
