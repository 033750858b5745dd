/* SPDX-License-Identifier: MIT */

/* Which files a child closes, on each kernel. */

#include "base/util/child.h"

#include "base/util/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HIGH 3000

/* As on Linux before 5.9, and in old sandboxes. */
static bool forbid_close_range(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0 &&
	       syscall(SYS_close_range, HIGH + 1, ~0U, 0) < 0;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* In a child: 0, or the number of what is wrong. */
static int close_most(bool old, int first, int but)
{
	static const int files[] = { 3, 5, 255, 256, 258, 259, 260, 1023, 1024, HIGH };
	const struct rlimit limit = { HIGH + 1, HIGH + 1 };

	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || (old && !forbid_close_range()))
		return 1;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (dup2(STDERR_FILENO, files[i]) < 0)
			return 2;
	child_close_files(first, but);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (is_open(files[i]) != (files[i] < first || files[i] == but))
			return 3;
	return is_open(STDERR_FILENO) ? 0 : 4;
}

static void test_close_files(_unused_ void **state)
{
	static const struct {
		int first, but;
	} cases[] = {
		{ 3, -1 }, { 3, 3 }, { 3, 258 }, { 3, 259 }, { 3, 1024 }, { 3, HIGH }, { 256, 255 },
	};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		bool old = i % 2;
		pid_t child = fork();
		int status;

		if (child == 0)
			_exit(close_most(old, cases[i / 2].first, cases[i / 2].but));
		assert_int_equal(waitpid(child, &status, 0), child);
		if (status)
			fail_msg("from %d, but %d, old %d: %x", cases[i / 2].first, cases[i / 2].but, old,
				 (unsigned)status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_close_files),
	};

	return cmocka_run_group_tests_name("child", tests, NULL, NULL);
}
