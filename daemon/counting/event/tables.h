/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names of the kernel's generic events, as perf(1) writes them, with the constants of
 * perf_event_open(2): PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE and PERF_TYPE_HW_CACHE.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct event_table_entry {
	const char *name;  /* the canonical name, which metrics carry */
	const char *alias; /* another name for it, or NULL */
	uint64_t config;
	bool nanoseconds; /* the count is a time in ns (cpu-clock, task-clock) */
	bool steady;	  /* a CPU that is not idle counts millions a second of it */
};

extern const struct event_table_entry event_hardware_table[];
extern const size_t event_hardware_table_size;
extern const struct event_table_entry event_software_table[];
extern const size_t event_software_table_size;

/* Looks name up by its canonical name or alias, in any case of letters; NULL. */
const struct event_table_entry *event_hardware_find(const char *name);
const struct event_table_entry *event_software_find(const char *name);

/* A buffer that every canonical name of a cache event fits in. */
#define EVENT_CACHE_NAME_MAX 32

/* Parses a hardware cache event ("L1-dcache-load-misses", "LLC-stores", "dTLB") in perf's spellings, in any case of
 * letters: *ret is perf_event_attr.config; canonical, a buffer of size bytes or NULL, gets the canonical name. False if
 * it is no cache event, or the cache has no such operation (iTLB-stores). */
bool event_cache_parse(const char *name, uint64_t *ret, char *canonical, size_t size);

/* The canonical name number i of all valid combinations, for listing; false at the end. */
bool event_cache_nth(size_t i, char *name, size_t size);
