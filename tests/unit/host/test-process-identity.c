/* SPDX-License-Identifier: MIT */

/* Which process has a pid, on the kernel that runs. */

#include "base/host/process-identity.h"

#include <errno.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void test_identity(void **state)
{
	uint64_t own, again, other;
	pid_t pid;

	(void)state;
	assert_int_equal(process_identity((uint32_t)getpid(), &own), 0);
	assert_int_equal(process_identity((uint32_t)getpid(), &again), 0);
	assert_int_equal(own, again);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	assert_int_equal(process_identity((uint32_t)pid, &other), 0);
	/* Kernels before 6.9 tell neither. */
	assert_true(own == 0 ? other == 0 : other != 0 && other != own);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_identity((uint32_t)pid, &other), -ESRCH);
	assert_int_equal(process_identity(0, &other), -ESRCH);
	assert_int_equal(process_identity(UINT32_MAX, &other), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_identity) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
