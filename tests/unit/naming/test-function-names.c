/* SPDX-License-Identifier: MIT */

/* Functions of files: of this program, also by the child; of made symbols; of broken files. */

#include "setup/own-file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Two functions that nobody else has. */
__attribute__((noinline, used)) static int first_known_function(int n)
{
	volatile int sum = 0;

	for (int i = 0; i < n; i++)
		sum += i;
	return sum;
}

__attribute__((noinline, used)) static int second_known_function(int n)
{
	volatile int sum = 1;

	for (int i = 1; i < n; i++)
		sum *= i;
	return sum;
}

/* NULL: it could not be written. */
static struct function_list *list_in(const unsigned char *bytes, size_t size, const struct module_key *key,
				     const uint64_t *places, size_t nr)
{
	const struct function_sources sources = { .file = { bytes, size } };
	const struct function_places wanted = { places, nr };
	struct function_list_writer writer = { .max = 64 << 20 };
	bool has_all;
	enum naming naming = function_names_list(&writer, &sources, key, &wanted, &has_all);

	return list_written(&writer, naming);
}

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void test_own(void **state)
{
	uint64_t first = own_file_offset(first_known_function), second = own_file_offset(second_known_function);
	uint64_t low = lower(first, second), high = first + second - low;
	const char *below = low == first ? "first_known_function" : "second_known_function";
	const char *above = low == first ? "second_known_function" : "first_known_function";
	const uint64_t places[] = { low, low + 1, high + 2 }, *asked = &places[2];
	struct function_list *list;
	struct function found, next;
	struct own_file own;

	(void)state;
	assert_true(first_known_function(3) == 3 && second_known_function(3) == 2);
	own_file_open(&own);
	list = list_in(own.bytes, own.size, &own.key, NULL, 0);
	assert_non_null(list);
	assert_int_equal(list_find(list, 0, &found), NAMING_NO_SYMBOL);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		assert_int_equal(list_find(list, places[i], &found), NAMING_NAMED);
		assert_string_equal(found.name, i < 2 ? below : above);
		assert_int_equal(found.start, i < 2 ? low : high);
		assert_true(found.end > places[i]);
	}
	/* Behind the end of the one below there is nothing, or another function. */
	assert_int_equal(list_find(list, low, &found), NAMING_NAMED);
	assert_true(list_find(list, found.end, &next) != NAMING_NAMED || strcmp(next.name, below) != 0);
	function_list_free(list);
	/* Only what is asked for. */
	list = list_in(own.bytes, own.size, &own.key, asked, 1);
	assert_int_equal(list_find(list, low, &found), NAMING_NO_SYMBOL);
	assert_int_equal(list_find(list, high + 2, &found), NAMING_NAMED);
	assert_string_equal(found.name, above);
	assert_true(function_list_bytes(list) <= (size_t)sysconf(_SC_PAGESIZE));
	function_list_free(list);
	own_file_close(&own);
}

static void test_other_build_id(void **state)
{
	struct function_list *list;
	struct function found;
	struct own_file own;

	(void)state;
	own_file_open(&own);
	own.key = (struct module_key){ .build_id = "another", .build_id_size = 20 };
	list = list_in(own.bytes, own.size, &own.key, NULL, 0);
	assert_int_equal(list_find(list, own_file_offset(first_known_function), &found), NAMING_OTHER_FILE);
	function_list_free(list);
	own_file_close(&own);
}

/* Cut and changed at many places: some answer comes, and nothing outside of the file is read. */
static void test_broken(void **state)
{
	uint64_t at = own_file_offset(first_known_function);
	struct module_key none = {};
	struct function found;
	struct own_file own;
	unsigned seed = 5;

	(void)state;
	own_file_open(&own);
	for (size_t n = 0; n < 4000; n += 7) {
		unsigned char *copy = malloc(n + 1);
		struct function_list *list;

		assert_non_null(copy);
		memcpy(copy, own.bytes, n);
		list = list_in(copy, n, &none, NULL, 0);
		assert_true(list_find(list, at, &found) != NAMING_NAMED);
		function_list_free(list);
		free(copy);
	}
	for (int round = 0; round < 100; round++) {
		unsigned char *copy = malloc(own.size);
		struct function_list *list;

		assert_non_null(copy);
		memcpy(copy, own.bytes, own.size);
		for (int i = 0; i < 4; i++)
			copy[rand_r(&seed) % 1024] = (unsigned char)rand_r(&seed);
		list = list_in(copy, own.size, &none, NULL, 0);
		if (list)
			(void)list_find(list, at, &found);
		function_list_free(list);
		free(copy);
	}
	own_file_close(&own);
}

/* --- the child */

static enum naming ask_child(struct list_maker *maker, const char *path, const struct module_key *key, uint64_t place,
			     bool is_part, size_t max)
{
	struct list_question question = {
		.path = path, .key = key, .is_part = is_part, .places = &place, .nr = 1, .max = max
	};
	struct function_list *list;
	struct function found;
	enum naming naming;

	assert_int_equal(list_maker_start(maker, &question), 0);
	assert_int_equal(list_maker_start(maker, &question), -EBUSY);
	list = list_maker_wait(maker);
	naming = list_find(list, place, &found);
	if (naming == NAMING_NAMED) {
		assert_string_equal(found.name, "second_known_function");
		assert_int_equal(found.start, own_file_offset(second_known_function));
		assert_true(found.end > place);
		/* All of it has no room. */
		assert_int_equal(function_list_is_part(list), is_part || max < 1000);
	}
	function_list_free(list);
	return naming;
}

static void test_child(void **state)
{
	const struct module_key wrong = { .build_id = "another", .build_id_size = 20 };
	uint64_t at = own_file_offset(second_known_function);
	size_t max = 8 << 20;
	struct list_maker *maker;
	struct own_file own;

	(void)state;
	own_file_open(&own);
	assert_int_equal(list_maker_new(&maker, &(struct list_roots){ .proc = "/proc", .debug = "/usr/lib/debug" }), 0);
	assert_int_equal(own.key.build_id_size, 20);
	assert_int_equal(ask_child(maker, own.path, &own.key, at + 1, false, max), NAMING_NAMED);
	assert_int_equal(ask_child(maker, own.path, &own.key, at + 1, true, max), NAMING_NAMED);
	assert_int_equal(ask_child(maker, own.path, &own.key, at + 1, false, 200), NAMING_NAMED);
	/* Without a build id, by the inode. */
	assert_int_equal(ask_child(maker, own.path, &own.inode, at, false, max), NAMING_NAMED);
	own.inode.inode++;
	assert_int_equal(ask_child(maker, own.path, &own.inode, at, false, max), NAMING_OTHER_FILE);
	assert_int_equal(ask_child(maker, own.path, &wrong, at, false, max), NAMING_OTHER_FILE);
	assert_int_equal(ask_child(maker, "/nowhere", &own.key, at, false, max), NAMING_NO_FILE);
	/* A device, and a folder, are not opened. */
	assert_int_equal(ask_child(maker, "/dev/zero", &own.key, at, false, max), NAMING_NO_FILE);
	assert_int_equal(ask_child(maker, "/", &own.key, at, false, max), NAMING_NO_FILE);
	assert_int_equal(ask_child(maker, "/proc/self/status", &own.key, at, false, max), NAMING_NO_FILE);
	assert_true(list_maker_cpu_ns(maker) > 0);
	list_maker_free(maker);
	own_file_close(&own);
}

/* A maker executes this program anew. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_other_build_id),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_child),
	};

	if (argc == 2 && strcmp(argv[1], "--list-functions") == 0)
		list_child_run();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
