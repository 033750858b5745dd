/* SPDX-License-Identifier: MIT */
#pragma once

/* What must hold of functions that were read from a perf map or a jitdump, and of their list. */

#include "fuzz.h"

#include "base/util/cleanup.h"
#include "profiler/naming/jit-list.h"

#include <string.h>
#include <sys/mman.h>

/* So many are compared one by one. */
#define COMPARED_MAX 200

static const struct jit_entry *youngest_at(const struct jit_entries *entries, uint64_t address)
{
	const struct jit_entry *youngest = NULL;

	for (size_t i = 0; i < entries->nr; i++) {
		const struct jit_entry *entry = &entries->items[i];

		if (entry->start <= address && address < entry->end && (!youngest || entry->age > youngest->age))
			youngest = entry;
	}
	return youngest;
}

static void check_place(const struct jit_entries *entries, const struct function_list *list, uint64_t address)
{
	static struct function_block block;
	const struct jit_entry *expected = youngest_at(entries, address);
	struct function found = {};
	bool is_found;

	block.list = NULL;
	is_found = function_list_find(list, address, &block, &found) && found.name;
	CHECK(is_found == (expected && expected->length));
	if (is_found) {
		CHECK(found.start <= address && address < found.end);
		CHECK(expected->start <= found.start && found.end <= expected->end);
		CHECK(found.name[0] && strlen(found.name) < FUNCTION_NAME_MAX);
	}
}

static inline void check_entries(struct jit_entries *entries)
{
	_cleanup_(function_list_writer_release) struct function_list_writer writer = { .max = (size_t)64 << 20 };
	_cleanup_(function_list_freep) struct function_list *list = NULL;
	_cleanup_(closep) int fd = memfd_create("list", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(jit_list(entries, &writer));
	CHECK(function_list_write(&writer, fd, NAMING_NO_SYMBOL, false, NULL) == 0);
	CHECK(function_list_read(&list, fd, SIZE_MAX) == 0);
	for (size_t i = 0; i < entries->nr && entries->nr <= COMPARED_MAX; i++) {
		const struct jit_entry *entry = &entries->items[i];

		CHECK(entry->start < entry->end);
		check_place(entries, list, entry->start);
		check_place(entries, list, entry->end - 1);
		check_place(entries, list, entry->end);
		check_place(entries, list, entry->start - 1);
	}
}
