/* SPDX-License-Identifier: MIT */

#include "counting/session/cpu-canary.h"

#include "base/host/privilege.h"
#include "base/util/clock.h"
#include "counting/totals/estimate.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

/* Over less, the time between two readings says nothing. */
#define STILL_NS 10000000U

void cpu_canary_open(struct cpu_canary *ret, int cpu, uint64_t now)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
	};
	int fd = privilege_open_event(&attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	*ret = (struct cpu_canary){
		.cpu = cpu,
		.fd = fd < 0 ? -1 : fd,
		.read_at = now,
		.broken = fd == -ENODEV,
	};
	if (fd >= 0 && ioctl(ret->fd, PERF_EVENT_IOC_ID, &ret->id) < 0)
		cpu_canary_close(ret);
}

void cpu_canary_close(struct cpu_canary *canary)
{
	canary->fd = safe_close(canary->fd);
}

/* False: it can't be read. */
static bool read_enabled(const struct cpu_canary *canary, uint64_t *ret)
{
	uint64_t values[2]; /* the count, which is 0, and the time */
	bool is_read = read(canary->fd, values, sizeof(values)) == sizeof(values);

	if (is_read)
		*ret = values[1];
	return is_read;
}

void cpu_canary_check(struct cpu_canary *canary, uint64_t now)
{
	uint64_t enabled, later;

	if (canary->fd < 0 || now < canary->read_at + STILL_NS || !read_enabled(canary, &enabled))
		return;
	canary->broken |= enabled == canary->enabled;
	if (time_is_missing(enabled - canary->enabled, now - canary->read_at))
		canary->time_missing |= !read_enabled(canary, &later) || later == enabled;
	canary->enabled = enabled;
	canary->read_at = clock_monotonic_ns();
}

/* --- of a session */

int cpu_canaries_new(struct cpu_canaries *ret, size_t max)
{
	*ret = (struct cpu_canaries){ .canaries = calloc(max + 1, sizeof(struct cpu_canary)) };
	return ret->canaries ? 0 : -ENOMEM;
}

void cpu_canaries_release(struct cpu_canaries *canaries)
{
	for (size_t i = 0; i < canaries->nr; i++)
		cpu_canary_close(&canaries->canaries[i]);
	free(canaries->canaries);
	*canaries = (struct cpu_canaries){};
}

struct cpu_canary *cpu_canaries_find(const struct cpu_canaries *canaries, int cpu)
{
	for (size_t i = 0; i < canaries->nr; i++)
		if (canaries->canaries[i].cpu == cpu)
			return &canaries->canaries[i];
	return NULL;
}

static struct cpu_canary *canary_add(struct cpu_canaries *canaries, struct cpu_canary canary)
{
	canaries->canaries[canaries->nr] = canary;
	return &canaries->canaries[canaries->nr++];
}

void cpu_canaries_open(struct cpu_canaries *canaries, int cpu, uint64_t now)
{
	struct cpu_canary *canary = cpu_canaries_find(canaries, cpu);

	if (!canary)
		canary = canary_add(canaries, (struct cpu_canary){ .cpu = cpu, .fd = -1 });
	if (canary->fd >= 0 || canary->broken)
		return;
	cpu_canary_open(canary, cpu, now);
	canaries->changes += canary->fd >= 0;
}

void cpu_canaries_check(struct cpu_canaries *canaries, uint64_t now)
{
	for (size_t i = 0; i < canaries->nr; i++)
		cpu_canary_check(&canaries->canaries[i], now);
}

size_t cpu_canaries_nr_open(const struct cpu_canaries *canaries)
{
	size_t nr = 0;

	for (size_t i = 0; i < canaries->nr; i++)
		nr += canaries->canaries[i].fd >= 0;
	return nr;
}

static bool can_tell(const struct cpu_canary *canary)
{
	return canary->fd >= 0 && !canary->broken;
}

void cpu_canaries_move(struct cpu_canaries *to, struct cpu_canaries *from, const struct cpulist *cpus)
{
	for (size_t i = 0; i < from->nr; i++) {
		struct cpu_canary *canary = &from->canaries[i];

		if (!can_tell(canary) || !cpulist_has(cpus, canary->cpu))
			continue;
		(void)canary_add(to, *canary);
		canary->fd = -1;
	}
}

void cpu_canaries_each_stored(const struct cpu_canaries *canaries, stored_visitor each, void *userdata)
{
	for (size_t i = 0; i < canaries->nr; i++)
		if (can_tell(&canaries->canaries[i]))
			each(userdata, canaries->canaries[i].fd,
			     (struct stored_id){ STORED_PERF_EVENT, canaries->canaries[i].id });
}

void cpu_canaries_save(const struct cpu_canaries *canaries, struct buf *out)
{
	size_t nr = 0;

	for (size_t i = 0; i < canaries->nr; i++)
		nr += can_tell(&canaries->canaries[i]);
	pack_u64(out, nr);
	for (size_t i = 0; i < canaries->nr; i++) {
		const struct cpu_canary *canary = &canaries->canaries[i];

		if (!can_tell(canary))
			continue;
		pack_u64(out, (uint64_t)canary->cpu);
		pack_u64(out, canary->id);
		pack_u64(out, canary->enabled);
		pack_u64(out, canary->read_at);
	}
}

int cpu_canaries_restore(struct cpu_canaries *canaries, struct unpack *in, const struct cpulist *cpus,
			 const struct engines *engines, struct stored_pool *stored)
{
	size_t nr = unpack_nr(in, 4 * sizeof(uint64_t));

	for (size_t i = 0; i < nr; i++) {
		struct cpu_canary canary = {
			.cpu = (int)unpack_at_most(in, CPULIST_MAX_CPU),
			.id = unpack_u64(in),
			.enabled = unpack_u64(in),
			.read_at = unpack_u64(in),
		};

		if (in->bad || !cpulist_has(cpus, canary.cpu) || cpu_canaries_find(canaries, canary.cpu))
			return -EBADMSG;
		canary.fd = stored_pool_take(stored, STORED_PERF_EVENT, canary.id);
		if (canary.fd >= 0)
			(void)canary_add(canaries, canary);
	}
	for (size_t i = 0; i < cpus->nr && !in->bad; i++)
		if (!cpu_canaries_find(canaries, cpus->cpu[i]) && engines_life(engines, cpus->cpu[i]) == LIFE_UNKNOWN)
			(void)canary_add(canaries,
					 (struct cpu_canary){ .cpu = cpus->cpu[i], .fd = -1, .broken = true });
	return in->bad ? -EBADMSG : 0;
}

void cpu_canaries_cover(struct cpu_canaries *canaries, const struct cpulist *cpus, const struct engines *engines,
			uint64_t now)
{
	for (size_t i = 0; i < cpus->nr; i++)
		if (cpu_canaries_find(canaries, cpus->cpu[i]) || engines_life(engines, cpus->cpu[i]) == LIFE_UNKNOWN)
			cpu_canaries_open(canaries, cpus->cpu[i], now);
}

bool cpu_has_been_offline(const struct cpu_canaries *canaries, const struct engines *engines, int cpu)
{
	const struct cpu_canary *canary = cpu_canaries_find(canaries, cpu);

	return (canary && canary->broken) || engines_life(engines, cpu) == LIFE_BEEN_OFFLINE;
}

int cpus_find_lost(const struct cpu_canaries *canaries, const struct engines *engines, const struct cpulist *cpus,
		   struct cpulist *ret)
{
	int r = 0;

	for (size_t i = 0; i < cpus->nr && r == 0; i++)
		if (cpu_has_been_offline(canaries, engines, cpus->cpu[i]))
			r = cpulist_add(ret, cpus->cpu[i]);
	return r;
}
