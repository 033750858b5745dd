/* SPDX-License-Identifier: MIT */

#include "counting/history/history.h"

#include "base/util/clock.h"

#include <math.h>
#include <string.h>

/* A slot ends with the first reading after this time. Readings come a little late, and now and then a little early. */
static const uint64_t periods[_RING_MAX] = {
	[RING_FINE] = NS_PER_S - NS_PER_S / 10,
	[RING_COARSE] = 15 * (uint64_t)NS_PER_S - NS_PER_S / 2,
};

static const size_t nr_slots[_RING_MAX] = { [RING_FINE] = HISTORY_FINE, [RING_COARSE] = HISTORY_COARSE };
static const size_t first_slot[_RING_MAX] = { [RING_FINE] = 0, [RING_COARSE] = HISTORY_FINE };

/* --- rows */

static size_t nr_columns(const struct plan *plan, enum scope scope)
{
	return plan_nr_shown(&plan->scope[scope]);
}

/* Of an allocation: the C library's sizes are multiples of 16, with 8 bytes of its own. */
static uint64_t allocated(size_t size)
{
	return size <= 24 ? 32 : (size + 8 + 15) / 16 * 16;
}

static uint64_t text_size(const char *text)
{
	return text ? allocated(strlen(text) + 1) : 0;
}

/* A gone cgroup's identity is nobody else's. Names of a container are shared, and may come later. */
static uint64_t identity_size(const struct cgroup_identity *identity)
{
	if (!identity)
		return 0;
	return allocated(sizeof(*identity)) + text_size(identity->label) + text_size(identity->unit) +
	       text_size(identity->slice) + text_size(identity->container_id) + text_size(identity->pod_uid) +
	       text_size(identity->machine);
}

/* Of what does not depend on the target's name; with the hash's buckets. */
static uint64_t least_row_size(size_t columns)
{
	return allocated((columns + 1) * sizeof(struct history_cell)) + allocated((columns + 1) * sizeof(uint32_t)) +
	       64;
}

/* Without points. */
static uint64_t row_size(const struct history_row *row, size_t columns)
{
	return allocated(sizeof(*row) + strlen(row->target) + 1) + identity_size(row->identity) +
	       least_row_size(columns);
}

uint64_t history_size(const struct history *history)
{
	return history->pool.top * POOL_BLOCK_SIZE + history->heap_size;
}

/* Point number i of all [slot][column]. */
static float *point_at(const struct history *history, const uint32_t *blocks, size_t i)
{
	return block_pool_points(&history->pool, blocks[i / POOL_BLOCK_POINTS]) + i % POOL_BLOCK_POINTS;
}

static void give_blocks(struct history *history, const uint32_t *blocks, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		block_pool_give(&history->pool, blocks[i]);
}

static void row_free(struct history *history, struct history_row *row, size_t columns)
{
	give_blocks(history, row->blocks, columns);
	totals_set_watch(&row->watch, NULL);
	cgroup_identity_unref(row->identity);
	free(row->cells);
	free(row->blocks);
	free(row);
}

static void row_drop(struct history *history, struct history_row_list *list, struct history_row *row)
{
	size_t columns = nr_columns(history->plan, row->scope);

	history->changes++;
	TAILQ_REMOVE(list, row, in_list);
	HASH_DELETE(by_target, history->by_target, row);
	history->heap_size -= row_size(row, columns);
	history->nr_rows--;
	row_free(history, row, columns);
}

/* Blocks in which no point is known. False: no memory. */
static bool take_blocks(struct history *history, uint32_t *blocks, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		blocks[i] = block_pool_take(&history->pool);
		if (blocks[i] == POOL_NO_BLOCK) {
			give_blocks(history, blocks, i);
			return false;
		}
		for (size_t k = 0; k < POOL_BLOCK_POINTS; k++)
			block_pool_points(&history->pool, blocks[i])[k] = NAN;
	}
	return true;
}

/* Nothing is known of any slot, nor of what is before them. False: no memory. */
static bool row_add_columns(struct history *history, struct history_row *row, size_t columns)
{
	struct history_cell *cells = calloc(columns + 1, sizeof(*cells));
	uint32_t *blocks = calloc(columns + 1, sizeof(*blocks));

	if (!cells || !blocks || !take_blocks(history, blocks, columns)) {
		free(cells);
		free(blocks);
		return false;
	}
	for (size_t i = 0; i < columns; i++)
		cells[i] = (struct history_cell){ HISTORY_UNKNOWN, HISTORY_UNKNOWN, false };
	row->cells = cells;
	row->blocks = blocks;
	return true;
}

/* Without columns. */
static struct history_row *row_new(const struct totals_row *from)
{
	struct history_row *row = calloc(1, sizeof(*row) + strlen(from->target) + 1);

	if (!row)
		return NULL;
	memcpy(row->target, from->target, strlen(from->target));
	row->scope = from->scope;
	row->cpu = from->cpu;
	row->identity = from->identity ? cgroup_identity_ref(from->identity) : NULL;
	return row;
}

static uint64_t size_with(const struct history *history, uint64_t bytes, size_t blocks)
{
	size_t nr_free = block_pool_nr_free(&history->pool);

	return history_size(history) + bytes + (blocks > nr_free ? blocks - nr_free : 0) * POOL_BLOCK_SIZE;
}

/* Makes room for so many bytes and blocks. False: there is none, even if all that is gone is dropped. */
static bool make_room(struct history *history, uint64_t bytes, size_t blocks)
{
	while (size_with(history, bytes, blocks) > history->max_size) {
		struct history_row *oldest = TAILQ_FIRST(&history->gone);

		if (!oldest)
			return false;
		row_drop(history, &history->gone, oldest);
	}
	return true;
}

/* Did the row's totals begin after the last slot, at 0? Then the first slot is known; else there is none to compare
 * with. */
static bool began_since(const struct history *history, const struct totals_row *row)
{
	return history->taken && row->began >= history->taken;
}

static struct history_row *row_add(struct history *history, const struct totals_row *from)
{
	size_t columns = nr_columns(history->plan, from->scope);
	struct history_row *row;

	/* Thousands may be left out, again at each reading. */
	if (!make_room(history, least_row_size(columns), columns))
		return NULL;
	row = row_new(from);
	if (!row)
		return NULL;
	if (!make_room(history, row_size(row, columns), columns) || !row_add_columns(history, row, columns)) {
		row_free(history, row, 0);
		return NULL;
	}
	HASH_ADD(by_target, history->by_target, target, strlen(row->target), row);
	if (!row->by_target.tbl) {
		row_free(history, row, columns);
		return NULL;
	}
	for (int ring = 0; ring < _RING_MAX; ring++)
		row->written[ring] = history->times[ring].begun;
	TAILQ_INSERT_TAIL(&history->there, row, in_list);
	history->heap_size += row_size(row, columns);
	history->nr_rows++;
	return row;
}

static struct history_row *row_find(const struct history *history, const struct totals_row *of)
{
	struct history_row *row;

	HASH_FIND(by_target, history->by_target, of->target, strlen(of->target), row);
	return row;
}

/* --- points that are not written yet */

/* A point of a slot after those that are written. */
static float lazy_point(const struct history_row *row, int ring, uint64_t slot, size_t column)
{
	const struct history_cell *cell = &row->cells[column];

	if (ring == RING_COARSE && slot == row->written[RING_COARSE] + 1 && cell->pending != HISTORY_UNKNOWN)
		return (float)cell->pending;
	return cell->known && !row->gone ? 0 : NAN;
}

/* The number of a ring's slot, of all that there ever were. */
static uint64_t slot_number(const struct history_times *times, int ring, size_t slot)
{
	return times->begun - (times->at + nr_slots[ring] - slot) % nr_slots[ring];
}

static float point_of(const struct history *history, const struct history_row *row, int ring, size_t slot,
		      size_t column)
{
	uint64_t number = slot_number(&history->times[ring], ring, slot);

	if (number > row->written[ring])
		return lazy_point(row, ring, number, column);
	return *point_at(history, row->blocks,
			 (first_slot[ring] + slot) * nr_columns(history->plan, row->scope) + column);
}

static void write_ring(const struct history *history, struct history_row *row, int ring, uint64_t to)
{
	const struct history_times *times = &history->times[ring];
	size_t columns = nr_columns(history->plan, row->scope);
	uint64_t first = row->written[ring] + 1;

	/* Older ones have been written over. */
	if (times->begun >= nr_slots[ring] && first <= times->begun - nr_slots[ring])
		first = times->begun - nr_slots[ring] + 1;
	for (uint64_t slot = first; slot <= to; slot++) {
		size_t at = (times->at + nr_slots[ring] - (size_t)(times->begun - slot)) % nr_slots[ring];

		for (size_t i = 0; i < columns; i++)
			*point_at(history, row->blocks, (first_slot[ring] + at) * columns + i) =
				lazy_point(row, ring, slot, i);
	}
}

/* Writes the row's points up to the slots before those that are due. */
static void write_lazy(const struct history *history, struct history_row *row, unsigned due)
{
	const struct history_times *fine = &history->times[RING_FINE], *coarse = &history->times[RING_COARSE];
	uint64_t to[_RING_MAX] = {
		fine->begun - (due >> RING_FINE & 1),
		coarse->begun - (due >> RING_COARSE & 1),
	};
	bool ended = row->written[RING_COARSE] < to[RING_COARSE];
	/* Is there a fine slot that is of no coarse one yet? */
	bool more = to[RING_FINE] > row->written[RING_FINE] &&
		    (!ended || to[RING_FINE] > coarse->fine[due >> RING_COARSE & 1]);

	for (int ring = 0; ring < _RING_MAX; ring++)
		write_ring(history, row, ring, to[ring]);
	for (size_t i = 0; i < nr_columns(history->plan, row->scope); i++) {
		struct history_cell *cell = &row->cells[i];

		if (ended)
			cell->pending = HISTORY_UNKNOWN;
		if (more && cell->known && !row->gone && cell->pending == HISTORY_UNKNOWN)
			cell->pending = 0;
	}
	memcpy(row->written, to, sizeof(to));
}

/* --- another plan */

/* A row before it got the columns of another plan. */
struct row_before {
	struct history_cell *cells;
	uint32_t *blocks;
	size_t columns;
};

static void move_column(const struct history *history, struct history_row *row, size_t columns, size_t column,
			const struct row_before *before, size_t old_column)
{
	row->cells[column] = before->cells[old_column];
	for (size_t slot = 0; slot < HISTORY_SLOTS; slot++)
		*point_at(history, row->blocks, slot * columns + column) =
			*point_at(history, before->blocks, slot * before->columns + old_column);
}

/* False: no memory. */
static bool row_move_to(struct history *history, struct history_row *row, const struct plan *to)
{
	const struct scope_plan *old = &history->plan->scope[row->scope], *new = &to->scope[row->scope];
	const struct row_before before = { row->cells, row->blocks, plan_nr_shown(old) };
	size_t columns = plan_nr_shown(new);

	write_lazy(history, row, 0);
	if (!row_add_columns(history, row, columns))
		return false;
	for (size_t i = 0; i < columns; i++) {
		size_t old_column = column_find_predecessor(&new->columns[i], old);

		if (old_column != NO_COLUMN && old_column < before.columns)
			move_column(history, row, columns, i, &before, old_column);
	}
	give_blocks(history, before.blocks, before.columns);
	free(before.cells);
	free(before.blocks);
	return true;
}

/* Room for a row's new columns beside its old ones: of those that have not moved yet, the last ones make it. */
static bool make_room_to_move(struct history *history, struct history_row_list *unmoved, size_t columns)
{
	while (!make_room(history, 0, columns)) {
		struct history_row *last = TAILQ_LAST(unmoved, history_row_list);

		if (!last)
			return false;
		row_drop(history, unmoved, last);
	}
	return true;
}

static void move_or_drop(struct history *history, struct history_row_list *list, struct history_row *row,
			 struct plan *to, bool has_room)
{
	uint64_t before = row_size(row, nr_columns(history->plan, row->scope));

	if (has_room && row_move_to(history, row, to))
		history->heap_size += row_size(row, nr_columns(to, row->scope)) - before;
	else
		row_drop(history, list, row);
}

/* From the first on: those that are gone have not moved yet, and make room. */
static void move_there(struct history *history, struct plan *to)
{
	struct history_row_list moved = TAILQ_HEAD_INITIALIZER(moved);
	struct history_row *row;

	while ((row = TAILQ_FIRST(&history->there))) {
		TAILQ_REMOVE(&history->there, row, in_list);
		TAILQ_INSERT_TAIL(&moved, row, in_list);
		move_or_drop(history, &moved, row, to,
			     make_room_to_move(history, &history->there, nr_columns(to, row->scope)));
	}
	TAILQ_CONCAT(&history->there, &moved, in_list);
}

/* From the last on: those that went first have not moved yet, and make room. */
static void move_gone(struct history *history, struct plan *to)
{
	struct history_row_list moved = TAILQ_HEAD_INITIALIZER(moved);
	struct history_row *row;

	while ((row = TAILQ_LAST(&history->gone, history_row_list))) {
		TAILQ_REMOVE(&history->gone, row, in_list);
		TAILQ_INSERT_HEAD(&moved, row, in_list);
		move_or_drop(history, &moved, row, to, make_room(history, 0, nr_columns(to, row->scope)));
	}
	TAILQ_CONCAT(&history->gone, &moved, in_list);
}

static void list_compact(struct history *history, const struct history_row_list *list)
{
	struct history_row *row;

	TAILQ_FOREACH(row, list, in_list)
		for (size_t i = 0; i < nr_columns(history->plan, row->scope); i++)
			row->blocks[i] = block_pool_compact(&history->pool, row->blocks[i]);
}

/* Gives the memory of free blocks back. */
static void compact(struct history *history)
{
	block_pool_begin_compaction(&history->pool);
	list_compact(history, &history->there);
	list_compact(history, &history->gone);
	block_pool_end_compaction(&history->pool);
}

static void drop_to_size(struct history *history)
{
	while (history->pool.used * POOL_BLOCK_SIZE + history->heap_size > history->max_size) {
		struct history_row *gone = TAILQ_FIRST(&history->gone);

		row_drop(history, gone ? &history->gone : &history->there,
			 gone ? gone : TAILQ_LAST(&history->there, history_row_list));
	}
	compact(history);
}

static void history_use_plan(struct history *history, struct plan *plan)
{
	if (history->plan == plan)
		return;
	if (history->plan) {
		move_there(history, plan);
		move_gone(history, plan);
		plan_unref(history->plan);
	}
	history->plan = plan_ref(plan);
	history->anew = true;
	drop_to_size(history);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(history->doubtful[scope]);
		history->doubtful[scope] = calloc(nr_columns(plan, (enum scope)scope) + 1, sizeof(bool));
	}
}

static void note_doubt(struct history *history, bool *doubtful, bool now)
{
	history->anew |= *doubtful != now;
	*doubtful = now;
}

static void note_doubts(struct history *history, history_doubt is_doubtful, const void *userdata)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < nr_columns(history->plan, (enum scope)scope) && history->doubtful[scope]; i++)
			note_doubt(history, &history->doubtful[scope][i], is_doubtful(userdata, (enum scope)scope, i));
}

/* --- life */

void history_init(struct history *history, const struct clock_steps *clock, uint64_t max_size)
{
	*history = (struct history){ .clock = clock, .max_size = max_size };
	block_pool_init(&history->pool, max_size);
	TAILQ_INIT(&history->there);
	TAILQ_INIT(&history->gone);
}

void history_release(struct history *history)
{
	history_set_max_size(history, 0);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		free(history->doubtful[scope]);
	history->plan = plan_unref(history->plan);
}

void history_set_max_size(struct history *history, uint64_t max_size)
{
	history->max_size = max_size;
	history->anew = true;
	if (history->plan)
		drop_to_size(history);
	/* Where there is no memory for more, new targets are left out. */
	(void)block_pool_resize(&history->pool, max_size);
}

/* --- taking */

/* Begins a slot that ends now, in each ring whose period is over: a bit for each. A coarse slot ends with a fine
 * one. */
static unsigned begin_slots(struct history *history, const struct clock_times *now, uint64_t gap_at)
{
	unsigned due = 0;

	for (int ring = 0; ring < _RING_MAX; ring++) {
		struct history_times *times = &history->times[ring];
		uint64_t length = now->monotonic - times->last;

		if (times->last && length < periods[ring])
			break;
		due |= 1U << ring;
		times->at = times->nr ? (times->at + 1) % nr_slots[ring] : 0;
		times->nr += times->nr < nr_slots[ring];
		times->begun++;
		times->end[times->at] = now->boottime;
		times->length[times->at] = times->last ? length : 0;
		times->gap[times->at] = gap_at > times->last;
		times->last = now->monotonic;
		times->fine[1] = times->fine[0];
		times->fine[0] = history->times[RING_FINE].begun;
	}
	return due;
}

/* The number of the row's first point in the newest slot. */
static size_t newest_point(const struct history *history, int ring, size_t columns)
{
	return (first_slot[ring] + history->times[ring].at) * columns;
}

/* A fine slot: what the totals have risen by. */
static void take_fine(const struct history *history, struct history_row *row, const struct totals_row *from)
{
	size_t columns = nr_columns(history->plan, row->scope);
	size_t first = newest_point(history, RING_FINE, columns);
	const bool *doubtful = history->doubtful[row->scope];
	bool anew = began_since(history, from);

	for (size_t i = 0; i < columns; i++) {
		const struct totals_cell *cell = &from->cells[i];
		struct history_cell *own = &row->cells[i];
		uint64_t before = anew ? 0 : own->at, risen = cell->total - before;
		float *point = point_at(history, row->blocks, first + i);

		*point = NAN;
		own->known = cell->measured && !(doubtful && doubtful[i]);
		if (!cell->measured)
			continue;
		own->at = cell->total;
		/* It also is above where it is not known. */
		if (before > cell->total || !own->known)
			continue;
		*point = (float)risen;
		own->pending = own->pending == HISTORY_UNKNOWN ? risen : own->pending + risen;
	}
}

/* A coarse slot: the fine ones since the last. */
static void take_coarse(const struct history *history, struct history_row *row)
{
	size_t columns = nr_columns(history->plan, row->scope);
	size_t first = newest_point(history, RING_COARSE, columns);

	for (size_t i = 0; i < columns; i++) {
		uint64_t *pending = &row->cells[i].pending;

		*point_at(history, row->blocks, first + i) = *pending == HISTORY_UNKNOWN ? NAN : (float)*pending;
		*pending = HISTORY_UNKNOWN;
	}
}

static bool is_shown(const struct totals_row *row)
{
	return !row->suspended && !row->excluded;
}

static struct history_row *row_of(const struct totals_row *from)
{
	return from->watch ? (struct history_row *)((char *)from->watch - offsetof(struct history_row, watch)) : NULL;
}

/* NULL: there is no room. */
static struct history_row *find_or_add(struct history *history, struct totals_row *from)
{
	/* Else all rows have their targets. */
	bool any = history->anew || history->moves != from->totals->moves || !TAILQ_EMPTY(&history->gone);
	struct history_row *row = any ? row_find(history, from) : NULL;

	if (!row)
		row = row_add(history, from);
	/* The row of totals that it had may still be there, in another plan's totals. */
	if (row)
		totals_set_watch(&row->watch, from);
	return row;
}

static void row_end(struct history *history, struct history_row *row, unsigned due)
{
	write_lazy(history, row, due);
	row->gone = true;
	TAILQ_REMOVE(&history->there, row, in_list);
	TAILQ_INSERT_TAIL(&history->gone, row, in_list);
}

static void take_row(struct history *history, struct totals_row *from, unsigned due)
{
	struct history_row *row = row_of(from);

	if (!row)
		row = find_or_add(history, from);
	if (!row) {
		history->left_out++;
		return;
	}
	write_lazy(history, row, due);
	if (row->gone) {
		row->gone = false;
		TAILQ_REMOVE(&history->gone, row, in_list);
		TAILQ_INSERT_TAIL(&history->there, row, in_list);
	}
	if (row->identity != from->identity) {
		cgroup_identity_unref(row->identity);
		row->identity = from->identity ? cgroup_identity_ref(from->identity) : NULL;
	}
	take_fine(history, row, from);
	if (due & 1U << RING_COARSE)
		take_coarse(history, row);
	for (int ring = 0; ring < _RING_MAX; ring++)
		row->written[ring] = history->times[ring].begun;
}

/* Of those that are in the history. */
static void take_changed(struct history *history, const struct totals *totals, unsigned due)
{
	for (struct totals_row *row = totals_first_changed(totals, history->ticks); row;
	     row = TAILQ_NEXT(row, in_changed)) {
		struct history_row *own = row_of(row);

		if (own && is_shown(row))
			take_row(history, row, due);
		else if (own && !own->gone)
			row_end(history, own, due);
	}
}

/* Those that are not in the history, or all. */
static void take_others(struct history *history, const struct totals *totals, unsigned due)
{
	history->left_out = 0;
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		struct totals_row *row;

		TAILQ_FOREACH(row, &totals->rows[scope], in_totals)
			if (is_shown(row) && (history->anew || !row->watch))
				take_row(history, row, due);
	}
}

/* Does the row still have a point? */
static bool row_is_known(const struct history *history, const struct history_row *row)
{
	for (int ring = 0; ring < _RING_MAX; ring++)
		for (size_t slot = 0; slot < nr_slots[ring]; slot++)
			for (size_t i = 0; i < nr_columns(history->plan, row->scope); i++)
				if (!isnan(point_of(history, row, ring, slot, i)))
					return true;
	return false;
}

/* Rows whose targets are not in these totals any more, or not shown, are gone. */
static void find_gone(struct history *history, const struct totals *totals, unsigned due)
{
	struct history_row *row, *next;

	for (row = TAILQ_FIRST(&history->there); row; row = next) {
		const struct totals_row *of = row->watch.row;

		next = TAILQ_NEXT(row, in_list);
		if (!of || of->totals != totals || !is_shown(of))
			row_end(history, row, due);
	}
}

/* Those that went first lose their last points first, so that one of them is looked at. */
static void drop_gone(struct history *history)
{
	struct history_row *row;

	while ((row = TAILQ_FIRST(&history->gone)) && !row_is_known(history, row))
		row_drop(history, &history->gone, row);
}

void history_take(struct history *history, const struct totals *totals, const struct clock_times *now,
		  history_doubt is_doubtful, const void *userdata)
{
	unsigned due;
	bool moved;

	if (history->max_size == 0)
		return;
	history->changes++;
	history_use_plan(history, totals->plan);
	due = begin_slots(history, now, totals->gap_at);
	if (!due)
		return;
	note_doubts(history, is_doubtful, userdata);
	moved = history->anew || history->moves != totals->moves;
	if (!history->anew)
		take_changed(history, totals, due);
	/* Those that have no room are not tried in vain. */
	if (moved || (history->left_out && !TAILQ_EMPTY(&history->gone)))
		take_others(history, totals, due);
	if (moved)
		find_gone(history, totals, due);
	if (due & 1U << RING_COARSE)
		drop_gone(history);
	if (block_pool_nr_free(&history->pool) > history->pool.top / 4)
		compact(history);
	history->taken = now->monotonic;
	history->ticks = totals->ticks;
	history->moves = totals->moves;
	history->anew = false;
}

/* --- questions */

/* The i-th slot of a ring, from the oldest on. */
static size_t nth_slot(const struct history_times *times, int ring, size_t i)
{
	return (times->at + nr_slots[ring] - times->nr + 1 + i) % nr_slots[ring];
}

static size_t add_slot(const struct history *history, struct history_slot *ret, int ring, size_t i)
{
	const struct history_times *times = &history->times[ring];
	size_t slot = nth_slot(times, ring, i);

	/* The first slot of all has no length: nothing was known before. */
	if (times->length[slot] == 0)
		return 0;
	*ret = (struct history_slot){
		.number = first_slot[ring] + slot,
		.end.boottime = times->end[slot],
		.end.realtime = clock_steps_shown(history->clock, times->end[slot]),
		.length = times->length[slot],
		.gap = times->gap[slot],
	};
	return 1;
}

/* Each slot begins where the one before it ends. */
static void add_monotonic_ends(const struct history *history, struct history_slot *slots, size_t nr)
{
	uint64_t end = history->times[RING_FINE].last;

	for (size_t i = nr; i-- > 0;) {
		slots[i].end.monotonic = end;
		end = slots[i].length < end ? end - slots[i].length : 0;
	}
}

size_t history_slots(const struct history *history, struct history_slot ret[HISTORY_SLOTS])
{
	const struct history_times *fine = &history->times[RING_FINE], *coarse = &history->times[RING_COARSE];
	uint64_t first = fine->nr ? fine->end[nth_slot(fine, RING_FINE, 0)] : 0, until = 0;
	size_t nr = 0;

	/* Coarse slots up to the end of the first of them after which all is known finely: a coarse slot ends with a
	 * fine one. */
	for (size_t i = 0; i < coarse->nr && fine->nr == HISTORY_FINE && until < first; i++) {
		until = coarse->end[nth_slot(coarse, RING_COARSE, i)];
		nr += add_slot(history, &ret[nr], RING_COARSE, i);
	}
	for (size_t i = 0; i < fine->nr; i++)
		if (fine->end[nth_slot(fine, RING_FINE, i)] > until)
			nr += add_slot(history, &ret[nr], RING_FINE, i);
	add_monotonic_ends(history, ret, nr);
	return nr;
}

float history_point(const struct history *history, const struct history_row *row, size_t column,
		    const struct history_slot *slot)
{
	int ring = slot->number < HISTORY_FINE ? RING_FINE : RING_COARSE;

	return point_of(history, row, ring, slot->number - first_slot[ring], column);
}

struct history_stats history_stats(const struct history *history)
{
	return (struct history_stats){
		.nr_rows = history->nr_rows,
		.left_out = history->left_out,
		.changes = history->changes,
		.newest = history->times[RING_FINE].last,
	};
}

struct plan *history_plan(const struct history *history)
{
	return history->plan;
}

const struct clock_steps *history_clock(const struct history *history)
{
	return history->clock;
}

const struct history_row *history_next(const struct history *history, const struct history_row *row)
{
	const struct history_row *next = row ? TAILQ_NEXT(row, in_list) : TAILQ_FIRST(&history->there);

	return next || (row && row->gone) ? next : TAILQ_FIRST(&history->gone);
}
