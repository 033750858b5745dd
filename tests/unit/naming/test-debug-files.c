/* SPDX-License-Identifier: MIT */

/* Names from outside of .symtab: files of debug symbols, compressed symbols, and no names but the bounds of functions
 * in a stripped file; all made of this program by binutils. */

#include "base/elf/xz.h"
#include "profiler/naming/debug-paths.h"
#include "setup/own-file.h"
#include "setup/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

__attribute__((noinline, used)) static int function_of_debug_files(int n)
{
	volatile int sum = 0;

	for (int i = 0; i < n; i++)
		sum += i;
	return sum;
}

/* A folder with this program, as "full", "stripped", and its symbols, as "symbols". */
struct world {
	struct scratch scratch;
	struct own_file own;
	struct list_maker *maker;
	uint64_t at;
};

/* A shell's commands in the folder. */
_printf_(2, 3) static void run(const struct world *world, const char *format, ...)
{
	char command[2048];
	va_list args;
	int n = snprintf(command, sizeof(command), "cd %s && ", world->scratch.path);

	va_start(args, format);
	n += vsnprintf(command + n, sizeof(command) - (size_t)n, format, args);
	va_end(args);
	assert_true(n < (int)sizeof(command));
	if (system(command) != 0)
		fail_msg("%s", command);
}

static void set_up(struct world *world)
{
	char debug[128];
	struct list_roots roots = { .proc = "/proc", .debug = debug };

	*world = (struct world){ .at = own_file_offset(function_of_debug_files) };
	assert_int_equal(function_of_debug_files(3), 3);
	own_file_open(&world->own);
	scratch_make(&world->scratch);
	(void)snprintf(debug, sizeof(debug), "%s/debug", world->scratch.path);
	assert_int_equal(list_maker_new(&world->maker, &roots), 0);
	run(world, "cp '%s' full && strip -o stripped full && objcopy --only-keep-debug full symbols", world->own.path);
}

static void tear_down(struct world *world)
{
	list_maker_free(world->maker);
	own_file_close(&world->own);
	scratch_remove(&world->scratch);
}

/* By the child. */
static enum naming ask(struct world *world, const char *file, uint32_t user, struct function *ret)
{
	uint64_t place = world->at + 1;
	const struct list_question question = {
		.path = scratch_path(&world->scratch, file),
		.key = &world->own.key,
		.user = { .pid = user, .start = 0x1000, .end = 0x2000 },
		.places = &place,
		.nr = 1,
		.max = 8 << 20,
	};
	struct function_list *list;
	enum naming naming;

	assert_int_equal(list_maker_start(world->maker, &question), 0);
	list = list_maker_wait(world->maker);
	naming = list_find(list, place, ret);
	function_list_free(list);
	return naming;
}

static void check_named(struct world *world, const char *file)
{
	struct function answer;

	assert_string_equal(naming_text(ask(world, file, 0, &answer)), naming_text(NAMING_NAMED));
	assert_string_equal(answer.name, "function_of_debug_files");
	assert_int_equal(answer.start, world->at);
	assert_true(answer.end > world->at + 1);
}

static void check_nameless(struct world *world, const char *file, enum naming naming)
{
	struct function answer;

	assert_string_equal(naming_text(ask(world, file, 0, &answer)), naming_text(naming));
	assert_null(answer.name);
	/* The function is known all the same. */
	assert_int_equal(answer.start, world->at);
	assert_true(answer.end > world->at + 1);
}

static void test_stripped(void **state)
{
	struct world world;

	(void)state;
	set_up(&world);
	check_named(&world, "full");
	check_nameless(&world, "stripped", NAMING_STRIPPED);
	tear_down(&world);
}

static void test_by_build_id(void **state)
{
	char path[PATH_MAX];
	struct world world;

	(void)state;
	set_up(&world);
	debug_path_by_build_id(path, "debug", &world.own.key);
	run(&world, "mkdir -p $(dirname %s) && cp symbols %s", path, path);
	check_named(&world, "stripped");
	/* Another program's is there by mistake. */
	run(&world, "cp /bin/true %s", path);
	check_nameless(&world, "stripped", NAMING_STRIPPED);
	run(&world, "cp symbols %s && objcopy --remove-section=.note.gnu.build-id %s", path, path);
	check_nameless(&world, "stripped", NAMING_STRIPPED);
	/* It is no ELF, or cut short. */
	run(&world, "echo text >%s", path);
	check_nameless(&world, "stripped", NAMING_STRIPPED);
	run(&world, "head -c 2000 symbols >%s", path);
	check_nameless(&world, "stripped", NAMING_STRIPPED);
	tear_down(&world);
}

static void test_by_link(void **state)
{
	struct world world;

	(void)state;
	set_up(&world);
	run(&world, "mkdir bin bin/.debug && cp symbols bin/its.debug && cd bin && "
		    "objcopy --add-gnu-debuglink=its.debug ../stripped linked");
	check_named(&world, "bin/linked");
	run(&world, "mv bin/its.debug bin/.debug");
	check_named(&world, "bin/linked");
	run(&world, "mkdir -p debug/%s/bin && mv bin/.debug/its.debug debug/%s/bin", world.scratch.path,
	    world.scratch.path);
	check_named(&world, "bin/linked");
	/* Its CRC is another. */
	run(&world, "echo >>debug/%s/bin/its.debug", world.scratch.path);
	check_nameless(&world, "bin/linked", NAMING_STRIPPED);
	run(&world, "rm -r debug");
	check_nameless(&world, "bin/linked", NAMING_STRIPPED);
	tear_down(&world);
}

/* As Fedora's programs have it. */
static void test_compressed(void **state)
{
	struct world world;

	(void)state;
	set_up(&world);
	run(&world, "strip -g -o small symbols && xz small && "
		    "objcopy --add-section .gnu_debugdata=small.xz stripped compressed");
	if (xz_is_built_in())
		check_named(&world, "compressed");
	else
		check_nameless(&world, "compressed", NAMING_COMPRESSED);
	run(&world, "head -c -100 small.xz >broken && "
		    "objcopy --add-section .gnu_debugdata=broken stripped half && "
		    "objcopy --add-section .gnu_debugdata=/bin/true stripped none");
	check_nameless(&world, "half", NAMING_COMPRESSED);
	check_nameless(&world, "none", NAMING_COMPRESSED);
	tear_down(&world);
}

/* A few KiB can become any number of them. */
static void test_too_much(void **state)
{
	struct world world;

	(void)state;
	set_up(&world);
	run(&world,
	    "head -c 100M /dev/zero | xz -0 >bomb && objcopy --add-section .gnu_debugdata=bomb stripped bombed");
	check_nameless(&world, "bombed", NAMING_COMPRESSED);
	tear_down(&world);
}

/* At its path there is another file, and the process that has it mapped sees it there. */
static void test_other_root(void **state)
{
	struct function answer;
	struct world world;

	(void)state;
	set_up(&world);
	for (uint32_t user = 0; user < 2; user++) {
		char proc[256];

		/* A folder in the place of /proc, which shows the program elsewhere to process 7. */
		(void)snprintf(proc, sizeof(proc), "%s/proc", world.scratch.path);
		run(&world, "mkdir -p proc/7/root%s && cp full proc/7/root%s/program && cp /bin/true program",
		    world.scratch.path, world.scratch.path);
		list_maker_free(world.maker);
		assert_int_equal(
			list_maker_new(&world.maker, &(struct list_roots){ .proc = proc, .debug = "/nowhere" }), 0);
		assert_int_equal(ask(&world, "program", user ? 7 : 0, &answer),
				 user ? NAMING_NAMED : NAMING_OTHER_FILE);
	}
	tear_down(&world);
}

/* Its path has another file, or none; the process that has it mapped, or executes it, lives. */
static void test_replaced(void **state)
{
	static const char *const links[] = { "exe", "map_files/1000-2000" };
	struct function answer;
	struct world world;

	(void)state;
	set_up(&world);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(links); i++) {
		char proc[256];
		const char *link = links[i / 2];

		(void)snprintf(proc, sizeof(proc), "%s/proc", world.scratch.path);
		run(&world,
		    "rm -rf proc program && mkdir -p proc/7/map_files proc/7/root && %s && ln -s ../../%sfull "
		    "proc/7/%s",
		    i % 2 ? "cp /bin/true program" : "true", strchr(link, '/') ? "../" : "", link);
		list_maker_free(world.maker);
		assert_int_equal(
			list_maker_new(&world.maker, &(struct list_roots){ .proc = proc, .debug = "/nowhere" }), 0);
		assert_int_equal(ask(&world, "program", 7, &answer), NAMING_NAMED);
		/* The process is another program. */
		run(&world, "ln -sf /bin/true proc/7/%s", link);
		assert_int_equal(ask(&world, "program", 7, &answer), i % 2 ? NAMING_OTHER_FILE : NAMING_NO_FILE);
	}
	tear_down(&world);
}

/* The kernel's own code in each process. */
static void test_vdso(void **state)
{
	const struct module_key none = {};
	const struct list_question question = { .path = MODULE_VDSO, .key = &none, .max = 8 << 20 };
	struct function_list *list;
	struct function answer;
	struct world world;
	bool found = false;

	(void)state;
	set_up(&world);
	assert_int_equal(list_maker_start(world.maker, &question), 0);
	list = list_maker_wait(world.maker);
	for (uint64_t place = 0; place < 8192; place += 16)
		found |= list_find(list, place, &answer) == NAMING_NAMED && strstr(answer.name, "clock_gettime");
	assert_true(found);
	function_list_free(list);
	tear_down(&world);
}

static void test_paths(void **state)
{
	const struct module_key key = { .build_id = { 0xab, 0xcd, 0x01 }, .build_id_size = 3 }, none = {};
	char path[PATH_MAX], paths[DEBUG_LINK_PATHS][PATH_MAX], program[PATH_MAX + 10];

	(void)state;
	debug_path_by_build_id(path, "/debug", &key);
	assert_string_equal(path, "/debug/.build-id/ab/cd01.debug");
	debug_path_by_build_id(path, "/debug", &none);
	assert_string_equal(path, "");
	debug_paths_by_link(paths, "/debug", "/usr/bin/program", "its.debug");
	assert_string_equal(paths[0], "/usr/bin/its.debug");
	assert_string_equal(paths[1], "/usr/bin/.debug/its.debug");
	assert_string_equal(paths[2], "/debug/usr/bin/its.debug");
	/* Names that would lead elsewhere. */
	for (size_t i = 0; i < 4; i++) {
		debug_paths_by_link(paths, "/debug", "/program", ((const char *[]){ "", ".", "..", "../passwd" })[i]);
		assert_string_equal(paths[0], "");
	}
	memset(program, 'a', sizeof(program));
	program[0] = '/';
	program[PATH_MAX - 5] = '/';
	program[sizeof(program) - 1] = '\0';
	debug_paths_by_link(paths, "/debug", program, "its.debug");
	assert_string_equal(paths[0], "");
	assert_string_equal(paths[2], "");
}

static void test_xz(void **state)
{
	/* printf hello | xz */
	static const unsigned char hello[] = {
		0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01,
		0x16, 0x00, 0x00, 0x00, 0x74, 0x2f, 0xe5, 0xa3, 0x01, 0x00, 0x04, 0x68, 0x65, 0x6c, 0x6c, 0x6f,
		0x00, 0x00, 0x00, 0x00, 0xb1, 0x37, 0xb9, 0xdb, 0xe5, 0xda, 0x1e, 0x9b, 0x00, 0x01, 0x1d, 0x05,
		0xb8, 0x2d, 0x80, 0xaf, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
	};
	unsigned char *memory =
		mmap(NULL, XZ_MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned char out[16];
	size_t all = xz_is_built_in() ? 5 : 0;

	(void)state;
	assert_true(memory != MAP_FAILED);
	assert_int_equal(xz_decompress(out, sizeof(out), hello, sizeof(hello), memory), all);
	assert_memory_equal(out, "hello", all);
	assert_int_equal(xz_decompress(out, 4, hello, sizeof(hello), memory), 0);
	for (size_t size = 0; size < sizeof(hello); size++)
		assert_int_equal(xz_decompress(out, sizeof(out), hello, size, memory), 0);
	munmap(memory, XZ_MEMORY);
}

/* A maker executes this program anew. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stripped), cmocka_unit_test(test_by_build_id),
		cmocka_unit_test(test_by_link),	 cmocka_unit_test(test_compressed),
		cmocka_unit_test(test_too_much), cmocka_unit_test(test_other_root),
		cmocka_unit_test(test_vdso),	 cmocka_unit_test(test_replaced),
		cmocka_unit_test(test_paths),	 cmocka_unit_test(test_xz),
	};

	if (argc == 2 && strcmp(argv[1], "--list-functions") == 0)
		list_child_run();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
