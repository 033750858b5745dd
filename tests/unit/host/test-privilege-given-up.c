/* SPDX-License-Identifier: MIT */

/*
 * The profiler's capabilities are given up for good: in children, by the kernel itself. This program, with an argument,
 * is that which a child executes to find out what it can have again.
 */

#include "base/host/privilege.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const cap_value_t profilers[] = { CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE };
static const cap_value_t countings[] = { CAP_SYSLOG, CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_SETPCAP };

static bool is_in(cap_value_t cap, cap_flag_t set)
{
	cap_t caps = cap_get_proc();
	cap_flag_value_t value = CAP_CLEAR;
	bool is = caps && cap_get_flag(caps, cap, set, &value) == 0 && value == CAP_SET;

	(void)cap_free(caps);
	return is;
}

static bool change(cap_flag_t set, const cap_value_t *which, int nr, cap_flag_value_t value)
{
	cap_t caps = cap_get_proc();
	bool done = caps && cap_set_flag(caps, set, nr, which, value) == 0 && cap_set_proc(caps) == 0;

	(void)cap_free(caps);
	return done;
}

/* Puts both parties' into all sets: this process is root. */
static bool fill_all_sets(void)
{
	if (!change(CAP_INHERITABLE, profilers, ARRAY_SIZE(profilers), CAP_SET) ||
	    !change(CAP_INHERITABLE, countings, ARRAY_SIZE(countings), CAP_SET))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(profilers); i++)
		if (cap_set_ambient(profilers[i], CAP_SET) < 0 || !is_in(profilers[i], CAP_EFFECTIVE))
			return false;
	for (size_t i = 0; i < ARRAY_SIZE(countings); i++)
		if (cap_set_ambient(countings[i], CAP_SET) < 0)
			return false;
	return true;
}

/* In all of its sets, but for the bounding one. */
static bool is_everywhere(cap_value_t cap)
{
	return is_in(cap, CAP_EFFECTIVE) && is_in(cap, CAP_PERMITTED) && is_in(cap, CAP_INHERITABLE) &&
	       cap_get_ambient(cap) == 1;
}

static bool is_nowhere(cap_value_t cap)
{
	return !is_in(cap, CAP_EFFECTIVE) && !is_in(cap, CAP_PERMITTED) && !is_in(cap, CAP_INHERITABLE) &&
	       cap_get_ambient(cap) == 0;
}

static bool tells_that_it_keeps_them(void)
{
	struct privilege privilege;

	privilege_read(&privilege, "/proc");
	return privilege.keeps_profilers;
}

static bool forbid_capset(int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_capset, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

/* The exit status of a child that is forked: 0, or the number of what is wrong. */
static void assert_child(int (*run)(int argument), int argument)
{
	pid_t child = fork();
	int status;

	if (child == 0)
		_exit(run(argument));
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		fail_msg("argument %d: status %x", argument, (unsigned)status);
}

static int check_given_up(bool with_bound)
{
	for (size_t i = 0; i < ARRAY_SIZE(profilers); i++)
		if (!is_nowhere(profilers[i]) || cap_get_bound(profilers[i]) != with_bound)
			return 10;
	for (size_t i = 0; i < ARRAY_SIZE(countings); i++)
		if (countings[i] != CAP_SETPCAP && (!is_everywhere(countings[i]) || cap_get_bound(countings[i]) != 1))
			return 11;
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 12;
	/* Capabilities that were given up do not come back. */
	return change(CAP_PERMITTED, profilers, 1, CAP_SET) || tells_that_it_keeps_them() ? 13 : 0;
}

static int give_up(int with_setpcap)
{
	static const cap_value_t setpcap = CAP_SETPCAP;
	struct reason why;
	int r;

	if (!fill_all_sets() || !tells_that_it_keeps_them() || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 0)
		return 1;
	if (!with_setpcap && !change(CAP_EFFECTIVE, &setpcap, 1, CAP_CLEAR))
		return 2;
	if (privilege_give_up_profilers(&why) < 0)
		return 3;
	r = check_given_up(!with_setpcap);
	if (r != 0)
		return r;
	/* A second time, there is nothing to do. */
	return privilege_give_up_profilers(&why) < 0 ? 4 : 0;
}

static void test_given_up(_unused_ void **state)
{
	assert_child(give_up, true);
	assert_child(give_up, false);
}

/* root gets all capabilities of the bounding set by an exec, but for no_new_privs. */
static int give_up_and_execute(int with_setpcap)
{
	int r = give_up(with_setpcap);

	if (r == 0)
		(void)execl("/proc/self/exe", "test", "executed", NULL);
	return r ? r : 20;
}

static void test_exec_does_not_gain_them(_unused_ void **state)
{
	assert_child(give_up_and_execute, true);
	assert_child(give_up_and_execute, false);
}

static int give_up_without_capset(int error)
{
	struct reason why = {};

	if (!forbid_capset(error))
		return 1;
	if (privilege_give_up_profilers(&why) != -error || !strstr(why.text, "(SystemCallFilter=capset)"))
		return 2;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 && is_in(CAP_SYS_PTRACE, CAP_EFFECTIVE) &&
			       tells_that_it_keeps_them() ?
		       0 :
		       3;
}

static void test_capset_is_refused(_unused_ void **state)
{
	assert_child(give_up_without_capset, EPERM);
	assert_child(give_up_without_capset, ENOSYS);
}

/* capset(2) is not called, which may be forbidden. */
static int give_up_nothing(int error)
{
	struct reason why;

	for (cap_flag_t set = CAP_EFFECTIVE; set <= CAP_INHERITABLE; set++)
		if (!change(set, profilers, ARRAY_SIZE(profilers), CAP_CLEAR))
			return 1;
	if (!forbid_capset(error) || tells_that_it_keeps_them())
		return 2;
	return privilege_give_up_profilers(&why) < 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 ? 3 : 0;
}

static void test_nothing_to_give_up(_unused_ void **state)
{
	assert_child(give_up_nothing, EPERM);
}

int main(int argc, _unused_ char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_given_up),
		cmocka_unit_test(test_exec_does_not_gain_them),
		cmocka_unit_test(test_capset_is_refused),
		cmocka_unit_test(test_nothing_to_give_up),
	};

	if (argc == 2)
		return is_nowhere(CAP_SYS_PTRACE) && is_nowhere(CAP_CHECKPOINT_RESTORE) ? 0 : 21;
	return cmocka_run_group_tests_name("privilege-given-up", tests, NULL, NULL);
}
