/* SPDX-License-Identifier: MIT */

/* The lists of files: asked for, made, kept within their bound, in parts, and forgotten. */

#include "base/util/clock.h"
#include "profiler/naming/function-lists.h"
#include "setup/own-file.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

__attribute__((noinline, used)) static int function_of_lists(int n)
{
	volatile int sum = 0;

	for (int i = 0; i < n; i++)
		sum += i;
	return sum;
}

__attribute__((noinline, used)) static int another_function_of_lists(int n)
{
	volatile int sum = 1;

	for (int i = 1; i < n; i++)
		sum *= i;
	return sum;
}

struct world {
	struct function_lists *lists;
	struct processes *processes;
	struct own_file own;
};

static void set_up(struct world *world, size_t limit)
{
	const struct list_roots roots = { .proc = "/proc", .debug = "/nowhere" };

	assert_int_equal(function_lists_new(&world->lists, &roots, limit), 0);
	assert_int_equal(processes_new(&world->processes, "/proc", NULL, 0), 0);
	own_file_open(&world->own);
}

static void tear_down(struct world *world)
{
	own_file_close(&world->own);
	processes_free(world->processes);
	function_lists_free(world->lists);
}

/* Until it is there. */
static const struct function_list *wait_for(struct world *world, const char *path, uint64_t place)
{
	const struct function_list *list;
	uint64_t end = clock_monotonic_ns() + 60 * (uint64_t)NS_PER_S;

	while (!(list = function_lists_find(world->lists, &world->own.key, path, place))) {
		struct pollfd ended = { .fd = function_lists_fd(world->lists), .events = POLLIN };

		assert_true(clock_monotonic_ns() < end);
		if (!function_lists_turn(world->lists, world->processes))
			(void)poll(&ended, 1, 20);
	}
	return list;
}

static void check_name(const struct function_list *list, uint64_t place, const char *name)
{
	struct function found;

	assert_int_equal(list_find(list, place, &found), NAMING_NAMED);
	assert_string_equal(found.name, name);
}

static bool is_used(const void *userdata, const struct module_key *key, const char *path)
{
	(void)key;
	return userdata && strcmp(path, userdata) == 0;
}

static void test_made_once(void **state)
{
	uint64_t at = own_file_offset(function_of_lists), other = own_file_offset(another_function_of_lists);
	const struct function_list *list;
	struct function found;
	struct world world;

	(void)state;
	assert_true(function_of_lists(3) == 3 && another_function_of_lists(3) == 2);
	set_up(&world, 16 << 20);
	assert_null(function_lists_find(world.lists, &world.own.key, world.own.path, at));
	list = wait_for(&world, world.own.path, at);
	check_name(list, at, "function_of_lists");
	assert_ptr_equal(function_lists_find(world.lists, &world.own.key, world.own.path, other), list);
	check_name(list, other, "another_function_of_lists");
	assert_int_equal(function_lists_stats(world.lists).made, 1);
	/* Why there is none is known, too, for a while; it was tried twice, since a process might have had it. */
	assert_int_equal(list_find(wait_for(&world, "/nowhere/at/all", at), at, &found), NAMING_NO_FILE);
	assert_non_null(function_lists_find(world.lists, &world.own.key, "/nowhere/at/all", other));
	assert_int_equal(function_lists_stats(world.lists).made, 3);
	function_lists_tidy(world.lists, is_used, world.own.path);
	assert_int_equal(function_lists_stats(world.lists).files, 1);
	function_lists_tidy(world.lists, is_used, NULL);
	assert_int_equal(function_lists_stats(world.lists).files, 0);
	assert_int_equal(function_lists_stats(world.lists).bytes, 0);
	tear_down(&world);
}

/* All functions have no room: those at the places are listed, and others when they are asked for. */
static void test_parts(void **state)
{
	uint64_t at = own_file_offset(function_of_lists), other = own_file_offset(another_function_of_lists);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const struct function_list *list;
	struct world world;

	(void)state;
	set_up(&world, page + 200);
	list = wait_for(&world, world.own.path, at);
	assert_true(function_list_is_part(list));
	check_name(list, at, "function_of_lists");
	assert_null(function_lists_find(world.lists, &world.own.key, world.own.path, other));
	list = wait_for(&world, world.own.path, other);
	assert_true(function_list_is_part(list));
	check_name(list, other, "another_function_of_lists");
	assert_int_equal(function_lists_stats(world.lists).made, 2);
	/* The one that was not used for longest goes. */
	(void)wait_for(&world, "/nowhere/at/all", at);
	assert_int_equal(function_lists_stats(world.lists).files, 1);
	tear_down(&world);
}

/* A file that only its process has is named, also where that becomes known after the question. */
static void test_user_that_comes_later(void **state)
{
	uint64_t at = own_file_offset(function_of_lists);
	struct record mapping = { .type = PERF_RECORD_MMAP2, .mapping = { .start = 0x10000, .size = 0x1000 } };
	struct record command = { .type = PERF_RECORD_COMM, .misc = PERF_RECORD_MISC_COMM_EXEC };
	struct world world;

	(void)state;
	set_up(&world, 16 << 20);
	while (function_lists_stats(world.lists).made < 1) {
		struct pollfd ended = { .fd = function_lists_fd(world.lists), .events = POLLIN };

		assert_null(function_lists_find(world.lists, &world.own.key, "/gone", at));
		(void)function_lists_turn(world.lists, world.processes);
		(void)poll(&ended, 1, 20);
	}
	assert_null(function_lists_find(world.lists, &world.own.key, "/gone", at));
	command.comm.pid = command.comm.tid = mapping.mapping.pid = mapping.mapping.tid = (uint32_t)getpid();
	command.comm.name = "own";
	mapping.mapping.file = "/gone";
	mapping.mapping.build_id_size = world.own.key.build_id_size;
	mapping.mapping.build_id = world.own.key.build_id;
	processes_take(world.processes, &command);
	processes_take(world.processes, &mapping);
	check_name(wait_for(&world, "/gone", at), at, "function_of_lists");
	tear_down(&world);
}

/* Lists are made by this program, executed anew. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_once),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_user_that_comes_later),
	};

	if (argc == 2 && strcmp(argv[1], "--list-functions") == 0)
		list_child_run();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
