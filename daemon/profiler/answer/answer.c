/* SPDX-License-Identifier: MIT */

#include "profiler/answer/answer.h"

#include "base/util/glob.h"
#include "profiler/answer/profile.h"

#include <errno.h>

/* Nothing is later than now. */
static uint64_t monotonic_of(const struct profile_question *question, const struct clock_steps *clock, uint64_t moment)
{
	uint64_t time = clock_steps_monotonic(clock, moment);

	return time < question->now ? time : question->now;
}

static int take_stretch(struct profile_query *query, const struct profile_question *question,
			const struct clock_steps *clock, struct reason *why)
{
	uint64_t from, to;
	int r = clock_steps_stretch(clock, &question->from, &question->to, &from, &to);

	query->from = question->now > question->last ? question->now - question->last : 0;
	query->to = question->now;
	if (r == 0 && question->from.kind)
		query->from = monotonic_of(question, clock, from);
	if (r == 0 && question->to.kind)
		query->to = monotonic_of(question, clock, to);
	return r < 0 || query->from > query->to ? reason_set(why, -EINVAL, CLOCK_STEPS_REVERSED) : 0;
}

static int write_document(struct buf *out, enum profile_form form, const struct expose_profile *what)
{
	static int (*const writers[])(struct buf * out, const struct expose_profile *what) = {
		[PROFILE_FORM_TREE] = expose_profile_json,   [PROFILE_FORM_TOP] = expose_profile_top,
		[PROFILE_FORM_HEAT] = expose_profile_heat,   [PROFILE_FORM_FOLDED] = expose_profile_folded,
		[PROFILE_FORM_PPROF] = expose_profile_pprof, [PROFILE_FORM_SPEEDSCOPE] = expose_profile_speedscope,
	};

	return writers[form](out, what);
}

int answer_question(struct buf *out, const struct profile_question *question, const struct answer_samples *samples,
		    struct reason *why)
{
	struct clock_steps clock = *samples->clock;
	struct expose_profile what = {
		.clock = &clock,
		.min = question->min,
		.limit = question->limit,
		.top_by = question->top_by,
		.columns = question->columns,
		.rows = question->rows,
	};
	struct profile_query query = {
		.cgroup = question->cgroup,
		.command = question->command,
		.below = question->below,
		.by = question->form == PROFILE_FORM_PPROF ? PROFILE_BY_CGROUP | PROFILE_BY_COMMAND : question->by,
		.nr_slots = question->form == PROFILE_FORM_HEAT ? question->columns * question->rows : 0,
	};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r;

	clock.now = question->clock.now;
	r = take_stretch(&query, question, &clock, why);
	if (r == 0)
		r = samples->ask(samples->userdata, &query, &profile, &what.measure, why);
	if (r == 0) {
		what.profile = profile;
		what.reach = profile->oldest && profile->oldest < question->now ? question->now - profile->oldest : 0;
		r = write_document(out, question->form, &what);
	}
	return r == -ENOMEM ? reason_set(why, r, "out of memory") : r == -E2BIG ? reason_set(why, r, GLOB_TOO_LONG) : r;
}
