/* SPDX-License-Identifier: MIT */

#include "profiler/protocol.h"

#include "base/util/pack.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Each struct has one function that goes through its members, for both directions: with `out` it writes them, and else
 * it reads them. While it writes it changes nothing.
 */
struct wire {
	struct buf *out; /* NULL: it reads */
	struct unpack in;
};

static void pass_u64(struct wire *wire, uint64_t *value)
{
	if (wire->out)
		pack_u64(wire->out, *value);
	else
		*value = unpack_u64(&wire->in);
}

/* A number of 64 bits, of which fewer are there. */
static uint64_t pass_at_most(struct wire *wire, uint64_t value, uint64_t max)
{
	if (!wire->out)
		return unpack_at_most(&wire->in, max);
	pack_u64(wire->out, value);
	return value;
}

static void pass_bool(struct wire *wire, bool *value)
{
	*value = pass_at_most(wire, *value, 1);
}

/* Finite. */
static void pass_double(struct wire *wire, double *value)
{
	uint64_t bits;

	memcpy(&bits, value, sizeof(bits));
	pass_u64(wire, &bits);
	memcpy(value, &bits, sizeof(bits));
	if (!isfinite(*value)) {
		wire->in.bad = true;
		*value = 0;
	}
}

static void pass_text(struct wire *wire, char **text)
{
	if (wire->out)
		pack_text(wire->out, *text);
	else
		*text = unpack_text(&wire->in);
}

/* One that has to be there. */
static void need_text(struct wire *wire, char **text)
{
	pass_text(wire, text);
	wire->in.bad |= !*text;
}

/* Borrowed, or made by reading. */
static void pass_borrowed(struct wire *wire, const char **text)
{
	char *own = (char *)(uintptr_t)*text;

	pass_text(wire, &own);
	*text = own;
}

static void need_borrowed(struct wire *wire, const char **text)
{
	pass_borrowed(wire, text);
	wire->in.bad |= !*text;
}

/* The number of things of `size` bytes, each of which takes at least so many numbers and texts, and room for them. */
static void *pass_nr(struct wire *wire, size_t *nr, void *items, size_t size, size_t least)
{
	if (wire->out) {
		pack_u64(wire->out, *nr);
		return items;
	}
	*nr = unpack_nr(&wire->in, least * sizeof(uint64_t));
	items = calloc(*nr + 1, size);
	if (!items) {
		wire->in.no_memory = wire->in.bad = true;
		*nr = 0;
	}
	return items;
}

static void pass_texts(struct wire *wire, char ***texts, size_t *nr)
{
	*texts = pass_nr(wire, nr, *texts, sizeof(**texts), 1);
	for (size_t i = 0; i < *nr; i++)
		need_text(wire, &(*texts)[i]);
}

static void pass_cpus(struct wire *wire, struct cpulist *cpus)
{
	size_t nr = cpus->nr;
	uint64_t cpu;

	if (wire->out) {
		pack_u64(wire->out, nr);
		for (size_t i = 0; i < nr; i++)
			pack_u64(wire->out, (uint64_t)cpus->cpu[i]);
		return;
	}
	nr = unpack_nr(&wire->in, sizeof(uint64_t));
	for (size_t i = 0; i < nr && !wire->in.bad; i++) {
		cpu = unpack_at_most(&wire->in, CPULIST_MAX_CPU);
		if (cpulist_add(cpus, (int)cpu) < 0)
			wire->in.no_memory = wire->in.bad = true;
	}
}

static void pass_clock(struct wire *wire, struct clock_steps *clock)
{
	clock->nr = pass_at_most(wire, clock->nr, CLOCK_STEPS_MAX);
	for (size_t i = 0; i < clock->nr; i++) {
		pass_u64(wire, &clock->items[i].after);
		pass_u64(wire, &clock->items[i].seen);
		pass_u64(wire, &clock->items[i].shown);
		pass_u64(wire, &clock->items[i].suspended);
	}
	pass_u64(wire, &clock->now);
}

static void release_texts(char **texts, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		free(texts[i]);
	free(texts);
}

static void free_borrowed(const char *text)
{
	free((void *)(uintptr_t)text);
}

typedef void (*pass_t)(struct wire *wire, void *what);

static int read_all(pass_t pass, void *ret, const void *bytes, size_t len)
{
	struct wire wire = { .in = { .at = bytes, .left = len } };

	pass(&wire, ret);
	return wire.in.no_memory ? -ENOMEM : wire.in.bad || wire.in.left ? -EPROTO : 0;
}

static void release_nothing(_unused_ void *what)
{
}

/* write_NAME() and read_NAME(), by pass_NAME(). */
#define DEFINE_MESSAGE(name, type, release)                                                                            \
	void write_##name(struct buf *out, const type *what)                                                           \
	{                                                                                                              \
		type copy = *what;                                                                                     \
		pass_##name(&(struct wire){ .out = out }, &copy);                                                      \
	}                                                                                                              \
	int read_##name(type *ret, const void *bytes, size_t len)                                                      \
	{                                                                                                              \
		int r;                                                                                                 \
		*ret = (type){};                                                                                       \
		r = read_all(pass_##name, ret, bytes, len);                                                            \
		if (r < 0)                                                                                             \
			release(ret);                                                                                  \
		return r;                                                                                              \
	}

/* --- settings */

static void pass_attr(struct wire *wire, union event_attr *attr)
{
	struct perf_event_attr *a = &attr->attr;
	uint64_t config3 = a->size > sizeof(*a) ? attr->config3 : 0;
	uint64_t bits = a->exclude_user | a->exclude_kernel << 1 | a->exclude_hv << 2 | a->exclude_idle << 3 |
			a->exclude_host << 4 | a->exclude_guest << 5 | (uint64_t)a->precise_ip << 6;
	uint64_t config = a->config, config1 = a->config1, config2 = a->config2;

	a->type = (uint32_t)pass_at_most(wire, a->type, UINT32_MAX);
	a->bp_type = (uint32_t)pass_at_most(wire, a->bp_type, UINT32_MAX);
	pass_u64(wire, &config);
	pass_u64(wire, &config1);
	pass_u64(wire, &config2);
	pass_u64(wire, &config3);
	bits = pass_at_most(wire, bits, 0xff);
	if (wire->out)
		return;
	a->config = config;
	a->config1 = config1;
	a->config2 = config2;
	a->exclude_user = bits & 1;
	a->exclude_kernel = bits >> 1 & 1;
	a->exclude_hv = bits >> 2 & 1;
	a->exclude_idle = bits >> 3 & 1;
	a->exclude_host = bits >> 4 & 1;
	a->exclude_guest = bits >> 5 & 1;
	a->precise_ip = bits >> 6 & 3;
	a->size = config3 ? sizeof(*attr) : sizeof(*a);
	attr->config3 = config3;
}

static void pass_variant(struct wire *wire, struct sampled_variant *variant)
{
	need_text(wire, &variant->text);
	pass_attr(wire, &variant->attr);
	pass_text(wire, &variant->probe);
	pass_text(wire, &variant->filter);
	pass_cpus(wire, &variant->cpus);
	pass_bool(wire, &variant->is_slow_to_close);
}

static void pass_event(struct wire *wire, struct sampled_event *event)
{
	need_text(wire, &event->name);
	need_text(wire, &event->key);
	event->variants = pass_nr(wire, &event->nr, event->variants, sizeof(*event->variants), 12);
	for (size_t i = 0; i < event->nr; i++)
		pass_variant(wire, &event->variants[i]);
	pass_u64(wire, &event->period);
	/* A clock's period is 1 s by its rate. */
	event->rate = pass_at_most(wire, event->rate, NS_PER_S);
	event->stack_bytes = pass_at_most(wire, event->stack_bytes, SAMPLED_STACK_MAX);
	need_text(wire, &event->unit);
	pass_double(wire, &event->scale);
	pass_text(wire, &event->problem);
	/* The kernel takes no others. */
	wire->in.bad |= event->stack_bytes % sizeof(uint64_t) != 0;
	wire->in.bad |= (!event->period && !event->rate) || (!event->nr && !event->problem);
}

static void pass_settings(struct wire *wire, void *what)
{
	struct profiler_settings *settings = what;

	settings->events = pass_nr(wire, &settings->nr_events, settings->events, sizeof(*settings->events), 9);
	for (size_t i = 0; i < settings->nr_events; i++)
		pass_event(wire, &settings->events[i]);
	pass_cpus(wire, &settings->cpus);
	pass_texts(wire, &settings->include, &settings->nr_include);
	pass_texts(wire, &settings->exclude, &settings->nr_exclude);
	pass_u64(wire, &settings->memory);
	pass_u64(wire, &settings->capture_memory);
	pass_u64(wire, &settings->tables);
	pass_bool(wire, &settings->jit);
	settings->keeps = pass_nr(wire, &settings->nr_keeps, settings->keeps, sizeof(*settings->keeps), 2);
	for (size_t i = 0; i < settings->nr_keeps; i++) {
		need_text(wire, &settings->keeps[i].rule);
		pass_u64(wire, &settings->keeps[i].nr);
	}
	need_text(wire, &settings->procfs);
	pass_bool(wire, &settings->part);
	pass_u64(wire, &settings->sampled);
}

static void release_event(struct sampled_event *event)
{
	for (size_t i = 0; i < event->nr; i++) {
		free(event->variants[i].text);
		free(event->variants[i].probe);
		free(event->variants[i].filter);
		cpulist_release(&event->variants[i].cpus);
	}
	free(event->variants);
	free(event->name);
	free(event->key);
	free(event->unit);
	free(event->problem);
}

void profiler_settings_release(struct profiler_settings *settings)
{
	for (size_t i = 0; i < settings->nr_events; i++)
		release_event(&settings->events[i]);
	free(settings->events);
	cpulist_release(&settings->cpus);
	release_texts(settings->include, settings->nr_include);
	release_texts(settings->exclude, settings->nr_exclude);
	for (size_t i = 0; i < settings->nr_keeps; i++)
		free(settings->keeps[i].rule);
	free(settings->keeps);
	free(settings->procfs);
	*settings = (struct profiler_settings){};
}

DEFINE_MESSAGE(settings, struct profiler_settings, profiler_settings_release)

bool sampled_event_is_clock(const struct sampled_event *event)
{
	const struct perf_event_attr *attr = event->nr ? &event->variants[0].attr.attr : NULL;

	return attr && attr->type == PERF_TYPE_SOFTWARE &&
	       (attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK);
}

/* --- cgroups */

static void pass_cgroups(struct wire *wire, void *what)
{
	struct told_cgroups *cgroups = what;

	pass_bool(wire, &cgroups->is_all);
	pass_bool(wire, &cgroups->is_new_tree);
	cgroups->items = pass_nr(wire, &cgroups->nr, cgroups->items, sizeof(*cgroups->items), 2);
	for (size_t i = 0; i < cgroups->nr; i++) {
		pass_u64(wire, &cgroups->items[i].id);
		pass_text(wire, &cgroups->items[i].path);
	}
}

void told_cgroups_release(struct told_cgroups *cgroups)
{
	for (size_t i = 0; i < cgroups->nr; i++)
		free(cgroups->items[i].path);
	free(cgroups->items);
	*cgroups = (struct told_cgroups){};
}

DEFINE_MESSAGE(cgroups, struct told_cgroups, told_cgroups_release)

/* --- questions */

static void pass_moment(struct wire *wire, struct moment *moment)
{
	moment->kind = (enum moment_kind)pass_at_most(wire, moment->kind, MOMENT_SINCE_EPOCH);
	pass_u64(wire, &moment->ns);
}

static void pass_count(struct wire *wire, struct profile_count *count, size_t nr_slots)
{
	need_borrowed(wire, &count->cgroup);
	if (wire->out) {
		pack_bytes(wire->out, count->counted, nr_slots * sizeof(*count->counted));
		return;
	}
	count->counted = calloc(nr_slots + 1, sizeof(*count->counted));
	if (count->counted)
		unpack_bytes(&wire->in, count->counted, nr_slots * sizeof(*count->counted));
	else
		wire->in.no_memory = wire->in.bad = true;
	/* Sums of them are numbers. */
	for (size_t i = 0; i < nr_slots && !wire->in.bad; i++)
		wire->in.bad |= isinf(count->counted[i]) || count->counted[i] < 0;
}

/* All but the cgroups themselves. */
static void pass_counts(struct wire *wire, struct profile_counts *counts)
{
	pass_borrowed(wire, &counts->problem);
	pass_bool(wire, &counts->root_is_idle);
	pass_u64(wire, &counts->begin);
	counts->nr_slots = pass_at_most(wire, counts->nr_slots, PROFILE_SLOTS_MAX);
	for (size_t i = 0; i < counts->nr_slots; i++) {
		pass_u64(wire, &counts->ends[i]);
		wire->in.bad |= counts->ends[i] < (i ? counts->ends[i - 1] : counts->begin);
	}
	counts->cgroups = pass_nr(wire, &counts->nr, counts->cgroups, sizeof(*counts->cgroups), 2);
}

static void pass_cgroup_counts(struct wire *wire, struct profile_counts *counts)
{
	for (size_t i = 0; i < counts->nr; i++)
		pass_count(wire, &counts->cgroups[i], counts->nr_slots);
	for (size_t i = 1; i < counts->nr && !wire->in.bad; i++)
		wire->in.bad |= strcmp(counts->cgroups[i - 1].cgroup, counts->cgroups[i].cgroup) >= 0;
}

static void pass_rule(struct wire *wire, struct told_rule *rule)
{
	need_borrowed(wire, &rule->name);
	need_borrowed(wire, &rule->when);
	need_borrowed(wire, &rule->problem);
	pass_u64(wire, &rule->captures);
	pass_u64(wire, &rule->passed_over);
}

static void pass_values(struct wire *wire, struct told_values *values)
{
	need_borrowed(wire, &values->capture);
	values->rates = pass_nr(wire, &values->nr, values->rates, sizeof(*values->rates), 2);
	if (wire->out)
		pack_bytes(wire->out, values->rates, values->nr * sizeof(*values->rates));
	else if (values->rates)
		unpack_bytes(&wire->in, values->rates, values->nr * sizeof(*values->rates));
}

static void pass_told(struct wire *wire, struct told_captures *told)
{
	told->rules = pass_nr(wire, &told->nr_rules, told->rules, sizeof(*told->rules), 5);
	for (size_t i = 0; i < told->nr_rules; i++)
		pass_rule(wire, &told->rules[i]);
	told->values = pass_nr(wire, &told->nr_values, told->values, sizeof(*told->values), 3);
	for (size_t i = 0; i < told->nr_values; i++)
		pass_values(wire, &told->values[i]);
}

static void pass_asked(struct wire *wire, struct profile_question *question)
{
	pass_borrowed(wire, &question->event);
	pass_borrowed(wire, &question->capture);
	pass_moment(wire, &question->from);
	pass_moment(wire, &question->to);
	pass_u64(wire, &question->last);
	pass_u64(wire, &question->now);
	pass_clock(wire, &question->clock);
	pass_borrowed(wire, &question->cgroup);
	pass_borrowed(wire, &question->command);
	pass_bool(wire, &question->below);
	pass_bool(wire, &question->counted);
	pass_told(wire, &question->told);
	question->form = (enum profile_form)pass_at_most(wire, question->form, _PROFILE_FORM_MAX - 1);
	pass_bool(wire, &question->gzip);
	question->by = (unsigned)pass_at_most(wire, question->by, PROFILE_BY_ALL);
	pass_double(wire, &question->min);
	question->limit = pass_at_most(wire, question->limit, SIZE_MAX);
	question->columns = pass_at_most(wire, question->columns, PROFILE_HEAT_MAX);
	question->rows = pass_at_most(wire, question->rows, PROFILE_HEAT_MAX);
	question->top_by = (enum profile_top_by)pass_at_most(wire, question->top_by, _PROFILE_TOP_MAX - 1);
	wire->in.bad |= question->columns * question->rows > PROFILE_HEAT_MAX;
	wire->in.bad |= !question->event && question->form != PROFILE_FORM_CAPTURES;
	if (question->form == PROFILE_FORM_HEAT)
		wire->in.bad |= !question->columns || !question->rows;
}

static void pass_question(struct wire *wire, void *what)
{
	struct profile_question *question = what;

	pass_asked(wire, question);
	pass_counts(wire, &question->counts);
	pass_cgroup_counts(wire, &question->counts);
}

static void release_told(struct told_captures *told)
{
	for (size_t i = 0; i < told->nr_rules; i++) {
		free_borrowed(told->rules[i].name);
		free_borrowed(told->rules[i].when);
		free_borrowed(told->rules[i].problem);
	}
	for (size_t i = 0; i < told->nr_values; i++) {
		free_borrowed(told->values[i].capture);
		free(told->values[i].rates);
	}
	free(told->rules);
	free(told->values);
}

void profile_question_release(struct profile_question *question)
{
	struct profile_counts *counts = &question->counts;

	for (size_t i = 0; i < counts->nr; i++) {
		free_borrowed(counts->cgroups[i].cgroup);
		free(counts->cgroups[i].counted);
	}
	free(counts->cgroups);
	free_borrowed(counts->problem);
	release_told(&question->told);
	free_borrowed(question->event);
	free_borrowed(question->capture);
	free_borrowed(question->cgroup);
	free_borrowed(question->command);
	*question = (struct profile_question){};
}

DEFINE_MESSAGE(question, struct profile_question, profile_question_release)

void write_asked(struct buf *out, const struct profile_question *question)
{
	struct profile_question copy = *question;

	pass_asked(&(struct wire){ .out = out }, &copy);
}

void write_counts(struct buf *out, const struct profile_counts *counts)
{
	struct profile_counts copy = *counts;

	pass_counts(&(struct wire){ .out = out }, &copy);
}

void write_count(struct buf *out, const struct profile_count *count, size_t nr_slots)
{
	struct profile_count copy = *count;

	pass_count(&(struct wire){ .out = out }, &copy, nr_slots);
}

/* Nothing is later than now. */
static uint64_t monotonic_of(const struct profile_question *question, const struct clock_steps *clock, uint64_t moment)
{
	uint64_t time = clock_steps_monotonic(clock, moment);

	return time < question->now ? time : question->now;
}

int profile_question_stretch(const struct profile_question *question, const struct clock_steps *clock,
			     uint64_t *ret_from, uint64_t *ret_to)
{
	uint64_t first = question->now > question->last ? question->now - question->last : 0, last = question->now;
	uint64_t from, to;
	int r = clock_steps_stretch(clock, &question->from, &question->to, &from, &to);

	if (r == 0 && question->from.kind)
		first = monotonic_of(question, clock, from);
	if (r == 0 && question->to.kind)
		last = monotonic_of(question, clock, to);
	if (r < 0 || first > last)
		return -EINVAL;
	*ret_from = first;
	*ret_to = last;
	return 0;
}

/* --- refusals */

static void pass_refusal(struct wire *wire, void *what)
{
	struct profiler_refusal *refusal = what;
	char *why = refusal->why.text;

	refusal->error = -(int)pass_at_most(wire, (uint64_t)-refusal->error, ERRNO_MAX);
	wire->in.bad |= !refusal->error;
	need_text(wire, &why);
	if (wire->out)
		return;
	reason_set(&refusal->why, 0, "%s", why ?: "");
	free(why);
}

DEFINE_MESSAGE(refusal, struct profiler_refusal, release_nothing)

/* --- captures */

static void pass_order(struct wire *wire, void *what)
{
	struct capture_order *order = what;

	if (!wire->out)
		order->cgroup_fd = -1;
	need_borrowed(wire, &order->id);
	need_borrowed(wire, &order->rule);
	need_borrowed(wire, &order->when);
	pass_borrowed(wire, &order->cgroup);
	pass_borrowed(wire, &order->cgroup_problem);
	need_borrowed(wire, &order->counter);
	need_borrowed(wire, &order->unit);
	need_borrowed(wire, &order->reason);
	pass_double(wire, &order->value);
	pass_double(wire, &order->threshold);
	pass_u64(wire, &order->time);
	pass_u64(wire, &order->before);
	pass_u64(wire, &order->after);
	pass_clock(wire, &order->clock);
	need_borrowed(wire, &order->event);
	pass_u64(wire, &order->rate);
	pass_u64(wire, &order->keep);
	pass_bool(wire, &order->save);
}

void capture_order_release(struct capture_order *order)
{
	free_borrowed(order->id);
	free_borrowed(order->rule);
	free_borrowed(order->when);
	free_borrowed(order->cgroup);
	free_borrowed(order->cgroup_problem);
	free_borrowed(order->counter);
	free_borrowed(order->unit);
	free_borrowed(order->reason);
	free_borrowed(order->event);
	*order = (struct capture_order){};
}

DEFINE_MESSAGE(order, struct capture_order, capture_order_release)

/* --- state */

static void pass_state(struct wire *wire, void *what)
{
	struct profiler_state *state = what;
	/* All members are numbers. */
	uint64_t stats[sizeof(state->stats) / sizeof(uint64_t)];

	pass_u64(wire, &state->settings);
	pass_bool(wire, &state->is_on);
	pass_u64(wire, &state->drained);
	need_text(wire, &state->problem);
	pass_texts(wire, &state->problems, &state->nr_problems);
	pass_texts(wire, &state->captures, &state->nr_captures);
	pass_u64(wire, &state->orders);
	pass_u64(wire, &state->room);
	memcpy(stats, &state->stats, sizeof(stats));
	for (size_t i = 0; i < ARRAY_SIZE(stats); i++)
		pass_u64(wire, &stats[i]);
	memcpy(&state->stats, stats, sizeof(stats));
}

void profiler_state_release(struct profiler_state *state)
{
	free(state->problem);
	release_texts(state->problems, state->nr_problems);
	release_texts(state->captures, state->nr_captures);
	*state = (struct profiler_state){};
}

DEFINE_MESSAGE(state, struct profiler_state, profiler_state_release)
