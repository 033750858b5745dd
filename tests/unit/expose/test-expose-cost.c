/* SPDX-License-Identifier: MIT */

/* The cost of a response is bounded for any config, query and names of cgroups. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "setup/made-snapshot.h"

#include "base/util/glob.h"
#include "web/expose/expose.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* Many cgroups with names as long as there can be: a glob that takes long for each is refused, and others are not. */
static void test_a_query_has_a_bound(void **state)
{
	static const struct made_event events[] = { { SCOPE_CGROUP, "g", .text = "page-faults" }, {} };
	static const char *const fine[] = { "**", "/**/*", "**Z", "/a**b**c**d**e**f**g", "**\xc3\xa1*[a-c]?*" };
	_cleanup_(snapshot_unrefp) struct snapshot *s = made_snapshot(events);
	char path[4096], glob[GLOB_MAX + 1];
	struct buf b = {};

	(void)state;
	memset(path, 'a', sizeof(path));
	for (size_t i = 0; i < sizeof(path); i += 255)
		path[i] = '/';
	path[sizeof(path) - 1] = '\0';
	for (uint64_t i = 0; i < 500; i++)
		made_cell(s, SCOPE_CGROUP, made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, path, i + 2), 0, 1, 1);

	memset(glob, '[', GLOB_MAX);
	memcpy(glob, "**", 2);
	glob[GLOB_MAX] = '\0';
	assert_int_equal(expose_json_snapshot(&b, s, &(struct expose_query){ .cgroup = glob }), 0);
	buf_release(&b);
	/* All of it may have been reached at each character. */
	memcpy(glob + 2, path, GLOB_MAX - 2);
	assert_int_equal(expose_json_snapshot(&b, s, &(struct expose_query){ .cgroup = glob }), -E2BIG);
	assert_null(b.data);
	for (size_t i = 0; i < ARRAY_SIZE(fine); i++) {
		assert_int_equal(expose_json_snapshot(&b, s, &(struct expose_query){ .cgroup = fine[i] }), 0);
		buf_release(&b);
	}
}

/* So many events, all in one group. */
static struct snapshot *snapshot_of_one_group(size_t nr)
{
	struct made_event *events = calloc(nr + 1, sizeof(*events));
	char(*names)[32] = calloc(nr, sizeof(*names));
	struct snapshot *snapshot;

	assert_non_null(events);
	assert_non_null(names);
	for (size_t i = 0; i < nr; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "event-%07zu", i);
		events[i] = (struct made_event){ SCOPE_CPU, "g", .text = names[i] };
	}
	snapshot = made_snapshot(events);
	free(names);
	free(events);
	return snapshot;
}

static size_t nr_values;

static void *count_value(size_t size)
{
	nr_values++;
	return malloc(size);
}

/* The values of JSON that are made to write the events of one group; *ret_bytes: the size of the document. */
static size_t values_of_events(size_t nr, size_t *ret_bytes)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = snapshot_of_one_group(nr);
	_cleanup_(buf_release) struct buf b = {};

	nr_values = 0;
	json_set_alloc_funcs(count_value, free);
	assert_int_equal(expose_json_events(&b, s), 0);
	json_set_alloc_funcs(malloc, free);
	*ret_bytes = b.len;
	return nr_values;
}

/* Ten times as many events of a group are ten times as much, and not a hundred or a thousand. */
static void test_events_of_a_large_group(_unused_ void **state)
{
	size_t bytes, more_bytes, values = values_of_events(100, &bytes), more = values_of_events(1000, &more_bytes);

	assert_in_range(more_bytes, 9 * bytes, 11 * bytes);
	assert_in_range(more, 9 * values, 11 * values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_query_has_a_bound),
		cmocka_unit_test(test_events_of_a_large_group),
	};

	return cmocka_run_group_tests_name("expose-cost", tests, NULL, NULL);
}
