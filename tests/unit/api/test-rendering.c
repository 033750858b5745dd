/* SPDX-License-Identifier: MIT */

/* The body of a response, as a piece of work: its bound, and what is made of it. */

#include "setup/fake-source.h"
#include "setup/made-snapshot.h"
#include "web/api/route.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct made_event events[] = { { SCOPE_CPU, "g", "context-switches", .set = 0 }, {} };

/* As many bytes as the query's limit says. */
static int write_bytes(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	(void)snapshot;
	for (size_t i = 0; i < query->limit; i += 1024)
		buf_add(out, (const char[1024]){}, query->limit - i < 1024 ? query->limit - i : 1024);
	return buf_finish(out, 0);
}

static struct response render(struct fake_source *fake, size_t bytes, const char *path, enum response_coding coding)
{
	struct rendering *rendering = calloc(1, sizeof(*rendering));
	struct response response = {};

	*rendering = (struct rendering){
		.refs = 1,
		.path = strdup(path),
		.type = "text/plain",
		.coding = coding,
		.write = write_bytes,
		.query.limit = bytes,
	};
	assert_int_equal(rendering_prepare(rendering), 0);
	rendering_run(rendering);
	route_rendered(&response, &fake->source, rendering);
	assert_null(rendering_unref(rendering));
	return response;
}

/* It is bound before it is compressed. */
static void test_bound(void **state)
{
	static const size_t too_many[] = { RENDERING_MAX + 1, 2 * RENDERING_MAX, 9 * (size_t)RENDERING_MAX };
	struct fake_source *fake = fake_source_new(made_snapshot(events));

	(void)state;
	for (int coding = 0; coding < _RESPONSE_CODING_MAX; coding++) {
		struct response longest = render(fake, RENDERING_MAX, "/metrics", (enum response_coding)coding);

		assert_int_equal(longest.status, 200);
		assert_true(coding ? longest.shared->len < 100000 : longest.shared->len == RENDERING_MAX);
		response_release(&longest);
		for (size_t i = 0; i < ARRAY_SIZE(too_many); i++) {
			_cleanup_(response_release) struct response text = {}, json = {};

			text = render(fake, too_many[i], "/metrics", (enum response_coding)coding);
			json = render(fake, too_many[i], "/api/v1/events", (enum response_coding)coding);
			assert_int_equal(text.status, 413);
			assert_int_equal(json.status, 413);
			assert_null(text.shared);
			assert_memory_equal(text.body.data, "the answer would be longer than 16 MiB; ", 40);
			assert_memory_equal(json.body.data, "{\"error\":\"the answer would be longer", 36);
			assert_null(text.encoding);
		}
	}
	fake_source_free(fake);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_bound) };

	return cmocka_run_group_tests_name("rendering", tests, NULL, NULL);
}
