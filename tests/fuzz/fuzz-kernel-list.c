/* SPDX-License-Identifier: MIT */

/* Lists of the kernel's symbols: whatever is in one, a function that is found has a name and the address in it. */

#include "fuzz.h"

#include "profiler/naming/kernel-list.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_found(const struct kernel_list *list, uint64_t address)
{
	struct kernel_symbol symbol;

	if (!kernel_list_find(list, address, &symbol))
		return;
	CHECK(symbol.start <= address && address < symbol.end);
	CHECK(symbol.name[0] && strlen(symbol.name) < sizeof(symbol.name));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(kernel_list_freep) struct kernel_list *list = NULL;
	int fd = memfd_create("kallsyms", MFD_CLOEXEC);
	char path[32];
	const char *const paths[] = { path };

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (kernel_list_read(&list, paths, 1) == NAMING_NAMED) {
		CHECK(list);
		for (unsigned bit = 0; bit < 64; bit++) {
			check_found(list, (uint64_t)1 << bit);
			check_found(list, UINT64_MAX << bit);
			check_found(list, 0xffffffff81000000 + ((uint64_t)1 << bit));
		}
	}
	CHECK(close(fd) == 0);
	return 0;
}
