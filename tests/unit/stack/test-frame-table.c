/* SPDX-License-Identifier: MIT */

/* Tables of frames: what a builder writes is read again, and what is malformed is not read. */

#include "base/util/cleanup.h"
#include "profiler/stack/frame-builder.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MAX ((size_t)64 << 20)

/* As the file has it, of 3 rules and 4 rows. */
struct made {
	struct frame_table_header header;
	struct frame_rule rules[3];
	uint32_t offsets[4];
	uint16_t numbers[4];
} __attribute__((packed));

static struct made make(void)
{
	return (struct made){
		.header = { FRAME_TABLE_MAGIC, 4, 3, 0 },
		.rules = { [1] = { .kind = FRAME_CFA, .reg = 7, .offset = 8, .saved = { [3] = FRAME_SAME, [16] = -1 } },
			   [2] = { .kind = FRAME_OUTERMOST } },
		.offsets = { 100, 200, 300, 400 },
		.numbers = { 1, 2, 1, 0 },
	};
}

static int read_file(struct frame_table **ret, const void *bytes, size_t size, size_t max)
{
	_cleanup_(closep) int fd = memfd_create("table", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	return frame_table_read(ret, fd, max);
}

static int read_made(struct frame_table **ret, const struct made *made)
{
	return read_file(ret, made, sizeof(*made), MAX);
}

static void test_read(void **state)
{
	_cleanup_(frame_table_freep) struct frame_table *table = NULL;
	struct made made = make();

	(void)state;
	assert_int_equal(read_made(&table, &made), 0);
	assert_int_equal(table->nr_rows, 4);
	assert_int_equal(table->nr_rules, 3);
	assert_true(table->bytes >= sizeof(made) && table->bytes < sizeof(made) + 100);
	assert_null(frame_table_find(table, 0));
	assert_null(frame_table_find(table, 99));
	assert_ptr_equal(frame_table_find(table, 100), &table->rules[1]);
	assert_ptr_equal(frame_table_find(table, 199), &table->rules[1]);
	assert_int_equal(frame_table_find(table, 250)->kind, FRAME_OUTERMOST);
	assert_int_equal(frame_table_find(table, 399)->saved[16], -1);
	assert_null(frame_table_find(table, 400));
	assert_null(frame_table_find(table, UINT64_MAX));
	assert_null(frame_table_free(NULL));
}

static void test_bounds(void **state)
{
	struct frame_table *table = NULL;
	struct made made = make();
	char longer[sizeof(made) + 1] = "";
	size_t bytes;

	(void)state;
	assert_int_equal(read_made(&table, &made), 0);
	bytes = table->bytes;
	frame_table_free(table);
	table = NULL;
	assert_int_equal(read_file(&table, &made, sizeof(made), bytes - 1), -EFBIG);
	assert_int_equal(read_file(&table, &made, sizeof(made), 0), -EFBIG);
	for (size_t size = 0; size < sizeof(made); size++)
		assert_int_equal(read_file(&table, &made, size, MAX), -EBADMSG);
	memcpy(longer, &made, sizeof(made));
	assert_int_equal(read_file(&table, longer, sizeof(longer), MAX), -EBADMSG);
	assert_int_equal(frame_table_read(&table, -1, MAX), -EBADF);
	assert_null(table);
}

#define ASSERT_BAD(change)                                                                                             \
	do {                                                                                                           \
		struct frame_table *table = NULL;                                                                      \
		struct made made = make();                                                                             \
		change;                                                                                                \
		if (read_made(&table, &made) != -EBADMSG)                                                              \
			fail_msg("%s", #change);                                                                       \
		assert_null(table);                                                                                    \
	} while (0)

static void test_malformed(void **state)
{
	(void)state;
	ASSERT_BAD(made.header.magic++);
	ASSERT_BAD(made.header.problem = 1);
	ASSERT_BAD(made.header.nr_rows = 0);
	ASSERT_BAD(made.header.nr_rows = UINT32_MAX);
	ASSERT_BAD(made.header.nr_rules = 0);
	ASSERT_BAD(made.header.nr_rules = UINT32_MAX);
	ASSERT_BAD(made.offsets[1] = 100);
	ASSERT_BAD(made.offsets[3] = 0);
	ASSERT_BAD(made.numbers[0] = 3);
	ASSERT_BAD(made.numbers[3] = UINT16_MAX);
	ASSERT_BAD(made.rules[1].kind = _FRAME_KIND_MAX);
	ASSERT_BAD(made.rules[1].reg = FRAME_REGISTERS);
	ASSERT_BAD(made.rules[1].base = FRAME_REGISTERS);
	ASSERT_BAD(made.rules[1].flags = 4);
	ASSERT_BAD(made.rules[1].added = 8);
	ASSERT_BAD(made.rules[1].kind = FRAME_PLT; made.rules[1].offset = 16);
	ASSERT_BAD(made.rules[1].kind = FRAME_PLT; made.rules[1].offset = -1);
	ASSERT_BAD(made.rules[2].offset = 8);
	ASSERT_BAD(made.rules[2].saved[31] = 1);
	ASSERT_BAD(made.rules[0].from_base = 1);
	ASSERT_BAD(made.rules[0].reg = 1);
}

/* --- the builder */

static const struct frame_rule entry = { .kind = FRAME_CFA, .reg = 7, .offset = 8 };
static const struct frame_rule pushed = { .kind = FRAME_CFA, .reg = 7, .offset = 16 };
static const struct frame_rule none = { .kind = FRAME_UNKNOWN };

struct stretch {
	uint64_t start, end;
	const struct frame_rule *rule;
};

static struct frame_table *build(const struct stretch *stretches, size_t nr)
{
	_cleanup_(frame_builder_freep) struct frame_builder *builder = NULL;
	_cleanup_(closep) int fd = memfd_create("table", MFD_CLOEXEC);
	struct frame_table *table = NULL;

	assert_int_equal(frame_builder_new(&builder), 0);
	for (size_t i = 0; i < nr; i++)
		assert_int_equal(frame_builder_add(builder, stretches[i].start, stretches[i].end, stretches[i].rule),
				 0);
	assert_int_equal(frame_builder_write(builder, fd), 0);
	assert_int_equal(frame_table_read(&table, fd, MAX), 0);
	return table;
}

static void assert_rows(const struct frame_table *table, const uint32_t *offsets, size_t nr)
{
	assert_int_equal(table->nr_rows, nr);
	assert_memory_equal(table->offsets, offsets, nr * sizeof(*offsets));
}

static void test_gaps(void **state)
{
	static const struct stretch stretches[] = {
		{ 300, 310, &pushed }, { 100, 110, &entry },  { 110, 120, &entry },  { 120, 130, &pushed },
		{ 310, 320, &none },   { 400, 400, &pushed }, { 500, 400, &pushed },
	};
	static const uint32_t offsets[] = { 0, 100, 120, 130, 300, 310 };
	_cleanup_(frame_table_freep) struct frame_table *table = build(stretches, ARRAY_SIZE(stretches));

	(void)state;
	assert_rows(table, offsets, ARRAY_SIZE(offsets));
	assert_int_equal(table->nr_rules, 3);
	assert_int_equal(frame_table_find(table, 119)->offset, 8);
	assert_int_equal(frame_table_find(table, 120)->offset, 16);
	assert_null(frame_table_find(table, 200));
	assert_null(frame_table_find(table, 315));
}

/* The one that begins first has the place, and then the one that was added first. */
static void test_overlaps(void **state)
{
	static const struct stretch stretches[] = {
		{ 0, 10, &entry },    { 0, 20, &pushed },    { 5, 8, &pushed },
		{ 100, 200, &entry }, { 120, 130, &pushed }, { 150, 210, &pushed },
	};
	static const uint32_t offsets[] = { 0, 10, 20, 100, 200, 210 };
	_cleanup_(frame_table_freep) struct frame_table *table = build(stretches, ARRAY_SIZE(stretches));

	(void)state;
	assert_rows(table, offsets, ARRAY_SIZE(offsets));
	assert_int_equal(frame_table_find(table, 9)->offset, 8);
	assert_int_equal(frame_table_find(table, 15)->offset, 16);
	assert_int_equal(frame_table_find(table, 125)->offset, 8);
	assert_int_equal(frame_table_find(table, 205)->offset, 16);
}

static void test_full(void **state)
{
	_cleanup_(frame_builder_freep) struct frame_builder *builder = NULL;
	_cleanup_(frame_table_freep) struct frame_table *table = NULL;
	_cleanup_(closep) int fd = memfd_create("table", MFD_CLOEXEC);
	struct frame_rule rule = entry;
	uint32_t nr = 0;

	(void)state;
	assert_int_equal(frame_builder_new(&builder), 0);
	assert_int_equal(frame_builder_write(builder, fd), -ENODATA);
	assert_int_equal(frame_builder_add(builder, UINT32_MAX, (uint64_t)UINT32_MAX + 1, &entry), -EFBIG);
	/* Rules, … */
	for (; frame_builder_add(builder, nr, nr + 1, &rule) == 0; nr++)
		rule.offset += 8;
	assert_int_equal(nr, FRAME_RULES_MAX - 1);
	/* … and rows: each has a gap before it. */
	for (; frame_builder_add(builder, 2 * (uint64_t)nr, 2 * (uint64_t)nr + 1, &entry) == 0; nr++)
		;
	assert_int_equal(nr, FRAME_ROWS_MAX - 1);
	assert_int_equal(frame_builder_write(builder, fd), 0);
	assert_int_equal(frame_table_read(&table, fd, MAX), 0);
	assert_int_equal(table->nr_rules, FRAME_RULES_MAX);
	assert_true(table->nr_rows > FRAME_ROWS_MAX - 3);
	assert_int_equal(frame_table_find(table, 1)->offset, 16);
	assert_int_equal(frame_table_find(table, FRAME_ROWS_MAX / 2)->kind, FRAME_CFA);
	assert_null(frame_table_find(table, 2 * (uint64_t)FRAME_ROWS_MAX));
	assert_null(frame_builder_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read), cmocka_unit_test(test_bounds),   cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_gaps), cmocka_unit_test(test_overlaps), cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
