/* SPDX-License-Identifier: MIT */

#include "profiler/capturer.h"

#include "base/util/clock.h"

#include <errno.h>
#include <string.h>

/* For this long a turn copies samples, for each capture. */
#define COPY_NS (2 * NS_PER_MS)

/* Copying is worth while if it is not done all the time. */
#define COPY_PAUSE_NS (NS_PER_S / 4)

/* For so long a capture waits for the names of its functions. */
#define SETTLE_NS (30 * (uint64_t)NS_PER_S)

struct capturer {
	struct captures captures;
	const struct archive *archive; /* the profiler's, of which the captures are; only to be compared */
	uint64_t copied_at;	       /* CLOCK_MONOTONIC ns; 0: at once */
	struct reason news;
};

int capturer_new(struct capturer **ret)
{
	struct capturer *capturer = calloc(1, sizeof(*capturer));

	if (!capturer)
		return -ENOMEM;
	captures_init(&capturer->captures, 0);
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

static void raise_rate(struct capture *capture, const struct capture_order *order, const struct capturer_world *world)
{
	int number;

	if (order->cgroup && order->cgroup_fd < 0) {
		reason_set(&capture->raise_problem, 0, "its directory can't be opened: %s", order->cgroup_problem);
		return;
	}
	number = profiler_raise(world->profiler, capture->cause.measure.event, order->rate, order->cgroup_fd,
				capture->id, &capture->raise_problem);
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

void capturer_pause(struct capturer *capturer, struct profiler *profiler)
{
	struct capture *capture;

	TAILQ_FOREACH(capture, &capturer->captures.all, in_all) {
		if (capture->raised_number < 0)
			continue;
		lower_rate(capture, profiler);
		reason_set(&capture->raise_problem, 0, "events were opened anew meanwhile");
	}
	capturer->copied_at = 0;
}

/* --- beginning */

static void begin_capture(struct capturer *capturer, struct capture *capture, const struct capture_order *order,
			  const struct capturer_world *world)
{
	struct reason before = capturer->news;

	capture->disk = order->save ? CAPTURE_TO_BE_SAVED : CAPTURE_NOT_SAVED;
	if (order->rate)
		raise_rate(capture, order, world);
	captures_keep(&capturer->captures, order->rule, order->keep);
	capturer->copied_at = 0;
	reason_set(&capturer->news, 0, "%s%scapture %s: %s%s%s", before.text, before.text[0] ? "; " : "", capture->id,
		   capture->cause.reason, capture->raise_problem.text[0] ? "; its rate is not raised: " : "",
		   capture->raise_problem.text);
}

int capturer_keep(struct capturer *capturer, const struct capture_order *order, const struct capturer_world *world)
{
	uint64_t time = archive_moment(order->time);
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

	if (order->cgroup && !profiler_admits(world->profiler, order->cgroup))
		return -EACCES;
	r = profiler_describe(world->profiler, order->event, &cause.measure, &cause.key, &ignored);
	if (r == 0)
		r = captures_add(&capturer->captures, order->id, &cause, &capture);
	if (r == 0)
		begin_capture(capturer, capture, order, world);
	return r;
}

/* --- samples */

static void end_stretch(struct capture *capture, struct profiler *profiler, uint64_t now)
{
	lower_rate(capture, profiler);
	capture->state = CAPTURE_SETTLING;
	capture->settle_until = now + SETTLE_NS;
}

/* true: there are more samples. */
static bool copy_samples(struct capture *capture, const struct capturer_world *world)
{
	uint64_t drained = profiler_drained(world->profiler);
	struct capture_cause *cause = &capture->cause;
	int r = extract_copy(&capture->extract, capture->archive, profiler_archive(world->profiler), COPY_NS);

	cause->clock = *world->clock;
	cause->measure.gaps = profiler_gaps(world->profiler, cause->from, cause->to);
	if (r == 0 && drained >= cause->to)
		end_stretch(capture, world->profiler, drained);
	return r > 0;
}

static void settle(struct capturer *capturer, struct capture *capture, const struct capturer_world *world, uint64_t now)
{
	if (extract_names(capture->archive, profiler_archive(world->profiler)) && now < capture->settle_until)
		return;
	captures_settle(&capturer->captures, capture);
}

void capturer_turn(struct capturer *capturer, const struct capturer_world *world)
{
	size_t unsettled = capturer->captures.nr_unsettled;
	uint64_t now = clock_monotonic_ns();
	struct capture *capture;
	bool more = false;

	if (!world->profiler || !unsettled || (capturer->copied_at && now - capturer->copied_at < COPY_PAUSE_NS))
		return;
	TAILQ_FOREACH(capture, &capturer->captures.all, in_all)
		if (capture->state == CAPTURE_RUNNING)
			more |= copy_samples(capture, world);
		else if (capture->state == CAPTURE_SETTLING)
			settle(capturer, capture, world, now);
	if (capturer->captures.nr_unsettled < unsettled)
		captures_trim(&capturer->captures);
	capturer->copied_at = more ? 0 : now;
}

/* All that there is of a stretch that would go on. */
static void end_early(struct capture *capture, const struct capturer_world *world, uint64_t now)
{
	now = archive_moment(now);
	if (capture->cause.to > now)
		capture->cause.to = capture->extract.to = now;
	while (copy_samples(capture, world))
		;
	lower_rate(capture, world->profiler);
}

void capturer_finish(struct capturer *capturer, const struct capturer_world *world)
{
	uint64_t now = clock_monotonic_ns();
	struct capture *capture;

	TAILQ_FOREACH(capture, &capturer->captures.all, in_all) {
		if (!world->profiler || capture->state == CAPTURE_KEPT)
			continue;
		if (capture->state == CAPTURE_RUNNING)
			end_early(capture, world, now);
		(void)extract_names(capture->archive, profiler_archive(world->profiler));
		captures_settle(&capturer->captures, capture);
	}
}

/* --- a reload */

void capturer_use(struct capturer *capturer, size_t limit, const struct profiler *profiler)
{
	const struct archive *archive = profiler ? profiler_archive(profiler) : NULL;

	if (archive != capturer->archive)
		captures_release(&capturer->captures);
	capturer->archive = archive;
	captures_set_limit(&capturer->captures, limit);
}

/* --- questions */

void capturer_news(struct capturer *capturer, struct reason *news)
{
	*news = capturer->news;
	capturer->news.text[0] = '\0';
}

struct captures *capturer_captures(struct capturer *capturer)
{
	return &capturer->captures;
}

void capturer_stats(const struct capturer *capturer, struct profiler_stats *ret)
{
	ret->captures = capturer->captures.nr;
	ret->capture_bytes = captures_bytes(&capturer->captures);
	ret->captures_dropped = capturer->captures.dropped;
}
