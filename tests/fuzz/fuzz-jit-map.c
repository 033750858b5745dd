/* SPDX-License-Identifier: MIT */

/* Perf maps: whatever is in one, a place belongs to the line that has it and was written last. */

#include "jit-check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(jit_entries_release) struct jit_entries entries = {};

	jit_read_map(&entries, (struct elf_bytes){ data, size });
	check_entries(&entries);
	return 0;
}
