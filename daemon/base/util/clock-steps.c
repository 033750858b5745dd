/* SPDX-License-Identifier: MIT */

#include "base/util/clock-steps.h"

#include <errno.h>
#include <string.h>

static const struct clock_step nothing = {};

/* The i-th step; without any, clocks are the same. */
static const struct clock_step *step_at(const struct clock_steps *steps, size_t i)
{
	return steps->nr ? &steps->items[i] : &nothing;
}

static size_t last_step(const struct clock_steps *steps)
{
	return steps->nr ? steps->nr - 1 : 0;
}

static bool has_stepped(uint64_t before, uint64_t now)
{
	return now - before > CLOCK_STEP_NS && before - now > CLOCK_STEP_NS;
}

static void append_step(struct clock_steps *steps, const struct clock_step *step)
{
	if (steps->nr == CLOCK_STEPS_MAX)
		memmove(&steps->items[0], &steps->items[1], --steps->nr * sizeof(*step));
	steps->items[steps->nr++] = *step;
}

void clock_steps_note(struct clock_steps *steps, const struct clock_times *now)
{
	const struct clock_step step = {
		.after = steps->now,
		.seen = now->boottime,
		.shown = now->realtime - now->boottime,
		.suspended = now->boottime - now->monotonic,
	};
	struct clock_step *last = &steps->items[last_step(steps)];

	steps->now = now->boottime;
	if (!steps->nr || has_stepped(last->shown, step.shown) || has_stepped(last->suspended, step.suspended)) {
		append_step(steps, &step);
		return;
	}
	last->shown = step.shown;
	last->suspended = step.suspended;
}

uint64_t clock_steps_suspended(const struct clock_steps *steps)
{
	return step_at(steps, last_step(steps))->suspended;
}

/* The time of CLOCK_MONOTONIC at the i-th step, which is not the first. */
static uint64_t monotonic_at(const struct clock_steps *steps, size_t i)
{
	return steps->items[i].after - steps->items[i - 1].suspended;
}

uint64_t clock_steps_moment(const struct clock_steps *steps, uint64_t monotonic)
{
	size_t i = last_step(steps);

	while (i > 0 && monotonic <= monotonic_at(steps, i))
		i--;
	return monotonic + step_at(steps, i)->suspended;
}

/* The part of the time that the moment is in. */
static size_t find_part(const struct clock_steps *steps, uint64_t moment)
{
	size_t i = last_step(steps);

	while (i > 0 && moment <= steps->items[i].after)
		i--;
	return i;
}

uint64_t clock_steps_monotonic(const struct clock_steps *steps, uint64_t moment)
{
	size_t i = find_part(steps, moment);
	uint64_t suspended = step_at(steps, i)->suspended, monotonic = moment > suspended ? moment - suspended : 0;

	return i > 0 && monotonic < monotonic_at(steps, i) ? monotonic_at(steps, i) : monotonic;
}

uint64_t clock_steps_shown(const struct clock_steps *steps, uint64_t moment)
{
	return moment + step_at(steps, find_part(steps, moment))->shown;
}

/* --- what a user means */

/* The moment at which the i-th part of the time ends: the next step, or now. */
static uint64_t part_end(const struct clock_steps *steps, size_t i)
{
	return i < last_step(steps) ? steps->items[i + 1].after : steps->now;
}

/* The wall times that the i-th part begins and ends with. Nobody knows when the first began. Between the readings
 * around a step the clock may have shown times of both parts. */
static uint64_t first_shown(const struct clock_steps *steps, size_t i)
{
	return i ? steps->items[i].after + steps->items[i].shown : 0;
}

static uint64_t last_shown(const struct clock_steps *steps, size_t i)
{
	uint64_t end = i < last_step(steps) ? steps->items[i + 1].seen : steps->now;

	return end + step_at(steps, i)->shown;
}

/* The latest moment that showed the time. */
static bool find_shown(const struct clock_steps *steps, uint64_t time, uint64_t *ret)
{
	for (size_t i = last_step(steps) + 1; i-- > 0;) {
		uint64_t end = part_end(steps, i), shown = end + step_at(steps, i)->shown;

		if (time < first_shown(steps, i) || time > last_shown(steps, i))
			continue;
		*ret = time >= shown ? end : shown - time < end ? end - (shown - time) : 0;
		return true;
	}
	return false;
}

/* The latest step past the time, forward. */
static bool find_step(const struct clock_steps *steps, uint64_t time, uint64_t *ret)
{
	for (size_t i = last_step(steps); i > 0; i--) {
		if (time < last_shown(steps, i - 1) || time > first_shown(steps, i))
			continue;
		*ret = steps->items[i].after;
		return true;
	}
	return false;
}

/* As the user has said it, as a wall time. */
static uint64_t asked_time(const struct clock_steps *steps, const struct moment *moment)
{
	uint64_t now = last_shown(steps, last_step(steps));

	if (moment->kind == MOMENT_SINCE_EPOCH)
		return moment->ns;
	return moment->ns < now ? now - moment->ns : 0;
}

static uint64_t find_moment(const struct clock_steps *steps, const struct moment *moment)
{
	uint64_t ret;

	if (moment->kind == MOMENT_AGO)
		return moment->ns < steps->now ? steps->now - moment->ns : 0;
	if (find_shown(steps, moment->ns, &ret) || find_step(steps, moment->ns, &ret))
		return ret;
	return UINT64_MAX;
}

int clock_steps_stretch(const struct clock_steps *steps, const struct moment *from, const struct moment *to,
			uint64_t *ret_from, uint64_t *ret_to)
{
	uint64_t first = from->kind ? find_moment(steps, from) : 0;
	uint64_t last = to->kind ? find_moment(steps, to) : UINT64_MAX;
	bool reversed = from->kind && to->kind && asked_time(steps, from) > asked_time(steps, to);

	if (reversed && first >= last)
		return -EINVAL;
	/* The time of `to` has not been reached since that of `from`. */
	*ret_to = first > last ? UINT64_MAX : last;
	*ret_from = first;
	return 0;
}
