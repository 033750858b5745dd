/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Made totals of CPUs and cgroups, and their past: time goes on by the test alone.
 */

#include "base/util/clock.h"
#include "counting/history/history.h"
#include "setup/made-snapshot.h"

#define SECOND ((uint64_t)NS_PER_S)
/* The epoch of these tests. */
#define NOW (1700000000 * SECOND)
#define MEMORY (1024 * 1024)

struct history_world {
	struct plan *plan;
	struct totals *totals;
	struct history history;
	struct clock_times clocks;
	struct clock_steps steps; /* of the clocks, up to the last reading */
	bool stalls;		  /* the cgroups' first column */
};

struct plan *plan_of(const struct made_event *events);

/* cycles of CPUs; cycles and task-clock of cgroups. */
extern const struct made_event two_events[4];

/* memory: of the history, in bytes. */
struct history_world *history_world_new(uint64_t memory);
void history_world_free(struct history_world *w);

/* All clocks go on. */
void pass(struct history_world *w, uint64_t ns);
/* The history takes a reading. */
void take(struct history_world *w);

/* A target that began before the history, or since its last reading; NULL: CPU 0. */
struct totals_row *add_target(struct history_world *w, const char *path, bool anew);
