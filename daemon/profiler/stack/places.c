/* SPDX-License-Identifier: MIT */

#include "profiler/stack/places.h"

#include <string.h>

/* Names that the kernel gives to mappings without a file begin so. */
static bool is_generated(const char *path)
{
	return path[0] == '[' || strncmp(path, "//", 2) == 0;
}

/* Programs of 32 bits have another one; in others it is high up. */
static bool is_own_vdso(const struct mapping *mapping)
{
	return strcmp(mapping->module->path, MODULE_VDSO) == 0 && (sizeof(void *) == 4 || mapping->start > UINT32_MAX);
}

static struct archive_place place_unknown(const struct process *process)
{
	struct archive_place place = { .path = ARCHIVE_UNKNOWN, .naming = NAMING_NO_MAPPING };

	if (process && process_is_locked(process))
		place.naming = NAMING_LOCKED;
	else if (process && process->mappings_error < 0)
		place.naming = NAMING_HIDDEN;
	/* A place has one reason for ever: each reason is a place of its own. */
	place.offset = place.naming;
	return place;
}

static struct archive_place place_of_user(uint64_t address, const struct process *process)
{
	const struct mapping *mapping = process ? mappings_find(process->mappings, address) : NULL;
	struct archive_place place = {};

	if (!mapping)
		return place_unknown(process);
	place.path = mapping->module->path;
	place.key = &mapping->module->key;
	place.offset = address - mapping->start + mapping->offset;
	if (is_own_vdso(mapping))
		return place;
	/* In memory that a program writes code to, an offset says nothing. */
	if (is_generated(place.path)) {
		place.offset = 0;
		place.naming = NAMING_GENERATED;
		if (place.path[0] == '/')
			place.path = ARCHIVE_ANONYMOUS;
		return place;
	}
	if (!module_is_file(mapping->module))
		place.naming = NAMING_NO_IDENTITY;
	return place;
}

static struct archive_place place_of_kernel(uint64_t address, struct kernel_functions *kernel)
{
	const struct kernel_function *function = kernel_functions_find(kernel, address);
	struct archive_place place = { .path = ARCHIVE_KERNEL, .offset = address };

	if (function) {
		place.offset = function->start;
		place.name = function->name;
		place.naming = NAMING_NAMED;
	} else if (kernel->list) {
		place.naming = NAMING_NO_SYMBOL;
	} else {
		place.offset = 0;
		place.naming = kernel->hidden;
	}
	return place;
}

/* Markers stand in the chain where it goes from the kernel to the process. */
static bool is_marker(uint64_t address)
{
	return address >= PERF_CONTEXT_MAX;
}

size_t places_of_sample(struct archive_place *places, const struct record_sample *sample, const struct process *process,
			struct kernel_functions *kernel)
{
	uint64_t mode = 0;
	bool first = true; /* of its mode: where it was interrupted; the others are return addresses */
	size_t nr = 0;

	for (uint64_t i = 0; i < sample->callchain.nr && nr < ARCHIVE_DEPTH_MAX; i++) {
		uint64_t address = record_u64(&sample->callchain, i);

		if (is_marker(address)) {
			mode = address;
			first = true;
			continue;
		}
		/* The call is the instruction before. */
		address -= !first && address ? 1 : 0;
		first = false;
		if (mode == PERF_CONTEXT_KERNEL)
			places[nr++] = place_of_kernel(address, kernel);
		else if (mode == PERF_CONTEXT_USER)
			places[nr++] = place_of_user(address, process);
	}
	return nr;
}
