/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The state of each event, and the sentence that explains it. Where the event is not counted, that is the plan's. Else
 * it is what readings have shown of its set (struct set_health), interval by interval, and in a long interval also at
 * readings within; and what its own counts have shown (stall.h). A sentence stays valid until the next update.
 */

#include "counting/engine/engine.h"
#include "counting/session/stall.h"

/* Times of a set since the end of the last interval, in ns, as in its health. */
struct set_time {
	uint64_t enabled, running, busy;
};

struct set_state {
	enum event_state state;
	bool partial; /* failed, and counted in some cgroups */
	struct reason why;
	struct set_time time;
};

struct column_state {
	struct stall stall;
	char *why; /* the plan's and the set's sentences in one; NULL where there are not both */
};

struct states {
	struct plan *plan; /* a reference */
	struct set_state *sets[_SCOPE_MAX];
	struct column_state *columns[_SCOPE_MAX];
	bool in_doubt;
};

/* Takes a reference to plan. -ENOMEM. */
int states_new(struct states **ret, struct plan *plan);
/* How sure a column is. */
const struct column_state *states_column(const struct states *states, enum scope scope, size_t column);
struct states *states_free(struct states *states);
DEFINE_CLEANUP(struct states *, states_free)

/* Takes over what `from` knows of equal sets and columns. */
void states_carry(struct states *states, const struct states *from);

/* Judges the sets by their health since the last time, and uses that up. */
void states_judge(struct states *states, struct set_health *const health[static _SCOPE_MAX]);

/* Ends an interval, after states_judge(), and uses its counts up. busy: ns in which each of the CPUs was busy; NULL:
 * not known, which does not matter while nothing is in doubt. */
void states_update(struct states *states, struct totals *totals, const struct cpulist *cpus, const uint64_t *busy);

/* Is the column counted in some cgroups, and not in others? */
bool states_is_partial(const struct states *states, enum scope scope, size_t column);
enum event_state states_get(const struct states *states, enum scope scope, size_t column, const char **why);
