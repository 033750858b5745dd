/* SPDX-License-Identifier: MIT */

#include "count/reader.h"

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
void reader_close_by(struct reader *reader, size_t nr, struct closer *closer, struct engine_stats *stats)
{
	for (size_t i = nr; i-- > 0;) {
		stats->fds -= reader->fds[i] >= 0;
		stats->changes += reader->fds[i] >= 0;
		closer_close(closer, steal_fd(&reader->fds[i]));
	}
}

void reader_close(struct reader *reader, size_t nr, struct engine_stats *stats)
{
	reader_close_by(reader, nr, NULL, stats);
}

int reader_open(struct reader *reader, const struct scope_plan *plan, const struct set *set, int cgroup_fd,
		struct engine_stats *stats, size_t *failed_at)
{
	int r = 0;

	for (size_t i = 0; i < set->nr; i++) {
		struct perf_event_attr attr = set_attr(plan, set, i);
		int fd = perf_open(plan->columns[set->columns[i]].event, &attr, reader->cpu, cgroup_fd,
				   i ? reader->fds[0] : -1);

		*failed_at = i;
		r = fd;
		if (fd < 0)
			break;
		reader->fds[i] = fd;
		stats->fds++;
		stats->changes++;
		r = ioctl(fd, PERF_EVENT_IOC_ID, &reader->ids[i]) < 0 ? -errno : 0;
		if (r < 0)
			break;
	}
	reader->offline = r == -ENODEV;
	if (r < 0)
		reader_close(reader, set->nr, stats);
	return r < 0 ? r : 0;
}

void reader_start(struct reader *reader, uint64_t now)
{
	/* It has no error that a group just opened could have; one that does not start is never seen to run. */
	if (reader_is_open(reader))
		(void)perf_enable_group(reader->fds[0]);
	reader->read_at = reader->base_at = now;
	reader->started = true;
}

void reader_move(struct reader *to, struct reader *from, size_t nr)
{
	struct reader own = *to;

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
static bool sort_values(const struct reader *reader, size_t nr, const uint64_t *pairs, uint64_t *values)
{
	for (size_t i = 0; i < nr; i++) {
		size_t k = i, tries = nr;

		while (tries && pairs[2 * k + 1] != reader->ids[i]) {
			k = (k + 1) % nr;
			tries--;
		}
		if (!tries)
			return false;
		values[i] = pairs[2 * k];
	}
	return true;
}

/* A pinned group that does not get its counters is in error state, and read(2) is at the end of file: to enable it
 * is to try it again. What comes next is no reading yet: in a cgroup that is not on the CPU it is enabled in any
 * case, and what has happened meanwhile was not counted. */
static int reader_starves(struct reader *reader, struct reason *why)
{
	reader->starved = true;
	return reason_set(why, -ENODATA,
			  "CPU %d has no counters free for it, and it is pinned, which is all or nothing: it is tried "
			  "again at each reading",
			  reader->cpu);
}

static int wrong_group(const struct reader *reader, struct reason *why)
{
	return reason_set(why, -EBADMSG, "reading on CPU %d: the kernel returned another group than was opened",
			  reader->cpu);
}

/* What read(2) returns of a group, or of a former member, by itself: nr, enabled, running, value, id. */
#define ALONE 5

static bool is_alone(const uint64_t *buffer, ssize_t n, uint64_t id)
{
	return n == (ssize_t)(ALONE * sizeof(uint64_t)) && buffer[0] == 1 && buffer[4] == id;
}

/* A group that has been taken apart, whose leader is in buffer: the others are read one by one, for the last time. */
static int read_apart(struct reader *reader, size_t nr, const uint64_t *buffer, uint64_t *values, struct reason *why)
{
	uint64_t alone[ALONE];

	values[0] = buffer[3];
	for (size_t i = 1; i < nr; i++) {
		if (!is_alone(alone, read(reader->fds[i], alone, sizeof(alone)), reader->ids[i]))
			return wrong_group(reader, why);
		values[i] = alone[3];
	}
	reader->dead = true;
	return 0;
}

/* perf_event_open(2), "Reading results", with all of our read format: nr, enabled, running, (value, id)… */
static int reader_read(struct reader *reader, size_t nr, uint64_t *buffer, struct reading *ret, struct reason *why)
{
	size_t size = (3 + 2 * nr) * sizeof(uint64_t);
	uint64_t *values = buffer + 3 + 2 * nr;
	ssize_t n = read(reader->fds[0], buffer, size);
	int r = 0;

	if (n < 0)
		return reason_set(why, -errno, "reading on CPU %d: %s", reader->cpu, strerror(errno));
	if (n == 0) {
		(void)perf_enable_group(reader->fds[0]);
		return reader_starves(reader, why);
	}
	if (nr > 1 && is_alone(buffer, n, reader->ids[0]))
		r = read_apart(reader, nr, buffer, values, why);
	else if ((size_t)n != size || buffer[0] != nr || !sort_values(reader, nr, buffer + 3, values))
		r = wrong_group(reader, why);
	if (r < 0)
		return r;

	if (reader->starved && buffer[2] <= reader->running)
		return reader_starves(reader, why);
	reader->starved = false;
	*ret = (struct reading){ .enabled = buffer[1], .running = buffer[2], .values = values };
	return 0;
}

bool reader_look(struct reader *reader, size_t nr, uint64_t *buffer, struct baseline *ret)
{
	struct reading now;
	struct reason why;

	if (reader_read(reader, nr, buffer, &now, &why) < 0)
		return false;
	memcpy(ret->values, now.values, nr * sizeof(*now.values));
	ret->enabled = now.enabled;
	ret->running = now.running;
	return true;
}

/* What time went by, if it can have; else as much as there was. */
static uint64_t bounded(uint64_t from, uint64_t to, uint64_t elapsed)
{
	uint64_t delta = to > from ? to - from : 0;

	return delta <= elapsed + CLOCK_SLACK_NS ? delta : elapsed;
}

static struct sink own_sink(const struct reader *reader, const struct reading_context *context)
{
	return (struct sink){
		.row = reader->row,
		.set = context->set,
		.set_at = context->set_at,
		.finding = context->finding,
	};
}

static void sink_times(const struct sink *sink, uint64_t enabled, uint64_t running)
{
	if (!sink->row)
		return;
	sink->row->times[sink->set_at].enabled += enabled;
	sink->row->times[sink->set_at].running += running;
	sink->finding->enabled += enabled;
	sink->finding->running += running;
}

static void sink_counts(const struct sink *sink, const uint64_t *deltas, uint64_t covered)
{
	if (!sink->row)
		return;
	for (size_t i = 0; i < sink->set->nr; i++)
		sink->row->cells[sink->set->columns[i]].total += deltas[i];
	sink->row->times[sink->set_at].covered += covered;
}

/* counted: since the baseline. Times of cgroup events stand still at times while they count (kernel 6.18). */
static void sink_seen(const struct sink *sink, const struct reading *now, bool still, bool counted)
{
	if (!sink->row)
		return;
	if (now->enabled > sink->finding->waited)
		sink->finding->waited = now->enabled;
	sink->finding->ever_ran |= now->running > 0 || counted;
	sink->finding->timeless |= still && counted;
}

static void sink_failure(const struct sink *sink, const struct reason *why)
{
	if (!sink->row)
		return;
	sink->finding->failures++;
	sink->finding->why = *why;
}

/* Adds to the times that are exposed. */
static void add_times(struct reader *reader, const struct reading *now, const struct reading_context *context)
{
	const struct sink own = own_sink(reader, context);
	uint64_t elapsed = context->at > reader->read_at ? context->at - reader->read_at : 0;
	uint64_t enabled = bounded(reader->enabled, now->enabled, elapsed);
	uint64_t running = bounded(reader->running, now->running, elapsed);

	running = running < enabled ? running : enabled;
	sink_times(&own, enabled, running);
	sink_times(&context->also, enabled, running);
	if (elapsed > STILL_NS)
		reader->still = now->enabled == reader->enabled;
	reader->enabled = now->enabled;
	reader->running = now->running;
	reader->read_at = context->at;
}

static void add_counts(struct reader *reader, const struct reading *now, const struct reading_context *context)
{
	const struct sink own = own_sink(reader, context);
	const struct set *set = context->set;
	uint64_t *deltas = context->buffer + 3 + 3 * set->nr, enabled = reader->base.enabled, covered;
	uint64_t elapsed = context->at > reader->base_at ? context->at - reader->base_at : 0;

	switch (estimate(&reader->base, now, set->nr, set->exact, deltas)) {
	case ESTIMATE_COUNTED:
		covered = bounded(enabled, now->enabled, elapsed);
		sink_counts(&own, deltas, covered);
		sink_counts(&context->also, deltas, covered);
		reader->base_at = context->at;
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

enum sight reader_update(struct reader *reader, const struct reading_context *context)
{
	const struct sink own = own_sink(reader, context);
	struct reason why;
	struct reading now;
	uint64_t elapsed;
	bool still, counted;
	int r;

	if (reader->dead || reader->offline)
		return SIGHT_NOTHING;
	if (!reader_is_open(reader))
		return context->deferred ? SIGHT_NOTHING : SIGHT_LOST;
	if (!reader->started)
		return SIGHT_NOTHING;
	r = reader_read(reader, context->set->nr, context->buffer, &now, &why);
	if (r < 0) {
		context->stats->read_errors++;
		sink_failure(&own, &why);
		sink_failure(&context->also, &why);
		return SIGHT_LOST;
	}
	if (reader->dead)
		(void)cpulist_add(context->lost, reader->cpu);
	elapsed = context->at > reader->base_at ? context->at - reader->base_at : 0;
	now.most = elapsed + CLOCK_SLACK_NS;
	now.brief = elapsed < BRIEF_NS && !context->last && !reader->dead;
	still = now.running == reader->base.running;
	counted = has_counted(&reader->base, &now, context->set->nr);
	sink_seen(&own, &now, still, counted);
	sink_seen(&context->also, &now, still, counted);
	add_times(reader, &now, context);
	add_counts(reader, &now, context);

	if (context->set->exact || reader->base.running > 0)
		return SIGHT_SEEN;
	return now.enabled > 0 ? SIGHT_PENDING : SIGHT_NONE;
}
