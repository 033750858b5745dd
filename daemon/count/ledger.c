/* SPDX-License-Identifier: MIT */

#include "count/ledger.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* A rate stands for less than this time while nothing can be told of what comes after it: at most two intervals that
 * are each too brief to tell a share of the PMU from. */
#define HOLD_NS 100000000U

/* Totals that were held for want of a mount wait so long, at least, for their cgroups to be opened again. */
#define HELD_NS 10000000000U

int ledger_new(struct ledger **ret, struct plan *plan, size_t max_gone)
{
	struct ledger *ledger = calloc(1, sizeof(*ledger));

	if (!ledger)
		return -ENOMEM;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		TAILQ_INIT(&ledger->rows[scope]);
	ledger->plan = plan_ref(plan);
	ledger->max_gone = max_gone;
	TAILQ_INIT(&ledger->gone);
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		ledger->counted[scope] = calloc(plan->scope[scope].nr_columns + 1, sizeof(uint64_t));
		if (!ledger->counted[scope]) {
			ledger_free(ledger);
			return -ENOMEM;
		}
	}
	ledger->all_cpus = calloc(plan->scope[SCOPE_CPU].nr_columns + 1, sizeof(*ledger->all_cpus));
	if (!ledger->all_cpus) {
		ledger_free(ledger);
		return -ENOMEM;
	}
	for (size_t i = 0; i < plan->scope[SCOPE_CPU].nr_columns; i++)
		trend_forget(&ledger->all_cpus[i].trend);
	*ret = ledger;
	return 0;
}

struct ledger *ledger_free(struct ledger *ledger)
{
	if (!ledger)
		return NULL;
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		while (!TAILQ_EMPTY(&ledger->rows[scope]))
			ledger_drop(ledger, TAILQ_FIRST(&ledger->rows[scope]));
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		free(ledger->counted[scope]);
	free(ledger->all_cpus);
	plan_unref(ledger->plan);
	free(ledger);
	return NULL;
}

/* Of the rows that linger, is it the first of its cgroup? */
static bool is_first_gone(const struct row *row)
{
	const struct row *before = row ? TAILQ_PREV(row, row_list, in_gone) : NULL;

	return row && !(before && before->identity->id == row->identity->id &&
			strcmp(before->identity->label, row->identity->label) == 0);
}

static void enter_gone(struct ledger *ledger, struct row *row, uint64_t now)
{
	row->gone_at = now ? now : 1;
	TAILQ_INSERT_TAIL(&ledger->gone, row, in_gone);
	ledger->nr_gone += is_first_gone(row);
}

/* The row is there again, or no more. */
static void leave_gone(struct ledger *ledger, struct row *row)
{
	const struct row *next;

	if (!row->gone_at)
		return;
	next = TAILQ_NEXT(row, in_gone);
	ledger->nr_gone -= is_first_gone(row) + is_first_gone(next);
	TAILQ_REMOVE(&ledger->gone, row, in_gone);
	ledger->nr_gone += is_first_gone(next);
	row->gone_at = 0;
}

void ledger_drop(struct ledger *ledger, struct row *row)
{
	for (size_t i = 0; i < ledger->plan->scope[row->scope].nr_columns; i++)
		ledger->counted[row->scope][i] += row->cells[i].total - row->cells[i].at_tick;
	leave_gone(ledger, row);
	HASH_DELETE(by_target, ledger->by_target, row);
	TAILQ_REMOVE(&ledger->rows[row->scope], row, in_ledger);
	ledger->nr_rows[row->scope]--;
	cgroup_identity_unref(row->identity);
	free(row);
}

/* The key of the hash: rows of CPUs and of cgroups can't meet, since a label begins with a slash. */
static char *target_key(int cpu, const struct cgroup_identity *identity)
{
	char *key;

	return asprintf(&key, "%d%s", cpu, identity ? identity->label : "") < 0 ? NULL : key;
}

static struct row *look_for(const struct ledger *ledger, int cpu, const struct cgroup_identity *identity)
{
	struct row *row;

	TAILQ_FOREACH(row, &ledger->rows[identity ? SCOPE_CGROUP : SCOPE_CPU], in_ledger)
		if (row->cpu == cpu && (!identity || strcmp(row->identity->label, identity->label) == 0))
			return row;
	return NULL;
}

struct row *ledger_find(const struct ledger *ledger, int cpu, const struct cgroup_identity *identity)
{
	_cleanup_(freep) char *key = target_key(cpu, identity);
	struct row *row = NULL;

	/* Without memory for its key it is looked for: it could not be ended otherwise. */
	if (!key)
		return look_for(ledger, cpu, identity);
	HASH_FIND(by_target, ledger->by_target, key, strlen(key), row);
	return row;
}

static uint64_t realtime_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static struct row *row_new(const struct scope_plan *plan, const char *key)
{
	size_t head = sizeof(struct row) + strlen(key) + 1;
	struct row *row;

	head = (head + _Alignof(struct set_times) - 1) / _Alignof(struct set_times) * _Alignof(struct set_times);
	row = calloc(1, head + plan->nr_sets * sizeof(struct set_times) + plan->nr_columns * sizeof(struct cell));
	if (!row)
		return NULL;
	row->times = (struct set_times *)((char *)row + head);
	row->cells = (struct cell *)(row->times + plan->nr_sets);
	for (size_t i = 0; i < plan->nr_sets; i++)
		row->times[i].share = NAN;
	for (size_t i = 0; i < plan->nr_columns; i++) {
		row->cells[i].rate = NAN;
		trend_forget(&row->cells[i].trend);
	}
	memcpy(row->target, key, strlen(key));
	return row;
}

/* What was final for the cgroup that is gone is not measured of the one that takes its place. */
static void unmeasure_uncounted(const struct ledger *ledger, struct row *row)
{
	const struct scope_plan *plan = &ledger->plan->scope[row->scope];

	for (size_t i = 0; i < plan->nr_columns; i++)
		row->cells[i].measured &= plan->columns[i].set != NO_SET;
}

int ledger_take(struct ledger *ledger, enum scope scope, int cpu, struct cgroup_identity *identity, struct row **ret)
{
	_cleanup_(freep) char *key = target_key(cpu, identity);
	struct row *row = NULL;

	if (!key)
		return -ENOMEM;
	HASH_FIND(by_target, ledger->by_target, key, strlen(key), row);
	if (row) {
		struct cgroup_identity *old = row->identity;

		/* Beside those of the cgroup's rows that are new. */
		if (row->gone_at || row->held) {
			TAILQ_REMOVE(&ledger->rows[scope], row, in_ledger);
			TAILQ_INSERT_TAIL(&ledger->rows[scope], row, in_ledger);
			unmeasure_uncounted(ledger, row);
		}
		leave_gone(ledger, row);
		row->held = false;
		row->identity = identity ? cgroup_identity_ref(identity) : NULL;
		cgroup_identity_unref(old);
		*ret = row;
		return 0;
	}

	row = row_new(&ledger->plan->scope[scope], key);
	if (!row)
		return -ENOMEM;
	HASH_ADD(by_target, ledger->by_target, target, strlen(key), row);
	if (!row->by_target.tbl) {
		free(row);
		return -ENOMEM;
	}
	row->scope = scope;
	row->cpu = cpu;
	row->since = realtime_now();
	row->identity = identity ? cgroup_identity_ref(identity) : NULL;
	TAILQ_INSERT_TAIL(&ledger->rows[scope], row, in_ledger);
	ledger->nr_rows[scope]++;
	*ret = row;
	return 0;
}

/* All rows of the cgroup that was gone first. */
static void push_out(struct ledger *ledger)
{
	size_t nr = ledger->nr_gone;

	while (ledger->nr_gone == nr)
		ledger_drop(ledger, TAILQ_FIRST(&ledger->gone));
	ledger->pushed_out++;
}

void ledger_retire(struct ledger *ledger, struct row *row, const struct cgroup_identity *identity, uint64_t now)
{
	if (row->gone_at || row->identity != identity)
		return;
	for (size_t i = 0; i < ledger->plan->scope[row->scope].nr_sets; i++)
		row->times[i].waited = 0; /* nothing comes of it any more */
	enter_gone(ledger, row, now);
	while (ledger->nr_gone > ledger->max_gone)
		push_out(ledger);
}

void ledger_expire(struct ledger *ledger, uint64_t now, uint64_t linger)
{
	struct row *row, *next;

	for (row = TAILQ_FIRST(&ledger->gone); row && now >= row->gone_at && now - row->gone_at >= linger; row = next) {
		next = TAILQ_NEXT(row, in_gone);
		/* Its cgroup is being opened again. */
		if (!row->held || now - row->gone_at >= HELD_NS)
			ledger_drop(ledger, row);
	}
}

/* part: of what was added, what is of this interval. */
static void cell_tick(struct cell *cell, const struct trend_step *step, double part, uint64_t *counted)
{
	*counted += cell->total - cell->at_tick;
	cell->rate = cell->measured ? part * (double)(cell->total - cell->at_tick) / step->seconds : NAN;
	cell->held = false;
	cell->at_tick = cell->total;
	trend_add(&cell->trend, step, cell->rate);
}

static void cell_wait(struct cell *cell, const struct trend_step *step, bool hold)
{
	cell->held = hold && !isnan(cell->rate);
	if (!hold)
		cell->rate = NAN;
	trend_wait(&cell->trend, step);
}

/* Of the sets on a row's CPUs, some may wait while others don't: by their time, what was added stands for more than
 * its interval, or for less. */
static void set_tick(struct row *row, const struct set *set, struct set_times *times, const struct trend_step *step,
		     uint64_t *counted)
{
	uint64_t enabled = times->enabled - times->enabled_at_tick;
	uint64_t running = times->running - times->running_at_tick;
	bool counts = set->exact || times->covered, waits = enabled && !counts;
	const struct trend_step whole = trend_step_longer(step, counts ? times->waited : 0);
	double part = set->exact || times->waited || !counts ? 1 : (double)enabled / (double)times->covered;

	for (size_t i = 0; i < set->nr; i++) {
		struct cell *cell = &row->cells[set->columns[i]];

		if (waits && cell->measured)
			cell_wait(cell, step, times->waited + step->ns < HOLD_NS);
		else
			cell_tick(cell, &whole, part, &counted[set->columns[i]]);
	}
	times->waited = waits ? times->waited + step->ns : counts ? 0 : times->waited;
	times->covered = 0;
	times->share = enabled ? fmin(1, (double)running / (double)enabled) : NAN;
	times->enabled_at_tick = times->enabled;
	times->running_at_tick = times->running;
}

static void row_tick(struct row *row, const struct scope_plan *plan, const struct trend_step *step,
		     uint64_t *counted)
{
	for (size_t i = 0; i < plan->nr_sets; i++)
		set_tick(row, &plan->sets[i], &row->times[i], step, counted);
	for (size_t i = 0; i < plan->nr_columns; i++)
		if (plan->columns[i].set == NO_SET)
			cell_tick(&row->cells[i], step, 1, &counted[i]);
}

static void sum_add(struct sum *sum, const struct trend_step *step, double rate)
{
	const struct trend_step whole = trend_step_longer(step, sum->waited);

	trend_add(&sum->trend, &whole, rate);
	sum->waited = 0;
}

static void sum_wait(struct sum *sum, const struct trend_step *step)
{
	trend_wait(&sum->trend, step);
	sum->waited += step->ns;
}

/* CPUs that are not measured for now, or wait, leave a sum of those that are. */
static void sum_tick(struct ledger *ledger, const struct trend_step *step)
{
	for (size_t i = 0; i < ledger->plan->scope[SCOPE_CPU].nr_columns; i++) {
		double rate = NAN;
		bool measured = false, told = false;
		const struct row *row;

		TAILQ_FOREACH(row, &ledger->rows[SCOPE_CPU], in_ledger) {
			measured |= row->cells[i].measured;
			told |= !isnan(row->cells[i].rate) && !row->cells[i].held;
			if (!isnan(row->cells[i].rate))
				rate = isnan(rate) ? row->cells[i].rate : rate + row->cells[i].rate;
		}
		if (measured && !told)
			sum_wait(&ledger->all_cpus[i], step);
		else
			sum_add(&ledger->all_cpus[i], step, rate);
	}
}

void ledger_tick(struct ledger *ledger, uint64_t now)
{
	/* The first tick ends no interval: counting started somewhere within it. */
	const struct trend_step step = trend_step_of(ledger->last_tick, now);

	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		const struct scope_plan *plan = &ledger->plan->scope[scope];
		struct row *row;

		TAILQ_FOREACH(row, &ledger->rows[scope], in_ledger)
			row_tick(row, plan, &step, ledger->counted[scope]);
	}
	sum_tick(ledger, &step);
	ledger->last_tick = now;
}

/* Adds the times of each set of `from` to those of the set that has its group's times now. */
static void carry_times(struct row *to, const struct row *from, const size_t *set_heirs, size_t nr_from)
{
	for (size_t i = 0; i < nr_from; i++) {
		struct set_times *times;

		if (set_heirs[i] == NO_SET)
			continue;
		times = &to->times[set_heirs[i]];
		times->enabled += from->times[i].enabled;
		times->running += from->times[i].running;
		times->enabled_at_tick += from->times[i].enabled_at_tick;
		times->running_at_tick += from->times[i].running_at_tick;
		times->covered += from->times[i].covered;
	}
}

void ledger_unmeasure(const struct ledger *ledger, struct row *row)
{
	for (size_t i = 0; i < ledger->plan->scope[row->scope].nr_columns; i++)
		row->cells[i].measured = false;
}

bool ledger_row_is_empty(const struct ledger *ledger, const struct row *row)
{
	const struct scope_plan *plan = &ledger->plan->scope[row->scope];

	for (size_t i = 0; i < plan->nr_columns; i++)
		if (row->cells[i].measured || row->cells[i].total)
			return false;
	/* The time of a group that was enabled and has never run is exposed as well. */
	for (size_t i = 0; i < plan->nr_sets; i++)
		if (row->times[i].enabled)
			return false;
	return true;
}

/* What is carried from where. All that depends on the plans alone is worked out once, and not for each row. */
struct carrying {
	struct ledger *to;
	const struct ledger *from;
	size_t *heirs[_SCOPE_MAX];     /* one a column of the new plan: the equal one of the old, or NO_COLUMN */
	size_t *set_heirs[_SCOPE_MAX]; /* one a set of the old plan: the new set that gets its times, or NO_SET */
	const struct row *sought; /* the last row of the old ledger for which find_counted() has looked … */
	struct row *counted;	  /* … and what it found: its cgroup's other rows come next, and it is the same */
};

static void carrying_release(struct carrying *carrying)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		free(carrying->heirs[scope]);
		free(carrying->set_heirs[scope]);
	}
}

static bool begins_group(const struct scope_plan *plan, size_t set)
{
	return set == 0 || plan->sets[set - 1].group != plan->sets[set].group;
}

/* Times are exposed per group, so they are carried per group: into the first of its sets. It is looked for from a set
 * on, as groups mostly are in the order in which they were. */
static size_t first_set_of(const struct scope_plan *plan, const struct group *group, size_t from)
{
	for (size_t i = 0; i < plan->nr_sets; i++) {
		size_t set = (from + i) % plan->nr_sets;

		if (begins_group(plan, set) && strcmp(plan->sets[set].group->name, group->name) == 0)
			return set;
	}
	return NO_SET;
}

/* The sets of a group stand together, so that each group is looked for once. */
static int find_set_heirs(struct carrying *carrying, enum scope scope)
{
	const struct scope_plan *to = &carrying->to->plan->scope[scope], *from = &carrying->from->plan->scope[scope];
	size_t *heirs = calloc(from->nr_sets + 1, sizeof(*heirs)), last = 0;

	carrying->set_heirs[scope] = heirs;
	if (!heirs)
		return -ENOMEM;
	for (size_t i = 0; i < from->nr_sets; i++) {
		heirs[i] = begins_group(from, i) ? first_set_of(to, from->sets[i].group, last) : heirs[i - 1];
		last = heirs[i] == NO_SET ? last : heirs[i];
	}
	return 0;
}

static int find_heirs(struct carrying *carrying, enum scope scope)
{
	const struct scope_plan *to = &carrying->to->plan->scope[scope], *from = &carrying->from->plan->scope[scope];
	size_t *heirs = calloc(to->nr_columns + 1, sizeof(*heirs));

	carrying->heirs[scope] = heirs;
	if (!heirs)
		return -ENOMEM;
	for (size_t i = 0; i < to->nr_columns; i++)
		heirs[i] = column_find_predecessor(&to->columns[i], from);
	return 0;
}

/* What a set has waited, to the one that has its leader now. */
static void carry_waited(const struct carrying *carrying, struct row *to, const struct row *from)
{
	const struct scope_plan *plan = &carrying->to->plan->scope[from->scope];
	const struct scope_plan *from_plan = &carrying->from->plan->scope[from->scope];

	for (size_t i = 0; i < plan->nr_sets; i++) {
		size_t heir = carrying->heirs[from->scope][plan->sets[i].columns[0]];
		size_t set = heir == NO_COLUMN ? NO_SET : from_plan->columns[heir].set;

		if (set != NO_SET)
			to->times[i].waited = from->times[set].waited;
	}
}

/* final: it is counted no more, and what was measured of it stays so. */
static void carry_row(const struct carrying *carrying, struct row *to, const struct row *from, bool final)
{
	const struct scope_plan *plan = &carrying->to->plan->scope[from->scope];

	for (size_t i = 0; i < plan->nr_columns; i++) {
		size_t heir = carrying->heirs[from->scope][i];
		const struct cell *cell;

		if (heir == NO_COLUMN)
			continue;
		cell = &from->cells[heir];
		to->cells[i].total += cell->total;
		to->cells[i].at_tick += cell->at_tick;
		to->cells[i].rate = cell->rate;
		to->cells[i].held = cell->held;
		to->cells[i].trend = cell->trend;
		/* What is no longer counted is not measured; of a target that is gone, it was. */
		if (plan->columns[i].set != NO_SET || final)
			to->cells[i].measured |= cell->measured;
	}
	to->since = to->since < from->since ? to->since : from->since;
	if (!final)
		carry_waited(carrying, to, from);
	carry_times(to, from, carrying->set_heirs[from->scope], carrying->from->plan->scope[from->scope].nr_sets);
}

/* Into the target's row, where the new ledger has one. */
static bool carry_to_row(const struct carrying *carrying, const struct row *old)
{
	struct row *row = NULL;

	HASH_FIND(by_target, carrying->to->by_target, old->target, strlen(old->target), row);
	if (row)
		carry_row(carrying, row, old, row->gone_at != 0);
	return row;
}

/* Into a row of its own, in which it goes on, or lingers. beside: a row of the same cgroup that does, or NULL. */
static int carry_to_new_row(const struct carrying *carrying, const struct row *old, uint64_t gone_at,
			    struct row *beside)
{
	struct row *row;
	int r = ledger_take(carrying->to, old->scope, old->cpu, old->identity, &row);

	if (r < 0)
		return r;
	if (beside) {
		TAILQ_REMOVE(&carrying->to->rows[old->scope], row, in_ledger);
		TAILQ_INSERT_AFTER(&carrying->to->rows[old->scope], beside, row, in_ledger);
	}
	carry_row(carrying, row, old, true);
	row->held = old->held || (carrying->to->holds && !old->gone_at && old->scope == SCOPE_CGROUP && !beside);
	if (row->held)
		ledger_unmeasure(carrying->to, row);
	if (gone_at)
		ledger_retire(carrying->to, row, old->identity, gone_at);
	return 0;
}

static struct row *look_for_counted(const struct ledger *ledger, const struct row *old, const struct cpulist *cpus)
{
	for (size_t i = 0; i < cpus->nr; i++) {
		struct row *row = ledger_find(ledger, cpus->cpu[i], old->identity);

		if (row && !row->gone_at)
			return row;
	}
	return NULL;
}

/* A row of the cgroup in the new ledger, on any of the CPUs, that is counted; or NULL. Rows of one cgroup stand
 * together: all CPUs are looked at once a cgroup, and not once a row, which would be CPUs times CPUs. */
static struct row *find_counted(struct carrying *carrying, const struct row *old, const struct cpulist *cpus)
{
	const struct row *sought = carrying->sought;

	if (!sought || strcmp(sought->identity->label, old->identity->label) != 0)
		carrying->counted = look_for_counted(carrying->to, old, cpus);
	carrying->sought = old;
	return carrying->counted;
}

/* From a target that was counted: into its row, or else it is a CPU that is not counted for now, by itself or of a
 * cgroup, or a cgroup that is counted no more. */
static int carry_counted(struct carrying *carrying, const struct row *old, bool per_cpu,
			 const struct cpulist *cpus, uint64_t now)
{
	struct row *counted;

	if (carry_to_row(carrying, old))
		return 0;
	if (old->scope == SCOPE_CPU)
		return carry_to_new_row(carrying, old, 0, NULL);
	if ((old->cpu != ROW_ALL_CPUS) != per_cpu)
		return 0;
	counted = per_cpu ? find_counted(carrying, old, cpus) : NULL;
	if (counted)
		return carry_to_new_row(carrying, old, 0, counted);
	if (ledger_row_is_empty(carrying->from, old))
		return 0;
	return carry_to_new_row(carrying, old, carrying->to->holds ? 0 : now, NULL);
}

/* From a cgroup that is gone: into the row of another that has taken its label, or one that lingers on. */
static int carry_gone(const struct carrying *carrying, const struct row *old, bool per_cpu)
{
	if (carry_to_row(carrying, old) || (old->cpu != ROW_ALL_CPUS) != per_cpu)
		return 0;
	return carry_to_new_row(carrying, old, old->gone_at, NULL);
}

int ledger_carry(struct ledger *to, const struct ledger *from, bool per_cpu, const struct cpulist *cpus, uint64_t now)
{
	_cleanup_(carrying_release) struct carrying carrying = { .to = to, .from = from };
	const struct row *old;
	int r = 0;

	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = find_heirs(&carrying, (enum scope)scope);
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++)
		r = find_set_heirs(&carrying, (enum scope)scope);
	/* In the order in which they went, and those that go now after them. */
	TAILQ_FOREACH(old, &from->gone, in_gone)
		if (r == 0)
			r = carry_gone(&carrying, old, per_cpu);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		TAILQ_FOREACH(old, &from->rows[scope], in_ledger)
			if (r == 0 && !old->gone_at)
				r = carry_counted(&carrying, old, per_cpu, cpus, now);
	for (size_t i = 0; i < to->plan->scope[SCOPE_CPU].nr_columns && r == 0; i++)
		if (carrying.heirs[SCOPE_CPU][i] != NO_COLUMN)
			to->all_cpus[i] = from->all_cpus[carrying.heirs[SCOPE_CPU][i]];
	to->last_tick = from->last_tick;
	to->pushed_out += from->pushed_out;
	return r;
}
