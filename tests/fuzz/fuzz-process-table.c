/* SPDX-License-Identifier: MIT */

/*
 * Tables of processes: the input is two numbers, of modules and of processes, and what stands behind the head of a
 * table, whose checksum is right. It is refused and nothing is told, or it is told as a whole; the last process can be
 * written again, and is the same then.
 */

#include "fuzz.h"

#include "profiler/process/process-table.h"

#include <errno.h>
#include <string.h>

struct told {
	uint64_t processes, mappings;
	size_t account;
	struct mappings *last;
	struct saved_process process;
};

static int tell_process(void *userdata, const struct saved_process *process)
{
	struct told *told = userdata;

	CHECK(process->pid > 0 && process->pid < UINT32_MAX && !process->mappings && process->mappings_error <= 0);
	CHECK(memchr(process->comm, 0, sizeof(process->comm)));
	told->processes++;
	mappings_unref(told->last);
	told->last = mappings_new(&told->account);
	CHECK(told->last);
	told->process = *process;
	return 0;
}

static int tell_mapping(void *userdata, const struct proc_mapping *mapping)
{
	struct told *told = userdata;
	struct module *module = module_new(&mapping->key, mapping->path);

	CHECK(told->last && module && mapping->path[0]);
	CHECK(mapping->key.build_id_size <= MODULE_BUILD_ID_MAX);
	told->mappings++;
	(void)mappings_put(&told->last, mapping->start, mapping->size, mapping->offset, module);
	module_unref(module);
	return 0;
}

static void check_again(struct told *told)
{
	_cleanup_(process_table_image_release) struct process_table_image image = {};
	struct told again = {};
	const struct process_table_reader reader = { tell_process, tell_mapping, &again };
	struct process_table_list list = {};

	process_table_image_begin(&image, (size_t)1 << 20);
	told->process.mappings = told->last;
	CHECK(process_table_image_add(&image, &told->process) == 0);
	CHECK(process_table_image_end(&image, 1, &list) == 0);
	CHECK(process_table_image_read(image.bytes.data, image.bytes.len, &reader, &list) == 0);
	CHECK(again.processes == 1 && again.mappings == mappings_nr(told->last));
	CHECK(mappings_nr(again.last) == mappings_nr(told->last) && again.process.pid == told->process.pid);
	mappings_unref(again.last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(process_table_image_release) struct process_table_image image = {};
	struct process_table_list list = { .inode = 1 };
	struct told told = {};
	const struct process_table_reader reader = { tell_process, tell_mapping, &told };
	int r;

	/* As it is, with a checksum that is hardly ever right. */
	(void)process_table_image_number(data, size);
	if (size < 2 || size > 1 << 16)
		return 0;
	process_table_image_begin(&image, (size_t)1 << 17);
	image.nr_modules = data[0];
	image.nr_processes = data[1];
	buf_add(&image.bytes, (const char *)data + 2, size - 2);
	CHECK(process_table_image_end(&image, 1, &list) == 0);
	CHECK(process_table_image_number(image.bytes.data, image.bytes.len) == 1);
	r = process_table_image_read(image.bytes.data, image.bytes.len, &reader, &list);
	CHECK(r == 0 || (r == -EBADMSG && told.processes == 0));
	CHECK(told.processes <= data[1]);
	if (told.last)
		check_again(&told);
	mappings_unref(told.last);
	return 0;
}
