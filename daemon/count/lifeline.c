/* SPDX-License-Identifier: MIT */

#include "count/lifeline.h"

#include "count/privilege.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

/* Over less, the time between two readings says nothing. */
#define STILL_NS 10000000U

void lifeline_open(struct lifeline *ret, int cpu, uint64_t now)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
	};
	int fd = privilege_open_event(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	*ret = (struct lifeline){
		.cpu = cpu,
		.fd = fd < 0 ? -1 : fd,
		.read_at = now,
		.broken = fd == -ENODEV,
	};
	if (fd >= 0 && ioctl(ret->fd, PERF_EVENT_IOC_ID, &ret->id) < 0)
		lifeline_close(ret);
}

void lifeline_close(struct lifeline *lifeline)
{
	lifeline->fd = safe_close(lifeline->fd);
}

void lifeline_check(struct lifeline *lifeline, uint64_t now)
{
	uint64_t values[2]; /* the count, which is 0, and the time */

	if (lifeline->fd < 0 || now < lifeline->read_at + STILL_NS ||
	    read(lifeline->fd, values, sizeof(values)) != sizeof(values))
		return;
	lifeline->broken |= values[1] == lifeline->enabled;
	lifeline->enabled = values[1];
	lifeline->read_at = now;
}

/* --- of a count */

int lifelines_new(struct lifelines *ret, size_t max)
{
	*ret = (struct lifelines){ .lifelines = calloc(max + 1, sizeof(struct lifeline)) };
	return ret->lifelines ? 0 : -ENOMEM;
}

void lifelines_release(struct lifelines *lifelines)
{
	for (size_t i = 0; i < lifelines->nr; i++)
		lifeline_close(&lifelines->lifelines[i]);
	free(lifelines->lifelines);
	*lifelines = (struct lifelines){};
}

struct lifeline *lifelines_find(const struct lifelines *lifelines, int cpu)
{
	for (size_t i = 0; i < lifelines->nr; i++)
		if (lifelines->lifelines[i].cpu == cpu)
			return &lifelines->lifelines[i];
	return NULL;
}

static struct lifeline *add(struct lifelines *lifelines, struct lifeline lifeline)
{
	lifelines->lifelines[lifelines->nr] = lifeline;
	return &lifelines->lifelines[lifelines->nr++];
}

void lifelines_open(struct lifelines *lifelines, int cpu, uint64_t now)
{
	struct lifeline *lifeline = lifelines_find(lifelines, cpu);

	if (!lifeline)
		lifeline = add(lifelines, (struct lifeline){ .cpu = cpu, .fd = -1 });
	if (lifeline->fd >= 0 || lifeline->broken)
		return;
	lifeline_open(lifeline, cpu, now);
	lifelines->changes += lifeline->fd >= 0;
}

void lifelines_check(struct lifelines *lifelines, uint64_t now)
{
	for (size_t i = 0; i < lifelines->nr; i++)
		lifeline_check(&lifelines->lifelines[i], now);
}

size_t lifelines_nr_open(const struct lifelines *lifelines)
{
	size_t nr = 0;

	for (size_t i = 0; i < lifelines->nr; i++)
		nr += lifelines->lifelines[i].fd >= 0;
	return nr;
}

static bool can_tell(const struct lifeline *lifeline)
{
	return lifeline->fd >= 0 && !lifeline->broken;
}

void lifelines_move(struct lifelines *to, struct lifelines *from, const struct cpulist *cpus)
{
	for (size_t i = 0; i < from->nr; i++) {
		struct lifeline *lifeline = &from->lifelines[i];

		if (!can_tell(lifeline) || !cpulist_has(cpus, lifeline->cpu))
			continue;
		(void)add(to, *lifeline);
		lifeline->fd = -1;
	}
}

void lifelines_each_fd(const struct lifelines *lifelines, void (*each)(void *userdata, int fd, uint64_t id),
		       void *userdata)
{
	for (size_t i = 0; i < lifelines->nr; i++)
		if (can_tell(&lifelines->lifelines[i]))
			each(userdata, lifelines->lifelines[i].fd, lifelines->lifelines[i].id);
}

void lifelines_save(const struct lifelines *lifelines, struct buf *out)
{
	size_t nr = 0;

	for (size_t i = 0; i < lifelines->nr; i++)
		nr += can_tell(&lifelines->lifelines[i]);
	pack_u64(out, nr);
	for (size_t i = 0; i < lifelines->nr; i++) {
		const struct lifeline *lifeline = &lifelines->lifelines[i];

		if (!can_tell(lifeline))
			continue;
		pack_u64(out, (uint64_t)lifeline->cpu);
		pack_u64(out, lifeline->id);
		pack_u64(out, lifeline->enabled);
		pack_u64(out, lifeline->read_at);
	}
}

int lifelines_restore(struct lifelines *lifelines, struct unpack *in, const struct cpulist *cpus, struct fd_pool *fds)
{
	size_t nr = unpack_nr(in, 4 * sizeof(uint64_t));

	for (size_t i = 0; i < nr; i++) {
		struct lifeline lifeline = {
			.cpu = (int)unpack_at_most(in, CPULIST_MAX_CPU),
			.id = unpack_u64(in),
			.enabled = unpack_u64(in),
			.read_at = unpack_u64(in),
		};

		if (in->bad || !cpulist_has(cpus, lifeline.cpu) || lifelines_find(lifelines, lifeline.cpu))
			return -EBADMSG;
		lifeline.fd = fd_pool_take(fds, lifeline.id);
		if (lifeline.fd >= 0)
			(void)add(lifelines, lifeline);
	}
	return in->bad ? -EBADMSG : 0;
}

void lifelines_add_broken(struct lifelines *lifelines, int cpu)
{
	(void)add(lifelines, (struct lifeline){ .cpu = cpu, .fd = -1, .broken = true });
}
