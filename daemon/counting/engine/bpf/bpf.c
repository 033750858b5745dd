/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/bpf.h"

#include "base/host/cpu.h"
#include "base/util/clock.h"
#include "counting/engine/bpf/attempt.h"
#include "counting/engine/bpf/conservation.h"
#include "counting/engine/bpf/slot-owners.h"
#include "counting/engine/bpf/slots-image.h"
#include "counting/engine/bpf/slots.h"
#include "counting/engine/bpf/unclaimed.h"
#include "counting/engine/bpf/wiring.h"
#include "counting/engine/perf/perf.h"
#include "counting/plan/build.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Slots beyond the cgroups that may be counted, for those that nobody asks for: a part of that number, and so many. */
#define SPARE_SHARE 2
#define SPARE_SLOTS 1024
#define MAX_SLOTS 1000000U

/* There are numbers for so many events and sets, or for a multiple of them: so most plans fit a part that was loaded
 * for another one. */
#define EVENTS_UNIT 16U
#define SETS_UNIT 4U

/* --- sizes */

static uint32_t round_up(size_t nr, uint32_t unit)
{
	return nr ? (uint32_t)((nr + unit - 1) / unit * unit) : unit;
}

/* Possible ones: the numbers of all CPUs that may ever be online are below it. */
static uint32_t nr_cpus(const char *sysroot)
{
	_cleanup_(cpulist_release) struct cpulist possible = {};
	struct reason ignored;
	long nr = sysconf(_SC_NPROCESSORS_CONF);

	if (cpu_list_read(&possible, sysroot ? sysroot : "/sys", "possible", &ignored) == 0)
		for (size_t i = 0; i < possible.nr; i++)
			if (possible.cpu[i] >= nr)
				nr = possible.cpu[i] + 1;
	return nr > 0 ? (uint32_t)nr : 1;
}

/* For that many cgroups. */
static struct bpf_sizes make_sizes(const char *sysroot, uint64_t cgroups, size_t nr_events, size_t nr_sets)
{
	uint64_t slots = cgroups + cgroups / SPARE_SHARE + SPARE_SLOTS;

	if (cgroups > MAX_SLOTS || slots > MAX_SLOTS)
		slots = MAX_SLOTS;
	return (struct bpf_sizes){
		.cpus = nr_cpus(sysroot),
		.slots = (uint32_t)slots,
		.events = round_up(nr_events, EVENTS_UNIT),
		.sets = round_up(nr_sets, SETS_UNIT),
	};
}

int bpf_is_available(uint64_t max_cgroups, const char *sysroot, struct reason *why)
{
	const struct bpf_sizes sizes = make_sizes(sysroot, max_cgroups, 0, 0);

	if (sizeof(long) < sizeof(uint64_t))
		return reason_set(why, -EOPNOTSUPP, "cgroups are not known by their ids on a machine of 32 bits");
	return attempt_try(&sizes, why);
}

void bpf_end_trial(void)
{
	(void)bpf_kernel_unref(attempt_take_trial());
}

/* --- for the planner */

/* The events that are counted exactly and without cost to each switch by perf events of the cgroup are left to those;
 * and what counts when a BPF program is not asked, in the middle of a switch. */
static bool is_perfs(const struct column *column)
{
	const struct perf_event_attr *attr = &column->event->attr;

	return attr->type == PERF_TYPE_TRACEPOINT || attr->type == PERF_TYPE_BREAKPOINT || column->event->probe ||
	       event_is_slow_to_close(column->event);
}

static bool bpf_suits(const struct column *column)
{
	return column->scope == SCOPE_CGROUP && !is_perfs(column);
}

static bool are_too_many(const struct scope_plan *plan)
{
	size_t nr = 0;

	for (size_t i = 0; i < plan->nr_columns && plan->nr_columns > CREDIT_EVENTS_MAX; i++)
		nr += !is_perfs(&plan->columns[i]);
	return nr > CREDIT_EVENTS_MAX;
}

/* An event is credited where the CPUs' one can be counted. */
static struct engine_probe probe_on_cpus(const struct engine_probe *probe)
{
	struct engine_probe on_cpus = *probe;

	on_cpus.cgroup_fd = -1;
	return on_cpus;
}

static int bpf_try_column(struct scope_plan *plan, size_t at, const struct engine_probe *probe)
{
	const struct engine_probe on_cpus = probe_on_cpus(probe);
	struct reason reason;

	if (are_too_many(plan)) {
		reason_set(&reason, 0,
			   "there are more than %d events per cgroup, which is as many as can be read at a switch",
			   CREDIT_EVENTS_MAX);
		return column_set_state(&plan->columns[at], EVENT_UNSUPPORTED, reason.text);
	}
	if (attempt_try(NULL, &reason) < 0)
		return column_set_state(&plan->columns[at], EVENT_UNSUPPORTED, reason.text);
	return engine_perf.try_column(plan, at, &on_cpus);
}

static int bpf_try_set(struct scope_plan *plan, size_t set, const struct engine_probe *probe, size_t *ret)
{
	const struct engine_probe on_cpus = probe_on_cpus(probe);

	return engine_perf.try_set(plan, set, &on_cpus, ret);
}

/* The set of the CPUs is opened, on which it stands. */
static int bpf_open_set(const struct scope_plan *plan, size_t set, const struct engine_probe *probe,
			struct tried *tried)
{
	(void)plan;
	(void)set;
	(void)probe;
	(void)tried;
	return 0;
}

static bool bpf_recovers(const struct column *column, const struct engine_probe *probe)
{
	/* Perf is asked, too. */
	(void)column;
	(void)probe;
	return false;
}

/* --- the part in the kernel */

static struct bpf_sizes sizes_for(const struct bpf_engine *engine)
{
	const struct engine_env *env = &engine->engine.env;
	size_t nr_events = 0, nr_sets = 0;

	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine_owns(&engine->engine, SCOPE_CGROUP, i)) {
			nr_events += bpf_plan(engine)->sets[i].nr;
			nr_sets++;
		}
	return make_sizes(env->sysroot, env->max_cgroups, nr_events, nr_sets);
}

static bool is_v1(int cgroup_fd)
{
	struct statfs fs;

	return fstatfs(cgroup_fd, &fs) == 0 && fs.f_type == CGROUP_SUPER_MAGIC;
}

static bool fits(const struct bpf_engine *engine, const struct bpf_kernel *kernel, bool v1)
{
	struct bpf_sizes sizes = sizes_for(engine);

	return kernel->v1 == v1 && kernel->sizes.cpus >= sizes.cpus && kernel->sizes.slots >= sizes.slots &&
	       kernel->sizes.events >= sizes.events && kernel->sizes.sets >= sizes.sets;
}

/* What the predecessor has counted up to now is its targets'; from now on this engine reads. */
static void end_predecessor(struct bpf_engine *engine, uint64_t now)
{
	struct bpf_engine *from = engine->from;

	if (!from || !from->kernel)
		return;
	slots_read(from, now);
	from->kernel = bpf_kernel_unref(from->kernel);
}

/* What the engine needs of its own for the part in the kernel that it has now. */
static int prepare(struct bpf_engine *engine)
{
	int r = slot_supply(engine->kernel, CREDIT_CHUNK, bpf_slots_to_reserve(engine));

	if (r == 0)
		r = conservation_open(engine);
	return r < 0 ? r : wiring_number_sets(engine);
}

/* Takes the trial, if it is what the engine needs. */
static bool take_trial(struct bpf_engine *engine, bool v1, const struct bpf_kernel *former)
{
	struct bpf_kernel *trial = steal_ptr(engine->trial);

	if (!trial)
		return false;
	bpf_kernel_set_hierarchy(trial, v1);
	if (fits(engine, trial, v1) && bpf_kernel_follows(trial, former))
		engine->kernel = trial;
	else
		(void)bpf_kernel_unref(trial);
	return engine->kernel;
}

/* A part that takes over is loaded for it. */
static int load_kernel(struct bpf_engine *engine, bool v1, const struct bpf_kernel *former, struct reason *why)
{
	const struct bpf_sizes sizes = sizes_for(engine);
	int r = take_trial(engine, v1, former) ? 0 : attempt_load(&engine->kernel, &sizes, v1, former, why);

	if (r == 0 && former)
		bpf_kernel_learn(engine->kernel, former);
	return r;
}

/* Begins to count, at the first cgroup: with the predecessor's part in the kernel, that of the trial, or a new one. */
static int begin(struct bpf_engine *engine, const struct engine_target *spec, uint64_t now, struct reason *why)
{
	struct bpf_engine *from = engine->from;
	struct bpf_kernel *former = from ? from->kernel : NULL;
	bool v1 = is_v1(spec->cgroup_fd);
	int r = 0;

	if (former && fits(engine, former, v1)) {
		engine->kernel = bpf_kernel_ref(former);
		slots_end_aliases(engine);
	} else {
		r = load_kernel(engine, v1, former, why);
	}
	if (r == 0)
		r = prepare(engine);
	/* Two plans at a time can have more events than there are numbers. */
	if (r == -E2BIG) {
		bpf_kernel_unref(engine->kernel);
		engine->kernel = NULL;
		memset(engine->sets, 0, bpf_plan(engine)->nr_sets * sizeof(*engine->sets));
		r = load_kernel(engine, v1, former, why);
		if (r == 0)
			r = prepare(engine);
	}
	if (r < 0)
		return r;
	bpf_note_targets(engine);
	/* There are other files to be kept. */
	engine->engine.stats.changes++;
	engine->kernel->config->budget = engine->engine.env.switch_budget;
	wiring_update(engine);
	(void)slot_supply_cells(engine->kernel);
	wiring_start(engine);
	if (former && former != engine->kernel) {
		wiring_end(from);
		(void)bpf_kernel_succeed(engine->kernel, former);
	}
	(void)bpf_kernel_flush_all(engine->kernel);
	engine->trial = bpf_kernel_unref(engine->trial);
	end_predecessor(engine, now);
	return 0;
}

/* --- loads ahead */

struct bpf_load *bpf_load_to_try(uint64_t max_cgroups, const char *sysroot)
{
	const struct bpf_sizes sizes = make_sizes(sysroot, max_cgroups, 0, 0);

	return attempt_new_trial(&sizes);
}

struct bpf_load *bpf_load_to_take_over(const struct engine *next, const struct engine *from, bool v1)
{
	const struct bpf_engine *engine = next ? bpf_engine_const(next) : NULL;
	struct bpf_kernel *former = from ? bpf_engine_const(from)->kernel : NULL;
	const struct bpf_kernel *trial = engine ? engine->trial : NULL;
	struct bpf_sizes sizes;

	/* The hierarchy of one that takes over from none is set when it is taken. */
	if (!engine || (former && fits(engine, former, v1) && wiring_has_numbers(engine, bpf_engine_const(from))) ||
	    (trial && bpf_kernel_follows(trial, former) && fits(engine, trial, former ? v1 : trial->v1)))
		return NULL;
	sizes = sizes_for(engine);
	return attempt_new_load(&sizes, v1, former);
}

/* --- the object */

static void bpf_destroy(struct engine *base)
{
	struct bpf_engine *engine = bpf_engine(base);
	struct bpf_target *target, *next;

	HASH_ITER(hh, engine->targets, target, next)
		bpf_target_free(engine, target);
	bpf_kernel_unref(engine->kernel);
	bpf_kernel_unref(engine->trial);
	cpulist_release(&engine->cpus);
	engine_release(base);
	free(engine->sets);
	free(engine->deltas);
	free(engine->costs);
	free(engine->conservations);
	free(engine);
}

static int bpf_create(struct engine **ret, const struct engine_env *env)
{
	struct bpf_engine *engine = calloc(1, sizeof(*engine));
	const struct scope_plan *plan = &env->plan->scope[SCOPE_CGROUP];

	if (!engine)
		return -ENOMEM;
	engine_init(&engine->engine, engine_bpf, env);
	engine->trial = attempt_take_trial();
	engine->sets = calloc(plan->nr_sets + 1, sizeof(*engine->sets));
	engine->deltas = calloc(plan->nr_columns + 1, sizeof(*engine->deltas));
	engine->costs = calloc(plan->nr_columns + 1, sizeof(*engine->costs));
	if (!engine->sets || !engine->deltas || !engine->costs) {
		bpf_destroy(&engine->engine);
		return -ENOMEM;
	}
	*ret = &engine->engine;
	return 0;
}

/* A cgroup takes no files. */
static size_t bpf_fds_needed(const struct engine *engine, enum scope scope, uint64_t id)
{
	(void)engine;
	(void)scope;
	(void)id;
	return 0;
}

static struct engine_room bpf_room(const struct engine *engine)
{
	(void)engine;
	return (struct engine_room){ .cgroups = SIZE_MAX };
}

static bool bpf_has(const struct engine *base, enum scope scope, uint64_t id)
{
	return scope == SCOPE_CGROUP && bpf_target_find(bpf_engine_const(base), id);
}

static bool bpf_is_open(const struct engine *base, enum scope scope, size_t set)
{
	const struct bpf_engine *engine = bpf_engine_const(base);

	return scope == SCOPE_CGROUP && engine->kernel && engine->sets[set].used;
}

static size_t bpf_nr_whole(const struct engine *base, size_t set)
{
	const struct bpf_engine *engine = bpf_engine_const(base);

	(void)set;
	return engine->nr_lacking ? HASH_COUNT(engine->targets) - engine->nr_lacking : SIZE_MAX;
}

/* One row for all CPUs, or one for each. */
static size_t count_rows(const struct cpulist *cpus, struct totals_row *const *rows)
{
	for (size_t i = 1; i < cpus->nr; i++)
		if (rows[i] != rows[0])
			return cpus->nr;
	return 1;
}

/* Chunks are files that are to be kept. */
static void note_chunks(struct bpf_engine *engine)
{
	if (engine->nr_added != engine->kernel->nr_added)
		engine->engine.stats.changes++;
	engine->nr_added = engine->kernel->nr_added;
}

static void give_slot(struct bpf_engine *engine, const struct engine_target *spec)
{
	credit_word ancestors[CREDIT_DEPTH_MAX];

	for (size_t i = 0; i < spec->ancestors.nr; i++)
		ancestors[i] = spec->ancestors.ids[i];
	slots_begin(engine, spec->id, ancestors, spec->ancestors.nr);
}

static int explain_depth(struct reason *why)
{
	_Static_assert(CGROUP_ANCESTORS_MAX >= CREDIT_DEPTH_MAX, "the engine is told all that a slot has room for");
	return reason_set(why, -EOPNOTSUPP,
			  "it is nested more than %d levels deep: its counts are in those of the nearest cgroup above "
			  "it that is counted",
			  CREDIT_DEPTH_MAX);
}

static int bpf_add(struct engine *base, const struct engine_target *spec, const struct cpulist *cpus,
		   struct totals_row *const *rows, uint64_t now, struct reason *why)
{
	struct bpf_engine *engine = bpf_engine(base);
	bool root = spec->id == CGROUP_ROOT_ID;
	struct bpf_target *target;
	int r = 0;

	if (bpf_target_find(engine, spec->id))
		return 0;
	if (spec->ancestors.nr > CREDIT_DEPTH_MAX)
		return explain_depth(why);
	if (!root && spec->cgroup_fd < 0 && !(engine->from && bpf_target_find(engine->from, spec->id)))
		return reason_set(why, spec->cgroup_fd, "its directory can't be opened: %s",
				  strerror(-spec->cgroup_fd));
	if (!root && !engine->kernel) {
		r = begin(engine, spec, now, why);
		/* The kernel takes a while to check the programs. */
		now = clock_monotonic_ns();
	}
	if (r == 0 && engine->cpus.nr == 0)
		r = cpulist_copy(&engine->cpus, cpus);
	if (r < 0)
		return r;
	/* Up to now, others have counted it. */
	if (!root && spec->before_start) {
		slots_read_below(engine, spec->id);
		spec->before_start(spec->userdata, base, now);
	}
	target = bpf_target_new(engine, spec->id, rows, count_rows(cpus, rows));
	if (!target)
		return reason_set(why, -ENOMEM, "out of memory");
	if (!root && spec->before_start)
		unclaimed_disclaim(engine, target);
	if (!root) {
		give_slot(engine, spec);
		/* It may run at once. */
		(void)slot_supply_cells(engine->kernel);
		note_chunks(engine);
	}
	return 0;
}

static void bpf_remove(struct engine *base, enum scope scope, uint64_t id, uint64_t now)
{
	struct bpf_engine *engine = bpf_engine(base);
	struct bpf_target *target = scope == SCOPE_CGROUP ? bpf_target_find(engine, id) : NULL;

	(void)now;
	if (!target)
		return;
	if (engine->kernel && !target->fed)
		slots_end(engine, target);
	bpf_target_free(engine, target);
}

static void bpf_remove_set(struct engine *base, enum scope scope, uint64_t id, size_t set, uint64_t now)
{
	struct bpf_engine *engine = bpf_engine(base);
	struct bpf_target *target = scope == SCOPE_CGROUP ? bpf_target_find(engine, id) : NULL;

	(void)now;
	if (!target || target->sets[set].ended)
		return;
	if (engine->kernel) {
		slots_read_below(engine, id);
		engine->kernel->targets_saved.changed = true;
	}
	target->sets[set].ended = true;
}

static void bpf_finish(struct engine *base, uint64_t now)
{
	struct bpf_engine *engine = bpf_engine(base);
	struct bpf_target *target, *next;

	if (engine->kernel)
		slots_read(engine, now);
	HASH_ITER(hh, engine->targets, target, next)
		bpf_target_free(engine, target);
	engine->kernel = bpf_kernel_unref(engine->kernel);
}

static void bpf_read(struct engine *base, uint64_t now)
{
	struct bpf_engine *engine = bpf_engine(base);

	if (!engine->kernel)
		return;
	wiring_update(engine);
	slots_read(engine, now);
	note_chunks(engine);
}

static bool bpf_switch_cost(const struct engine *base, int cpu, struct switch_cost *ret)
{
	const struct bpf_kernel *kernel = bpf_engine_const(base)->kernel;

	if (!kernel || (uint32_t)cpu >= kernel->sizes.cpus)
		return false;
	*ret = bpf_kernel_cost(kernel, (uint32_t)cpu);
	return true;
}

/* The CPUs' events tell it. */
static enum life bpf_life(const struct engine *engine, int cpu)
{
	(void)engine;
	(void)cpu;
	return LIFE_UNKNOWN;
}

static int bpf_event_of(const struct engine *engine, int cpu, size_t set, size_t member, uint64_t *ret_id)
{
	(void)engine;
	(void)cpu;
	(void)set;
	(void)member;
	(void)ret_id;
	return -ENOENT;
}

static void bpf_takeover(struct engine *base, const struct engine_takeover *takeover)
{
	struct bpf_engine *engine = bpf_engine(base);

	if (takeover) {
		engine->from = bpf_engine(takeover->from);
		return;
	}
	engine->from = NULL;
	if (engine->kernel)
		wiring_drop_others(engine);
}

static void bpf_each_stored(const struct engine *base, stored_visitor each, void *userdata)
{
	const struct bpf_engine *engine = bpf_engine_const(base);

	if (engine->kernel)
		bpf_kernel_each_stored(engine->kernel, each, userdata);
}

static const struct engine_ops ops = {
	.name = "bpf",
	.credits = true,
	.suits = bpf_suits,
	.try_column = bpf_try_column,
	.try_set = bpf_try_set,
	.open_set = bpf_open_set,
	.recovers = bpf_recovers,
	.create = bpf_create,
	.destroy = bpf_destroy,
	.fds_needed = bpf_fds_needed,
	.room = bpf_room,
	.is_open = bpf_is_open,
	.nr_whole = bpf_nr_whole,
	.event_of = bpf_event_of,
	.has = bpf_has,
	.add = bpf_add,
	.remove = bpf_remove,
	.remove_set = bpf_remove_set,
	.finish = bpf_finish,
	.read = bpf_read,
	.switch_cost = bpf_switch_cost,
	.life = bpf_life,
	.takeover = bpf_takeover,
	.each_stored = bpf_each_stored,
	.save = bpf_save,
	.restore = bpf_restore,
};

const struct engine_ops *const engine_bpf = &ops;
