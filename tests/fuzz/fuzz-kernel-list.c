/* SPDX-License-Identifier: MIT */

/* Lists of the kernel's symbols: whatever is in one, a function that is found has a name and the address in it. */

#include "fuzz.h"

#include "profiler/naming/kernel-list.h"

#include <string.h>
#include <sys/mman.h>

static void check_found(const struct function_list *list, uint64_t address)
{
	static struct function_block block;
	struct function found;

	block.list = NULL;
	if (!function_list_find(list, address, &block, &found))
		return;
	CHECK(found.start <= address && address < found.end);
	CHECK(found.name && found.name[0] && strlen(found.name) < FUNCTION_NAME_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(function_list_freep) struct function_list *list = NULL;
	_cleanup_(function_list_writer_release) struct function_list_writer writer = { .max = (size_t)64 << 20 };
	_cleanup_(closep) int fd = memfd_create("list", MFD_CLOEXEC);
	FILE *file = size ? fmemopen((void *)data, size, "r") : NULL;

	CHECK(fd >= 0);
	if (kernel_list_write(&writer, &file, 1, fd) == NAMING_NAMED) {
		CHECK(function_list_read(&list, fd, SIZE_MAX) == 0);
		for (unsigned bit = 0; bit < 64; bit++) {
			check_found(list, (uint64_t)1 << bit);
			check_found(list, UINT64_MAX << bit);
			check_found(list, 0xffffffff81000000 + ((uint64_t)1 << bit));
		}
	}
	CHECK(!file || fclose(file) == 0);
	return 0;
}
