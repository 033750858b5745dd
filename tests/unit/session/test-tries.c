/* SPDX-License-Identifier: MIT */

/* What trying events leaves open, where closing it would take its time: a tracepoint's last event. */

#include "setup/count-world.h"
#include "setup/fake-async-close.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TP PERF_TYPE_TRACEPOINT

enum { NR = 50 };

static int setup(void **state)
{
	slow = (struct async_close){};
	if (world_setup(state) < 0)
		return -1;
	((struct count_world *)*state)->options.closer = &slow;
	return 0;
}

/* The last are the closer's to close. */
static int teardown(void **state)
{
	struct count_world *w = *state;

	w->session = session_free(w->session);
	w->plan = plan_unref(w->plan);
	close_slow();
	return world_teardown(state);
}

/* So many tracepoints, each a set of its own; those of the cgroups are others than those of the CPUs. */
static struct group *add_tracepoints(struct count_world *w, enum scope scope)
{
	struct text_event events[NR] = {};
	char names[NR][32];
	struct group *group;

	for (size_t i = 0; i < NR; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "t%zu", i);
		events[i] = (struct text_event){ names[i], TP, 1000 * (uint64_t)scope + i };
	}
	group = add_group(w, scope, "traced", true, events, NR);
	for (size_t i = 0; i < NR; i++)
		group->events.events[i].software = true;
	return group;
}

static void test_no_try_is_slow(void **state)
{
	struct count_world *w = *state;

	make_dir(w, "a");
	add_tracepoints(w, SCOPE_CPU);
	add_tracepoints(w, SCOPE_CGROUP);
	make_plan(w);
	assert_int_equal(fake_perf.nr_slow, 0);
	assert_int_equal(w->plan->tried.nr, 2 * NR);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(w->plan->tried.nr, 2 * NR);
	assert_int_equal(slow.nr, 0);

	/* With the first cgroup all is open somewhere. */
	add_cgroup(w, "/a");
	assert_int_equal(w->plan->tried.nr, 0);
	assert_int_equal(slow.nr, 2 * NR);
	close_slow();
	assert_int_equal(fake_perf.nr_slow, 0);
	assert_int_equal(fake_perf.nr_open, 2 * 3 * NR);
	assert_int_equal(session_stats(w->session).fds, fake_perf.nr_open);
	/* Whoever opens such events does not wait for the closer with each of them. */
	assert_int_equal(slow.nr_pauses, 2);
}

/* Where there is no cgroup to open, somebody has to say that all is opened. */
static void test_tries_end(void **state)
{
	struct count_world *w = *state;

	add_tracepoints(w, SCOPE_CPU);
	add_tracepoints(w, SCOPE_CGROUP);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	session_end_tries(w->session);
	assert_int_equal(w->plan->tried.nr, 0);
	assert_int_equal(slow.nr, 2 * NR);
	session_end_tries(w->session);
	assert_int_equal(slow.nr, 2 * NR);
	assert_int_equal(fake_perf.nr_slow, 0);
}

static void test_given_up(void **state)
{
	struct count_world *w = *state;

	add_tracepoints(w, SCOPE_CPU);
	start(w);
	w->session = session_free(w->session);
	assert_int_equal(slow.nr, NR);
	assert_int_equal(fake_perf.nr_slow, 0);
}

/* A config that is wrong is found to be so before anything is opened, also where that is wrong with cgroups' events. */
static void test_wrong_names(void **state)
{
	static const struct text_event twice[] = { { "t", TP, 1 }, { "t", TP, 2 } };
	struct count_world *w = *state;
	struct reason why;

	add_tracepoints(w, SCOPE_CPU);
	add_group(w, SCOPE_CGROUP, "twice", true, twice, 2);
	assert_int_equal(try_plan(w, &why), -EEXIST);
	assert_int_equal(fake_perf.nr_calls, 0);
}

/* They are open when the kernel is asked for the filter. */
static void test_refused_filters(void **state)
{
	struct count_world *w = *state;
	struct group *group = add_tracepoints(w, SCOPE_CPU);

	fake_perf.bad_filter = "nonsense";
	for (size_t i = 0; i < NR; i++)
		group->events.events[i].filter = strdup("nonsense");
	make_plan(w);
	for (size_t i = 0; i < NR; i++)
		assert_int_equal(w->plan->scope[SCOPE_CPU].columns[i].state, EVENT_FAILED);
	assert_int_equal(fake_perf.nr_slow, 0);
	assert_int_equal(w->plan->tried.nr, NR);
}

/* Tries find room as before, however little of it there is: they give way to those that come. */
static void test_short_of_files_while_trying(void **state)
{
	struct count_world *w = *state;

	fake_perf.limit = 10;
	fake_perf.refuse = refuse_beyond_limit;
	add_tracepoints(w, SCOPE_CPU);
	make_plan(w);
	for (size_t i = 0; i < NR; i++)
		assert_int_equal(w->plan->scope[SCOPE_CPU].columns[i].state, EVENT_OK);
	assert_in_range(w->plan->tried.nr, 1, 10);
}

/* … and to what is counted. */
static void test_short_of_files(void **state)
{
	struct count_world *w = *state;

	make_dir(w, "a");
	add_tracepoints(w, SCOPE_CPU);
	add_tracepoints(w, SCOPE_CGROUP);
	w->privilege.fd_limit = w->options.fd_reserve + 2 * 3 * NR;
	start(w);
	fake_perf.limit = (int)w->privilege.fd_limit;
	fake_perf.refuse = refuse_beyond_limit;
	assert_int_equal(session_add_cpus(w->session), 0);
	add_cgroup(w, "/a");
	assert_int_equal(fake_perf.nr_open, 2 * 3 * NR);
	assert_int_equal(slow.nr, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, NR - 1, EVENT_OK, NULL);
	assert_state(w, SCOPE_CGROUP, NR - 1, EVENT_OK, NULL);
}

/* --- groups that do not fit */

/* The PMU takes the group and runs few of it: how many is found by halves, and not one by one. */
static void test_a_large_group_is_split(void **state)
{
	enum { MEMBERS = 60 };
	static const char text[MEMBERS][8];
	struct text_event events[MEMBERS];
	struct count_world *w = *state;
	struct group *group;

	for (uint64_t i = 0; i < MEMBERS; i++)
		events[i] = (struct text_event){ text[i], HW, i };
	group = add_group(w, SCOPE_CPU, "big", false, events, MEMBERS);
	group->split = true;
	for (size_t i = 0; i < MEMBERS; i++) {
		free(group->events.events[i].metric);
		assert_true(asprintf(&group->events.events[i].metric, "m%zu", i) > 0);
	}
	fake_perf.counters = 4;
	make_plan(w);
	assert_int_equal(w->plan->scope[SCOPE_CPU].nr_sets, MEMBERS / 4);
	for (size_t i = 0; i < MEMBERS / 4; i++)
		assert_int_equal(w->plan->scope[SCOPE_CPU].sets[i].nr, 4);
	/* Each part: the group, the whole of it, its half, … */
	assert_in_range(fake_perf.nr_calls, MEMBERS, MEMBERS + 4 * MEMBERS * MEMBERS / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_try_is_slow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tries_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_given_up, setup, teardown),
		cmocka_unit_test_setup_teardown(test_wrong_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused_filters, setup, teardown),
		cmocka_unit_test_setup_teardown(test_short_of_files_while_trying, setup, teardown),
		cmocka_unit_test_setup_teardown(test_short_of_files, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_large_group_is_split, setup, teardown),
	};

	return cmocka_run_group_tests_name("tries", tests, NULL, NULL);
}
