/* SPDX-License-Identifier: MIT */

#include "engine/bpf/slots.h"

#include "engine/account.h"
#include "totals/estimate.h"

#include <string.h>

/* Over less time, the share that a multiplexed set ran is not that of its counts (engine/perf/group.c). */
#define BRIEF_NS 50000000U

/* A cgroup that is no target after so long is not going to be one soon; where slots are short, after so long. */
#define UNKNOWN_NS 3000000000U
#define UNKNOWN_SHORT_NS 200000000U

/* --- words */

static size_t cell_words(const struct bpf_kernel *kernel)
{
	return CREDIT_CELL_WORDS(kernel->sizes.sets, kernel->sizes.events);
}

static const volatile uint64_t *cell_of(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	return kernel->cells + ((size_t)slot * kernel->sizes.cpus + cpu) * cell_words(kernel);
}

static uint64_t *read_of(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	return kernel->read + ((size_t)slot * kernel->sizes.cpus + cpu) * bpf_read_words(&kernel->sizes);
}

static size_t event_word(const struct bpf_kernel *kernel, const struct bpf_set *set)
{
	return CREDIT_CELL_EVENTS(kernel->sizes.sets) + set->first_event;
}

/* --- giving */

/* What a set has counted in a cgroup on a CPU. */
struct share {
	size_t set;
	size_t bin; /* the number of the row that gets it */
	uint64_t enabled, running;
	const uint64_t *counts; /* NULL: they are not known yet */
	uint64_t covered;	/* enabled time that they cover */
};

static void target_give(struct bpf_engine *engine, struct bpf_target *target, const struct share *share)
{
	struct bpf_target_set *set = &target->sets[share->set];
	const struct account account = {
		.row = target->rows[share->bin < target->nr_rows ? share->bin : 0],
		.plan = bpf_plan(engine),
		.set = share->set,
		.health = &engine->engine.env.health[SCOPE_CGROUP][share->set],
	};

	if (target->fed || set->ended)
		return;
	account_add_times(&account, share->enabled, share->running);
	if (share->counts)
		account_add_counts(&account, share->counts, share->covered);
	set->enabled |= share->enabled > 0;
	set->ran |= share->counts && share->covered > 0;
	account_note_run(&account, share->counts ? 0 : share->enabled, set->ran, false);
}

/* Keeps it for the cgroup, which may become a target. */
static void slot_keep(struct bpf_engine *engine, uint32_t slot, const struct share *share)
{
	struct bpf_kernel *kernel = engine->kernel;
	struct bpf_slot *known = &kernel->known[slot];
	const struct bpf_set *set = &engine->sets[share->set];
	size_t words = cell_words(kernel), nr_bins = share->bin + 1;
	uint64_t *bin;

	if (nr_bins > known->nr_bins) {
		uint64_t *more = reallocarray(known->unclaimed, nr_bins * words, sizeof(*more));

		/* Without memory, its ancestors have it alone. */
		if (!more)
			return;
		memset(more + known->nr_bins * words, 0, (nr_bins - known->nr_bins) * words * sizeof(*more));
		known->unclaimed = more;
		known->nr_bins = nr_bins;
	}
	bin = known->unclaimed + share->bin * words;
	bin[CREDIT_CELL_ENABLED(set->number)] += share->enabled;
	bin[CREDIT_CELL_RUNNING(set->number)] += share->running;
	for (size_t i = 0; share->counts && i < bpf_plan(engine)->sets[share->set].nr; i++)
		bin[event_word(kernel, set) + i] += share->counts[i];
}

/* Gives the share to the slot's cgroup and to its ancestors, as far as they are targets. */
static void slot_give(struct bpf_engine *engine, uint32_t slot, const struct share *share)
{
	const struct credit_slot *owner = &engine->kernel->slots[slot];
	struct bpf_slot *known = &engine->kernel->known[slot];
	struct bpf_target *target = bpf_target_find(engine, owner->id);

	if (target)
		target_give(engine, target, share);
	else if (!known->retired)
		slot_keep(engine, slot, share);
	for (size_t i = 0; i < owner->nr_ancestors && i < CREDIT_DEPTH_MAX; i++) {
		target = bpf_target_find(engine, owner->ancestors[i]);
		if (target)
			target_give(engine, target, share);
	}
}

/* --- unclaimed counts */

/* The nearest ancestor that is a target: its place among the ancestors, or their number. */
static size_t find_nearest(const struct bpf_engine *engine, const struct credit_slot *owner)
{
	size_t i = 0;

	while (i < owner->nr_ancestors && i < CREDIT_DEPTH_MAX && !bpf_target_find(engine, owner->ancestors[i]))
		i++;
	return i;
}

static uint64_t nearest_id(const struct bpf_engine *engine, const struct credit_slot *owner)
{
	size_t i = find_nearest(engine, owner);

	return i < owner->nr_ancestors && i < CREDIT_DEPTH_MAX ? owner->ancestors[i] : 0;
}

static void give_unclaimed(struct bpf_engine *engine, struct bpf_target *target, const struct bpf_slot *known)
{
	for (size_t bin = 0; bin < known->nr_bins; bin++)
		for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
			const struct bpf_set *set = &engine->sets[i];
			const uint64_t *words = known->unclaimed + bin * cell_words(engine->kernel);
			const struct share share = {
				.set = i,
				.bin = bin,
				.enabled = set->used ? words[CREDIT_CELL_ENABLED(set->number)] : 0,
				.running = set->used ? words[CREDIT_CELL_RUNNING(set->number)] : 0,
				.counts = words + event_word(engine->kernel, set),
				.covered = set->used ? words[CREDIT_CELL_ENABLED(set->number)] : 0,
			};

			if (set->used && share.enabled > 0)
				target_give(engine, target, &share);
		}
}

static void drop_unclaimed(struct bpf_slot *known)
{
	free(known->unclaimed);
	known->unclaimed = NULL;
	known->nr_bins = 0;
}

/* Targets that have come since between the cgroup and those that have its unclaimed counts get them. */
static void slot_claim(struct bpf_engine *engine, uint32_t slot)
{
	const struct credit_slot *owner = &engine->kernel->slots[slot];
	struct bpf_slot *known = &engine->kernel->known[slot];
	struct bpf_target *own = bpf_target_find(engine, owner->id), *target;

	if (known->unclaimed && own)
		give_unclaimed(engine, own, known);
	for (size_t i = 0; known->unclaimed && i < owner->nr_ancestors && i < CREDIT_DEPTH_MAX; i++) {
		if (owner->ancestors[i] == known->claimed_by)
			break;
		target = bpf_target_find(engine, owner->ancestors[i]);
		if (target)
			give_unclaimed(engine, target, known);
	}
	if (own)
		drop_unclaimed(known);
	known->claimed_by = nearest_id(engine, owner);
}

void slots_disclaim(struct bpf_engine *engine, const struct bpf_target *target)
{
	struct bpf_kernel *kernel = engine->kernel;

	for (uint32_t slot = 1; slot < kernel->sizes.slots; slot++) {
		const struct credit_slot *owner = &kernel->slots[slot];

		if (owner->id == target->id)
			drop_unclaimed(&kernel->known[slot]);
		else if (kernel->known[slot].unclaimed && nearest_id(engine, owner) == target->id)
			kernel->known[slot].claimed_by = target->id;
	}
}

/* --- reading */

/* The number of the row that gets what is counted on the CPU. */
static size_t bin_of(const struct bpf_engine *engine, uint32_t cpu)
{
	for (size_t i = 0; i < engine->cpus.nr; i++)
		if (engine->cpus.cpu[i] == (int)cpu)
			return i;
	return 0;
}

static void read_set(struct bpf_engine *engine, uint32_t slot, uint32_t cpu, size_t at, bool last)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];
	const struct set *planned = &bpf_plan(engine)->sets[at];
	const volatile uint64_t *cell = cell_of(kernel, slot, cpu);
	uint64_t *read = read_of(kernel, slot, cpu), *times = read + cell_words(kernel) + 2 * set->number;
	uint64_t *values = engine->scratch, *deltas = engine->scratch + planned->nr;
	struct baseline base = {
		.enabled = read[CREDIT_CELL_ENABLED(set->number)],
		.running = read[CREDIT_CELL_RUNNING(set->number)],
		.values = read + event_word(kernel, set),
	};
	struct reading now = {
		.enabled = cell[CREDIT_CELL_ENABLED(set->number)],
		.running = cell[CREDIT_CELL_RUNNING(set->number)],
		.values = values,
		.most = UINT64_MAX,
	};
	struct share share = {
		.set = at,
		.bin = bin_of(engine, cpu),
		.enabled = now.enabled - times[0],
		.running = now.running - times[1],
		.covered = now.enabled - base.enabled,
	};

	for (size_t i = 0; i < planned->nr; i++)
		values[i] = cell[event_word(kernel, set) + i];
	now.brief = share.covered < BRIEF_NS && !last;
	if (estimate(&base, &now, planned->nr, planned->exact, deltas) == ESTIMATE_COUNTED)
		share.counts = deltas;
	read[CREDIT_CELL_ENABLED(set->number)] = base.enabled;
	read[CREDIT_CELL_RUNNING(set->number)] = base.running;
	times[0] = now.enabled;
	times[1] = now.running;
	slot_give(engine, slot, &share);
}

static void slot_read(struct bpf_engine *engine, uint32_t slot, bool last)
{
	struct bpf_kernel *kernel = engine->kernel;

	slot_claim(engine, slot);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
		uint64_t *read = read_of(kernel, slot, cpu);
		uint64_t credits = cell_of(kernel, slot, cpu)[CREDIT_CELL_CREDITS];

		if (read[CREDIT_CELL_CREDITS] == credits && !last)
			continue;
		read[CREDIT_CELL_CREDITS] = credits;
		for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
			if (engine->sets[i].used)
				read_set(engine, slot, cpu, i, last);
	}
}

void slots_skip(struct bpf_engine *engine, size_t at)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];

	for (uint32_t slot = 0; slot < kernel->sizes.slots; slot++)
		for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
			const volatile uint64_t *cell = cell_of(kernel, slot, cpu);
			uint64_t *read = read_of(kernel, slot, cpu);
			uint64_t *times = read + cell_words(kernel) + 2 * set->number;

			/* A cell that was never credited is not touched: its memory is not there yet. */
			if (cell[CREDIT_CELL_CREDITS] == 0)
				continue;
			times[0] = read[CREDIT_CELL_ENABLED(set->number)] = cell[CREDIT_CELL_ENABLED(set->number)];
			times[1] = read[CREDIT_CELL_RUNNING(set->number)] = cell[CREDIT_CELL_RUNNING(set->number)];
			for (size_t i = 0; i < bpf_plan(engine)->sets[at].nr; i++)
				read[event_word(kernel, set) + i] = cell[event_word(kernel, set) + i];
		}
}

/* --- slots that go back */

/* The slot of the nearest ancestor that is a target. It may not have run by itself, and gets a slot then. False: there
 * is none free. */
static bool find_ancestor_slot(struct bpf_engine *engine, uint32_t slot, uint32_t *ret)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct credit_slot *owner = &kernel->slots[slot];
	size_t i = find_nearest(engine, owner), nr = owner->nr_ancestors;

	*ret = CREDIT_ROOT_SLOT;
	if (i >= nr || i >= CREDIT_DEPTH_MAX || owner->ancestors[i] == kernel->slots[CREDIT_ROOT_SLOT].id)
		return true;
	*ret = bpf_kernel_find_slot(kernel, owner->ancestors[i]);
	if (*ret == CREDIT_ROOT_SLOT)
		*ret = bpf_kernel_take_slot(kernel, owner->ancestors[i], owner->ancestors + i + 1, nr - i - 1);
	return *ret != CREDIT_ROOT_SLOT;
}

/* Nobody has asked for the cgroup: from now on its counts go to the slot of its nearest ancestor that is a target. */
static void slot_fold(struct bpf_engine *engine, uint32_t slot)
{
	struct bpf_kernel *kernel = engine->kernel;
	uint32_t to;

	if (find_ancestor_slot(engine, slot, &to) && bpf_kernel_alias(kernel, kernel->slots[slot].id, to))
		kernel->known[slot].retired = true;
}

static void slot_review(struct bpf_engine *engine, uint32_t slot, uint64_t now, uint64_t unknown_ns)
{
	struct bpf_slot *known = &engine->kernel->known[slot];
	uint32_t ancestor;

	if (known->seen_at == 0) {
		known->seen_at = now;
		/* Where all slots are taken, the counts of its siblings go there. */
		(void)find_ancestor_slot(engine, slot, &ancestor);
	} else if (!bpf_target_find(engine, engine->kernel->slots[slot].id) && now - known->seen_at > unknown_ns)
		slot_fold(engine, slot);
}

static void review_slots(struct bpf_engine *engine, uint64_t now)
{
	struct bpf_kernel *kernel = engine->kernel;
	uint64_t unknown_ns;
	uint32_t taken = 0;

	for (uint32_t slot = 1; slot < kernel->sizes.slots; slot++)
		taken += kernel->slots[slot].id != 0;
	unknown_ns = taken > kernel->sizes.slots / 4 * 3 ? UNKNOWN_SHORT_NS : UNKNOWN_NS;
	for (uint32_t slot = 1; slot < kernel->sizes.slots; slot++)
		if (kernel->slots[slot].id && !kernel->known[slot].retired)
			slot_review(engine, slot, now, unknown_ns);
}

/* --- what is measured */

static enum observation observe(const struct bpf_engine *engine, const struct bpf_target *target, size_t at)
{
	const struct bpf_target_set *set = &target->sets[at];

	if (engine->sets[at].lost)
		return OBSERVED_LOST;
	if (bpf_plan(engine)->sets[at].exact || set->ran)
		return OBSERVED_RUNNING;
	return set->enabled ? OBSERVED_PENDING : OBSERVED_NONE;
}

static void target_settle(const struct bpf_engine *engine, struct bpf_target *target)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		struct bpf_target_set *set = &target->sets[i];
		enum observation observation = observe(engine, target, i);

		if (!engine->sets[i].used || set->ended || target->fed ||
		    (set->settled && set->observation == observation))
			continue;
		set->settled = true;
		set->observation = observation;
		for (size_t k = 0; k < target->nr_rows; k++)
			totals_settle(target->rows[k], bpf_plan(engine), i, 1U << observation);
	}
}

void slots_end(struct bpf_engine *engine, struct bpf_target *target)
{
	uint32_t slot = bpf_kernel_find_slot(engine->kernel, target->id);

	if (slot != CREDIT_ROOT_SLOT) {
		slot_read(engine, slot, true);
		bpf_kernel_forget(engine->kernel, target->id);
		bpf_kernel_drop_aliases(engine->kernel, slot);
		engine->kernel->known[slot].retired = true;
	}
	target_settle(engine, target);
}

void slots_read(struct bpf_engine *engine, uint64_t now)
{
	struct bpf_kernel *kernel = engine->kernel;
	struct bpf_target *target, *next;

	(void)bpf_kernel_flush_all(kernel);
	for (uint32_t slot = 1; slot < kernel->sizes.slots; slot++) {
		/* Who made it retire has seen to it that no program finds it, before the flush above. */
		bool retired = kernel->known[slot].retired;

		if (kernel->slots[slot].id == 0)
			continue;
		slot_read(engine, slot, retired);
		if (retired)
			bpf_kernel_free_slot(kernel, slot);
	}
	review_slots(engine, now);
	HASH_ITER(hh, engine->targets, target, next)
		target_settle(engine, target);
}
