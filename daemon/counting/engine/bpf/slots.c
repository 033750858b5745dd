/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/slots.h"

#include "counting/engine/account.h"
#include "counting/engine/bpf/cell.h"
#include "counting/engine/bpf/conservation.h"
#include "counting/engine/bpf/slot-owners.h"
#include "counting/engine/bpf/unclaimed.h"
#include "counting/engine/bpf/unobserved.h"
#include "counting/totals/estimate.h"

#include <string.h>

/* Over less time, the share that a multiplexed set ran is not that of its counts (counting/engine/perf/group.c). */
#define BRIEF_NS 50000000U

/* Nothing is scaled that was observed for less than this, and at a cgroup's end, for less than a tenth of it. */
#define LEAST_RUNNING_NS 1000000U

/* A cgroup that is no target after so long is not going to be one soon; where slots are short, after so long. */
#define UNKNOWN_NS 3000000000U
#define UNKNOWN_SHORT_NS 200000000U

/* --- words */

static uint64_t *read_of(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	return kernel->read + ((size_t)slot * kernel->sizes.cpus + cpu) * bpf_read_words(&kernel->sizes);
}

static size_t event_word(const struct bpf_kernel *kernel, const struct bpf_set *set)
{
	return CREDIT_CELL_EVENTS(kernel->sizes.sets) + set->first_event;
}

/* A program that finds its mark there sets none, also if a reader removes that one just then and does not see yet what
 * the program has added. That must be found though nothing runs there any more: so a cell is read until two readings
 * have seen the same number of credits. The word that is kept of it tells that number, and whether it has been seen
 * twice. */
static uint64_t seen_credits(uint64_t credits, bool twice)
{
	return credits << 1 | twice;
}

/* One that was not is left alone: its memory is not there yet, and that of its readings neither. */
static bool is_credited(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	return cell_of(kernel, slot, cpu)[CREDIT_CELL_CREDITS] > 0;
}

static bool is_read(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	uint64_t credits = cell_of(kernel, slot, cpu)[CREDIT_CELL_CREDITS];

	return credits == 0 || read_of(kernel, slot, cpu)[CREDIT_CELL_CREDITS] == seen_credits(credits, true);
}

/* In which word a cell has its bit. */
static size_t mark_word(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	return cpu * (size_t)CREDIT_MARK_WORDS(kernel->sizes.slots) + slot / 64;
}

static uint64_t mark_bit(uint32_t slot)
{
	return UINT64_C(1) << slot % 64;
}

/* In a word, the bits of cells that were credited or have to be looked at once more. */
static uint64_t due_bits(const struct bpf_kernel *kernel, size_t word)
{
	return *(volatile uint64_t *)&kernel->marks[word] | kernel->looked_at[word];
}

/* The same of all CPUs, for the slots from that one on that share a word. */
static uint64_t find_due(const struct bpf_kernel *kernel, uint32_t slot)
{
	uint64_t due = 0;

	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		due |= due_bits(kernel, mark_word(kernel, slot, cpu));
	return due;
}

/* Is the cell to be read? The mark goes before that. */
static bool take_mark(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	size_t word = mark_word(kernel, slot, cpu);
	uint64_t *marks = &kernel->marks[word], *looked_at = &kernel->looked_at[word];
	uint64_t bit = mark_bit(slot);

	if (*(volatile uint64_t *)marks & bit)
		(void)__atomic_fetch_and(marks, ~bit, __ATOMIC_SEQ_CST);
	else if (!(*looked_at & bit))
		return false;
	*looked_at |= bit;
	if (!is_read(kernel, slot, cpu))
		return true;
	*looked_at &= ~bit;
	return false;
}

/* It is copied. */
static void note_read(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu)
{
	uint64_t credits = kernel->cell[CREDIT_CELL_CREDITS];
	uint64_t *seen = &read_of(kernel, slot, cpu)[CREDIT_CELL_CREDITS];

	*seen = seen_credits(credits, *seen == seen_credits(credits, false));
}

/* --- giving */

/* Gives the share to the slot's cgroup and to its ancestors, as far as they are targets. guessed: nothing of it was
 * observed. */
static void slot_give(struct bpf_engine *engine, uint32_t slot, const struct bpf_share *share, bool guessed)
{
	struct bpf_slot *known = &engine->kernel->known[slot];
	struct bpf_share own = *share;

	if (guessed && known->target && !known->target->sets[share->set].ran)
		own.counts = NULL;
	if (known->target)
		share_give(engine, known->target, &own);
	else if (!known->retired)
		unclaimed_keep(engine, slot, share);
	share_give_above(engine, &engine->kernel->slots[slot], share);
}

/* --- reading */

/* A set in a cell: where its last reading that counted stands, and what is there now. */
struct look {
	struct baseline base;
	struct reading now;
	uint64_t covered, observed; /* enabled and running time since then, ns */
	uint64_t readings;	    /* of limited events, in all */
};

/* What so many readings have made a limited event count by themselves, as far as that is known. */
static uint64_t count_of_readings(const struct credit_cpu *at, uint32_t event, uint64_t readings)
{
	uint64_t again = *(const volatile credit_word *)&at->again[event];

	return again ? (uint64_t)((double)at->repeated[event] / (double)again * (double)readings) : 0;
}

/* The cell is copied, and the copy is left alone as long as the look is used. */
static struct look look_at(const struct bpf_engine *engine, uint32_t slot, uint32_t cpu, size_t at, bool last)
{
	const struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];
	const uint64_t *cell = kernel->cell;
	uint64_t *read = read_of(kernel, slot, cpu);
	const size_t nr = bpf_plan(engine)->sets[at].nr;
	uint64_t *unscaled = engine->scratch + nr;
	struct look look = {
		.base = {
			.enabled = read[CREDIT_CELL_ENABLED(set->number)],
			.running = read[CREDIT_CELL_RUNNING(set->number)],
			.values = read + event_word(kernel, set),
		},
		.now = {
			.enabled = cell[CREDIT_CELL_ENABLED(set->number)],
			.running = cell[CREDIT_CELL_RUNNING(set->number)],
			.values = cell + event_word(kernel, set),
			.unscaled = unscaled,
			.most = UINT64_MAX,
		},
		.readings = cell[CREDIT_CELL_READINGS(set->number)],
	};

	for (size_t i = 0; i < nr; i++)
		unscaled[i] = count_of_readings(&kernel->cpus[cpu], set->first_event + (uint32_t)i,
						look.readings - read[CREDIT_CELL_READINGS(set->number)]);
	look.covered = look.now.enabled - look.base.enabled;
	look.observed = look.now.running - look.base.running;
	look.now.brief = (look.covered < BRIEF_NS || look.observed < LEAST_RUNNING_NS) && !last;
	return look;
}

static bool is_scaled(const struct look *look)
{
	return look->observed < look->covered;
}

/* What it has counted since. False: that can't be told (yet). */
static bool look_count(const struct bpf_engine *engine, struct look *look, size_t at, uint64_t *deltas)
{
	const struct set *planned = &bpf_plan(engine)->sets[at];

	if (!planned->exact && is_scaled(look) && look->observed < LEAST_RUNNING_NS / 10)
		return false;
	return estimate(&look->base, &look->now, planned->nr, planned->exact, deltas) == ESTIMATE_COUNTED;
}

/* An estimate by the cgroups beside it, of one that has ended. */
static bool look_guess(const struct bpf_engine *engine, const struct look *look, uint32_t slot, uint32_t cpu, size_t at,
		       uint64_t *deltas)
{
	return !bpf_plan(engine)->sets[at].exact && unobserved_estimate(engine, slot, cpu, at, look->covered, deltas);
}

/* last: the slot's cgroup has ended. The cell is copied. */
static void read_set(struct bpf_engine *engine, uint32_t slot, uint32_t cpu, size_t at, bool last)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];
	uint64_t *read = read_of(kernel, slot, cpu), *times = read + cell_words(kernel) + 2 * set->number;
	uint64_t *deltas = engine->scratch;
	struct look look = look_at(engine, slot, cpu, at, last);
	struct bpf_share share = {
		.set = at,
		.cpu = cpu,
		.enabled = look.now.enabled - times[0],
		.running = look.now.running - times[1],
		.covered = look.covered,
	};
	const bool exact = bpf_plan(engine)->sets[at].exact, scaled = !exact && is_scaled(&look);
	bool known, guessed;

	known = look_count(engine, &look, at, deltas);
	guessed = !known && last && look_guess(engine, &look, slot, cpu, at, deltas);
	if (known || guessed)
		share.counts = deltas;
	if (known && !scaled)
		conservation_add(engine, cpu, at, deltas);
	else
		conservation_estimated(engine, cpu, at);
	/* The next cgroup that gets the slot begins there. */
	if (last)
		baseline_move(&look.base, &look.now, bpf_plan(engine)->sets[at].nr);
	if (known || last)
		read[CREDIT_CELL_READINGS(set->number)] = look.readings;
	read[CREDIT_CELL_ENABLED(set->number)] = look.base.enabled;
	read[CREDIT_CELL_RUNNING(set->number)] = look.base.running;
	times[0] = look.now.enabled;
	times[1] = look.now.running;
	slot_give(engine, slot, &share, guessed);
}

/* A cell could not be copied, and is read the next time. */
static void put_off(struct bpf_engine *engine, uint32_t cpu)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used)
			conservation_estimated(engine, cpu, i);
}

static void slot_read(struct bpf_engine *engine, uint32_t slot, bool last)
{
	struct bpf_kernel *kernel = engine->kernel;

	unclaimed_claim(engine, slot);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
		if (last ? !is_credited(kernel, slot, cpu) : !take_mark(kernel, slot, cpu))
			continue;
		kernel->known[slot].ran = true;
		/* There is not going to be a better copy of what is read for the last time. */
		if (!cell_copy(kernel, slot, cpu) && !last) {
			put_off(engine, cpu);
			continue;
		}
		note_read(kernel, slot, cpu);
		for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
			if (engine->sets[i].used)
				read_set(engine, slot, cpu, i, last);
	}
}

/* By an ended cgroup, others are estimated that end without being observed. */
static void slot_learn(struct bpf_engine *engine, uint32_t slot, uint32_t cpu)
{
	if (!is_credited(engine->kernel, slot, cpu) || !cell_copy(engine->kernel, slot, cpu))
		return;
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		struct look look;

		if (!engine->sets[i].used || bpf_plan(engine)->sets[i].exact)
			continue;
		look = look_at(engine, slot, cpu, i, true);
		unobserved_learn(engine, slot, i, &look.base, &look.now);
	}
}

/* Before any of them is estimated. */
static void learn_ended(struct bpf_engine *engine)
{
	const struct bpf_kernel *kernel = engine->kernel;

	for (uint32_t slot = 1; slot < kernel->sizes.slots; slot++)
		for (uint32_t cpu = 0; cpu < kernel->sizes.cpus && kernel->known[slot].retired; cpu++)
			if (!kernel->known[slot].spent)
				slot_learn(engine, slot, cpu);
}

/* Hardware events that are spared in pauses are marked as such. */
static void note_pauses(struct bpf_engine *engine)
{
	struct bpf_kernel *kernel = engine->kernel;
	bool spared = false;

	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
		uint64_t paused = 2 * kernel->cpus[cpu].nr_pauses - (kernel->cpus[cpu].pauses != 0);

		spared |= kernel->cpus[cpu].pauses || kernel->paused[cpu] != paused;
		kernel->paused[cpu] = paused;
	}
	for (size_t i = 0; spared && i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used && !bpf_plan(engine)->sets[i].exact)
			engine->engine.env.health[SCOPE_CGROUP][i].spared = true;
}

void slots_skip(struct bpf_engine *engine, size_t at)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];

	conservation_reset(engine, at);
	unclaimed_drop_set(engine, at);
	for (uint32_t slot = 0; slot < kernel->sizes.slots; slot++)
		for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
			const uint64_t *cell = kernel->cell;
			uint64_t *read = read_of(kernel, slot, cpu);
			uint64_t *times = read + cell_words(kernel) + 2 * set->number;

			if (!is_credited(kernel, slot, cpu))
				continue;
			(void)cell_copy(kernel, slot, cpu);
			times[0] = read[CREDIT_CELL_ENABLED(set->number)] = cell[CREDIT_CELL_ENABLED(set->number)];
			times[1] = read[CREDIT_CELL_RUNNING(set->number)] = cell[CREDIT_CELL_RUNNING(set->number)];
			read[CREDIT_CELL_READINGS(set->number)] = cell[CREDIT_CELL_READINGS(set->number)];
			for (size_t i = 0; i < bpf_plan(engine)->sets[at].nr; i++)
				read[event_word(kernel, set) + i] = cell[event_word(kernel, set) + i];
		}
}

/* --- slots that go back */

/* The slot of the nearest ancestor that is a target. False: none was free for it, and none is. */
static bool find_ancestor_slot(struct bpf_engine *engine, uint32_t slot, uint32_t *ret)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct credit_slot *owner = &kernel->slots[slot];
	size_t place;
	const struct bpf_target *above = share_find_nearest(engine, owner, &place);

	*ret = CREDIT_ROOT_SLOT;
	if (!above || above->id == kernel->slots[CREDIT_ROOT_SLOT].id)
		return true;
	place++;
	*ret = slot_take(kernel, above->id, owner->ancestors + place, share_nr_ancestors(owner) - place);
	return *ret != CREDIT_ROOT_SLOT;
}

/* Nobody has asked for the cgroup: from now on its counts go to the slot of its nearest ancestor that is a target. One
 * that has not run may never do. */
static void slot_fold(struct bpf_engine *engine, uint32_t slot)
{
	struct bpf_kernel *kernel = engine->kernel;
	uint64_t id = kernel->slots[slot].id;
	uint32_t to;

	if (!find_ancestor_slot(engine, slot, &to))
		return;
	slot_end_aliases(kernel, slot);
	kernel->known[slot].retired = kernel->known[slot].ran ? slot_alias(kernel, id, to) : slot_forget(kernel, id);
}

void slots_begin(struct bpf_engine *engine, uint64_t id, const credit_word *ancestors, size_t nr)
{
	struct bpf_kernel *kernel = engine->kernel;
	uint32_t slot, above = CREDIT_ROOT_SLOT;

	slot_unalias(kernel, id);
	slot = slot_take(kernel, id, ancestors, nr);
	/* Cgroups below it that nobody asks for may be counted there. */
	if (slot == CREDIT_ROOT_SLOT || find_ancestor_slot(engine, slot, &above))
		slot_end_aliases(kernel, above);
}

void slots_end_aliases(struct bpf_engine *engine)
{
	for (uint32_t slot = 0; slot < engine->kernel->sizes.slots; slot++)
		slot_end_aliases(engine->kernel, slot);
}

static void slot_review(struct bpf_engine *engine, uint32_t slot, uint64_t now, uint64_t unknown_ns)
{
	struct bpf_slot *known = &engine->kernel->known[slot];

	if (known->seen_at == 0)
		known->seen_at = now;
	else if (!known->target && now - known->seen_at > unknown_ns)
		slot_fold(engine, slot);
}

/* taken: slots that were just read. Others are left alone: to look at each is what takes time. */
static void review_slots(struct bpf_engine *engine, uint32_t taken, uint64_t now)
{
	struct bpf_kernel *kernel = engine->kernel;
	bool short_of_slots = taken + kernel->config->nr_reserved > kernel->sizes.slots / 4 * 3;
	uint64_t unknown_ns = short_of_slots ? UNKNOWN_SHORT_NS : UNKNOWN_NS;

	for (uint32_t slot = 1; slot < kernel->sizes.slots; slot++)
		if (kernel->known[slot].targets == engine->targets_number && !kernel->known[slot].retired)
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

/* The same for a row, of which it says nothing new where that depends on what was given to it (share.c), or where the
 * set is not counted on its CPU. */
static enum observation observe_row(const struct bpf_engine *engine, const struct totals_row *row, size_t at,
				    enum observation whole)
{
	const struct set *set = &bpf_plan(engine)->sets[at];

	if (row->cpu == ROW_ALL_CPUS)
		return whole;
	if (!cpulist_has(&set->cpus, row->cpu))
		return OBSERVED_NOTHING;
	if (whole == OBSERVED_LOST || set->exact)
		return whole;
	if (row->times[at].enabled == 0)
		return OBSERVED_NONE;
	return row->cells[set->columns[0]].total > 0 ? OBSERVED_RUNNING : OBSERVED_NOTHING;
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
			totals_settle(target->rows[k], bpf_plan(engine), i,
				      1U << observe_row(engine, target->rows[k], i, observation));
	}
}

/* A set that could not be read on a CPU: all its events are open there, and every CPU has just been asked. */
static void note_starved(struct bpf_engine *engine, size_t at, int cpu)
{
	struct set_health *health = &engine->engine.env.health[SCOPE_CGROUP][at];

	engine->sets[at].lost = true;
	health->failures++;
	(void)account_explain_starved(&health->why, cpu);
}

static void find_starved(struct bpf_engine *engine)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		const struct cpulist *cpus = &bpf_plan(engine)->sets[i].cpus;
		const struct bpf_set *set = &engine->sets[i];

		for (size_t k = 0; set->used && !set->lost && k < cpus->nr; k++) {
			uint32_t cpu = (uint32_t)cpus->cpu[k];
			const struct credit_cpu *at = cpu < engine->kernel->sizes.cpus ? &engine->kernel->cpus[cpu] :
											 NULL;

			if (at && at->wired[set->first_event] && at->states[set->first_event] == CREDIT_NEW)
				note_starved(engine, i, cpus->cpu[k]);
		}
	}
}

void slots_end(struct bpf_engine *engine, struct bpf_target *target)
{
	uint32_t slot = slot_find(engine->kernel, target->id);

	if (slot != CREDIT_ROOT_SLOT) {
		for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++)
			slot_learn(engine, slot, cpu);
		slot_read(engine, slot, true);
		slot_end_aliases(engine->kernel, slot);
		/* Or else it is retired later, as that of a cgroup which nobody asks for. */
		engine->kernel->known[slot].retired = slot_forget(engine->kernel, target->id);
	}
	target_settle(engine, target);
}

/* Reads a slot that no program finds any more: who made it retire has seen to that, before the last flush of all CPUs.
 * A CPU that could not be asked may remember it. */
static void slot_spend(struct bpf_engine *engine, uint32_t slot)
{
	struct bpf_kernel *kernel = engine->kernel;
	struct bpf_slot *known = &kernel->known[slot];

	slot_read(engine, slot, true);
	known->spent = true;
	known->spent_before = kernel->nr_images;
}

/* Is the cgroup the slot's own, or an ancestor? */
static bool slot_is_below(const struct credit_slot *owner, uint64_t id)
{
	for (size_t i = 0; i < share_nr_ancestors(owner); i++)
		if (owner->ancestors[i] == id)
			return true;
	return owner->id == id;
}

void slots_read_below(struct bpf_engine *engine, uint64_t id)
{
	struct bpf_kernel *kernel = engine->kernel;
	uint64_t due = 0;

	(void)bpf_kernel_flush_all(kernel);
	for (uint32_t slot = 0; slot < kernel->sizes.slots; slot++) {
		if (slot % 64 == 0)
			due = find_due(kernel, slot);
		if (due & mark_bit(slot) && kernel->slots[slot].id != 0 && !kernel->known[slot].spent &&
		    slot_is_below(&kernel->slots[slot], id))
			slot_read(engine, slot, false);
	}
}

void slots_read(struct bpf_engine *engine, uint64_t now)
{
	struct bpf_kernel *kernel = engine->kernel;
	struct bpf_target *target, *next;
	bool all = bpf_kernel_flush_all(kernel);
	uint64_t due = 0;
	uint32_t taken = 0;

	if (all)
		find_starved(engine);
	note_pauses(engine);
	learn_ended(engine);
	conservation_begin(engine);
	for (uint32_t slot = 0; slot < kernel->sizes.slots; slot++) {
		const struct bpf_slot *known = &kernel->known[slot];

		if (slot % 64 == 0)
			due = find_due(kernel, slot);
		if (kernel->slots[slot].id == 0)
			continue;
		taken++;
		if (known->spent && (kernel->nr_images == 0 || kernel->nr_images > known->spent_before))
			slot_free(kernel, slot);
		else if (known->retired && !known->spent && all)
			slot_spend(engine, slot);
		else if (!known->spent && due & mark_bit(slot))
			slot_read(engine, slot, false);
		else if (!known->spent)
			unclaimed_claim(engine, slot);
	}
	conservation_end(engine);
	review_slots(engine, taken, now);
	slot_reserve(kernel, bpf_slots_to_reserve(bpf_nr_to_come(engine), kernel->sizes.slots));
	HASH_ITER(hh, engine->targets, target, next)
		target_settle(engine, target);
}
