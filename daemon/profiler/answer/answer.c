/* SPDX-License-Identifier: MIT */

#include "profiler/answer/answer.h"

#include "base/util/glob.h"
#include "profiler/answer/profile.h"

#include <errno.h>

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
		.by = question->form == PROFILE_FORM_PPROF ? question->by | PROFILE_BY_CGROUP | PROFILE_BY_COMMAND :
							     question->by,
		.nr_slots = question->form == PROFILE_FORM_HEAT ? question->columns * question->rows : 0,
	};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	int r;

	clock.now = question->clock.now;
	if (profile_question_stretch(question, &clock, &query.from, &query.to) < 0)
		return reason_set(why, -EINVAL, CLOCK_STEPS_REVERSED);
	r = samples->ask(samples->userdata, &query, &profile, &what.measure, why);
	if (r == 0) {
		what.profile = profile;
		what.reach = profile->oldest && profile->oldest < question->now ? question->now - profile->oldest : 0;
		r = write_document(out, question->form, &what);
	}
	return r == -ENOMEM ? reason_set(why, r, "out of memory") : r == -E2BIG ? reason_set(why, r, GLOB_TOO_LONG) : r;
}
