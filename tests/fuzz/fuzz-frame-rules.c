/* SPDX-License-Identifier: MIT */

/* Call-frame information: whatever an ELF file has, the table that comes of it is sound. */

#include "fuzz.h"

#include "profiler/stack/frame-rules.h"

#include <errno.h>
#include <sys/mman.h>

#define MAX ((size_t)64 << 20)

/* The child's limit of memory (frame-table-child.c): libdw allocates as much as a register's number says. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "max_allocation_size_mb=256:allocator_may_return_null=1";
}

static void check_written(struct frame_builder *builder)
{
	_cleanup_(frame_table_freep) struct frame_table *table = NULL;
	_cleanup_(closep) int fd = memfd_create("table", MFD_CLOEXEC);
	int r = frame_builder_write(builder, fd);

	CHECK(fd >= 0);
	CHECK(r == 0 || r == -ENODATA);
	if (r == 0)
		CHECK(frame_table_read(&table, fd, MAX) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(frame_builder_freep) struct frame_builder *builder = NULL;
	struct elf_image image;
	int r;

	if (!elf_image_open(&image, (struct elf_bytes){ data, size }))
		return 0;
	CHECK(frame_builder_new(&builder) == 0);
	r = frame_rules_add(builder, &image);
	CHECK(r == 0 || r == -ENODATA || r == -EFBIG || r == -ENOMEM);
	check_written(builder);
	return 0;
}
