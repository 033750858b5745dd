/* SPDX-License-Identifier: MIT */

/* Functions of code that processes make: which files count, how they are followed, and what is forgotten. */

#include "base/util/buf.h"
#include "base/util/clock.h"
#include "base/util/file.h"
#include "profiler/naming/jit-functions.h"
#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PATIENCE_NS (60 * (uint64_t)NS_PER_S)

/* Its folder is a /proc. */
struct world {
	struct scratch scratch;
	struct jit_functions *functions;
	struct processes *processes;
	uint64_t lives;
	uint64_t started; /* ticks */
};

/* This process's. */
static uint64_t read_started(void)
{
	_cleanup_(freep) char *text = NULL;
	char *at;

	assert_int_equal(read_text_file(AT_FDCWD, "/proc/self/stat", FILE_MAX_SYSFS, &text), 0);
	at = strrchr(text, ')');
	for (int field = 2; field < 22; field++)
		at = strchr(at + 1, ' ');
	return strtoull(at, NULL, 10);
}

static int set_up(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	scratch_make(&world->scratch);
	assert_int_equal(jit_functions_new(&world->functions, world->scratch.path), 0);
	assert_int_equal(processes_new(&world->processes, world->scratch.path, NULL, 0), 0);
	world->started = read_started();
	*state = world;
	return 0;
}

static int tear_down(void **state)
{
	struct world *world = *state;

	jit_functions_free(world->functions);
	processes_free(world->processes);
	scratch_remove(&world->scratch);
	free(world);
	return 0;
}

/* The path of a file in the process's tree, below the scratch folder. */
static const char *inside(uint32_t pid, const char *path)
{
	static char text[PATH_MAX];

	(void)snprintf(text, sizeof(text), "%" PRIu32 "/root/%s", pid, path);
	return text;
}

/* A process that runs; inner: its pid as it sees it. Its command makes its files hard to read. */
static struct process_program make_process(struct world *world, uint32_t pid, const char *inner)
{
	char name[32], text[512];

	(void)snprintf(name, sizeof(name), "%" PRIu32 "/stat", pid);
	(void)snprintf(text, sizeof(text),
		       "%" PRIu32 " (a) b) 1 2) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %" PRIu64 " 0 0\n", pid,
		       world->started);
	scratch_text(&world->scratch, name, text);
	(void)snprintf(name, sizeof(name), "%" PRIu32 "/status", pid);
	(void)snprintf(text, sizeof(text),
		       "Name:\ta) b) 1 2\nPid:\t%" PRIu32 "\nUid:\t1\t2\t3\t%u\nNSpid:\t%" PRIu32 "%s%s\n", pid,
		       (unsigned)geteuid(), pid, inner ? "\t" : "", inner ? inner : "");
	scratch_text(&world->scratch, name, text);
	scratch_mkdir(&world->scratch, inside(pid, "tmp"));
	return (struct process_program){ .pid = pid, .life = ++world->lives };
}

static void write_map(struct world *world, uint32_t pid, const char *text)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "tmp/perf-%" PRIu32 ".map", pid);
	scratch_text(&world->scratch, inside(pid, name), text);
}

static struct jit_place place_of(struct world *world, const struct process_program *program, uint64_t address)
{
	struct jit_place place;

	assert_true(jit_functions_place(world->functions, program, address, &place));
	return place;
}

/* Until children have looked so often in all. */
static void wait_for_looks(struct world *world, uint64_t looks)
{
	uint64_t end = clock_monotonic_ns() + PATIENCE_NS;

	while (jit_functions_stats(world->functions).looks < looks) {
		struct pollfd ended = { .fd = jit_functions_fd(world->functions), .events = POLLIN };

		assert_true(clock_monotonic_ns() < end);
		(void)jit_functions_turn(world->functions, world->processes);
		(void)poll(&ended, 1, 20);
	}
}

static enum naming naming_of(struct world *world, const struct module_key *key, uint64_t address, bool is_new,
			     const char *name)
{
	const char *found = NULL;
	enum naming naming = jit_functions_name(world->functions, key, address, is_new, &found);

	assert_int_equal(naming == NAMING_NAMED, found != NULL);
	if (name) {
		assert_int_equal(naming, NAMING_NAMED);
		assert_string_equal(found, name);
	}
	return naming;
}

/* Why a process's code has no names, from its first look on. */
static enum naming look_once(struct world *world, const struct process_program *program)
{
	const struct module_key key = *place_of(world, program, 0x1000).key;

	assert_int_equal(naming_of(world, &key, 0x1000, true, NULL), NAMING_ASKED);
	wait_for_looks(world, jit_functions_stats(world->functions).looks + 1);
	return naming_of(world, &key, 0x1000, false, NULL);
}

static void test_names(void **state)
{
	struct world *world = *state;
	const struct process_program program = make_process(world, 41, NULL), other = make_process(world, 42, "1");
	const struct module_key *named;
	struct module_key first;
	struct jit_place place;

	write_map(world, 41, "1000 10 one\n2000 10 two\n");
	write_map(world, 42, "");
	scratch_text(&world->scratch, inside(42, "tmp/perf-1.map"), "5000 10 two\n");
	place = place_of(world, &program, 0x1004);
	first = *place.key;
	assert_null(place.name);
	assert_int_equal(place.offset, 0x1004);
	assert_memory_not_equal(place_of(world, &other, 0x1004).key, &first, sizeof(first));
	assert_int_equal(naming_of(world, &first, 0x1004, true, NULL), NAMING_ASKED);
	wait_for_looks(world, 2);
	assert_int_equal(jit_functions_stats(world->functions).lists_made, 2);
	/* A place that was sampled before the list. */
	naming_of(world, &first, 0x1004, false, "one");
	/* Another is, but its name may be written by now. */
	assert_int_equal(naming_of(world, &first, 0x3000, true, NULL), NAMING_ASKED);
	assert_int_equal(naming_of(world, &first, 0x3000, false, NULL), NAMING_ASKED);
	/* Those sampled later have their names at once, and are the same place wherever the function is. */
	place = place_of(world, &program, 0x2004);
	assert_string_equal(place.name, "two");
	named = place.key;
	assert_int_equal(place_of(world, &program, 0x200f).offset, place.offset);
	assert_int_equal(place_of(world, &other, 0x5000).offset, place.offset);
	assert_ptr_equal(place_of(world, &other, 0x5000).key, named);
	assert_int_not_equal(place_of(world, &program, 0x1000).offset, place.offset);
	/* What is in no list is of the process, and is not what it was before the list. */
	place = place_of(world, &program, 0x3000);
	assert_null(place.name);
	assert_memory_not_equal(place.key, &first, sizeof(first));
	/* A child that answers a question does not have the lists, but what was found is known. */
	jit_functions_forget_lists(world->functions);
	assert_string_equal(place_of(world, &program, 0x2004).name, "two");
	assert_null(place_of(world, &other, 0x4fff).name);
}

/* Code is moved, and other code is where it was: each sample has the name of its time. */
static void test_a_file_that_grows(void **state)
{
	struct world *world = *state;
	const struct process_program program = make_process(world, 41, NULL);
	struct module_key key;

	write_map(world, 41, "1000 10 one\n");
	assert_int_equal(look_once(world, &program), NAMING_NAMED);
	key = *place_of(world, &program, 0x2000).key;
	write_map(world, 41, "1000 10 one\n2000 10 one\n1000 10 two\n");
	/* It waits, since it may be in the file by now, however often it is asked for. */
	assert_int_equal(naming_of(world, &key, 0x2000, true, NULL), NAMING_ASKED);
	assert_int_equal(naming_of(world, &key, 0x2000, false, NULL), NAMING_ASKED);
	wait_for_looks(world, 2);
	naming_of(world, &key, 0x2000, false, "one");
	assert_string_equal(place_of(world, &program, 0x1000).name, "two");
	assert_string_equal(place_of(world, &program, 0x2000).name, "one");
	/* Nothing has changed: no list is made, and what is in none has no name. */
	key = *place_of(world, &program, 0x3000).key;
	assert_int_equal(naming_of(world, &key, 0x3000, true, NULL), NAMING_ASKED);
	wait_for_looks(world, 3);
	assert_int_equal(jit_functions_stats(world->functions).lists_made, 2);
	assert_int_equal(naming_of(world, &key, 0x3000, false, NULL), NAMING_NO_SYMBOL);
	assert_memory_equal(place_of(world, &program, 0x3000).key, &key, sizeof(key));
	/* It is written anew, as the JDK does it. */
	write_map(world, 41, "3000 10 three\n");
	(void)place_of(world, &program, 0x3000);
	wait_for_looks(world, 4);
	assert_null(place_of(world, &program, 0x1000).name);
	assert_string_equal(place_of(world, &program, 0x3000).name, "three");
	/* It is gone: what is there later is not known. */
	assert_int_equal(unlink(scratch_path(&world->scratch, inside(41, "tmp/perf-41.map"))), 0);
	wait_for_looks(world, 5);
	assert_null(place_of(world, &program, 0x3000).name);
}

static void test_a_process_that_has_ended(void **state)
{
	struct world *world = *state;
	const struct process_program program = make_process(world, 41, NULL), again = { .pid = 41, .life = 2 };

	write_map(world, 41, "1000 10 one\n");
	assert_int_equal(look_once(world, &program), NAMING_NAMED);
	assert_string_equal(place_of(world, &program, 0x1000).name, "one");
	/* The file is as long as before, and the program that the process runs now has not written it. */
	assert_null(place_of(world, &again, 0x1000).name);
	assert_int_equal(rename(scratch_path(&world->scratch, "41"), scratch_path(&world->scratch, "gone")), 0);
	assert_int_equal(look_once(world, &again), NAMING_NO_MAP);
	wait_for_looks(world, 3);
	assert_string_equal(place_of(world, &program, 0x1000).name, "one");
}

/* --- which files count */

static void set_time(struct world *world, uint32_t pid, int64_t seconds_ago)
{
	const struct timespec time = timespec_of_ns(clock_realtime_ns() - (uint64_t)seconds_ago * NS_PER_S);
	const struct timespec both[] = { time, time };
	char name[64];

	(void)snprintf(name, sizeof(name), "tmp/perf-%" PRIu32 ".map", pid);
	assert_int_equal(utimensat(AT_FDCWD, scratch_path(&world->scratch, inside(pid, name)), both, 0), 0);
}

static void test_files_that_do_not_count(void **state)
{
	static const char text[] = "1000 10 one\n";
	struct world *world = *state;
	struct process_program program = make_process(world, 1, NULL);
	const char *path;

	/* None. */
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	/* A link, also where it leads to a good file; and one on the way there. */
	program = make_process(world, 2, NULL);
	scratch_text(&world->scratch, inside(2, "tmp/other"), text);
	assert_int_equal(symlink("other", scratch_path(&world->scratch, inside(2, "tmp/perf-2.map"))), 0);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	program = make_process(world, 3, NULL);
	scratch_text(&world->scratch, inside(3, "other/perf-3.map"), text);
	scratch_rmdir(&world->scratch, inside(3, "tmp"));
	assert_int_equal(symlink("other", scratch_path(&world->scratch, inside(3, "tmp"))), 0);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	/* A pipe, which nobody writes to, and a folder. */
	program = make_process(world, 4, NULL);
	assert_int_equal(mkfifo(scratch_path(&world->scratch, inside(4, "tmp/perf-4.map")), 0644), 0);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	program = make_process(world, 5, NULL);
	scratch_mkdir(&world->scratch, inside(5, "tmp/perf-5.map"));
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	/* An empty one, and one that is too large. */
	program = make_process(world, 6, NULL);
	write_map(world, 6, "");
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	program = make_process(world, 7, NULL);
	write_map(world, 7, text);
	path = scratch_path(&world->scratch, inside(7, "tmp/perf-7.map"));
	assert_int_equal(truncate(path, (off_t)JIT_FILE_MAX + 1), 0);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	/* One that is older than the process, by its pid that of another; or than the program. */
	program = make_process(world, 8, NULL);
	write_map(world, 8, text);
	set_time(world, 8, 1000 * 365 * 24);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	program = make_process(world, 9, NULL);
	program.executed_at = clock_monotonic_ns() + 10 * (uint64_t)NS_PER_S;
	write_map(world, 9, text);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	/* Of the pid as others see it. */
	program = make_process(world, 10, "1");
	write_map(world, 10, text);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	/* All is right. */
	program = make_process(world, 11, NULL);
	program.executed_at = clock_monotonic_ns();
	write_map(world, 11, text);
	assert_int_equal(look_once(world, &program), NAMING_NAMED);
}

static void test_a_file_of_another_user(void **state)
{
	struct world *world = *state;
	struct process_program program = make_process(world, 1, NULL);

	if (geteuid() != 0)
		skip();
	write_map(world, 1, "1000 10 one\n");
	assert_int_equal(chown(scratch_path(&world->scratch, inside(1, "tmp/perf-1.map")), 12345, 0), 0);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
}

/* Code with more names, of random letters, than there is room for. */
static void write_too_much(struct world *world, uint32_t pid)
{
	_cleanup_(buf_release) struct buf text = {};
	uint64_t chance = 1;

	for (unsigned i = 0; i < 40000; i++) {
		buf_printf(&text, "%x 10 ", 0x10000 + 16 * i);
		for (unsigned j = 0; j < 400; j++) {
			chance = chance * 6364136223846793005 + 1442695040888963407;
			buf_char(&text, (char)('0' + (chance >> 58)));
		}
		buf_char(&text, '\n');
	}
	buf_char(&text, '\0');
	assert_false(text.failed);
	write_map(world, pid, text.data);
}

/* A list that can't be made anew is not used for long: there may be other code by now. */
static void test_stale_lists(void **state)
{
	struct world *world = *state;
	const struct process_program program = make_process(world, 41, NULL);
	uint64_t end = clock_monotonic_ns() + PATIENCE_NS;
	struct jit_place place;

	write_map(world, 41, "1000 10 one\n");
	assert_int_equal(look_once(world, &program), NAMING_NAMED);
	assert_string_equal(place_of(world, &program, 0x1000).name, "one");
	write_too_much(world, 41);
	do {
		place = place_of(world, &program, 0x1000);
		wait_for_looks(world, jit_functions_stats(world->functions).looks + (place.name ? 1 : 0));
		assert_true(clock_monotonic_ns() < end);
	} while (place.name);
	assert_int_equal(naming_of(world, place.key, 0x1000, false, NULL), NAMING_FAILED);
}

/* --- jitdumps */

static void add_mapping(struct world *world, uint32_t pid, uint64_t start, const char *path)
{
	const struct record mapping = {
		.type = PERF_RECORD_MMAP2,
		.mapping = { .pid = pid, .tid = pid, .start = start, .size = 0x1000, .file = path },
	};

	processes_take(world->processes, &mapping);
}

/* The process executes a program, which maps the file. */
static void take_mapping(struct world *world, uint32_t pid, const char *path)
{
	const struct record command = {
		.type = PERF_RECORD_COMM,
		.misc = PERF_RECORD_MISC_COMM_EXEC,
		.comm = { .pid = pid, .tid = pid, .name = "jit" },
	};

	processes_take(world->processes, &command);
	add_mapping(world, pid, 0x7000, path);
}

static void write_dump(struct world *world, const char *path, uint32_t pid)
{
	const struct {
		uint32_t magic, version, size, machine, pad, pid;
		uint64_t time, flags;
		uint32_t id, record_size;
		uint64_t record_time;
		uint32_t record_pid, tid;
		uint64_t vma, address, code_size, index;
		char name[8];
	} dump = {
		.magic = 0x4a695444,
		.version = 1,
		.size = 40,
		.pid = pid,
		.record_size = 64,
		.vma = 0x1000,
		.address = 0x1000,
		.code_size = 16,
		.name = "dumped",
	};

	_Static_assert(sizeof(dump) == 104, "a dump has no padding");
	scratch_write(&world->scratch, path, (const char *)&dump, sizeof(dump));
}

static void test_dumps(void **state)
{
	struct world *world = *state;
	struct process_program program;
	struct module_key key;

	/* Numbers that processes.h does not give. */
	world->lives = 1000;
	program = make_process(world, 41, "7");
	/* Not mapped, it is not read. */
	write_dump(world, inside(41, "deep/er/jit-7.dump"), 7);
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	take_mapping(world, 41, "/deep/er/jit-7.dump");
	program = processes_known(world->processes, 41)->program;
	assert_int_equal(look_once(world, &program), NAMING_NAMED);
	assert_string_equal(place_of(world, &program, 0x100f).name, "dumped");
	/* Between dumps of its ancestors, which were mapped before forks. */
	take_mapping(world, 41, "/deep/er/jit-7.dump");
	add_mapping(world, 41, 0x5000, "/deep/er/jit-5.dump");
	add_mapping(world, 41, 0x9000, "/deep/er/jit-9.dump");
	program = processes_known(world->processes, 41)->program;
	assert_int_equal(look_once(world, &program), NAMING_NAMED);
	/* The dump of its parent, by its name, or only by its content. */
	take_mapping(world, 41, "/deep/er/jit-8.dump");
	write_dump(world, inside(41, "deep/er/jit-8.dump"), 7);
	program = processes_known(world->processes, 41)->program;
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	take_mapping(world, 41, "/deep/er/jit-7.dump");
	write_dump(world, inside(41, "deep/er/jit-7.dump"), 8);
	program = processes_known(world->processes, 41)->program;
	assert_int_equal(look_once(world, &program), NAMING_MALFORMED);
	/* With ways out of the tree. */
	write_dump(world, "41/jit-7.dump", 7);
	take_mapping(world, 41, "/../jit-7.dump");
	program = processes_known(world->processes, 41)->program;
	assert_int_equal(look_once(world, &program), NAMING_NO_MAP);
	/* The pid is another program's by now: its file is not this one's. */
	take_mapping(world, 41, "/deep/er/jit-7.dump");
	write_dump(world, inside(41, "deep/er/jit-7.dump"), 7);
	program = processes_known(world->processes, 41)->program;
	program.life = ++world->lives;
	key = *place_of(world, &program, 0x1000).key;
	assert_int_equal(naming_of(world, &key, 0x1000, true, NULL), NAMING_ASKED);
	(void)jit_functions_turn(world->functions, world->processes);
	assert_int_equal(naming_of(world, &key, 0x1000, false, NULL), NAMING_NO_MAP);
}

/* --- bounds */

static void test_many_processes(void **state)
{
	struct world *world = *state;
	struct jit_functions_stats stats;
	struct module_key first = {};

	for (uint32_t i = 1; i <= 2 * JIT_PROCESSES_MAX; i++) {
		const struct process_program program = { .pid = i, .life = i };
		struct jit_place place = place_of(world, &program, 0x1000);

		first = i == 1 ? *place.key : first;
	}
	(void)jit_functions_turn(world->functions, world->processes);
	stats = jit_functions_stats(world->functions);
	assert_int_equal(stats.processes, JIT_PROCESSES_MAX);
	/* It was forgotten, and is another now. */
	assert_int_equal(naming_of(world, &first, 0x1000, true, NULL), NAMING_GENERATED);
	assert_memory_not_equal(place_of(world, &(struct process_program){ .pid = 1, .life = 1 }, 0x1000).key, &first,
				sizeof(first));
	wait_for_looks(world, 1);
	assert_int_equal(naming_of(world, &first, 0x1000, false, NULL), NAMING_GENERATED);
}

/* More functions than are remembered: all have their names all the same, some only when they are asked for. */
static void test_many_functions(void **state)
{
	struct world *world = *state;
	const struct process_program program = make_process(world, 1, NULL);
	_cleanup_(buf_release) struct buf text = {};
	size_t unnamed = 0;

	for (unsigned i = 1; i <= JIT_FOUND_MAX + 100; i++)
		buf_printf(&text, "%x000 10 function_%u\n", i, i);
	buf_char(&text, '\0');
	write_map(world, 1, text.data);
	assert_int_equal(look_once(world, &program), NAMING_NAMED);
	for (unsigned i = 1; i <= JIT_FOUND_MAX + 100; i++) {
		struct jit_place place = place_of(world, &program, i * 0x1000UL);
		char name[32];

		(void)snprintf(name, sizeof(name), "function_%u", i);
		if (place.name)
			assert_string_equal(place.name, name);
		else
			naming_of(world, place.key, place.offset, true, name);
		unnamed += place.name ? 0 : 1;
	}
	assert_int_equal(unnamed, 100);
	(void)jit_functions_turn(world->functions, world->processes);
	assert_string_equal(place_of(world, &program, (JIT_FOUND_MAX + 50) * 0x1000UL).name, "function_8242");
}

/* Lists are made by this program, executed anew. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_file_that_grows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_process_that_has_ended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_files_that_do_not_count, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_file_of_another_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stale_lists, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_dumps, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_processes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many_functions, set_up, tear_down),
	};

	if (argc == 2 && strcmp(argv[1], "--list-functions") == 0)
		list_child_run();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
