/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What has become of each event: the plan's word where it is not counted, and else what reading has shown of its
 * set, interval by interval (or, of long intervals,
 * also at readings within), and of itself (stall.h). With each state goes a sentence, where there is anything to
 * say; it is kept until the next update.
 */

#include "count/engine.h"
#include "count/stall.h"

/* Of a set, since the last interval's end, in ns: as in its finding. */
struct set_time {
	uint64_t enabled, running, busy;
};

struct set_state {
	enum event_state state;
	struct reason why;
	struct set_time time;
};

struct column_state {
	struct stall stall;
	char *why; /* the plan's and the set's sentences in one, where there are both */
};

struct states {
	struct plan *plan; /* a reference */
	struct set_state *sets[_SCOPE_MAX];
	struct column_state *columns[_SCOPE_MAX];
	bool in_doubt;
};

int states_new(struct states **ret, struct plan *plan);
struct states *states_free(struct states *states);
DEFINE_CLEANUP(struct states *, states_free)

/* Takes over what is known of equal sets and columns. */
void states_carry(struct states *states, const struct states *from);

/* Judges sets by their findings since the last time, which are used up. */
void states_judge(struct states *states, struct engine *engine);

/* Ends an interval, whose counts are used up, after judging. busy: ns in which each of the CPUs was busy; NULL where
 * that is not known, as it need not be while nothing is in doubt. */
void states_update(struct states *states, struct ledger *ledger, const struct cpulist *cpus, const uint64_t *busy);

enum event_state states_get(const struct states *states, enum scope scope, size_t column, const char **why);
