/* SPDX-License-Identifier: MIT */

/* The table of processes that outlives a profiler: what is written is read again, and nothing else is believed. */

#include "base/host/maps-reader.h"
#include "base/host/process-identity.h"
#include "base/util/file.h"
#include "profiler/process/process-table.h"
#include "profiler/process/processes.h"
#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SIZE ((size_t)64 << 10)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static const struct process_table_list some_list = { .inode = 5, .seconds = 6, .nanoseconds = 7 };

/* --- what is told, as text */

static int tell_process(void *userdata, const struct saved_process *process)
{
	buf_printf(userdata, "p %u %s %d %llu\n", process->pid, process->comm, process->mappings_error,
		   (unsigned long long)process->identity);
	return 0;
}

static int tell_mapping(void *userdata, const struct proc_mapping *mapping)
{
	buf_printf(userdata, "m %llx %llx %llx %u:%llu %s\n", (unsigned long long)mapping->start,
		   (unsigned long long)mapping->size, (unsigned long long)mapping->offset, mapping->key.build_id_size,
		   (unsigned long long)mapping->key.inode, mapping->path);
	return 0;
}

static int read_all(const void *bytes, size_t size, struct buf *told, struct process_table_list *list)
{
	const struct process_table_reader reader = { tell_process, tell_mapping, told };

	return process_table_image_read(bytes, size, &reader, list);
}

static void check_told(struct buf *told, const char *text)
{
	_cleanup_(freep) char *all = buf_steal(told);

	assert_non_null(all);
	assert_string_equal(all, text);
	*told = (struct buf){};
}

/* --- images */

struct world {
	size_t account;
	struct module *named, *unnamed;
	struct saved_process first, second;
};

static void fill(struct saved_process *process, uint32_t pid, const char *comm, size_t *account)
{
	process->pid = pid;
	(void)snprintf(process->comm, sizeof(process->comm), "%s", comm);
	process->mappings = mappings_new(account);
	assert_non_null(process->mappings);
}

static int setup(void **state)
{
	const struct module_key by_id = { .build_id = "0123456789", .build_id_size = 10 };
	const struct module_key by_inode = { .major = 8, .minor = 1, .inode = 77 };
	struct world *world = calloc(1, sizeof(*world));

	assert_non_null(world);
	world->named = module_new(&by_id, "/lib/a.so");
	world->unnamed = module_new(&by_inode, "/bin/a \n\xff");
	fill(&world->first, 10, "first one", &world->account);
	fill(&world->second, 20, "", &world->account);
	world->first.identity = 1234567890123;
	world->second.mappings_error = -EACCES;
	assert_int_equal(mappings_put(&world->first.mappings, 0x1000, 0x800, 0x10, world->named), 0);
	assert_int_equal(mappings_put(&world->first.mappings, 0x2000, 0x1000, 0, world->unnamed), 0);
	assert_int_equal(mappings_put(&world->second.mappings, UINT64_MAX - 0x2000, 0x1000, 0x30, world->named), 0);
	*state = world;
	return 0;
}

static int teardown(void **state)
{
	struct world *world = *state;

	mappings_unref(world->first.mappings);
	mappings_unref(world->second.mappings);
	module_unref(world->named);
	module_unref(world->unnamed);
	free(world);
	return 0;
}

/* The second is newer. */
static void begin_image(struct process_table_image *image, const struct world *world)
{
	process_table_image_begin(image, SIZE);
	assert_int_equal(process_table_image_add(image, &world->second), 0);
	assert_int_equal(process_table_image_add(image, &world->first), 0);
}

#define TEXT                                                                                                           \
	"p 10 first one 0 1234567890123\nm 1000 800 10 10:0 /lib/a.so\nm 2000 1000 0 0:77 /bin/a \n\xff\n"             \
	"p 20  -13 0\nm ffffffffffffdfff 1000 30 10:0 /lib/a.so\n"

static void test_round_trip(void **state)
{
	_cleanup_(process_table_image_release) struct process_table_image image = {};
	_cleanup_(buf_release) struct buf told = {};
	struct process_table_list list;

	begin_image(&image, *state);
	assert_int_equal(process_table_image_end(&image, 9, &some_list), 0);
	assert_int_equal(process_table_image_number(image.bytes.data, image.bytes.len), 9);
	assert_int_equal(read_all(image.bytes.data, image.bytes.len, &told, &list), 0);
	assert_memory_equal(&list, &some_list, sizeof(list));
	check_told(&told, TEXT);
}

static void test_nobody(void **state)
{
	_cleanup_(process_table_image_release) struct process_table_image image = {};
	_cleanup_(buf_release) struct buf told = {};
	struct process_table_list list;

	(void)state;
	process_table_image_begin(&image, SIZE);
	assert_int_equal(process_table_image_end(&image, 1, &some_list), 0);
	assert_int_equal(read_all(image.bytes.data, image.bytes.len, &told, &list), 0);
	check_told(&told, "");
}

/* Each bit of it, and each length. */
static void test_damaged(void **state)
{
	_cleanup_(process_table_image_release) struct process_table_image image = {};
	_cleanup_(buf_release) struct buf told = {};
	struct process_table_list list;

	begin_image(&image, *state);
	assert_int_equal(process_table_image_end(&image, 9, &some_list), 0);
	for (size_t bit = 0; bit < 8 * image.bytes.len; bit++) {
		image.bytes.data[bit / 8] ^= (char)(1 << bit % 8);
		assert_int_equal(process_table_image_number(image.bytes.data, image.bytes.len), 0);
		assert_int_equal(read_all(image.bytes.data, image.bytes.len, &told, &list), -EBADMSG);
		image.bytes.data[bit / 8] ^= (char)(1 << bit % 8);
	}
	for (size_t size = 0; size < image.bytes.len; size++) {
		/* Behind what is there, a sanitizer sees whatever is read. */
		_cleanup_(freep) char *bytes = malloc(size + 1);

		assert_non_null(bytes);
		memcpy(bytes + 1, image.bytes.data, size);
		assert_int_equal(read_all(bytes + 1, size, &told, &list), -EBADMSG);
	}
	check_told(&told, "");
	assert_int_equal(read_all(image.bytes.data, image.bytes.len, &told, &list), 0);
}

/* Numbers that no table has, with a checksum that is right. */
static void test_numbers(void **state)
{
	static const uint64_t numbers[] = { 0, UINT64_MAX, UINT64_MAX / 2 + 1 };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		_cleanup_(process_table_image_release) struct process_table_image image = {};

		begin_image(&image, *state);
		assert_int_equal(process_table_image_end(&image, numbers[i], &some_list), 0);
		assert_int_equal(process_table_image_number(image.bytes.data, image.bytes.len), 0);
	}
}

/* Each word of the content is something else, with a checksum that is right: it is read as a whole, or not at all. */
static void test_wrong_content(void **state)
{
	static const uint64_t words[] = { 0, 3, 0x1000000, UINT64_MAX };
	struct process_table_image probe = {};
	size_t begin, end, bad = 0;

	process_table_image_begin(&probe, SIZE);
	begin = probe.bytes.len;
	process_table_image_release(&probe);
	begin_image(&probe, *state);
	end = probe.bytes.len;
	process_table_image_release(&probe);
	for (size_t i = 0; i < (end - begin) / 8 * 4; i++) {
		_cleanup_(process_table_image_release) struct process_table_image image = {};
		_cleanup_(buf_release) struct buf told = {};
		struct process_table_list list;
		int r;

		begin_image(&image, *state);
		memcpy(image.bytes.data + begin + i / 4 * 8, &words[i % 4], 8);
		assert_int_equal(process_table_image_end(&image, 9, &some_list), 0);
		r = read_all(image.bytes.data, image.bytes.len, &told, &list);
		assert_true(r == 0 || (r == -EBADMSG && told.len == 0));
		bad += r != 0;
	}
	assert_true(bad > 50);
}

/* One that has no room is left out, and a smaller one is not; no byte is written beyond the limit. */
static void test_full(void **state)
{
	const struct world *world = *state;
	size_t whole;

	for (size_t limit = SIZE;; limit = whole - 8) {
		_cleanup_(process_table_image_release) struct process_table_image image = {};
		_cleanup_(buf_release) struct buf told = {};
		struct process_table_list list;
		int r;

		process_table_image_begin(&image, limit);
		assert_int_equal(process_table_image_add(&image, &world->first), 0);
		r = process_table_image_add(&image, &world->second);
		assert_true(image.bytes.len <= limit);
		whole = image.bytes.len;
		assert_int_equal(process_table_image_end(&image, 1, &some_list), 0);
		assert_int_equal(read_all(image.bytes.data, image.bytes.len, &told, &list), 0);
		if (limit == SIZE) {
			assert_int_equal(r, 0);
			continue;
		}
		assert_int_equal(r, -E2BIG);
		check_told(&told, "p 10 first one 0 1234567890123\nm 1000 800 10 10:0 /lib/a.so\nm 2000 1000 0 0:77 "
				  "/bin/a \n\xff\n");
		break;
	}
}

/* --- files */

static void make_files(int files[static PROCESS_TABLE_FILES])
{
	for (size_t i = 0; i < PROCESS_TABLE_FILES; i++) {
		files[i] = memfd_create("processes", MFD_ALLOW_SEALING);
		assert_int_equal(ftruncate(files[i], SIZE), 0);
		assert_int_equal(fcntl(files[i], F_ADD_SEALS, SEALS), 0);
	}
}

static void close_files(const int files[static PROCESS_TABLE_FILES])
{
	for (size_t i = 0; i < PROCESS_TABLE_FILES; i++)
		close(files[i]);
}

static void save(struct process_table *table, const struct saved_process *process, uint64_t identity)
{
	struct saved_process saved = *process;
	_cleanup_(process_table_image_release) struct process_table_image image = {};

	saved.identity = identity;
	process_table_image_begin(&image, process_table_size(table));
	assert_int_equal(process_table_image_add(&image, &saved), 0);
	assert_int_equal(process_table_save(table, &image, &some_list), 0);
}

/* The next profiler finds this: the identity of the one process in it, or 0. */
static uint64_t load(struct process_table **ret, const int files[static PROCESS_TABLE_FILES])
{
	_cleanup_(buf_release) struct buf told = {};
	_cleanup_(freep) char *text = NULL;
	const struct process_table_reader reader = { tell_process, tell_mapping, &told };
	struct process_table_list list;
	uint64_t identity;
	int r;

	process_table_free(*ret);
	assert_int_equal(process_table_new(ret, files, SIZE), 0);
	r = process_table_load(*ret, &reader, &list);
	if (r == -ENOENT)
		return 0;
	assert_int_equal(r, 0);
	text = buf_steal(&told);
	assert_int_equal(sscanf(text, "p 10 first one 0 %" SCNu64, &identity), 1);
	return identity;
}

static void test_turns(void **state)
{
	const struct world *world = *state;
	_cleanup_(process_table_freep) struct process_table *table = NULL;
	int files[PROCESS_TABLE_FILES];
	char half[100] = {};

	make_files(files);
	assert_int_equal(load(&table, files), 0);
	for (uint64_t i = 1; i <= 5; i++) {
		save(table, &world->first, i);
		if (i % 2)
			assert_int_equal(load(&table, files), i);
	}
	/* Number 6 is torn, then the fifth is damaged too; a new one is found whatever the other has. */
	save(table, &world->first, 6);
	assert_int_equal(pwrite(files[1], half, sizeof(half), 100), sizeof(half));
	assert_int_equal(load(&table, files), 5);
	save(table, &world->first, 7);
	assert_int_equal(pwrite(files[0], half, sizeof(half), 100), sizeof(half));
	assert_int_equal(load(&table, files), 7);
	assert_int_equal(pwrite(files[1], half, sizeof(half), 0), sizeof(half));
	assert_int_equal(load(&table, files), 0);
	save(table, &world->first, 8);
	assert_int_equal(load(&table, files), 8);
	close_files(files);
}

static void test_other_files(void **state)
{
	_cleanup_(process_table_freep) struct process_table *table = NULL;
	struct process_table *none = NULL;
	int files[PROCESS_TABLE_FILES], pair[2];

	(void)state;
	make_files(files);
	assert_int_equal(process_table_new(&table, files, SIZE), 0);
	assert_int_equal(fcntl(files[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(process_table_new(&none, files, SIZE + 1), -EBADF);
	assert_int_equal(pipe(pair), 0);
	assert_int_equal(process_table_new(&none, pair, SIZE), -EBADF);
	close_files(pair);
	assert_int_equal(process_table_new(&none, pair, SIZE), -EBADF);
	close_files(files);
	for (size_t i = 0; i < PROCESS_TABLE_FILES; i++) {
		files[i] = memfd_create("unsealed", MFD_ALLOW_SEALING);
		assert_int_equal(ftruncate(files[i], SIZE), 0);
	}
	assert_int_equal(process_table_new(&none, files, SIZE), -EBADF);
	close_files(files);
}

/* --- with processes */

static void exec_of(struct processes *processes, uint32_t pid, const char *name)
{
	const struct record comm = {
		.type = PERF_RECORD_COMM,
		.misc = PERF_RECORD_MISC_COMM_EXEC,
		.comm = { .pid = pid, .tid = pid, .name = name },
	};
	const struct record map = {
		.type = PERF_RECORD_MMAP2,
		.mapping = { .pid = pid,
			     .tid = pid,
			     .start = 0x1000,
			     .size = 0x1000,
			     .file = "/bin/known",
			     .build_id_size = 4,
			     .build_id = (const unsigned char *)"abcd" },
	};

	processes_take(processes, &comm);
	processes_take(processes, &map);
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	assert_true(pid > 0);
	return pid;
}

static void end_child(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void check_known(struct processes *processes, pid_t pid, const char *comm)
{
	const struct process *process = processes_find(processes, (uint32_t)pid);

	assert_non_null(process);
	assert_string_equal(process->comm, comm);
	assert_string_equal(mappings_find(process->mappings, 0x1800)->module->path, "/bin/known");
}

struct pair {
	struct scratch proc;
	char list[PATH_MAX];
	struct processes *before, *after;
	struct process_table *table;
	int files[PROCESS_TABLE_FILES];
};

/* /proc is empty, as the shipped unit has it. */
static void make_pair(struct pair *pair)
{
	*pair = (struct pair){};
	scratch_make(&pair->proc);
	(void)snprintf(pair->list, sizeof(pair->list), "%s", scratch_path(&pair->proc, "processes"));
	make_files(pair->files);
	assert_int_equal(process_table_new(&pair->table, pair->files, SIZE), 0);
	assert_int_equal(processes_new(&pair->before, pair->proc.path, pair->list, MAPS_READER_FOREVER), 0);
	assert_int_equal(processes_new(&pair->after, pair->proc.path, pair->list, MAPS_READER_FOREVER), 0);
}

static void release_pair(struct pair *pair)
{
	processes_free(pair->before);
	processes_free(pair->after);
	process_table_free(pair->table);
	close_files(pair->files);
	scratch_remove(&pair->proc);
}

/* One that has ended is not known any more, whether a record told of it or not, and neither is one that never was. */
static void test_processes(void **state)
{
	pid_t child = start_child(), ended = start_child(), told = start_child();
	const struct record end = { .type = PERF_RECORD_EXIT,
				    .task = { .pid = (uint32_t)told, .tid = (uint32_t)told, .time = 5 } };
	struct pair pair;

	(void)state;
	make_pair(&pair);
	assert_int_equal(processes_take_table(pair.after, pair.table), -ENOENT);
	exec_of(pair.before, (uint32_t)child, "known");
	exec_of(pair.before, (uint32_t)ended, "ended");
	exec_of(pair.before, (uint32_t)told, "told");
	processes_take(pair.before, &end);
	assert_int_equal(processes_save_table(pair.before, pair.table), 0);
	end_child(ended);
	assert_int_equal(processes_take_table(pair.after, pair.table), 1);
	processes_note_lost(pair.after);
	check_known(pair.after, child, "known");
	assert_null(processes_find(pair.after, (uint32_t)ended));
	assert_null(processes_find(pair.after, (uint32_t)told));
	end_child(told);
	end_child(child);
	release_pair(&pair);
}

/* Where /proc has more, that is what counts: it may have executed another program meanwhile. */
static void test_proc_is_newer(void **state)
{
	pid_t child = start_child();
	struct pair pair;
	char path[64];

	(void)state;
	make_pair(&pair);
	exec_of(pair.before, (uint32_t)child, "known");
	assert_int_equal(processes_save_table(pair.before, pair.table), 0);
	assert_int_equal(processes_take_table(pair.after, pair.table), 1);
	processes_note_lost(pair.after);
	(void)snprintf(path, sizeof(path), "%d/comm", child);
	scratch_text(&pair.proc, path, "another\n");
	assert_string_equal(processes_find(pair.after, (uint32_t)child)->comm, "another");
	end_child(child);
	release_pair(&pair);
}

/* Of a pid that another process has by now, nothing is taken. Such a pid can't be had at will: the table says so. */
static void test_another_identity(void **state)
{
	const struct world *world = *state;
	struct saved_process process = world->first;
	struct pair pair;
	uint64_t identity;

	make_pair(&pair);
	process.pid = (uint32_t)getpid();
	exec_of(pair.before, process.pid, "me");
	assert_int_equal(processes_save_table(pair.before, pair.table), 0);
	assert_int_equal(processes_take_table(pair.after, pair.table), 1);
	check_known(pair.after, getpid(), "me");

	assert_int_equal(process_identity(process.pid, &identity), 0);
	save(pair.table, &process, identity + 1);
	processes_free(pair.after);
	assert_int_equal(processes_new(&pair.after, pair.proc.path, pair.list, MAPS_READER_FOREVER), 0);
	/* Kernels before 6.9 tell none apart. */
	assert_int_equal(processes_take_table(pair.after, pair.table), identity ? 0 : 1);
	release_pair(&pair);
}

/* It is written when something has changed, and not otherwise. */
static void test_changes(void **state)
{
	struct pair pair;
	char before[8] = {}, after[8] = {};

	(void)state;
	make_pair(&pair);
	assert_int_equal(processes_save_table(pair.before, pair.table), 0);
	assert_int_equal(pread(pair.files[0], before, 8, 0), 8);
	assert_memory_equal(before, after, 8);
	exec_of(pair.before, (uint32_t)getpid(), "me");
	for (int i = 0; i < 3; i++)
		assert_int_equal(processes_save_table(pair.before, pair.table), 0);
	assert_int_equal(pread(pair.files[0], before, 8, 0), 8);
	assert_int_equal(pread(pair.files[1], after, 8, 0), 8);
	assert_memory_not_equal(before, after, 8);
	assert_memory_equal(after, (char[8]){}, 8);
	release_pair(&pair);
}

/* Root's list is not taken again if all of it is in the table: its pids may be others' by now. */
static void test_old_list(void **state)
{
	struct pair pair;

	(void)state;
	make_pair(&pair);
	scratch_text(&pair.proc, "processes", "p 4194999 old\n");
	processes_follow_list(pair.before);
	assert_non_null(processes_find(pair.before, 4194999));
	exec_of(pair.before, (uint32_t)getpid(), "me");
	assert_int_equal(processes_save_table(pair.before, pair.table), 0);
	assert_int_equal(processes_take_table(pair.after, pair.table), 1);
	processes_follow_list(pair.after);
	assert_null(processes_find(pair.after, 4194999));
	/* Where the table had no room for all. */
	for (uint64_t at = 1; at <= SIZE / 32; at++) {
		const struct record map = {
			.type = PERF_RECORD_MMAP2,
			.mapping = { .pid = (uint32_t)getpid(), .start = at << 16, .size = 1, .file = "/bin/known" },
		};

		processes_take(pair.before, &map);
	}
	assert_int_equal(processes_save_table(pair.before, pair.table), 0);
	processes_free(pair.after);
	assert_int_equal(processes_new(&pair.after, pair.proc.path, pair.list, MAPS_READER_FOREVER), 0);
	assert_int_equal(processes_take_table(pair.after, pair.table), 0);
	processes_follow_list(pair.after);
	assert_non_null(processes_find(pair.after, 4194999));
	release_pair(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
		cmocka_unit_test_setup_teardown(test_numbers, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrong_content, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full, setup, teardown),
		cmocka_unit_test_setup_teardown(test_turns, setup, teardown),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_proc_is_newer),
		cmocka_unit_test_setup_teardown(test_another_identity, setup, teardown),
		cmocka_unit_test(test_changes),
		cmocka_unit_test(test_old_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
