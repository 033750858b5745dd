/* SPDX-License-Identifier: MIT */

/* The list of the kernel's functions that root saves, and names by it where /proc/kallsyms has none. */

#include "base/elf/kallsyms.h"
#include "base/util/file.h"
#include "setup/own-file.h"
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

/* The answer for an address in `first`. */
static void check_answer(struct scratch *scratch, bool saved, enum naming expected)
{
	_cleanup_(freep) char *list = strdup(scratch_path(scratch, "saved"));
	const struct resolver_roots roots = { scratch->path, "/nowhere", saved ? list : NULL };
	const uint64_t address = 0xffffffff81000110;
	_cleanup_(resolver_freep) struct resolver *resolver = NULL;
	struct resolver_answer answer;

	assert_int_equal(resolver_new(&resolver, &roots), 0);
	assert_int_equal(resolver_start(resolver, "", NULL, 0, &address, 1), 0);
	resolver_wait(resolver);
	assert_string_equal(naming_text(resolver_answer(resolver, 0, &answer)), naming_text(expected));
	if (expected == NAMING_NAMED)
		assert_string_equal(answer.name, "first");
}

static void test_names(void **state)
{
	struct scratch scratch;

	(void)state;
	scratch_make(&scratch);
	check_answer(&scratch, true, NAMING_NO_KALLSYMS);
	scratch_text(&scratch, "kallsyms", HIDDEN);
	check_answer(&scratch, true, NAMING_KERNEL);
	check_answer(&scratch, false, NAMING_KERNEL);
	scratch_text(&scratch, "saved", all);
	check_answer(&scratch, true, NAMING_NAMED);
	scratch_text(&scratch, "kallsyms", all);
	check_answer(&scratch, false, NAMING_NAMED);
	scratch_remove(&scratch);
	scratch_make(&scratch);
	scratch_text(&scratch, "saved", all);
	check_answer(&scratch, true, NAMING_NAMED);
	scratch_text(&scratch, "saved", HIDDEN);
	check_answer(&scratch, true, NAMING_KERNEL);
	scratch_remove(&scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_save),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
