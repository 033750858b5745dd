/* SPDX-License-Identifier: MIT */

/* Functions of Go, in made tables of all layouts, and in tables that are broken. */

#include "profiler/naming/function-names.h"
#include "profiler/naming/go-functions.h"
#include "setup/made-go.h"
#include "setup/own-file.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct made_go_function functions[] = {
	{ 0x00, "runtime.first", "\x02\x20" },		     /* 0 bytes on the stack */
	{ 0x20, "main.(*T).m", "\x02\x04\x30\x10\x2f\x0c" }, /* 0, then 24, then 0 */
	{ 0x40, "main.f[...]", "" },
	{},
};

static const struct made_go usual = { .layout = MADE_GO_1_20, .functions = functions, .end = 0x50 };

static bool find(const struct made_go *made, struct go_table *ret)
{
	struct elf_bytes file = made_go_file(made);
	struct elf_image image;

	assert_true(elf_image_open(&image, file));
	assert_true(!go_table_find(&image, ret) || go_table_is_there(&image));
	return go_table_find(&image, ret);
}

static void check_usual(const struct made_go *made)
{
	struct go_function function;
	struct go_table table;
	uint64_t number = 0;

	assert_true(find(made, &table));
	for (size_t i = 0; functions[i].name; i++) {
		assert_true(go_table_next(&table, &number, &function));
		assert_string_equal(function.name, functions[i].name);
		assert_int_equal(function.start, MADE_GO_TEXT + functions[i].at);
		assert_int_equal(function.end, MADE_GO_TEXT + (functions[i + 1].name ? functions[i + 1].at : 0x50));
	}
	assert_false(go_table_next(&table, &number, &function));
}

/* Each in its own section and in another one, behind something else. */
static void test_layouts(void **state)
{
	static const char *const sections[] = { ".gopclntab", ".data.rel.ro.gopclntab", ".data.rel.ro" };

	(void)state;
	for (unsigned layout = 0; layout < _MADE_GO_MAX; layout++)
		for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
			struct made_go made = usual;

			made.layout = layout;
			made.section = sections[i];
			made.before = i == 2 ? 0x48 : 0;
			check_usual(&made);
		}
}

static void test_no_table(void **state)
{
	struct made_go made = usual;
	struct go_table table;

	(void)state;
	made.section = ".rodata";
	assert_false(find(&made, &table));
	made.section = ".gopclntab";
	made.magic = 0xfffffff2;
	assert_false(find(&made, &table));
	made.magic = 0;
	made.word = 16;
	assert_false(find(&made, &table));
	made.word = 0;
	made.quantum = 3;
	assert_false(find(&made, &table));
}

/* The pointer to the first function is there, or in a relocation, or in .go.module, or in a relocation of that. */
static void test_text(void **state)
{
	struct made_go made = usual;
	struct go_table table;

	(void)state;
	for (unsigned where = 0; where < _MADE_GO_TEXT_MAX; where++) {
		made.text = where;
		check_usual(&made);
	}
	/* Another module's; nowhere; no code. */
	made.text = MADE_GO_TEXT_IN_MODULE;
	made.is_other_module = true;
	assert_false(find(&made, &table));
	made.is_other_module = false;
	made.text_at = 0x7777777;
	assert_false(find(&made, &table));
	made.text = MADE_GO_TEXT_STORED;
	assert_false(find(&made, &table));
}

/* What is beyond the end is not there. */
static void test_counts_and_offsets(void **state)
{
	struct go_function function;
	struct go_table table;

	(void)state;
	for (unsigned layout = 0; layout < _MADE_GO_MAX; layout++) {
		static const uint64_t counts[] = { 4000, 1000000000, UINT32_MAX, UINT64_MAX };
		struct made_go made = usual;
		uint64_t number = 0;

		made.layout = layout;
		for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
			made.count = counts[i];
			assert_false(find(&made, &table));
		}
		made.count = 0;
		/* All functions are there, and have no names. */
		made.offset = 0x7fffff00;
		assert_true(find(&made, &table));
		for (size_t i = 0; functions[i].name; i++) {
			assert_true(go_table_next(&table, &number, &function));
			assert_null(function.name);
			assert_int_equal(function.start, MADE_GO_TEXT + functions[i].at);
		}
		assert_false(go_table_next(&table, &number, &function));
		made.offset = 0;
		for (unsigned word = 1; word < 8 && layout != MADE_GO_1_2; word++) {
			made.odd_word = word;
			(void)find(&made, &table);
		}
	}
}

static void test_unsorted(void **state)
{
	static const struct made_go_function unsorted[] = { { 0x40, "a", "" }, { 0x20, "b", "" }, { 0x20, "c", "" },
							    { 0x60, "d", "" }, { 0x10, "e", "" }, {} };
	struct made_go made = usual;
	struct go_function function;
	struct go_table table;
	uint64_t number = 0;

	(void)state;
	made.functions = unsorted;
	assert_true(find(&made, &table));
	assert_true(go_table_next(&table, &number, &function));
	assert_string_equal(function.name, "c");
	assert_true(go_table_next(&table, &number, &function));
	assert_string_equal(function.name, "e");
	assert_false(go_table_next(&table, &number, &function));
}

static void test_names(void **state)
{
	char *longest = malloc(GO_NAME_MAX + 1);
	struct made_go_function odd[] = { { 0, "", "" }, { 0x10, longest, "" }, { 0x20, longest + 1, "" }, {} };
	struct made_go made = usual;
	struct go_function function;
	struct go_table table;
	uint64_t number = 0;

	(void)state;
	assert_non_null(longest);
	memset(longest, 'x', GO_NAME_MAX);
	longest[GO_NAME_MAX] = '\0';
	made.functions = odd;
	assert_true(find(&made, &table));
	assert_true(go_table_next(&table, &number, &function));
	assert_null(function.name);
	assert_true(go_table_next(&table, &number, &function));
	assert_null(function.name);
	assert_true(go_table_next(&table, &number, &function));
	assert_string_equal(function.name, longest + 1);
	free(longest);
}

/* The names are the last bytes of the file. */
static void test_name_without_end(void **state)
{
	struct made_go made = usual;
	struct go_function function;
	struct go_table table;
	uint64_t number = 0;

	(void)state;
	made.cut = 1;
	assert_true(find(&made, &table));
	while (go_table_next(&table, &number, &function))
		if (function.start == MADE_GO_TEXT + 0x40)
			assert_null(function.name);
		else
			assert_non_null(function.name);
}

static void test_steps(void **state)
{
	static const int64_t sizes[] = { 0, 24, 0 };
	static const uint64_t starts[] = { 0x20, 0x24, 0x34, 0x40 };

	(void)state;
	for (unsigned layout = 0; layout < _MADE_GO_MAX; layout++) {
		struct made_go made = usual;
		struct go_function function;
		struct go_table table;
		struct go_steps steps;
		uint64_t number = 1, start, end;
		int64_t size;

		made.layout = layout;
		assert_true(find(&made, &table));
		assert_true(go_table_next(&table, &number, &function));
		steps = go_steps_begin(&table, &function);
		for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
			assert_true(go_steps_next(&steps, &start, &end, &size));
			assert_int_equal(size, sizes[i]);
			assert_int_equal(start, MADE_GO_TEXT + starts[i]);
			assert_int_equal(end, MADE_GO_TEXT + starts[i + 1]);
		}
		assert_false(go_steps_next(&steps, &start, &end, &size));
		/* No steps at all. */
		assert_true(go_table_next(&table, &number, &function));
		steps = go_steps_begin(&table, &function);
		assert_false(go_steps_next(&steps, &start, &end, &size));
	}
}

/* All bytes of the table, one after the other: some answer comes, and nothing outside of the file is read. */
static void test_broken(void **state)
{
	(void)state;
	for (unsigned layout = 0; layout < _MADE_GO_MAX; layout++) {
		struct made_go made = usual;
		struct elf_bytes file;

		made.layout = layout;
		file = made_go_file(&made);
		for (size_t i = MADE_GO_TABLE; i < file.size; i++) {
			unsigned char *copy = malloc(file.size);
			struct go_function function;
			struct elf_image image;
			struct go_table table;
			uint64_t number = 0;

			assert_non_null(copy);
			memcpy(copy, file.data, file.size);
			copy[i] ^= 0xff;
			assert_true(elf_image_open(&image, (struct elf_bytes){ copy, file.size }));
			if (go_table_find(&image, &table))
				while (go_table_next(&table, &number, &function))
					assert_true(function.start < function.end);
			free(copy);
		}
	}
}

/* As lists of functions have them. */
static void test_list(void **state)
{
	const struct module_key key = {};
	const struct function_sources sources = { .file = made_go_file(&usual) };
	const struct function_places all = {};
	struct function_list_writer writer = { .max = 1 << 20 };
	struct function_list *list;
	struct function found;
	bool has_all;

	(void)state;
	assert_int_equal(function_names_list(&writer, &sources, &key, &all, &has_all), NAMING_NO_SYMBOL);
	assert_false(has_all);
	list = list_written(&writer, NAMING_NO_SYMBOL);
	assert_non_null(list);
	assert_int_equal(list_find(list, MADE_GO_CODE + 0x21, &found), NAMING_NAMED);
	assert_string_equal(found.name, "main.(*T).m");
	assert_int_equal(found.start, MADE_GO_CODE + 0x20);
	assert_int_equal(list_find(list, MADE_GO_CODE + 0x50, &found), NAMING_NO_SYMBOL);
	function_list_free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_no_table),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_counts_and_offsets),
		cmocka_unit_test(test_unsorted),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_name_without_end),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
