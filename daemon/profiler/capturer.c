/* SPDX-License-Identifier: MIT */

#include "profiler/capturer.h"

#include "base/util/clock.h"
#include "base/util/log.h"

#include <errno.h>
#include <string.h>

/* For this long a turn copies samples, for each capture: the rings are not to wait longer. */
#define COPY_NS (20 * NS_PER_MS)

/* Copying is worth while if it is not done all the time. */
#define COPY_PAUSE_NS (NS_PER_S / 4)

/* For so long a capture waits for the names of its functions. */
#define NAMES_WAIT_NS (30 * (uint64_t)NS_PER_S)

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

static void raise_rate(struct capture *capture, const struct capture_order *order, struct profiler *profiler)
{
	int number;

	if (order->cgroup && order->cgroup_fd < 0) {
		reason_set(&capture->raise_problem, 0, "its directory can't be opened: %s", order->cgroup_problem);
		return;
	}
	number = profiler_raise(profiler, capture->cause.measure.event, order->rate, order->cgroup_fd, capture->id,
				&capture->raise_problem);
	if (number < 0)
		return;
	capture->raised_number = number;
	capture->extract.finer = capture->id;
	capture->extract.finer_from = clock_monotonic_ns();
	capture->extract.finer_to = UINT64_MAX;
}

static void lower_rate(struct capture *capture, struct profiler *profiler)
{
	if (capture->raised_number < 0)
		return;
	profiler_lower(profiler, capture->raised_number);
	capture->raised_number = -1;
	capture->extract.finer_to = clock_monotonic_ns();
}

void capturer_pause(struct capturer *capturer)
{
	struct capture *capture = NULL;

	while ((capture = captures_next(&capturer->captures, capture))) {
		if (capture->raised_number < 0)
			continue;
		lower_rate(capture, capturer->profiler);
		reason_set(&capture->raise_problem, 0, "events were opened anew meanwhile");
	}
	capturer->copied_at = 0;
}

/* --- beginning */

static void begin_capture(struct capturer *capturer, struct capture *capture, const struct capture_order *order)
{
	const char *problem = capture->raise_problem.text;

	capture->disk = order->save ? CAPTURE_TO_BE_SAVED : CAPTURE_NOT_SAVED;
	if (order->rate)
		raise_rate(capture, order, capturer->profiler);
	captures_keep(&capturer->captures, order->rule, order->keep);
	capturer->copied_at = 0;
	log_notice("capture %s: %s%s%s", capture->id, capture->cause.reason,
		   problem[0] ? "; its rate is not raised: " : "", problem);
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
		begin_capture(capturer, capture, order);
	return r;
}

/* --- samples */

static void end_stretch(struct capture *capture, struct profiler *profiler, uint64_t now)
{
	lower_rate(capture, profiler);
	capture->state = CAPTURE_NAMING;
	capture->wait_until = now + NAMES_WAIT_NS;
}

/* true: there are more samples. */
static bool copy_samples(struct capture *capture, struct profiler *profiler)
{
	const struct clock_times times = clock_times_now();
	bool is_over = profiler_drained(profiler) >= capture->cause.to ||
		       (!profiler_is_on(profiler) && times.monotonic >= capture->cause.to);
	struct capture_cause *cause = &capture->cause;
	int r = extract_copy(&capture->extract, capture->archive, profiler_archive(profiler), COPY_NS);

	clock_steps_note(&cause->clock, &times);
	cause->measure.gaps = profiler_gaps(profiler, cause->from, cause->to);
	if (r == 0 && is_over)
		end_stretch(capture, profiler, times.monotonic);
	return r > 0;
}

static void finish_if_due(struct capturer *capturer, struct capture *capture, uint64_t now)
{
	if (extract_names(capture->archive, profiler_archive(capturer->profiler)) && now < capture->wait_until)
		return;
	captures_finish(&capturer->captures, capture);
}

bool capturer_turn(struct capturer *capturer)
{
	size_t room = captures_room(&capturer->captures);
	uint64_t now = clock_monotonic_ns();
	struct capture *capture = NULL;

	if (room == CAPTURES_RUNNING_MAX || now - capturer->copied_at < COPY_PAUSE_NS)
		return false;
	while ((capture = captures_next(&capturer->captures, capture)))
		if (capture->state == CAPTURE_RUNNING)
			copy_samples(capture, capturer->profiler);
		else if (capture->state == CAPTURE_NAMING)
			finish_if_due(capturer, capture, now);
	capturer->copied_at = now;
	if (captures_room(&capturer->captures) == room)
		return false;
	captures_trim(&capturer->captures);
	return true;
}

/* All that there is of a stretch that would go on. */
static void end_early(struct capture *capture, struct profiler *profiler, uint64_t now)
{
	now = archive_moment(now);
	if (capture->cause.to > now)
		capture->cause.to = capture->extract.to = now;
	while (copy_samples(capture, profiler))
		;
	lower_rate(capture, profiler);
}

void capturer_finish(struct capturer *capturer)
{
	uint64_t now = clock_monotonic_ns();
	struct capture *capture = NULL;

	while ((capture = captures_next(&capturer->captures, capture))) {
		if (capture->state == CAPTURE_FINISHED)
			continue;
		if (capture->state == CAPTURE_RUNNING)
			end_early(capture, capturer->profiler, now);
		(void)extract_names(capture->archive, profiler_archive(capturer->profiler));
		captures_finish(&capturer->captures, capture);
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
