/* SPDX-License-Identifier: MIT */

#include "profiler/capturer.h"

#include "base/util/clock.h"
#include "base/util/log.h"

#include <errno.h>
#include <string.h>

/* Copying is worth while if it is not done all the time. */
#define COPY_PAUSE_NS (NS_PER_S / 4)

struct capturer {
	struct captures captures;
	struct profiler *profiler;
	const struct archive *archive; /* the profiler's, of which the captures are; only to be compared */
	uint64_t copied_at;	       /* CLOCK_MONOTONIC ns; 0: at once */
};

int capturer_new(struct capturer **ret, struct profiler *profiler)
{
	struct capturer *capturer = calloc(1, sizeof(*capturer));

	if (!capturer)
		return -ENOMEM;
	captures_init(&capturer->captures, 0);
	capturer->profiler = profiler;
	*ret = capturer;
	return 0;
}

struct capturer *capturer_free(struct capturer *capturer)
{
	if (!capturer)
		return NULL;
	captures_release(&capturer->captures);
	free(capturer);
	return NULL;
}

/* --- a higher rate */

static int raise_rate(struct profiler *profiler, const struct capture_order *order, const char *event,
		      struct reason *why)
{
	if (order->cgroup && order->cgroup_fd < 0)
		return reason_set(why, -1, "its directory can't be opened: %s", order->cgroup_problem);
	return profiler_raise(profiler, event, order->rate, order->cgroup_fd, order->id, why);
}

/* False: it was not raised. */
static bool lower_rate(struct profiler *profiler, struct capture *capture)
{
	int number = capture_take_raised(capture);

	if (number >= 0)
		profiler_lower(profiler, number);
	return number >= 0;
}

void capturer_pause(struct capturer *capturer)
{
	struct capture *capture = NULL;
	struct reason why;

	reason_set(&why, 0, "events were opened anew meanwhile");
	while ((capture = captures_next(&capturer->captures, capture)))
		if (lower_rate(capturer->profiler, capture))
			capture_set_raised(capture, -1, &why);
	capturer->copied_at = 0;
}

/* --- beginning */

static void begin_capture(struct capturer *capturer, struct capture *capture, const struct capture_order *order,
			  const char *event)
{
	struct reason why = {};

	if (order->rate)
		capture_set_raised(capture, raise_rate(capturer->profiler, order, event, &why), &why);
	captures_keep(&capturer->captures, order->rule, order->keep);
	capturer->copied_at = 0;
	log_notice("capture %s: %s%s%s", order->id, order->reason, why.text[0] ? "; its rate is not raised: " : "",
		   why.text);
}

int capturer_keep(struct capturer *capturer, const struct capture_order *order)
{
	/* Whole ms, and no later than it was: a step of the wall clock may come next. */
	uint64_t time = order->time - order->time % NS_PER_MS;
	struct capture_cause cause = {
		.rule = order->rule,
		.when = order->when,
		.cgroup = order->cgroup,
		.counter = order->counter,
		.unit = order->unit,
		.reason = order->reason,
		.value = order->value,
		.threshold = order->threshold,
		.time = time,
		.clock = order->clock,
		.from = time > order->before ? time - order->before : 0,
		.to = time + order->after,
		.save = order->save,
	};
	struct capture *capture;
	struct reason ignored;
	int r;

	if (order->cgroup && !profiler_admits(capturer->profiler, order->cgroup))
		return -EACCES;
	r = profiler_describe(capturer->profiler, order->event, &cause.measure, &cause.key, &ignored);
	if (r == 0)
		r = captures_add(&capturer->captures, order->id, &cause, &capture);
	if (r == 0)
		begin_capture(capturer, capture, order, cause.measure.event);
	return r;
}

/* --- samples */

static struct capture_source source_of(const struct profiler *profiler)
{
	return (struct capture_source){
		.archive = profiler_archive(profiler),
		.gaps = profiler_gaps(profiler),
		.drained = profiler_drained(profiler),
		.is_on = profiler_is_on(profiler),
	};
}

bool capturer_turn(struct capturer *capturer)
{
	const struct capture_source source = source_of(capturer->profiler);
	size_t room = captures_room(&capturer->captures);
	uint64_t now = clock_monotonic_ns();
	struct capture *capture = NULL;

	if (room == CAPTURES_RUNNING_MAX || now - capturer->copied_at < COPY_PAUSE_NS)
		return false;
	while ((capture = captures_next(&capturer->captures, capture)))
		if (capture_turn(&capturer->captures, capture, &source))
			lower_rate(capturer->profiler, capture);
	capturer->copied_at = now;
	if (captures_room(&capturer->captures) == room)
		return false;
	captures_trim(&capturer->captures);
	return true;
}

void capturer_finish(struct capturer *capturer)
{
	const struct capture_source source = source_of(capturer->profiler);
	struct capture *capture = NULL;

	while ((capture = captures_next(&capturer->captures, capture))) {
		capture_end(&capturer->captures, capture, &source);
		lower_rate(capturer->profiler, capture);
	}
}

/* --- other settings */

void capturer_use(struct capturer *capturer, const struct profiler_settings *settings)
{
	const struct archive *archive = profiler_archive(capturer->profiler);

	if (archive != capturer->archive)
		captures_release(&capturer->captures);
	capturer->archive = archive;
	captures_set_limit(&capturer->captures, (size_t)settings->capture_memory);
	/* Captures of a rule that is gone stay. */
	captures_keep(&capturer->captures, NULL, UINT64_MAX);
	for (size_t i = 0; i < settings->nr_keeps; i++)
		captures_keep(&capturer->captures, settings->keeps[i].rule, settings->keeps[i].nr);
}

struct captures *capturer_captures(struct capturer *capturer)
{
	return &capturer->captures;
}
