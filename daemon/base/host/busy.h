/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The busy time of CPUs, by the kernel's accounting (/proc/stat, proc(5)): user, nice, system, irq and softirq time, in
 * steps of 1/sysconf(_SC_CLK_TCK) s, without time stolen by a hypervisor.
 */

#include "base/util/cpulist.h"

#include <stdbool.h>
#include <stdint.h>

struct cpu_busy {
	struct cpulist cpus;
	uint64_t *at;	 /* ns since boot when it was last online, one a CPU; 0: it has not been */
	uint64_t *delta; /* between the last two readings; in the same allocation */
	bool known;	 /* there was a last reading */
};

/* Reads PROCROOT/stat: busy ns since boot for each of the CPUs, 0 for one that is offline. Negative errno. */
int cpu_busy_read(uint64_t *ret, const struct cpulist *cpus, const char *procroot);

void cpu_busy_release(struct cpu_busy *busy);

/* Reads the text of /proc/stat: ns since boot for each of the CPUs, 0 for one that has no line. -EBADMSG if the text
 * has another format. */
int cpu_busy_parse(uint64_t *ret, const struct cpulist *cpus, const char *text, long ticks_per_second);

/* Reads PROCROOT/stat. Returns the busy ns since the last reading, one a CPU, valid until the next call. NULL if the
 * file can't be read, or the last reading is missing or of other CPUs. */
const uint64_t *cpu_busy_update(struct cpu_busy *busy, const struct cpulist *cpus, const char *procroot);

/* Drops the last reading. */
void cpu_busy_forget(struct cpu_busy *busy);
