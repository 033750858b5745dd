/* SPDX-License-Identifier: MIT */

/* Perf maps and jitdumps: which function is at an address, whatever the files look like. */

#include "base/util/buf.h"
#include "profiler/naming/jit-list.h"
#include "setup/own-file.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PID 7

struct expected {
	uint64_t address;
	const char *name; /* NULL: none is known */
};

static struct elf_bytes bytes_of(const struct buf *buf)
{
	return (struct elf_bytes){ (const unsigned char *)buf->data, buf->len };
}

/* The list of both files; buffers may be empty. */
static struct function_list *list_of(const struct buf *map, const struct buf *dump)
{
	_cleanup_(function_list_writer_release) struct function_list_writer writer = { .max = (size_t)64 << 20 };
	_cleanup_(jit_entries_release) struct jit_entries entries = {};
	struct function_list *list;

	jit_read_map(&entries, bytes_of(map));
	if (dump->len)
		assert_true(jit_read_dump(&entries, bytes_of(dump), PID));
	assert_true(jit_list(&entries, &writer));
	list = list_written(&writer, NAMING_NO_SYMBOL);
	assert_non_null(list);
	return list;
}

static void check(const struct buf *map, const struct buf *dump, const struct expected *expected, size_t nr)
{
	_cleanup_(function_list_freep) struct function_list *list = list_of(map, dump);

	for (size_t i = 0; i < nr; i++) {
		struct function found = {};
		enum naming naming = list_find(list, expected[i].address, &found);

		if (!expected[i].name) {
			assert_int_equal(naming, NAMING_NO_SYMBOL);
			continue;
		}
		assert_int_equal(naming, NAMING_NAMED);
		assert_string_equal(found.name, expected[i].name);
		assert_true(found.start <= expected[i].address && expected[i].address < found.end);
	}
}

static void check_map(const char *text, const struct expected *expected, size_t nr)
{
	_cleanup_(buf_release) struct buf map = {}, none = {};

	buf_str(&map, text);
	check(&map, &none, expected, nr);
}

#define CHECK_MAP(text, ...)                                                                                           \
	check_map(text, (const struct expected[]){ __VA_ARGS__ },                                                      \
		  ARRAY_SIZE(((const struct expected[]){ __VA_ARGS__ })))

static void test_lines(void **state)
{
	(void)state;
	CHECK_MAP("1000 10 first\n2000 20 a second one, with blanks \n", { 0xfff, NULL }, { 0x1000, "first" },
		  { 0x100f, "first" }, { 0x1010, NULL }, { 0x1fff, NULL }, { 0x201f, "a second one, with blanks " },
		  { 0x2020, NULL }, { UINT64_MAX, NULL });
	/* One behind the other; in no order. */
	CHECK_MAP("3000 10 c\n1000 10 a\n1010 10 b\n", { 0x100f, "a" }, { 0x1010, "b" }, { 0x3000, "c" });
	/* As the JDK writes them. */
	CHECK_MAP("0x00007f0000001000 0x0000000000000178 java.lang.String::hashCode\n",
		  { 0x7f0000001177, "java.lang.String::hashCode" }, { 0x7f0000001178, NULL });
}

/* What is no line of the form is passed over, and all others count. */
static void test_odd_lines(void **state)
{
	static const char *const odd[] = {
		"",
		" ",
		"\n",
		"1000",
		"1000 ",
		"1000 10",
		"1000 name_without_a_size",
		"1000 0 of_no_size",
		" 1000 10 blank",
		"1000\t10\ttabs",
		"1000  10 two_blanks",
		"-1000 10 negative",
		"+1000 10 positive",
		"0x 10 no_digit",
		"00000000000001000 10 seventeen_digits",
		"1000 00000000000000010 seventeen_digits",
		"1000 ffffffffffffffff beyond_the_end",
		"g000 10 no_hex",
		"1000g 10 no_hex",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		_cleanup_(buf_release) struct buf text = {};

		buf_printf(&text, "2000 10 before\n%s\n3000 10 behind\n", odd[i]);
		buf_char(&text, '\0');
		CHECK_MAP(text.data, { 0x1000, NULL }, { 0x1008, NULL }, { 0x2008, "before" }, { 0x3008, "behind" });
	}
	CHECK_MAP("", { 0, NULL }, { 0x1000, NULL });
	CHECK_MAP("\n\n\n", { 0, NULL });
	CHECK_MAP("fffffffffffffff0 f last\n0 1 first\n", { UINT64_MAX - 1, "last" }, { UINT64_MAX, NULL },
		  { 0, "first" }, { 1, NULL });
}

/* It may be still being written. */
static void test_no_newline_at_the_end(void **state)
{
	(void)state;
	CHECK_MAP("1000 10 whole\n2000 10 hal", { 0x1000, "whole" }, { 0x2000, NULL });
	CHECK_MAP("1000 10 hal", { 0x1000, NULL });
}

/* The line that was written last counts, and what it does not cover is as before. */
static void test_overlapping(void **state)
{
	(void)state;
	CHECK_MAP("1000 100 old\n1040 20 new\n", { 0x103f, "old" }, { 0x1040, "new" }, { 0x105f, "new" },
		  { 0x1060, "old" }, { 0x10ff, "old" }, { 0x1100, NULL });
	CHECK_MAP("1040 20 old\n1000 100 new\n", { 0x1000, "new" }, { 0x1050, "new" }, { 0x10ff, "new" });
	CHECK_MAP("1000 20 a\n1010 20 b\n1020 20 c\n1008 10 d\n", { 0x1007, "a" }, { 0x1008, "d" }, { 0x1017, "d" },
		  { 0x1018, "b" }, { 0x101f, "b" }, { 0x1020, "c" }, { 0x103f, "c" }, { 0x1040, NULL });
	/* The same place, again and again; and a name that was there before. */
	CHECK_MAP("1000 10 a\n1000 10 b\n1000 10 a\n", { 0x1008, "a" });
	/* One without a name hides what was there. */
	CHECK_MAP("1000 10 a\n1004 4 \n", { 0x1003, "a" }, { 0x1004, NULL }, { 0x1008, "a" });
}

/* Against a list of bytes: each line in its turn sets those that it has. */
static void test_many_overlapping(void **state)
{
	enum { BYTES = 300, LINES = 200 };
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 50; round++) {
		_cleanup_(buf_release) struct buf map = {}, none = {};
		_cleanup_(function_list_freep) struct function_list *list = NULL;
		int owner[BYTES];

		memset(owner, -1, sizeof(owner));
		for (int i = 0; i < LINES; i++) {
			int start = (int)(rand_r(&seed) % BYTES), size = (int)(rand_r(&seed) % 40) + 1;

			buf_printf(&map, "%x %x f%d\n", (unsigned)start, (unsigned)size, i);
			for (int at = start; at < start + size && at < BYTES; at++)
				owner[at] = i;
		}
		list = list_of(&map, &none);
		for (unsigned at = 0; at < BYTES; at++) {
			struct function found;
			char name[16];

			if (owner[at] < 0) {
				assert_int_equal(list_find(list, at, &found), NAMING_NO_SYMBOL);
				continue;
			}
			(void)snprintf(name, sizeof(name), "f%d", owner[at]);
			assert_int_equal(list_find(list, at, &found), NAMING_NAMED);
			assert_string_equal(found.name, name);
		}
	}
}

static void test_binary_names(void **state)
{
	static const char text[] = "1000 10 a\xff\x01z\n2000 10 a\0z\n3000 10 \xc3\xa4\r\n";
	_cleanup_(buf_release) struct buf map = {}, none = {};
	const struct expected expected[] = {
		{ 0x1000, "a\\xff\\x01z" },
		{ 0x2000, "a\\x01z" },
		{ 0x3000, "\xc3\xa4\\x0d" },
	};

	(void)state;
	buf_add(&map, text, sizeof(text) - 1);
	check(&map, &none, expected, ARRAY_SIZE(expected));
}

/* A name of 1 MiB is cut, and the lines beside it count. */
static void test_long_name(void **state)
{
	_cleanup_(function_list_freep) struct function_list *list = NULL;
	_cleanup_(buf_release) struct buf map = {}, none = {};
	struct function found;

	(void)state;
	buf_str(&map, "1000 10 before\n2000 10 ");
	for (size_t i = 0; i < (size_t)1 << 20; i++)
		buf_char(&map, 'x');
	buf_str(&map, "\n3000 10 behind\n");
	list = list_of(&map, &none);
	assert_int_equal(list_find(list, 0x1000, &found), NAMING_NAMED);
	assert_string_equal(found.name, "before");
	assert_int_equal(list_find(list, 0x2000, &found), NAMING_NAMED);
	assert_true(strlen(found.name) < FUNCTION_NAME_MAX && strncmp(found.name, "xxxx", 4) == 0);
	assert_non_null(strstr(found.name, "...#"));
	assert_int_equal(list_find(list, 0x3000, &found), NAMING_NAMED);
	assert_string_equal(found.name, "behind");
}

/* --- jitdumps */

static void add_u32(struct buf *out, uint32_t number)
{
	buf_add(out, (const char *)&number, sizeof(number));
}

static void add_u64(struct buf *out, uint64_t number)
{
	buf_add(out, (const char *)&number, sizeof(number));
}

static void add_header(struct buf *out, uint32_t magic, uint32_t size, uint32_t pid)
{
	add_u32(out, magic);
	add_u32(out, 1);
	add_u32(out, size);
	add_u32(out, 62);
	add_u32(out, 0);
	add_u32(out, pid);
	add_u64(out, 1);
	add_u64(out, 0);
	for (size_t i = 40; i < size && i < 64; i++)
		buf_char(out, '\0');
}

#define MAGIC 0x4a695444

static void add_load(struct buf *out, uint64_t address, uint64_t size, uint64_t index, const char *name)
{
	add_u32(out, 0);
	add_u32(out, (uint32_t)(56 + strlen(name) + 1 + 4));
	add_u64(out, 2);
	add_u32(out, PID);
	add_u32(out, PID);
	add_u64(out, address);
	add_u64(out, address);
	add_u64(out, size);
	add_u64(out, index);
	buf_add(out, name, strlen(name) + 1);
	buf_add(out, "code", 4);
}

static void add_move(struct buf *out, uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
	add_u32(out, 1);
	add_u32(out, 64);
	add_u64(out, 3);
	add_u32(out, PID);
	add_u32(out, PID);
	add_u64(out, to);
	add_u64(out, from);
	add_u64(out, to);
	add_u64(out, size);
	add_u64(out, index);
}

static void add_other(struct buf *out, uint32_t id, uint32_t size)
{
	add_u32(out, id);
	add_u32(out, size);
	add_u64(out, 4);
	for (size_t i = 16; i < size; i++)
		buf_char(out, 'z');
}

#define CHECK_DUMP(dump, ...)                                                                                          \
	check(&(struct buf){}, dump, (const struct expected[]){ __VA_ARGS__ },                                         \
	      ARRAY_SIZE(((const struct expected[]){ __VA_ARGS__ })))

static void test_dump(void **state)
{
	_cleanup_(buf_release) struct buf dump = {}, map = {};
	const struct expected expected[] = {
		{ 0x1000, "first" },
		{ 0x2000, "other" },
		{ 0x9000, "third" },
		{ 0x5000, "of_the_map" },
	};

	(void)state;
	/* The header may have more in newer versions, and records of other kinds are passed over. */
	add_header(&dump, MAGIC, 48, PID);
	add_load(&dump, 0x1000, 0x10, 1, "first");
	add_other(&dump, 4, 40);
	add_other(&dump, 77, 16);
	add_load(&dump, 0x2000, 0x10, 2, "second");
	add_load(&dump, 0x2000, 0x10, 3, "other");
	add_load(&dump, 0x3000, 0x10, 4, "third");
	CHECK_DUMP(&dump, { 0xfff, NULL }, { 0x1000, "first" }, { 0x100f, "first" }, { 0x1010, NULL },
		   { 0x2000, "other" }, { 0x3000, "third" });
	/* What is moved is not there any more. */
	add_move(&dump, 0x3000, 0x9000, 0x10, 4);
	CHECK_DUMP(&dump, { 0x3000, NULL }, { 0x9000, "third" }, { 0x900f, "third" }, { 0x9010, NULL });
	/* It counts as the newer one. */
	buf_str(&map, "1000 10 old\n5000 10 of_the_map\n");
	check(&map, &dump, expected, ARRAY_SIZE(expected));
	/* To a place that it overlaps, twice, and one that was never loaded. */
	add_move(&dump, 0x9000, 0x9008, 0x10, 4);
	add_move(&dump, 0x9008, 0x9004, 0x10, 4);
	add_move(&dump, 0xa000, 0xb000, 0x10, 99);
	CHECK_DUMP(&dump, { 0x9003, NULL }, { 0x9004, "third" }, { 0x9013, "third" }, { 0x9014, NULL },
		   { 0xb000, NULL });
}

static void test_odd_records(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 15 };

	(void)state;
	/* With a size that can't be, nothing that follows is known. */
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		_cleanup_(buf_release) struct buf dump = {};

		add_header(&dump, MAGIC, 40, PID);
		add_load(&dump, 0x1000, 0x10, 1, "first");
		add_other(&dump, 0, sizes[i]);
		add_load(&dump, 0x2000, 0x10, 1, "behind");
		CHECK_DUMP(&dump, { 0x1000, "first" }, { 0x2000, NULL });
	}
	/* A load and a move without their bodies, code of no size and code beyond the end of memory. */
	{
		_cleanup_(buf_release) struct buf dump = {};

		add_header(&dump, MAGIC, 40, PID);
		add_other(&dump, 0, 16);
		add_other(&dump, 0, 56);
		add_other(&dump, 1, 16);
		add_other(&dump, 1, 63);
		add_load(&dump, 0x1000, 0, 1, "of_no_size");
		add_load(&dump, UINT64_MAX, 2, 2, "beyond");
		add_other(&dump, 0, 80); /* without the end of its name */
		add_load(&dump, 0x2000, 0x10, 3, "");
		add_load(&dump, 0x3000, 0x10, 4, "last");
		CHECK_DUMP(&dump, { 0x1000, NULL }, { UINT64_MAX, NULL }, { 0x2000, NULL }, { 0x3000, "last" });
	}
}

/* It is cut anywhere: records that are whole count. */
static void test_beyond_the_end(void **state)
{
	_cleanup_(buf_release) struct buf dump = {};
	size_t first;

	(void)state;
	add_header(&dump, MAGIC, 40, PID);
	add_load(&dump, 0x1000, 0x10, 1, "first");
	first = dump.len;
	add_load(&dump, 0x2000, 0x10, 2, "second");
	for (size_t len = dump.len; len >= 40; len--) {
		struct buf cut = { .data = dump.data, .len = len };

		CHECK_DUMP(&cut, { 0x1000, len >= first ? "first" : NULL },
			   { 0x2000, len == dump.len ? "second" : NULL });
	}
}

static bool reads(const struct buf *dump)
{
	_cleanup_(jit_entries_release) struct jit_entries entries = {};
	bool r = jit_read_dump(&entries, bytes_of(dump), PID);

	assert_true(r || entries.nr == 0);
	return r;
}

static void test_no_dump(void **state)
{
	static const struct {
		uint32_t magic, size, pid;
		bool is_one;
	} headers[] = {
		{ MAGIC, 40, PID, true },	   { MAGIC, 64, PID, true },
		{ 0x4454694a, 40, PID, false }, /* of the other byte order */
		{ 0x464c457f, 40, PID, false }, /* an ELF */
		{ MAGIC, 40, PID + 1, false },	   { MAGIC, 0, PID, false },
		{ MAGIC, 39, PID, false },	   { MAGIC, 0x1000, PID, false },
		{ MAGIC, UINT32_MAX, PID, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		_cleanup_(buf_release) struct buf dump = {};

		add_header(&dump, headers[i].magic, headers[i].size, headers[i].pid);
		add_load(&dump, 0x1000, 0x10, 1, "first");
		assert_int_equal(reads(&dump), headers[i].is_one);
		dump.len = 39;
		assert_false(reads(&dump));
		dump.len = 0;
		assert_false(reads(&dump));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_odd_lines),
		cmocka_unit_test(test_no_newline_at_the_end),
		cmocka_unit_test(test_overlapping),
		cmocka_unit_test(test_many_overlapping),
		cmocka_unit_test(test_binary_names),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_dump),
		cmocka_unit_test(test_odd_records),
		cmocka_unit_test(test_beyond_the_end),
		cmocka_unit_test(test_no_dump),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
