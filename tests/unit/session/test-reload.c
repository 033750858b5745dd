/* SPDX-License-Identifier: MIT */

/* Reloading on a kernel that the test plays: what the real one can't be made to do. */

#include "setup/count-world.h"
#include "web/expose/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Equal sets are handed over with what they have counted; changed ones are opened anew, and the totals
 * of events in both go on. */
static void test_reload(void **state)
{
	static const struct text_event more[] = { { "cycles", HW, 0 }, { "branches", HW, 4 } };
	struct count_world *w = *state;
	struct fake_event *kept, *changed;
	struct session *old;
	struct cgroup *a;
	int calls;

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	run_cpus(w, 1000, 1000, 10);
	fake_run(a->identity->id, 0, 1000, 1000, 4);
	session_tick(w->session, NULL);
	kept = fake_find(SW, 2, 0, 0);
	changed = fake_find(HW, 0, 0, 0);

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CPU, "core", false, more, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	old = reload_begin(w);
	fake_run(0, 0, 1000, 1000, 1); /* while the new one is made */
	calls = fake_perf.nr_calls;
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_ptr_equal(add_cgroup(w, "/a"), a);
	assert_int_equal(fake_perf.nr_calls - calls, 6); /* the changed group, on three CPUs */
	takeover_end(w, old);
	assert_true(kept->open);
	assert_false(changed->open);

	fake_run(0, 0, 1000, 1000, 1);
	session_tick(w->session, NULL);
	assert_cell(w, 0, NULL, 0, true, 12); /* page-faults: nothing lost */
	assert_cell(w, 5, NULL, 0, true, 10);
	assert_cell(w, 0, NULL, 2, true, 12); /* cycles: up to its last moment, and from the new group */
	assert_cell(w, 0, NULL, 3, true, 1);  /* branches: new */
	assert_cell(w, ROW_ALL_CPUS, a, 1, true, 4);
	assert_int_equal(fake_perf.nr_open, 18);
	assert_int_equal(session_stats(w->session).fds, 18);
}

/* What comes up to the moment in which a changed set is replaced is counted; and the replacement needs no more
 * room than its own. */
static void test_reload_in_little_room(void **state)
{
	static const struct text_event more[] = { { "page-faults", SW, 2 }, { "minor-faults", SW, 5 } };
	struct count_world *w = *state;
	struct reason why = {};
	struct session *old;
	struct cgroup *a, *b;

	w->options.linger = SECOND;
	w->privilege.fd_limit = 22; /* 6 and 6, and 10 in reserve */
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	start(w);
	a = add_cgroup(w, "/a");
	b = add_cgroup(w, "/b");
	session_tick(w->session, NULL);

	add_group(w, SCOPE_CGROUP, "software", false, more, 2);
	old = reload_begin(w);
	fake_run(a->identity->id, 0, 1000, 1000, 3);
	fake_run(b->identity->id, 0, 1000, 1000, 4);
	fake_perf.limit = 12;
	fake_perf.refuse = refuse_beyond_limit;
	assert_int_equal(session_add_cgroup(w->session, w->tree, a, &why), CGROUP_COUNTED);
	assert_string_equal(why.text, "");
	assert_int_equal(session_add_cgroup(w->session, w->tree, b, &why), CGROUP_COUNTED);
	takeover_end(w, old);
	assert_int_equal(fake_perf.nr_open, 12);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 3);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 4);
	assert_cell(w, ROW_ALL_CPUS, b, 1, true, 0);
}

/* A cgroup that is gone by the time of the reload, or has no room any more, is read once more and lingers. */
static void test_reload_leaves_out(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};
	struct session *old;
	struct cgroup *a, *b;

	w->options.linger = 3600ULL * SECOND;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	start(w);
	a = add_cgroup(w, "/a");
	b = add_cgroup(w, "/b");
	session_tick(w->session, NULL);
	remove_dir(w, "a");
	fake_run(a->identity->id, 0, 1000, 1000, 3);
	fake_run(b->identity->id, 0, 1000, 1000, 4);

	w->options.cgroup_max = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	old = reload_begin(w);
	assert_int_equal(session_add_cgroup(w->session, w->tree, a, &why), -ENOENT);
	session_remove_cgroup(old, a, true);
	assert_int_equal(session_add_cgroup(w->session, w->tree, find_cgroup(w, "/"), &why), CGROUP_COUNTED);
	assert_int_equal(session_add_cgroup(w->session, w->tree, b, &why), CGROUP_OVER_MAX);
	session_remove_cgroup(old, b, true);
	takeover_end(w, old);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 4);
	assert_int_equal(session_stats(w->session).lingering, 1); /* as many as may be counted */
}

/* An event that is counted is not tried again, when it could only be refused for being in use; one that is no
 * longer counted is not shown with its old total. */
static void test_reload_busy(void **state)
{
	struct count_world *w = *state;
	struct session *old;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	run_cpus(w, 1000, 1000, 10);
	session_tick(w->session, NULL);

	fake_perf.error = EBUSY;
	fake_perf.refuse = refuse_hardware;
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	old = reload_begin(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
	assert_cell(w, 5, NULL, 0, true, 10);

	add_group(w, SCOPE_CPU, "core", false, cycles, 1);
	old = reload_begin(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_FAILED, "exclusively");
	assert_cell(w, 5, NULL, 0, false, 10);
}

/* What counts on a CPU that has been offline is opened anew, the rest is handed over. Totals go on, with what was
 * counted there up to the end. */
static void test_reload_after_offline(void **state)
{
	struct count_world *w = *state;
	struct session *old;
	struct cgroup *a;

	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	for (int i = 0; i < 3; i++) {
		fake_run(0, w->cpus.cpu[i], 1000, 1000, 10);
		fake_run(a->identity->id, w->cpus.cpu[i], 1000, 1000, 1);
	}
	session_tick(w->session, NULL);
	run_cpus(w, 1000, 1000, 2);
	fake_take_apart(1);
	session_tick(w->session, NULL);
	assert_cell(w, 1, NULL, 0, true, 12);
	assert_cell(w, 1, NULL, 1, true, 12);

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	old = reload_begin(w);
	fake_perf.nr_calls = 0;
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(fake_perf.nr_calls, 2);
	a = add_cgroup(w, "/a");
	assert_int_equal(fake_perf.nr_calls, 2 + 1);
	takeover_end(w, old);
	for (int i = 0; i < 3; i++) {
		fake_run(0, w->cpus.cpu[i], 1000, 1000, 5);
		fake_run(a->identity->id, w->cpus.cpu[i], 1000, 1000, 1);
	}
	session_tick(w->session, NULL);
	assert_cell(w, 0, NULL, 0, true, 17);
	assert_cell(w, 1, NULL, 0, true, 17);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 6);
}

/* A CPU that went and came since the last reading, which is seen at the reload: nothing that is dead is handed over. */
static void test_reload_before_offline_is_known(void **state)
{
	struct count_world *w = *state;
	struct session *old;
	struct cgroup *a;

	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	fake_run(a->identity->id, 1, 1000, 1000, 3);
	fake_take_apart(1);

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	old = reload_begin(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	takeover_end(w, old);
	fake_run(a->identity->id, 1, 1000, 1000, 4);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 7);
}

/* An event of a cgroup that is alone in its group looks the same when its CPU has been offline: canaries, which go on
 * as well, tell a little later. */
static void test_reload_hands_canaries_over(void **state)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};
	struct count_world *w = *state;
	struct session *old;
	struct cgroup *a;

	make_dir(w, "a");
	for (int round = 0; round < 3; round++) {
		add_group(w, SCOPE_CGROUP, "software", false, software, 1);
		if (round == 0) {
			start(w);
		} else {
			run_cpus(w, 1000, 1000, 0);
			if (round == 1)
				fake_take_apart(1);
			old = reload_begin(w);
		}
		assert_int_equal(session_add_cpus(w->session), 0);
		a = add_cgroup(w, "/a");
		if (round > 0)
			takeover_end(w, old);
		assert_int_equal(fake_perf.nr_open, 6);
		assert_int_equal(session_stats(w->session).fds, 6);
		assert_int_equal(session_find_lost(w->session, &lost), 0);
		assert_int_equal(lost.nr, 0);
		run_cpus(w, 1000, 1000, 0);
		fake_run(a->identity->id, 1, 1000, 1000, 5);
		session_tick(w->session, NULL);
		assert_int_equal(session_find_lost(w->session, &lost), 0);
		assert_int_equal(lost.nr, round == 1);
		cpulist_release(&lost);
	}
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 10);
}

/* What has been measured, and waits for the PMU, stays while it is handed over. */
static void test_reload_keeps_what_waits(void **state)
{
	static const struct text_event more[] = { { "cycles", HW, 0 }, { "branches", HW, 4 } };
	struct count_world *w = *state;
	struct session *old;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	fake_run(0, 0, 1000, 1000, 9);
	session_tick(w->session, NULL);
	for (int i = 0; i < 2; i++) {
		add_group(w, SCOPE_CPU, "core", false, more, 2);
		old = reload_begin(w);
		assert_int_equal(session_add_cpus(w->session), 0);
		takeover_end(w, old);
		fake_run(0, 0, 1000, 0, 0);
		session_tick(w->session, NULL);
		assert_cell(w, 0, NULL, 0, true, 9);
		assert_cell(w, 0, NULL, 1, false, 0);
	}
}

static int refuse_cpu_5(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->cpu == 5 ? fake_perf.error : 0;
}

static void use_cpus(struct count_world *w, const char *list)
{
	struct session *old;

	cpulist_release(&w->cpus);
	assert_int_equal(cpulist_parse(&w->cpus, list), 0);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	old = reload_begin(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	(void)add_cgroup(w, "/a");
	takeover_end(w, old);
	assert_int_equal(fake_perf.nr_open, w->cpus.nr * 4);
}

/* CPUs that come and go: the rows of one that is gone stay, also those of cgroups, which go with their cgroup; and go
 * on when it is back. */
static void test_cpus_come_and_go(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	w->options.cgroup_per_cpu = true;
	w->options.linger = 3600ULL * SECOND;
	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	for (int i = 0; i < 3; i++) {
		fake_run(0, w->cpus.cpu[i], 1000, 1000, 10);
		fake_run(a->identity->id, w->cpus.cpu[i], 1000, 1000, 4);
	}
	use_cpus(w, "0-1");
	for (int i = 0; i < 2; i++) {
		session_tick(w->session, NULL);
		assert_int_equal(session_stats(w->session).cpus, 2);
		assert_int_equal(session_stats(w->session).cpus_offline, 1);
		assert_cell(w, 5, NULL, 0, true, 10);
		assert_cell(w, 5, a, 0, true, 4);
		use_cpus(w, "0-1");
	}
	use_cpus(w, "0-1,5,9");
	fake_run(0, 5, 1000, 1000, 1);
	fake_run(a->identity->id, 5, 1000, 1000, 1);
	fake_run(a->identity->id, 9, 1000, 1000, 1);
	session_tick(w->session, NULL);
	assert_int_equal(session_stats(w->session).cpus_offline, 0);
	assert_cell(w, 5, NULL, 1, true, 11);
	assert_cell(w, 5, a, 1, true, 5);
	assert_cell(w, 9, a, 1, true, 1);

	use_cpus(w, "0,9");
	assert_int_equal(session_totals(w->session)->nr_rows[SCOPE_CGROUP], 4);
	session_remove_cgroup(w->session, a, true);
	assert_int_equal(session_stats(w->session).lingering, 1);
	fake_perf.clock += w->options.linger;
	session_tick(w->session, NULL);
	assert_int_equal(session_totals(w->session)->nr_rows[SCOPE_CGROUP], 0);
	assert_int_equal(session_totals(w->session)->nr_rows[SCOPE_CPU], 4);
}

enum added {
	NEVER,
	AT_ONCE,
	LATER,
};

/* /a and /b, that have something on each CPU. */
static void add_both(struct count_world *w)
{
	static const char *const names[] = { "/a", "/b" };

	for (size_t i = 0; i < 2; i++) {
		struct cgroup *cgroup = add_cgroup(w, names[i]);

		for (size_t k = 0; k < w->cpus.nr; k++)
			fake_run(cgroup->identity->id, w->cpus.cpu[k], 1000, 1000, 4);
	}
}

/* The next count, on these CPUs. */
static void use_cgroups(struct count_world *w, const char *cpus, enum added added)
{
	struct session *old;

	cpulist_release(&w->cpus);
	assert_int_equal(cpulist_parse(&w->cpus, cpus), 0);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	old = reload_begin(w);
	if (added == AT_ONCE)
		add_both(w);
	takeover_end(w, old);
	if (added == LATER)
		add_both(w);
	session_tick(w->session, NULL);
}

/* Cgroups that are counted no more linger with all of their rows, those of a CPU that is offline or new as well. */
static void test_reload_leaves_out_per_cpu(void **state)
{
	static const struct {
		const char *cpus;
		enum added added;
		size_t rows, lingering;
	} steps[] = {
		{ "0-1", AT_ONCE, 4, 0 }, { "0-1", NEVER, 4, 2 },   { "0-1,9", LATER, 6, 0 }, { "0-1,9", NEVER, 6, 2 },
		{ "0-1,9", LATER, 6, 0 }, { "0-1", AT_ONCE, 6, 0 }, { "0-1", NEVER, 6, 2 },
	};
	struct count_world *w = *state;

	w->options.cgroup_per_cpu = true;
	w->options.linger = 3600ULL * SECOND;
	make_dir(w, "a");
	make_dir(w, "b");
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	start(w);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		use_cgroups(w, steps[i].cpus, steps[i].added);
		assert_int_equal(session_totals(w->session)->nr_rows[SCOPE_CGROUP], steps[i].rows);
		assert_int_equal(session_stats(w->session).lingering, steps[i].lingering);
	}
	fake_perf.clock += w->options.linger;
	session_tick(w->session, NULL);
	assert_int_equal(session_totals(w->session)->nr_rows[SCOPE_CGROUP], 0);
	assert_int_equal(session_stats(w->session).pushed_out, 0);
}

/* How many CPUs are shown one by one, and what they come to as one row ([cpu] aggregate), of page-faults and of the
 * time of their group: 1000 ns a fake_run(). */
static void assert_sum(const struct count_world *w, size_t shown, uint64_t total)
{
	_cleanup_(snapshot_unrefp) struct snapshot *single = NULL, *sum = NULL;
	_cleanup_(walk_freep) struct walk *walk = NULL;
	const struct snapshot_options aggregate = { .aggregate = true }, separate = {};
	const struct snapshot_table *table;
	struct self_stats self = {};

	assert_int_equal(snapshot_new(&single, w->session, NULL, NULL, &separate, &self), 0);
	assert_int_equal(single->table[SCOPE_CPU].nr_rows, shown);
	assert_int_equal(snapshot_new(&sum, w->session, NULL, NULL, &aggregate, &self), 0);
	assert_int_equal(walk_new(&walk, sum, NULL), 0);
	table = walk->table[SCOPE_CPU].table;
	assert_int_equal(walk->table[SCOPE_CPU].nr_rows, 1);
	assert_true(snapshot_cell(table, 0, 0)->measured);
	assert_int_equal(snapshot_cell(table, 0, 0)->total, total);
	assert_int_equal(table->times[0].enabled, total == 11 ? 2000 : 3000);
}

/* Of a CPU that is excluded from now on nobody wants to know any more, but in the sum of all CPUs, which must not fall:
 * what it has counted is kept, and goes on when it is counted again. */
static void test_cpu_excluded(void **state)
{
	int cpu = 5;
	const struct cpulist excluded = { .cpu = &cpu, .nr = 1 };
	struct count_world *w = *state;
	struct cgroup *a;

	w->options.cgroup_per_cpu = true;
	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	fake_run(0, 5, 1000, 1000, 7);
	fake_run(0, 1, 1000, 1000, 4);
	session_tick(w->session, NULL);
	assert_sum(w, 3, 11);
	w->options.excluded = &excluded;
	/* Also over one more reload. */
	for (int i = 0; i < 2; i++) {
		use_cpus(w, "0-1");
		session_tick(w->session, NULL);
		assert_cell(w, 5, NULL, 0, false, 7);
		assert_true(row_of(w, 5, NULL)->excluded);
		assert_null(totals_find(session_totals(w->session), 5, a->identity));
		assert_int_equal(session_stats(w->session).cpus_offline, 0);
		assert_sum(w, 2, 11);
	}
	w->options.excluded = NULL;
	use_cpus(w, "0-1,5");
	fake_run(0, 5, 1000, 1000, 2);
	session_tick(w->session, NULL);
	assert_cell(w, 5, NULL, 0, true, 9);
	assert_cell(w, 5, a, 0, true, 0);
	assert_sum(w, 3, 13);
}

/* A CPU goes offline in the middle of a reload: it is passed over, and known to be gone. */
static void test_cpu_goes_during_reload(void **state)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};
	struct count_world *w = *state;
	struct session *old;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	run_cpus(w, 1000, 1000, 10);
	session_tick(w->session, NULL);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	old = reload_begin(w);
	fake_perf.error = ENODEV;
	fake_perf.refuse = refuse_cpu_5;
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
	fake_perf.refuse = NULL;
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	assert_cell(w, 0, NULL, 0, true, 0);
	assert_int_equal(session_find_lost(w->session, &lost), 0);
	assert_int_equal(lost.nr, 1);
	assert_int_equal(lost.cpu[0], 5);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	old = reload_begin(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
	fake_run(0, 5, 1000, 1000, 3);
	session_tick(w->session, NULL);
	assert_cell(w, 5, NULL, 0, true, 3);
}

/* What is known of sets that go on is known at once. */
static void test_reload_keeps_states(void **state)
{
	struct count_world *w = *state;
	struct session *old;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	run_cpus(w, SECOND / 5, 0, 0);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_NEVER_SCHEDULED, "never ran");
	for (int i = 0; i < 2; i++) {
		add_group(w, SCOPE_CPU, "software", false, software, 2);
		add_group(w, SCOPE_CPU, "core", false, cycles, 2);
		old = reload_begin(w);
		assert_int_equal(session_add_cpus(w->session), 0);
		takeover_end(w, old);
		assert_state(w, SCOPE_CPU, 2, i ? EVENT_MULTIPLEXED : EVENT_NEVER_SCHEDULED, i ? "50 %" : "never ran");
		run_cpus(w, 1000, 500, 1);
		session_tick(w->session, NULL);
	}
}

static int refuse_more_than_four(const struct fake_event *event, int nr_members)
{
	int nr = 0;

	(void)nr_members;
	for (int i = 0; i < fake_perf.nr; i++)
		nr += fake_perf.events[i].open && fake_perf.events[i].cpu == event->cpu;
	return nr >= 4 ? ENOSPC : 0;
}

/* Where there is no room for a changed group beside the one it replaces, it is opened when that has gone. */
static void test_reload_in_the_same_room(void **state)
{
	static const struct text_event before[] = { { "a", SW, 1 }, { "b", SW, 2 }, { "c", SW, 3 } };
	static const struct text_event after[] = { { "a", SW, 1 }, { "b", SW, 2 }, { "d", SW, 4 } };
	struct count_world *w = *state;
	struct session *old;

	add_group(w, SCOPE_CPU, "watch", false, before, 3)->split = true;
	fake_perf.refuse = refuse_more_than_four;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	fake_run(0, 0, 1000, 1000, 7);
	session_tick(w->session, NULL);

	add_group(w, SCOPE_CPU, "watch", false, after, 3)->split = true;
	old = reload_begin(w);
	assert_sets(w, SCOPE_CPU, "0 1 2");
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
	fake_run(0, 0, 1000, 1000, 1);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	assert_cell(w, 0, NULL, 1, true, 8);
	assert_cell(w, 0, NULL, 2, true, 1);
	assert_int_equal(fake_perf.nr_open, 9);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_reload),
		TEST(test_reload_in_little_room),
		TEST(test_reload_leaves_out),
		TEST(test_reload_busy),
		TEST(test_reload_after_offline),
		TEST(test_reload_before_offline_is_known),
		TEST(test_reload_hands_canaries_over),
		TEST(test_reload_keeps_what_waits),
		TEST(test_cpus_come_and_go),
		TEST(test_reload_leaves_out_per_cpu),
		TEST(test_cpu_excluded),
		TEST(test_cpu_goes_during_reload),
		TEST(test_reload_keeps_states),
		TEST(test_reload_in_the_same_room),
	};

	return cmocka_run_group_tests_name("reload", tests, NULL, NULL);
}
