/* SPDX-License-Identifier: MIT */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/history-world.h"

struct plan *plan_of(const struct made_event *events)
{
	struct snapshot *snapshot = made_snapshot(events);
	struct plan *plan = plan_ref(snapshot->plan);

	snapshot_unref(snapshot);
	return plan;
}

const struct made_event two_events[4] = {
	{ SCOPE_CPU, "a", .text = "cycles", .set = 0 },
	{ SCOPE_CGROUP, "a", .text = "cycles", .set = 0 },
	{ SCOPE_CGROUP, "a", .text = "task-clock", .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_TASK_CLOCK,
	  .set = 0, .scale = 1e-9, .unit = EVENT_UNIT_SECONDS },
	{},
};

struct history_world *history_world_new(uint64_t memory)
{
	struct history_world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->plan = plan_of(two_events);
	assert_int_equal(totals_new(&w->totals, w->plan, 10), 0);
	history_init(&w->history, &w->steps, memory);
	w->clocks = (struct clock_times){ 100 * SECOND, 200 * SECOND, NOW };
	return w;
}

void history_world_free(struct history_world *w)
{
	history_release(&w->history);
	totals_free(w->totals);
	plan_unref(w->plan);
	free(w);
}

void pass(struct history_world *w, uint64_t ns)
{
	w->clocks.monotonic += ns;
	w->clocks.boottime += ns;
	w->clocks.realtime += ns;
}

static bool is_doubtful(const void *userdata, enum scope scope, size_t column)
{
	const struct history_world *w = userdata;

	return w->stalls && scope == SCOPE_CGROUP && column == 0;
}

void take(struct history_world *w)
{
	clock_steps_note(&w->steps, &w->clocks);
	history_take(&w->history, w->totals, &w->clocks, is_doubtful, w);
}

struct totals_row *add_target(struct history_world *w, const char *path, bool anew)
{
	_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;
	struct totals_row *row;

	if (path)
		assert_int_equal(cgroup_identity_new(&identity, 7, path), 0);
	assert_int_equal(
		totals_take(w->totals, path ? SCOPE_CGROUP : SCOPE_CPU, path ? ROW_ALL_CPUS : 0, identity, &row), 0);
	row->began = anew ? w->clocks.monotonic : 1;
	for (size_t i = 0; i < w->plan->scope[row->scope].nr_columns; i++)
		row->cells[i].measured = true;
	return row;
}
