/* SPDX-License-Identifier: MIT */

#include "counting/engine/bpf/wiring.h"

#include "counting/engine/bpf/slots.h"

#include <errno.h>

/* --- numbers */

struct numbers {
	bool sets[CREDIT_SETS_MAX], events[CREDIT_EVENTS_MAX];
};

static void mark(struct numbers *taken, const struct bpf_engine *engine)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		const struct bpf_set *set = &engine->sets[i];

		if (!set->used)
			continue;
		taken->sets[set->number] = true;
		for (size_t k = 0; k < bpf_plan(engine)->sets[i].nr; k++)
			taken->events[set->first_event + k] = true;
	}
}

/* The first of nr neighbouring numbers that are free; max where there are none. */
static uint32_t find_free(const bool *taken, uint32_t max, size_t nr)
{
	size_t free = 0;

	for (uint32_t i = 0; i < max; i++) {
		free = taken[i] ? 0 : free + 1;
		if (free == nr)
			return i + 1 - (uint32_t)nr;
	}
	return max;
}

/* The kernel counts these of a switch after the switch program has run: perf_event_task_sched_out() comes behind the
 * tracepoint (kernel/sched/core.c, prepare_task_switch()), and counts as the kernel. */
static bool is_counted_at_switch(const struct scope_plan *plan, const struct set *set, size_t member)
{
	const struct perf_event_attr *attr = &plan->columns[set->columns[member]].attr;

	return set->exact && attr->type == PERF_TYPE_SOFTWARE && !attr->exclude_kernel &&
	       (attr->config == PERF_COUNT_SW_CONTEXT_SWITCHES || attr->config == PERF_COUNT_SW_CGROUP_SWITCHES);
}

static void start_set(struct bpf_engine *engine, size_t at)
{
	const struct set *planned = &bpf_plan(engine)->sets[at];
	const struct bpf_set *set = &engine->sets[at];
	struct credit_config *config = engine->kernel->config;

	for (size_t i = 0; i < planned->nr; i++)
		config->events[set->first_event + i] = (struct credit_event){
			.used = CREDIT_USED,
			.leads = i == 0,
			.at_switch = is_counted_at_switch(bpf_plan(engine), planned, i),
			.limited = !planned->exact,
			.set = (unsigned char)set->number,
		};
	if (config->nr_events < set->first_event + planned->nr)
		config->nr_events = (unsigned)(set->first_event + planned->nr);
}

/* The equal set of the predecessor, where both have the same kernel part; NULL: there is none. */
static const struct bpf_set *find_predecessor(const struct bpf_engine *engine, size_t at)
{
	const struct bpf_engine *from = engine->from;
	size_t old = NO_SET;

	if (from && from->kernel == engine->kernel)
		old = set_find_equal(bpf_plan(engine), &bpf_plan(engine)->sets[at], bpf_plan(from));
	return old != NO_SET && from->sets[old].used ? &from->sets[old] : NULL;
}

static int number_set(struct bpf_engine *engine, struct numbers *taken, size_t at)
{
	const struct bpf_sizes *sizes = &engine->kernel->sizes;
	const size_t nr = bpf_plan(engine)->sets[at].nr;
	struct bpf_set *set = &engine->sets[at];

	set->number = find_free(taken->sets, sizes->sets, 1);
	set->first_event = find_free(taken->events, sizes->events, nr);
	if (set->number == sizes->sets || set->first_event == sizes->events)
		return -E2BIG;
	set->used = true;
	mark(taken, engine);
	slots_skip(engine, at);
	return 0;
}

bool wiring_has_numbers(const struct bpf_engine *engine, const struct bpf_engine *from)
{
	const struct scope_plan *plan = bpf_plan(engine);
	size_t nr_sets = 0, nr_events = 0;

	for (size_t i = 0; i < bpf_plan(from)->nr_sets; i++)
		if (from->sets[i].used) {
			nr_sets++;
			nr_events += bpf_plan(from)->sets[i].nr;
		}
	for (size_t i = 0; i < plan->nr_sets; i++) {
		size_t old = set_find_equal(plan, &plan->sets[i], bpf_plan(from));

		if (engine_owns(&engine->engine, SCOPE_CGROUP, i) && (old == NO_SET || !from->sets[old].used)) {
			nr_sets++;
			nr_events += plan->sets[i].nr;
		}
	}
	return nr_sets <= from->kernel->sizes.sets && nr_events <= from->kernel->sizes.events;
}

int wiring_number_sets(struct bpf_engine *engine)
{
	struct numbers taken = {};
	int r = 0;

	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		const struct bpf_set *old =
			engine_owns(&engine->engine, SCOPE_CGROUP, i) ? find_predecessor(engine, i) : NULL;

		if (old)
			engine->sets[i] = *old;
	}
	mark(&taken, engine);
	if (engine->from && engine->from->kernel == engine->kernel)
		mark(&taken, engine->from);
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets && r == 0; i++)
		if (engine_owns(&engine->engine, SCOPE_CGROUP, i) && !engine->sets[i].used)
			r = number_set(engine, &taken, i);
	return r;
}

static void end_others(struct credit_config *config, const struct numbers *own)
{
	for (uint32_t i = 0; i < config->nr_events && i < CREDIT_EVENTS_MAX; i++)
		if (config->events[i].used && !own->events[i])
			config->events[i].used = CREDIT_ENDING;
}

void wiring_end(struct bpf_engine *engine)
{
	const struct numbers none = {};

	end_others(engine->kernel->config, &none);
}

void wiring_start(struct bpf_engine *engine)
{
	struct numbers own = {};

	mark(&own, engine);
	end_others(engine->kernel->config, &own);
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used)
			start_set(engine, i);
}

/* The predecessor has counted the set on more CPUs. Their events are closed, and would count on as long as they can be
 * read at switches. */
static void unwire_elsewhere(struct bpf_engine *engine, size_t at)
{
	const struct set *planned = &bpf_plan(engine)->sets[at];

	for (uint32_t cpu = 0; cpu < engine->kernel->sizes.cpus; cpu++)
		for (size_t i = 0; !cpulist_has(&planned->cpus, (int)cpu) && i < planned->nr; i++)
			bpf_kernel_unwire(engine->kernel, cpu, engine->sets[at].first_event + (uint32_t)i);
}

void wiring_drop_others(struct bpf_engine *engine)
{
	struct bpf_kernel *kernel = engine->kernel;
	struct numbers own = {};
	uint32_t nr_events = 0;

	mark(&own, engine);
	for (uint32_t i = 0; i < kernel->sizes.events; i++) {
		if (own.events[i])
			nr_events = i + 1;
		else
			kernel->config->events[i] = (struct credit_event){};
		for (uint32_t cpu = 0; !own.events[i] && cpu < kernel->sizes.cpus; cpu++)
			bpf_kernel_unwire(kernel, cpu, i);
	}
	kernel->config->nr_events = nr_events;
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++)
		if (engine->sets[i].used)
			unwire_elsewhere(engine, i);
}

/* --- events */

/* The engine that has the CPUs' events on which the set stands, and its set. */
static const struct engine *find_opener(const struct bpf_engine *engine, size_t at, size_t *ret_set)
{
	const struct engine_env *env = &engine->engine.env;
	size_t twin = set_find_twin(env->plan, SCOPE_CGROUP, at);

	if (twin == NO_SET)
		return NULL;
	*ret_set = twin;
	for (size_t i = 0; i < *env->nr_engines; i++)
		if (engine_owns(env->engines[i], SCOPE_CPU, twin))
			return env->engines[i];
	return NULL;
}

/* False: an event is not open where it could be. */
static bool wire_set_on_cpu(struct bpf_engine *engine, size_t at, const struct engine *opener, size_t twin, int cpu)
{
	struct bpf_kernel *kernel = engine->kernel;
	const struct bpf_set *set = &engine->sets[at];
	bool whole = true;

	for (size_t i = 0; i < bpf_plan(engine)->sets[at].nr; i++) {
		uint32_t number = set->first_event + (uint32_t)i;
		uint64_t id;
		int fd = opener->ops->event_of(opener, cpu, twin, i, &id);

		if (fd < 0)
			bpf_kernel_unwire(kernel, (uint32_t)cpu, number);
		else if (kernel->cpus[cpu].wired[number] != id &&
			 bpf_kernel_wire(kernel, (uint32_t)cpu, number, fd, id) < 0)
			fd = -ENOENT;
		/* Nothing runs on a CPU that is offline. */
		whole = whole && (fd >= 0 || fd == -ENODEV);
	}
	return whole;
}

void wiring_update(struct bpf_engine *engine)
{
	for (size_t i = 0; i < bpf_plan(engine)->nr_sets; i++) {
		const struct cpulist *cpus = &bpf_plan(engine)->sets[i].cpus;
		struct bpf_set *set = &engine->sets[i];
		size_t twin;
		const struct engine *opener = set->used ? find_opener(engine, i, &twin) : NULL;

		set->lost = set->used && !opener;
		for (size_t k = 0; opener && k < cpus->nr; k++)
			if ((uint32_t)cpus->cpu[k] < engine->kernel->sizes.cpus &&
			    !wire_set_on_cpu(engine, i, opener, twin, cpus->cpu[k]))
				set->lost = true;
	}
}
