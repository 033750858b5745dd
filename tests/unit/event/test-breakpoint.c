/* SPDX-License-Identifier: MIT */

/* mem:… as text, and the addresses of kernel symbols. */

#include "base/elf/kallsyms.h"
#include "base/util/buf.h"
#include "counting/event/parse.h"
#include "setup/tree.h"

#include <errno.h>
#include <linux/hw_breakpoint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define R HW_BREAKPOINT_R
#define W HW_BREAKPOINT_W
#define RW HW_BREAKPOINT_RW
#define X HW_BREAKPOINT_X

static const char symbols[] = "0000000000000000 A __per_cpu_start\n"
			      "0000000000001000 A per_cpu_thing\n"
			      "0000000000031000 A __per_cpu_end\n"
			      "ffffffff81000000 T _text\n"
			      "ffffffff81000000 T _stext\n"
			      "ffffffff81000100 t do_one\n"
			      "ffffffff81000200 t do_one\n"
			      "ffffffff81000300 t do_one.isra.0\n"
			      "ffffffff82000000 D jiffies\n"
			      "ffffffff82000000 D jiffies_64\n"
			      "ffffffff82000008 d twin\n"
			      "ffffffff82000008 d twin\n"
			      "not a line\n"
			      "ffffffff82000010 D\n"
			      "\n"
			      "ffffffff82000020 b .last.in$kernel\n"
			      "ffffffffc0000000 t mod_init\t[mod]\n"
			      "ffffffffc0000100 d shared\t[mod]\n"
			      "ffffffffc0000200 d shared\t[other_mod]\n"
			      "fffffffffffffff0 b top\n";

struct fixture {
	char *dir, *kallsyms;
	struct event_env env;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->dir = tree_new(NULL);
	tree_text(f->dir, "kallsyms", symbols);
	f->kallsyms = tree_path(f->dir, "kallsyms");
	f->env = (struct event_env){ .kallsyms = f->kallsyms };
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	free(f->kallsyms);
	tree_free(f->dir);
	free(f);
	return 0;
}

/* As perf(1) encodes them; it knows no symbols. */
static void test_encodings(void **state)
{
	static const struct {
		const char *text;
		uint64_t address, length;
		uint32_t type;
		const char *metric;
	} table[] = {
		{ "mem:0x1000", 0x1000, 4, RW, "mem_0x1000" },
		{ "mem:4096", 4096, 4, RW, "mem_4096" },
		{ "mem:0x1000:w", 0x1000, 4, W, "mem_0x1000_w" },
		{ "mem:0x1000/8:w", 0x1000, 8, W, "mem_0x1000_8_w" },
		{ "mem:0x1000/0x2:r", 0x1000, 2, R, "mem_0x1000_0x2_r" },
		{ "mem:0x1000/1", 0x1000, 1, RW, "mem_0x1000_1" },
		{ "mem:0x1000/3:rw", 0x1000, 3, RW, "mem_0x1000_3_rw" },
		{ "mem:0x1000:wr", 0x1000, 4, RW, "mem_0x1000_wr" },
		{ "mem:0x1000:x", 0x1000, sizeof(long), X, "mem_0x1000_x" },
		{ "mem:0x1000/4:x", 0x1000, 4, X, "mem_0x1000_4_x" },
		{ "mem:0xffffffffffffffff/1", UINT64_MAX, 1, RW, "mem_0xffffffffffffffff_1" },
		{ "mem:jiffies/8:w", 0xffffffff82000000, 8, W, "mem_jiffies_8_w" },
		{ "mem:jiffies_64+0x10/8:rw", 0xffffffff82000010, 8, RW, "mem_jiffies_64_0x10_8_rw" },
		{ "mem:jiffies+16", 0xffffffff82000010, 4, RW, "mem_jiffies_16" },
		{ "mem:_text:x", 0xffffffff81000000, sizeof(long), X, "mem__text_x" },
		{ "mem:twin", 0xffffffff82000008, 4, RW, "mem_twin" },
		{ "mem:do_one.isra.0:x", 0xffffffff81000300, sizeof(long), X, "mem_do_one_isra_0_x" },
		{ "mem:.last.in$kernel", 0xffffffff82000020, 4, RW, "mem__last_in_kernel" },
		{ "mem:mod_init:x", 0xffffffffc0000000, sizeof(long), X, "mem_mod_init_x" },
		{ "ticks=mem:jiffies/8:w", 0xffffffff82000000, 8, W, "ticks" },
	};
	const struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct perf_event_attr want = { .type = PERF_TYPE_BREAKPOINT, .size = sizeof(want) };
		struct event_list list = {};
		struct reason why = {};

		want.bp_addr = table[i].address;
		want.bp_len = table[i].length;
		want.bp_type = table[i].type;
		if (event_parse(&list, &f->env, table[i].text, &why) < 0)
			fail_msg("%s: %s", table[i].text, why.text);
		assert_int_equal(list.nr, 1);
		if (memcmp(&list.events[0].attr, &want, sizeof(want)))
			fail_msg("%s is encoded otherwise", table[i].text);
		assert_string_equal(list.events[0].metric, table[i].metric);
		assert_string_equal(list.events[0].pmu, "breakpoint");
		assert_true(list.events[0].software);
		assert_int_equal(list.events[0].absent, 0);
		event_list_release(&list);
	}
}

/* Modifiers come behind the access, and are told from it by their letters. */
static void test_modifiers(void **state)
{
	static const struct {
		const char *text, *metric;
		uint32_t type;
		bool user, kernel, pinned; /* excluded, excluded, set */
	} table[] = {
		{ "mem:0x1000:u", "mem_0x1000_user", RW, false, true, false },
		{ "mem:0x1000:w:u", "mem_0x1000_w_user", W, false, true, false },
		{ "mem:0x1000/8:k", "mem_0x1000_8_kernel", RW, true, false, false },
		{ "mem:0x1000/8:x:kD", "mem_0x1000_8_x_kernel", X, true, false, true },
		{ "mem:0x1000:D", "mem_0x1000", RW, false, false, true },
	};
	const struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct event_list list = {};
		const struct perf_event_attr *attr;

		assert_int_equal(event_parse(&list, &f->env, table[i].text, NULL), 0);
		attr = &list.events[0].attr;
		assert_string_equal(list.events[0].metric, table[i].metric);
		assert_int_equal(attr->bp_type, table[i].type);
		assert_int_equal(attr->exclude_user, table[i].user);
		assert_int_equal(attr->exclude_kernel, table[i].kernel);
		assert_int_equal(attr->pinned, table[i].pinned);
		event_list_release(&list);
	}
}

static void test_refused(void **state)
{
	static const char *const table[][2] = {
		{ "mem:", "a breakpoint is mem:ADDRESS or mem:SYMBOL" },
		{ "mem::w", "a breakpoint is mem:ADDRESS or mem:SYMBOL" },
		{ "mem:/8", "a breakpoint is mem:ADDRESS or mem:SYMBOL" },
		{ "mem:+8", "a breakpoint is mem:ADDRESS or mem:SYMBOL" },
		{ "mem:a-b", "a breakpoint is mem:ADDRESS or mem:SYMBOL" },
		{ "mem:'jiffies'", "a breakpoint is mem:ADDRESS or mem:SYMBOL" },
		{ "mem:0x", "'0x' is not an address" },
		{ "mem:12z", "'12z' is not an address" },
		{ "mem:0x1000+8", "'0x1000+8' is not an address" },
		{ "mem:0x10000000000000000", "not an address of 64 bits" },
		{ "mem:0x1000/", "the length after '/' is 1 to 8 bytes, not ''" },
		{ "mem:0x1000/0", "1 to 8 bytes, not '0'" },
		{ "mem:0x1000/9", "1 to 8 bytes, not '9'" },
		{ "mem:0x1000/x", "1 to 8 bytes, not 'x'" },
		{ "mem:0x1000/8/", "1 to 8 bytes, not '8/'" },
		{ "mem:0x1000/8/u", "1 to 8 bytes, not '8/u'" },
		{ "mem:0x1000:rwx", "x (execution) can't be counted together with r and w" },
		{ "mem:0x1000:xr", "x (execution) can't be counted together" },
		{ "mem:0x1000:ww", "access 'w' is given twice" },
		{ "mem:0x1000:xx", "access 'x' is given twice" },
		{ "mem:0x1000:", "a modifier is missing after the ':'" },
		{ "mem:0x1000:w:", "a modifier is missing after the ':'" },
		{ "mem:0x1000:rwu", "unknown modifier 'r'" },
		{ "mem:0x1000:uw", "unknown modifier 'w'" },
		{ "mem:0x1000:u:w", "unknown modifier ':'" },
		{ "mem:0x1000:w:w", "unknown modifier 'w'" },
		{ "mem:jiffies+", "the offset after '+' is not a number: ''" },
		{ "mem:jiffies+z", "the offset after '+' is not a number: 'z'" },
		{ "mem:top+0x10", "the address at offset 0x10 from symbol 'top' has more than 64 bits" },
	};
	const struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct event_list list = {};
		struct reason why = {};

		if (event_parse(&list, &f->env, table[i][0], &why) != -EINVAL || !strstr(why.text, table[i][1]))
			fail_msg("%s: '%s', not '%s'", table[i][0], why.text, table[i][1]);
		assert_null(list.events);
	}
}

static void check_absent(const struct event_env *env, const char *text, int absent, const char *part)
{
	struct event_list list = {};
	struct reason why = {};

	if (event_parse(&list, env, text, &why) < 0)
		fail_msg("%s: %s", text, why.text);
	assert_int_equal(list.nr, 1);
	assert_int_equal(list.events[0].absent, absent);
	if (!strstr(list.events[0].why_absent, part))
		fail_msg("%s: '%s' has no '%s'", text, list.events[0].why_absent, part);
	assert_int_equal(list.events[0].attr.type, PERF_TYPE_BREAKPOINT);
	assert_string_equal(list.events[0].pmu, "breakpoint");
	event_list_release(&list);
}

static void test_absent(void **state)
{
	struct fixture *f = *state;
	struct event_env nothing = {};

	check_absent(&f->env, "mem:no_such", -ENOENT, "has no symbol 'no_such': a module may be missing");
	check_absent(&f->env, "mem:jiff", -ENOENT, "has no symbol 'jiff'");
	check_absent(&f->env, "mem:jiffies_6:w", -ENOENT, "has no symbol 'jiffies_6'");
	check_absent(&f->env, "mem:mod", -ENOENT, "has no symbol 'mod'");
	check_absent(&f->env, "mem:do_one:x", -ENOTUNIQ, "several symbols 'do_one'");
	check_absent(&f->env, "mem:shared", -ENOTUNIQ, "several symbols 'shared'");
	check_absent(&f->env, "mem:per_cpu_thing", -EOPNOTSUPP, "'per_cpu_thing' is per-CPU data");

	/* kernel.kptr_restrict */
	tree_text(f->dir, "kallsyms", "0000000000000000 T _text\n0000000000000000 D jiffies\n");
	check_absent(&f->env, "mem:jiffies/8:w", -EACCES, "kernel.kptr_restrict");
	check_absent(&f->env, "mem:jiffies/8:w", -EACCES, "CAP_SYSLOG");
	check_absent(&f->env, "mem:no_such", -EACCES, "does not show this process any address");
	tree_text(f->dir, "kallsyms", "");
	check_absent(&f->env, "mem:jiffies/8:w", -EACCES, "is hidden from this process");

	tree_remove(f->dir, "kallsyms");
	check_absent(&f->env, "mem:jiffies", -ENOENT, "kallsyms can't be read (No such file or directory)");
	tree_folder(f->dir, "kallsyms");
	check_absent(&f->env, "mem:jiffies", -EIO, "kallsyms can't be read");
	check_absent(&nothing, "mem:jiffies", -ENOENT, "can't be read");
	assert_int_equal(event_parse(&(struct event_list){}, &nothing, "mem:", NULL), -EINVAL);
}

/* Root may read anything: another user has to try. */
static void test_not_readable(void **state)
{
	struct fixture *f = *state;
	uid_t uid = geteuid();

	assert_int_equal(chmod(f->kallsyms, 0), 0);
	if (uid == 0)
		assert_int_equal(seteuid(65534), 0);
	check_absent(&f->env, "mem:jiffies", -EACCES, "is hidden from this process");
	assert_int_equal(seteuid(uid), 0);
}

/* The real file is long: lines are found at its end, and one that is too long is passed over as a whole. */
static void test_long_file(void **state)
{
	struct fixture *f = *state;
	struct buf b = {};
	uint64_t address = 0;

	for (unsigned i = 0; i < 150000; i++)
		buf_printf(&b, "ffffffff8%07x t function_%u\n", i * 16, i);
	for (unsigned i = 0; i < 3000; i++)
		buf_str(&b, "ffffffff90000000 t hidden_in_a_line ");
	buf_str(&b, "\nffffffff91000000 T behind\nffffffff92000000 T unended");
	buf_char(&b, '\0');
	tree_text(f->dir, "kallsyms", b.data);
	buf_release(&b);

	assert_int_equal(kallsyms_find(f->kallsyms, "function_149999", &address, NULL), 0);
	assert_int_equal(address, 0xffffffff80000000 + 149999 * 16);
	assert_int_equal(kallsyms_find(f->kallsyms, "behind", &address, NULL), 0);
	assert_int_equal(address, 0xffffffff91000000);
	assert_int_equal(kallsyms_find(f->kallsyms, "hidden_in_a_line", &address, NULL), -ENOENT);
	assert_int_equal(kallsyms_find(f->kallsyms, "unended", &address, NULL), -ENOENT);
	assert_int_equal(address, 0xffffffff91000000);
}

static void test_names(_unused_ void **state)
{
	char name[600];

	assert_true(kallsyms_is_name("vfs_read"));
	assert_true(kallsyms_is_name("_RNvCs1_3foo3bar"));
	assert_true(kallsyms_is_name("do_one.constprop.0"));
	assert_false(kallsyms_is_name(""));
	assert_false(kallsyms_is_name("0abc"));
	assert_false(kallsyms_is_name("a b"));
	assert_false(kallsyms_is_name("a:b"));
	assert_false(kallsyms_is_name("caf\xc3\xa9"));
	memset(name, 'a', sizeof(name));
	name[511] = '\0';
	assert_true(kallsyms_is_name(name));
	name[511] = 'a';
	name[512] = '\0';
	assert_false(kallsyms_is_name(name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_encodings, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_modifiers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_absent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_not_readable, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_long_file, set_up, tear_down),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests_name("breakpoint", tests, NULL, NULL);
}
