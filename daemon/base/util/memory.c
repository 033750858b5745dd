/* SPDX-License-Identifier: MIT */

#include "base/util/memory.h"

#include "base/util/cleanup.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE (128 * 1024)

/* A mapping in smaps (proc(5)). */
struct region {
	uintptr_t start, end;
	bool of_file; /* private, of a file, and never written to as the page tables are now */
};

void memory_return_freed(void)
{
	/* Setting either turns off that malloc adapts both to what it has served. */
	(void)mallopt(M_MMAP_THRESHOLD, LARGE);
	(void)mallopt(M_TRIM_THRESHOLD, LARGE);
}

/* "55d0c0a00000-55d0c0a2c000 r--p 00000000 fd:01 1234    /usr/bin/perfmond" */
static bool parse_region(struct region *ret, const char *line)
{
	struct region region = {};
	char protection[5];
	int path = 0;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %n", &region.start, &region.end, protection,
		   &path) != 3)
		return false;
	region.of_file = line[path] == '/' && protection[1] == '-' && protection[3] == 'p';
	*ret = region;
	return true;
}

/* Pages that differ from the file, by relocations or breakpoints, are "Anonymous", or in swap: those mappings are left
 * alone. */
void memory_forget_code(void)
{
	_cleanup_(closefilep) FILE *smaps = fopen("/proc/self/smaps", "re");
	struct region region = {};
	char line[512];
	unsigned long kib, own = 0;

	(void)malloc_trim(0);
	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (parse_region(&region, line))
			own = 0;
		else if (sscanf(line, "Anonymous: %lu kB", &kib) == 1)
			own = kib;
		else if (sscanf(line, "Swap: %lu kB", &kib) == 1 && region.of_file && own + kib == 0)
			(void)madvise((void *)region.start, region.end - region.start, MADV_DONTNEED);
	}
}

void *memory_map_own(size_t size)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	(void)madvise(memory, size, MADV_DONTFORK);
	return memory;
}

void memory_share(void *memory, size_t size)
{
	(void)madvise(memory, size, MADV_DOFORK);
}

void *memory_map_secret(size_t size)
{
	void *memory = memory_map_own(size);

	if (memory && madvise(memory, size, MADV_DONTFORK) == 0 && madvise(memory, size, MADV_DONTDUMP) == 0)
		return memory;
	memory_unmap(memory, size);
	return NULL;
}

__attribute__((noinline)) void memory_erase_stack(void)
{
	unsigned char below[32 * 1024];

	explicit_bzero(below, sizeof(below));
}

void memory_unmap(void *memory, size_t size)
{
	if (memory)
		(void)munmap(memory, size);
}
