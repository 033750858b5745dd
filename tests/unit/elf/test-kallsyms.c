/* SPDX-License-Identifier: MIT */

/* The list of the kernel's functions that root saves. */

#include "base/elf/kallsyms.h"
#include "base/util/file.h"
#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HIDDEN "0000000000000000 T _stext\n0000000000000000 t first\n"

static const char all[] = "0000000000000000 A fixed_percpu_data\n"
			  "ffffffff81000000 T _stext\n"
			  "ffffffff81000100 t first\n"
			  "ffffffff81000200 D data\n"
			  "not a line\n"
			  "ffffffff81000300 W weak\n"
			  "ffffffffc0000000 t of_module\t[module]\n"
			  "ffffffffc0001000 b end\t[module]\n";

static void test_save(void **state)
{
	_cleanup_(freep) char *from = NULL, *to = NULL, *text = NULL;
	struct scratch scratch;
	struct reason why = {};
	struct stat st, folder;

	(void)state;
	scratch_make(&scratch);
	scratch_text(&scratch, "kallsyms", all);
	scratch_text(&scratch, "saved", "an older one");
	from = strdup(scratch_path(&scratch, "kallsyms"));
	to = strdup(scratch_path(&scratch, "saved"));
	assert_int_equal(kallsyms_save(from, to, &why), 4);
	assert_int_equal(stat(to, &st), 0);
	assert_int_equal(stat(scratch.path, &folder), 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	assert_int_equal(st.st_uid, folder.st_uid);
	assert_int_equal(read_text_file(AT_FDCWD, to, 4096, &text), 0);
	assert_string_equal(text, "ffffffff81000000 T _stext\nffffffff81000100 t first\nffffffff81000300 W weak\n"
				  "ffffffffc0000000 t of_module\t[module]");
	/* The old list stays where there is no better one. */
	scratch_text(&scratch, "kallsyms", HIDDEN);
	assert_int_equal(kallsyms_save(from, to, &why), -EACCES);
	assert_non_null(strstr(why.text, "kernel.kptr_restrict"));
	assert_int_equal(kallsyms_save("/nowhere/kallsyms", to, &why), -ENOENT);
	assert_int_equal(kallsyms_save(from, "/nowhere/saved", &why), -EACCES);
	scratch_text(&scratch, "kallsyms", all);
	assert_int_equal(kallsyms_save(from, "/nowhere/saved", &why), -ENOENT);
	assert_non_null(strstr(why.text, "/nowhere/saved"));
	scratch_remove(&scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_save),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
