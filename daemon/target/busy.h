/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * How long CPUs were busy, by the kernel's accounting (/proc/stat, proc(5)): user, nice, system, irq and
 * softirq time, in steps of 1/sysconf(_SC_CLK_TCK) s. Time a hypervisor has stolen is none of it.
 */

#include "util/cpulist.h"

#include <stdbool.h>
#include <stdint.h>

struct cpu_busy {
	struct cpulist cpus;
	uint64_t *at;	 /* ns since boot, one a CPU, at the last reading */
	uint64_t *delta; /* of the same allocation: between the last two */
	bool known;	 /* there was a last reading */
};

void cpu_busy_release(struct cpu_busy *busy);

/* What is in /proc/stat, in ns since boot, for each of the CPUs; 0 for one that is not there. -EBADMSG where
 * it is no such file. */
int cpu_busy_parse(uint64_t *ret, const struct cpulist *cpus, const char *text, long ticks_per_second);

/* Reads PROCROOT/stat; the time since the last reading, one a CPU, which is valid until the next. NULL where
 * there was none before, or not of these CPUs, or where the file can't be read. */
const uint64_t *cpu_busy_update(struct cpu_busy *busy, const struct cpulist *cpus, const char *procroot);

/* The next reading is the first again. */
void cpu_busy_forget(struct cpu_busy *busy);
