/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The highest clock of each CPU, above which no count of its cycles can be true: from cpufreq's folder in sysfs.
 *
 * Only some drivers know it: others (acpi-cpufreq) leave turbo out of cpuinfo_max_freq, and many virtual machines have
 * no cpufreq at all. Then it is CPU_FREQ_ANY. It can rise while the machine runs (intel_pstate/no_turbo), so that a
 * caller to whom it looks too low asks again.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Hz: no CPU is so fast. */
#define CPU_FREQ_ANY 10000000000U

/* What has been read so far. */
struct cpu_freqs {
	const char *sysroot; /* borrowed; NULL: nothing can be read */
	uint64_t *hz;	     /* by the CPU's number; 0: not read yet */
	size_t nr;
};

/* As new: nothing has been read below sysroot, which is borrowed. */
void cpu_freqs_init(struct cpu_freqs *freqs, const char *sysroot);
/* Above what a driver says by a quarter: clocks are measured, and drivers round. Never fails. */
uint64_t cpu_freqs_get(struct cpu_freqs *freqs, int cpu);
/* Reads it again. Has it risen? */
bool cpu_freqs_refresh(struct cpu_freqs *freqs, int cpu);
void cpu_freqs_release(struct cpu_freqs *freqs);
