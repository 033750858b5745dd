/* SPDX-License-Identifier: MIT */

/* One count after another where files are short, many, or slow to close: who goes on, who gives way, and what waits. */

#include "counting/world/admission.h"
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

/* The events that happen in each cgroup. */
enum {
	BEFORE = 4,
	MEANWHILE = 3,
	AFTER = 5,
	TOTAL = BEFORE + MEANWHILE + AFTER,
};

/* --- a count, and the next */

struct moved {
	struct count_world *w;
	struct admission admission;
	struct cgroup_filter filter;
};

/* The deepest give way first. */
static const char *const labels[] = { "/", "/a", "/b", "/a/x", "/a/x/y" };

static int setup(void **state)
{
	static char *all[] = { (char *)"**" };
	struct moved *m = calloc(1, sizeof(*m));
	void *w;

	assert_non_null(m);
	assert_int_equal(world_setup(&w), 0);
	m->w = w;
	m->w->options.linger = 0;
	m->filter = (struct cgroup_filter){ .include = all, .nr_include = 1 };
	make_dir(w, "a");
	make_dir(w, "a/x");
	make_dir(w, "a/x/y");
	slow.nr = 0;
	*state = m;
	return 0;
}

static int teardown(void **state)
{
	struct moved *m = *state;
	void *w = m->w;

	admission_release(&m->admission);
	m->w->session = session_free(m->w->session);
	close_slow();
	free(m);
	return world_teardown(&w);
}

static void admit(struct moved *m)
{
	fake_perf.clock += 2U * SECOND;
	while (admission_admit(&m->admission, UINT64_MAX))
		;
}

/* In each cgroup, on the first CPU; CPUs have time as well, by which they are seen to be online. */
static void run_all(const struct count_world *w, uint64_t by)
{
	const struct cgroup *cgroup;

	run_cpus(w, 1000, 1000, by);
	TAILQ_FOREACH(cgroup, cgroup_tree_all(w->tree), in_all)
		fake_run(cgroup->identity->id, 0, 1000, 1000, by);
}

/* With the groups that have been added, and /b found last; what is open and kept free leaves no file more. */
static void begin(struct moved *m)
{
	const struct cgroup_observer observer = admission_observer(&m->admission);
	struct count_world *w = m->w;
	struct reason why;

	make_plan(w);
	assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	admission_init(&m->admission, w->session);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(cgroup_tree_new(&w->tree, w->dir, &m->filter, &observer, &why), 0);
	m->admission.tree = w->tree;
	assert_int_equal(cgroup_tree_start(w->tree, &why), 0);
	make_dir(w, "b");
	assert_int_equal(cgroup_tree_follow(w->tree, UINT64_MAX, &why), 0);
	admit(m);
	assert_int_equal(m->admission.nr_status[CGROUP_COUNTED], ARRAY_SIZE(labels));
	w->privilege.fd_limit = session_stats(w->session).fds + w->options.fd_reserve;
	run_all(w, BEFORE);
}

/* The groups that have been added are counted from now on; something happens while the new count is made. */
static struct session *prepare(struct moved *m)
{
	struct count_world *w = m->w;
	struct session *from = reload_begin(w);

	run_all(w, MEANWHILE);
	return from;
}

/* Sets that go on count all the time. */
static void finish(struct moved *m, struct session *from)
{
	struct count_world *w = m->w;

	assert_int_equal(admission_begin_move(&m->admission, w->session, from), 0);
	assert_false(admission_move(&m->admission, UINT64_MAX));
	takeover_end(w, from);
	run_all(w, AFTER);
	assert_int_equal(session_stats(w->session).fds + slow.nr, fake_perf.nr_open);
}

static void move(struct moved *m)
{
	finish(m, prepare(m));
}

static void use_cpus(const struct moved *m, const char *list)
{
	cpulist_release(&m->w->cpus);
	assert_int_equal(cpulist_parse(&m->w->cpus, list), 0);
}

/* The first nr are counted, and have lost nothing; the others are left out, with a reason. */
static void assert_first_counted(const struct moved *m, size_t nr)
{
	struct count_world *w = m->w;

	session_read(w->session);
	for (size_t i = 0; i < ARRAY_SIZE(labels); i++) {
		const struct cgroup *cgroup = find_cgroup(w, labels[i]);

		if (cgroup->status != (i < nr ? CGROUP_COUNTED : CGROUP_OVER_FDS))
			fail_msg("%s: %s", labels[i], cgroup_status_name((enum cgroup_status)cgroup->status));
		if (i < nr)
			assert_cell(w, ROW_ALL_CPUS, cgroup, 0, true, TOTAL);
		else
			assert_non_null(strstr(cgroup->why, "LimitNOFILE"));
	}
	assert_true(session_stats(w->session).fds + w->options.fd_reserve <= w->privilege.fd_limit);
}

/* --- another hierarchy, or none */

static void drop_tree(struct moved *m)
{
	admission_forget_tree(&m->admission);
	m->w->tree = cgroup_tree_free(m->w->tree);
}

/* Totals of cgroups that can't be counted for a while are held: not shown and not forgotten, whatever else is counted
 * meanwhile. Ids of another hierarchy, which can be the same, have nothing to do with those of this one. */
static void test_held(void **state)
{
	struct moved *m = *state;
	struct count_world *w = m->w;
	const struct cgroup_observer observer = admission_observer(&m->admission);
	const struct cgroup *cgroup;
	struct reason why;

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	begin(m);
	for (int i = 0; i < 2; i++) {
		struct session *from = w->session;

		add_group(w, SCOPE_CGROUP, "software", false, software, 2);
		make_plan(w);
		assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
		if (w->tree)
			drop_tree(m);
		session_suspend_cgroups(w->session, from);
		assert_int_equal(session_takeover_begin(w->session, from), 0);
		assert_int_equal(admission_begin_move(&m->admission, w->session, from), 0);
		assert_false(admission_move(&m->admission, UINT64_MAX));
		takeover_end(w, from);
		/* Lingering would end here. */
		session_tick(w->session, NULL);
		session_tick(w->session, NULL);
		assert_int_equal(session_totals(w->session)->nr_rows[SCOPE_CGROUP], ARRAY_SIZE(labels));
		assert_true(TAILQ_FIRST(&session_totals(w->session)->rows[SCOPE_CGROUP])->suspended);
	}
	assert_int_equal(session_stats(w->session).fds, session_stats(w->session).canaries);

	w->privilege.fd_limit += 1000;
	assert_int_equal(cgroup_tree_new(&w->tree, w->dir, &m->filter, &observer, &why), 0);
	m->admission.tree = w->tree;
	assert_int_equal(cgroup_tree_start(w->tree, &why), 0);
	admit(m);
	run_all(w, AFTER);
	session_read(w->session);
	TAILQ_FOREACH(cgroup, cgroup_tree_all(w->tree), in_all)
		assert_cell(w, ROW_ALL_CPUS, cgroup, 0, true, BEFORE + AFTER);
	assert_false(TAILQ_FIRST(&session_totals(w->session)->rows[SCOPE_CGROUP])->suspended);
}

/* --- files are short */

/* A CPU goes, others take its room, and it comes back: those nearest to the root go on. */
static void test_a_cpu_is_back(void **state)
{
	struct moved *m = *state;

	use_cpus(m, "0-1");
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	begin(m);
	use_cpus(m, "0-1,5");
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	move(m);
	admit(m);
	/* 5 × 4 files, and two canaries: 6 each and three are room for three. */
	assert_int_equal(m->w->privilege.fd_limit, 20 + 2 + m->w->options.fd_reserve);
	assert_first_counted(m, 3);
}

/* Also where nothing can be taken over. */
static void test_an_event_is_added(void **state)
{
	static const struct text_event more[] = { { "page-faults", SW, 2 }, { "b", SW, 5 }, { "c", SW, 6 } };

	for (int group = 0; group < 2; group++) {
		struct moved *m = *state;

		add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
		begin(m);
		add_group(m->w, SCOPE_CGROUP, "software", false, group ? software : more, group ? 2 : 3);
		if (group)
			add_group(m->w, SCOPE_CGROUP, "more", false, more + 2, 1);
		move(m);
		admit(m);
		assert_first_counted(m, 3);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

/* Those of CPUs come before those of cgroups. */
static void test_cpus_before_cgroups(void **state)
{
	struct moved *m = *state;

	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	begin(m);
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	add_group(m->w, SCOPE_CPU, "core", false, cycles, 2);
	move(m);
	admit(m);
	assert_int_equal(session_stats(m->w->session).cpus, 3);
	assert_first_counted(m, 4);
}

/* More is left to other use: as many give way as it takes, and CPUs never. */
static void test_more_is_kept_free(void **state)
{
	for (int i = 0; i < 2; i++) {
		struct moved *m = *state;

		add_group(m->w, SCOPE_CPU, "core", false, cycles, 2);
		add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
		begin(m);
		m->w->options.fd_reserve += i ? 1000 : 7;
		add_group(m->w, SCOPE_CPU, "core", false, cycles, 2);
		add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
		move(m);
		admit(m);
		assert_int_equal(session_stats(m->w->session).cpus, 3);
		if (i)
			assert_int_equal(m->admission.nr_status[CGROUP_OVER_FDS], ARRAY_SIZE(labels));
		else
			assert_first_counted(m, 3);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

/* --- there are many */

static int refuse_cpu_5(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->cpu == 5 ? EBUSY : 0;
}

/* With room for all, what is only new is opened bit by bit, and what is counted is shown meanwhile; also where it
 * turns out that it can't be opened. */
static void test_new_ones_wait(void **state)
{
	for (int refuse = 0; refuse < 2; refuse++) {
		struct moved *m = *state;
		int nr_open, steps = 0;

		use_cpus(m, "0-1");
		add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
		begin(m);
		m->w->privilege.fd_limit = 1000;
		use_cpus(m, "0-1,5");
		add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
		add_group(m->w, SCOPE_CGROUP, "core", false, cycles, 2);
		nr_open = fake_perf.nr_open;
		move(m);
		assert_int_equal(fake_perf.nr_open, nr_open + 1); /* a canary */
		assert_first_counted(m, ARRAY_SIZE(labels));
		assert_cell(m->w, ROW_ALL_CPUS, find_cgroup(m->w, "/a"), 2, false, 0);
		assert_non_null(strstr(find_cgroup(m->w, "/a")->why, "about to be opened"));
		assert_true(admission_is_waiting(&m->admission));

		fake_perf.refuse = refuse ? refuse_cpu_5 : NULL;
		while (admission_admit(&m->admission, 0))
			steps++;
		assert_true(steps >= (int)ARRAY_SIZE(labels) - 1);
		assert_false(admission_is_waiting(&m->admission));
		session_read(m->w->session);
		assert_cell(m->w, ROW_ALL_CPUS, find_cgroup(m->w, "/a"), 0, !refuse, TOTAL);
		assert_cell(m->w, ROW_ALL_CPUS, find_cgroup(m->w, "/a"), 2, !refuse, 0);
		if (refuse)
			assert_non_null(strstr(find_cgroup(m->w, "/a")->why, "EBUSY"));
		else
			assert_null(find_cgroup(m->w, "/a")->why);
		assert_int_equal(fake_perf.nr_open, refuse ? nr_open + 1 : 5 * (6 + 9) + 3);
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

/* A set that replaces another does not wait, so that nothing is lost. */
static void test_changed_ones_do_not_wait(void **state)
{
	static const struct text_event more[] = { { "page-faults", SW, 2 }, { "b", SW, 5 } };
	struct moved *m = *state;

	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	add_group(m->w, SCOPE_CGROUP, "core", false, cycles, 2);
	begin(m);
	m->w->privilege.fd_limit = 1000;
	add_group(m->w, SCOPE_CGROUP, "software", false, more, 2);
	add_group(m->w, SCOPE_CGROUP, "core", false, cycles, 2);
	move(m);
	assert_int_equal(fake_perf.nr_open, 5 * (6 + 9) + 3);
	assert_first_counted(m, ARRAY_SIZE(labels));
}

/* --- files are slow to close */

static const struct text_event traced[] = { { "t", TP, 1 }, { "u", TP, 2 }, { "v", TP, 3 } };

/* Nothing waits for them: neither what is changed, nor what goes altogether, CPUs' or cgroups'. The first count has no
 * closer of its own, as one that was restored. */
static void test_slow_files(void **state)
{
	struct moved *m = *state;

	add_group(m->w, SCOPE_CPU, "traced", false, traced, 1);
	add_group(m->w, SCOPE_CGROUP, "traced", false, traced, 1);
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	begin(m);
	m->w->privilege.fd_limit += 1000;
	m->w->options.closer = &slow;
	m->w->options.cgroup_max = 4;
	add_group(m->w, SCOPE_CGROUP, "traced", false, traced, 2);
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	move(m);
	/* And one that was opened to try it. */
	assert_int_equal(slow.nr, 3 + 5 * 3 + 1);
	assert_int_equal(m->admission.nr_status[CGROUP_COUNTED], 4);
}

/* Files that are about to be closed make nobody give way. */
static void test_slow_files_at_the_limit(void **state)
{
	struct moved *m = *state;

	m->w->options.closer = &slow;
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 1);
	add_group(m->w, SCOPE_CGROUP, "traced", false, traced, 2);
	begin(m);
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 1);
	add_group(m->w, SCOPE_CGROUP, "traced", false, traced, 3);
	move(m);
	assert_true(slow.nr > 0);
	admit(m);
	/* 5 × 9 files and three canaries are room for three of 12. */
	assert_first_counted(m, 3);
}

/* Where the kernel has no more, who needs the room waits for it. */
static void test_slow_files_in_the_way(void **state)
{
	struct moved *m = *state;
	struct session *from;

	m->w->options.closer = &slow;
	add_group(m->w, SCOPE_CGROUP, "traced", false, traced, 2);
	begin(m);
	add_group(m->w, SCOPE_CGROUP, "traced", false, traced + 1, 2);
	from = prepare(m);
	/* Events that were opened to try it give way as well, and leave no room for this. */
	plan_end_tries(m->w->plan, NULL);
	close_slow();
	fake_perf.limit = fake_perf.nr_open;
	fake_perf.refuse = refuse_beyond_limit;
	finish(m, from);
	assert_int_equal(slow.nr, 0);
	assert_int_equal(m->admission.nr_status[CGROUP_COUNTED], ARRAY_SIZE(labels));
}

/* --- what is gone */

/* Its last counts are taken: it is not missed, whether or not its removal was reported. */
static void test_removed_meanwhile(void **state)
{
	struct moved *m = *state;
	struct reason why;
	struct session *from;
	const struct totals_row *row;

	m->w->options.linger = 3600ULL * SECOND;
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	begin(m);
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	from = prepare(m);
	remove_dir(m->w, "a/x/y");
	finish(m, from);
	row = row_of(m->w, ROW_ALL_CPUS, find_cgroup(m->w, "/a/x/y"));
	assert_true(row->gone_at);
	assert_int_equal(row->cells[0].total, BEFORE + MEANWHILE);
	assert_int_equal(cgroup_tree_follow(m->w->tree, UINT64_MAX, &why), 0);
	assert_int_equal(m->admission.missed, 0);

	/* Nor is one that had to give way. */
	m->w->privilege.fd_limit -= 7;
	add_group(m->w, SCOPE_CGROUP, "software", false, software, 2);
	move(m);
	assert_int_equal(find_cgroup(m->w, "/a/x")->status, CGROUP_WAITING);
	remove_dir(m->w, "a/x");
	assert_int_equal(cgroup_tree_follow(m->w->tree, UINT64_MAX, &why), 0);
	assert_int_equal(m->admission.missed, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_held),
		TEST(test_a_cpu_is_back),
		TEST(test_an_event_is_added),
		TEST(test_cpus_before_cgroups),
		TEST(test_more_is_kept_free),
		TEST(test_new_ones_wait),
		TEST(test_changed_ones_do_not_wait),
		TEST(test_slow_files),
		TEST(test_slow_files_at_the_limit),
		TEST(test_slow_files_in_the_way),
		TEST(test_removed_meanwhile),
	};

	return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
