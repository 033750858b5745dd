/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The API's answers, of a made snapshot, read back with jansson.
 */

#include "setup/made-snapshot.h"
#include "web/expose/expose.h"

#include <jansson.h>

/* For _cleanup_(). */
void json_free(json_t **json);

/* One line of valid JSON; b is released. */
json_t *parse(struct buf *b);
json_t *snapshot_json(const struct snapshot *snapshot, const struct expose_query *query);

/* What stands at a path such as "cgroups.0.events.cycles.total"; NULL: nothing. */
json_t *at(json_t *json, const char *path);

extern const struct made_event usual_events[6];
/* Cgroups /a /b /c /d/e: /b has the highest rate, /d/e is not measured, /c has no rate yet. */
struct snapshot *usual_snapshot(void);

#define assert_number(json, path, expected)                                                                            \
	do {                                                                                                           \
		json_t *_found = at(json, path);                                                                       \
		if (!json_is_number(_found) || json_number_value(_found) != (double)(expected))                        \
			fail_msg("%s is %g", path, json_number_value(_found));                                         \
	} while (0)

#define assert_text(json, path, expected)                                                                              \
	do {                                                                                                           \
		json_t *_found = at(json, path);                                                                       \
		if (!json_is_string(_found))                                                                           \
			fail_msg("%s is no string", path);                                                             \
		assert_string_equal(json_string_value(_found), expected);                                              \
	} while (0)

#define assert_null_at(json, path) assert_true(json_is_null(at(json, path)))
#define assert_absent(json, path) assert_null(at(json, path))
#define assert_size(json, path, expected) assert_int_equal(json_array_size(at(json, path)), expected)
