/* SPDX-License-Identifier: MIT */

/* A build without libpfm: its names are unknown ones, and the sentence says why. With it, test-pfm.c is run. */

#include "counting/event/catalog/pfm.h"
#include "counting/event/parse.h"
#include "counting/event/walk.h"
#include "setup/machines.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char hint[] = "this perfmond is built without libpfm, which knows names of that kind";

static void test_nothing_there(_unused_ void **state)
{
	struct pfm_encoding_list list = {};

	assert_false(pfm_is_built_in());
	assert_int_equal(pfm_encode(&list, "INST_RETIRED:ANY_P", NULL), -ENOENT);
	assert_int_equal(pfm_encode(&list, "skx::INST_RETIRED:ANY_P", NULL), -ENODEV);
	assert_null(list.items);
	pfm_encoding_list_release(&list);
}

static void test_unknown(_unused_ void **state)
{
	static const struct {
		const char *text;
		bool looks_like_it;
	} table[] = {
		{ "inst_retired.any_p", true },
		{ "nothing-of-that", false },
		{ "Nothing_Of_That", false },
		{ "sched:*", false },
	};
	struct machine m = machine_new(machine_server);

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct event_list list = {};
		struct reason why = {};

		assert_int_equal(event_parse(&list, &m.env, table[i].text, &why), -EINVAL);
		assert_int_equal(strstr(why.text, hint) != NULL, table[i].looks_like_it);
	}
	machine_release(&m);
}

/* It could be a tracepoint of another machine. */
static void test_absent(_unused_ void **state)
{
	struct machine m = machine_new(machine_server);
	struct event_list list = machine_parse(&m, "INST_RETIRED:ANY_P");

	assert_int_equal(list.events[0].attr.type, PERF_TYPE_TRACEPOINT);
	assert_int_equal(list.events[0].absent, -ENOENT);
	assert_non_null(strstr(list.events[0].why_absent, hint));
	event_list_release(&list);

	list = machine_parse(&m, "INST_RETIRED");
	assert_int_equal(list.events[0].absent, -ENOENT);
	assert_non_null(strstr(list.events[0].why_absent, hint));
	event_list_release(&list);

	/* No tracepoint's. */
	list = machine_parse(&m, "skx::inst_retired");
	assert_int_equal(list.events[0].absent, -ENODEV);
	assert_string_equal(list.events[0].why_absent, hint);
	event_list_release(&list);

	list = machine_parse(&m, "skhed:sched_switch");
	assert_int_equal(list.events[0].absent, -ENOENT);
	assert_null(strstr(list.events[0].why_absent, hint));
	event_list_release(&list);
	machine_release(&m);
}

static int on_listing(_unused_ void *userdata, const struct event_listing *listing)
{
	assert_string_not_equal(listing->kind, "libpfm event");
	return 0;
}

static void test_list(_unused_ void **state)
{
	struct machine m = machine_new(machine_server);

	assert_int_equal(event_walk(&m.env, on_listing, NULL), 0);
	machine_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_there),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests_name("pfm-none", tests, NULL, NULL);
}
