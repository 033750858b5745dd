/* SPDX-License-Identifier: MIT */

#include "base/host/busy.h"

#include "base/util/clock.h"
#include "base/util/file.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Bytes: it has a line for each CPU, and one with a number for each interrupt. */
#define FILE_MAX_STAT (4 * 1024 * 1024)

void cpu_busy_release(struct cpu_busy *busy)
{
	cpulist_release(&busy->cpus);
	free(busy->at);
	*busy = (struct cpu_busy){};
}

/* "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL …": the CPU's number, or -1 for another line. */
static int parse_cpu_line(const char *line, uint64_t *ret_ticks)
{
	uint64_t user, nice, system, idle, iowait, irq, softirq;
	int cpu;

	/* "cpu" alone is the sum. */
	if (!isdigit((unsigned char)line[3]))
		return -1;
	if (sscanf(line, "cpu%d %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &cpu,
		   &user, &nice, &system, &idle, &iowait, &irq, &softirq) != 8)
		return -1;
	*ret_ticks = user + nice + system + irq + softirq;
	return cpu;
}

int cpu_busy_parse(uint64_t *ret, const struct cpulist *cpus, const char *text, long ticks_per_second)
{
	const char *line = text;
	size_t at = 0;

	assert(ticks_per_second > 0);
	if (strncmp(text, "cpu", 3) != 0)
		return -EBADMSG;
	memset(ret, 0, cpus->nr * sizeof(*ret));
	while (line && strncmp(line, "cpu", 3) == 0) {
		uint64_t ticks;
		int cpu = parse_cpu_line(line, &ticks);

		/* The lines and the list are sorted by CPU. */
		while (cpu >= 0 && at < cpus->nr && cpus->cpu[at] < cpu)
			at++;
		if (cpu >= 0 && at < cpus->nr && cpus->cpu[at] == cpu)
			ret[at] = ticks * (NS_PER_S / (uint64_t)ticks_per_second);
		line = strchr(line, '\n');
		line = line ? line + 1 : NULL;
	}
	return 0;
}

/* Makes room for readings of these CPUs; readings of others are dropped. -ENOMEM. */
static int take_cpus(struct cpu_busy *busy, const struct cpulist *cpus)
{
	_cleanup_(cpu_busy_release) struct cpu_busy new = {};

	if (busy->at && cpulist_equal(&busy->cpus, cpus))
		return 0;
	new.at = calloc(2 * cpus->nr + 1, sizeof(*new.at));
	if (!new.at || cpulist_copy(&new.cpus, cpus) < 0)
		return -ENOMEM;
	new.delta = new.at + cpus->nr;
	cpu_busy_release(busy);
	*busy = steal_struct(new);
	return 0;
}

int cpu_busy_read(uint64_t *ret, const struct cpulist *cpus, const char *procroot)
{
	_cleanup_(closep) int dir = open(procroot, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(freep) char *text = NULL;
	int r = dir < 0 ? -errno : read_text_file(dir, "stat", FILE_MAX_STAT, &text);

	return r < 0 ? r : cpu_busy_parse(ret, cpus, text, sysconf(_SC_CLK_TCK));
}

const uint64_t *cpu_busy_update(struct cpu_busy *busy, const struct cpulist *cpus, const char *procroot)
{
	bool known;

	if (take_cpus(busy, cpus) < 0)
		return NULL;
	if (cpu_busy_read(busy->delta, cpus, procroot) < 0) {
		busy->known = false;
		return NULL;
	}
	for (size_t i = 0; i < cpus->nr; i++) {
		uint64_t now = busy->delta[i], before = busy->at[i];

		/* A CPU that is offline has no line, and is not busy. The kernel counts on when it is back. */
		busy->delta[i] = before && now > before ? now - before : 0;
		busy->at[i] = now ? now : before;
	}
	known = busy->known;
	busy->known = true;
	return known ? busy->delta : NULL;
}

void cpu_busy_forget(struct cpu_busy *busy)
{
	busy->known = false;
}
