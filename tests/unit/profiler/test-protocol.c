/* SPDX-License-Identifier: MIT */

/*
 * Messages between counting and the profiler: each that is written is read again with all its members, and whatever
 * else is read is refused or can be used. Under a sanitizer, nothing that was read stays behind.
 */

#include "base/util/clock.h"
#include "profiler/protocol.h"
#include "setup/made-messages.h"
#include "setup/no-memory.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEXT(text) ((char *)(uintptr_t)(text))

/* Whatever is read. */
union content {
	struct profiler_settings settings;
	struct told_cgroups cgroups;
	struct profile_question question;
	struct profiler_refusal refusal;
	struct capture_order order;
	struct profiler_state state;
};

/* --- what is compared */

static void expect_text(const char *is, const char *was)
{
	if (!is || !was)
		assert_ptr_equal(is, was);
	else
		assert_string_equal(is, was);
}

static void expect_texts(char *const *is, size_t nr_is, char *const *was, size_t nr_was)
{
	assert_int_equal(nr_is, nr_was);
	for (size_t i = 0; i < nr_is; i++)
		expect_text(is[i], was[i]);
}

static void expect_attr(const union event_attr *is, const union event_attr *was)
{
	assert_int_equal(is->attr.type, was->attr.type);
	assert_int_equal(is->attr.bp_type, was->attr.bp_type);
	assert_int_equal(is->attr.config, was->attr.config);
	assert_int_equal(is->attr.config1, was->attr.config1);
	assert_int_equal(is->attr.config2, was->attr.config2);
	assert_int_equal(is->config3, was->config3);
	assert_int_equal(is->attr.size, was->attr.size);
	assert_int_equal(is->attr.exclude_user, was->attr.exclude_user);
	assert_int_equal(is->attr.exclude_kernel, was->attr.exclude_kernel);
	assert_int_equal(is->attr.exclude_hv, was->attr.exclude_hv);
	assert_int_equal(is->attr.exclude_idle, was->attr.exclude_idle);
	assert_int_equal(is->attr.exclude_host, was->attr.exclude_host);
	assert_int_equal(is->attr.exclude_guest, was->attr.exclude_guest);
	assert_int_equal(is->attr.precise_ip, was->attr.precise_ip);
}

static void expect_event(const struct sampled_event *is, const struct sampled_event *was)
{
	expect_text(is->name, was->name);
	expect_text(is->key, was->key);
	assert_int_equal(is->nr, was->nr);
	for (size_t i = 0; i < is->nr; i++) {
		const struct sampled_variant *variant = &is->variants[i], *before = &was->variants[i];

		expect_text(variant->text, before->text);
		expect_attr(&variant->attr, &before->attr);
		expect_text(variant->probe, before->probe);
		expect_text(variant->filter, before->filter);
		assert_true(cpulist_equal(&variant->cpus, &before->cpus));
		assert_int_equal(variant->is_slow_to_close, before->is_slow_to_close);
	}
	assert_int_equal(is->period, was->period);
	assert_int_equal(is->rate, was->rate);
	assert_int_equal(is->stack_bytes, was->stack_bytes);
	expect_text(is->unit, was->unit);
	assert_true(is->scale == was->scale);
	expect_text(is->problem, was->problem);
}

static void same_settings(const union content *content, const union content *before)
{
	const struct profiler_settings *is = &content->settings, *was = &before->settings;

	assert_int_equal(is->nr_events, was->nr_events);
	for (size_t i = 0; i < is->nr_events; i++)
		expect_event(&is->events[i], &was->events[i]);
	assert_true(cpulist_equal(&is->cpus, &was->cpus));
	expect_texts(is->include, is->nr_include, was->include, was->nr_include);
	expect_texts(is->exclude, is->nr_exclude, was->exclude, was->nr_exclude);
	assert_int_equal(is->memory, was->memory);
	assert_int_equal(is->capture_memory, was->capture_memory);
	assert_int_equal(is->nr_keeps, was->nr_keeps);
	for (size_t i = 0; i < is->nr_keeps; i++) {
		expect_text(is->keeps[i].rule, was->keeps[i].rule);
		assert_int_equal(is->keeps[i].nr, was->keeps[i].nr);
	}
	expect_text(is->procfs, was->procfs);
	assert_int_equal(is->part, was->part);
	assert_int_equal(is->jit, was->jit);
	assert_int_equal(is->sampled, was->sampled);
}

static void same_cgroups(const union content *content, const union content *before)
{
	const struct told_cgroups *is = &content->cgroups, *was = &before->cgroups;

	assert_int_equal(is->is_all, was->is_all);
	assert_int_equal(is->is_new_tree, was->is_new_tree);
	assert_int_equal(is->nr, was->nr);
	for (size_t i = 0; i < is->nr; i++) {
		assert_int_equal(is->items[i].id, was->items[i].id);
		expect_text(is->items[i].path, was->items[i].path);
	}
}

static void expect_clock(const struct clock_steps *is, const struct clock_steps *was)
{
	assert_int_equal(is->nr, was->nr);
	assert_int_equal(is->now, was->now);
	assert_memory_equal(is->items, was->items, is->nr * sizeof(*is->items));
}

static void expect_moment(const struct moment *is, const struct moment *was)
{
	assert_int_equal(is->kind, was->kind);
	assert_int_equal(is->ns, was->ns);
}

static void expect_counts(const struct profile_counts *is, const struct profile_counts *was)
{
	expect_text(is->problem, was->problem);
	assert_int_equal(is->root_is_idle, was->root_is_idle);
	assert_int_equal(is->begin, was->begin);
	assert_int_equal(is->nr_slots, was->nr_slots);
	assert_memory_equal(is->ends, was->ends, is->nr_slots * sizeof(*is->ends));
	assert_int_equal(is->nr, was->nr);
	for (size_t i = 0; i < is->nr; i++) {
		expect_text(is->cgroups[i].cgroup, was->cgroups[i].cgroup);
		/* The bytes: NAN equals nothing. */
		assert_memory_equal(is->cgroups[i].counted, was->cgroups[i].counted, is->nr_slots * sizeof(float));
	}
}

static void expect_told(const struct told_captures *is, const struct told_captures *was)
{
	assert_int_equal(is->nr_rules, was->nr_rules);
	for (size_t i = 0; i < is->nr_rules; i++) {
		expect_text(is->rules[i].name, was->rules[i].name);
		expect_text(is->rules[i].when, was->rules[i].when);
		expect_text(is->rules[i].problem, was->rules[i].problem);
		assert_int_equal(is->rules[i].captures, was->rules[i].captures);
		assert_int_equal(is->rules[i].passed_over, was->rules[i].passed_over);
	}
	assert_int_equal(is->nr_values, was->nr_values);
	for (size_t i = 0; i < is->nr_values; i++) {
		const struct told_values *values = &is->values[i];

		expect_text(values->capture, was->values[i].capture);
		assert_int_equal(values->nr, was->values[i].nr);
		assert_memory_equal(values->rates, was->values[i].rates, values->nr * sizeof(*values->rates));
	}
}

static void same_question(const union content *content, const union content *before)
{
	const struct profile_question *is = &content->question, *was = &before->question;

	expect_text(is->event, was->event);
	expect_text(is->capture, was->capture);
	expect_moment(&is->from, &was->from);
	expect_moment(&is->to, &was->to);
	assert_int_equal(is->last, was->last);
	assert_int_equal(is->now, was->now);
	expect_clock(&is->clock, &was->clock);
	expect_text(is->cgroup, was->cgroup);
	expect_text(is->command, was->command);
	assert_int_equal(is->below, was->below);
	assert_int_equal(is->counted, was->counted);
	expect_counts(&is->counts, &was->counts);
	expect_told(&is->told, &was->told);
	assert_int_equal(is->form, was->form);
	assert_int_equal(is->gzip, was->gzip);
	assert_int_equal(is->by, was->by);
	assert_true(is->min == was->min);
	assert_int_equal(is->limit, was->limit);
	assert_int_equal(is->columns, was->columns);
	assert_int_equal(is->rows, was->rows);
	assert_int_equal(is->top_by, was->top_by);
}

static void same_refusal(const union content *content, const union content *before)
{
	assert_int_equal(content->refusal.error, before->refusal.error);
	assert_string_equal(content->refusal.why.text, before->refusal.why.text);
}

static void same_order(const union content *content, const union content *before)
{
	const struct capture_order *is = &content->order, *was = &before->order;

	expect_text(is->id, was->id);
	expect_text(is->rule, was->rule);
	expect_text(is->when, was->when);
	expect_text(is->cgroup, was->cgroup);
	expect_text(is->cgroup_problem, was->cgroup_problem);
	expect_text(is->counter, was->counter);
	expect_text(is->unit, was->unit);
	expect_text(is->reason, was->reason);
	assert_true(is->value == was->value && is->threshold == was->threshold);
	assert_int_equal(is->time, was->time);
	assert_int_equal(is->before, was->before);
	assert_int_equal(is->after, was->after);
	expect_clock(&is->clock, &was->clock);
	expect_text(is->event, was->event);
	assert_int_equal(is->rate, was->rate);
	assert_int_equal(is->keep, was->keep);
	assert_int_equal(is->save, was->save);
}

static void same_state(const union content *content, const union content *before)
{
	const struct profiler_state *is = &content->state, *was = &before->state;

	assert_int_equal(is->settings, was->settings);
	assert_int_equal(is->is_on, was->is_on);
	assert_int_equal(is->drained, was->drained);
	expect_text(is->problem, was->problem);
	expect_texts(is->problems, is->nr_problems, was->problems, was->nr_problems);
	expect_texts(is->captures, is->nr_captures, was->captures, was->nr_captures);
	assert_int_equal(is->orders, was->orders);
	assert_int_equal(is->room, was->room);
	assert_memory_equal(&is->stats, &was->stats, sizeof(is->stats));
}

/* --- what is done with whatever was read */

/* All of it can be read; it is not NULL. */
static void use_text(const char *text)
{
	assert_non_null(text);
	assert_true(strlen(text) < SIZE_MAX);
}

static void use_texts(char *const *texts, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		use_text(texts[i]);
}

static void use_clock(const struct clock_steps *clock, uint64_t time)
{
	const struct moment now = { MOMENT_AGO, 0 }, then = { MOMENT_SINCE_EPOCH, time };
	uint64_t from = 0, to = 0;
	int r = clock_steps_stretch(clock, &then, &now, &from, &to);

	assert_true(clock->nr <= CLOCK_STEPS_MAX);
	assert_true(r == -EINVAL || (r == 0 && from <= to));
	(void)clock_steps_monotonic(clock, clock_steps_moment(clock, time));
	(void)clock_steps_shown(clock, time);
}

static void use_event(const struct sampled_event *event)
{
	use_text(event->name);
	use_text(event->key);
	use_text(event->unit);
	assert_true(event->nr || event->problem);
	assert_true(event->period || NS_PER_S / event->rate);
	assert_true(isfinite(event->scale));
	(void)sampled_event_is_clock(event);
	for (size_t i = 0; i < event->nr; i++) {
		const struct cpulist *cpus = &event->variants[i].cpus;
		const union event_attr *attr = &event->variants[i].attr;

		use_text(event->variants[i].text);
		assert_true(attr->attr.size == (attr->config3 ? sizeof(*attr) : sizeof(attr->attr)));
		for (size_t k = 0; k < cpus->nr; k++)
			assert_in_range(cpus->cpu[k], k ? cpus->cpu[k - 1] + 1 : 0, CPULIST_MAX_CPU);
	}
}

static void use_settings(const union content *content)
{
	const struct profiler_settings *settings = &content->settings;

	for (size_t i = 0; i < settings->nr_events; i++)
		use_event(&settings->events[i]);
	use_texts(settings->include, settings->nr_include);
	use_texts(settings->exclude, settings->nr_exclude);
	for (size_t i = 0; i < settings->nr_keeps; i++)
		use_text(settings->keeps[i].rule);
	use_text(settings->procfs);
}

static void use_cgroups(const union content *content)
{
	const struct told_cgroups *cgroups = &content->cgroups;

	for (size_t i = 0; i < cgroups->nr; i++)
		if (cgroups->items[i].path)
			use_text(cgroups->items[i].path);
}

static void use_counts(const struct profile_counts *counts)
{
	assert_true(counts->nr_slots <= PROFILE_SLOTS_MAX);
	for (size_t i = 0; i < counts->nr_slots; i++)
		assert_true(counts->ends[i] >= (i ? counts->ends[i - 1] : counts->begin));
	for (size_t i = 0; i < counts->nr; i++) {
		assert_true(!i || strcmp(counts->cgroups[i - 1].cgroup, counts->cgroups[i].cgroup) < 0);
		for (size_t slot = 0; slot < counts->nr_slots; slot++) {
			float counted = counts->cgroups[i].counted[slot];

			assert_true(isnan(counted) || (isfinite(counted) && counted >= 0));
		}
	}
}

static void use_told(const struct told_captures *told)
{
	for (size_t i = 0; i < told->nr_rules; i++) {
		use_text(told->rules[i].name);
		use_text(told->rules[i].when);
		use_text(told->rules[i].problem);
	}
	for (size_t i = 0; i < told->nr_values; i++)
		use_text(told->values[i].capture);
}

static void use_question(const union content *content)
{
	const struct profile_question *question = &content->question;

	assert_true(question->event || question->form == PROFILE_FORM_CAPTURES);
	assert_true(question->from.kind <= MOMENT_SINCE_EPOCH && question->to.kind <= MOMENT_SINCE_EPOCH);
	use_clock(&question->clock, question->now);
	use_counts(&question->counts);
	use_told(&question->told);
	assert_true(question->form < _PROFILE_FORM_MAX && question->top_by < _PROFILE_TOP_MAX);
	assert_true(question->by <= PROFILE_BY_ALL);
	assert_true(isfinite(question->min));
	assert_true(question->columns * question->rows <= PROFILE_HEAT_MAX);
	if (question->form == PROFILE_FORM_HEAT)
		assert_true(PROFILE_HEAT_MAX / question->columns / question->rows);
}

static void use_refusal(const union content *content)
{
	assert_in_range(-content->refusal.error, 1, 4095);
	assert_true(strlen(content->refusal.why.text) < REASON_MAX);
}

static void use_order(const union content *content)
{
	const struct capture_order *order = &content->order;
	const char *texts[] = { order->id,   order->rule,   order->when, order->counter,
				order->unit, order->reason, order->event };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		use_text(texts[i]);
	assert_true(isfinite(order->value) && isfinite(order->threshold));
	assert_int_equal(order->cgroup_fd, -1);
	use_clock(&order->clock, order->time);
}

static void use_state(const union content *content)
{
	use_text(content->state.problem);
	use_texts(content->state.problems, content->state.nr_problems);
	use_texts(content->state.captures, content->state.nr_captures);
}

/* --- the kinds */

struct kind {
	const char *name;
	void (*write)(struct buf *out, const union content *content);
	int (*read)(union content *ret, const void *bytes, size_t len);
	void (*release)(union content *content);
	void (*use)(const union content *content);
	void (*expect_same)(const union content *content, const union content *before);
	union content (*full)(void); /* that has all there can be */
};

static void release_nothing(struct profiler_refusal *refusal)
{
	assert_non_null(refusal);
}

#define OF(name, made, write_it, read_it, release_it)                                                                  \
	static void put_##name(struct buf *out, const union content *content)                                          \
	{                                                                                                              \
		write_it(out, &content->name);                                                                         \
	}                                                                                                              \
	static int get_##name(union content *ret, const void *bytes, size_t len)                                       \
	{                                                                                                              \
		return read_it(&ret->name, bytes, len);                                                                \
	}                                                                                                              \
	static void release_##name(union content *content)                                                             \
	{                                                                                                              \
		release_it(&content->name);                                                                            \
	}                                                                                                              \
	static union content full_##name(void)                                                                         \
	{                                                                                                              \
		return (union content){ .name = (made) };                                                              \
	}

OF(settings, *made_settings(), write_settings, read_settings, profiler_settings_release)
OF(cgroups, made_cgroups, write_cgroups, read_cgroups, told_cgroups_release)
OF(question, made_question, write_question, read_question, profile_question_release)
OF(refusal, made_refusal, write_refusal, read_refusal, release_nothing)
OF(order, made_order, write_order, read_order, capture_order_release)
OF(state, made_state, write_state, read_state, profiler_state_release)

#define KIND(name)                                                                                                     \
	{                                                                                                              \
#name, put_##name, get_##name, release_##name, use_##name, same_##name, full_##name                    \
	}

enum { SETTINGS, CGROUPS, QUESTION, REFUSAL, ORDER, STATE, NR_KINDS };

static const struct kind kinds[NR_KINDS] = {
	KIND(settings), KIND(cgroups), KIND(question), KIND(refusal), KIND(order), KIND(state),
};

/* To be released. */
static struct buf written(const struct kind *kind, const union content *content)
{
	struct buf bytes = {};

	kind->write(&bytes, content);
	assert_false(bytes.failed);
	return bytes;
}

static struct buf written_full(const struct kind *kind)
{
	const union content full = kind->full();

	return written(kind, &full);
}

static int read_and_use(const struct kind *kind, const void *bytes, size_t len)
{
	union content content;
	int r = kind->read(&content, bytes, len);

	if (r == 0) {
		kind->use(&content);
		kind->release(&content);
	}
	return r;
}

static void expect_round(const struct kind *kind, const union content *content)
{
	_cleanup_(buf_release) struct buf bytes = written(kind, content);
	union content ret;
	int r = kind->read(&ret, bytes.data, bytes.len);

	if (r < 0)
		fail_msg("%s: %d", kind->name, r);
	kind->use(&ret);
	kind->expect_same(&ret, content);
	kind->release(&ret);
}

static void expect_refused(const struct kind *kind, const union content *content)
{
	_cleanup_(buf_release) struct buf bytes = written(kind, content);

	assert_int_equal(read_and_use(kind, bytes.data, bytes.len), -EPROTO);
}

/* --- tests */

static void test_round(_unused_ void **state)
{
	for (size_t i = 0; i < NR_KINDS; i++) {
		const union content full = kinds[i].full();

		expect_round(&kinds[i], &full);
	}
}

/* As little as there can be. */
static void test_least(_unused_ void **state)
{
	const union content settings = { .settings = { .procfs = TEXT("") } };
	const union content cgroups = { .cgroups = {} };
	const union content list = { .question = { .form = PROFILE_FORM_CAPTURES } };
	const union content question = { .question = { .event = "", .last = UINT64_MAX } };
	const union content refusal = { .refusal = { .error = -1 } };
	const union content order = { .order = { "", "", "", NULL, -1, NULL, "", "", "", .event = "" } };
	const union content nothing = { .state = { .problem = TEXT("") } };

	expect_round(&kinds[SETTINGS], &settings);
	expect_round(&kinds[CGROUPS], &cgroups);
	expect_round(&kinds[QUESTION], &list);
	expect_round(&kinds[QUESTION], &question);
	expect_round(&kinds[REFUSAL], &refusal);
	expect_round(&kinds[ORDER], &order);
	expect_round(&kinds[STATE], &nothing);
}

/* 10,000 cgroups in all slots. */
static void test_large(_unused_ void **state)
{
	enum { NR = 10000 };
	_cleanup_(freep) struct profile_count *cgroups = calloc(NR, sizeof(*cgroups));
	_cleanup_(freep) char(*labels)[16] = calloc(NR, sizeof(*labels));
	float numbers[PROFILE_SLOTS_MAX];
	union content content = { .question = { .event = "e" } };
	struct profile_counts *counts = &content.question.counts;

	assert_true(cgroups && labels);
	counts->cgroups = cgroups;
	counts->nr = NR;
	counts->nr_slots = PROFILE_SLOTS_MAX;
	for (size_t i = 0; i < PROFILE_SLOTS_MAX; i++) {
		counts->ends[i] = i * NS_PER_S;
		numbers[i] = i % 7 ? (float)i : NAN;
	}
	for (size_t i = 0; i < NR; i++) {
		(void)snprintf(labels[i], sizeof(labels[i]), "/%05zu", i);
		cgroups[i] = (struct profile_count){ labels[i], numbers };
	}
	expect_round(&kinds[QUESTION], &content);
}

static void test_longest_sentence(_unused_ void **state)
{
	union content content = { .refusal = { .error = -4095 } };

	memset(content.refusal.why.text, 'x', REASON_MAX - 1);
	expect_round(&kinds[REFUSAL], &content);
}

/* At every byte: in memory of just that size, so that a sanitizer sees what is read beyond. */
static void test_cut(_unused_ void **state)
{
	for (size_t i = 0; i < NR_KINDS; i++) {
		_cleanup_(buf_release) struct buf bytes = written_full(&kinds[i]);

		for (size_t len = 0; len < bytes.len; len++) {
			_cleanup_(freep) char *part = malloc(len + !len);

			assert_non_null(part);
			memcpy(part, bytes.data, len);
			if (read_and_use(&kinds[i], part, len) != -EPROTO)
				fail_msg("%s of %zu bytes is read from %zu", kinds[i].name, bytes.len, len);
		}
		buf_add(&bytes, "", 1);
		assert_int_equal(read_and_use(&kinds[i], bytes.data, bytes.len), -EPROTO);
	}
}

static void replace_word(const struct kind *kind, struct buf *bytes, size_t at, uint64_t word)
{
	uint64_t before;
	int r;

	memcpy(&before, bytes->data + at, sizeof(before));
	memcpy(bytes->data + at, &word, sizeof(word));
	r = read_and_use(kind, bytes->data, bytes->len);
	if (r != 0 && r != -EPROTO)
		fail_msg("%s, byte %zu, %#llx: %d", kind->name, at, (unsigned long long)word, r);
	memcpy(bytes->data + at, &before, sizeof(before));
}

static void test_words(_unused_ void **state)
{
	static const uint64_t words[] = { 0, 1, INT64_MAX, (uint64_t)1 << 63, UINT64_MAX - 1, UINT64_MAX };

	for (size_t i = 0; i < NR_KINDS; i++) {
		_cleanup_(buf_release) struct buf bytes = written_full(&kinds[i]);

		for (size_t at = 0; at < bytes.len; at += sizeof(*words))
			for (size_t k = 0; k < sizeof(words) / sizeof(*words); k++)
				replace_word(&kinds[i], &bytes, at, words[k]);
	}
}

static unsigned allocations_left;

static bool next_fails(void)
{
	return allocations_left-- == 0;
}

/* Whichever allocation fails: the message is not blamed. */
static void test_no_memory(_unused_ void **state)
{
	for (size_t i = 0; i < NR_KINDS; i++) {
		_cleanup_(buf_release) struct buf bytes = written_full(&kinds[i]);
		union content content;
		unsigned nr = 0;
		int r;

		do {
			allocations_left = nr++;
			memory_fails = next_fails;
			r = kinds[i].read(&content, bytes.data, bytes.len);
			memory_fails = NULL;
			if (r != 0 && r != -ENOMEM)
				fail_msg("%s, allocation %u: %d", kinds[i].name, nr, r);
		} while (r < 0);
		kinds[i].release(&content);
		/* One has failed before. */
		assert_true(nr > 1);
	}
}

static void test_no_memory_to_write(_unused_ void **state)
{
	for (size_t i = 0; i < NR_KINDS; i++) {
		_cleanup_(buf_release) struct buf bytes = {};
		const union content full = kinds[i].full();

		allocations_left = 0;
		memory_fails = next_fails;
		kinds[i].write(&bytes, &full);
		memory_fails = NULL;
		assert_true(bytes.failed);
	}
}

/* --- what is refused, though it is whole */

static char *no_texts[2];

/* A message that has all, but for this. */
#define REFUSED(kind, change)                                                                                          \
	do {                                                                                                           \
		union content is = kinds[kind].full();                                                                 \
		change;                                                                                                \
		expect_refused(&kinds[kind], &is);                                                                     \
	} while (0)

static void test_events(_unused_ void **state)
{
	struct sampled_event event = made_settings()->events[0];
	union content content = { .settings = *made_settings() };

	content.settings.events = &event;
	content.settings.nr_events = 1;
	event.rate = 0;
	expect_refused(&kinds[SETTINGS], &content);
	event.period = 1;
	expect_round(&kinds[SETTINGS], &content);
	event.period = 0;
	event.rate = NS_PER_S;
	expect_round(&kinds[SETTINGS], &content);
	/* A clock's period would be 0. */
	event.rate++;
	expect_refused(&kinds[SETTINGS], &content);

	event = made_settings()->events[0];
	event.scale = (double)NAN;
	expect_refused(&kinds[SETTINGS], &content);
	event.scale = (double)INFINITY;
	expect_refused(&kinds[SETTINGS], &content);
	event.scale = 0;
	event.nr = 0;
	expect_refused(&kinds[SETTINGS], &content);
	event.problem = TEXT("");
	expect_round(&kinds[SETTINGS], &content);
	event.name = NULL;
	expect_refused(&kinds[SETTINGS], &content);
	REFUSED(SETTINGS, is.settings.procfs = NULL);
	REFUSED(SETTINGS, is.settings.include = no_texts);
}

/* Two cgroups: this one, with this number in its last slot, comes after "/". */
static int read_after_root(const char *cgroup, float number)
{
	float numbers[3] = { 1, 2, number };
	struct profile_count two[] = { made_question.counts.cgroups[0], { cgroup, numbers } };
	union content content = { .question = made_question };
	_cleanup_(buf_release) struct buf bytes = {};

	content.question.counts.cgroups = two;
	content.question.counts.nr = 2;
	bytes = written(&kinds[QUESTION], &content);
	return read_and_use(&kinds[QUESTION], bytes.data, bytes.len);
}

static void test_counts(_unused_ void **state)
{
	assert_int_equal(read_after_root("/a", 3), 0);
	assert_int_equal(read_after_root("/a", NAN), 0);
	assert_int_equal(read_after_root("/a", -1), -EPROTO);
	assert_int_equal(read_after_root("/a", INFINITY), -EPROTO);
	/* Twice, not sorted, none. */
	assert_int_equal(read_after_root("/", 3), -EPROTO);
	assert_int_equal(read_after_root("", 3), -EPROTO);
	assert_int_equal(read_after_root(NULL, 3), -EPROTO);
	REFUSED(QUESTION, is.question.counts.begin = 101);
	REFUSED(QUESTION, is.question.counts.ends[1] = 99);
}

static void test_questions(_unused_ void **state)
{
	union content content = { .question = made_question };

	content.question.columns = PROFILE_HEAT_MAX;
	content.question.rows = 1;
	expect_round(&kinds[QUESTION], &content);
	/* Of other forms, a map has no size. */
	content.question.form = PROFILE_FORM_TREE;
	content.question.columns = content.question.rows = 0;
	expect_round(&kinds[QUESTION], &content);
	REFUSED(QUESTION, is.question.columns = 1001);
	REFUSED(QUESTION, is.question.columns = PROFILE_HEAT_MAX + 1);
	REFUSED(QUESTION, is.question.columns = 0);
	REFUSED(QUESTION, is.question.rows = 0);
	REFUSED(QUESTION, is.question.event = NULL);
	REFUSED(QUESTION, is.question.by = PROFILE_BY_ALL + 1);
	REFUSED(QUESTION, is.question.form = _PROFILE_FORM_MAX);
	REFUSED(QUESTION, is.question.top_by = _PROFILE_TOP_MAX);
	REFUSED(QUESTION, is.question.from.kind = (enum moment_kind)(MOMENT_SINCE_EPOCH + 1));
	REFUSED(QUESTION, is.question.min = (double)NAN);
}

static void test_others(_unused_ void **state)
{
	REFUSED(REFUSAL, is.refusal.error = 0);
	REFUSED(REFUSAL, is.refusal.error = -4096);
	REFUSED(REFUSAL, is.refusal.error = 1);
	REFUSED(ORDER, is.order.value = -(double)INFINITY);
	REFUSED(ORDER, is.order.threshold = (double)NAN);
	REFUSED(ORDER, is.order.event = NULL);
	REFUSED(ORDER, is.order.id = NULL);
	REFUSED(STATE, is.state.problem = NULL);
	REFUSED(STATE, is.state.captures = no_texts);
	REFUSED(STATE, is.state.problems = no_texts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round),	  cmocka_unit_test(test_least),
		cmocka_unit_test(test_large),	  cmocka_unit_test(test_longest_sentence),
		cmocka_unit_test(test_cut),	  cmocka_unit_test(test_words),
		cmocka_unit_test(test_no_memory), cmocka_unit_test(test_no_memory_to_write),
		cmocka_unit_test(test_events),	  cmocka_unit_test(test_counts),
		cmocka_unit_test(test_questions), cmocka_unit_test(test_others),
	};

	return cmocka_run_group_tests_name("protocol", tests, NULL, NULL);
}
