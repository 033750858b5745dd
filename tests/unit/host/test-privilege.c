/* SPDX-License-Identifier: MIT */

/*
 * Capabilities and levels, on a kernel that the test plays: which wants what, what becomes of CAP_SYS_ADMIN, and what
 * is said. The capabilities of this process are the test's as well: those of libcap's functions that ask the kernel
 * are its own.
 */

#include "counting/engine/perf/open.h"
#include "counting/session/cpu-canary.h"
#include "setup/count-restart.h"
#include "setup/tree.h"

#include <errno.h>
#include <string.h>
#include <sys/capability.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PERFMON (1ULL << CAP_PERFMON)
#define BPF (1ULL << CAP_BPF)
#define SYSLOG (1ULL << CAP_SYSLOG)
#define ADMIN (1ULL << CAP_SYS_ADMIN)

/* --- the capabilities that are played */

static struct {
	uint64_t permitted, effective, inheritable;
	int error; /* of capset(2) */
	int nr_get, nr_set;
} process;

static void fill(cap_t caps, cap_flag_t set, uint64_t bits)
{
	for (cap_value_t cap = 0; cap < 64; cap++)
		if (bits >> cap & 1)
			assert_int_equal(cap_set_flag(caps, set, 1, &cap, CAP_SET), 0);
}

static uint64_t bits_of(cap_t caps, cap_flag_t set)
{
	uint64_t bits = 0;

	for (cap_value_t cap = 0; cap < 64; cap++) {
		cap_flag_value_t value = CAP_CLEAR;

		if (cap_get_flag(caps, cap, set, &value) == 0 && value == CAP_SET)
			bits |= 1ULL << cap;
	}
	return bits;
}

cap_t __wrap_cap_get_proc(void);
int __wrap_cap_set_proc(cap_t caps);

cap_t __wrap_cap_get_proc(void)
{
	cap_t caps = cap_init();

	assert_non_null(caps);
	process.nr_get++;
	fill(caps, CAP_PERMITTED, process.permitted);
	fill(caps, CAP_EFFECTIVE, process.effective);
	fill(caps, CAP_INHERITABLE, process.inheritable);
	return caps;
}

int __wrap_cap_set_proc(cap_t caps)
{
	process.nr_set++;
	/* What is permitted is never given up here. */
	assert_int_equal(bits_of(caps, CAP_PERMITTED), process.permitted);
	assert_int_equal(bits_of(caps, CAP_EFFECTIVE) & ~process.permitted, 0);
	if (process.error) {
		errno = process.error;
		return -1;
	}
	process.effective = bits_of(caps, CAP_EFFECTIVE);
	process.inheritable = bits_of(caps, CAP_INHERITABLE);
	return 0;
}

/* Debian's kernel at level 3. */
static int refuse_without_admin(const struct fake_event *event, int nr_members)
{
	(void)event;
	(void)nr_members;
	return process.effective & ADMIN ? 0 : EACCES;
}

/* Other kernels at any level: what counts the kernel, or others, takes CAP_PERFMON. */
static int refuse_without_perfmon(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->cpu < 0 || process.effective & (PERFMON | ADMIN) ? 0 : EACCES;
}

static int setup(void **state)
{
	memset(&process, 0, sizeof(process));
	return world_setup(state);
}

/* --- what there is */

static const char first_namespace[] = "         0          0 4294967295\n";

static char *make_proc(const char *paranoid, const char *uid_map)
{
	char *root = tree_new(NULL);

	tree_folder(root, "self");
	if (paranoid)
		tree_text(root, "sys/kernel/perf_event_paranoid", paranoid);
	if (uid_map)
		tree_text(root, "self/uid_map", uid_map);
	return root;
}

static struct privilege read_on(const char *paranoid, const char *uid_map)
{
	char *root = make_proc(paranoid, uid_map);
	struct privilege privilege;

	privilege_read(&privilege, root);
	tree_free(root);
	return privilege;
}

/* part NULL: it may count CPUs. */
static void assert_may(const struct privilege *privilege, const char *part)
{
	struct reason why = {};

	if (privilege_may_count_cpus(privilege) != !part)
		fail_msg("may count CPUs: %d, not %d", privilege_may_count_cpus(privilege), !part);
	if (part)
		privilege_explain(privilege, &why);
	if (part && !strstr(why.text, part))
		fail_msg("'%s' has no '%s'", why.text, part);
}

static void test_levels(_unused_ void **state)
{
	static const struct {
		const char *paranoid;
		bool patched;
		uint64_t permitted, effective;
		int error; /* of capset(2) */
		bool wants, raises;
		const char *part;
	} cases[] = {
		{ "2\n", false, PERFMON, PERFMON, 0, false, false, NULL },
		{ "2\n", false, 0, 0, 0, false, false, "give the process CAP_PERFMON (kernel." },
		{ "0\n", false, 0, 0, 0, false, false, NULL },
		{ "-1\n", false, 0, 0, 0, false, false, NULL },
		/* A patched kernel at a level from which on it does not matter is not asked. */
		{ "2\n", true, PERFMON, PERFMON, 0, false, false, NULL },
		{ "3\n", true, PERFMON, PERFMON, 0, true, false, "set it to 2 (60-perfmond.conf), or give" },
		{ "3\n", true, PERFMON, PERFMON, 0, true, false, "(sys-admin.conf)" },
		{ "4\n", true, PERFMON, PERFMON, 0, true, false, "kernel.perf_event_paranoid is 4, and from 3 on" },
		{ "3\n", true, 0, 0, 0, true, false, "(60-perfmond.conf), which takes CAP_PERFMON as well, or" },
		/* Set so by hand, on a kernel that makes no difference. */
		{ "3\n", false, PERFMON, PERFMON, 0, false, false, NULL },
		{ "3\n", false, 0, 0, 0, false, false, "perf_event_paranoid is 3, and without the" },
		{ NULL, true, PERFMON, PERFMON, 0, true, false, "paranoid can't be read, and from 3" },
		{ NULL, false, PERFMON, PERFMON, 0, false, false, NULL },
		{ "many\n", false, 0, 0, 0, false, false, "give the process CAP_PERFMON" },
		/* Permitted: raised; in force, where it can't be set aside; and neither. */
		{ "3\n", true, PERFMON | ADMIN, PERFMON, 0, true, true, NULL },
		{ "3\n", true, ADMIN, 0, 0, true, true, NULL },
		{ "2\n", false, PERFMON | ADMIN, PERFMON, 0, false, true, NULL },
		{ "3\n", true, PERFMON | ADMIN, PERFMON | ADMIN, EPERM, false, false, NULL },
		{ "3\n", true, PERFMON | ADMIN, PERFMON, EPERM, true, false, "let the seccomp filter pass capset" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct privilege privilege;

		memset(&process, 0, sizeof(process));
		process.permitted = cases[i].permitted;
		process.effective = cases[i].effective;
		process.error = cases[i].error;
		fake_perf.refuse = cases[i].patched ? refuse_without_admin : refuse_without_perfmon;
		privilege = read_on(cases[i].paranoid, first_namespace);
		assert_int_equal(privilege.effective, cases[i].effective);
		assert_int_equal(process.effective, cases[i].effective);
		assert_int_equal(privilege.cap_perfmon, !!(cases[i].effective & PERFMON));
		assert_int_equal(privilege.wants_sys_admin, cases[i].wants);
		assert_int_equal(privilege.raises_sys_admin, cases[i].raises);
		assert_may(&privilege, cases[i].part);
		if (!(cases[i].permitted & ADMIN))
			assert_int_equal(process.nr_set, 0);
		assert_int_equal(fake_perf.nr_open, 0);
	}
}

/* Those of a user namespace are capabilities all the same, which perf events do not look at. */
static void test_user_namespace(_unused_ void **state)
{
	struct privilege privilege;

	process.permitted = process.effective = PERFMON | ADMIN;
	fake_perf.refuse = refuse_without_perfmon;
	privilege = read_on("2\n", "         0       1000          1\n");
	assert_int_equal(privilege.effective, PERFMON | ADMIN);
	assert_may(&privilege, "in a user namespace");
	privilege = read_on("0\n", "         0       1000          1\n");
	assert_may(&privilege, NULL);
	privilege = read_on("2\n", NULL);
	assert_may(&privilege, NULL);
}

static void test_changed(_unused_ void **state)
{
	struct privilege privilege;
	char *root = make_proc("3\n", first_namespace);

	privilege_read(&privilege, root);
	assert_false(privilege_has_changed(&privilege, root));
	tree_text(root, "sys/kernel/perf_event_paranoid", "2\n");
	assert_true(privilege_has_changed(&privilege, root));
	privilege_read(&privilege, root);
	assert_false(privilege_has_changed(&privilege, root));
	/* What can't be read, as for want of files, says nothing. */
	tree_remove(root, "sys/kernel/perf_event_paranoid");
	assert_false(privilege_has_changed(&privilege, root));
	assert_false(privilege_has_changed(&privilege, "/nonexistent"));
	tree_free(root);
}

/* --- file capabilities without the effective bit */

static void test_take_up(_unused_ void **state)
{
	struct reason why = {};

	/* Nothing else is raised, and nothing that is not permitted. */
	process.permitted = PERFMON | BPF | SYSLOG | ADMIN | 1ULL << CAP_DAC_OVERRIDE;
	process.inheritable = PERFMON;
	assert_int_equal(privilege_take_up(&why), 0);
	assert_int_equal(process.effective, PERFMON | BPF | SYSLOG);
	assert_int_equal(process.inheritable, PERFMON);
	assert_int_equal(process.nr_set, 1);
	assert_int_equal(privilege_take_up(&why), 0);
	assert_int_equal(process.nr_set, 1);

	process.permitted = PERFMON;
	process.effective = 0;
	assert_int_equal(privilege_take_up(&why), 0);
	assert_int_equal(process.effective, PERFMON);

	process.permitted = process.effective = 0;
	assert_int_equal(privilege_take_up(&why), 0);
	assert_int_equal(process.nr_set, 2);

	process.permitted = BPF;
	process.error = EPERM;
	assert_int_equal(privilege_take_up(&why), -EPERM);
	assert_non_null(strstr(why.text, "capset"));
	assert_int_equal(process.effective, 0);
}

/* --- CAP_SYS_ADMIN */

static void test_set_aside(_unused_ void **state)
{
	struct reason why = {};

	process.permitted = process.effective = process.inheritable = PERFMON | ADMIN;
	assert_int_equal(privilege_set_aside(&why), 0);
	assert_int_equal(process.permitted, PERFMON | ADMIN);
	assert_int_equal(process.effective, PERFMON);
	assert_int_equal(process.inheritable, PERFMON);
	assert_int_equal(process.nr_set, 1);

	/* It is once only, and where there is nothing to set aside capset(2), which may be forbidden, is not called. */
	assert_int_equal(privilege_set_aside(&why), 0);
	assert_int_equal(process.nr_set, 1);

	process.effective |= ADMIN;
	process.error = EPERM;
	assert_int_equal(privilege_set_aside(&why), -EPERM);
	assert_non_null(strstr(why.text, "SystemCallFilter=capset"));
	assert_int_equal(process.effective, PERFMON | ADMIN);
}

static int open_dummy(void)
{
	struct perf_event_attr attr = { .type = SW, .config = PERF_COUNT_SW_DUMMY, .size = sizeof(attr) };

	fake_perf.nr_calls = process.nr_get = process.nr_set = 0;
	return privilege_open_event(&attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

static void assert_opened(int fd, int calls, int sets)
{
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fake_perf.nr_calls, calls);
	assert_int_equal(process.nr_set, sets);
}

static void assert_refused(int fd, int error, int calls, int sets)
{
	assert_int_equal(fd, -error);
	assert_int_equal(fake_perf.nr_calls, calls);
	assert_int_equal(process.nr_set, sets);
}

static void test_raised_for_a_call(_unused_ void **state)
{
	process.permitted = PERFMON | ADMIN;
	process.effective = PERFMON;

	/* What is allowed costs nothing more. */
	fake_perf.refuse = refuse_without_perfmon;
	assert_opened(open_dummy(), 1, 0);
	assert_int_equal(process.nr_get, 0);

	fake_perf.refuse = refuse_without_admin;
	assert_opened(open_dummy(), 2, 2);
	assert_int_equal(process.effective, PERFMON);

	/* Refused with it as well, or because of something else. */
	fake_perf.refuse = refuse_all;
	fake_perf.error = EPERM;
	assert_refused(open_dummy(), EPERM, 2, 2);
	assert_int_equal(process.effective, PERFMON);
	fake_perf.error = ENOENT;
	assert_refused(open_dummy(), ENOENT, 1, 0);
	assert_int_equal(process.nr_get, 0);

	fake_perf.refuse = refuse_without_admin;
	process.error = EPERM;
	assert_refused(open_dummy(), EACCES, 1, 1);
	assert_int_equal(process.effective, PERFMON);

	process.error = 0;
	process.permitted = PERFMON;
	assert_refused(open_dummy(), EACCES, 1, 0);
}

/* What is counted, from CPUs to canaries, with nothing in force before, between and after. */
static void test_all_is_opened(void **state)
{
	struct count_world *w = *state;
	struct cpu_canary canary;

	process.permitted = PERFMON | ADMIN;
	process.effective = PERFMON;
	fake_perf.refuse = refuse_without_admin;
	w->privilege = read_on("3\n", first_namespace);
	w->privilege.fd_limit = 1000;
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < w->plan->scope[scope].nr_columns; i++)
			assert_state(w, (enum scope)scope, i, EVENT_OK, NULL);
	cpu_canary_open(&canary, 0, 1);
	assert_true(canary.fd >= 0);
	cpu_canary_close(&canary);
	assert_int_equal(process.effective, PERFMON);
}

/* The kernel has come to want more since the plan was made. */
static void test_refused_later(void **state)
{
	struct count_world *w = *state;
	struct reason why;
	int r;

	process.permitted = process.effective = PERFMON;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	fake_perf.refuse = refuse_without_admin;
	w->privilege = read_on("3\n", first_namespace);
	w->privilege.fd_limit = 1000;
	r = session_add_cgroup(w->session, w->tree, find_cgroup(w, "/a"), &why);
	assert_int_equal(r, CGROUP_FAILED);
	assert_non_null(strstr(why.text, "not permitted: kernel.perf_event_paranoid is 3, and from 3 on"));
}

static void add_software(struct count_world *w)
{
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
}

/* The plan of the instance after a restart, to which the kernel says no, where the one before was let. */
static void plan_after_restart(struct count_world *w, bool with_files)
{
	struct saved saved = {};
	struct stored_pool pool = { .max = SIZE_MAX };
	struct reason why = {};
	int r;

	fake_perf.refuse = NULL;
	add_software(w);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	add_cgroup(w, "/a");
	stop(w, &saved);
	if (with_files)
		fill_pool(&pool, &saved, NONE_MISSING);
	for (size_t i = 0; i < saved.nr && !with_files; i++)
		close(saved.fds[i]);
	r = session_restore(&w->session, saved.image.data, saved.image.len, BOOT, &w->privilege, &pool, &why);
	assert_int_equal(r, 0);
	buf_release(&saved.image);
	stored_pool_release(&pool);

	fake_perf.refuse = refuse_without_admin;
	w->privilege = read_on("3\n", first_namespace);
	add_software(w);
	make_plan(w);
}

/* What goes on with its files needs no leave. Of what has only its totals, it is not known whether it can be opened
 * any more: it would be called counted, and let each cgroup fail. */
static void test_denied_after_a_restart(void **state)
{
	struct count_world *w = *state;

	process.permitted = process.effective = PERFMON;
	make_dir(w, "a");
	for (int with_files = 1; with_files >= 0; with_files--) {
		plan_after_restart(w, with_files);
		for (int scope = 0; scope < _SCOPE_MAX; scope++) {
			const struct scope_plan *plan = &w->plan->scope[scope];

			assert_int_equal(plan->nr_sets, with_files ? 1 : 0);
			for (size_t i = 0; i < plan->nr_columns; i++)
				assert_int_equal(plan->columns[i].state, with_files ? EVENT_OK : EVENT_DENIED);
		}
		w->session = session_free(w->session);
		w->plan = plan_unref(w->plan);
		w->tree = cgroup_tree_free(w->tree);
	}
}

/* --- sentences of what takes more than the others */

static void test_sentences(_unused_ void **state)
{
	static const struct {
		uint32_t type;
		const char *pmu;
		bool perfmon, admin;
		int raise_error, paranoid;
		const char *part;
	} cases[] = {
		{ 7, "uprobe", true, false, 0, 2, "for uprobes, as newer ones do: sys-admin.conf" },
		{ 7, "uprobe", true, false, -EPERM, 2, "let the seccomp filter pass capset" },
		{ PERF_TYPE_BREAKPOINT, "breakpoint", true, false, 0, 2, "needs CAP_SYS_ADMIN: sys-admin.conf" },
		{ 6, "kprobe", false, false, 0, 0, "this event needs CAP_PERFMON" },
		{ 6, "kprobe", true, false, 0, 2, "in spite of CAP_PERFMON: a seccomp filter" },
		{ 6, "kprobe", true, true, 0, 2, "in spite of CAP_SYS_ADMIN: a seccomp filter" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char text[] = "the event", pmu[32];
		const struct event event = { .text = text,
					     .pmu = strcpy(pmu, cases[i].pmu),
					     .attr = { .type = cases[i].type } };
		const struct privilege privilege = {
			.paranoid = cases[i].paranoid,
			.cap_perfmon = cases[i].perfmon,
			.cap_sys_admin = cases[i].admin,
			.raise_error = cases[i].raise_error,
		};
		struct reason why;

		assert_int_equal(perf_open_explain(-EACCES, &event, SCOPE_CPU, 0, &privilege, &why), EVENT_DENIED);
		if (!strstr(why.text, cases[i].part))
			fail_msg("%s: '%s' has no '%s'", cases[i].pmu, why.text, cases[i].part);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_levels),    TEST(test_user_namespace),    TEST(test_changed),
		TEST(test_take_up),   TEST(test_raised_for_a_call), TEST(test_all_is_opened),
		TEST(test_set_aside), TEST(test_refused_later),	    TEST(test_denied_after_a_restart),
		TEST(test_sentences),
	};

	return cmocka_run_group_tests_name("privilege", tests, NULL, NULL);
}
