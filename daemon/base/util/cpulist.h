/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A set of CPU numbers in the kernel's list format ("0-3,8"), as in /sys/devices/system/cpu/online
 * and in a PMU's cpumask or cpus file. Kept sorted and without doubles; numbers may be sparse.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

/* The kernel's largest CONFIG_NR_CPUS is 8192; a number far beyond it is noise, not a CPU. */
#define CPULIST_MAX_CPU 65535

struct cpulist {
	int *cpu;
	size_t nr;
};

void cpulist_release(struct cpulist *list);

/* Parses text (white space at its end is allowed, an empty text is an empty set); -EINVAL where it is
 * anything else, -ENOMEM. *ret is untouched on failure. */
int cpulist_parse(struct cpulist *ret, const char *text);

int cpulist_copy(struct cpulist *ret, const struct cpulist *list);
/* Nothing happens where it is in the list already; -ENOMEM. */
int cpulist_add(struct cpulist *list, int cpu);
bool cpulist_has(const struct cpulist *list, int cpu);
bool cpulist_equal(const struct cpulist *a, const struct cpulist *b);

/* Writes the list format; returns a string to be freed, or NULL when there is no memory. */
char *cpulist_format(const struct cpulist *list);
