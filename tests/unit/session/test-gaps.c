/* SPDX-License-Identifier: MIT */

/* A rate covers its interval, or is absent: CPUs that come and go on a kernel that the test plays, and events that
 * begin to be counted in the middle of an interval. */

#include "counting/history/history.h"
#include "setup/count-world.h"
#include "web/expose/walk.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add_groups(struct count_world *w, bool more)
{
	static const struct text_event events[] = { { "page-faults", SW, 2 }, { "migrations", SW, 4 } };

	add_group(w, SCOPE_CPU, "software", true, events, more ? 2 : 1);
	add_group(w, SCOPE_CGROUP, "software", true, events, more ? 2 : 1);
}

static void use_cpus(struct count_world *w, const char *cpus, bool more)
{
	struct session *old;

	cpulist_release(&w->cpus);
	assert_int_equal(cpulist_parse(&w->cpus, cpus), 0);
	add_groups(w, more);
	old = reload_begin(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	(void)add_cgroup(w, "/a");
	takeover_end(w, old);
}

/* For so long each CPU is busy with /a, which has 100 page faults a second there. stopped: the events of that CPU stand
 * still. */
static void pass(const struct count_world *w, uint64_t id, uint64_t ns, int stopped)
{
	uint64_t end = fake_perf.clock + ns;

	for (size_t i = 0; i < w->cpus.nr; i++) {
		int cpu = w->cpus.cpu[i];

		if (cpu == stopped)
			continue;
		fake_run(0, cpu, ns, ns, 100 * ns / SECOND);
		fake_run(id, cpu, ns, ns, 100 * ns / SECOND);
	}
	fake_perf.clock = end;
}

/* The rate of all CPUs as one row ([cpu] aggregate). */
static double sum_of_cpus(const struct count_world *w)
{
	_cleanup_(snapshot_unrefp) struct snapshot *snapshot = NULL;
	_cleanup_(walk_freep) struct walk *walk = NULL;
	const struct snapshot_options options = { .aggregate = true };
	struct self_stats self = {};

	assert_int_equal(snapshot_new(&snapshot, w->session, NULL, NULL, &options, &self), 0);
	assert_int_equal(walk_new(&walk, snapshot, NULL), 0);
	return snapshot_cell(walk->table[SCOPE_CPU].table, 0, 0)->rate;
}

static bool is_undoubted(const void *userdata, enum scope scope, size_t column)
{
	(void)userdata;
	(void)scope;
	(void)column;
	return false;
}

/* Has the newest slot of the history a gap? */
static bool take_history(struct history *history, struct clock_steps *clock, const struct count_world *w)
{
	const struct clock_times now = { fake_perf.clock, fake_perf.clock, fake_perf.clock };
	struct history_slot slots[HISTORY_SLOTS];
	size_t nr;

	clock_steps_note(clock, &now);
	history_take(history, session_totals(w->session), &now, is_undoubted, NULL);
	nr = history_slots(history, slots);
	return nr && slots[nr - 1].gap;
}

#define UNKNOWN (-1)

static void assert_rate(const char *what, int step, double rate, double expected)
{
	if (expected == UNKNOWN ? !isnan(rate) : !(fabs(rate - expected) < 1))
		fail_msg("step %d: the rate of %s is %f, not %f", step, what, rate, expected);
}

struct step {
	const char *opened; /* in the middle of the interval, these CPUs are opened; NULL: all stays open */
	const char *online; /* at its end; NULL: not known */
	int stopped[2];	    /* in each half of it, the events of this CPU stand still; -1: all go on */
	double rate;	    /* at its end, of CPU 5, of /a, and of all CPUs */
	double cgroup;
	double sum;
};

/* CPU 5 goes offline, which nobody misses; it comes back, is counted a little later, and from then on all is known.
 * Then it is away for a moment between two readings, and only its events' time tells. */
static void test_a_cpu_that_comes_back(void **state)
{
	static const struct step steps[] = {
		{ NULL, "0-1,5", { -1, -1 }, 100, 300, 300 },
		{ NULL, "0-1", { -1, 5 }, 50, 250, 250 },
		{ "0-1", "0-1", { 5, -1 }, 0, 200, 200 },
		{ NULL, "0-1", { -1, -1 }, 0, 200, 200 },
		{ NULL, "0-1,5", { -1, -1 }, UNKNOWN, UNKNOWN, UNKNOWN },
		{ "0-1,5", "0-1,5", { -1, -1 }, UNKNOWN, UNKNOWN, UNKNOWN },
		{ NULL, "0-1,5", { -1, -1 }, 100, 300, 300 },
		{ NULL, "0-1,5", { -1, 5 }, UNKNOWN, UNKNOWN, UNKNOWN },
		{ NULL, NULL, { 5, 5 }, UNKNOWN, UNKNOWN, UNKNOWN },
		{ "0-1,5", NULL, { 5, -1 }, UNKNOWN, UNKNOWN, UNKNOWN },
		{ NULL, NULL, { -1, -1 }, 100, 300, 300 },
	};
	struct clock_steps clock = {};
	struct history history;
	struct count_world *w = *state;
	struct cgroup *a;

	make_dir(w, "a");
	add_groups(w, false);
	start(w);
	history_init(&history, &clock, 1024 * 1024);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	(void)take_history(&history, &clock, w);
	for (int i = 0; i < (int)ARRAY_SIZE(steps); i++) {
		const struct step *step = &steps[i];
		_cleanup_(cpulist_release) struct cpulist online = {};
		double sum;

		pass(w, a->identity->id, SECOND / 2, step->stopped[0]);
		if (step->opened)
			use_cpus(w, step->opened, false);
		pass(w, a->identity->id, SECOND / 2, step->stopped[1]);
		if (step->online)
			assert_int_equal(cpulist_parse(&online, step->online), 0);
		session_note_online(w->session, step->online ? &online : NULL);
		session_tick(w->session, NULL);
		sum = sum_of_cpus(w);
		assert_rate("CPU 5", i, row_of(w, 5, NULL)->rates[0].rate, step->rate);
		assert_rate("/a", i, row_of(w, ROW_ALL_CPUS, a)->rates[0].rate, step->cgroup);
		assert_rate("all CPUs", i, sum, step->sum);
		assert_rate("CPU 0", i, row_of(w, 0, NULL)->rates[0].rate, 100);
		assert_int_equal(take_history(&history, &clock, w), isnan(sum));
		/* An average is of what is known. */
		assert_in_range(row_of(w, ROW_ALL_CPUS, a)->rates[0].averages.average[RATE_1M], 230, 301);
	}
	history_release(&history);
}

/* The kernel stops the events of a CPU while it switches those of cgroups, which can be several per cent of the time.
 * Events that go on after that have been on an online CPU. */
static void check_switches(struct count_world *w, bool has_cpus)
{
	static const struct text_event events[] = { { "page-faults", SW, 2 } };
	struct cgroup *a;

	make_dir(w, "a");
	if (has_cpus)
		add_group(w, SCOPE_CPU, "software", true, events, 1);
	add_group(w, SCOPE_CGROUP, "software", true, events, 1);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	for (int go_on = 1; go_on >= 0; go_on--) {
		pass(w, a->identity->id, SECOND - SECOND / 10, -1);
		fake_perf.clock += SECOND / 10;
		fake_perf.by_reading = (uint64_t)go_on;
		session_tick(w->session, NULL);
		fake_perf.by_reading = 0;
		assert_int_equal(isnan(row_of(w, ROW_ALL_CPUS, a)->rates[0].rate), !go_on);
		if (has_cpus)
			assert_int_equal(isnan(row_of(w, 5, NULL)->rates[0].rate), !go_on);
	}
}

static void test_time_that_switches_take(void **state)
{
	check_switches(*state, true);
}

static void test_time_that_switches_take_from_canaries(void **state)
{
	check_switches(*state, false);
}

/* A reload adds an event in the middle of an interval: its first rate is of the next one, and the other events have
 * theirs. */
static void test_an_event_that_is_new(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	make_dir(w, "a");
	add_groups(w, false);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	pass(w, a->identity->id, SECOND / 2, -1);
	use_cpus(w, "0-1,5", true);
	for (int i = 0; i < 2; i++) {
		pass(w, a->identity->id, i ? SECOND : SECOND / 2, -1);
		session_tick(w->session, NULL);
		assert_rate("CPU 0", i, row_of(w, 0, NULL)->rates[0].rate, 100);
		assert_rate("/a", i, row_of(w, ROW_ALL_CPUS, a)->rates[0].rate, 300);
		assert_rate("CPU 0, new", i, row_of(w, 0, NULL)->rates[1].rate, i ? 100 : UNKNOWN);
		assert_rate("/a, new", i, row_of(w, ROW_ALL_CPUS, a)->rates[1].rate, i ? 300 : UNKNOWN);
	}
}

/* Of a cgroup that is made in the middle of an interval, all counts are known, and so is its rate. One that was there
 * before, and is counted from the middle on, has its first rate of the next interval. */
static void test_cgroups_that_begin(void **state)
{
	struct count_world *w = *state;
	struct cgroup *late, *new;
	struct reason why;
	uint64_t end;

	make_dir(w, "late");
	add_groups(w, false);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	session_tick(w->session, NULL);
	end = fake_perf.clock + SECOND / 2;
	run_cpus(w, SECOND / 2, SECOND / 2, 0);
	fake_perf.clock = end;
	late = add_cgroup(w, "/late");
	make_dir(w, "new");
	while (cgroup_tree_follow(w->tree, UINT64_MAX, &why) > 0)
		;
	new = add_cgroup(w, "/new");
	for (int i = 0; i < 2; i++) {
		end = fake_perf.clock + (i ? SECOND : SECOND / 2);
		run_cpus(w, i ? SECOND : SECOND / 2, i ? SECOND : SECOND / 2, 0);
		fake_run(late->identity->id, 0, 1000, 1000, 100);
		fake_run(new->identity->id, 0, 1000, 1000, 100);
		fake_perf.clock = end;
		session_tick(w->session, NULL);
		assert_rate("/late", i, row_of(w, ROW_ALL_CPUS, late)->rates[0].rate, i ? 100 : UNKNOWN);
		assert_rate("/new", i, row_of(w, ROW_ALL_CPUS, new)->rates[0].rate, 100);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_cpu_that_comes_back),
		TEST(test_time_that_switches_take),
		TEST(test_time_that_switches_take_from_canaries),
		TEST(test_an_event_that_is_new),
		TEST(test_cgroups_that_begin),
	};

	return cmocka_run_group_tests_name("gaps", tests, NULL, NULL);
}
