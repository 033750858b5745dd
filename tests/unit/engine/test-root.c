/* SPDX-License-Identifier: MIT */

/* The root cgroup, which is counted by the CPUs' events. The world's top directory plays the root. */

#include "base/cgroup/identity.h"
#include "setup/count-restart.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ALL ROW_ALL_CPUS

static struct cgroup *add_root(struct count_world *w)
{
	find_cgroup(w, "/")->identity->id = CGROUP_ROOT_ID;
	return add_cgroup(w, "/");
}

/* Both scopes count "core"; "tasks" is counted in cgroups only. */
static struct cgroup *start_both(struct count_world *w)
{
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "tasks", false, software, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	return add_root(w);
}

static void test_no_events_of_its_own(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *root = start_both(w);
	int nr;

	/* Two events on each of three CPUs, and for the root the two of the other group, of whole CPUs. */
	assert_int_equal(fake_perf.nr_open, 6 + 6);
	assert_int_equal(session_stats(w->session).fds, 6 + 6);
	assert_non_null(fake_find(SW, 2, 5, 0));
	nr = fake_perf.nr_calls;
	session_tick(w->session, NULL);
	assert_cell(w, ALL, root, 0, true, 0);

	/* Scaled as on each CPU, and the sum of them. */
	fake_run(0, 0, 1000, 1000, 10);
	fake_run(0, 1, 1000, 500, 100);
	fake_run(0, 5, 1000, 1000, 1000);
	session_tick(w->session, NULL);
	for (size_t column = 0; column < 2; column++) {
		assert_cell(w, 1, NULL, column, true, 200);
		assert_cell(w, ALL, root, column, true, 10 + 200 + 1000);
	}
	assert_cell(w, ALL, root, 2, true, 10 + 100 + 1000);
	assert_int_equal(row_of(w, ALL, root)->times[0].enabled, 3000);
	assert_int_equal(row_of(w, ALL, root)->times[0].running, 2500);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_MULTIPLEXED, "83 %");
	assert_int_equal(fake_perf.nr_calls, nr);

	/* What waits for the PMU on one CPU waits in the root as well. */
	fake_run(0, 0, 1000, 0, 0);
	fake_run(0, 1, 1000, 1000, 1);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, root, 0, true, 1211);
	fake_run(0, 0, 1000, 1000, 5);
	session_tick(w->session, NULL);
	assert_cell(w, 0, NULL, 0, true, 10 + 10);
	assert_cell(w, ALL, root, 0, true, 1221);

	session_remove_cgroup(w->session, root, false);
	assert_int_equal(fake_perf.nr_open, 6);
}

static void test_per_cpu(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *root;

	w->options.cgroup_per_cpu = true;
	root = start_both(w);
	fake_run(0, 1, 1000, 1000, 7);
	session_read(w->session);
	assert_cell(w, 1, root, 0, true, 7);
	assert_cell(w, 5, root, 0, true, 0);
	assert_cell(w, 1, root, 2, true, 7);
}

/* A CPU whose events can't be read leaves no sum, and its failure is the cgroups' too. */
static void test_a_cpu_that_fails(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *root = start_both(w);

	fake_run(0, 0, 1000, 1000, 7);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, root, 0, true, 7);
	fake_find(HW, 0, 1, 0)->read_errno = EIO;
	session_tick(w->session, NULL);
	assert_cell(w, ALL, root, 0, false, 7);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_FAILED, "CPU 1");
	fake_find(HW, 0, 1, 0)->read_errno = 0;
	fake_run(0, 1, 1000, 1000, 7);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, root, 0, true, 14);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, NULL);
}

/* Groups that differ in an event, or in what an event leaves out, are not the same. */
static void test_what_differs_is_opened(void **state)
{
	struct count_world *w = *state;
	struct group *group;

	add_group(w, SCOPE_CPU, "core", true, cycles, 2);
	group = add_group(w, SCOPE_CGROUP, "core", true, cycles, 2);
	group->events.events[0].attr.exclude_kernel = 1;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	(void)add_root(w);
	assert_int_equal(fake_perf.nr_open, 6 + 3 + 3); /* and its clocks */
}

static struct cgroup *counted_before(struct count_world *w)
{
	struct cgroup *root = start_both(w);

	(void)add_cgroup(w, "/a");
	fake_run(0, 0, 1000, 1000, 10);
	fake_run(0, 1, 1000, 500, 100);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, root, 0, true, 210);
	return root;
}

/* tasks: of the group that has events of its own for the root. */
static void assert_went_on(struct count_world *w, const struct cgroup *root, uint64_t core, uint64_t tasks)
{
	assert_cell(w, ALL, root, 0, true, core);
	assert_cell(w, ALL, root, 2, true, tasks);
	fake_run(0, 5, 1000, 1000, 4);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, root, 0, true, core + 4);
	assert_cell(w, ALL, root, 2, true, tasks + 4);
}

/* The CPUs' events go on, and the root's counts with them: also what happens meanwhile. */
static void test_reload(void **state)
{
	struct count_world *w = *state;
	struct cgroup *root;
	struct session *from;

	make_dir(w, "a");
	root = counted_before(w);
	fake_run(0, 1, 1000, 1000, 1);
	from = w->session;
	takeover_begin(w, from);
	assert_int_equal(session_add_cpus(w->session), 0);
	fake_run(0, 1, 1000, 1000, 1);
	(void)add_cgroup(w, "/");
	(void)add_cgroup(w, "/a");
	fake_run(0, 1, 1000, 1000, 1);
	takeover_end(w, from);
	assert_went_on(w, root, 213, 113);
}

static void test_restart(void **state)
{
	struct count_world *w = *state;
	struct cgroup *root;
	struct saved saved;
	struct session *from;

	make_dir(w, "a");
	root = counted_before(w);
	stop(w, &saved);
	/* While there is no daemon. */
	fake_run(0, 5, 1000, 1000, 30);
	from = restore(w, &saved, NONE_MISSING);
	fake_run(0, 5, 1000, 1000, 3);
	takeover_begin(w, from);
	assert_int_equal(session_add_cpus(w->session), 0);
	(void)add_cgroup(w, "/");
	(void)add_cgroup(w, "/a");
	takeover_end(w, from);
	assert_went_on(w, root, 243, 143);
}

/* The next count, with the groups that have been added since. */
static void reload_with(struct count_world *w, uint64_t meanwhile)
{
	struct session *from = reload_begin(w);

	/* On the CPU, and so in the root, whichever events are read for it. */
	fake_run(0, 1, 1000, 1000, meanwhile);
	assert_int_equal(session_add_cpus(w->session), 0);
	fake_run(0, 1, 1000, 1000, meanwhile);
	(void)add_cgroup(w, "/");
	fake_run(0, 1, 1000, 1000, meanwhile);
	takeover_end(w, from);
}

/* What the root counted by events of its own is counted by the CPUs' from then on, whether these are new or go on, and
 * nothing twice. */
static void test_own_events_become_the_cpus(void **state)
{
	struct count_world *w = *state;
	struct cgroup *root;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 1);
	add_group(w, SCOPE_CGROUP, "tasks", false, software, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	root = add_root(w);
	fake_run(0, 1, 1000, 1000, 10);
	session_tick(w->session, NULL);
	assert_cell(w, ALL, root, 0, true, 10);

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CPU, "tasks", false, software, 2);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "tasks", false, software, 2);
	reload_with(w, 7);
	assert_int_equal(fake_perf.nr_open, 6 + 6);
	assert_cell(w, ALL, root, 0, true, 10 + 3 * 7);
	assert_cell(w, 1, NULL, 0, true, 10 + 3 * 7);
	assert_cell(w, ALL, root, 2, true, 10 + 3 * 7);
	fake_run(0, 5, 1000, 1000, 4);
	session_tick(w->session, NULL);
	for (size_t column = 0; column < 4; column++)
		assert_state(w, SCOPE_CGROUP, column, EVENT_OK, NULL);
	assert_cell(w, ALL, root, 0, true, 35);
	assert_cell(w, ALL, root, 2, true, 35);
}

static int refuse_cpu_1(const struct fake_event *event, int nr_members)
{
	return event->cpu == 1 && nr_members == 0 && event->attr.type == HW ? EIO : 0;
}

/* A sum of some CPUs is no sum, from the first reading on; and the cgroups' state says why. */
static void test_a_cpu_that_is_not_open(void **state)
{
	struct count_world *w = *state;
	const struct cgroup *root;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	start(w);
	fake_perf.refuse = refuse_cpu_1;
	assert_int_equal(session_add_cpus(w->session), 0);
	root = add_root(w);
	fake_run(0, 0, 1000, 1000, 10);
	session_tick(w->session, NULL);
	assert_cell(w, 0, NULL, 0, true, 10);
	assert_cell(w, ALL, root, 0, false, 10);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_FAILED, "CPU 1");
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_WORLD(test_no_events_of_its_own),
		IN_WORLD(test_per_cpu),
		IN_WORLD(test_a_cpu_that_fails),
		IN_WORLD(test_what_differs_is_opened),
		IN_WORLD(test_reload),
		IN_WORLD(test_restart),
		IN_WORLD(test_own_events_become_the_cpus),
		IN_WORLD(test_a_cpu_that_is_not_open),
	};

	return cmocka_run_group_tests_name("root", tests, NULL, NULL);
}
