/* SPDX-License-Identifier: MIT */

#include "profiler/capture/captures.h"

#include "base/util/clock.h"
#include "profiler/answer/answer.h"

#include <errno.h>
#include <string.h>

/* For this long a turn copies samples, for each capture: the rings are not to wait longer. */
#define COPY_NS (20 * NS_PER_MS)

/* For so long a capture waits for the names of its functions. */
#define NAMES_WAIT_NS (30 * (uint64_t)NS_PER_S)

void captures_init(struct captures *captures, size_t limit)
{
	*captures = (struct captures){ .limit = limit };
	TAILQ_INIT(&captures->all);
}

/* --- one */

static void texts_release(struct capture_cause *cause)
{
	free((char *)cause->rule);
	free((char *)cause->when);
	free((char *)cause->cgroup);
	free((char *)cause->counter);
	free((char *)cause->reason);
	free((char *)cause->unit);
	free((char *)cause->measure.event);
	free((char *)cause->measure.unit);
	free((char *)cause->key);
	*cause = (struct capture_cause){};
}

static int copy_texts(struct capture_cause *ret, const struct capture_cause *cause)
{
	const struct {
		const char **to, *from;
	} texts[] = {
		{ &ret->rule, cause->rule },	 { &ret->when, cause->when },
		{ &ret->cgroup, cause->cgroup }, { &ret->counter, cause->counter },
		{ &ret->reason, cause->reason }, { &ret->measure.event, cause->measure.event },
		{ &ret->key, cause->key },	 { &ret->measure.unit, cause->measure.unit },
		{ &ret->unit, cause->unit },
	};
	int r = 0;

	*ret = *cause;
	/* Those of the profiler, which change. */
	ret->measure.events = NULL;
	ret->measure.problem = NULL;
	/* All of them are set, whether or not there is memory. */
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		*texts[i].to = texts[i].from ? strdup(texts[i].from) : NULL;
		if (texts[i].from && !*texts[i].to)
			r = -ENOMEM;
	}
	return r;
}

static struct capture *capture_free(struct capture *capture)
{
	if (!capture)
		return NULL;
	archive_free(capture->archive);
	texts_release(&capture->cause);
	free(capture->id);
	free(capture);
	return NULL;
}
DEFINE_CLEANUP(struct capture *, capture_free)

uint64_t capture_shown(const struct capture_cause *cause, uint64_t time)
{
	return clock_steps_shown(&cause->clock, clock_steps_moment(&cause->clock, time));
}

static int capture_new(struct capture **ret, const char *id, const struct capture_cause *cause, size_t limit)
{
	_cleanup_(capture_freep) struct capture *capture = calloc(1, sizeof(*capture));
	int r;

	if (!capture)
		return -ENOMEM;
	r = copy_texts(&capture->cause, cause);
	if (r == 0)
		r = archive_new(&capture->archive, limit);
	capture->id = strdup(id);
	capture->disk = cause->save ? CAPTURE_TO_BE_SAVED : CAPTURE_NOT_SAVED;
	capture->raised_number = -1;
	capture->keep = UINT64_MAX;
	if (r < 0 || !capture->id)
		return -ENOMEM;
	capture->extract = (struct extract){
		.event = capture->cause.key,
		.cgroup = capture->cause.cgroup,
		.as = capture->cause.measure.event,
		.from = cause->from,
		.to = cause->to,
	};
	*ret = steal_ptr(capture);
	return 0;
}

/* --- memory */

static size_t text_bytes(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

/* Beside the samples. */
static size_t overhead_bytes(const struct capture *capture)
{
	const struct capture_cause *cause = &capture->cause;

	return sizeof(*capture) + text_bytes(capture->id) + text_bytes(cause->rule) + text_bytes(cause->when) +
	       text_bytes(cause->cgroup) + text_bytes(cause->counter) + text_bytes(cause->reason) +
	       text_bytes(cause->unit) + text_bytes(cause->measure.event) + text_bytes(cause->measure.unit) +
	       text_bytes(cause->key);
}

size_t capture_bytes(const struct capture *capture)
{
	return overhead_bytes(capture) + archive_bytes(capture->archive);
}

/* The most that a capture may take that is not finished. */
static size_t reserved_bytes(const struct capture *capture)
{
	return overhead_bytes(capture) + archive_stats(capture->archive).limit;
}

size_t captures_bytes(const struct captures *captures)
{
	const struct capture *capture;
	size_t sum = 0;

	TAILQ_FOREACH(capture, &captures->all, in_all)
		sum += capture->state == CAPTURE_FINISHED ? capture_bytes(capture) : reserved_bytes(capture);
	return sum;
}

static void drop_capture(struct captures *captures, struct capture *capture)
{
	TAILQ_REMOVE(&captures->all, capture, in_all);
	captures->nr--;
	captures->nr_unfinished -= capture->state != CAPTURE_FINISHED;
	capture_free(capture);
}

static struct capture *oldest_finished(const struct captures *captures, bool to_be_saved)
{
	struct capture *capture;

	TAILQ_FOREACH(capture, &captures->all, in_all)
		if (capture->state == CAPTURE_FINISHED && (to_be_saved || capture->disk != CAPTURE_TO_BE_SAVED))
			break;
	return capture;
}

/* False: there is no room for so many bytes more, even without the finished captures. */
static bool make_room(struct captures *captures, size_t bytes)
{
	while (captures_bytes(captures) + bytes > captures->limit) {
		struct capture *oldest = oldest_finished(captures, false) ?: oldest_finished(captures, true);

		if (!oldest)
			return false;
		drop_capture(captures, oldest);
		captures->dropped++;
	}
	return true;
}

void captures_release(struct captures *captures)
{
	struct capture *capture;

	while ((capture = TAILQ_FIRST(&captures->all)))
		drop_capture(captures, capture);
}

/* Those that run keep what they were given. */
void captures_set_limit(struct captures *captures, size_t limit)
{
	captures->limit = limit;
	(void)make_room(captures, 0);
}

size_t captures_room(const struct captures *captures)
{
	return CAPTURES_RUNNING_MAX - captures->nr_unfinished;
}

int captures_add(struct captures *captures, const char *id, const struct capture_cause *cause, struct capture **ret)
{
	size_t limit = captures->limit / CAPTURE_SHARE;
	struct capture *capture;
	int r;

	if (captures_find(captures, id))
		return -EEXIST;
	if (!captures_room(captures))
		return -EBUSY;
	r = capture_new(&capture, id, cause, limit);
	if (r < 0)
		return r;
	if (!make_room(captures, reserved_bytes(capture))) {
		capture_free(capture);
		return -EBUSY;
	}
	captures->nr++;
	captures->nr_unfinished++;
	TAILQ_INSERT_TAIL(&captures->all, capture, in_all);
	*ret = capture;
	return 0;
}

void captures_finish(struct captures *captures, struct capture *capture)
{
	captures->nr_unfinished -= capture->state != CAPTURE_FINISHED;
	capture->state = CAPTURE_FINISHED;
}

static uint64_t nr_of_rule(const struct captures *captures, const char *rule)
{
	const struct capture *capture;
	uint64_t nr = 0;

	TAILQ_FOREACH(capture, &captures->all, in_all)
		nr += strcmp(capture->cause.rule, rule) == 0;
	return nr;
}

void captures_trim(struct captures *captures)
{
	struct capture *capture, *next;

	for (capture = TAILQ_FIRST(&captures->all); capture; capture = next) {
		next = TAILQ_NEXT(capture, in_all);
		if (capture->state != CAPTURE_FINISHED || capture->disk == CAPTURE_TO_BE_SAVED ||
		    captures->nr <= capture->keep || nr_of_rule(captures, capture->cause.rule) <= capture->keep)
			continue;
		drop_capture(captures, capture);
		captures->dropped++;
	}
}

void captures_keep(struct captures *captures, const char *rule, uint64_t keep)
{
	struct capture *capture;

	TAILQ_FOREACH(capture, &captures->all, in_all)
		if (!rule || strcmp(capture->cause.rule, rule) == 0)
			capture->keep = keep;
	captures_trim(captures);
}

struct capture *captures_next(const struct captures *captures, const struct capture *capture)
{
	return capture ? TAILQ_NEXT(capture, in_all) : TAILQ_FIRST(&captures->all);
}

struct capture *captures_find(const struct captures *captures, const char *id)
{
	struct capture *capture;

	TAILQ_FOREACH(capture, &captures->all, in_all)
		if (strcmp(capture->id, id) == 0)
			break;
	return capture;
}

int captures_describe(const struct captures *captures, struct profiler_state *state)
{
	const struct capture *capture;

	state->captures = calloc(captures->nr + 1, sizeof(*state->captures));
	if (!state->captures)
		return -ENOMEM;
	TAILQ_FOREACH(capture, &captures->all, in_all)
		state->captures[state->nr_captures++] = capture->id;
	state->room = captures_room(captures);
	state->stats.captures = captures->nr;
	state->stats.capture_bytes = captures_bytes(captures);
	state->stats.captures_dropped = captures->dropped;
	return 0;
}

/* --- samples */

/* True: there are more samples. */
static bool copy_samples(struct capture *capture, const struct capture_source *source)
{
	const struct clock_times times = clock_times_now();
	struct capture_cause *cause = &capture->cause;
	bool is_over = source->drained >= cause->to || (!source->is_on && times.monotonic >= cause->to);
	int r = extract_copy(&capture->extract, capture->archive, source->archive, COPY_NS);

	clock_steps_note(&cause->clock, &times);
	cause->measure.gaps = archive_gaps_between(source->gaps, cause->from, cause->to);
	if (r == 0 && is_over) {
		capture->state = CAPTURE_NAMING;
		capture->wait_until = times.monotonic + NAMES_WAIT_NS;
	}
	return r > 0;
}

bool capture_turn(struct captures *captures, struct capture *capture, const struct capture_source *source)
{
	if (capture->state == CAPTURE_RUNNING)
		copy_samples(capture, source);
	else if (capture->state == CAPTURE_NAMING &&
		 (!extract_names(capture->archive, source->archive) || clock_monotonic_ns() >= capture->wait_until))
		captures_finish(captures, capture);
	return capture->state != CAPTURE_RUNNING;
}

void capture_end(struct captures *captures, struct capture *capture, const struct capture_source *source)
{
	uint64_t now = archive_moment(clock_monotonic_ns());

	if (capture->state == CAPTURE_FINISHED)
		return;
	if (capture->state == CAPTURE_RUNNING) {
		if (capture->cause.to > now)
			capture->cause.to = capture->extract.to = now;
		while (copy_samples(capture, source))
			;
	}
	(void)extract_names(capture->archive, source->archive);
	captures_finish(captures, capture);
}

void capture_set_raised(struct capture *capture, int number, const struct reason *why)
{
	capture->raised_number = number;
	if (number < 0) {
		capture->raise_problem = *why;
		return;
	}
	capture->extract.finer = capture->id;
	capture->extract.finer_from = clock_monotonic_ns();
	capture->extract.finer_to = UINT64_MAX;
}

int capture_take_raised(struct capture *capture)
{
	int number = capture->raised_number;

	if (number >= 0)
		capture->extract.finer_to = clock_monotonic_ns();
	capture->raised_number = -1;
	return number;
}

/* --- on disk */

const struct capture *captures_to_save(const struct captures *captures)
{
	const struct capture *capture;

	TAILQ_FOREACH(capture, &captures->all, in_all)
		if (capture->state == CAPTURE_FINISHED && capture->disk == CAPTURE_TO_BE_SAVED)
			break;
	return capture;
}

void captures_saved(struct captures *captures, const char *id, const char *problem)
{
	struct capture *capture = captures_find(captures, id);

	if (!capture)
		return;
	capture->disk = problem[0] ? CAPTURE_SAVE_FAILED : CAPTURE_SAVED;
	reason_set(&capture->disk_problem, 0, "%s", problem);
	captures_trim(captures);
}

/* --- questions */

size_t capture_samples(const struct capture *capture)
{
	return archive_stats(capture->archive).nr;
}

size_t capture_samples_dropped(const struct capture *capture)
{
	const struct archive_stats stats = archive_stats(capture->archive);

	return stats.samples + stats.dropped - stats.nr;
}

int capture_ask(const struct capture *capture, const struct profile_query *query, struct profile **ret,
		struct profile_measure *ret_measure)
{
	const struct capture_cause *cause = &capture->cause;
	struct profile_query whole = *query;

	*ret_measure = cause->measure;
	if (ret_measure->since < cause->from)
		ret_measure->since = cause->from;
	whole.event = cause->measure.event;
	whole.since = ret_measure->since;
	if (whole.from < whole.since)
		whole.from = whole.since;
	if (whole.to > cause->to)
		whole.to = cause->to;
	if (whole.to < whole.from)
		whole.to = whole.from;
	return profile_new(ret, capture->archive, &whole);
}

static int ask_samples(const void *userdata, const struct profile_query *query, struct profile **ret,
		       struct profile_measure *ret_measure, struct reason *why)
{
	(void)why;
	return capture_ask(userdata, query, ret, ret_measure);
}

int capture_answer(struct buf *out, const struct capture *capture, const struct profile_question *question,
		   struct reason *why)
{
	const struct answer_samples samples = {
		.ask = ask_samples,
		.userdata = capture,
		.clock = &capture->cause.clock,
	};

	return answer_question(out, question, &samples, why);
}
