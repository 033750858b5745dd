/* SPDX-License-Identifier: MIT */

/* Processes by their records, by a made /proc, and by the list that root saves. */

#include "base/host/maps-reader.h"
#include "base/host/process-list.h"
#include "profiler/process/processes.h"
#include "setup/scratch.h"

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

struct world {
	struct scratch scratch;
	struct processes *processes;
};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	scratch_make(&world->scratch);
	assert_int_equal(processes_new(&world->processes, world->scratch.path, NULL, MAPS_READER_FOREVER), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	processes_free(world->processes);
	scratch_remove(&world->scratch);
	free(world);
	return 0;
}

static void comm(struct world *world, uint32_t pid, uint32_t tid, const char *name, bool exec)
{
	const struct record record = {
		.type = PERF_RECORD_COMM,
		.misc = exec ? PERF_RECORD_MISC_COMM_EXEC : 0,
		.comm = { .pid = pid, .tid = tid, .name = name },
	};

	processes_take(world->processes, &record);
}

static void task(struct world *world, uint32_t type, uint32_t pid, uint32_t ppid, uint32_t tid, uint64_t time)
{
	const struct record record = {
		.type = type,
		.task = { .pid = pid, .ppid = ppid, .tid = tid, .ptid = ppid, .time = time },
	};

	processes_take(world->processes, &record);
}

static void map(struct world *world, uint32_t pid, uint64_t start, const char *file)
{
	const struct record record = {
		.type = PERF_RECORD_MMAP2,
		.mapping = {
			.pid = pid,
			.tid = pid,
			.start = start,
			.size = 0x1000,
			.file = file,
			.build_id_size = 20,
			.build_id = (const unsigned char *)"abcdefghijklmnopqrst",
		},
	};

	processes_take(world->processes, &record);
}

static void check(struct world *world, uint32_t pid, const char *name, uint64_t at, const char *file)
{
	const struct process *process = processes_find(world->processes, pid);
	const struct mapping *mapping;

	assert_non_null(process);
	assert_string_equal(process->comm, name);
	mapping = mappings_find(process->mappings, at);
	assert_string_equal(mapping ? mapping->module->path : "", file);
}

static void test_life(void **state)
{
	struct world *world = *state;

	comm(world, 10, 10, "sh", true);
	map(world, 10, 0x1000, "/bin/sh");
	check(world, 10, "sh", 0x1234, "/bin/sh");
	/* A fork has its parent's, until it executes something else; the parent keeps its own. */
	task(world, PERF_RECORD_FORK, 11, 10, 11, 1);
	check(world, 11, "sh", 0x1234, "/bin/sh");
	comm(world, 11, 11, "true", true);
	check(world, 11, "true", 0x1234, "");
	map(world, 11, 0x2000, "/bin/true");
	check(world, 11, "true", 0x2000, "/bin/true");
	check(world, 11, "true", 0x3000, "");
	check(world, 10, "sh", 0x1234, "/bin/sh");
	/* Threads, and their names, are no processes. */
	task(world, PERF_RECORD_FORK, 10, 10, 12, 1);
	comm(world, 10, 12, "worker", false);
	check(world, 10, "sh", 0x1234, "/bin/sh");
	comm(world, 10, 10, "renamed", false);
	check(world, 10, "renamed", 0x1234, "/bin/sh");
	assert_null(processes_find(world->processes, 12));
	/* The next process of a pid is another. */
	task(world, PERF_RECORD_EXIT, 11, 10, 11, 100);
	task(world, PERF_RECORD_FORK, 11, 10, 11, 200);
	check(world, 11, "renamed", 0x1234, "/bin/sh");
}

static void thread(struct world *world, uint32_t pid, uint32_t maker, uint32_t tid)
{
	const struct record record = {
		.type = PERF_RECORD_FORK,
		.task = { .pid = pid, .ppid = pid, .tid = tid, .ptid = maker, .time = 1 },
	};

	processes_take(world->processes, &record);
}

static void expect_thread(const struct world *world, uint32_t pid, uint32_t tid, const char *name)
{
	const char *found = processes_thread_name(world->processes, pid, tid);

	if (name)
		assert_non_null(found);
	assert_string_equal(found ?: "", name ?: "");
}

static void test_threads(void **state)
{
	struct world *world = *state;
	const struct record lost = { .type = PERF_RECORD_LOST };

	comm(world, 10, 10, "server", true);
	thread(world, 10, 10, 11);
	expect_thread(world, 10, 10, NULL);
	expect_thread(world, 10, 11, NULL);
	comm(world, 10, 11, "acceptor", false);
	expect_thread(world, 10, 11, "acceptor");
	/* One that it makes has its name, until it has another. */
	thread(world, 10, 11, 12);
	expect_thread(world, 10, 12, "acceptor");
	comm(world, 10, 12, "worker", false);
	expect_thread(world, 10, 12, "worker");
	expect_thread(world, 10, 11, "acceptor");
	/* A process that it forks has no threads. */
	task(world, PERF_RECORD_FORK, 13, 10, 13, 1);
	expect_thread(world, 13, 13, NULL);
	/* The next thread of that number is another. */
	task(world, PERF_RECORD_EXIT, 10, 10, 12, 2);
	expect_thread(world, 10, 12, NULL);
	comm(world, 10, 12, "late", false);
	thread(world, 10, 10, 12);
	expect_thread(world, 10, 12, NULL);
	/* One that was there before is looked up, and so is each after a loss. */
	scratch_mkdir(&world->scratch, "14");
	scratch_text(&world->scratch, "14/comm", "before\n");
	expect_thread(world, 10, 14, "before");
	scratch_text(&world->scratch, "14/comm", "after\n");
	expect_thread(world, 10, 14, "before");
	processes_take(world->processes, &lost);
	expect_thread(world, 10, 14, "after");
	expect_thread(world, 10, 11, NULL);
}

static void test_end(void **state)
{
	struct world *world = *state;
	const uint64_t second = 1000000000;

	comm(world, 10, 10, "a", true);
	comm(world, 11, 11, "b", true);
	map(world, 10, 0x1000, "/bin/a");
	/* The first thread may end before the others. */
	task(world, PERF_RECORD_EXIT, 10, 1, 10, 100 * second);
	task(world, PERF_RECORD_EXIT, 11, 1, 13, 100 * second);
	processes_tidy(world->processes, 105 * second);
	check(world, 10, "a", 0x1000, "/bin/a");
	processes_tidy(world->processes, 111 * second);
	assert_null(processes_find(world->processes, 10));
	check(world, 11, "b", 0x1000, "");
	assert_int_equal(processes_stats(world->processes).mappings, 0);
}

static void test_proc(void **state)
{
	struct world *world = *state;

	scratch_text(&world->scratch, "50/comm", "old one\n");
	scratch_text(&world->scratch, "50/maps",
		     "00400000-00401000 r--p 00000000 08:01 77       /usr/bin/old\n"
		     "00401000-00402000 r-xp 00001000 08:01 77       /usr/bin/old\n"
		     "00402000-00403000 rw-p 00002000 08:01 77       /usr/bin/old\n"
		     "7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
		     "7fff00000000-7fff00001000 r-xp 00000000 00:00 0  [vdso]\n");
	check(world, 50, "old one", 0x401800, "/usr/bin/old");
	check(world, 50, "old one", 0x400800, "");
	check(world, 50, "old one", 0x402800, "");
	check(world, 50, "old one", 0x7f0000000000, "//anon");
	check(world, 50, "old one", 0x7fff00000010, "[vdso]");
	/* A child of one that ran before. */
	task(world, PERF_RECORD_FORK, 51, 50, 51, 1);
	check(world, 51, "old one", 0x401800, "/usr/bin/old");
	assert_int_equal(processes_stats(world->processes).looked_up, 1);
	/* Mappings of one that is not known are not taken for all that it has. */
	scratch_text(&world->scratch, "60/comm", "later\n");
	map(world, 60, 0x1000, "/lib/new.so");
	check(world, 60, "later", 0x1000, "");
	assert_int_equal(processes_find(world->processes, 60)->mappings_error, -ENOENT);
	assert_null(processes_find(world->processes, 61));
	assert_null(processes_find(world->processes, 0));
	assert_int_equal(processes_stats(world->processes).not_found, 2);
}

static void maps_of_proc(struct world *world, const char *pid, const char *name, const char *file)
{
	char path[64], text[256];

	(void)snprintf(path, sizeof(path), "%s/comm", pid);
	(void)snprintf(text, sizeof(text), "%s\n", name);
	scratch_text(&world->scratch, path, text);
	(void)snprintf(path, sizeof(path), "%s/maps", pid);
	if (!file)
		return;
	(void)snprintf(text, sizeof(text), "00001000-00002000 %s 00000000 08:01 77 %s\n", file[0] ? "r-xp" : "rw-p",
		       file);
	scratch_text(&world->scratch, path, text);
}

/* Where records were lost, what was known is looked at again, once, by the next sample. */
static void test_lost(void **state)
{
	const struct record lost = { .type = PERF_RECORD_LOST, .lost = { .lost = 5 } };
	struct world *world = *state;

	for (uint32_t pid = 10; pid <= 13; pid++) {
		comm(world, pid, pid, "sh", true);
		map(world, pid, 0x1000, "/bin/sh");
	}
	maps_of_proc(world, "10", "make", "/bin/make"); /* it has executed another */
	maps_of_proc(world, "11", "sh", NULL);		/* its mappings may not be read */
	maps_of_proc(world, "12", "awk", NULL);		/* nor those of this one, which is another */
	check(world, 10, "sh", 0x1234, "/bin/sh");
	processes_take(world->processes, &lost);
	/* A child's are as doubtful as its parent's. */
	task(world, PERF_RECORD_FORK, 14, 10, 14, 1);
	maps_of_proc(world, "14", "cc1", "/bin/cc1");
	check(world, 10, "make", 0x1234, "/bin/make");
	check(world, 11, "sh", 0x1234, "/bin/sh");
	check(world, 12, "awk", 0x1234, "");
	assert_int_equal(processes_find(world->processes, 12)->mappings_error, -ENOENT);
	check(world, 13, "sh", 0x1234, "/bin/sh"); /* it is gone */
	check(world, 14, "cc1", 0x1234, "/bin/cc1");
	/* Not again: records tell of what follows. */
	maps_of_proc(world, "10", "other", "/bin/other");
	check(world, 10, "make", 0x1234, "/bin/make");
	comm(world, 12, 12, "ld", true);
	map(world, 12, 0x1000, "/bin/ld");
	check(world, 12, "ld", 0x1234, "/bin/ld");
	/* What no record tells of. */
	processes_note_lost(world->processes);
	check(world, 10, "other", 0x1234, "/bin/other");
	/* Threads go on after the first one's end, and the pid is another process's later. */
	comm(world, 15, 15, "sh", true);
	map(world, 15, 0x1000, "/bin/sh");
	task(world, PERF_RECORD_EXIT, 15, 1, 15, 100);
	processes_take(world->processes, &lost);
	maps_of_proc(world, "15", "sh", "");
	check(world, 15, "sh", 0x1234, "/bin/sh");
	processes_take(world->processes, &lost);
	maps_of_proc(world, "15", "next", "/bin/next");
	check(world, 15, "next", 0x1234, "/bin/next");
	processes_tidy(world->processes, UINT64_MAX);
	check(world, 15, "next", 0x1234, "/bin/next");
	assert_int_equal(processes_stats(world->processes).looked_up, 0);
}

static void make_fifo(struct world *world, const char *pid)
{
	char path[64];

	maps_of_proc(world, pid, "locked", NULL);
	(void)snprintf(path, sizeof(path), "%s/maps", pid);
	assert_int_equal(mkfifo(scratch_path(&world->scratch, path), 0600), 0);
}

/* Whoever reads the other end goes on. */
static void feed_fifo(struct world *world, const char *pid, const char *text)
{
	char path[64];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/maps", pid);
	file = fopen(scratch_path(&world->scratch, path), "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int error_of(struct world *world, uint32_t pid)
{
	const struct process *process = processes_find(world->processes, pid);

	assert_non_null(process);
	assert_string_equal(process->comm, "locked");
	return process->mappings_error;
}

/* A process that has its mappings locked keeps nobody waiting, and is known when it has let them go. */
static void test_locked(void **state)
{
	const char *pids[] = { "20", "21", "22", "23" };
	struct world *world = *state;

	processes_free(world->processes);
	assert_int_equal(processes_new(&world->processes, world->scratch.path, NULL, 10000000), 0);
	for (uint32_t i = 0; i < 4; i++) {
		make_fifo(world, pids[i]);
		assert_int_equal(error_of(world, 20 + i), -EAGAIN);
		assert_int_equal(error_of(world, 20 + i), -EAGAIN);
	}
	/* There are so many threads. */
	maps_of_proc(world, "24", "locked", "/bin/other");
	assert_int_equal(error_of(world, 24), -EBUSY);
	/* A child has what its parent has, and is looked up by itself. */
	task(world, PERF_RECORD_FORK, 25, 20, 25, 1);
	maps_of_proc(world, "25", "locked", "/bin/child");
	/* Another program: the answer for the one before is dropped. */
	comm(world, 21, 21, "make", true);
	map(world, 21, 0x1000, "/bin/make");
	for (size_t i = 0; i < 4; i++)
		feed_fifo(world, pids[i], "00001000-00002000 r-xp 00000000 08:01 77 /bin/late\n");
	while (error_of(world, 20) == -EAGAIN || error_of(world, 22) == -EAGAIN || error_of(world, 23) == -EAGAIN ||
	       error_of(world, 24) < 0 || error_of(world, 25) < 0)
		(void)usleep(1000);
	check(world, 20, "locked", 0x1234, "/bin/late");
	check(world, 21, "make", 0x1234, "/bin/make");
	check(world, 23, "locked", 0x1234, "/bin/late");
	check(world, 24, "locked", 0x1234, "/bin/other");
	check(world, 25, "locked", 0x1234, "/bin/child");
}

/* Records were lost: what is known stays until there is better, and what was lost meanwhile is looked up as well. */
static void test_locked_after_losses(void **state)
{
	struct world *world = *state;

	processes_free(world->processes);
	assert_int_equal(processes_new(&world->processes, world->scratch.path, NULL, 10000000), 0);
	comm(world, 30, 30, "locked", true);
	map(world, 30, 0x1000, "/bin/known");
	make_fifo(world, "30");
	processes_note_lost(world->processes);
	assert_int_equal(error_of(world, 30), 0);
	check(world, 30, "locked", 0x1234, "/bin/known");
	processes_note_lost(world->processes);
	feed_fifo(world, "30", "00001000-00002000 r-xp 00000000 08:01 77 /bin/first\n");
	while (mappings_find(processes_find(world->processes, 30)->mappings, 0x1234)->module->path[5] == 'k')
		(void)usleep(1000);
	check(world, 30, "locked", 0x1234, "/bin/first");
	/* It is being read again. The end does not wait for that. */
	processes_free(world->processes);
	world->processes = NULL;
	feed_fifo(world, "30", "");
}

/* Each program that a process runs has a number of its own, also where records were lost. */
static void test_programs(void **state)
{
	const struct record exec = { .type = PERF_RECORD_COMM,
				     .misc = PERF_RECORD_MISC_COMM_EXEC,
				     .id = { .time = 77 },
				     .comm = { .pid = 5, .tid = 5, .name = "second" } };
	struct world *world = *state;
	struct process_program first, second;

	assert_null(processes_known(world->processes, 5));
	comm(world, 5, 5, "first", true);
	first = processes_known(world->processes, 5)->program;
	assert_int_equal(first.pid, 5);
	comm(world, 5, 5, "renamed", false);
	map(world, 5, 0x1000, "/bin/first");
	assert_int_equal(processes_known(world->processes, 5)->program.life, first.life);
	task(world, PERF_RECORD_FORK, 6, 5, 6, 50);
	assert_int_not_equal(processes_known(world->processes, 6)->program.life, first.life);
	assert_int_equal(processes_known(world->processes, 6)->program.executed_at, 0);
	processes_take(world->processes, &exec);
	second = processes_known(world->processes, 5)->program;
	assert_int_not_equal(second.life, first.life);
	assert_int_equal(second.executed_at, 77);
	/* It is looked up again, and is the same, or another one. */
	scratch_text(&world->scratch, "5/comm", "second\n");
	scratch_text(&world->scratch, "5/maps", "00001000-00002000 r-xp 00000000 08:01 77 /bin/second\n");
	processes_note_lost(world->processes);
	assert_int_equal(processes_find(world->processes, 5)->program.life, second.life);
	scratch_text(&world->scratch, "5/comm", "third\n");
	processes_note_lost(world->processes);
	assert_int_not_equal(processes_find(world->processes, 5)->program.life, second.life);
	assert_int_equal(processes_find(world->processes, 5)->program.executed_at, 0);
}

static void test_bounds(void **state)
{
	struct world *world = *state;

	for (uint32_t pid = 1; pid <= PROCESSES_MAX + 10; pid++)
		comm(world, pid, pid, "many", true);
	assert_int_equal(processes_stats(world->processes).processes, PROCESSES_MAX);
	assert_null(processes_find(world->processes, 10));
	assert_non_null(processes_find(world->processes, 11));
	for (uint32_t pid = 1; pid <= 20; pid++) {
		comm(world, pid, pid, "large", true);
		for (uint64_t i = 0; i < MAPPINGS_MAX + 100; i++)
			map(world, pid, i * 0x10000, "/lib/jit");
	}
	comm(world, 99999, 99999, "last", true);
	assert_true(processes_stats(world->processes).mappings < PROCESSES_MAPPINGS_MAX);
	check(world, 99999, "last", 0, "");
}

/* --- the list that root saves */

#define LIST                                                                                                           \
	"p 12 a name\n"                                                                                                \
	"m 7f0000001000 2000 3000 0123456789abcdef0123456789abcdef01234567 /usr/lib/a lib\n"                           \
	"m 7f0000100000 1000 0 fe:1:2a /usr/bin/program\n"                                                             \
	"p 13 kthread\n"

/* A record of a process that begins while it is followed. */
static void fork_of(struct processes *processes, uint32_t pid, uint32_t parent)
{
	const struct record record = { .type = PERF_RECORD_FORK,
				       .task = { .pid = pid, .tid = pid, .ppid = parent, .ptid = parent } };

	processes_take(processes, &record);
}

static void test_follow(void **state)
{
	_cleanup_(processes_freep) struct processes *processes = NULL;
	const struct process *process;
	const struct mapping *mapping;
	struct scratch scratch, proc;

	(void)state;
	scratch_make(&scratch);
	scratch_make(&proc);
	assert_int_equal(processes_new(&processes, proc.path, scratch_path(&scratch, "processes"), MAPS_READER_FOREVER),
			 0);
	processes_follow_list(processes);
	assert_null(processes_find(processes, 12));
	scratch_text(&scratch, "processes", LIST);
	assert_null(processes_find(processes, 12));
	processes_follow_list(processes);
	process = processes_find(processes, 12);
	assert_non_null(process);
	assert_string_equal(process->comm, "a name");
	assert_int_equal(process->mappings_error, 0);
	mapping = mappings_find(process->mappings, 0x7f0000001fff);
	assert_non_null(mapping);
	assert_string_equal(mapping->module->path, "/usr/lib/a lib");
	assert_int_equal(mapping->offset, 0x3000);
	assert_int_equal(mapping->module->key.build_id_size, 20);
	assert_int_equal(mapping->module->key.build_id[1], 0x23);
	mapping = mappings_find(process->mappings, 0x7f0000100000);
	assert_int_equal(mapping->module->key.major, 0xfe);
	assert_int_equal(mapping->module->key.inode, 0x2a);
	assert_int_equal(processes_user_of(processes, &mapping->module->key, "/usr/bin/program").pid, 12);
	assert_int_equal(processes_user_of(processes, &mapping->module->key, "/usr/bin/other").pid, 0);
	assert_string_equal(processes_find(processes, 13)->comm, "kthread");

	/* Processes that are followed are newer than another list. */
	fork_of(processes, 14, 12);
	assert_string_equal(processes_find(processes, 14)->comm, "a name");
	scratch_text(&scratch, "new", "p 14 older\np 12 older\np 15 other\n");
	assert_int_equal(rename(strdupa(scratch_path(&scratch, "new")), scratch_path(&scratch, "processes")), 0);
	processes_follow_list(processes);
	assert_string_equal(processes_find(processes, 14)->comm, "a name");
	assert_string_equal(processes_find(processes, 12)->comm, "a name");
	assert_string_equal(processes_find(processes, 15)->comm, "other");
	scratch_remove(&scratch);
	scratch_remove(&proc);
}

/* This process, in the list of all. */
static void test_real(void **state)
{
	_cleanup_(processes_freep) struct processes *processes = NULL;
	_cleanup_(freep) char *list = NULL;
	const struct mapping *mapping;
	const struct process *process;
	struct scratch scratch, proc;
	char exe[4096] = "";

	(void)state;
	scratch_make(&scratch);
	scratch_make(&proc);
	list = strdup(scratch_path(&scratch, "processes"));
	assert_true(process_list_save("/proc", list, NULL) >= 1);
	assert_int_equal(processes_new(&processes, proc.path, list, MAPS_READER_FOREVER), 0);
	processes_follow_list(processes);
	process = processes_find(processes, (uint32_t)getpid());
	assert_non_null(process);
	mapping = mappings_find(process->mappings, (uintptr_t)test_real);
	assert_non_null(mapping);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_string_equal(mapping->module->path, exe);
	scratch_remove(&scratch);
	scratch_remove(&proc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_life, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_proc, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(test_locked, setup, teardown),
		cmocka_unit_test_setup_teardown(test_locked_after_losses, setup, teardown),
		cmocka_unit_test_setup_teardown(test_programs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bounds, setup, teardown),
		cmocka_unit_test(test_follow),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
