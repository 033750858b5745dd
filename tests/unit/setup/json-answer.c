/* SPDX-License-Identifier: MIT */

#include "setup/json-answer.h"

#include <math.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void json_free(json_t **json)
{
	json_decref(*json);
}

json_t *parse(struct buf *b)
{
	json_error_t error;
	json_t *json;

	assert_int_equal(b->data[b->len - 1], '\n');
	assert_null(memchr(b->data, '\n', b->len - 1));
	json = json_loadb(b->data, b->len, JSON_REJECT_DUPLICATES, &error);
	if (!json)
		fail_msg("%s at %d in: %.*s", error.text, error.position, (int)b->len, b->data);
	buf_release(b);
	return json;
}

json_t *snapshot_json(const struct snapshot *snapshot, const struct expose_query *query)
{
	struct buf b = {};

	assert_int_equal(expose_json_snapshot(&b, snapshot, query), 0);
	return parse(&b);
}

json_t *at(json_t *json, const char *path)
{
	_cleanup_(freep) char *copy = strdup(path);
	char *cursor = copy, *key;

	while (json && (key = strsep(&cursor, "."))) {
		if (json_is_array(json))
			json = json_array_get(json, (size_t)atoi(key));
		else
			json = json_object_get(json, key);
	}
	return json;
}

const struct made_event usual_events[] = {
	{ SCOPE_CPU, "core", "cycles", .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CPU_CYCLES,
	  .state = EVENT_MULTIPLEXED },
	{ SCOPE_CPU, "core", "instructions", .type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS,
	  .state = EVENT_MULTIPLEXED },
	{ SCOPE_CPU, "core", "LLC-loads", .type = PERF_TYPE_HW_CACHE, .config = 2, .set = MADE_NO_SET,
	  .state = EVENT_UNSUPPORTED, .why = "not here" },
	{ SCOPE_CGROUP, "software", "context-switches", .pmu = "software", .type = PERF_TYPE_SOFTWARE,
	  .config = PERF_COUNT_SW_CONTEXT_SWITCHES },
	{ SCOPE_CGROUP, "software", "task-clock", .pmu = "software", .type = PERF_TYPE_SOFTWARE,
	  .config = PERF_COUNT_SW_TASK_CLOCK, .scale = 1e-9, .unit = EVENT_UNIT_SECONDS },
	{},
};

struct snapshot *usual_snapshot(void)
{
	struct snapshot *s = made_snapshot(usual_events);
	static const struct {
		const char *path;
		uint64_t total;
		double rate;
	} cgroups[] = { { "/a", 500, 1 }, { "/b", 20, 7.5 }, { "/c", 1000, NAN }, { "/d/e", 0, 0 } };

	for (int cpu = 0; cpu < 2; cpu++) {
		size_t row = made_row(s, SCOPE_CPU, cpu, NULL, 0);

		made_cell(s, SCOPE_CPU, row, 0, 1000, 400);
		made_cell(s, SCOPE_CPU, row, 1, 3000, 600 * (cpu + 1));
		made_times(s, SCOPE_CPU, row, 0, 2000000000, 1000000000, 0.25 * (cpu + 1));
	}
	for (size_t i = 0; i < ARRAY_SIZE(cgroups); i++) {
		size_t row = made_row(s, SCOPE_CGROUP, ROW_ALL_CPUS, cgroups[i].path, 10 + i);

		if (i == 3)
			continue;
		made_cell(s, SCOPE_CGROUP, row, 0, cgroups[i].total, cgroups[i].rate);
		made_cell(s, SCOPE_CGROUP, row, 1, 1500000000, i == 2 ? NAN : 5e8);
		made_times(s, SCOPE_CGROUP, row, 0, 1000, 1000, 1);
	}
	return s;
}
