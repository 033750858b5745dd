/* SPDX-License-Identifier: MIT */

/* Rules of frames by the table of Go's runtime, for both architectures. */

#include "profiler/stack/go-rules.h"
#include "setup/made-go.h"

#include <errno.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* 0, then 24, then 0 bytes on the stack; 4, which is no word; below the return address; no steps; 0 bytes. */
static const struct made_go_function functions[] = {
	{ 0x00, "main.a", "\x02\x04\x30\x08\x2f\x14" },
	{ 0x20, "main.b", "\x0a\x10" },
	{ 0x30, "main.c", "\x11\x10" },
	{ 0x40, "main.d", "" },
	{ 0x50, "runtime.mstart", "\x02\x10" },
	{},
};

static struct frame_table *make(unsigned machine)
{
	const struct made_go made = { .layout = MADE_GO_1_18, .machine = machine, .functions = functions, .end = 0x60 };
	_cleanup_(frame_builder_freep) struct frame_builder *builder = NULL;
	_cleanup_(closep) int fd = memfd_create("table", MFD_CLOEXEC);
	struct frame_table *table;
	struct elf_image image;

	assert_true(fd >= 0 && elf_image_open(&image, made_go_file(&made)));
	assert_int_equal(frame_builder_new(&builder), 0);
	assert_int_equal(go_rules_add(builder, &image), 0);
	assert_int_equal(frame_builder_write(builder, fd), 0);
	assert_int_equal(frame_table_read(&table, fd, 1 << 20), 0);
	return table;
}

static void check(const struct frame_table *table, uint64_t at, unsigned stack, unsigned back, int offset, int saved)
{
	const struct frame_rule *rule = frame_table_find(table, MADE_GO_CODE + at);

	assert_non_null(rule);
	assert_int_equal(rule->kind, FRAME_CFA);
	assert_int_equal(rule->flags, FRAME_POINTERS);
	assert_int_equal(rule->reg, stack);
	assert_int_equal(rule->offset, offset);
	assert_int_equal(rule->saved[back], saved);
	assert_int_equal(rule->saved[stack], FRAME_SAME);
}

static void check_others(const struct frame_table *table)
{
	for (uint64_t at = 0x20; at < 0x50; at++)
		assert_null(frame_table_find(table, MADE_GO_CODE + at));
	for (uint64_t at = 0x50; at < 0x60; at++)
		assert_int_equal(frame_table_find(table, MADE_GO_CODE + at)->kind, FRAME_OUTERMOST);
	assert_null(frame_table_find(table, MADE_GO_CODE + 0x60));
}

static void test_x86_64(void **state)
{
	struct frame_table *table = make(EM_X86_64);

	(void)state;
	check(table, 0, 7, 16, 8, -1);
	check(table, 3, 7, 16, 8, -1);
	check(table, 4, 7, 16, 32, -1);
	check(table, 0x0b, 7, 16, 32, -1);
	check(table, 0x0c, 7, 16, 8, -1);
	check_others(table);
	frame_table_free(table);
}

static void test_arm64(void **state)
{
	struct frame_table *table = make(EM_AARCH64);

	(void)state;
	check(table, 0, 31, 30, 0, FRAME_SAME);
	check(table, 4, 31, 30, 24, -3);
	check(table, 0x0c, 31, 30, 0, FRAME_SAME);
	check_others(table);
	frame_table_free(table);
}

static void test_none(void **state)
{
	const struct made_go other = {
		.layout = MADE_GO_1_18, .machine = EM_PPC64, .functions = functions, .end = 0x50
	};
	static const struct made_go_function without_steps[] = { { 0, "main.a", "" }, {} };
	const struct made_go empty = { .layout = MADE_GO_1_18, .functions = without_steps, .end = 0x50 };
	const struct made_go broken = { .layout = MADE_GO_1_18, .functions = functions, .end = 0x50, .count = 1000000 };
	_cleanup_(frame_builder_freep) struct frame_builder *builder = NULL;
	struct elf_image image;

	(void)state;
	assert_int_equal(frame_builder_new(&builder), 0);
	assert_true(elf_image_open(&image, made_go_file(&other)));
	assert_int_equal(go_rules_add(builder, &image), -ENODATA);
	assert_true(elf_image_open(&image, made_go_file(&empty)));
	assert_int_equal(go_rules_add(builder, &image), -ENODATA);
	assert_true(elf_image_open(&image, made_go_file(&broken)));
	assert_int_equal(go_rules_add(builder, &image), -ENODATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86_64),
		cmocka_unit_test(test_arm64),
		cmocka_unit_test(test_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
