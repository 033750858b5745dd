/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The engines of one plan, as if they were one. Each set of the plan names the engine that counts it; this is where
 * something that concerns a whole target is asked of all of them.
 *
 * In a takeover an engine goes on from its predecessor of the same kind. A set whose predecessor was counted by another
 * kind is read by that one for the last time at the moment when the new one starts.
 */

#include "counting/engine/engine.h"

#define ENGINES_MAX 4

struct engines {
	struct plan *plan; /* a reference */
	struct engine *engines[ENGINES_MAX];
	size_t nr;
	char name[64];			       /* of those that count, with ", " between them */
	struct set_health *health[_SCOPE_MAX]; /* one a set */

	/* In a takeover: */
	struct engines *from; /* the predecessors, or NULL */
	bool moves;	      /* a set moves from one kind of engine to another */
	/* One a set, of a predecessor: another kind of engine counts it in the successor. */
	bool *leaves[_SCOPE_MAX];
	/* One a column: from's set, of another kind of engine, that the column was in; or NO_SET. */
	size_t *replaced[_SCOPE_MAX];
	struct engine_takeover takeovers[ENGINES_MAX];
};

/* Makes an engine for each kind that a set of the plan names. ret is zeroed, and stays where it is. Of the
 * surroundings, health and engines are filled in here. -ENOMEM. */
int engines_new(struct engines *ret, struct plan *plan, const struct engine_env *surroundings);
/* Closes all. */
void engines_release(struct engines *engines);

/* That of the name; NULL: this build has none. */
const struct engine_ops *engines_by_name(const char *name);
/* That of the kind, or NULL; and its number among them. */
struct engine *engines_find(const struct engines *engines, const struct engine_ops *ops);
size_t engines_number(const struct engines *engines, const struct engine_ops *ops);

/* As the engine_ops of the same names. */
struct engine_room engines_room(const struct engines *engines);
size_t engines_fds_needed(const struct engines *engines, enum scope scope, uint64_t id);
bool engines_are_open(const struct engines *engines, enum scope scope, size_t set);
bool engines_have(const struct engines *engines, enum scope scope, uint64_t id);
void engines_remove(struct engines *engines, enum scope scope, uint64_t id, uint64_t now);
void engines_finish(struct engines *engines, uint64_t now);
void engines_read(struct engines *engines, uint64_t now);
enum life engines_life(const struct engines *engines, int cpu);
/* That of the engine which credits. */
bool engines_switch_cost(const struct engines *engines, int cpu, struct switch_cost *ret);
void engines_each_stored(const struct engines *engines, stored_visitor each, void *userdata);

/* The same: 0 where at least one engine counts the target. Where files or memory are short, nothing of a new target
 * stays open in any; one that continues from the predecessors keeps what it has. */
int engines_add(struct engines *engines, const struct engine_target *target, const struct cpulist *cpus,
		struct totals_row *const *rows, uint64_t now, struct reason *why);

/* Notes why a cgroup lacks some of its sets; … and in how many of nr counted cgroups each set is lacking. */
void engines_note_lack(struct engines *engines, const struct reason *why);
void engines_count_lacking(struct engines *engines, size_t nr);

/* Nothing is measured of sets whose engine does not count the target, while another one does. */
void engines_decide_row(const struct engines *engines, enum scope scope, uint64_t id, struct totals_row *row);

/* New events of cgroups that continue are opened when the cgroup is added once more (struct engine). */
void engines_defer(struct engines *engines, bool defers);

struct engine_stats engines_stats(const struct engines *engines);

/* Begins the takeover from `from`; lost: CPUs that have been offline since it opened what is on them. Both are borrowed
 * until engines_takeover_end(). */
void engines_takeover_begin(struct engines *engines, struct engines *from, const struct cpulist *lost);
void engines_takeover_end(struct engines *engines);
