/* SPDX-License-Identifier: MIT */

/* The folders of a service, from variables that can name several. */

#include "base/host/unit-folders.h"

#include "base/util/cleanup.h"

#include <errno.h>
#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* NULL: it is not set. */
static void set_variable(const char *name, const char *value)
{
	assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void assert_path(const char *path, const char *expected)
{
	if (expected)
		assert_string_equal(path, expected);
	else
		assert_null(path);
}

static void test_they_are_the_first_of_several(void **state)
{
	static const struct {
		const char *variable, *folder;
	} cases[] = {
		{ NULL, NULL },
		{ "", NULL },
		{ "/var/lib/perfmond", "/var/lib/perfmond" },
		{ "/var/lib/perfmond:/var/lib/other:/third", "/var/lib/perfmond" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *folder = NULL, *saved = NULL;

		set_variable("STATE_DIRECTORY", cases[i].variable);
		assert_int_equal(unit_state_folder(&folder), 0);
		assert_path(folder, cases[i].folder);
		set_variable("RUNTIME_DIRECTORY", cases[i].variable);
		assert_int_equal(unit_saved_path("list", &saved), cases[i].folder ? 0 : -ENOENT);
		assert_path(saved, cases[i].folder ? "/var/lib/perfmond/list" : NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_they_are_the_first_of_several),
	};

	return cmocka_run_group_tests_name("unit-folders", tests, NULL, NULL);
}
