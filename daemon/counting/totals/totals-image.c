/* SPDX-License-Identifier: MIT */

#include "counting/totals/totals-image.h"

#include "counting/totals/tick.h"

#include <errno.h>

/* --- writing */

static void put_totals_row(struct buf *out, const struct totals_row *row, const struct scope_plan *plan)
{
	pack_u64(out, (uint64_t)row->scope);
	pack_u64(out, (uint64_t)(int64_t)row->cpu);
	pack_u64(out, row->identity ? row->identity->id : 0);
	pack_text(out, row->identity ? row->identity->label : NULL);
	pack_u64(out, row->since);
	pack_u64(out, row->gone_at);
	for (size_t i = 0; i < plan->nr_columns; i++) {
		pack_u64(out, row->cells[i].total);
		pack_u64(out, row->rates[i].at_tick);
		pack_u64(out, row->cells[i].measured);
	}
	for (size_t i = 0; i < plan->nr_sets; i++) {
		pack_u64(out, row->times[i].enabled);
		pack_u64(out, row->times[i].running);
		pack_u64(out, row->times[i].enabled_at_tick);
		pack_u64(out, row->times[i].running_at_tick);
		pack_u64(out, row->times[i].covered);
		pack_u64(out, row->times[i].waited);
	}
}

static void put_row(struct buf *out, struct totals_row *row, size_t number, size_t begin)
{
	row->number = number;
	row->in_image = out->len - begin;
	put_totals_row(out, row, &row->totals->plan->scope[row->scope]);
}

static void put_all_rows(struct buf *out, struct totals *totals)
{
	struct totals_row *row;
	size_t nr = 0, begin = out->len;

	/* Those that linger in the order in which they went. */
	TAILQ_FOREACH(row, &totals->gone, in_gone)
		put_row(out, row, nr++, begin);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		TAILQ_FOREACH(row, &totals->rows[scope], in_totals)
			if (!row->gone_at)
				put_row(out, row, nr++, begin);
}

/* Rows change with what is added to them, and in the two ticks after that. */
static void patch_rows(struct rewrite *rewrite, const struct totals *totals)
{
	const struct totals_image *image = &totals->image;

	for (struct totals_row *row = totals_first_changed(totals, image->ticks ? image->ticks - 1 : 0); row;
	     row = TAILQ_NEXT(row, in_changed)) {
		size_t at = image->place.at + row->in_image, end = rewrite_begin_patch(rewrite, at);

		put_totals_row(&rewrite->buf, row, &totals->plan->scope[row->scope]);
		rewrite_end_patch(rewrite, at, end);
	}
}

void image_put_totals(struct rewrite *rewrite, struct totals *totals)
{
	struct totals_image *image = &totals->image;
	struct buf *out = &rewrite->buf;
	size_t at;

	pack_u64(out, totals->last_tick);
	pack_u64(out, totals->nr_rows[SCOPE_CPU] + totals->nr_rows[SCOPE_CGROUP]);
	at = out->len;
	if (image->moves == totals->moves && rewrite_is_same(rewrite, &image->place)) {
		rewrite_keep(rewrite, image->place.length);
		patch_rows(rewrite, totals);
	} else {
		put_all_rows(out, totals);
		image->numbered++;
	}
	rewrite_note_place(rewrite, &image->place, at);
	image->moves = totals->moves;
	image->ticks = totals->ticks;
}

/* --- reading */

/* A CPU's row has no cgroup, and a cgroup's has one. */
static bool is_target(enum scope scope, int64_t cpu, const char *label)
{
	if (cpu < ROW_ALL_CPUS || cpu > CPULIST_MAX_CPU)
		return false;
	return scope == SCOPE_CPU ? !label && cpu != ROW_ALL_CPUS : label && label[0] == '/';
}

static void get_cells(struct unpack *in, struct totals_row *row, const struct scope_plan *plan)
{
	for (size_t i = 0; i < plan->nr_columns; i++) {
		row->cells[i].total = unpack_u64(in);
		row->rates[i].at_tick = unpack_at_most(in, row->cells[i].total);
		row->cells[i].measured = unpack_at_most(in, 1);
		row->rates[i].begun = row->cells[i].measured;
	}
	for (size_t i = 0; i < plan->nr_sets; i++) {
		row->times[i].enabled = unpack_u64(in);
		row->times[i].running = unpack_u64(in);
		row->times[i].enabled_at_tick = unpack_at_most(in, row->times[i].enabled);
		row->times[i].running_at_tick = unpack_at_most(in, row->times[i].running);
		row->times[i].covered = unpack_u64(in);
		row->times[i].waited = unpack_at_most(in, INT64_MAX);
		row->times[i].estimated = !plan->sets[i].exact && row->times[i].running &&
					  (double)row->times[i].running < FULL_SHARE * (double)row->times[i].enabled;
	}
}

static int get_totals_row(struct unpack *in, struct totals *totals, struct totals_row **ret)
{
	enum scope scope = (enum scope)unpack_at_most(in, _SCOPE_MAX - 1);
	int64_t cpu = (int64_t)unpack_u64(in);
	uint64_t id = unpack_u64(in), since, gone_at;
	_cleanup_(freep) char *label = unpack_text(in);
	_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;
	size_t before = totals->nr_rows[scope];
	int r;

	since = unpack_u64(in);
	gone_at = unpack_u64(in);
	if (in->bad || !is_target(scope, cpu, label) || (gone_at && scope == SCOPE_CPU))
		return -EBADMSG;
	if (label && cgroup_identity_of_label(&identity, id, label) < 0)
		return -ENOMEM;
	r = totals_take(totals, scope, (int)cpu, identity, ret);
	if (r < 0)
		return r;
	if (totals->nr_rows[scope] == before)
		return -EBADMSG; /* twice */
	(*ret)->since = since;
	(*ret)->began = 0;
	get_cells(in, *ret, &totals->plan->scope[scope]);
	if (gone_at)
		totals_retire(totals, *ret, identity, gone_at);
	return in->bad ? -EBADMSG : 0;
}

int image_get_totals(struct unpack *in, struct totals *totals, struct totals_row ***ret_rows, size_t *ret_nr)
{
	_cleanup_(freep) struct totals_row **rows = NULL;
	size_t nr;

	totals->last_tick = unpack_u64(in);
	nr = unpack_nr(in, 6 * sizeof(uint64_t));
	rows = calloc(nr + 1, sizeof(struct totals_row *));
	if (!rows)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		int r = get_totals_row(in, totals, &rows[i]);

		if (r < 0)
			return r;
	}
	if (in->bad)
		return -EBADMSG;
	*ret_rows = steal_ptr(rows);
	*ret_nr = nr;
	return 0;
}
