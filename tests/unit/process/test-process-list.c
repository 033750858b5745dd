/* SPDX-License-Identifier: MIT */

/* The list of processes that root saves: of a made /proc and of the real one, and what a daemon makes of it. */

#include "base/util/cleanup.h"
#include "base/util/file.h"
#include "profiler/process/maps-reader.h"
#include "profiler/process/process-list.h"
#include "profiler/process/processes.h"
#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define LIST                                                                                                           \
	"p 12 a name\n"                                                                                                \
	"m 7f0000001000 2000 3000 0123456789abcdef0123456789abcdef01234567 /usr/lib/a lib\n"                           \
	"m 7f0000100000 1000 0 fe:1:2a /usr/bin/program\n"                                                             \
	"p 13 kthread\n"

static void test_save(void **state)
{
	_cleanup_(freep) char *text = NULL, *list = NULL;
	struct scratch scratch, proc;
	struct reason why = {};
	struct stat st;

	(void)state;
	scratch_make(&scratch);
	scratch_make(&proc);
	list = strdup(scratch_path(&scratch, "processes"));
	assert_int_equal(process_list_save(proc.path, list, &why), -ENOENT);
	scratch_text(&proc, "12/comm", "a\tname\n");
	scratch_text(&proc, "12/maps",
		     "7f0000001000-7f0000003000 r-xp 00003000 fe:01 42                         /usr/lib/a lib\n"
		     "7f0000003000-7f0000004000 r--p 00003000 fe:01 42                         /usr/lib/a lib\n"
		     "7f0000005000-7f0000006000 r-xp 00000000 00:00 0 \n");
	scratch_text(&proc, "13/comm", "kthread\n");
	scratch_text(&proc, "self/comm", "no number\n");
	assert_int_equal(process_list_save(proc.path, list, &why), 2);
	assert_int_equal(stat(list, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	assert_int_equal(read_text_file(AT_FDCWD, list, 4096, &text), 0);
	assert_non_null(strstr(text, "p 13 kthread"));
	assert_non_null(strstr(text, "p 12 a?name\n"
				     "m 7f0000001000 2000 3000 fe:1:2a /usr/lib/a lib\n"
				     "m 7f0000005000 1000 0 0:0:0 //anon"));
	assert_int_equal(process_list_save("/nowhere", list, &why), -ENOENT);
	scratch_remove(&scratch);
	scratch_remove(&proc);
}

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
	assert_int_equal(processes_user_of(processes, &mapping->module->key, "/usr/bin/program"), 12);
	assert_int_equal(processes_user_of(processes, &mapping->module->key, "/usr/bin/other"), 0);
	assert_string_equal(processes_find(processes, 13)->comm, "kthread");

	/* What is followed is newer than another list. */
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

/* --- reading */

struct seen {
	unsigned processes, mappings;
};

static int see_process(void *userdata, _unused_ uint32_t pid, const char *comm)
{
	struct seen *seen = userdata;

	seen->processes++;
	return strcmp(comm, "end") == 0 ? -ECANCELED : 0;
}

static int see_mapping(void *userdata, const struct proc_mapping *mapping)
{
	struct seen *seen = userdata;

	assert_true(mapping->path[0]);
	seen->mappings++;
	return 0;
}

static int read_list(const char *text, struct seen *seen)
{
	const struct process_list_reader reader = { see_process, see_mapping, seen };
	_cleanup_(freep) char *copy = strdup(text);

	*seen = (struct seen){};
	return process_list_read(copy, &reader);
}

static void test_malformed(void **state)
{
	static const char *const lines[] = {
		"m 1000 1000 0 0:0:0 /no/process/before\n",
		"p 1\nm 1000 1000 0 0:0:0 /of/none\n",
		"p x y\n",
		"p -1 y\n",
		"p 4294967295 y\n",
		"x 1 2 3\n",
		"\n\n",
		"",
	};
	static const char *const mappings[] = {
		"m 1000 1000 0 0:0:0\n",  "m 1000 1000 0 0:0:0 \n",
		"m 1000 1000 0 0:0 /a\n", "m 1000 1000 0  /a\n",
		"m 1000 1000 0 012 /a\n", "m 1000 1000 0 zz /a\n",
		"m q 1000 0 0:0:0 /a\n",  "m 1000 1000 0 000102030405060708090a0b0c0d0e0f101112131415 /too/long\n",
	};
	char text[256];
	struct seen seen;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_int_equal(read_list(lines[i], &seen), 0);
		assert_int_equal(seen.processes + seen.mappings, 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(mappings); i++) {
		(void)snprintf(text, sizeof(text), "p 1 a\n%s", mappings[i]);
		assert_int_equal(read_list(text, &seen), 0);
		assert_int_equal(seen.processes, 1);
		assert_int_equal(seen.mappings, 0);
	}
	assert_int_equal(read_list(LIST, &seen), 0);
	assert_int_equal(seen.processes, 2);
	assert_int_equal(seen.mappings, 2);
	assert_int_equal(read_list("p 1 end\np 2 more\n", &seen), -ECANCELED);
	assert_int_equal(seen.processes, 1);
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
		cmocka_unit_test(test_save),
		cmocka_unit_test(test_follow),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
