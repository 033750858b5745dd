/* SPDX-License-Identifier: MIT */

/* Functions of the kernel, by the list of /proc or a saved one; modules and BPF programs that come and go. */

#include "base/elf/kallsyms.h"
#include "base/util/buf.h"
#include "profiler/naming/kernel-functions.h"
#include "setup/scratch.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HIDDEN "0000000000000000 T _stext\n0000000000000000 t first\n"

static const char all[] = "0000000000000000 A fixed_percpu_data\n"
			  "ffffffffc0000000 t of_module\t[module]\n"
			  "ffffffff81000000 T _stext\n"
			  "ffffffff81000100 t first\n"
			  "ffffffff81000100 t alias\n"
			  "not a line\n"
			  "ffffffff81000200 D data\n"
			  "ffffffff81000300 W last\n"
			  "ffffffffc0001fff t end\t[module]\n"
			  "ffffffffc0100000 t of_other\t[other]\n";

/* Of this program, which ends soon. */
static int world_epoll(void)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void wait_for_list(struct kernel_functions *functions)
{
	struct pollfd wait = { .fd = list_maker_fd(functions->maker), .events = POLLIN };

	while (list_maker_is_busy(functions->maker)) {
		assert_int_equal(poll(&wait, 1, 60000), 1);
		kernel_functions_turn(functions);
	}
}

static void read_list(struct kernel_functions *functions, const char *procfs, const char *saved)
{
	kernel_functions_read(functions, procfs, saved);
	assert_true(list_maker_is_busy(functions->maker));
	wait_for_list(functions);
}

/* The list, if another one is read. */
static void follow_list(struct kernel_functions *functions, const char *procfs, const char *saved)
{
	kernel_functions_follow(functions, procfs, saved);
	if (list_maker_is_busy(functions->maker))
		wait_for_list(functions);
}

/* name NULL: there is none. */
static void check_function(struct kernel_functions *functions, uint64_t address, const char *name, uint64_t start,
			   uint64_t end)
{
	const struct kernel_function *found;

	assert_int_equal(kernel_functions_find(functions, address, &found) == NAMING_NAMED, name != NULL);
	if (!name) {
		assert_null(found);
		return;
	}
	assert_non_null(found);
	assert_string_equal(found->name, name);
	assert_int_equal(found->start, start);
	assert_int_equal(found->end, end);
}

static void test_list(void **state)
{
	struct kernel_functions functions;
	struct scratch scratch;

	(void)state;
	assert_int_equal(kernel_functions_init(&functions, world_epoll()), 0);
	scratch_make(&scratch);
	scratch_text(&scratch, "kallsyms", all);
	read_list(&functions, scratch.path, NULL);
	assert_int_equal(functions.unnamed, NAMING_NO_SYMBOL);
	check_function(&functions, 0, NULL, 0, 0);
	check_function(&functions, 0xffffffff80000000, NULL, 0, 0);
	check_function(&functions, 0xffffffff81000100, "first", 0xffffffff81000100, 0xffffffff81000200);
	check_function(&functions, 0xffffffff810001ff, "first", 0xffffffff81000100, 0xffffffff81000200);
	check_function(&functions, 0xffffffff81000210, NULL, 0, 0);
	/* The last ones of the kernel and of a module end with their second page. */
	check_function(&functions, 0xffffffff81001fff, "last", 0xffffffff81000300, 0xffffffff81002000);
	check_function(&functions, 0xffffffff81002000, NULL, 0, 0);
	check_function(&functions, 0xffffffffc0001ffe, "of_module", 0xffffffffc0000000, 0xffffffffc0001fff);
	check_function(&functions, 0xffffffffc0002fff, "end", 0xffffffffc0001fff, 0xffffffffc0003000);
	check_function(&functions, 0xffffffffc0003000, NULL, 0, 0);
	check_function(&functions, 0xffffffffc0101fff, "of_other", 0xffffffffc0100000, 0xffffffffc0102000);
	check_function(&functions, UINT64_MAX, NULL, 0, 0);
	kernel_functions_release(&functions);
	scratch_remove(&scratch);
}

/* A list with more functions, by their names of random letters, than there is room for. */
static void write_too_much(struct scratch *scratch)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$";
	_cleanup_(buf_release) struct buf text = {};
	uint64_t chance = 1;

	for (unsigned i = 0; i < 50000; i++) {
		buf_printf(&text, "%llx T ", 0xffffffff81000000ULL + 16 * i);
		for (unsigned j = 0; j < 400; j++) {
			chance = chance * 6364136223846793005 + 1442695040888963407;
			buf_char(&text, letters[chance >> 58]);
		}
		buf_char(&text, '\n');
	}
	buf_char(&text, '\0');
	assert_false(text.failed);
	scratch_text(scratch, "kallsyms", text.data);
}

/* Reading fails: what was known stays, and it is tried again later. */
static void test_failure(void **state)
{
	struct kernel_functions functions;
	struct scratch scratch;

	(void)state;
	assert_int_equal(kernel_functions_init(&functions, world_epoll()), 0);
	scratch_make(&scratch);
	scratch_text(&scratch, "kallsyms", all);
	read_list(&functions, scratch.path, NULL);
	write_too_much(&scratch);
	read_list(&functions, scratch.path, NULL);
	check_function(&functions, 0xffffffff81000100, "first", 0xffffffff81000100, 0xffffffff81000200);
	assert_int_equal(functions.unnamed, NAMING_NO_SYMBOL);
	kernel_functions_follow(&functions, scratch.path, NULL);
	assert_false(list_maker_is_busy(functions.maker));
	functions.again_at = 1;
	scratch_text(&scratch, "kallsyms", all);
	kernel_functions_follow(&functions, scratch.path, NULL);
	assert_true(list_maker_is_busy(functions.maker));
	wait_for_list(&functions);
	assert_int_equal(functions.failures, 0);
	kernel_functions_release(&functions);
	/* Without a list before, there is none, and the reason. */
	assert_int_equal(kernel_functions_init(&functions, world_epoll()), 0);
	write_too_much(&scratch);
	read_list(&functions, scratch.path, NULL);
	check_function(&functions, 0xffffffff81000100, NULL, 0, 0);
	assert_int_equal(functions.unnamed, NAMING_FAILED);
	kernel_functions_release(&functions);
	scratch_remove(&scratch);
}

/* A child has it too: the one for an answer looks up what has waited. */
static void test_child(void **state)
{
	struct kernel_functions functions;
	struct scratch scratch;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(kernel_functions_init(&functions, world_epoll()), 0);
	scratch_make(&scratch);
	scratch_text(&scratch, "kallsyms", all);
	read_list(&functions, scratch.path, NULL);
	pid = fork();
	if (pid == 0) {
		const struct kernel_function *found;

		(void)kernel_functions_find(&functions, 0xffffffff81000100, &found);
		_exit(found && strcmp(found->name, "first") == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	kernel_functions_release(&functions);
	scratch_remove(&scratch);
}

/* More than a block, names as long as they may be, and distances that need more than 32 bits. */
static void test_blocks(void **state)
{
	struct kernel_functions functions;
	const struct kernel_function *found;
	_cleanup_(buf_release) struct buf text = {};
	char longest[KALLSYMS_NAME_MAX];
	struct scratch scratch;

	(void)state;
	assert_int_equal(kernel_functions_init(&functions, world_epoll()), 0);
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	scratch_make(&scratch);
	for (unsigned i = 0; i < 9000; i++)
		buf_printf(&text, "%016x t function_%u\n", 0x1000 + i * 0x10, i);
	buf_printf(&text, "8000000000000000 t %s\n", longest);
	buf_printf(&text, "8000000000000010 t %sx\n", longest);
	for (unsigned i = 0; i < 300; i++)
		buf_printf(&text, "9000000000%06x t %.500s_%u\n", i * 0x10, longest, i);
	buf_add(&text, "", 1);
	scratch_text(&scratch, "kallsyms", text.data);
	read_list(&functions, scratch.path, NULL);
	for (unsigned i = 0; i < 9000; i += 7) {
		char expected[64];
		uint64_t start = 0x1000 + i * 0x10;

		(void)snprintf(expected, sizeof(expected), "function_%u", i);
		check_function(&functions, start + i % 16, expected, start,
			       i + 1 < 9000 ? start + 0x10 : 0x8000000000000000);
	}
	check_function(&functions, 0x8000000000000000, longest, 0x8000000000000000, 0x9000000000000000);
	assert_int_equal(kernel_functions_find(&functions, 0x9000000000001000, &found), NAMING_NAMED);
	assert_int_equal(strlen(found->name), 504);
	kernel_functions_release(&functions);
	scratch_remove(&scratch);
}

/* In `first`. */
static void check_unnamed(struct scratch *scratch, const char *saved, enum naming expected)
{
	_cleanup_(freep) char *path = strdup(scratch_path(scratch, "saved"));
	struct kernel_functions functions;
	const struct kernel_function *found;

	assert_int_equal(kernel_functions_init(&functions, world_epoll()), 0);
	read_list(&functions, scratch->path, saved ? path : NULL);
	assert_string_equal(naming_text(functions.unnamed), naming_text(expected));
	assert_int_equal(kernel_functions_find(&functions, 0xffffffff81000110, &found),
			 expected == NAMING_NO_SYMBOL ? NAMING_NAMED : expected);
	kernel_functions_release(&functions);
}

static void test_hidden(void **state)
{
	struct scratch scratch;

	(void)state;
	scratch_make(&scratch);
	check_unnamed(&scratch, "saved", NAMING_NO_KALLSYMS);
	scratch_text(&scratch, "kallsyms", HIDDEN);
	check_unnamed(&scratch, "saved", NAMING_KERNEL);
	check_unnamed(&scratch, NULL, NAMING_KERNEL);
	scratch_text(&scratch, "saved", all);
	check_unnamed(&scratch, "saved", NAMING_NO_SYMBOL);
	scratch_text(&scratch, "kallsyms", all);
	check_unnamed(&scratch, NULL, NAMING_NO_SYMBOL);
	scratch_remove(&scratch);
	scratch_make(&scratch);
	scratch_text(&scratch, "saved", all);
	check_unnamed(&scratch, "saved", NAMING_NO_SYMBOL);
	scratch_text(&scratch, "saved", HIDDEN);
	check_unnamed(&scratch, "saved", NAMING_KERNEL);
	scratch_remove(&scratch);
}

static void test_modules(void **state)
{
	struct kernel_functions functions;
	struct scratch scratch;

	(void)state;
	assert_int_equal(kernel_functions_init(&functions, world_epoll()), 0);
	scratch_make(&scratch);
	scratch_text(&scratch, "kallsyms", all);
	scratch_text(&scratch, "modules",
		     "other 4096 0 - Live 0xffffffffc0100000 (OE)\n"
		     "module 8192 2 other, Live 0xffffffffc0000000\n");
	read_list(&functions, scratch.path, NULL);
	check_function(&functions, 0xffffffffc0100000, "of_other", 0xffffffffc0100000, 0xffffffffc0102000);
	/* More users are no other module. */
	scratch_text(&scratch, "kallsyms", "ffffffffc0100000 t of_next\t[next]\n");
	scratch_text(&scratch, "modules",
		     "other 4096 1 x, Live 0xffffffffc0100000 (OE)\n"
		     "module 8192 0 - Live 0xffffffffc0000000\n");
	follow_list(&functions, scratch.path, NULL);
	check_function(&functions, 0xffffffffc0100000, "of_other", 0xffffffffc0100000, 0xffffffffc0102000);
	scratch_text(&scratch, "modules", "next 4096 0 - Live 0xffffffffc0100000\n");
	follow_list(&functions, scratch.path, NULL);
	check_function(&functions, 0xffffffffc0100000, "of_next", 0xffffffffc0100000, 0xffffffffc0102000);
	kernel_functions_release(&functions);
	scratch_remove(&scratch);
}

static void test_loaded_code(void **state)
{
	struct kernel_functions functions;
	struct scratch scratch;

	(void)state;
	assert_int_equal(kernel_functions_init(&functions, world_epoll()), 0);
	scratch_make(&scratch);
	scratch_text(&scratch, "kallsyms", "0000000000000001 t low\n0000000000000030 t high\n");
	read_list(&functions, scratch.path, NULL);
	check_function(&functions, 5, "low", 1, 48);
	kernel_functions_put(&functions, 100, 200, "b");
	kernel_functions_put(&functions, 50, 100, "a");
	kernel_functions_put(&functions, 300, 250, "backwards");
	check_function(&functions, 99, "a", 50, 100);
	check_function(&functions, 100, "b", 100, 200);
	/* Code takes the place of all that it overlaps. */
	kernel_functions_put(&functions, 90, 110, "c");
	assert_int_equal(functions.nr, 2);
	kernel_functions_remove(&functions, 0, 91);
	assert_int_equal(functions.nr, 0);
	check_function(&functions, 99, "high", 48, 8192);
	/* Too much code: the list is read again. */
	for (uint64_t i = 0; i < 3 * KERNEL_FUNCTIONS_MAX; i++)
		kernel_functions_put(&functions, 10000 + i * 10, 10000 + i * 10 + 5, "many");
	assert_true(functions.nr <= KERNEL_FUNCTIONS_MAX && functions.nr > 0);
	scratch_text(&scratch, "kallsyms", "0000000000000001 t new\n");
	follow_list(&functions, scratch.path, NULL);
	check_function(&functions, 5, "new", 1, 8192);
	kernel_functions_release(&functions);
	scratch_remove(&scratch);
}

/* The list is read by this program, executed anew. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),	    cmocka_unit_test(test_failure), cmocka_unit_test(test_child),
		cmocka_unit_test(test_blocks),	    cmocka_unit_test(test_hidden),  cmocka_unit_test(test_modules),
		cmocka_unit_test(test_loaded_code),
	};

	if (argc == 2 && strcmp(argv[1], "--list-functions") == 0)
		list_child_run();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
