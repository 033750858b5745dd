/* SPDX-License-Identifier: MIT */

#include "profiler/stack/frame-table-child.h"

#include "base/util/helper.h"
#include "profiler/naming/function-names.h"
#include "profiler/stack/frame-rules.h"
#include "profiler/stack/known-code.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bytes of memory that may be allocated; files that are mapped do not count. 1.4 million rows took less than 60 MiB,
 * and there are at most FRAME_ROWS_MAX. */
#define MEMORY_MAX ((uint64_t)384 << 20)

/* Bytes of the largest table. */
#define TABLE_MAX                                                                                                      \
	(sizeof(struct frame_table_header) + FRAME_RULES_MAX * sizeof(struct frame_rule) +                             \
	 FRAME_ROWS_MAX * (sizeof(uint32_t) + sizeof(uint16_t)))

const char *frame_problem_text(enum frame_problem problem)
{
	static const char *const texts[_FRAME_PROBLEM_MAX] = {
		[FRAME_NO_PROBLEM] = "has a table",
		[FRAME_FAILED] = "takes too long to read, too much memory, or has crashed libdw",
		[FRAME_STUCK] = "hangs when it is opened or read",
		[FRAME_NO_FILE] = "can't be opened",
		[FRAME_OTHER_FILE] = "is another file now",
		[FRAME_MALFORMED] = "is no ELF file of this machine's kind",
		[FRAME_NO_RULES] = "has no call-frame information",
		[FRAME_TOO_LARGE] = "has more call-frame information than there is room for",
		[FRAME_NO_LIBDW] = "can't be read: perfmond is built without libdw",
	};

	return texts[problem];
}

void frame_problem_write(int fd, enum frame_problem problem)
{
	const struct frame_table_header header = { .magic = FRAME_TABLE_MAGIC, .problem = problem };

	/* If this fails, the table is malformed, which is a problem too. */
	if (pwrite(fd, &header, sizeof(header), 0) < 0)
		return;
}

/* --- the table */

static enum frame_problem make_table(struct elf_bytes bytes, const struct module_key *key)
{
	_cleanup_(frame_builder_freep) struct frame_builder *builder = NULL;
	struct elf_image image;
	int r;

	if (!elf_image_open(&image, bytes))
		return FRAME_MALFORMED;
	if (!function_names_is_file(bytes, key))
		return FRAME_OTHER_FILE;
	if (frame_builder_new(&builder) < 0)
		return FRAME_FAILED;
	r = frame_rules_add(builder, &image);
	if (r == 0 || r == -ENODATA)
		r = known_code_add(builder, &image);
	/* A full table is written too: it has the first part. */
	if (r == 0 || r == -EFBIG)
		r = frame_builder_write(builder, FRAME_FD_TABLE);
	if (r < 0)
		return r == -ENODATA ? FRAME_NO_RULES : FRAME_FAILED;
	return FRAME_NO_PROBLEM;
}

static enum frame_problem do_all(void)
{
	struct module_key key = {};
	struct elf_bytes candidates[FILE_CANDIDATES], file;

	if (!helper_limit(FRAME_NR_FDS, MEMORY_MAX, TABLE_MAX) ||
	    pread(FRAME_FD_TABLE, &key, sizeof(key), 0) != sizeof(key) || key.build_id_size > MODULE_BUILD_ID_MAX)
		return FRAME_FAILED;
	if (!frame_rules_are_built_in())
		return FRAME_NO_LIBDW;
	for (size_t i = 0; i < FILE_CANDIDATES; i++)
		candidates[i] = file_candidates_map(FRAME_FD_FILES + (int)i);
	helper_seal_with_memory();
	file = file_candidates_choose(candidates, &key);
	return file.data ? make_table(file, &key) : FRAME_NO_FILE;
}

/* No function that is called before the problem is written may be _Noreturn: AddressSanitizer makes system calls before
 * such a call. */
void frame_table_child_run(void)
{
	enum frame_problem problem = do_all();

	if (problem != FRAME_NO_PROBLEM)
		frame_problem_write(FRAME_FD_TABLE, problem);
	helper_exit();
}
