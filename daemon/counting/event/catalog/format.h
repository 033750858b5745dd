/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The files in a PMU's format/ folder. Each maps the value of a term to bits of a config word ("config:0-7,32-35";
 * perf_event_open(2), "dynamic PMU").
 *
 * The bits are a set: in whatever order they are written, the value's lowest bit goes into the lowest of them, as in
 * perf(1).
 */

#include "base/util/reason.h"

#include <stdint.h>

/* Words of perf_event_attr that a format can name: config, config1, config2, config3 (Linux 6.3). */
#define PMU_NR_CONFIGS 4

struct pmu_format {
	char *name;
	unsigned word;
	uint64_t mask;
};

/* The word's number for "config", "config1", …; -EINVAL. */
int pmu_config_word(const char *name);

/* Parses a format file's text; pure, so that it can be fuzzed. Sets all members but the name. -EINVAL with the sentence
 * in why. */
int pmu_format_parse(struct pmu_format *ret, const char *text, struct reason *why);

/* The largest value that fits. */
uint64_t pmu_format_max(const struct pmu_format *format);

/* Replaces the format's bits of config by value; -ERANGE if it has more bits. */
int pmu_format_apply(const struct pmu_format *format, uint64_t value, uint64_t config[static PMU_NR_CONFIGS]);
