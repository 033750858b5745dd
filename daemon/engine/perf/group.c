/* SPDX-License-Identifier: MIT */

#include "engine/perf/group.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

/* Over less than some of the PMU's turns (kernel: perf_event_mux_interval_ms, 4 ms), the share of time that a group
 * ran is not that of its counts: totals came out 5 % low at 10 ms, and right from 50 ms on. */
#define BRIEF_NS 50000000U

/* Between two readings of a CPU that are so far apart, its time has gone on. */
#define STILL_NS 10000000U

/* A group is read some time after the clock is, and the two clocks differ. A time_enabled that is wrong is
 * so by the machine's uptime. */
#define CLOCK_SLACK_NS 1000000000U

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
		    struct engine_stats *stats, size_t *ret_member)
{
	int r = 0;

	for (size_t i = 0; i < set->nr; i++) {
		struct perf_event_attr attr = set_attr(plan, set, i);
		int fd = perf_open(plan->columns[set->columns[i]].event, &attr, group->cpu, cgroup_fd,
				   i ? group->fds[0] : -1);

		*ret_member = i;
		r = fd;
		if (fd < 0)
			break;
		group->fds[i] = fd;
		stats->fds++;
		stats->changes++;
		r = ioctl(fd, PERF_EVENT_IOC_ID, &group->ids[i]) < 0 ? -errno : 0;
		if (r < 0)
			break;
	}
	group->offline = r == -ENODEV;
	if (r < 0)
		perf_group_close(group, set->nr, stats);
	return r < 0 ? r : 0;
}

void perf_group_start(struct perf_group *group, uint64_t now)
{
	/* It has no error that a group just opened could have; one that does not start is never seen to run. */
	if (perf_group_is_open(group))
		(void)perf_enable_group(group->fds[0]);
	group->read_at = group->base_at = now;
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
	return reason_set(why, -ENODATA,
			  "CPU %d has no counters free for it, and it is pinned, which is all or nothing: it is tried "
			  "again at each reading",
			  group->cpu);
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

	if (group->starved && buffer[2] <= group->running)
		return perf_group_starves(group, why);
	group->starved = false;
	*ret = (struct reading){ .enabled = buffer[1], .running = buffer[2], .values = values };
	return 0;
}

bool perf_group_look(struct perf_group *group, size_t nr, uint64_t *buffer, struct baseline *ret)
{
	struct reading now;
	struct reason why;

	if (perf_group_read(group, nr, buffer, &now, &why) < 0)
		return false;
	memcpy(ret->values, now.values, nr * sizeof(*now.values));
	ret->enabled = now.enabled;
	ret->running = now.running;
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

/* Adds to the times that are exposed. */
static void add_times(struct perf_group *group, const struct reading *now, const struct reading_context *context)
{
	const struct account own = own_account(group, context);
	uint64_t elapsed = context->at > group->read_at ? context->at - group->read_at : 0;
	uint64_t enabled = bound_time(group->enabled, now->enabled, elapsed);
	uint64_t running = bound_time(group->running, now->running, elapsed);

	running = running < enabled ? running : enabled;
	account_add_times(&own, enabled, running);
	account_add_times(&context->also, enabled, running);
	if (elapsed > STILL_NS)
		group->still = now->enabled == group->enabled;
	group->enabled = now->enabled;
	group->running = now->running;
	group->read_at = context->at;
}

static void add_counts(struct perf_group *group, const struct reading *now, const struct reading_context *context)
{
	const struct account own = own_account(group, context);
	const struct set *set = account_set(&own);
	uint64_t *deltas = context->buffer + 3 + 3 * set->nr, enabled = group->base.enabled, covered;
	uint64_t elapsed = context->at > group->base_at ? context->at - group->base_at : 0;

	switch (estimate(&group->base, now, set->nr, set->exact, deltas)) {
	case ESTIMATE_COUNTED:
		covered = bound_time(enabled, now->enabled, elapsed);
		account_add_counts(&own, deltas, covered);
		account_add_counts(&context->also, deltas, covered);
		group->base_at = context->at;
		break;
	case ESTIMATE_UNOBSERVED:
		break;
	case ESTIMATE_BACKWARDS:
		context->stats->backwards++;
		break;
	}
}

static bool has_counted(const struct baseline *base, const struct reading *now, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (now->values[i] > base->values[i])
			return true;
	return false;
}

enum observation perf_group_update(struct perf_group *group, const struct reading_context *context)
{
	const struct account own = own_account(group, context);
	const struct set *set = account_set(&own);
	struct reason why;
	struct reading now;
	uint64_t elapsed;
	bool still, counted;
	int r;

	if (group->dead || group->offline)
		return OBSERVED_NOTHING;
	if (!perf_group_is_open(group))
		return context->deferred ? OBSERVED_NOTHING : OBSERVED_LOST;
	if (!group->started)
		return OBSERVED_NOTHING;
	r = perf_group_read(group, set->nr, context->buffer, &now, &why);
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
	now.brief = elapsed < BRIEF_NS && !context->last && !group->dead;
	still = now.running == group->base.running;
	counted = has_counted(&group->base, &now, set->nr);
	account_note_run(&own, now.enabled, now.running > 0 || counted, still && counted);
	account_note_run(&context->also, now.enabled, now.running > 0 || counted, still && counted);
	add_times(group, &now, context);
	add_counts(group, &now, context);

	if (set->exact || group->base.running > 0)
		return OBSERVED_RUNNING;
	return now.enabled > 0 ? OBSERVED_PENDING : OBSERVED_NONE;
}
