/* SPDX-License-Identifier: MIT */

/* Which code counts as made at run time, and what its places are. */

#include "profiler/stack/places.h"

#include <linux/perf_event.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct world {
	struct jit_functions *jit;
	struct frame_tables *tables;
	struct kernel_functions kernel;
	struct mappings *mappings;
	size_t account;
};

static int set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	/* No file is looked at: there is no turn. */
	assert_int_equal(jit_functions_new(&world->jit, "/nowhere"), 0);
	assert_int_equal(frame_tables_new(&world->tables, "/nowhere"), 0);
	world->mappings = mappings_new(&world->account);
	assert_non_null(world->mappings);
	*state = world;
	return 0;
}

static int tear_down(void **state)
{
	struct world *world = *state;

	jit_functions_free(world->jit);
	frame_tables_free(world->tables);
	mappings_unref(world->mappings);
	free(world);
	return 0;
}

/* The place of an address, where there is a mapping of that path. */
static struct archive_place place_at(struct world *world, const char *path, uint64_t address, bool is_on)
{
	static struct archive_place places[ARCHIVE_DEPTH_MAX];
	const uint64_t chain[] = { PERF_CONTEXT_USER, address };
	_cleanup_(module_unrefp) struct module *module = module_new(&(struct module_key){}, path);
	struct stack_source source = {
		.chain = { (const unsigned char *)chain, ARRAY_SIZE(chain) },
		.program = { .pid = 1, .life = 1 },
		.jit = is_on ? world->jit : NULL,
	};
	enum stack_end end;
	size_t nr;

	assert_non_null(module);
	assert_int_equal(mappings_put(&world->mappings, 0x7f0000000000, 0x100000, 0, module), 0);
	source.mappings = world->mappings;
	assert_int_equal(places_of_stack(places, &nr, &end, &source, world->tables, &world->kernel, false), 0);
	assert_int_equal(nr, 1);
	return places[0];
}

static void test_paths(void **state)
{
	static const struct {
		const char *path;
		bool is_jit;
	} cases[] = {
		{ "//anon", true },	{ "[anon:v8]", true }, { "[heap]", true },
		{ "[stack]", true },	{ "[vdso]", false },   { "[vsyscall]", false },
		{ "[uprobes]", false }, { "/bin/a", false },   { "/memfd:a", false },
	};
	struct world *world = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct archive_place off = place_at(world, cases[i].path, 0x7f0000001234, false), on;
		char path[32];

		assert_string_not_equal(off.path, ARCHIVE_JIT);
		/* The place borrows it from the mapping, of which there will be another. */
		(void)snprintf(path, sizeof(path), "%s", off.path);
		on = place_at(world, cases[i].path, 0x7f0000001234, true);
		if (!cases[i].is_jit) {
			assert_string_equal(on.path, path);
			assert_int_equal(on.offset, off.offset);
			continue;
		}
		assert_int_equal(off.offset, 0);
		assert_int_equal(off.naming, NAMING_GENERATED);
		assert_string_equal(on.path, ARCHIVE_JIT);
		assert_int_equal(on.offset, 0x7f0000001234);
		assert_int_equal(on.naming, NAMING_UNTRIED);
		assert_non_null(on.key);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(test_paths, set_up, tear_down) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
