/* SPDX-License-Identifier: MIT */

/* Jitdumps: whatever is in one, a place belongs to the function that was loaded or moved there last. */

#include "jit-check.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(jit_entries_release) struct jit_entries entries = {};
	uint32_t pid = 0;

	/* The pid is right: it would be hard to guess. */
	if (size >= 24)
		memcpy(&pid, data + 20, sizeof(pid));
	if (!jit_read_dump(&entries, (struct elf_bytes){ data, size }, pid))
		CHECK(entries.nr == 0);
	check_entries(&entries);
	return 0;
}
