/* SPDX-License-Identifier: MIT */

#include "counting/engine/perf/group.h"

#include "base/util/clock.h"
#include "counting/engine/account.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>

/* Over less than some of the PMU's turns (kernel: perf_event_mux_interval_ms, 4 ms), the share of time that a group
 * ran is not that of its counts: totals came out 5 % low at 10 ms, and right from 50 ms on. For a CPU that is time that
 * has passed. A cgroup may hardly run, so that for a clocked group it is time that it was observed, on its CPU. */
#define BRIEF_NS 50000000U

/* More than a turn. A clocked group that is closed is not observed any longer: so much is enough where others of its
 * row have been scaled before, and the rest of the row's life is not lost. The same of a cgroup that has not run for
 * QUIET_NS, and may not run for long. */
#define BRIEF_LAST_NS 5000000U
#define QUIET_NS 1000000000U

/* From so many readings in a row that can't be true, none is going to come true: the baseline is given up. */
#define REFUSALS_MAX 3

/* Between two readings of a CPU that are so far apart, its time has gone on. */
#define STILL_NS 10000000U

/* A group is read some time after the clock is, and the two clocks differ. A time_enabled that is wrong is
 * so by the machine's uptime. */
#define CLOCK_SLACK_NS 1000000000U

/* The clock in a group and its cycles are read one after the other, perhaps with an interrupt in between. */
#define CYCLES_SLACK_NS 1000000U

/* Members before their leader: closing a leader first would make events of their own of them. */
void perf_group_close_by(struct perf_group *group, size_t nr, struct async_close *closer, struct engine_stats *stats)
{
	for (size_t i = nr; i-- > 0;) {
		stats->fds -= group->fds[i] >= 0;
		stats->changes += group->fds[i] >= 0;
		async_close_submit(closer, steal_fd(&group->fds[i]));
	}
}

void perf_group_close(struct perf_group *group, size_t nr, struct engine_stats *stats)
{
	perf_group_close_by(group, nr, NULL, stats);
}

int perf_group_open(struct perf_group *group, const struct scope_plan *plan, const struct set *set, int cgroup_fd,
		    struct engine_stats *stats, size_t *ret_at)
{
	size_t nr = set_nr_events(plan, set);
	int r = 0;

	for (size_t i = 0; i < nr; i++) {
		struct perf_event_attr attr;
		size_t at = set_nth_opened(plan, set, i);
		const struct event *event = set_event(plan, set, at, &attr);
		int fd = perf_open(event, &attr, group->cpu, cgroup_fd, i ? group->fds[0] : -1);

		*ret_at = at;
		r = fd;
		if (fd < 0)
			break;
		group->fds[at] = fd;
		stats->fds++;
		stats->changes++;
		r = ioctl(fd, PERF_EVENT_IOC_ID, &group->ids[at]) < 0 ? -errno : 0;
		if (r < 0)
			break;
	}
	group->offline = r == -ENODEV;
	if (r < 0)
		perf_group_close(group, nr, stats);
	return r < 0 ? r : 0;
}

void perf_group_start(struct perf_group *group, uint64_t now)
{
	/* It has no error that a group just opened could have; one that does not start is never seen to run. */
	if (perf_group_is_open(group))
		(void)perf_enable_group(group->fds[0]);
	group->base_at = group->moved_at = now;
	/* Opening others can have taken long since `now`. */
	group->read_at = clock_monotonic_ns();
	group->started = true;
}

void perf_group_move(struct perf_group *to, struct perf_group *from, size_t nr)
{
	struct perf_group own = *to;

	*to = *from;
	to->row = own.row;
	to->fds = own.fds;
	to->ids = own.ids;
	to->base.values = own.base.values;
	memcpy(to->ids, from->ids, nr * sizeof(*to->ids));
	memcpy(to->base.values, from->base.values, nr * sizeof(*to->base.values));
	for (size_t i = 0; i < nr; i++)
		to->fds[i] = steal_fd(&from->fds[i]);
	from->dead = true;
}

/* Puts a reading's values into the order of fds, by the kernel's ids. It returns members in the order in
 * which they were opened, so that the first look is at the right place. */
static bool sort_values(const struct perf_group *group, size_t nr, const uint64_t *pairs, uint64_t *values)
{
	for (size_t i = 0; i < nr; i++) {
		size_t k = i, tries = nr;

		while (tries && pairs[2 * k + 1] != group->ids[i]) {
			k = (k + 1) % nr;
			tries--;
		}
		if (!tries)
			return false;
		values[i] = pairs[2 * k];
	}
	return true;
}

/* A pinned group that does not get its counters is in error state, and read(2) is at the end of file. Enabling it
 * tries it again. The next values are no reading yet: a group of a cgroup that is not on the CPU is enabled in any
 * case, and did not count meanwhile. */
static int perf_group_starves(struct perf_group *group, struct reason *why)
{
	group->starved = true;
	return account_explain_starved(why, group->cpu);
}

static int wrong_group(const struct perf_group *group, struct reason *why)
{
	return reason_set(why, -EBADMSG, "reading on CPU %d: the kernel returned another group than was opened",
			  group->cpu);
}

/* The words that read(2) returns for a single event, or a former member of a group: nr, enabled, running, value, id. */
#define ALONE 5

static bool is_alone(const uint64_t *buffer, ssize_t n, uint64_t id)
{
	return n == (ssize_t)(ALONE * sizeof(uint64_t)) && buffer[0] == 1 && buffer[4] == id;
}

/* A group that has been taken apart, whose leader is in buffer: the others are read one by one, for the last time. */
static int read_apart(struct perf_group *group, size_t nr, const uint64_t *buffer, uint64_t *values, struct reason *why)
{
	uint64_t alone[ALONE];

	values[0] = buffer[3];
	for (size_t i = 1; i < nr; i++) {
		if (!is_alone(alone, read(group->fds[i], alone, sizeof(alone)), group->ids[i]))
			return wrong_group(group, why);
		values[i] = alone[3];
	}
	group->dead = true;
	return 0;
}

/* perf_event_open(2), "Reading results", with all of our read format: nr, enabled, running, (value, id)… */
static int perf_group_read(struct perf_group *group, size_t nr, uint64_t *buffer, struct reading *ret,
			   struct reason *why)
{
	size_t size = (3 + 2 * nr) * sizeof(uint64_t);
	uint64_t *values = buffer + 3 + 2 * nr;
	ssize_t n = read(group->fds[0], buffer, size);
	int r = 0;

	if (n < 0)
		return reason_set(why, -errno, "reading on CPU %d: %s", group->cpu, strerror(errno));
	if (n == 0) {
		(void)perf_enable_group(group->fds[0]);
		return perf_group_starves(group, why);
	}
	if (nr > 1 && is_alone(buffer, n, group->ids[0]))
		r = read_apart(group, nr, buffer, values, why);
	else if ((size_t)n != size || buffer[0] != nr || !sort_values(group, nr, buffer + 3, values))
		r = wrong_group(group, why);
	if (r < 0)
		return r;

	*ret = (struct reading){
		.enabled = buffer[1],
		.running = buffer[2],
		.clocked = group->clocked,
		.clock = group->clocked ? values[nr - 1] : 0,
		.values = values,
	};
	if (group->starved && (group->clocked ? ret->clock <= group->clock : ret->running <= group->running))
		return perf_group_starves(group, why);
	group->starved = false;
	return 0;
}

bool perf_group_look(struct perf_group *group, size_t nr, uint64_t *buffer, struct baseline *ret)
{
	struct reading now;
	struct reason why;

	if (perf_group_read(group, nr, buffer, &now, &why) < 0)
		return false;
	baseline_move(ret, &now, nr - group->clocked);
	return true;
}

/* The time that went by, or as much as there can have been. */
static uint64_t bound_time(uint64_t from, uint64_t to, uint64_t elapsed)
{
	uint64_t delta = to > from ? to - from : 0;

	return delta <= elapsed + CLOCK_SLACK_NS ? delta : elapsed;
}

static struct account own_account(const struct perf_group *group, const struct reading_context *context)
{
	struct account own = context->own;

	own.row = group->row;
	return own;
}

/* The time that a clocked group ran since the last reading. Where the enabled time lags, the rest of the clock's time
 * is left until it has caught up. */
static uint64_t take_clock(struct perf_group *group, const struct reading *now, uint64_t elapsed, uint64_t enabled,
			   uint64_t running, bool *doubtful)
{
	uint64_t clock = bound_time(group->clock, now->clock, elapsed);

	*doubtful |= times_are_false(enabled, running, clock);
	group->clock = now->clock;
	if (ran_always(enabled, running, clock, *doubtful))
		return enabled;
	if (!*doubtful)
		return running;
	if (clock > enabled)
		group->clock -= clock - enabled;
	return clock;
}

/* Does it count no more? Otherwise its enabled time goes on from one read(2) to the next. */
static bool has_stopped(const struct perf_group *group, size_t nr, uint64_t *buffer, uint64_t enabled)
{
	return read(group->fds[0], buffer, (3 + 2 * nr) * sizeof(*buffer)) <= 0 || buffer[1] == enabled;
}

/* Adds to the times that are exposed. recovered: it was in error state at the last reading, in which it has no time. */
static void add_times(struct perf_group *group, const struct reading *now, const struct reading_context *context,
		      bool recovered)
{
	const struct account own = own_account(group, context);
	uint64_t elapsed = context->at > group->read_at ? context->at - group->read_at : 0;
	uint64_t enabled = bound_time(group->enabled, now->enabled, elapsed);
	uint64_t running = bound_time(group->running, now->running, elapsed);

	if (group->clocked)
		running = take_clock(group, now, elapsed, enabled, running, context->doubtful);
	running = running < enabled ? running : enabled;
	account_add_times(&own, enabled, running);
	account_add_times(&context->also, enabled, running);
	if (context->level)
		perf_level_add_times(context->level, enabled, running, context->at);
	if (context->all)
		perf_level_add_times(context->all, enabled, running, context->at);
	if (elapsed > STILL_NS)
		group->still = now->enabled == group->enabled;
	/* Only a CPU's time goes on all the time. */
	if (group->row->scope == SCOPE_CPU && !recovered && time_is_missing(enabled, elapsed) &&
	    has_stopped(group, account_set(&own)->nr + group->clocked, context->buffer, now->enabled))
		account_note_missing_time(&own);
	if (now->enabled != group->enabled)
		group->moved_at = context->at;
	group->enabled = now->enabled;
	group->running = now->running;
	/* The moment of this reading: others may have come long before it. */
	group->read_at = group->row->scope == SCOPE_CPU ? clock_monotonic_ns() : context->at;
}

/* --- readings that can't be true */

static uint64_t count_at_most(uint64_t hz, uint64_t ns)
{
	unsigned __int128 most = (unsigned __int128)hz * ((unsigned __int128)ns + CYCLES_SLACK_NS) / 1000000000U;

	return most > UINT64_MAX ? UINT64_MAX : (uint64_t)most;
}

/* The time in which the group can have counted what is estimated now. */
static uint64_t find_longest(const struct perf_group *group, const struct reading *now)
{
	uint64_t from = group->clocked ? group->base.clock : group->base.running;
	uint64_t to = group->clocked ? now->clock : now->running, enabled = now->enabled - group->base.enabled;

	if (now->enabled < group->base.enabled || to <= from || enabled > now->most)
		return now->most;
	return to - from > enabled ? to - from : enabled;
}

static bool counts_cycles(const struct event *event)
{
	return event->attr.type == PERF_TYPE_HARDWARE &&
	       (event->attr.config & PERF_HW_EVENT_MASK) == PERF_COUNT_HW_CPU_CYCLES;
}

/* No CPU has more cycles than its highest clock makes. */
static void set_limits(const struct perf_group *group, const struct reading *now, const struct account *account,
		       uint64_t hz, uint64_t *limits)
{
	const struct set *set = account_set(account);
	uint64_t most = count_at_most(hz, find_longest(group, now));

	for (size_t i = 0; i < set->nr; i++)
		limits[i] = counts_cycles(account->plan->columns[set->columns[i]].event) ? most : UINT64_MAX;
}

/* estimate(), with limits. */
static enum estimate perf_group_estimate(struct perf_group *group, struct reading *now,
					 const struct reading_context *context, uint64_t *deltas)
{
	const struct set *set = account_set(&context->own);
	uint64_t *limits = deltas + set->nr;
	enum estimate r;

	now->limits = limits;
	now->doubtful = *context->doubtful;
	set_limits(group, now, &context->own, cpu_freqs_get(context->freqs, group->cpu), limits);
	r = estimate(&group->base, now, set->nr, set->exact, deltas);
	if (r != ESTIMATE_TOO_MANY || !cpu_freqs_refresh(context->freqs, group->cpu))
		return r;
	set_limits(group, now, &context->own, cpu_freqs_get(context->freqs, group->cpu), limits);
	return estimate(&group->base, now, set->nr, set->exact, deltas);
}

static void explain_cycles(const struct perf_group *group, const struct reading *now,
			   const struct reading_context *context, const uint64_t *deltas, struct reason *ret)
{
	const struct set *set = account_set(&context->own);
	size_t at = 0;

	while (at + 1 < set->nr && deltas[at] <= now->limits[at])
		at++;
	reason_set(ret, 0,
		   "a reading was refused, and its counts are not added: on CPU %d it counted %" PRIu64
		   " '%s' where the CPU's clock makes %" PRIu64 " at most",
		   group->cpu, deltas[at], context->own.plan->columns[set->columns[at]].event->text, now->limits[at]);
}

/* Notes a reading that is wrong and stays so. */
static void refuse(struct perf_group *group, const struct reading *now, const struct reading_context *context,
		   enum lie lie, const struct reason *why)
{
	const struct account own = own_account(group, context);

	context->stats->lies[lie]++;
	account_note_failure(&own, why);
	account_note_failure(&context->also, why);
	if (++group->refusals < REFUSALS_MAX)
		return;
	baseline_move(&group->base, now, account_set(&own)->nr);
	group->base_at = context->at;
	group->refusals = 0;
}

static void note_witness(const uint64_t *deltas, uint64_t covered, const struct reading_context *context)
{
	uint64_t counted = deltas[set_find_witness(context->own.plan, account_set(&context->own))];

	if (context->level)
		perf_level_add(context->level, counted, covered);
	if (context->all)
		perf_level_add(context->all, counted, covered);
}

static void add_counts(struct perf_group *group, struct reading *now, const struct reading_context *context)
{
	const struct account own = own_account(group, context);
	uint64_t *deltas = context->buffer + 3 + 3 * (account_set(&own)->nr + group->clocked);
	uint64_t enabled = group->base.enabled, covered;
	uint64_t elapsed = context->at > group->base_at ? context->at - group->base_at : 0;
	struct reason why;

	switch (perf_group_estimate(group, now, context, deltas)) {
	case ESTIMATE_COUNTED:
		covered = bound_time(enabled, now->enabled, elapsed);
		account_add_counts(&own, deltas, covered);
		account_add_counts(&context->also, deltas, covered);
		group->base_at = context->at;
		group->refusals = 0;
		note_witness(deltas, covered, context);
		break;
	case ESTIMATE_UNOBSERVED:
		break;
	case ESTIMATE_BACKWARDS:
		context->stats->backwards++;
		break;
	case ESTIMATE_LAGS:
		*context->doubtful = true;
		context->stats->lies[LIE_TIME]++;
		account_note_lag(&own);
		break;
	case ESTIMATE_WRONG_TIME:
		reason_set(&why, 0,
			   "a reading was refused, and its counts are not added: on CPU %d the kernel's times of it "
			   "can't be true",
			   group->cpu);
		refuse(group, now, context, LIE_TIME, &why);
		break;
	case ESTIMATE_TOO_MANY:
		explain_cycles(group, now, context, deltas, &why);
		refuse(group, now, context, LIE_CYCLES, &why);
		break;
	}
}

/* Has the cgroup not run for some time? */
static bool is_quiet(const struct perf_group *group, const struct reading *now, uint64_t at)
{
	return now->enabled == group->enabled && at > group->moved_at && at - group->moved_at >= QUIET_NS;
}

/* Was the group observed for too little time since the baseline to be scaled? */
static bool is_brief(const struct perf_group *group, const struct reading *now, const struct reading_context *context,
		     uint64_t elapsed)
{
	const struct account own = own_account(group, context);
	uint64_t observed = now->clock > group->base.clock ? now->clock - group->base.clock : 0;

	if (!group->clocked)
		return elapsed < BRIEF_NS && !now->last;
	if (is_quiet(group, now, context->at) && group->base.clock > 0)
		return observed < BRIEF_LAST_NS;
	return observed < (now->last && account_is_measured(&own) ? BRIEF_LAST_NS : BRIEF_NS);
}

static bool has_counted(const struct baseline *base, const struct reading *now, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (now->values[i] > base->values[i])
			return true;
	return false;
}

static void note_run(const struct perf_group *group, const struct reading *now, const struct reading_context *context)
{
	const struct account own = own_account(group, context);
	bool still = group->clocked ? now->clock == group->base.clock : now->running == group->base.running;
	bool counted = has_counted(&group->base, now, account_set(&own)->nr);
	bool ran = now->running > 0 || now->clock > 0 || counted;

	account_note_run(&own, now->enabled, ran, still && counted);
	account_note_run(&context->also, now->enabled, ran, still && counted);
}

enum observation perf_group_update(struct perf_group *group, const struct reading_context *context)
{
	const struct account own = own_account(group, context);
	const struct set *set = account_set(&own);
	struct reason why;
	struct reading now;
	bool starved = group->starved;
	uint64_t elapsed;
	int r;

	if (group->dead || group->offline)
		return OBSERVED_NOTHING;
	if (!perf_group_is_open(group))
		return context->deferred ? OBSERVED_NOTHING : OBSERVED_LOST;
	if (!group->started)
		return OBSERVED_NOTHING;
	r = perf_group_read(group, set->nr + group->clocked, context->buffer, &now, &why);
	if (r < 0) {
		context->stats->read_errors++;
		account_note_failure(&own, &why);
		account_note_failure(&context->also, &why);
		return OBSERVED_LOST;
	}
	if (group->dead)
		(void)cpulist_add(context->lost, group->cpu);
	elapsed = context->at > group->base_at ? context->at - group->base_at : 0;
	now.most = elapsed + CLOCK_SLACK_NS;
	now.last = context->last || group->dead;
	now.brief = is_brief(group, &now, context, elapsed);
	note_run(group, &now, context);
	add_times(group, &now, context, starved);
	add_counts(group, &now, context);

	if (set->exact || group->base.running > 0 || group->base.clock > 0)
		return OBSERVED_RUNNING;
	return now.enabled > 0 || now.clock > 0 ? OBSERVED_PENDING : OBSERVED_NONE;
}
