/* SPDX-License-Identifier: MIT */

#include "setup/fake-engine.h"

#include "counting/engine/account.h"
#include "counting/engine/perf/perf.h"
#include "counting/plan/build.h"

#include <errno.h>
#include <string.h>

#define CPUS_MAX 16
#define SETS_MAX 16

struct fake_engine fake_engine;

void fake_engine_reset(void)
{
	fake_engine = (struct fake_engine){ .offline = -1 };
}

struct fake_target {
	enum scope scope;
	uint64_t id;
	struct totals_row *rows[CPUS_MAX];
	size_t nr_cpus;
	bool open[SETS_MAX];
	uint64_t base[SETS_MAX]; /* of fake_engine.happened */
	TAILQ_ENTRY(fake_target) in_engine;
};

struct fake {
	struct engine engine;
	TAILQ_HEAD(, fake_target) targets;
	const struct engine_takeover *takeover;
};

static struct fake *fake_of(const struct engine *engine)
{
	return (struct fake *)engine;
}

/* --- for the planner */

static int fake_try_column(struct scope_plan *plan, size_t at, const struct engine_probe *probe)
{
	const struct event *event = plan->columns[at].event;

	(void)probe;
	if (event->software && event->attr.config < 64 && fake_engine.takes & 1ULL << event->attr.config)
		return 0;
	return column_set_state(&plan->columns[at], EVENT_UNSUPPORTED, "the fake engine does not count it");
}

static int fake_try_set(struct scope_plan *plan, size_t set, const struct engine_probe *probe, size_t *ret)
{
	(void)probe;
	*ret = plan->sets[set].nr;
	return 0;
}

static int fake_open_set(const struct scope_plan *plan, size_t set, const struct engine_probe *probe,
			 struct tried *tried)
{
	(void)plan;
	(void)set;
	(void)probe;
	(void)tried;
	return 0;
}

static bool fake_recovers(const struct column *column, const struct engine_probe *probe)
{
	(void)column;
	(void)probe;
	return false;
}

/* --- the object */

static int fake_create(struct engine **ret, const struct engine_env *env)
{
	struct fake *fake = calloc(1, sizeof(*fake));

	if (!fake)
		return -ENOMEM;
	engine_init(&fake->engine, &engine_fake, env);
	TAILQ_INIT(&fake->targets);
	*ret = &fake->engine;
	return 0;
}

static struct fake_target *target_find(const struct engine *engine, enum scope scope, uint64_t id)
{
	struct fake_target *target;

	TAILQ_FOREACH(target, &fake_of(engine)->targets, in_engine)
		if (target->scope == scope && target->id == id)
			return target;
	return NULL;
}

static void target_free(struct engine *engine, struct fake_target *target)
{
	TAILQ_REMOVE(&fake_of(engine)->targets, target, in_engine);
	free(target);
}

static void fake_destroy(struct engine *engine)
{
	while (!TAILQ_EMPTY(&fake_of(engine)->targets))
		target_free(engine, TAILQ_FIRST(&fake_of(engine)->targets));
	engine_release(engine);
	free(fake_of(engine));
}

static size_t fake_fds_needed(const struct engine *engine, enum scope scope, uint64_t id)
{
	(void)engine;
	(void)scope;
	(void)id;
	return 0;
}

static struct engine_room fake_room(const struct engine *engine)
{
	size_t nr = 0, max = fake_engine.max_cgroups;
	const struct fake_target *target;

	TAILQ_FOREACH(target, &fake_of(engine)->targets, in_engine)
		nr += target->scope == SCOPE_CGROUP;
	return (struct engine_room){ .cgroups = max == 0 ? SIZE_MAX : max > nr ? max - nr : 0 };
}

static bool fake_has(const struct engine *engine, enum scope scope, uint64_t id)
{
	return target_find(engine, scope, id);
}

static bool fake_is_open(const struct engine *engine, enum scope scope, size_t set)
{
	const struct fake_target *target;

	TAILQ_FOREACH(target, &fake_of(engine)->targets, in_engine)
		if (target->scope == scope && target->open[set])
			return true;
	return false;
}

static void read_set(struct engine *engine, struct fake_target *target, size_t set)
{
	uint64_t counts[SETS_MAX], by = fake_engine.happened - target->base[set];

	if (!target->open[set])
		return;
	for (size_t i = 0; i < SETS_MAX; i++)
		counts[i] = by;
	for (size_t i = 0; i < target->nr_cpus; i++) {
		const struct account account = {
			.row = target->rows[i],
			.plan = &engine->env.plan->scope[target->scope],
			.set = set,
			.health = &engine->env.health[target->scope][set],
			.idles = target->scope == SCOPE_CPU,
		};

		account_add_times(&account, 1000 * by, 1000 * by);
		account_add_counts(&account, counts, 1000 * by);
		account_note_run(&account, 1000 * by, true, false);
		totals_decide(account.row, account.plan, set, 1U << OBSERVED_RUNNING);
	}
	target->base[set] = fake_engine.happened;
}

static void read_target(struct engine *engine, struct fake_target *target)
{
	for (size_t i = 0; i < engine->env.plan->scope[target->scope].nr_sets; i++)
		read_set(engine, target, i);
}

static void fake_read(struct engine *engine, uint64_t now)
{
	struct fake_target *target;

	(void)now;
	TAILQ_FOREACH(target, &fake_of(engine)->targets, in_engine)
		read_target(engine, target);
}

static void fake_remove(struct engine *engine, enum scope scope, uint64_t id, uint64_t now)
{
	struct fake_target *target = target_find(engine, scope, id);

	(void)now;
	if (!target)
		return;
	read_target(engine, target);
	target_free(engine, target);
}

static void fake_remove_set(struct engine *engine, enum scope scope, uint64_t id, size_t set, uint64_t now)
{
	struct fake_target *target = target_find(engine, scope, id);

	(void)now;
	if (!target)
		return;
	read_set(engine, target, set);
	target->open[set] = false;
}

static void fake_finish(struct engine *engine, uint64_t now)
{
	while (!TAILQ_EMPTY(&fake_of(engine)->targets)) {
		const struct fake_target *target = TAILQ_FIRST(&fake_of(engine)->targets);

		fake_remove(engine, target->scope, target->id, now);
	}
}

/* Equal sets go over open; the others end, unless they leave. */
static void take_over_sets(struct engine *engine, struct fake_target *target)
{
	const struct engine_takeover *takeover = fake_of(engine)->takeover;
	const struct scope_plan *plan = &engine->env.plan->scope[target->scope], *old_plan;
	struct fake_target *old = takeover ? target_find(takeover->from, target->scope, target->id) : NULL;

	if (!old)
		return;
	old_plan = &takeover->from->env.plan->scope[target->scope];
	for (size_t i = 0; i < plan->nr_sets; i++) {
		size_t k = engine_owns(engine, target->scope, i) ? set_find_equal(plan, &plan->sets[i], old_plan) :
								   NO_SET;

		if (k == NO_SET || !old->open[k])
			continue;
		target->open[i] = true;
		target->base[i] = old->base[k];
		old->open[k] = false;
	}
	for (size_t k = 0; k < old_plan->nr_sets; k++)
		if (!takeover->leaves[target->scope][k])
			fake_remove_set(takeover->from, target->scope, target->id, k, 0);
}

/* The root cgroup begins where the CPU begins that counts the same. */
static uint64_t begin_of(const struct engine *engine, const struct fake_target *target, size_t set, int cpu)
{
	size_t twin = set_find_twin(engine->env.plan, target->scope, set);
	const struct fake_target *cpus = target_find(engine, SCOPE_CPU, (uint64_t)cpu);
	bool root = target->scope == SCOPE_CGROUP && target->id == CGROUP_ROOT_ID;

	return root && cpus && twin != NO_SET && cpus->open[twin] ? cpus->base[twin] : fake_engine.happened;
}

static int fake_add(struct engine *engine, const struct engine_target *spec, const struct cpulist *cpus,
		    struct totals_row *const *rows, uint64_t now, struct reason *why)
{
	struct fake_target *target = target_find(engine, spec->scope, spec->id);

	if (fake_engine.error)
		return reason_set(why, fake_engine.error, "the fake engine fails");
	if (!target) {
		target = calloc(1, sizeof(*target));
		if (!target)
			return -ENOMEM;
		target->scope = spec->scope;
		target->id = spec->id;
		target->nr_cpus = cpus->nr;
		memcpy(target->rows, rows, cpus->nr * sizeof(*rows));
		TAILQ_INSERT_TAIL(&fake_of(engine)->targets, target, in_engine);
		take_over_sets(engine, target);
	}
	if (spec->before_start)
		spec->before_start(spec->userdata, engine, now);
	for (size_t i = 0; i < engine->env.plan->scope[spec->scope].nr_sets; i++) {
		if (!engine_owns(engine, spec->scope, i) || target->open[i])
			continue;
		target->open[i] = true;
		target->base[i] = begin_of(engine, target, i, cpus->cpu[0]);
	}
	return 0;
}

static enum life fake_life(const struct engine *engine, int cpu)
{
	if (cpu == fake_engine.offline)
		return LIFE_BEEN_OFFLINE;
	return target_find(engine, SCOPE_CPU, (uint64_t)cpu) ? LIFE_ONLINE : LIFE_UNKNOWN;
}

static void fake_takeover(struct engine *engine, const struct engine_takeover *takeover)
{
	fake_of(engine)->takeover = takeover;
}

/* --- over a restart */

static void fake_each_stored(const struct engine *engine, stored_visitor each, void *userdata)
{
	(void)engine;
	(void)each;
	(void)userdata;
}

static void fake_save(const struct engine *engine, struct rewrite *rewrite)
{
	struct buf *out = &rewrite->buf;
	const struct fake_target *target;
	size_t nr = 0;

	TAILQ_FOREACH(target, &fake_of(engine)->targets, in_engine)
		nr++;
	pack_u64(out, nr);
	TAILQ_FOREACH(target, &fake_of(engine)->targets, in_engine) {
		pack_u64(out, (uint64_t)target->scope);
		pack_u64(out, target->id);
		pack_u64(out, target->nr_cpus);
		for (size_t i = 0; i < target->nr_cpus; i++)
			pack_u64(out, target->rows[i]->number);
		for (size_t i = 0; i < SETS_MAX; i++) {
			pack_u64(out, target->open[i]);
			pack_u64(out, target->base[i]);
		}
	}
}

static int fake_restore(struct engine *engine, struct unpack *in, struct totals_row *const *rows, size_t nr_rows,
			struct stored_pool *stored)
{
	size_t nr = unpack_nr(in, sizeof(uint64_t));

	(void)stored;
	for (size_t i = 0; i < nr; i++) {
		struct fake_target *target = calloc(1, sizeof(*target));

		if (!target)
			return -ENOMEM;
		TAILQ_INSERT_TAIL(&fake_of(engine)->targets, target, in_engine);
		target->scope = (enum scope)unpack_at_most(in, _SCOPE_MAX - 1);
		target->id = unpack_u64(in);
		target->nr_cpus = unpack_at_most(in, CPUS_MAX);
		for (size_t k = 0; k < target->nr_cpus && nr_rows > 0; k++)
			target->rows[k] = rows[unpack_at_most(in, nr_rows - 1)];
		for (size_t k = 0; k < SETS_MAX; k++) {
			target->open[k] = unpack_at_most(in, 1);
			target->base[k] = unpack_u64(in);
		}
	}
	return in->bad || in->left ? -EBADMSG : 0;
}

const struct engine_ops engine_fake = {
	.name = "fake",
	.try_column = fake_try_column,
	.try_set = fake_try_set,
	.open_set = fake_open_set,
	.recovers = fake_recovers,
	.create = fake_create,
	.destroy = fake_destroy,
	.fds_needed = fake_fds_needed,
	.room = fake_room,
	.is_open = fake_is_open,
	.has = fake_has,
	.add = fake_add,
	.remove = fake_remove,
	.remove_set = fake_remove_set,
	.finish = fake_finish,
	.read = fake_read,
	.life = fake_life,
	.takeover = fake_takeover,
	.each_stored = fake_each_stored,
	.save = fake_save,
	.restore = fake_restore,
};

const struct engine_ops *const fake_first[] = { &engine_fake, &engine_perf, NULL };
const struct engine_ops *const perf_first[] = { &engine_perf, &engine_fake, NULL };
