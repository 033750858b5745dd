/* SPDX-License-Identifier: MIT */

/* A PMU of which not all counters count, on a kernel that the test plays: never more events of ours are on it at once
 * than count. */

#include "counting/plan/build.h"
#include "setup/count-world.h"
#include "setup/machines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ADVERTISED 6
#define USABLE 5

static const struct text_event twelve[] = {
	{ "e0", HW, 0 }, { "e1", HW, 1 }, { "e2", HW, 2 }, { "e3", HW, 3 }, { "e4", HW, 4 },  { "e5", HW, 5 },
	{ "e6", HW, 6 }, { "e7", HW, 7 }, { "e8", HW, 8 }, { "e9", HW, 0 }, { "e10", HW, 1 }, { "e11", HW, 2 },
};

static struct machine begin(void)
{
	fake_perf.counters = ADVERTISED;
	fake_perf.usable = USABLE;
	fake_perf.by_reading = 1000;
	return machine_new(machine_zen);
}

static void add_pinned(struct count_world *w, enum scope scope, const char *name, size_t at, size_t nr)
{
	if (nr)
		add_group(w, scope, name, false, &twelve[at], nr)->events.events[0].attr.pinned = 1;
}

static void add_flexible(struct count_world *w, enum scope scope, const char *name, size_t at, size_t nr)
{
	if (nr)
		add_group(w, scope, name, false, &twelve[at], nr)->split = true;
}

static void assert_why(const struct count_world *w, enum scope scope, size_t at, const char *part)
{
	const struct column *column = &w->plan->scope[scope].columns[at];

	assert_int_equal(column->state, EVENT_NEVER_SCHEDULED);
	assert_int_equal(column->set, NO_SET);
	if (!strstr(column->why, part))
		fail_msg("%s", column->why);
}

/* How many events of ours the kernel can run on CPU 0 at once: all that are pinned, and of those that are not, a single
 * group where they are exclusive. */
static size_t most_at_once(void)
{
	size_t nr[FAKE_MAX] = {}, pinned = 0, all = 0, largest = 0;
	bool exclusive = true;

	for (int i = 0; i < fake_perf.nr; i++)
		if (fake_perf.events[i].open && fake_perf.events[i].cpu == 0 && fake_perf.events[i].attr.type == HW)
			nr[fake_perf.events[i].leader]++;
	for (int i = 0; i < fake_perf.nr; i++) {
		if (!nr[i])
			continue;
		if (fake_perf.events[i].attr.pinned) {
			pinned += nr[i];
			continue;
		}
		exclusive = exclusive && fake_perf.events[i].attr.exclusive;
		all += nr[i];
		largest = nr[i] > largest ? nr[i] : largest;
	}
	return pinned + (exclusive ? largest : all);
}

static size_t nr_counted(const struct count_world *w)
{
	size_t nr = 0;

	for (size_t i = 0; i < w->plan->scope[SCOPE_CPU].nr_columns; i++)
		nr += w->plan->scope[SCOPE_CPU].columns[i].set != NO_SET;
	return nr;
}

/* Whatever is configured: two pinned groups and two others on CPUs, of all sizes. */
static void test_never_more_than_count(void **state)
{
	struct count_world *w = *state;
	struct machine machine = begin();

	w->env = &machine.env;
	for (size_t i = 0; i < 7 * 7 * 7 * 7; i++) {
		size_t sizes[] = { i % 7, i / 7 % 7, i / 49 % 7, i / 343 };

		/* Only so many have names of their own. */
		if (i == 0 || sizes[0] + sizes[1] + sizes[2] + sizes[3] > ARRAY_SIZE(twelve) || i % 3)
			continue;
		fake_perf.nr = fake_perf.nr_open = 0;
		add_pinned(w, SCOPE_CPU, "p", 0, sizes[0]);
		add_pinned(w, SCOPE_CPU, "q", sizes[0], sizes[1]);
		add_flexible(w, SCOPE_CPU, "f", sizes[0] + sizes[1], sizes[2]);
		add_flexible(w, SCOPE_CPU, "g", sizes[0] + sizes[1] + sizes[2], sizes[3]);
		make_plan(w);
		start(w);
		(void)session_add_cpus(w->session);
		if (most_at_once() > USABLE)
			fail_msg("%zu events at once, of %zu and %zu that are pinned, and %zu and %zu", most_at_once(),
				 sizes[0], sizes[1], sizes[2], sizes[3]);
		/* Without pinned ones all are counted. */
		if (sizes[0] + sizes[1] == 0)
			assert_int_equal(nr_counted(w), sizes[2] + sizes[3]);
		w->session = session_free(w->session);
		w->tree = cgroup_tree_free(w->tree);
	}
	machine_release(&machine);
}

/* Twelve in one group, beside cgroups: in parts, each of which has the PMU to itself. */
static void test_twelve_events(void **state)
{
	struct count_world *w = *state;
	struct machine machine = begin();

	w->env = &machine.env;
	make_dir(w, "a");
	make_dir(w, "a/x");
	add_flexible(w, SCOPE_CPU, "all", 0, 12);
	add_flexible(w, SCOPE_CGROUP, "all", 0, 12);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	(void)add_cgroup(w, "/a");
	(void)add_cgroup(w, "/a/x");
	assert_int_equal(w->plan->scope[SCOPE_CPU].nr_sets, 3);
	assert_int_equal(nr_counted(w), 12);
	assert_int_equal(most_at_once(), USABLE);
	machine_release(&machine);
}

static void test_beside_pinned(void **state)
{
	struct count_world *w = *state;
	struct machine machine = begin();

	w->env = &machine.env;
	for (int i = 0; i < 2; i++) {
		add_pinned(w, SCOPE_CPU, "pinned", 0, 2);
		add_flexible(w, SCOPE_CPU, "rest", 2, 4);
		make_plan(w);
		assert_int_equal(w->plan->scope[SCOPE_CPU].nr_sets, 3);
		assert_int_equal(w->plan->scope[SCOPE_CPU].sets[1].nr, 3);
	}
	/* It may not be split, or none is left for it. */
	add_pinned(w, SCOPE_CPU, "pinned", 0, 2);
	add_group(w, SCOPE_CPU, "rest", false, &twelve[2], 4);
	make_plan(w);
	assert_why(w, SCOPE_CPU, 2, "only 5 count at once, as a test has shown, and pinned events hold some of those");
	add_pinned(w, SCOPE_CPU, "pinned", 0, 5);
	add_flexible(w, SCOPE_CPU, "rest", 5, 1);
	make_plan(w);
	assert_why(w, SCOPE_CPU, 5, "and pinned events hold some of those: make it smaller");
	assert_int_equal(w->plan->scope[SCOPE_CPU].nr_sets, 1);
	machine_release(&machine);
}

/* Two groups that do not fit together where five count. */
static void add_two(struct count_world *w)
{
	add_flexible(w, SCOPE_CPU, "core", 0, 3);
	add_flexible(w, SCOPE_CPU, "more", 3, 3);
}

/* After a migration to another host, a reload finds other numbers: what is open and takes turns otherwise than it has
 * to is opened anew. */
static void test_known_since_a_reload(void **state)
{
	const int usable[] = { 0, USABLE, USABLE, 0 };
	const unsigned still[] = { 0, 1, 2, 2 };
	struct count_world *w = *state;
	struct machine machine = begin();
	struct session *old;

	w->env = &machine.env;
	fake_perf.usable = usable[0];
	add_two(w);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	for (size_t i = 1; i < ARRAY_SIZE(usable); i++) {
		uint64_t id = fake_find(HW, 0, 0, 0)->id;

		fake_perf.usable = usable[i];
		add_two(w);
		old = reload_begin(w);
		assert_int_equal(session_add_cpus(w->session), 0);
		takeover_end(w, old);
		assert_int_equal(most_at_once(), usable[i] ? 3 : 6);
		assert_int_equal(session_stats(w->session).lies[LIE_STILL], still[i]);
		assert_int_equal(fake_find(HW, 0, 0, 0)->id == id, usable[i] == usable[i - 1]);
	}
	machine_release(&machine);
}

static void test_pinned_that_do_not_count(void **state)
{
	struct count_world *w = *state;
	struct machine machine = begin();

	w->env = &machine.env;
	make_dir(w, "a");
	add_pinned(w, SCOPE_CPU, "first", 0, 3);
	add_pinned(w, SCOPE_CPU, "second", 3, 3);
	add_pinned(w, SCOPE_CGROUP, "cgroups", 0, 1);
	make_plan(w);
	assert_int_equal(nr_counted(w), 3);
	assert_why(w, SCOPE_CPU, 4, "group 'second' is pinned and does not fit the PMU: of the 6 counters");
	assert_why(w, SCOPE_CPU, 4, "other pinned groups hold some: count it without D");
	assert_why(w, SCOPE_CGROUP, 0, "each level of the cgroups would hold some");

	/* A true PMU tells by itself. */
	fake_perf.usable = 0;
	add_pinned(w, SCOPE_CPU, "first", 0, 3);
	add_pinned(w, SCOPE_CPU, "second", 3, 3);
	add_pinned(w, SCOPE_CGROUP, "cgroups", 0, 1);
	make_plan(w);
	assert_int_equal(nr_counted(w), 6);
	assert_int_equal(w->plan->scope[SCOPE_CGROUP].nr_sets, 1);
	machine_release(&machine);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_never_more_than_count),
		TEST(test_twelve_events),
		TEST(test_beside_pinned),
		TEST(test_known_since_a_reload),
		TEST(test_pinned_that_do_not_count),
	};

	return cmocka_run_group_tests_name("usable-counters", tests, NULL, NULL);
}
