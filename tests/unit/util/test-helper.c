/* SPDX-License-Identifier: MIT */

/* Children that hang where no signal reaches them: they are given up, a bounded number of them, and reaped later. */

#include "base/util/helper.h"
#include "setup/needs.h"
#include "setup/scratch.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* No end of a child is seen. */
static int hangs;

pid_t __real_wait4(pid_t pid, int *status, int options, struct rusage *usage);
pid_t __wrap_wait4(pid_t pid, int *status, int options, struct rusage *usage);

pid_t __wrap_wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
	return hangs ? 0 : __real_wait4(pid, status, options, usage);
}

static void wait_for_kill(_unused_ void *userdata)
{
	(void)pause();
}

static void do_nothing(_unused_ void *userdata)
{
}

/* As if all time for the child had passed. */
static void start_late(struct helper *helper)
{
	assert_int_equal(helper_start(helper, -1, wait_for_kill, NULL), 0);
	helper->deadline = 1;
}

static void run_one(struct helper *helper)
{
	struct pollfd fd = { .fd = helper_fd(helper), .events = POLLIN };

	assert_int_equal(helper_start(helper, -1, do_nothing, NULL), 0);
	assert_int_equal(poll(&fd, 1, 60000), 1);
	assert_true(helper_has_ended(helper));
	assert_false(helper_gave_up(helper));
}

static void test_stuck(_unused_ void **state)
{
	struct helper helper;

	assert_int_equal(helper_init(&helper), 0);
	hangs = 1;
	start_late(&helper);
	assert_true(helper_has_ended(&helper));
	assert_true(helper_gave_up(&helper));
	assert_false(helper_is_busy(&helper));
	assert_int_equal(helper_nr_stuck(&helper), 1);
	hangs = 0;
	/* Others go on, and are woken for; its own end is seen later. */
	run_one(&helper);
	while (helper_nr_stuck(&helper))
		(void)usleep(1000);
	helper_release(&helper);
}

static void test_bound(_unused_ void **state)
{
	struct helper helper;

	assert_int_equal(helper_init(&helper), 0);
	hangs = 1;
	for (int i = 0; i < HELPER_STUCK_MAX; i++) {
		start_late(&helper);
		assert_true(helper_has_ended(&helper));
	}
	start_late(&helper);
	assert_false(helper_has_ended(&helper));
	assert_true(helper_is_busy(&helper));
	assert_int_equal(helper_nr_stuck(&helper), HELPER_STUCK_MAX);
	hangs = 0;
	helper.deadline = UINT64_MAX / 2;
	while (!helper_has_ended(&helper))
		(void)usleep(1000);
	assert_false(helper_gave_up(&helper));
	while (helper_nr_stuck(&helper))
		(void)usleep(1000);
	run_one(&helper);
	helper_release(&helper);
}

/* --- a file system whose server does not answer open(2) */

#define ROOT 1
#define FILE_NODE 2

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){ .ino = node, .mode = node == ROOT ? S_IFDIR | 0755 : S_IFREG | 0644, .nlink = 1 };
}

static void reply(int fd, uint64_t unique, const void *body, size_t size)
{
	unsigned char bytes[512];
	const struct fuse_out_header header = { .len = (uint32_t)(sizeof(header) + size), .unique = unique };

	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + sizeof(header), body, size);
	(void)!write(fd, bytes, header.len);
}

/* Tells by the pipe that an open(2) waits. */
static _Noreturn void serve(int fd, int opened)
{
	static unsigned char bytes[FUSE_MIN_READ_BUFFER + 8192];

	while (read(fd, bytes, sizeof(bytes)) > 0) {
		struct fuse_in_header header;
		struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 4096 };
		struct fuse_entry_out entry = { .nodeid = FILE_NODE, .attr = attr_of(FILE_NODE), .attr_valid = 60 };
		struct fuse_attr_out attr = { .attr_valid = 60 };

		memcpy(&header, bytes, sizeof(header));
		attr.attr = attr_of(header.nodeid);
		if (header.opcode == FUSE_INIT)
			reply(fd, header.unique, &init, sizeof(init));
		else if (header.opcode == FUSE_LOOKUP)
			reply(fd, header.unique, &entry, sizeof(entry));
		else if (header.opcode == FUSE_GETATTR)
			reply(fd, header.unique, &attr, sizeof(attr));
		else if (header.opcode == FUSE_OPEN)
			(void)!write(opened, "o", 1);
	}
	_exit(0);
}

static void open_file(void *userdata)
{
	struct stat st;

	(void)helper_open_regular(userdata, &st);
}

static void test_dead_server(_unused_ void **state)
{
	char options[128], path[PATH_MAX], byte;
	struct scratch folder;
	struct helper helper;
	int fd, opened[2];
	pid_t server;

	needs("root");
	scratch_make(&folder);
	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	(void)snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || mount("test", folder.path, "fuse", MS_NOSUID | MS_NODEV, options) < 0) {
		scratch_remove(&folder);
		skip();
	}
	assert_int_equal(pipe2(opened, O_CLOEXEC), 0);
	server = fork();
	if (server == 0)
		serve(fd, opened[1]);
	close(fd);
	(void)snprintf(path, sizeof(path), "%s/file", folder.path);
	assert_int_equal(helper_init(&helper), 0);
	assert_int_equal(helper_start(&helper, -1, open_file, path), 0);
	assert_int_equal(read(opened[0], &byte, 1), 1);
	helper.deadline = 1;
	assert_true(helper_has_ended(&helper));
	assert_true(helper_gave_up(&helper));
	(void)usleep(100000);
	assert_int_equal(helper_nr_stuck(&helper), 1);
	run_one(&helper);
	/* Its end ends the connection, too. */
	(void)kill(server, SIGKILL);
	(void)waitpid(server, NULL, 0);
	while (helper_nr_stuck(&helper))
		(void)usleep(1000);
	helper_release(&helper);
	(void)umount2(folder.path, MNT_DETACH);
	scratch_remove(&folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_dead_server), cmocka_unit_test(test_stuck),
					    cmocka_unit_test(test_bound) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
