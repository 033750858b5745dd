/* SPDX-License-Identifier: MIT */

#include "setup/own-file.h"

#include "base/util/clock.h"

#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static int find_own_offset(struct dl_phdr_info *info, size_t size, void *userdata)
{
	uint64_t *address = userdata;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD || *address < start || *address - start >= segment->p_memsz)
			continue;
		*address = *address - start + segment->p_offset;
		return 1;
	}
	return 0;
}

uint64_t own_file_offset(int (*function)(int n))
{
	uint64_t address = (uintptr_t)function;

	assert_int_equal(dl_iterate_phdr(find_own_offset, &address), 1);
	return address;
}

void own_file_open(struct own_file *own)
{
	ssize_t n = readlink("/proc/self/exe", own->path, sizeof(own->path) - 1);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct elf_image image;
	struct stat st;

	assert_true(n > 0 && fd >= 0);
	own->path[n] = '\0';
	assert_int_equal(fstat(fd, &st), 0);
	own->size = (size_t)st.st_size;
	own->bytes = mmap(NULL, own->size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	assert_true(own->bytes != MAP_FAILED);
	own->key = (struct module_key){};
	assert_true(elf_image_open(&image, (struct elf_bytes){ own->bytes, own->size }));
	own->key.build_id_size = (uint32_t)elf_image_build_id(&image, own->key.build_id);
	own->inode = (struct module_key){ .major = major(st.st_dev), .minor = minor(st.st_dev), .inode = st.st_ino };
	close(fd);
}

void own_file_close(struct own_file *own)
{
	munmap(own->bytes, own->size);
}

struct function_list *list_maker_wait(struct list_maker *maker)
{
	uint64_t end = clock_monotonic_ns() + 120 * (uint64_t)NS_PER_S;
	struct pollfd wait = { .fd = list_maker_fd(maker), .events = POLLIN };
	struct function_list *list;

	assert_true(list_maker_is_busy(maker));
	while (!list_maker_finish(maker)) {
		if (clock_monotonic_ns() > end)
			fail_msg("the list is not there after two minutes");
		(void)poll(&wait, 1, 1000);
	}
	assert_false(list_maker_is_busy(maker));
	assert_false(list_maker_finish(maker));
	list = list_maker_take(maker);
	assert_non_null(list);
	assert_null(list_maker_take(maker));
	return list;
}

struct function_list *list_written(struct function_list_writer *writer, enum naming naming)
{
	struct function_list *list = NULL;
	int fd = memfd_create("list", MFD_CLOEXEC);

	assert_true(fd >= 0);
	if (function_list_write(writer, fd, naming, false, NULL) == 0)
		assert_int_equal(function_list_read(&list, fd, SIZE_MAX), 0);
	function_list_writer_release(writer);
	close(fd);
	return list;
}

enum naming list_find(const struct function_list *list, uint64_t place, struct function *ret)
{
	static struct function_block block;

	block.list = NULL;
	*ret = (struct function){};
	return function_list_find(list, place, &block, ret) && ret->name ? NAMING_NAMED : function_list_naming(list);
}
