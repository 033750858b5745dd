/* SPDX-License-Identifier: MIT */

/* ELF files: whatever is in one, a function that is listed has the place in it, and places without one have a
 * reason. */

#include "fuzz.h"

#include "base/util/cleanup.h"
#include "profiler/naming/function-names.h"

#include <string.h>
#include <sys/mman.h>

static enum naming list(const struct function_sources *sources, const struct module_key *key, size_t nr_places)
{
	static const uint64_t offsets[] = { 0, 0x40, 0x148, 0x16a, 0x1000, 0x1010 };
	static struct function_block block;
	const struct function_places places = { offsets, nr_places ? ARRAY_SIZE(offsets) : 0 };
	_cleanup_(function_list_writer_release) struct function_list_writer writer = { .max = (size_t)64 << 20 };
	_cleanup_(function_list_freep) struct function_list *list = NULL;
	_cleanup_(closep) int fd = memfd_create("list", MFD_CLOEXEC);
	struct function found;
	bool has_all;
	enum naming naming = function_names_list(&writer, sources, key, &places, &has_all);

	CHECK(naming > NAMING_NAMED && naming < _NAMING_MAX);
	CHECK(fd >= 0);
	if (function_list_write(&writer, fd, naming, false, NULL) < 0)
		return naming;
	CHECK(function_list_read(&list, fd, SIZE_MAX) == 0);
	block.list = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++)
		if (function_list_find(list, offsets[i], &block, &found))
			CHECK(found.start <= offsets[i] && offsets[i] < found.end);
	return naming;
}

static void fuzz_file(const uint8_t *data, size_t size)
{
	static unsigned char *room;
	/* It may be its own file of debug symbols. */
	struct function_sources sources = { { data, size }, { data, size }, { data, size }, NULL };
	struct elf_image image;
	struct module_key key = {};

	if (!room)
		room = mmap(NULL, FUNCTION_NAMES_ROOM, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(room != MAP_FAILED);
	sources.room = room;
	(void)list(&sources, &key, 0);
	if (!elf_image_open(&image, sources.file))
		return;
	key.build_id_size = (uint32_t)elf_image_build_id(&image, key.build_id);
	CHECK(key.build_id_size <= MODULE_BUILD_ID_MAX);
	CHECK(list(&sources, &key, 1) != NAMING_OTHER_FILE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_file(data, size);
	return 0;
}
