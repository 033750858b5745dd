/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/slots.h"

#include "counting/engine/account.h"
#include "counting/engine/bpf/cell.h"
#include "counting/engine/bpf/conservation.h"
#include "counting/engine/bpf/slot-bits.h"
#include "counting/engine/bpf/slot-owners.h"
#include "counting/engine/bpf/unclaimed.h"

#include <string.h>

/* Over less time, the share that a multiplexed set ran is not that of its counts (counting/engine/perf/group.c). */
#define BRIEF_NS 50000000U

/* Nothing is scaled that was observed for less than this, or at a cgroup's end, for less than the second. */
#define LEAST_RUNNING_NS 1000000U
#define LEAST_RUNNING_LAST_NS 100000U

/* A cgroup that is no target after so long is not going to be one soon; where slots are short, after so long. */
#define UNKNOWN_NS 3000000000U
#define UNKNOWN_SHORT_NS 200000000U

/* --- cells that are due */

/* A cell, and the slot that has it. */
struct place {
	uint32_t cpu, cell, slot;
};

static size_t event_word(const struct bpf_kernel *kernel, const struct bpf_set *set)
{
	return CREDIT_CELL_EVENTS(kernel->sizes.sets) + set->first_event;
}

static struct place place_of(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell)
{
	return (struct place){ cpu, cell, (uint32_t)cell_at(kernel, cpu, cell)[CREDIT_CELL_SLOT] };
}

/* The slot's cell on the CPU. False: it has none. */
static bool find_place(const struct bpf_kernel *kernel, uint32_t slot, uint32_t cpu, struct place *ret)
{
	*ret = (struct place){ cpu, slot_cell(kernel, slot, cpu), slot };
	return ret->cell != CREDIT_ROOT_CELL;
}

/* A program that finds its mark there sets none, also if a reader removes that one just then and does not see yet what
 * the program has added. That must be found though nothing runs there any more: so a cell is read until two readings
 * have seen the same number of credits. The word that is kept of it tells that number, and whether it has been seen
 * twice. */
static uint64_t seen_credits(uint64_t credits, bool twice)
{
	return credits << 1 | twice;
}

static bool is_read(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell)
{
	uint64_t credits = cell_at(kernel, cpu, cell)[CREDIT_CELL_CREDITS];

	return credits == 0 || cell_read(kernel, cpu, cell)[CREDIT_CELL_CREDITS] == seen_credits(credits, true);
}

/* Bits of cells that were credited, or are to be read once more. */
static uint64_t due_bits(const struct bpf_kernel *kernel, size_t word)
{
	return *(volatile uint64_t *)&kernel->marks[word] | kernel->looked_at[word];
}

/* Is the cell to be read? The mark goes before that. */
static bool take_mark(const struct bpf_kernel *kernel, const struct place *place)
{
	size_t word = bit_word(kernel, place->cpu, place->cell);
	uint64_t *marks = &kernel->marks[word], *looked_at = &kernel->looked_at[word];
	uint64_t bit = UINT64_C(1) << place->cell % 64;

	if (*(volatile uint64_t *)marks & bit)
		(void)__atomic_fetch_and(marks, ~bit, __ATOMIC_SEQ_CST);
	*looked_at |= bit;
	if (!is_read(kernel, place->cpu, place->cell))
		return true;
	*looked_at &= ~bit;
	return false;
}

/* It is copied. */
static void note_read(const struct bpf_kernel *kernel, const struct place *place)
{
	uint64_t credits = kernel->cell[CREDIT_CELL_CREDITS];
	uint64_t *seen = &cell_read(kernel, place->cpu, place->cell)[CREDIT_CELL_CREDITS];

	*seen = seen_credits(credits, *seen == seen_credits(credits, false));
}

/* --- giving */

/* Gives the share to the slot's cgroup and to its ancestors, as far as they are targets. guessed: nothing of it was
 * observed. */
static void slot_give(struct bpf_engine *engine, uint32_t slot, const struct bpf_share *share, bool guessed)
{
	struct bpf_slot *known = slot_known(engine->kernel, slot);
	struct bpf_share own = *share;

	if (guessed && known->target && !known->target->sets[share->set].ran)
		own.counts = NULL;
	if (known->target)
		share_give(engine, known->target, &own);
	else if (!known->retired)
		unclaimed_add(engine, slot, share);
	share_give_above(engine, slot_at(engine->kernel, slot), share);
}

/* --- looking
 *
 * A set in a cell: where its last reading that counted stands, and what is there now. */
struct look {
	struct baseline base;
	struct reading now;
	uint64_t covered; /* enabled time since then, ns */
	bool scaled;	  /* it was observed for a part of that */
};

/* The cell is copied, and the copy is left alone as long as the look is used. */
static struct look look_at(const struct bpf_engine *engine, const struct place *place, size_t at, bool last)
{
	const struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];
	const uint64_t *cell = kernel->cell;
	uint64_t *read = cell_read(kernel, place->cpu, place->cell);
	const struct credit_cpu *cpu = &kernel->cpus[place->cpu];
	const struct set *planned = &bpf_plan(engine)->sets[at];
	uint64_t observed;
	struct look look = {
		.base = {
			.enabled = read[CREDIT_CELL_ENABLED(set->number)],
			.running = read[CREDIT_CELL_RUNNING(set->number)],
			.values = read + event_word(kernel, set),
			.readings = read[CREDIT_CELL_READINGS(set->number)],
		},
		.now = {
			.enabled = cell[CREDIT_CELL_ENABLED(set->number)],
			.running = cell[CREDIT_CELL_RUNNING(set->number)],
			.values = cell + event_word(kernel, set),
			.readings = cell[CREDIT_CELL_READINGS(set->number)],
			.costs = engine->costs,
			.most = UINT64_MAX,
		},
	};

	for (size_t i = 0; i < planned->nr; i++) {
		engine->costs[i].readings = ((const volatile credit_word *)cpu->again)[set->first_event + i];
		engine->costs[i].counts = cpu->repeated[set->first_event + i];
	}
	observed = look.now.running - look.base.running;
	look.covered = look.now.enabled - look.base.enabled;
	look.scaled = !planned->exact && observed < look.covered;
	look.now.brief = last ? observed < LEAST_RUNNING_LAST_NS :
				look.covered < BRIEF_NS || observed < LEAST_RUNNING_NS;
	return look;
}

/* --- cgroups that have ended, and were not observed */

/* By others that have ended below the target. Before any of them was observed, by all that is below it; but for the
 * root cgroup, which has the idle time of its CPUs, too. False: too little of these was observed. */
static bool guess_by(const struct bpf_engine *engine, const struct bpf_target *target, uint32_t cpu, size_t at,
		     uint64_t covered, uint64_t *ret)
{
	const struct set *planned = &bpf_plan(engine)->sets[at];
	const struct totals_row *row = share_row(engine, target, cpu);

	return unobserved_estimate(target->sets[at].pool, planned->nr, covered, ret) ||
	       (!target->fed && unobserved_estimate_by_row(row, planned, at, covered, ret));
}

/* By the nearest target above that tells of it. */
static bool look_guess(struct bpf_engine *engine, const struct look *look, const struct place *place, size_t at,
		       uint64_t *deltas, size_t *ret_blind)
{
	const struct bpf_family *family = share_family(engine, slot_at(engine->kernel, place->slot));

	if (bpf_plan(engine)->sets[at].exact)
		return false;
	for (size_t i = 0; family && i < family->nr; i++) {
		*ret_blind = i;
		if (guess_by(engine, family->above[i], place->cpu, at, look->covered, deltas))
			return true;
	}
	return false;
}

/* Gives the target what can be told now of those that ended before anything was observed. */
static void catch_up(struct bpf_engine *engine, struct bpf_target *target, uint32_t cpu, size_t at)
{
	const struct bpf_share share = {
		.set = at,
		.cpu = cpu,
		.counts = engine->deltas,
		.covered = target->sets[at].unguessed,
	};

	if (share.covered == 0 || !guess_by(engine, target, cpu, at, share.covered, engine->deltas))
		return;
	target->sets[at].unguessed = 0;
	share_give(engine, target, &share);
}

static void look_learn(struct bpf_engine *engine, const struct look *look, const struct place *place, size_t at)
{
	const struct bpf_family *family = share_family(engine, slot_at(engine->kernel, place->slot));

	if (!family)
		return;
	unobserved_learn(&family->above[0]->sets[at].pool, bpf_plan(engine)->sets[at].nr, &look->base, &look->now);
	for (size_t i = 0; i < family->nr; i++)
		catch_up(engine, family->above[i], place->cpu, at);
}

/* --- reading */

/* last: the slot's cgroup has ended. The cell is copied. */
static void read_set(struct bpf_engine *engine, const struct place *place, size_t at, bool last)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];
	uint64_t *read = cell_read(kernel, place->cpu, place->cell);
	uint64_t *times = read + bpf_cell_words(&kernel->sizes) + 2 * set->number;
	const struct set *planned = &bpf_plan(engine)->sets[at];
	uint64_t *deltas = engine->deltas;
	struct look look = look_at(engine, place, at, last);
	struct bpf_share share = {
		.set = at,
		.cpu = place->cpu,
		.enabled = look.now.enabled - times[0],
		.running = look.now.running - times[1],
		.covered = look.covered,
		.readings = look.now.readings - look.base.readings,
	};
	bool known = estimate(&look.base, &look.now, planned->nr, planned->exact, deltas) == ESTIMATE_COUNTED;
	bool guessed;

	guessed = !known && last && look_guess(engine, &look, place, at, deltas, &share.blind);
	if (known || guessed)
		share.counts = deltas;
	if (guessed)
		share.readings = 0;
	if (known && !look.scaled)
		conservation_add(engine, place->cpu, at, deltas);
	else
		conservation_estimated(engine, place->cpu, at);
	/* The next cgroup that gets the slot begins there. */
	if (last)
		baseline_move(&look.base, &look.now, planned->nr);
	read[CREDIT_CELL_READINGS(set->number)] = look.base.readings;
	read[CREDIT_CELL_ENABLED(set->number)] = look.base.enabled;
	read[CREDIT_CELL_RUNNING(set->number)] = look.base.running;
	times[0] = look.now.enabled;
	times[1] = look.now.running;
	slot_give(engine, place->slot, &share, guessed);
}

/* A cell could not be copied, and is read the next time. */
static void put_off(struct bpf_engine *engine, uint32_t cpu)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used)
			conservation_estimated(engine, cpu, i);
}

static void cell_take(struct bpf_engine *engine, const struct place *place, bool last)
{
	struct bpf_kernel *kernel = engine->kernel;

	unclaimed_claim(engine, place->slot);
	slot_known(kernel, place->slot)->ran = true;
	/* There is not going to be a better copy of what is read for the last time. */
	if (!cell_copy(kernel, place->cpu, place->cell) && !last) {
		put_off(engine, place->cpu);
		return;
	}
	note_read(kernel, place);
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used)
			read_set(engine, place, i, last);
}

/* Is the cgroup the slot's own, or an ancestor? */
static bool slot_is_below(const struct credit_slot *owner, uint64_t id)
{
	for (size_t i = 0; i < share_nr_ancestors(owner); i++)
		if (owner->ancestors[i] == id)
			return true;
	return owner->id == id;
}

/* Cells to be read: of cgroups at and below that id; 0: of all. ended: also those of slots that have retired. */
struct due {
	uint64_t below;
	bool ended;
};

static void read_due_cell(struct bpf_engine *engine, uint32_t cpu, uint32_t cell, const struct due *due)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct place place = place_of(kernel, cpu, cell);
	const struct credit_slot *owner = slot_at(kernel, place.slot);
	struct bpf_slot *known = slot_known(kernel, place.slot);

	/* A CPU that could not be asked credits a slot after its end. */
	if (owner->id == 0)
		return;
	slot_note_taken(kernel, place.slot);
	if (known->spent || (known->retired && !due->ended))
		return;
	if (due->below && !slot_is_below(owner, due->below))
		return;
	if (take_mark(kernel, &place))
		cell_take(engine, &place, false);
}

static void read_due(struct bpf_engine *engine, const struct due *due)
{
	const struct bpf_kernel *kernel = engine->kernel;

	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
		const uint32_t nr = nr_cells(kernel, cpu);

		for (uint32_t first = 0; first < nr; first += 64)
			for (uint64_t bits = due_bits(kernel, bit_word(kernel, cpu, first)); bits; bits &= bits - 1) {
				uint32_t cell = first + (uint32_t)__builtin_ctzll(bits);

				if (cell < nr)
					read_due_cell(engine, cpu, cell, due);
			}
	}
}

/* By an ended cgroup, others are estimated that end without being observed. */
static void slot_learn(struct bpf_engine *engine, uint32_t slot)
{
	struct place place;

	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++) {
		if (!find_place(engine->kernel, slot, cpu, &place) || !cell_copy(engine->kernel, cpu, place.cell))
			continue;
		for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
			struct look look;

			if (!engine->sets[i].used || bpf_plan(engine)->sets[i].exact)
				continue;
			look = look_at(engine, &place, i, true);
			look_learn(engine, &look, &place, i);
		}
	}
}

/* Before any of them is estimated. */
static void learn_ended(struct bpf_engine *engine)
{
	const struct bpf_kernel *kernel = engine->kernel;
	const uint32_t nr = (uint32_t)kernel->config->nr_slots;

	for (uint32_t slot = 1; (slot = slot_next(kernel, kernel->unsettled, slot)) < nr; slot++) {
		const struct bpf_slot *known = slot_known(kernel, slot);

		if (known->retired && !known->spent)
			slot_learn(engine, slot);
	}
}

/* Reads the cells of a cgroup that has ended. */
static void read_ended(struct bpf_engine *engine, uint32_t slot)
{
	struct place place;

	unclaimed_claim(engine, slot);
	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++)
		if (find_place(engine->kernel, slot, cpu, &place))
			cell_take(engine, &place, true);
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

static void skip_cell(struct bpf_engine *engine, uint32_t cpu, uint32_t cell, size_t at)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];
	const uint64_t *copy = kernel->cell;
	uint64_t *read = cell_read(kernel, cpu, cell);
	uint64_t *times = read + bpf_cell_words(&kernel->sizes) + 2 * set->number;

	if (cell_at(kernel, cpu, cell)[CREDIT_CELL_CREDITS] == 0)
		return;
	(void)cell_copy(kernel, cpu, cell);
	times[0] = read[CREDIT_CELL_ENABLED(set->number)] = copy[CREDIT_CELL_ENABLED(set->number)];
	times[1] = read[CREDIT_CELL_RUNNING(set->number)] = copy[CREDIT_CELL_RUNNING(set->number)];
	read[CREDIT_CELL_READINGS(set->number)] = copy[CREDIT_CELL_READINGS(set->number)];
	for (size_t i = 0; i < bpf_plan(engine)->sets[at].nr; i++)
		read[event_word(kernel, set) + i] = copy[event_word(kernel, set) + i];
}

void slots_skip(struct bpf_engine *engine, size_t at)
{
	conservation_reset(engine, at);
	unclaimed_drop_set(engine, at);
	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++)
		for (uint32_t cell = 0; cell < nr_cells(engine->kernel, cpu); cell++)
			skip_cell(engine, cpu, cell, at);
}

/* --- slots that go back */

/* The slot of the nearest ancestor that is a target. False: none was free for it, and none is. */
static bool find_ancestor_slot(struct bpf_engine *engine, uint32_t slot, uint32_t *ret)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct credit_slot *owner = slot_at(kernel, slot);
	size_t place;
	const struct bpf_target *above = share_find_nearest(engine, owner, &place);

	*ret = CREDIT_ROOT_SLOT;
	if (!above || above->id == slot_at(kernel, CREDIT_ROOT_SLOT)->id)
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
	struct bpf_slot *known = slot_known(kernel, slot);
	uint64_t id = slot_at(kernel, slot)->id;
	uint32_t to;

	if (!find_ancestor_slot(engine, slot, &to))
		return;
	slot_end_aliases(kernel, slot);
	known->retired = known->ran ? slot_alias(kernel, id, to) : slot_forget(kernel, id);
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
	for (uint32_t slot = 0; slot < engine->kernel->config->nr_slots; slot++)
		slot_end_aliases(engine->kernel, slot);
}

static void slot_review(struct bpf_engine *engine, uint32_t slot, uint64_t now, uint64_t unknown_ns)
{
	struct bpf_slot *known = slot_known(engine->kernel, slot);

	if (known->seen_at == 0)
		known->seen_at = now;
	else if (!known->target && now - known->seen_at > unknown_ns)
		slot_fold(engine, slot);
}

/* taken: slots that cgroups have. */
static void review_slots(struct bpf_engine *engine, uint32_t taken, uint64_t now)
{
	struct bpf_kernel *kernel = engine->kernel;
	const uint32_t nr = (uint32_t)kernel->config->nr_slots;
	bool short_of_slots = taken + bpf_slots_to_reserve(engine) > kernel->sizes.slots / 4 * 3;
	uint64_t unknown_ns = short_of_slots ? UNKNOWN_SHORT_NS : UNKNOWN_NS;

	for (uint32_t slot = 0; (slot = slot_next(kernel, kernel->unsettled, slot)) < nr; slot++) {
		const struct bpf_slot *known = slot_known(kernel, slot);

		if (known->retired || known->targets != engine->targets_number)
			continue;
		if (slot != CREDIT_ROOT_SLOT)
			slot_review(engine, slot, now, unknown_ns);
		if (known->target)
			slot_settle(kernel, slot);
	}
}

/* --- what is measured */

static enum observation observe(const struct bpf_engine *engine, const struct bpf_target *target, size_t at)
{
	const struct bpf_target_set *set = &target->sets[at];

	if (engine->sets[at].lost || target->lacks)
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

static void target_decide(const struct bpf_engine *engine, struct bpf_target *target)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		struct bpf_target_set *set = &target->sets[i];
		enum observation observation = observe(engine, target, i);

		if (!engine->sets[i].used || set->ended || target->fed ||
		    (set->told && set->observation == observation))
			continue;
		set->told = true;
		set->observation = observation;
		for (size_t k = 0; k < target->nr_rows; k++)
			totals_decide(target->rows[k], bpf_plan(engine), i,
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
		slot_learn(engine, slot);
		read_ended(engine, slot);
		slot_end_aliases(engine->kernel, slot);
		/* Or else it is retired later, as that of a cgroup which nobody asks for. */
		slot_known(engine->kernel, slot)->retired = slot_forget(engine->kernel, target->id);
		slot_unsettle(engine->kernel, slot);
	}
	target_decide(engine, target);
}

/* Reads a slot that no program finds any more: who made it retire has seen to that, before the last flush of all CPUs.
 * A CPU that could not be asked may remember it. */
static void slot_spend(struct bpf_engine *engine, uint32_t slot)
{
	struct bpf_kernel *kernel = engine->kernel;
	struct bpf_slot *known = slot_known(kernel, slot);

	read_ended(engine, slot);
	known->spent = true;
	known->spent_before = kernel->nr_images;
}

void slots_read_below(struct bpf_engine *engine, uint64_t id)
{
	const struct due due = { .below = id, .ended = true };

	(void)bpf_kernel_flush_all(engine->kernel);
	read_due(engine, &due);
}

/* Reads ended slots for the last time, if all CPUs could be asked, and frees those that were. */
static void visit_slots(struct bpf_engine *engine, bool all)
{
	struct bpf_kernel *kernel = engine->kernel;
	const uint32_t nr = (uint32_t)kernel->config->nr_slots;

	for (uint32_t slot = 0; (slot = slot_next(kernel, kernel->unsettled, slot)) < nr; slot++) {
		const struct bpf_slot *known = slot_known(kernel, slot);

		if (known->spent && (kernel->nr_images == 0 || kernel->nr_images > known->spent_before))
			slot_free(kernel, slot);
		else if (known->retired && !known->spent && all)
			slot_spend(engine, slot);
		else if (!known->spent)
			unclaimed_claim(engine, slot);
	}
}

#define LACKING                                                                                                        \
	"there was no memory yet for their counts when they ran on a CPU: cgroups above them have a part of these"

static void note_lacking(struct bpf_engine *engine, struct bpf_target *target)
{
	target->lacks = true;
	engine->nr_lacking++;
	bpf_note_given(engine, target);
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used)
			reason_set(&engine->engine.env.health[SCOPE_CGROUP][i].lack, 0, LACKING);
}

/* Programs have found no place for a cgroup, at any time. Not all of its counts are its own, also for a new engine. */
static void find_lacking(struct bpf_engine *engine, bool targets_changed)
{
	struct bpf_kernel *kernel = engine->kernel;
	uint64_t unplaced = 0;

	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		unplaced += __atomic_load_n(&kernel->cpus[cpu].unplaced, __ATOMIC_ACQUIRE);
	if (unplaced == 0 || (unplaced == kernel->unplaced && !targets_changed))
		return;
	kernel->unplaced = unplaced;
	for (uint32_t slot = 0; slot < kernel->config->nr_slots; slot++) {
		struct bpf_slot *known = slot_known(kernel, slot);
		const struct credit_slot *owner = slot_at(kernel, slot);

		if (owner->id != 0)
			slot_note_taken(kernel, slot);
		if (*(volatile credit_word *)&owner->lacks && known->targets == engine->targets_number &&
		    known->target && !known->target->lacks)
			note_lacking(engine, known->target);
	}
}

/* A slot that its cgroup has got a moment ago may have no cell that is credited. */
static void note_taken(struct bpf_kernel *kernel)
{
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++) {
		credit_word slot = *(volatile credit_word *)&kernel->cpus[cpu].slot;

		if (slot < kernel->config->nr_slots && slot_at(kernel, (uint32_t)slot)->id)
			slot_note_taken(kernel, (uint32_t)slot);
	}
}

/* Are the targets others than those that slots were settled for? */
static bool unsettle_all(struct bpf_engine *engine)
{
	struct bpf_kernel *kernel = engine->kernel;

	if (kernel->settled_for == engine->targets_number)
		return false;
	memcpy(kernel->unsettled, kernel->taken, CREDIT_MARK_WORDS(kernel->config->nr_slots) * sizeof(*kernel->taken));
	kernel->settled_changed = true;
	kernel->settled_for = engine->targets_number;
	return true;
}

/* Of the targets whose counts may be measured in another way now. */
static void decide_targets(struct bpf_engine *engine)
{
	struct bpf_target *target, *next;
	bool all = false;

	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		all |= engine->sets[i].lost != engine->sets[i].was_lost;
		engine->sets[i].was_lost = engine->sets[i].lost;
	}
	if (all)
		HASH_ITER(hh, engine->targets, target, next)
			target_decide(engine, target);
	DL_FOREACH_SAFE(engine->given, target, next)
	{
		target_decide(engine, target);
		DL_DELETE(engine->given, target);
		target->given = false;
	}
}

void slots_read(struct bpf_engine *engine, uint64_t now)
{
	struct bpf_kernel *kernel = engine->kernel;
	struct due due = {};
	bool targets_changed;
	uint32_t taken;

	due.ended = !bpf_kernel_flush_all(kernel);
	if (!due.ended)
		find_starved(engine);
	note_pauses(engine);
	note_taken(kernel);
	targets_changed = unsettle_all(engine);
	learn_ended(engine);
	conservation_begin(engine);
	read_due(engine, &due);
	visit_slots(engine, !due.ended);
	conservation_end(engine);
	find_lacking(engine, targets_changed);
	taken = slot_count_taken(kernel);
	review_slots(engine, taken, now);
	(void)slot_supply(kernel, taken, bpf_slots_to_reserve(engine));
	(void)slot_supply_cells(kernel);
	decide_targets(engine);
}
