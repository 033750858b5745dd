/* SPDX-License-Identifier: MIT */

/* Code that was made at run time, in answers: functions of all processes together, and no addresses. */

#include "base/util/clock.h"
#include "profiler/answer/query.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(struct archive *archive, uint64_t process, uint64_t offset, const char *name, enum naming naming)
{
	const struct module_key key = { .inode = process };
	const struct archive_place places[] = {
		{ .path = ARCHIVE_JIT, .key = &key, .offset = offset, .naming = naming, .name = name },
		{ .path = "/bin/program", .offset = 1, .naming = NAMING_STRIPPED },
	};
	const struct archive_sample sample = {
		.time = NS_PER_S,
		.event = "e",
		.cgroup = "/",
		.command = "x",
		.weight = 1,
		.places = places,
		.nr = ARRAY_SIZE(places),
	};

	assert_int_equal(archive_add(archive, &sample), 0);
}

static void test_processes_together(void **state)
{
	const struct profile_query query = { .to = UINT64_MAX, .event = "e" };
	_cleanup_(archive_freep) struct archive *archive = NULL;
	_cleanup_(profile_freep) struct profile *profile = NULL;
	_cleanup_(freep) struct profile_row *rows = NULL;
	size_t nr, functions = 0, nameless = 0;

	(void)state;
	assert_int_equal(archive_new(&archive, ARCHIVE_LIMIT_MIN), 0);
	/* Sampled before the list was there, by its address; later, as the function. */
	add(archive, 7, 0x7f0000001000, "function", NAMING_NAMED);
	add(archive, 8, 0x7f0000002000, "function", NAMING_NAMED);
	add(archive, 0, 0x123456789, "function", NAMING_NAMED);
	for (uint64_t i = 0; i < 5; i++)
		add(archive, i, 0x7f0000003000 + i, NULL, NAMING_NO_MAP);
	assert_int_equal(profile_new(&profile, archive, &query), 0);
	assert_int_equal(profile_top(&rows, &nr, profile, PROFILE_TOP_FUNCTION), 0);
	for (size_t i = 0; i < nr; i++) {
		const struct profile_node *node = rows[i].node;

		if (!rows[i].self)
			continue;
		assert_int_equal(node->offset, 0);
		if (node->kind == PROFILE_FUNCTION) {
			assert_string_equal(archive_text(archive, node->text), "function");
			assert_int_equal(rows[i].self, 3);
			functions++;
		} else {
			assert_int_equal(node->naming, NAMING_NO_MAP);
			assert_int_equal(rows[i].self, 5);
			nameless++;
		}
	}
	assert_int_equal(functions, 1);
	assert_int_equal(nameless, 1);
	assert_int_equal(profile->unnamed, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_processes_together) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
