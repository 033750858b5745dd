/* SPDX-License-Identifier: MIT */

#include "counting/session/session-image.h"

#include "counting/engine/perf/perf.h"
#include "counting/plan/build.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

/* "perfmond" as a number of this machine's byte order. */
#define MAGIC 0x646e6f6d66726570U
/* The number goes up with each change of what is written. An image in the second format names its engines. Where the
 * perf engine counts everything the first is written, which daemons without other engines read too. */
#define FORMAT_PERF 6U
#define FORMAT_ENGINES 7U

/* The header of an image: magic, version, size of the whole, checksum of the rest. */
#define HEADER (4 * sizeof(uint64_t))

static uint64_t image_checksum(const void *bytes, size_t size)
{
	return crc32_z(0, bytes, size);
}

void image_begin(struct rewrite *rewrite, const char *boot_id, uint64_t now, bool names_engines)
{
	struct buf *out = &rewrite->buf;

	rewrite_begin(rewrite, HEADER);
	pack_u64(out, MAGIC);
	pack_u64(out, names_engines ? FORMAT_ENGINES : FORMAT_PERF);
	pack_u64(out, 0);
	pack_u64(out, 0);
	pack_text(out, boot_id);
	pack_u64(out, now);
}

bool image_end(struct rewrite *rewrite, uint64_t sampled)
{
	struct buf *out = &rewrite->buf;
	uint64_t ends[2];

	pack_u64(out, sampled);
	if (!rewrite_end(rewrite))
		return false;
	ends[0] = out->len;
	ends[1] = rewrite->checksum;
	memcpy(out->data + 2 * sizeof(uint64_t), ends, sizeof(ends));
	return true;
}

int image_open(struct unpack *in, const void *bytes, size_t size, const char *boot_id, struct image_info *ret,
	       struct reason *why)
{
	struct unpack u = { .at = bytes, .left = size };
	_cleanup_(freep) char *written_by = NULL;
	uint64_t magic = unpack_u64(&u), version = unpack_u64(&u), length = unpack_u64(&u), sum = unpack_u64(&u);

	if (magic != MAGIC)
		return reason_set(why, -EBADMSG, "they were not written by perfmond");
	if (version != FORMAT_PERF && version != FORMAT_ENGINES)
		return reason_set(why, -EBADMSG,
				  "they were written by another version of perfmond, in another format (%" PRIu64
				  "; this one reads %u and %u)",
				  version, FORMAT_PERF, FORMAT_ENGINES);
	if (u.bad || length < HEADER || length > size || sum != image_checksum(u.at, length - HEADER))
		return reason_set(why, -EBADMSG, "they are damaged");
	u.left = length - HEADER;
	written_by = unpack_text(&u);
	if (!written_by)
		return reason_set(why, -EBADMSG, "they are damaged");
	if (boot_id && (!*boot_id || strcmp(written_by, boot_id) != 0))
		return reason_set(why, -ESTALE, "they are from before the machine was started");
	ret->format = version;
	ret->saved_at = unpack_u64(&u);
	(void)snprintf(ret->boot_id, sizeof(ret->boot_id), "%s", written_by);
	ret->names_engines = version == FORMAT_ENGINES;
	*in = u;
	return 0;
}

/* --- CPUs */

void image_put_cpus(struct buf *out, const struct cpulist *cpus)
{
	pack_u64(out, cpus->nr);
	for (size_t i = 0; i < cpus->nr; i++)
		pack_u64(out, (uint64_t)cpus->cpu[i]);
}

int image_get_cpus(struct unpack *in, struct cpulist *ret)
{
	size_t nr = unpack_nr(in, sizeof(uint64_t));
	_cleanup_(cpulist_release) struct cpulist cpus = { .cpu = calloc(nr + 1, sizeof(int)) };

	if (!cpus.cpu)
		return -ENOMEM;
	for (; cpus.nr < nr; cpus.nr++) {
		cpus.cpu[cpus.nr] = (int)unpack_at_most(in, CPULIST_MAX_CPU);
		if (cpus.nr && cpus.cpu[cpus.nr] <= cpus.cpu[cpus.nr - 1])
			return -EBADMSG;
	}
	if (in->bad)
		return -EBADMSG;
	*ret = cpus;
	cpus = (struct cpulist){};
	return 0;
}

/* CPU_NOWHERE is written as 0. */
void image_put_topology(struct buf *out, const struct cpu_topology *topology)
{
	pack_u64(out, topology->nr);
	for (size_t i = 0; i < topology->nr; i++) {
		pack_u64(out, (uint64_t)topology->places[i].package + 1);
		pack_u64(out, (uint64_t)topology->dies[i] + 1);
	}
}

static int get_place(struct unpack *in)
{
	return (int)unpack_at_most(in, INT_MAX) - 1;
}

int image_get_topology(struct unpack *in, struct cpu_topology *ret)
{
	size_t nr = unpack_nr(in, 2 * sizeof(uint64_t));
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {};

	if (nr > CPULIST_MAX_CPU + 1)
		return -EBADMSG;
	if (cpu_topology_new(&topology, nr) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		topology.places[i].package = get_place(in);
		topology.dies[i] = get_place(in);
	}
	if (in->bad)
		return -EBADMSG;
	cpu_topology_finish(&topology);
	*ret = topology;
	topology = (struct cpu_topology){};
	return 0;
}

/* --- the plan */

static void put_double(struct buf *out, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	pack_u64(out, bits);
}

static double get_double(struct unpack *in)
{
	uint64_t bits = unpack_u64(in);
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Another build may have had kernel headers with a smaller or larger attribute. It is taken as the kernel takes it:
 * members that only one of them knows have to be 0. */
static void get_attr(struct unpack *in, struct perf_event_attr *attr)
{
	unpack_bytes(in, attr, sizeof(*attr));
	attr->size = sizeof(*attr);
}

/* An event's yes and no, as bits. */
enum {
	EVENT_NO_PMU = 1 << 0,
	EVENT_BY_PMU = 1 << 1,
	EVENT_HOST_ONLY = 1 << 2,
	EVENT_STEADY = 1 << 3,
	EVENT_UNCORE = 1 << 4,
	EVENT_SOFTWARE = 1 << 5,
	EVENT_FLAGS = (1 << 6) - 1,
};

static void put_event(struct buf *out, const struct event *event)
{
	pack_text(out, event->text);
	pack_text(out, event->metric);
	pack_text(out, event->pmu);
	pack_text(out, event->filter);
	pack_text(out, event->probe);
	pack_bytes(out, &event->attr, sizeof(event->attr));
	pack_u64(out, event->config3);
	put_double(out, event->scale);
	pack_u64(out, (uint64_t)event->unit);
	pack_u64(out, event->probe_dev);
	pack_u64(out, event->probe_ino);
	pack_u64(out, (event->no_pmu ? EVENT_NO_PMU : 0) | (event->by_pmu ? EVENT_BY_PMU : 0) |
			      (event->host_only ? EVENT_HOST_ONLY : 0) | (event->steady ? EVENT_STEADY : 0) |
			      (event->uncore ? EVENT_UNCORE : 0) | (event->software ? EVENT_SOFTWARE : 0));
	image_put_cpus(out, &event->cpus);
}

static int get_event(struct unpack *in, struct event *event)
{
	uint64_t flags;

	event->text = unpack_text(in);
	event->metric = unpack_text(in);
	event->pmu = unpack_text(in);
	event->filter = unpack_text(in);
	event->probe = unpack_text(in);
	get_attr(in, &event->attr);
	event->config3 = unpack_u64(in);
	event->scale = get_double(in);
	event->unit = (enum event_unit)unpack_at_most(in, _EVENT_UNIT_MAX - 1);
	event->probe_dev = unpack_u64(in);
	event->probe_ino = unpack_u64(in);
	flags = unpack_at_most(in, EVENT_FLAGS);
	event->no_pmu = flags & EVENT_NO_PMU;
	event->by_pmu = flags & EVENT_BY_PMU;
	event->host_only = flags & EVENT_HOST_ONLY;
	event->steady = flags & EVENT_STEADY;
	event->uncore = flags & EVENT_UNCORE;
	event->software = flags & EVENT_SOFTWARE;
	if (!event->text || !event->metric || !event->pmu)
		return -EBADMSG;
	return image_get_cpus(in, &event->cpus);
}

enum {
	GROUP_SPLIT = 1 << 0,
	GROUP_HIDDEN = 1 << 1,
	GROUP_FLAGS = GROUP_SPLIT | GROUP_HIDDEN,
};

static void put_groups(struct buf *out, const struct group_list *list)
{
	pack_u64(out, list->nr);
	for (size_t i = 0; i < list->nr; i++) {
		const struct group *group = &list->groups[i];

		pack_text(out, group->name);
		pack_u64(out, group->alone);
		pack_u64(out, (group->split ? GROUP_SPLIT : 0) | (group->hidden ? GROUP_HIDDEN : 0));
		pack_u64(out, group->events.nr);
		for (size_t k = 0; k < group->events.nr; k++)
			put_event(out, &group->events.events[k]);
	}
}

static int get_group(struct unpack *in, struct group *group)
{
	uint64_t flags;
	size_t nr;

	group->name = unpack_text(in);
	group->alone = unpack_at_most(in, 1);
	flags = unpack_at_most(in, GROUP_FLAGS);
	group->split = flags & GROUP_SPLIT;
	group->hidden = flags & GROUP_HIDDEN;
	nr = unpack_nr(in, sizeof(uint64_t));
	group->events.events = calloc(nr + 1, sizeof(*group->events.events));
	if (!group->events.events)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		int r = get_event(in, &group->events.events[group->events.nr++]);

		if (r < 0)
			return r;
	}
	return group->name ? 0 : -EBADMSG;
}

static int get_groups(struct unpack *in, struct group_list *list)
{
	size_t nr = unpack_nr(in, sizeof(uint64_t));

	list->groups = calloc(nr + 1, sizeof(*list->groups));
	if (!list->groups)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++) {
		int r = get_group(in, &list->groups[list->nr++]);

		if (r < 0)
			return r;
	}
	return 0;
}

/* The columns are the groups' events in their order, so that only their attributes and states are written. */
static void put_columns(struct buf *out, const struct scope_plan *plan)
{
	for (size_t i = 0; i < plan->nr_columns; i++) {
		pack_bytes(out, &plan->columns[i].attr, sizeof(plan->columns[i].attr));
		pack_u64(out, (uint64_t)plan->columns[i].state);
	}
}

static int get_columns(struct unpack *in, struct scope_plan *plan, enum scope scope, const struct group_list *groups)
{
	int r = plan_add_columns(plan, groups, scope);

	for (size_t i = 0; r == 0 && i < plan->nr_columns; i++) {
		get_attr(in, &plan->columns[i].attr);
		plan->columns[i].state = (enum event_state)unpack_at_most(in, _EVENT_STATE_MAX - 1);
	}
	return r == 0 && in->bad ? -EBADMSG : r;
}

/* How a set shares the PMU. */
enum {
	IMAGE_PINNED = 1,
	IMAGE_EXCLUSIVE = 2,
};

static void put_sets(struct buf *out, const struct scope_plan *plan)
{
	pack_u64(out, plan->nr_sets);
	for (size_t i = 0; i < plan->nr_sets; i++) {
		const struct set *set = &plan->sets[i];

		pack_u64(out, set->exact);
		pack_u64(out, set->uncore);
		pack_u64(out, (set->pinned ? IMAGE_PINNED : 0) | (set->exclusive ? IMAGE_EXCLUSIVE : 0));
		image_put_cpus(out, &set->cpus);
		pack_u64(out, set->nr);
		for (size_t k = 0; k < set->nr; k++)
			pack_u64(out, set->columns[k]);
	}
}

/* Each column is in one set at most. */
static int get_plan_set(struct unpack *in, struct scope_plan *plan, size_t at)
{
	struct set *set = &plan->sets[at];
	uint64_t turns;
	size_t nr;
	int r;

	set->exact = unpack_at_most(in, 1);
	set->uncore = unpack_at_most(in, 1);
	turns = unpack_at_most(in, IMAGE_PINNED | IMAGE_EXCLUSIVE);
	set->pinned = turns & IMAGE_PINNED;
	set->exclusive = turns & IMAGE_EXCLUSIVE;
	r = image_get_cpus(in, &set->cpus);
	if (r < 0)
		return r;
	nr = unpack_nr(in, sizeof(uint64_t));
	set->columns = calloc(nr + 1, sizeof(*set->columns));
	if (!set->columns)
		return -ENOMEM;
	for (; set->nr < nr; set->nr++) {
		size_t column = (size_t)unpack_u64(in);

		if (in->bad || column >= plan->nr_columns || plan->columns[column].set != NO_SET)
			return -EBADMSG;
		set->columns[set->nr] = column;
		plan->columns[column].set = at;
		plan->columns[column].member = set->nr;
	}
	if (nr == 0)
		return -EBADMSG;
	set->group = plan->columns[set->columns[0]].group;
	set->engine = &engine_perf;
	set->closed = true;
	return 0;
}

static int get_sets(struct unpack *in, struct scope_plan *plan)
{
	size_t nr = unpack_nr(in, 6 * sizeof(uint64_t));

	plan->sets = calloc(nr + 1, sizeof(*plan->sets));
	if (!plan->sets)
		return -ENOMEM;
	while (plan->nr_sets < nr) {
		int r = get_plan_set(in, plan, plan->nr_sets++);

		if (r < 0)
			return r;
	}
	return in->bad ? -EBADMSG : 0;
}

void image_put_plan(struct buf *out, const struct plan *plan)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++) {
		put_groups(out, &plan->groups[scope]);
		put_columns(out, &plan->scope[scope]);
		put_sets(out, &plan->scope[scope]);
	}
}

int image_get_plan(struct unpack *in, struct plan **ret)
{
	_cleanup_(plan_unrefp) struct plan *plan = plan_new();
	int r = 0;

	if (!plan)
		return -ENOMEM;
	for (int scope = 0; scope < _SCOPE_MAX && r == 0; scope++) {
		r = get_groups(in, &plan->groups[scope]);
		if (r == 0)
			r = get_columns(in, &plan->scope[scope], (enum scope)scope, &plan->groups[scope]);
		if (r == 0)
			r = get_sets(in, &plan->scope[scope]);
	}
	if (r == 0)
		*ret = steal_ptr(plan);
	return r;
}

/* --- the engines */

static void put_engine_of(struct buf *out, const struct engines *engines, const struct engine_ops *ops)
{
	size_t number = engines_number(engines, ops);

	assert(number < engines->nr);
	pack_u64(out, number);
}

void image_put_engines(struct buf *out, const struct engines *engines)
{
	pack_u64(out, engines->nr);
	for (size_t i = 0; i < engines->nr; i++)
		pack_text(out, engines->engines[i]->ops->name);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < engines->plan->scope[scope].nr_sets; i++)
			put_engine_of(out, engines, engines->plan->scope[scope].sets[i].engine);
}

int image_get_engines(struct unpack *in, struct plan *plan, struct image_engines *ret)
{
	struct image_engines engines = { .nr = unpack_nr(in, sizeof(uint64_t)) };

	if (in->bad || engines.nr == 0 || engines.nr > ENGINES_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < engines.nr; i++) {
		_cleanup_(freep) char *name = unpack_text(in);

		if (!name)
			return -EBADMSG;
		engines.ops[i] = engines_by_name(name);
	}
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_sets; i++)
			plan->scope[scope].sets[i].engine = engines.ops[unpack_at_most(in, engines.nr - 1)];
	if (in->bad)
		return -EBADMSG;
	*ret = engines;
	return 0;
}

void image_put_parts(struct rewrite *rewrite, const struct engines *engines)
{
	struct buf *out = &rewrite->buf;

	for (size_t i = 0; i < engines->nr; i++) {
		size_t at = out->len;
		uint64_t length;

		pack_u64(out, 0);
		engines->engines[i]->ops->save(engines->engines[i], rewrite);
		length = out->len - at - sizeof(length);
		if (!out->failed)
			memcpy(out->data + at, &length, sizeof(length));
	}
}

static int get_part(struct unpack *in, const struct engine_ops *ops, struct engines *engines,
		    struct totals_row *const *rows, size_t nr_rows, struct stored_pool *stored)
{
	size_t length = unpack_nr(in, 1);
	struct unpack part = { .at = in->at, .left = length };
	struct engine *engine = ops ? engines_find(engines, ops) : NULL;

	if (in->bad)
		return -EBADMSG;
	in->at += length;
	in->left -= length;
	return engine ? ops->restore(engine, &part, rows, nr_rows, stored) : 0;
}

int image_get_parts(struct unpack *in, const struct image_engines *saved, struct engines *engines,
		    struct totals_row *const *rows, size_t nr_rows, struct stored_pool *stored)
{
	int r = 0;

	for (size_t i = 0; i < saved->nr && r == 0; i++)
		r = get_part(in, saved->ops[i], engines, rows, nr_rows, stored);
	return r;
}

/* --- states */

void image_put_states(struct buf *out, const struct states *states)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < states->plan->scope[scope].nr_columns; i++) {
			const struct stall *stall = &states->columns[scope][i].stall;

			pack_u64(out, stall->busy);
			pack_u64(out, stall->counted);
			pack_u64(out, stall->has_counted);
			pack_u64(out, stall->stalled);
		}
}

int image_get_states(struct unpack *in, struct states *states)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < states->plan->scope[scope].nr_columns; i++) {
			struct stall *stall = &states->columns[scope][i].stall;

			stall->busy = unpack_u64(in);
			stall->counted = unpack_u64(in);
			stall->has_counted = unpack_at_most(in, 1);
			stall->stalled = unpack_at_most(in, 1);
		}
	return in->bad ? -EBADMSG : 0;
}
