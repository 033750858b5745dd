/* SPDX-License-Identifier: MIT */

#include "profiler/naming/list-child.h"

#include "base/util/helper.h"
#include "profiler/naming/function-names.h"
#include "profiler/naming/jit-files.h"
#include "profiler/naming/jit-list.h"
#include "profiler/naming/kernel-list.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of memory that may be allocated; files that are mapped do not count. Four million functions take 256 MiB while
 * they are sorted, and compressed symbols take FUNCTION_NAMES_ROOM. */
#define MEMORY_MAX ((uint64_t)640 << 20)

/* Bytes of the largest list. */
#define LIST_MAX ((uint64_t)256 << 20)

/* Bytes of the buffer for the kernel's lists. stdio can't choose a size: the sealed child may not call fstat(2). */
#define READ_SIZE ((size_t)64 << 10)

static bool is_empty_now(int fd)
{
	return ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0;
}

void list_child_answer(int fd, enum naming naming)
{
	struct function_list_writer writer = { .max = LIST_MAX };

	/* If this fails, the list is malformed, which is a reason too. */
	if (is_empty_now(fd))
		(void)function_list_write(&writer, fd, naming, false, NULL);
}

/* --- a file */

static unsigned char *map_room(void)
{
	void *room = mmap(NULL, FUNCTION_NAMES_ROOM, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return room == MAP_FAILED ? NULL : room;
}

/* The file of debug symbols that the file names; NULL: none, or all symbols were found. */
static const char *find_link(const struct function_sources *sources, bool has_all)
{
	struct elf_image image;
	const char *link;
	uint32_t crc;

	return !has_all && elf_image_open(&image, sources->file) && elf_image_debug_link(&image, &link, &crc) ? link :
														NULL;
}

/* False: no list was written. */
static bool write_list(const struct function_sources *sources, const struct list_request *request, bool is_part)
{
	_cleanup_(function_list_writer_release) struct function_list_writer writer = { .max = request->max };
	const struct function_places places = { request->places, is_part ? request->nr : 0 };
	bool has_all;
	enum naming naming = function_names_list(&writer, sources, &request->key, &places, &has_all);

	return function_list_write(&writer, LIST_FD_LIST, naming, is_part, find_link(sources, has_all)) == 0;
}

static void list_file(const struct list_request *request)
{
	struct elf_bytes candidates[FILE_CANDIDATES];
	struct function_sources sources = {
		.by_build_id = file_candidates_map(LIST_FD_BY_BUILD_ID),
		.by_link = file_candidates_map(LIST_FD_BY_LINK),
		.room = map_room(),
	};

	for (size_t i = 0; i < FILE_CANDIDATES; i++)
		candidates[i] = file_candidates_map(LIST_FD_FILES + (int)i);
	helper_seal_with_memory();
	sources.file = file_candidates_choose(candidates, &request->key);
	if (!sources.file.size) {
		struct function_list_writer none = { .max = LIST_MAX };

		(void)function_list_write(&none, LIST_FD_LIST, NAMING_NO_FILE, false, NULL);
		return;
	}
	if ((request->is_part && request->nr) || !write_list(&sources, request, false))
		(void)(request->nr && write_list(&sources, request, true));
}

/* --- the kernel */

static void list_kernel(const struct list_request *request)
{
	_cleanup_(function_list_writer_release) struct function_list_writer writer = { .max = request->max };
	char *buffer = malloc(READ_SIZE);
	FILE *files[FILE_CANDIDATES];
	enum naming naming;

	for (size_t i = 0; i < FILE_CANDIDATES; i++) {
		struct stat st;
		/* A descriptor without a file is /dev/null by now (open_standard_files()). */
		bool is_file = fstat(LIST_FD_FILES + (int)i, &st) == 0 && S_ISREG(st.st_mode);

		files[i] = buffer && is_file ? fdopen(LIST_FD_FILES + (int)i, "r") : NULL;
		if (files[i])
			(void)setvbuf(files[i], buffer, _IOFBF, READ_SIZE);
	}
	helper_seal_with_memory();
	naming = kernel_list_write(&writer, files, FILE_CANDIDATES, LIST_FD_LIST);
	if (naming != NAMING_NAMED) {
		function_list_writer_release(&writer);
		(void)function_list_write(&writer, LIST_FD_LIST, naming, false, NULL);
	}
}

/* --- code that a process makes */

static void list_jit(const struct list_request *request)
{
	_cleanup_(function_list_writer_release) struct function_list_writer writer = { .max = request->max };
	_cleanup_(jit_entries_release) struct jit_entries entries = {};
	struct elf_bytes map = file_candidates_map(LIST_FD_FILES + JIT_MAP),
			 dump = file_candidates_map(LIST_FD_FILES + JIT_DUMP);
	bool is_known = map.size > 0;

	helper_seal_with_memory();
	jit_read_map(&entries, map);
	is_known |= jit_read_dump(&entries, dump, request->jit_pid);
	if (is_known && jit_list(&entries, &writer) &&
	    function_list_write(&writer, LIST_FD_LIST, NAMING_NO_SYMBOL, false, NULL) == 0)
		return;
	function_list_writer_release(&writer);
	(void)function_list_write(&writer, LIST_FD_LIST, is_known ? NAMING_FAILED : NAMING_MALFORMED, false, NULL);
}

/* --- all of it */

/* It is large, and the child has no other. */
static struct list_request request;

static void do_all(void)
{
	if (!helper_limit(LIST_NR_FDS, MEMORY_MAX, LIST_MAX) ||
	    pread(LIST_FD_LIST, &request, sizeof(request), 0) != sizeof(request) || request.nr > LIST_PLACES ||
	    request.key.build_id_size > MODULE_BUILD_ID_MAX || request.max > LIST_MAX || !is_empty_now(LIST_FD_LIST))
		return;
	if (request.is_kernel)
		list_kernel(&request);
	else if (request.jit_pid)
		list_jit(&request);
	else
		list_file(&request);
}

void list_child_run(void)
{
	do_all();
	helper_exit();
}
