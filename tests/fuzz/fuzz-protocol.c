/* SPDX-License-Identifier: MIT */

/*
 * Contents of messages between counting and the profiler: the input's first byte is the kind (enum profiler_message),
 * its rest the content. It is refused; or what was read has no number that is out of its bounds, and what is written of
 * it is read, and written the same again.
 */

#include "fuzz.h"

#include "base/util/clock.h"
#include "profiler/protocol.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Whatever is read. */
union content {
	struct profiler_settings settings;
	struct told_cgroups cgroups;
	struct profile_question question;
	struct profiler_refusal refusal;
	struct capture_order order;
	struct profiler_state state;
};

static void check_settings(const struct profiler_settings *settings)
{
	for (size_t i = 0; i < settings->nr_events; i++) {
		const struct sampled_event *event = &settings->events[i];

		CHECK(event->period || NS_PER_S / event->rate);
		CHECK(event->nr || event->problem);
		CHECK(event->stack_bytes <= SAMPLED_STACK_MAX && event->stack_bytes % 8 == 0);
		CHECK(isfinite(event->scale));
		(void)sampled_event_is_clock(event);
	}
	for (size_t i = 1; i < settings->cpus.nr; i++)
		CHECK(settings->cpus.cpu[i - 1] < settings->cpus.cpu[i]);
}

static void check_clock(const struct clock_steps *clock, uint64_t time)
{
	(void)clock_steps_monotonic(clock, clock_steps_moment(clock, time));
	(void)clock_steps_shown(clock, time);
}

static void check_counts(const struct profile_counts *counts)
{
	double sum = 0;

	for (size_t i = 0; i < counts->nr; i++) {
		CHECK(!i || strcmp(counts->cgroups[i - 1].cgroup, counts->cgroups[i].cgroup) < 0);
		for (size_t slot = 0; slot < counts->nr_slots; slot++)
			if (!isnan(counts->cgroups[i].counted[slot]))
				sum += (double)counts->cgroups[i].counted[slot];
	}
	CHECK(isfinite(sum) && sum >= 0);
}

static void check_question(const struct profile_question *question)
{
	uint64_t from, to;
	int r = clock_steps_stretch(&question->clock, &question->from, &question->to, &from, &to);

	CHECK(r == -EINVAL || (r == 0 && from <= to));
	check_clock(&question->clock, question->now);
	check_counts(&question->counts);
	CHECK(isfinite(question->min));
	if (question->form == PROFILE_FORM_HEAT)
		CHECK(PROFILE_HEAT_MAX / question->columns / question->rows);
	else
		CHECK(question->event || question->form == PROFILE_FORM_CAPTURES);
}

static void check_order(const struct capture_order *order)
{
	CHECK(isfinite(order->value) && isfinite(order->threshold));
	CHECK(order->cgroup_fd == -1);
	check_clock(&order->clock, order->time);
}

static void check_state(const struct profiler_state *state)
{
	size_t sum = strlen(state->problem);

	for (size_t i = 0; i < state->nr_problems; i++)
		sum += strlen(state->problems[i]);
	for (size_t i = 0; i < state->nr_captures; i++)
		sum += strlen(state->captures[i]);
	CHECK(sum < PROFILER_CONTENT_MAX);
}

/* Reads and checks; what is written of it is in ret. Negative errno. */
static int read_one(struct buf *ret, unsigned kind, const void *data, size_t size)
{
	union content content;
	int r = -EPROTO;

#define CASE(number, name, read_it, check_it, write_it, release_it)                                                    \
	case number:                                                                                                   \
		r = read_it(&content.name, data, size);                                                                \
		if (r < 0)                                                                                             \
			break;                                                                                         \
		check_it;                                                                                              \
		write_it(ret, &content.name);                                                                          \
		release_it;                                                                                            \
		break

	switch (kind) {
		CASE(PROFILER_SETTINGS, settings, read_settings, check_settings(&content.settings), write_settings,
		     profiler_settings_release(&content.settings));
		CASE(PROFILER_CGROUPS, cgroups, read_cgroups, , write_cgroups, told_cgroups_release(&content.cgroups));
		CASE(PROFILER_QUESTION, question, read_question, check_question(&content.question), write_question,
		     profile_question_release(&content.question));
		CASE(PROFILER_KEEP, order, read_order, check_order(&content.order), write_order,
		     capture_order_release(&content.order));
		CASE(PROFILER_STATE, state, read_state, check_state(&content.state), write_state,
		     profiler_state_release(&content.state));
		CASE(PROFILER_REFUSAL, refusal, read_refusal, CHECK(content.refusal.error < 0), write_refusal, );
	default:
		break;
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(buf_release) struct buf first = {}, second = {};
	int r;

	if (!size)
		return 0;
	r = read_one(&first, *data, data + 1, size - 1);
	CHECK(r == 0 || r == -EPROTO);
	if (r < 0)
		return 0;
	CHECK(read_one(&second, *data, first.data, first.len) == 0);
	CHECK(!first.failed && !second.failed && first.len == second.len);
	CHECK(memcmp(first.data, second.data, first.len) == 0);
	return 0;
}
