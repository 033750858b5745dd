/* SPDX-License-Identifier: MIT */

/* Probes of the kernel and of programs, filters, and how a list of such events is split. */

#include "counting/event/parse.h"
#include "setup/machines.h"
#include "setup/made-elf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* types of machine_intel */
#define KPROBE 6
#define UPROBE 7

/* What a text becomes on a machine; "DIR" in it stands for a folder with the made files. */
struct fixture {
	struct machine machine;
	char *dir;
};

static const struct made_symbol symbols[] = {
	{ .name = "work", .at = MADE_ADDRESS + 0x100, .size = 0x40 },
	{ .name = "chosen", .at = MADE_ADDRESS + 0x200, .size = 0x40, .type = STT_GNU_IFUNC },
	{ .name = "net/http.(*conn).serve", .at = MADE_ADDRESS + 0x300, .size = 0x40 },
	{ .name = "unsized", .at = MADE_ADDRESS + 0x1000 },
	{},
};

static int set_up(void **state)
{
	static const struct made_elf made = { .symtab = symbols };
	struct fixture *f = calloc(1, sizeof(*f));
	char *path;

	assert_non_null(f);
	f->machine = machine_new(machine_intel);
	f->dir = tree_new(NULL);
	path = tree_path(f->dir, "libwork.so.6");
	made_elf_write(path, &made);
	free(path);
	path = tree_path(f->dir, "odd: a,b");
	made_elf_write(path, &made);
	free(path);
	tree_text(f->dir, "script", "#!/bin/sh\n");
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	machine_release(&f->machine);
	tree_free(f->dir);
	free(f);
	return 0;
}

static char *expand(const struct fixture *f, const char *text)
{
	const char *at = strstr(text, "DIR");
	char *expanded;

	if (!at)
		return strdup(text);
	return asprintf(&expanded, "%.*s%s%s", (int)(at - text), text, f->dir, at + 3) < 0 ? NULL : expanded;
}

static struct event_list parse(const struct fixture *f, const char *text)
{
	char *expanded = expand(f, text);
	struct event_list list = machine_parse(&f->machine, expanded);

	assert_int_equal(list.nr, 1);
	free(expanded);
	return list;
}

static void test_encodings(void **state)
{
	static const struct {
		const char *text;
		uint32_t type;
		uint64_t config, config2;
		const char *probe, *metric, *filter;
	} table[] = {
		{ "kprobe:vfs_read", KPROBE, 0, 0, "vfs_read", "kprobe_vfs_read", NULL },
		{ "kprobe:vfs_read+0x10", KPROBE, 0, 0x10, "vfs_read", "kprobe_vfs_read_0x10", NULL },
		{ "kretprobe:vfs_read", KPROBE, 1, 0, "vfs_read", "kretprobe_vfs_read", NULL },
		{ "kprobe:0xffffffff81000000", KPROBE, 0, 0xffffffff81000000, NULL, "kprobe_0xffffffff81000000", NULL },
		{ "kprobe:do_one.isra.0", KPROBE, 0, 0, "do_one.isra.0", "kprobe_do_one_isra_0", NULL },
		{ "reads=kprobe:vfs_read", KPROBE, 0, 0, "vfs_read", "reads", NULL },
		{ "kprobe:vfs_read/filter='common_pid != 0'/", KPROBE, 0, 0, "vfs_read", "kprobe_vfs_read",
		  "common_pid != 0" },

		{ "uprobe:DIR/libwork.so.6:work", UPROBE, 0, 0x1100, "DIR/libwork.so.6", "uprobe_libwork_so_6_work",
		  NULL },
		{ "uprobe:DIR/libwork.so.6:work+0x3f", UPROBE, 0, 0x113f, "DIR/libwork.so.6",
		  "uprobe_libwork_so_6_work_0x3f", NULL },
		{ "uprobe:DIR/libwork.so.6:unsized+16", UPROBE, 0, 0x2010, "DIR/libwork.so.6",
		  "uprobe_libwork_so_6_unsized_16", NULL },
		{ "uretprobe:DIR/libwork.so.6:work", UPROBE, 1, 0x1100, "DIR/libwork.so.6",
		  "uretprobe_libwork_so_6_work", NULL },
		{ "uprobe:DIR/libwork.so.6:0x1104", UPROBE, 0, 0x1104, "DIR/libwork.so.6", "uprobe_libwork_so_6_0x1104",
		  NULL },
		{ "uretprobe:DIR/libwork.so.6:4352", UPROBE, 1, 4352, "DIR/libwork.so.6", "uretprobe_libwork_so_6_4352",
		  NULL },
		{ "uprobe:DIR/script:0", UPROBE, 0, 0, "DIR/script", "uprobe_script_0", NULL },
		{ "uprobe:'DIR/odd: a,b':work", UPROBE, 0, 0x1100, "DIR/odd: a,b", "uprobe_odd__a_b_work", NULL },
		{ "uprobe:'DIR/odd: a,b':'work'+4", UPROBE, 0, 0x1104, "DIR/odd: a,b", "uprobe_odd__a_b_work_4", NULL },
		{ "uprobe:DIR/libwork.so.6:'net/http.(*conn).serve'", UPROBE, 0, 0x1300, "DIR/libwork.so.6",
		  "uprobe_libwork_so_6_net_http___conn__serve", NULL },
		{ "x=uprobe:DIR/libwork.so.6:work/filter='common_pid > 1 || common_pid == 0, x'/", UPROBE, 0, 0x1100,
		  "DIR/libwork.so.6", "x", "common_pid > 1 || common_pid == 0, x" },
	};
	const struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct perf_event_attr want = { .type = table[i].type, .size = sizeof(want) };
		struct event_list list = parse(f, table[i].text);
		const struct event *event = &list.events[0];
		char *probe = table[i].probe ? expand(f, table[i].probe) : NULL;
		union event_attr attr;

		want.config = table[i].config;
		want.config2 = table[i].config2;
		if (event->absent || memcmp(&event->attr, &want, sizeof(want)))
			fail_msg("%s is encoded otherwise: 0x%llx, %s", table[i].text, event->attr.config2,
				 event->why_absent ? event->why_absent : "");
		assert_string_equal(event->metric, table[i].metric);
		assert_true(event->software);
		assert_string_equal(event->pmu, table[i].type == KPROBE ? "kprobe" : "uprobe");
		event_attr(&attr, event);
		if (probe)
			assert_string_equal((const char *)(uintptr_t)attr.attr.config1, probe);
		else
			assert_int_equal(attr.attr.config1, 0);
		if (table[i].filter)
			assert_string_equal(event->filter, table[i].filter);
		else
			assert_null(event->filter);
		free(probe);
		event_list_release(&list);
	}
}

static void check_refused(const struct fixture *f, const char *text, const char *part)
{
	struct event_list list = {};
	struct reason why = {};
	char *expanded = expand(f, text);
	int r = event_parse(&list, &f->machine.env, expanded, &why);

	if (r != -EINVAL || !strstr(why.text, part))
		fail_msg("%s: %d, '%s', not '%s'", text, r, why.text, part);
	assert_null(list.events);
	free(expanded);
}

static void test_refused(void **state)
{
	static const char *const table[][2] = {
		{ "kprobe:", "the function's name is missing" },
		{ "kprobe::u", "the function's name is missing" },
		{ "kprobe:a@b", "'a@b' can't be the name of a function in the kernel" },
		{ "kprobe:a'b'", "single quotes have to enclose the whole" },
		{ "kprobe:''", "'' can't be the name of a function" },
		{ "kprobe:0xz", "'0xz' is not a number of 64 bits" },
		{ "kprobe:vfs_read+", "the offset after '+' is not a number" },
		{ "kprobe:vfs_read:x", "unknown modifier 'x'" },
		{ "kprobe:vfs_read:", "a modifier is missing" },
		{ "kretprobe:vfs_read+4", "a function returns as a whole" },
		{ "uprobe:", "a uprobe is uprobe:/PATH:FUNCTION" },
		{ "uprobe:work", "a uprobe is uprobe:/PATH:FUNCTION" },
		{ "uprobe:/bin/true", "a uprobe is uprobe:/PATH:FUNCTION" },
		{ "uprobe:bin/true:main", "the path absolute" },
		{ "uprobe:'bin/true':main", "the path absolute" },
		{ "uprobe:/bin/'true':main", "a uprobe is" },
		{ "uprobe::main", "a uprobe is" },
		{ "uprobe:/bin/true:", "the function's name is missing" },
		{ "uprobe:/bin/true:main:x", "unknown modifier 'x'" },
		{ "uprobe:/bin/true:main+x", "the offset after '+' is not a number: 'x'" },
		{ "uprobe:/bin/true:0x1+4", "'0x1+4' is not a number" },
		{ "uprobe:/bin/true:'main", "a single quote is not closed" },
		{ "uprobe:/bin/true:'ma'in", "single quotes have to enclose the whole" },
		{ "uretprobe:/bin/true:main+4", "a function returns as a whole" },
		{ "uprobe:/bin/a b:main", "single quotes enclose text with white space" },
		{ "uprobe:'/bin/a\nb':main", "white space inside" },
		{ "uprobe:'/bin/a\x01':main", "byte 0x01" },
		{ "uprobe:'/bin/a\xff':main", "byte 0xff" },
		{ "uprobe:/bin/caf\xc3\xa9:main", "byte 0xc3" },

		{ "sched:sched_switch/filter=''/", "the filter is empty" },
		{ "sched:sched_switch/filter=' \t'/", "the filter is empty" },
		{ "sched:sched_switch/filter=/", "term 'filter' has no value" },
		{ "sched:sched_switch/filter/", "the filter is empty" },
		{ "sched:sched_switch/filter='a'", "the '/' after the terms is missing" },
		{ "sched:sched_switch/filter='a/", "a single quote is not closed" },
		{ "sched:sched_switch/filter='a'b/", "the quotes of term 'filter' don't end its value" },
		{ "sched:sched_switch/filter='a',filter='b'/", "two filters" },
		{ "sched:sched_switch/period=1/", "the only term here is filter='…', not 'period'" },
		{ "sched:sched_switch/filter='a',x/", "the only term here is filter='…', not 'x'" },
		{ "sched:sched_switch/filter='a'/x", "unknown modifier 'x'" },
		{ "sched:sched_switch/filter='a'/:", "a modifier is missing" },
		{ "sched:sched_switch/filter=a == b/", "white space inside" },
		{ "sched:*/filter='a'/", "wildcards are not supported" },
		{ "cycles:u/filter='a'/", "unknown modifier '/'" },
		{ "kprobe:vfs_read/x/", "the only term here is filter" },
		{ "uprobe:/bin/true:main/filter", "the '/' after the terms is missing" },
	};
	const struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		check_refused(f, table[i][0], table[i][1]);
}

static void check_absent(const struct fixture *f, const char *text, int absent, const char *part)
{
	struct event_list list = parse(f, text);

	if (list.events[0].absent != absent || !strstr(list.events[0].why_absent, part))
		fail_msg("%s: %d, '%s', not %d, '%s'", text, list.events[0].absent, list.events[0].why_absent, absent,
			 part);
	event_list_release(&list);
}

static void test_absent(void **state)
{
	struct fixture *f = *state;
	char *secret = tree_path(f->dir, "libwork.so.6");
	struct event_list list;

	check_absent(f, "uprobe:DIR/gone:work", -ENOENT, "/gone: No such file or directory");
	check_absent(f, "uprobe:DIR/gone:0x10", -ENOENT, "/gone: No such file or directory");
	check_absent(f, "uprobe:DIR/script/x:work", -ENOTDIR, "Not a directory");
	check_absent(f, "uprobe:DIR:work", -ENOEXEC, "it is not a regular file");
	check_absent(f, "uprobe:/dev/null:0x10", -ENOEXEC, "/dev/null: it is not a regular file");
	check_absent(f, "uprobe:DIR/script:work", -ENOEXEC, "/script: it is not an ELF program or shared library");
	check_absent(f, "uprobe:DIR/libwork.so.6:wrok", -ENOENT,
		     "libwork.so.6: it has no function 'wrok'; did you mean 'work'?");
	check_absent(f, "uprobe:DIR/libwork.so.6:chosen", -EOPNOTSUPP, "'chosen' is an indirect function");
	check_absent(f, "uprobe:DIR/libwork.so.6:work+0x40", -EINVAL,
		     "function 'work' has 64 bytes, and offset 64 is beyond its end");
	check_absent(f, "uprobe:DIR/libwork.so.6:0x100000", -EINVAL, "and offset 1048576 is beyond its end");
	check_absent(f, "uprobe:DIR/libwork.so.6:unsized+0xffffffffffffffff", -EINVAL, "is beyond its end");

	/* Root may read anything: another user has to try. What is counted at an offset need not be read. */
	assert_int_equal(chmod(f->dir, 0711), 0);
	assert_int_equal(chmod(secret, 0), 0);
	if (getuid() == 0)
		assert_int_equal(seteuid(65534), 0);
	check_absent(f, "uprobe:DIR/libwork.so.6:work", -EACCES, "libwork.so.6: Permission denied");
	list = parse(f, "uprobe:DIR/libwork.so.6:0x10");
	assert_int_equal(list.events[0].absent, 0);
	event_list_release(&list);
	assert_int_equal(seteuid(getuid()), 0);
	free(secret);

	f->machine.env.pmus = NULL;
	check_absent(f, "kprobe:vfs_read", -ENOENT, "this kernel has no kprobes (CONFIG_KPROBE_EVENTS)");
	check_absent(f, "kretprobe:vfs_read:k", -ENOENT, "this kernel has no kprobes");
	check_absent(f, "uprobe:DIR/libwork.so.6:0x10", -ENOENT, "this kernel has no uprobes (CONFIG_UPROBE_EVENTS)");
}

/* Filters of tracepoints, and modifiers behind them. */
static void test_filters(void **state)
{
	static const struct {
		const char *text, *filter, *metric;
		bool excludes_user;
	} table[] = {
		{ "sched:sched_switch/filter='prev_pid == 0 && next_comm != \"x\"'/",
		  "prev_pid == 0 && next_comm != \"x\"", "sched_sched_switch", false },
		{ "sched:sched_switch/filter='a, b/c:d = e'/k", "a, b/c:d = e", "sched_sched_switch_kernel", true },
		{ "sched:sched_switch/filter='a'/:k", "a", "sched_sched_switch_kernel", true },
		{ "sched:sched_switch/filter=prev_pid==0/", "prev_pid==0", "sched_sched_switch", false },
		{ "sched:sched_switch//:k", NULL, "sched_sched_switch_kernel", true },
		{ "busy=sched:sched_switch/filter='comm ~ \"a*\"\t|| caf\xc3\xa9 == 1'/",
		  "comm ~ \"a*\"\t|| caf\xc3\xa9 == 1", "busy", false },
		{ "odd:u/filter='x'/", "x", "odd_u", false },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct event_list list = parse(f, table[i].text);
		const struct event *event = &list.events[0];

		assert_int_equal(event->absent, 0);
		assert_int_equal(event->attr.type, PERF_TYPE_TRACEPOINT);
		assert_int_equal(event->attr.exclude_user, table[i].excludes_user);
		assert_string_equal(event->metric, table[i].metric);
		if (table[i].filter)
			assert_string_equal(event->filter, table[i].filter);
		else
			assert_null(event->filter);
		event_list_release(&list);
	}
	check_absent(f, "sched:gone/filter='a'/", -ENOENT, "no tracepoint 'sched:gone'");
	check_absent(f, "gone:u/filter='a'/", -ENOENT, "no tracepoint 'gone:u'");
}

/* One rule for commas: quotes, and the slashes around terms, but for kinds with slashes of their own. */
static void test_splitting(_unused_ void **state)
{
	static const char *const parts[] = {
		"mem:0x1000/8",
		"a=mem:x/4:w",
		"uprobe:/a/b:c",
		"x=uprobe:/a:c/filter='d, e/f'/",
		"uretprobe:'/with, comma':sym",
		"kprobe:f/filter='a,b'/",
		"s:t/filter='p == 0 , q/r, \"s\"'/:u",
		"cpu/name='a/b,c',event=1/",
		"memory",
		"mem-loads",
		"uprobe/retprobe,x/",
		"a/b,c/d/e,f/",
		"",
		"'quoted, mem:0/8'",
		"label='a,b'",
		"open/x, y",
	};
	char text[512] = "", *cursor = text;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		strcat(text, parts[i]);
		strcat(text, i + 1 < ARRAY_SIZE(parts) ? i % 2 ? " ,\t" : "," : "");
	}
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		assert_string_equal(event_next_text(&cursor), parts[i]);
	assert_null(event_next_text(&cursor));

	/* A quote that is not closed takes all, and is an error of that event. */
	cursor = strcpy(text, "a,b'c,d,e");
	assert_string_equal(event_next_text(&cursor), "a");
	assert_string_equal(event_next_text(&cursor), "b'c,d,e");
	assert_null(event_next_text(&cursor));
}

/* What makes two events the same at a reload. */
static void test_equal(void **state)
{
	static const struct {
		const char *a, *b;
		bool equal;
	} table[] = {
		{ "x=uprobe:DIR/libwork.so.6:work", "x=uprobe:DIR/libwork.so.6:work", true },
		{ "x=uprobe:DIR/libwork.so.6:work", "x=uprobe:DIR/libwork.so.6:0x1100", true },
		{ "x=uprobe:DIR/libwork.so.6:work", "x=uprobe:DIR/libwork.so.6:work+4", false },
		{ "x=uprobe:DIR/libwork.so.6:work", "x=uretprobe:DIR/libwork.so.6:work", false },
		{ "x=uprobe:DIR/libwork.so.6:work", "x=uprobe:'DIR/odd: a,b':work", false },
		{ "x=uprobe:DIR/libwork.so.6:work", "y=uprobe:DIR/libwork.so.6:work", false },
		{ "x=kprobe:a", "x=kprobe:a", true },
		{ "x=kprobe:a", "x=kprobe:b", false },
		{ "x=kprobe:a", "x=kprobe:0", false },
		{ "x=sched:sched_switch", "x=sched:sched_switch", true },
		{ "x=sched:sched_switch", "x=sched:sched_switch/filter='a'/", false },
		{ "x=sched:sched_switch/filter='a'/", "x=sched:sched_switch/filter=a/", true },
		{ "x=sched:sched_switch/filter='a'/", "x=sched:sched_switch/filter='b'/", false },
		{ "x=mem:0x10/8", "x=mem:16/8:rw", true },
		{ "x=mem:0x10/8", "x=mem:0x10/4", false },
		{ "x=mem:0x10/8", "x=mem:0x10/8:w", false },
	};
	const struct fixture *f = *state;
	static const struct made_elf made = { .symtab = symbols };
	char *path = tree_path(f->dir, "libwork.so.6"), *new = tree_path(f->dir, "new");
	struct event_list a, b;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		a = parse(f, table[i].a);
		b = parse(f, table[i].b);
		if (event_equal(&a.events[0], &b.events[0]) != table[i].equal)
			fail_msg("%s, %s", table[i].a, table[i].b);
		event_list_release(&a);
		event_list_release(&b);
	}

	/* An upgrade: the same text and offset, in another file of that name. */
	a = parse(f, "uprobe:DIR/libwork.so.6:work");
	made_elf_write(new, &made);
	assert_int_equal(rename(new, path), 0);
	b = parse(f, "uprobe:DIR/libwork.so.6:work");
	assert_false(event_equal(&a.events[0], &b.events[0]));
	event_list_release(&a);
	event_list_release(&b);
	free(path);
	free(new);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_encodings, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_absent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_filters, set_up, tear_down),
		cmocka_unit_test(test_splitting),
		cmocka_unit_test_setup_teardown(test_equal, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("probes", tests, NULL, NULL);
}
