/* SPDX-License-Identifier: MIT */

/* Packed lists of functions: what is written is found; foreign bytes; names that are too long, or no text. */

#include "base/util/text.h"
#include "profiler/naming/demangle.h"
#include "profiler/naming/function-list.h"
#include "setup/own-file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MANY 5000

static void check_function(const struct function_list *list, uint64_t place, const char *name, uint64_t start,
			   uint64_t end)
{
	struct function found;

	assert_int_equal(list_find(list, place, &found), name ? NAMING_NAMED : NAMING_STRIPPED);
	assert_int_equal(found.start, start);
	assert_int_equal(found.end, end);
	if (name)
		assert_string_equal(found.name, name);
}

/* Named functions, one without a name, and nothing; of entries for one place the last one counts, and those that say
 * nothing new are left out. */
static void test_entries(void **state)
{
	struct function_list_writer writer = { .max = 1 << 20 };
	struct function_list *list;
	struct function found;

	(void)state;
	function_list_add(&writer, 0x10, "f", 0);
	function_list_add(&writer, 0x20, NULL, 0x8);
	function_list_add(&writer, 0x30, NULL, 0x8);
	function_list_add(&writer, 0x40, "wrong", 0);
	function_list_add(&writer, 0x40, NULL, FUNCTION_NONE);
	function_list_add(&writer, 0x8, "too late", 0);
	function_list_add(&writer, UINT64_C(1) << 40, "far", 0);
	list = list_written(&writer, NAMING_STRIPPED);
	assert_int_equal(list_find(list, 0xf, &found), NAMING_STRIPPED);
	check_function(list, 0x1f, "f", 0x10, 0x20);
	check_function(list, 0x35, NULL, 0x8, 0x40);
	assert_int_equal(list_find(list, 0x40, &found), NAMING_STRIPPED);
	check_function(list, UINT64_MAX - 1, "far", UINT64_C(1) << 40, UINT64_MAX);
	function_list_free(list);
	list = function_list_empty(NAMING_NO_FILE);
	assert_int_equal(list_find(list, 0x10, &found), NAMING_NO_FILE);
	function_list_free(list);
}

static void add_many(struct function_list_writer *writer)
{
	static char names[MANY][32];

	for (unsigned i = 0; i < MANY; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "function_%u", i);
		function_list_add(writer, i * 16, names[i], 0);
	}
}

static void test_many(void **state)
{
	struct function_list_writer writer = { .max = 1 << 20 };
	struct function_list *list;
	struct function found;

	(void)state;
	add_many(&writer);
	list = list_written(&writer, NAMING_NO_SYMBOL);
	for (unsigned i = 0; i < MANY; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "function_%u", i);
		assert_int_equal(list_find(list, i * 16 + 7, &found), NAMING_NAMED);
		assert_string_equal(found.name, name);
	}
	assert_true(function_list_bytes(list) < MANY * 8);
	function_list_free(list);
	writer.max = 1000;
	add_many(&writer);
	assert_null(list_written(&writer, NAMING_NO_SYMBOL));
}

/* Two that differ only behind the longest name, or in bytes that are no text. */
static void test_names(void **state)
{
	static char names[4][3000];
	struct function_list_writer writer = { .max = 1 << 20 };
	char found[4][FUNCTION_NAME_MAX];
	struct function_list *list;
	struct function function;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		memset(names[i], 'x', sizeof(names[i]) - 2);
		names[i][sizeof(names[i]) - 2] = (char)('a' + i);
		(void)snprintf(names[2 + i], sizeof(names[i]), "na%cme", 0xf8 + (int)i);
	}
	for (size_t i = 0; i < 4; i++)
		function_list_add(&writer, 16 * i, names[i], 0);
	list = list_written(&writer, NAMING_NO_SYMBOL);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(list_find(list, 16 * i, &function), NAMING_NAMED);
		assert_true(text_is_plain(function.name) && strlen(function.name) < FUNCTION_NAME_MAX);
		strcpy(found[i], function.name);
	}
	assert_string_not_equal(found[0], found[1]);
	assert_memory_equal(found[0], names[0], 1000);
	assert_string_equal(found[2], "na\\xf8me");
	assert_string_equal(found[3], "na\\xf9me");
	function_list_free(list);
}

/* Pairs of the pair before, 60 times: its name would have 2^60 parts. */
static const char *doubling_symbol(void)
{
	static char symbol[600] = "_Z1fSt4pairIiiE";
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

	for (unsigned i = 0; i < 60; i++) {
		char number[4] = "";
		size_t at = strlen(symbol);

		if (i >= 36)
			(void)snprintf(number, sizeof(number), "%c%c", digits[i / 36], digits[i % 36]);
		else
			(void)snprintf(number, sizeof(number), "%c", digits[i]);
		(void)snprintf(symbol + at, sizeof(symbol) - at, "S_IS%s_S%s_E", number, number);
	}
	return symbol;
}

/* Names of C++ and Rust are as people write them, and their symbols are there too. */
static void test_demangled(void **state)
{
	const struct {
		const char *symbol, *name;
	} cases[] = {
		{ "_ZN2ns1fEi", "ns::f(int)" },
		{ "_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)" },
		{ "_Z1fv.cold", "f() [clone .cold]" },
		{ "_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place" },
		{ "_RNvC6_123foo3bar", "123foo::bar" },
		{ "_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar" },
		{ "_Z", NULL },
		{ "_Z1", NULL },
		{ "_R", NULL },
		{ "_ZN2ns1fEi\xff", NULL },
		{ "main.(*T).f", NULL },
		{ doubling_symbol(), NULL },
	};
	struct function_list_writer writer = { .max = 1 << 20 };
	struct buf probe = {};
	struct function_list *list;
	struct function found;
	bool has_libiberty = demangle(&probe, "_ZN2ns1fEi");

	(void)state;
	buf_release(&probe);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		function_list_add(&writer, 16 * i, cases[i].symbol, 0);
	list = list_written(&writer, NAMING_NO_SYMBOL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(list_find(list, 16 * i, &found), NAMING_NAMED);
		if (cases[i].name && has_libiberty) {
			assert_string_equal(found.name, cases[i].name);
			assert_string_equal(found.symbol, cases[i].symbol);
		} else {
			assert_memory_equal(found.name, cases[i].symbol, 2);
			assert_null(found.symbol);
		}
	}
	function_list_free(list);
}

/* Each byte changed, and each length: it is refused, or a function that is found has the place in it. */
static void test_foreign_bytes(void **state)
{
	struct function_list_writer writer = { .max = 1 << 20 };
	int fd = memfd_create("list", MFD_CLOEXEC);
	struct function_list *list;
	unsigned char bytes[4096];
	struct function found;
	ssize_t size;

	(void)state;
	for (uint64_t i = 0; i < 600; i++)
		function_list_add(&writer, 0x100 + i * 16, i % 3 ? "f" : "g", 0);
	assert_int_equal(function_list_write(&writer, fd, NAMING_NO_SYMBOL, false, "link"), 0);
	function_list_writer_release(&writer);
	size = pread(fd, bytes, sizeof(bytes), 0);
	assert_true(size > 100 && size < (ssize_t)sizeof(bytes));
	assert_int_equal(function_list_read(&list, fd, 10), -EFBIG);
	for (ssize_t i = 0; i < size; i++) {
		unsigned char changed = bytes[i] ^ 0x41;

		assert_int_equal(pwrite(fd, &changed, 1, i), 1);
		list = NULL;
		assert_true(function_list_read(&list, fd, 1 << 20) <= 0);
		for (uint64_t place = 0; list && place < 0x3000; place += 0x200)
			if (list_find(list, place, &found) == NAMING_NAMED)
				assert_true(found.start <= place && place < found.end);
		function_list_free(list);
		assert_int_equal(pwrite(fd, &bytes[i], 1, i), 1);
	}
	while (size-- > 0) {
		assert_int_equal(ftruncate(fd, size), 0);
		assert_int_equal(function_list_read(&list, fd, 1 << 20), -EBADMSG);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_entries),	  cmocka_unit_test(test_many),		cmocka_unit_test(test_names),
		cmocka_unit_test(test_demangled), cmocka_unit_test(test_foreign_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
