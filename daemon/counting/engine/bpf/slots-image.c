/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/slots-image.h"

#include "counting/engine/bpf/attempt.h"
#include "counting/engine/bpf/chunks.h"
#include "counting/engine/bpf/conservation.h"
#include "counting/engine/bpf/slot-bits.h"
#include "counting/engine/bpf/slot-owners.h"
#include "counting/engine/bpf/unclaimed.h"

#include <errno.h>
#include <string.h>

/* --- saving */

static void save_all_targets(const struct bpf_engine *engine, struct buf *out)
{
	const struct bpf_target *target, *next;

	HASH_ITER(hh, engine->targets, target, next) {
		pack_u64(out, target->id);
		pack_u64(out, target->nr_rows);
		for (size_t i = 0; i < target->nr_rows; i++)
			pack_u64(out, target->rows[i]->number);
		for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
			pack_u64(out, (uint64_t)target->sets[i].ended | (uint64_t)target->sets[i].enabled << 1 |
					      (uint64_t)target->sets[i].ran << 2 |
					      (uint64_t)target->sets[i].scaled << 3);
	}
}

/* The targets' rows are of one totals. */
static uint64_t times_numbered(const struct bpf_engine *engine)
{
	return engine->targets ? engine->targets->rows[0]->totals->image.numbered : 0;
}

static void save_targets(const struct bpf_engine *engine, struct rewrite *rewrite)
{
	const struct bpf_saved now = { .targets = engine->targets_number, .numbered = times_numbered(engine) };
	struct bpf_saved *saved = engine->kernel ? &engine->kernel->targets_saved : NULL;
	size_t at;

	pack_u64(&rewrite->buf, HASH_COUNT(engine->targets));
	at = rewrite->buf.len;
	if (saved && !saved->changed && saved->targets == now.targets && saved->numbered == now.numbered &&
	    rewrite_is_same(rewrite, &saved->place))
		rewrite_keep(rewrite, saved->place.length);
	else
		save_all_targets(engine, &rewrite->buf);
	if (!saved)
		return;
	*saved = now;
	rewrite_note_place(rewrite, &saved->place, at);
}

#define SLOT_WORDS 6U /* at least */

static void save_slot(const struct bpf_kernel *kernel, uint32_t slot, struct rewrite *rewrite)
{
	const struct bpf_slot *known = slot_known(kernel, slot);
	const uint64_t words[SLOT_WORDS] = {
		slot,
		slot_at(kernel, slot)->id,
		known->seen_at,
		(uint64_t)known->retired | (uint64_t)known->spent << 1,
		known->claimed_by,
		known->nr_unclaimed,
	};

	rewrite_add(rewrite, words, sizeof(words));
	if (known->nr_unclaimed)
		rewrite_add(rewrite, known->unclaimed,
			    known->nr_unclaimed * unclaimed_words(&kernel->sizes) * sizeof(uint64_t));
}

static void save_settled(const struct bpf_kernel *kernel, struct rewrite *rewrite)
{
	const uint32_t nr = (uint32_t)kernel->config->nr_slots;

	for (uint32_t slot = 0; (slot = slot_next(kernel, kernel->taken, slot)) < nr; slot++)
		if (!slot_bit(kernel->unsettled, slot))
			save_slot(kernel, slot, rewrite);
}

/* The settled ones first: they are the same ones as a rule, and nothing of them changes. */
static void save_slots(struct bpf_kernel *kernel, struct rewrite *rewrite)
{
	const uint32_t nr = (uint32_t)kernel->config->nr_slots;
	struct rewrite_place *place = &kernel->settled_saved;
	size_t at;

	pack_u64(&rewrite->buf, slot_count_taken(kernel));
	at = rewrite->buf.len;
	if (!kernel->settled_changed && rewrite_is_same(rewrite, place))
		rewrite_keep(rewrite, place->length);
	else
		save_settled(kernel, rewrite);
	rewrite_note_place(rewrite, place, at);
	kernel->settled_changed = false;
	for (uint32_t slot = 0; (slot = slot_next(kernel, kernel->unsettled, slot)) < nr; slot++)
		save_slot(kernel, slot, rewrite);
}

static void save_cell(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t cell, struct buf *out)
{
	buf_add(out, (const char *)cell_read(kernel, cpu, cell), bpf_read_words(&kernel->sizes) * sizeof(uint64_t));
}

static void patch_cells(const struct bpf_kernel *kernel, uint32_t cpu, uint32_t nr, struct rewrite *rewrite)
{
	const size_t size = bpf_read_words(&kernel->sizes) * sizeof(uint64_t), begin = kernel->cells_saved[cpu].at;

	for (uint32_t first = 0; first < nr; first += 64)
		for (uint64_t bits = kernel->unsaved[bit_word(kernel, cpu, first)]; bits; bits &= bits - 1) {
			uint32_t cell = first + (uint32_t)__builtin_ctzll(bits);
			size_t at = begin + cell * size, end;

			if (cell >= nr)
				break;
			end = rewrite_begin_patch(rewrite, at);
			save_cell(kernel, cpu, cell, &rewrite->buf);
			rewrite_end_patch(rewrite, at, end);
		}
}

/* How far the cells of a CPU have been read. */
static void save_cells(const struct bpf_kernel *kernel, uint32_t cpu, struct rewrite *rewrite)
{
	struct rewrite_place *place = &kernel->cells_saved[cpu];
	const uint32_t nr = nr_cells(kernel, cpu);
	size_t at;

	pack_u64(&rewrite->buf, nr);
	at = rewrite->buf.len;
	if (rewrite_is_same(rewrite, place) &&
	    place->length == nr * bpf_read_words(&kernel->sizes) * sizeof(uint64_t)) {
		rewrite_keep(rewrite, place->length);
		patch_cells(kernel, cpu, nr, rewrite);
	} else {
		for (uint32_t cell = 0; cell < nr; cell++)
			save_cell(kernel, cpu, cell, &rewrite->buf);
	}
	rewrite_note_place(rewrite, place, at);
	memset(&kernel->unsaved[bit_word(kernel, cpu, 0)], 0,
	       CREDIT_MARK_WORDS(kernel->sizes.slots) * sizeof(*kernel->unsaved));
}

static void save_kernel(struct bpf_kernel *kernel, struct rewrite *rewrite)
{
	struct buf *out = &rewrite->buf;

	pack_u64(out, CREDIT_LAYOUT);
	pack_u64(out, kernel->sizes.cpus);
	pack_u64(out, kernel->sizes.slots);
	pack_u64(out, kernel->sizes.events);
	pack_u64(out, kernel->sizes.sets);
	pack_u64(out, kernel->v1);
	bpf_kernel_save(kernel, out);
	save_slots(kernel, rewrite);
	for (uint32_t cpu = 0; cpu < kernel->sizes.cpus; cpu++)
		save_cells(kernel, cpu, rewrite);
}

void bpf_save(const struct engine *base, struct rewrite *rewrite)
{
	const struct bpf_engine *engine = bpf_engine_const(base);
	struct buf *out = &rewrite->buf;

	save_targets(engine, rewrite);
	pack_u64(out, engine->cpus.nr);
	for (size_t i = 0; i < engine->cpus.nr; i++)
		pack_u64(out, (uint64_t)engine->cpus.cpu[i]);
	pack_u64(out, engine->kernel != NULL);
	if (!engine->kernel)
		return;
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		pack_u64(out, engine->sets[i].used);
		pack_u64(out, engine->sets[i].number);
		pack_u64(out, engine->sets[i].first_event);
	}
	save_kernel(engine->kernel, rewrite);
	engine->kernel->nr_images++;
}

/* --- restoring */

struct restoring {
	struct bpf_engine *engine;
	struct unpack *in;
	struct totals_row *const *rows;
	size_t nr_rows;
};

static int get_target(const struct restoring *restoring)
{
	struct unpack *in = restoring->in;
	uint64_t id = unpack_u64(in);
	size_t nr = unpack_nr(in, sizeof(uint64_t));
	_cleanup_(freep) struct totals_row **rows = calloc(nr + 1, sizeof(*rows));
	struct bpf_target *target;

	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		uint64_t number = unpack_u64(in);

		if (number >= restoring->nr_rows || restoring->rows[number]->scope != SCOPE_CGROUP ||
		    restoring->rows[number]->gone_at)
			return -EBADMSG;
		rows[i] = restoring->rows[number];
	}
	if (in->bad || nr == 0 || bpf_target_find(restoring->engine, id))
		return -EBADMSG;
	target = bpf_target_new(restoring->engine, id, rows, nr);
	if (!target)
		return -ENOMEM;
	for (size_t i = 0; i < bpf_plan(restoring->engine)->nr_sets; i++) {
		uint64_t flags = unpack_at_most(in, 15);

		target->sets[i].ended = flags & 1;
		target->sets[i].enabled = flags & 2;
		target->sets[i].ran = flags & 4;
		target->sets[i].scaled = flags & 8;
	}
	return 0;
}

static int get_targets(const struct restoring *restoring)
{
	size_t nr = unpack_nr(restoring->in, 3 * sizeof(uint64_t));
	int r = 0;

	for (size_t i = 0; i < nr && r == 0; i++)
		r = get_target(restoring);
	return r;
}

static int get_cpus(const struct restoring *restoring)
{
	size_t nr = unpack_nr(restoring->in, sizeof(uint64_t));
	int r = 0;

	for (size_t i = 0; i < nr && r == 0; i++)
		r = cpulist_add(&restoring->engine->cpus, (int)unpack_at_most(restoring->in, CPULIST_MAX_CPU));
	return r;
}

/* The numbers of the plan's sets, within the bounds of the kernel's part. */
static int get_sets(const struct restoring *restoring)
{
	struct bpf_engine *engine = restoring->engine;

	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		struct bpf_set *set = &engine->sets[i];

		set->used = unpack_at_most(restoring->in, 1);
		set->number = (uint32_t)unpack_at_most(restoring->in, CREDIT_SETS_MAX - 1);
		set->first_event = (uint32_t)unpack_at_most(restoring->in, CREDIT_EVENTS_MAX - 1);
	}
	return restoring->in->bad ? -EBADMSG : 0;
}

static int get_slot(struct unpack *in, struct bpf_kernel *kernel)
{
	size_t unclaimed = unclaimed_words(&kernel->sizes);
	uint32_t slot = (uint32_t)unpack_at_most(in, kernel->config->nr_slots - 1);
	struct bpf_slot *known = slot_known(kernel, slot);
	uint64_t id = unpack_u64(in);
	bool same = id == slot_at(kernel, slot)->id;
	uint64_t flags;
	size_t nr;

	known->seen_at = unpack_u64(in);
	flags = unpack_at_most(in, 3);
	slot_note_taken(kernel, slot);
	known->retired = flags & 1;
	known->spent = flags & 2;
	known->claimed_by = unpack_u64(in);
	nr = unpack_nr(in, unclaimed * sizeof(uint64_t));
	if (in->bad || known->unclaimed || nr > kernel->sizes.cpus)
		return -EBADMSG;
	known->unclaimed = nr ? calloc(nr * unclaimed, sizeof(uint64_t)) : NULL;
	if (nr && !known->unclaimed)
		return -ENOMEM;
	known->nr_unclaimed = nr;
	for (size_t i = 0; i < nr * unclaimed; i++)
		known->unclaimed[i] = unpack_u64(in);
	/* It has become free since the image was made, and perhaps another cgroup's, or the same one's again. Its cells
	 * stay as far read as they were. */
	if (!same || (known->spent && slot_find(kernel, id) == slot)) {
		unclaimed_drop(known);
		*known = (struct bpf_slot){};
		if (slot_at(kernel, slot)->id == 0)
			slot_note_free(kernel, slot);
	}
	return in->bad ? -EBADMSG : 0;
}

static int get_slots(struct unpack *in, struct bpf_kernel *kernel)
{
	size_t nr = unpack_nr(in, SLOT_WORDS * sizeof(uint64_t));
	int r = 0;

	for (size_t i = 0; i < nr && r == 0; i++)
		r = get_slot(in, kernel);
	/* Slots that the daemon gave to cgroups after the image was made. */
	for (uint32_t slot = 0; slot < kernel->config->nr_slots; slot++)
		if (slot_at(kernel, slot)->id != 0)
			slot_note_taken(kernel, slot);
	return r;
}

static void get_cells(struct unpack *in, const struct bpf_kernel *kernel, uint32_t cpu)
{
	size_t words = bpf_read_words(&kernel->sizes), nr = unpack_nr(in, words * sizeof(uint64_t));

	if (nr > nr_cells(kernel, cpu))
		in->bad = true;
	for (uint32_t cell = 0; cell < nr && !in->bad; cell++)
		for (size_t i = 0; i < words; i++)
			cell_read(kernel, cpu, cell)[i] = unpack_u64(in);
}

/* Passes over what belongs to a part in the kernel that is not there any more. */
static int skip_rest(struct unpack *in)
{
	in->at += in->left;
	in->left = 0;
	return 0;
}

static bool fit(const struct bpf_engine *engine)
{
	const struct bpf_sizes *sizes = &engine->kernel->sizes;

	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used &&
		    (engine->sets[i].number >= sizes->sets ||
		     engine->sets[i].first_event + bpf_plan(engine)->sets[i].nr > sizes->events))
			return false;
	return true;
}

/* One of another layout, or one whose files are gone, has counted in vain since the image was made. */
static int get_kernel(const struct restoring *restoring, struct stored_pool *stored)
{
	struct unpack *in = restoring->in;
	struct bpf_engine *engine = restoring->engine;
	uint64_t layout = unpack_u64(in);
	struct bpf_sizes sizes = {
		.cpus = (uint32_t)unpack_at_most(in, CPULIST_MAX_CPU + 1),
		.slots = (uint32_t)unpack_at_most(in, UINT32_MAX),
		.events = (uint32_t)unpack_at_most(in, CREDIT_EVENTS_MAX),
		.sets = (uint32_t)unpack_at_most(in, CREDIT_SETS_MAX),
	};
	bool v1 = unpack_at_most(in, 1);
	int r;

	if (layout != CREDIT_LAYOUT)
		return in->bad ? -EBADMSG : skip_rest(in);
	if (in->bad || sizes.cpus == 0 || sizes.slots == 0)
		return -EBADMSG;
	r = bpf_kernel_restore(&engine->kernel, &sizes, v1, in, stored);
	if (r == -ENOENT)
		return skip_rest(in);
	if (r == 0 && !fit(engine))
		r = -EBADMSG;
	if (r < 0)
		return r;
	attempt_note_restored(engine->kernel);
	bpf_note_targets(engine);
	r = conservation_open(engine);
	if (r == 0)
		r = get_slots(in, engine->kernel);
	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus && r == 0; cpu++)
		get_cells(in, engine->kernel, cpu);
	return r;
}

static void note_open_sets(const struct bpf_engine *engine)
{
	struct scope_plan *plan = &engine->engine.env.plan->scope[SCOPE_CGROUP];

	for (size_t i = 0; engine->kernel && i < plan->nr_sets; i++)
		if (engine->sets[i].used)
			plan->sets[i].closed = false;
}

int bpf_restore(struct engine *base, struct unpack *in, struct totals_row *const *rows, size_t nr_rows,
		struct stored_pool *stored)
{
	const struct restoring restoring = { bpf_engine(base), in, rows, nr_rows };
	int r = get_targets(&restoring);

	if (r == 0)
		r = get_cpus(&restoring);
	if (r == 0 && unpack_at_most(in, 1)) {
		r = get_sets(&restoring);
		if (r == 0)
			r = get_kernel(&restoring, stored);
	}
	note_open_sets(restoring.engine);
	return r < 0 ? r : in->bad ? -EBADMSG : 0;
}
