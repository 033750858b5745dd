/* SPDX-License-Identifier: MIT */

/* The tables of files: asked for, made, absent, and within their bound. */

#include "profiler/stack/frame-table-child.h"
#include "profiler/stack/tables.h"
#include "setup/own-file.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct world {
	struct frame_tables *tables;
	struct processes *processes;
	struct own_file own;
	struct module *module, *missing;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));
	struct module_key key;

	assert_non_null(world);
	assert_int_equal(frame_tables_new(&world->tables, "/proc"), 0);
	frame_tables_set_limit(world->tables, 64 << 20);
	assert_int_equal(processes_new(&world->processes, "/proc", NULL, 0), 0);
	own_file_open(&world->own);
	world->module = module_new(&world->own.key, world->own.path);
	key = world->own.key;
	key.build_id[0] ^= 1;
	world->missing = module_new(&key, "/nowhere/at/all");
	assert_true(world->module && world->missing);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	module_unref(world->module);
	module_unref(world->missing);
	own_file_close(&world->own);
	processes_free(world->processes);
	frame_tables_free(world->tables);
	free(world);
	return 0;
}

static enum frame_tables_state find(struct world *world, const struct module *module)
{
	const struct frame_table *table = NULL;
	enum frame_tables_state state = frame_tables_find(world->tables, module, &table);

	assert_int_equal(table != NULL, state == FRAME_TABLES_READY);
	return state;
}

/* Until all that was asked for is known. */
static void wait_for(struct world *world, const struct module *module)
{
	while (find(world, module) == FRAME_TABLES_ASKED) {
		struct pollfd ended = { .fd = frame_tables_fd(world->tables), .events = POLLIN };

		(void)frame_tables_turn(world->tables, world->processes);
		assert_true(find(world, module) != FRAME_TABLES_ASKED || poll(&ended, 1, 60000) == 1);
	}
}

static void test_made(void **state)
{
	struct world *world = *state;
	struct frame_tables_stats stats;

	assert_int_equal(find(world, world->missing), FRAME_TABLES_ASKED);
	assert_int_equal(find(world, world->module), FRAME_TABLES_ASKED);
	wait_for(world, world->module);
	assert_int_equal(find(world, world->module), FRAME_TABLES_READY);
	assert_int_equal(find(world, world->missing), FRAME_TABLES_ABSENT);
	stats = frame_tables_stats(world->tables);
	assert_int_equal(stats.files, 1);
	assert_int_equal(stats.made, 1);
	assert_int_equal(stats.absent, 1);
	assert_true(stats.bytes > 1000 && stats.cpu_ns > 0);
}

/* What has no room is made again when it is needed; what is too large for all of the room is absent. */
static void test_bound(void **state)
{
	struct world *world = *state;

	assert_int_equal(find(world, world->module), FRAME_TABLES_ASKED);
	wait_for(world, world->module);
	assert_false(frame_tables_stats(world->tables).is_short);
	frame_tables_set_limit(world->tables, 100);
	assert_int_equal(frame_tables_stats(world->tables).bytes, 0);
	assert_int_equal(frame_tables_stats(world->tables).dropped, 1);
	assert_true(frame_tables_stats(world->tables).is_short);
	assert_int_equal(find(world, world->module), FRAME_TABLES_ASKED);
	wait_for(world, world->module);
	assert_int_equal(find(world, world->module), FRAME_TABLES_ABSENT);
	assert_int_equal(frame_tables_stats(world->tables).bytes, 0);
}

/* A maker executes this program anew. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_made, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bound, setup, teardown),
	};

	if (argc == 2 && strcmp(argv[1], "--make-frame-table") == 0)
		frame_table_child_run();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
