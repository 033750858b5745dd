/* SPDX-License-Identifier: MIT */

/* Names of functions: of this program, also by the child; of broken files; of the kernel. */

#include "profiler/naming/kernel-functions.h"
#include "profiler/naming/kernel-names.h"
#include "profiler/naming/resolver.h"
#include "setup/own-file.h"
#include "setup/scratch.h"

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
	resolver_free(resolver);
	own_file_close(&own);
}

static void test_child_kernel(void **state)
{
	static const char symbols[] = "ffffffff81000000 T _stext\n"
				      "ffffffff81000100 t first\n"
				      "ffffffff81000200 D data\n"
				      "ffffffff81000300 T last\n"
				      "ffffffffc0000000 t of_module\t[module]\n"
				      "ffffffffc0001000 t end\n";
	const uint64_t offsets[] = { 0xffffffff80000000, 0xffffffff81000100, 0xffffffff810001ff,
				     0xffffffff81000210, 0xffffffff81000500, 0xffffffffc0000010 };
	static const char *const names[] = { NULL, "first", "first", NULL, "last", "of_module" };
	struct resolver_answer answer;
	struct scratch scratch;
	struct resolver *resolver;

	(void)state;
	scratch_make(&scratch);
	scratch_text(&scratch, "kallsyms", symbols);
	assert_int_equal(resolver_new(&resolver, &(struct resolver_roots){ .proc = scratch.path, .debug = "/none" }),
			 0);
	assert_int_equal(resolver_start(resolver, "", NULL, 0, offsets, ARRAY_SIZE(offsets)), 0);
	resolver_wait(resolver);
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		enum naming naming = resolver_answer(resolver, i, &answer);

		assert_int_equal(naming, names[i] ? NAMING_NAMED : NAMING_NO_SYMBOL);
		if (names[i])
			assert_string_equal(answer.name, names[i]);
	}
	(void)resolver_answer(resolver, 2, &answer);
	assert_int_equal(answer.start, 0xffffffff81000100);
	assert_int_equal(answer.end, 0xffffffff81000200);
	/* As the kernel shows it without privilege. */
	scratch_text(&scratch, "kallsyms", "0000000000000000 T _stext\n0000000000000000 t first\n");
	assert_int_equal(ask_child(resolver, "", NULL, offsets[1], &answer), NAMING_KERNEL);
	assert_true(resolver_cpu_ns(resolver) > 0);
	resolver_free(resolver);
	scratch_remove(&scratch);
}

/* Many places, in a list whose lines are longer than the child's buffer can hold at once. */
static void test_kernel_list(void **state)
{
	static char text[400000];
	static char room[RESOLVER_PLACES][FUNCTION_NAME_MAX];
	struct function_place places[RESOLVER_PLACES] = {};
	size_t length = 0;

	(void)state;
	for (unsigned i = 0; i < 9000; i++)
		length += (size_t)snprintf(text + length, sizeof(text) - length, "%016x t function_%u\n",
					   0x1000 + i * 0x10, i);
	for (unsigned i = 0; i < RESOLVER_PLACES; i++)
		places[i] = (struct function_place){ .offset = 0x1004 + (uint64_t)i * 350, .naming = NAMING_NO_SYMBOL };
	for (char *line = text; *line; line = strchr(line, '\n') + 1)
		assert_true(kernel_names_take(places, RESOLVER_PLACES, room, line, strcspn(line, "\n") + 1));
	kernel_names_settle(places, RESOLVER_PLACES, room);
	for (unsigned i = 0; i < RESOLVER_PLACES; i++) {
		uint64_t start = places[i].offset / 0x10 * 0x10;
		char expected[64];

		(void)snprintf(expected, sizeof(expected), "function_%u", (unsigned)((start - 0x1000) / 0x10));
		assert_string_equal(places[i].name, expected);
		assert_int_equal(places[i].start, start);
		assert_int_equal(places[i].end, start + 0x10);
	}
}

static void test_kernel_functions(void **state)
{
	struct kernel_functions functions = {};

	(void)state;
	assert_null(kernel_functions_find(&functions, 5));
	kernel_functions_put(&functions, 100, 200, "b");
	kernel_functions_put(&functions, 50, 100, "a");
	kernel_functions_put(&functions, 300, 250, "backwards");
	assert_string_equal(kernel_functions_find(&functions, 99)->name, "a");
	assert_string_equal(kernel_functions_find(&functions, 100)->name, "b");
	assert_null(kernel_functions_find(&functions, 200));
	assert_null(kernel_functions_find(&functions, 49));
	/* It takes the place of all that it overlaps. */
	kernel_functions_put(&functions, 90, 110, "c");
	assert_int_equal(functions.nr, 1);
	kernel_functions_remove(&functions, 0, 91);
	assert_int_equal(functions.nr, 0);
	for (uint64_t i = 0; i < 3 * KERNEL_FUNCTIONS_MAX; i++)
		kernel_functions_put(&functions, i * 10, i * 10 + 5, "many");
	assert_true(functions.nr <= KERNEL_FUNCTIONS_MAX && functions.nr > 0);
	kernel_functions_forget(&functions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own),
		cmocka_unit_test(test_other_build_id),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_child),
		cmocka_unit_test(test_child_kernel),
		cmocka_unit_test(test_kernel_list),
		cmocka_unit_test(test_kernel_functions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
