/* SPDX-License-Identifier: MIT */

/* Names of functions: of this program, also by the child; of broken files. */

#include "profiler/naming/resolver.h"
#include "setup/own-file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

static void find_in(const unsigned char *bytes, size_t size, struct function_place *places, size_t nr,
		    const struct module_key *key)
{
	const struct function_sources sources = { .file = { bytes, size } };

	(void)function_names_find(places, nr, &sources, key);
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
	struct function_place places[] = {
		{ .offset = 0 }, { .offset = low }, { .offset = low + 1 }, { .offset = high + 2 }
	};
	struct own_file own;

	(void)state;
	assert_true(first_known_function(3) == 3 && second_known_function(3) == 2);
	own_file_open(&own);
	find_in(own.bytes, own.size, places, ARRAY_SIZE(places), &own.key);
	assert_int_equal(places[0].naming, NAMING_NO_SYMBOL);
	for (size_t i = 1; i < ARRAY_SIZE(places); i++) {
		assert_int_equal(places[i].naming, NAMING_NAMED);
		assert_string_equal(places[i].name, i < 3 ? below : above);
		assert_int_equal(places[i].start, i < 3 ? low : high);
		assert_true(places[i].end > places[i].offset);
	}
	/* Behind the end of the one below there is nothing, or another function. */
	places[0] = (struct function_place){ .offset = places[1].end };
	find_in(own.bytes, own.size, places, 1, &own.key);
	assert_true(!places[0].name || strcmp(places[0].name, below) != 0);
	own_file_close(&own);
}

static void test_other_build_id(void **state)
{
	struct function_place place = { .offset = own_file_offset(first_known_function) };
	struct own_file own;

	(void)state;
	own_file_open(&own);
	own.key = (struct module_key){ .build_id = "another", .build_id_size = 20 };
	find_in(own.bytes, own.size, &place, 1, &own.key);
	assert_int_equal(place.naming, NAMING_OTHER_FILE);
	assert_null(place.name);
	own_file_close(&own);
}

/* Cut and changed at many places: some answer comes, and nothing outside of the file is read. */
static void test_broken(void **state)
{
	uint64_t at = own_file_offset(first_known_function);
	struct module_key none = {};
	struct own_file own;
	unsigned seed = 5;

	(void)state;
	own_file_open(&own);
	for (size_t n = 0; n < 4000; n += 7) {
		struct function_place place = { .offset = at };
		unsigned char *copy = malloc(n + 1);

		assert_non_null(copy);
		memcpy(copy, own.bytes, n);
		find_in(copy, n, &place, 1, &none);
		assert_null(place.name);
		free(copy);
	}
	for (int round = 0; round < 300; round++) {
		struct function_place place = { .offset = at };
		unsigned char *copy = malloc(own.size);

		assert_non_null(copy);
		memcpy(copy, own.bytes, own.size);
		for (int i = 0; i < 4; i++)
			copy[rand_r(&seed) % 1024] = (unsigned char)rand_r(&seed);
		find_in(copy, own.size, &place, 1, &none);
		assert_true(place.naming < _NAMING_MAX);
		free(copy);
	}
	own_file_close(&own);
}

/* --- the child */

static enum naming ask_child(struct resolver *resolver, const char *path, const struct module_key *key, uint64_t offset,
			     struct resolver_answer *ret)
{
	assert_int_equal(resolver_start(resolver, path, key, 0, &offset, 1), 0);
	assert_int_equal(resolver_start(resolver, path, key, 0, &offset, 1), -EBUSY);
	resolver_wait(resolver);
	return resolver_answer(resolver, 0, ret);
}

static void test_child(void **state)
{
	const struct module_key wrong = { .build_id = "another", .build_id_size = 20 };
	uint64_t at = own_file_offset(second_known_function);
	struct resolver_answer answer;
	struct resolver *resolver;
	struct own_file own;

	(void)state;
	own_file_open(&own);
	assert_int_equal(
		resolver_new(&resolver, &(struct resolver_roots){ .proc = "/proc", .debug = "/usr/lib/debug" }), 0);
	assert_int_equal(own.key.build_id_size, 20);
	assert_int_equal(ask_child(resolver, own.path, &own.key, at + 1, &answer), NAMING_NAMED);
	assert_string_equal(answer.name, "second_known_function");
	assert_int_equal(answer.start, at);
	assert_true(answer.end > at + 1);
	/* Without a build id, by the inode. */
	assert_int_equal(ask_child(resolver, own.path, &own.inode, at, &answer), NAMING_NAMED);
	own.inode.inode++;
	assert_int_equal(ask_child(resolver, own.path, &own.inode, at, &answer), NAMING_OTHER_FILE);
	assert_null(answer.name);
	assert_int_equal(ask_child(resolver, own.path, &wrong, at, &answer), NAMING_OTHER_FILE);
	assert_int_equal(ask_child(resolver, "/nowhere", &own.key, at, &answer), NAMING_NO_FILE);
	/* A device, and a folder, are not opened. */
	assert_int_equal(ask_child(resolver, "/dev/zero", &own.key, at, &answer), NAMING_NO_FILE);
	assert_int_equal(ask_child(resolver, "/", &own.key, at, &answer), NAMING_NO_FILE);
	assert_int_equal(ask_child(resolver, "/proc/self/status", &own.key, at, &answer), NAMING_NO_FILE);
	assert_true(resolver_cpu_ns(resolver) > 0);
	resolver_free(resolver);
	own_file_close(&own);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_other_build_id),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
