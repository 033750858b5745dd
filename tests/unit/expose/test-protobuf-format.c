/* SPDX-License-Identifier: MIT */

/* The protobuf format, byte by byte; that it says the same as the text format is tested with a daemon
 * (system/test_formats.py). */

#include "web/expose/expose.h"

#include "setup/made-snapshot.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct made_event events[] = {
	{ SCOPE_CPU, "software", "context-switches", .pmu = "software", .type = PERF_TYPE_SOFTWARE },
	{ SCOPE_CGROUP, "software", "task-clock", .pmu = "software", .type = PERF_TYPE_SOFTWARE, .scale = 1e-9,
	  .unit = EVENT_UNIT_SECONDS },
	{},
};

static struct snapshot *small_snapshot(void)
{
	struct snapshot *s = made_snapshot(events);

	made_row(s, SCOPE_CPU, 0, NULL, 0);
	made_cell(s, SCOPE_CPU, 0, 0, 100, 10);
	s->table[SCOPE_CPU].rows[0].since = 1600000000500000000;
	made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, "/a\"\\\n", 42);
	made_cell(s, SCOPE_CGROUP, 0, 0, 1500000000, 5e8);
	return s;
}

/* A number of no more than 64 bits from seven of each byte. */
static uint64_t take_varint(const unsigned char **at, const unsigned char *end)
{
	uint64_t value = 0;

	for (unsigned shift = 0;; shift += 7) {
		assert_true(*at < end && shift < 64);
		value |= (uint64_t)(**at & 0x7f) << shift;
		if (!(*(*at)++ & 0x80))
			return value;
	}
}

/* The message of the family of that name. */
static struct buf find_family(const struct buf *stream, const char *name)
{
	const unsigned char *at = (const unsigned char *)stream->data, *end = at + stream->len;
	struct buf found = {};

	while (at < end) {
		size_t length = take_varint(&at, end), n = strlen(name);

		assert_true(length <= (size_t)(end - at));
		assert_true(length > 2 && at[0] == 0x0a && at[1] < 128);
		if (at[1] == n && memcmp(at + 2, name, n) == 0) {
			assert_null(found.data);
			buf_add(&found, (const char *)at, length);
		}
		at += length;
	}
	return found;
}

#define assert_has(buf, bytes) assert_non_null(memmem((buf)->data, (buf)->len, bytes, sizeof(bytes) - 1))
#define assert_lacks(buf, bytes) assert_null(memmem((buf)->data, (buf)->len, bytes, sizeof(bytes) - 1))

static void test_counters(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = small_snapshot();
	_cleanup_(buf_release) struct buf stream = {}, switches = {}, clock = {};

	(void)state;
	assert_int_equal(expose_protobuf(&stream, s, NULL), 0);
	switches = find_family(&stream, "perf_cpu_context_switches_total");
	assert_non_null(switches.data);
	assert_has(&switches, "\x12\x50"
			      "Event context-switches of group software, counted on the CPU, for all processes.");
	/* Its metric: a counter of 100.0, and a label. Its type is 0, which is left out. */
	assert_has(&switches, "\x22\x15\x1a\x09\x09\0\0\0\0\0\0\x59\x40"
			      "\x0a\x08\x0a\x03"
			      "cpu\x12\x01"
			      "0");
	clock = find_family(&stream, "perf_cgroup_task_clock_seconds_total");
	assert_non_null(clock.data);
	/* 1.5, its unit, and a label as it is. */
	assert_has(&clock, "\x1a\x09\x09\0\0\0\0\0\0\xf8\x3f");
	assert_has(&clock, "\x2a\x07seconds");
	assert_has(&clock, "\x0a\x06"
			   "cgroup\x12\x05/a\"\\\n");
}

/* All but counters are gauges; 0.0 is left out, and the gauge is not. */
static void test_gauges(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = small_snapshot();
	_cleanup_(buf_release) struct buf stream = {}, build = {}, files = {};

	(void)state;
	assert_int_equal(expose_protobuf(&stream, s, NULL), 0);
	build = find_family(&stream, "perfmond_build_info");
	assert_non_null(build.data);
	assert_has(&build, "\x18\x01");
	assert_has(&build, "\x12\x09\x09\0\0\0\0\0\0\xf0\x3f");
	files = find_family(&stream, "perfmond_open_events");
	assert_non_null(files.data);
	assert_has(&files, "\x22\x02\x12\0");
}

static void test_created(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = small_snapshot();
	_cleanup_(buf_release) struct buf without = {}, with = {}, switches = {};

	(void)state;
	assert_int_equal(expose_protobuf(&without, s, NULL), 0);
	assert_lacks(&without, "\x1a\x0b\x08\x80\xa0\xf8\xfa\x05");
	s->options.created = true;
	assert_int_equal(expose_protobuf(&with, s, NULL), 0);
	switches = find_family(&with, "perf_cpu_context_switches_total");
	/* 1600000000 s and 500000000 ns. */
	assert_has(&switches, "\x1a\x0c\x08\x80\xa0\xf8\xfa\x05\x10\x80\xca\xb5\xee\x01");
}

/* Longer than there may be: the bound is told, as by the other formats. */
static void test_bound(void **state)
{
	_cleanup_(snapshot_unrefp) struct snapshot *s = small_snapshot();
	struct buf stream = { .max = 2000 };

	(void)state;
	assert_int_equal(expose_protobuf(&stream, s, NULL), -EFBIG);
	assert_null(stream.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counters),
		cmocka_unit_test(test_gauges),
		cmocka_unit_test(test_created),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests_name("protobuf-format", tests, NULL, NULL);
}
