/* SPDX-License-Identifier: MIT */

/*
 * Cgroups whose owner closes their directory (chmod) to a daemon that has CAP_PERFMON and no more: what is open of them
 * goes on over a reload and a restart; what is removed below them goes; and what can't be told to be there holds
 * nobody's place for ever. On a kernel that the test plays, but for inotify.
 */

#include "counting/world/admission.h"
#include "setup/count-restart.h"
#include "setup/limits.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NOBODY 65534

struct closed {
	struct count_world *w;
	struct admission admission;
	struct cgroup_filter filter;
};

static int setup(void **state)
{
	static char *all[] = { (char *)"**" }, *root[] = { (char *)"/" };
	struct closed *c = calloc(1, sizeof(*c));
	void *w;

	assert_non_null(c);
	assert_int_equal(world_setup(&w), 0);
	c->w = w;
	c->filter = (struct cgroup_filter){ .include = all, .nr_include = 1, .exclude = root, .nr_exclude = 1 };
	assert_int_equal(chmod(c->w->dir, 0755), 0);
	make_dir(w, "a");
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	struct closed *c = *state;
	void *w = c->w;

	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(fchmodat(c->w->root_fd, "a", 0755, 0), 0);
	admission_release(&c->admission);
	free(c);
	return world_teardown(&w);
}

/* The owner is root, where that runs the tests; the daemon is nobody. */
static void as_owner(void)
{
	if (getuid() == 0)
		assert_int_equal(seteuid(0), 0);
}

static void as_daemon(void)
{
	if (getuid() == 0)
		assert_int_equal(seteuid(NOBODY), 0);
}

static void change_mode(const struct closed *c, mode_t mode)
{
	as_owner();
	assert_int_equal(fchmodat(c->w->root_fd, "a", mode, 0), 0);
	as_daemon();
}

static void make(const struct closed *c, const char *name)
{
	as_owner();
	make_dir(c->w, name);
	as_daemon();
}

static void destroy(const struct closed *c, const char *name)
{
	as_owner();
	remove_dir(c->w, name);
	as_daemon();
}

static void follow(struct closed *c)
{
	struct reason why = {};

	while (cgroup_tree_follow(c->w->tree, UINT64_MAX, &why) > 0)
		;
	fake_perf.clock += 2U * SECOND;
	/* CPUs have time, by which they are seen to be online. */
	run_cpus(c->w, 1000, 1000, 1);
	while (admission_admit(&c->admission, UINT64_MAX))
		;
}

/* What is due every ten seconds. */
static void retry(struct closed *c)
{
	session_tick(c->w->session, NULL);
	admission_retry(&c->admission);
	if (cgroup_tree_is_incomplete(c->w->tree))
		cgroup_tree_rescan(c->w->tree);
	follow(c);
}

static void begin_tree(struct closed *c)
{
	const struct cgroup_observer observer = admission_observer(&c->admission);
	struct count_world *w = c->w;
	struct reason why;

	w->tree = cgroup_tree_free(w->tree);
	admission_init(&c->admission, w->session);
	assert_int_equal(cgroup_tree_new(&w->tree, w->dir, &c->filter, &observer, &why), 0);
	c->admission.tree = w->tree;
	assert_int_equal(cgroup_tree_start(w->tree, &why), 0);
}

static void begin(struct closed *c)
{
	struct count_world *w = c->w;

	as_daemon();
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_plan(w);
	assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	assert_int_equal(session_add_cpus(w->session), 0);
	begin_tree(c);
	follow(c);
}

static void replace_count(struct closed *c, struct session *old)
{
	struct count_world *w = c->w;

	make_plan(w);
	takeover_begin(w, old);
	if (!c->admission.tree)
		begin_tree(c);
	assert_int_equal(admission_begin_move(&c->admission, w->session, old), 0);
	assert_false(admission_move(&c->admission, UINT64_MAX));
	takeover_end(w, old);
}

static struct cgroup *find_or_null(const struct closed *c, const char *label)
{
	struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(c->w->tree), in_all)
		if (strcmp(cgroup->identity->label, label) == 0)
			return cgroup;
	return NULL;
}

static void assert_status(const struct closed *c, const char *label, enum cgroup_status status)
{
	const struct cgroup *cgroup = find_or_null(c, label);

	if (!cgroup || cgroup->status != (int)status)
		fail_msg("%s: %s, not %s (%s)", label,
			 cgroup ? cgroup_status_name((enum cgroup_status)cgroup->status) : "not there",
			 cgroup_status_name(status), cgroup && cgroup->why ? cgroup->why : "");
}

/* --- what is open goes on */

static void test_reload(void **state)
{
	struct closed *c = *state;
	struct count_world *w = c->w;
	const struct cgroup *a;
	struct fake_event *event;

	begin(c);
	assert_status(c, "/a", CGROUP_COUNTED);
	a = find_cgroup(w, "/a");
	event = fake_find(SW, 2, 0, a->identity->id);
	fake_run(a->identity->id, 0, 1000, 1000, 7);
	change_mode(c, 0700);

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	replace_count(c, w->session);
	assert_status(c, "/a", CGROUP_COUNTED);
	assert_null(a->why);
	assert_true(event->open);
	fake_run(a->identity->id, 0, 1000, 1000, 2);
	retry(c);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 9);
	assert_status(c, "/a", CGROUP_COUNTED);
}

/* What the reload adds can't be opened, and never is as something else; when the directory is open again, it is. */
static void test_reload_with_more(void **state)
{
	struct closed *c = *state;
	struct count_world *w = c->w;
	const struct cgroup *a;

	begin(c);
	a = find_cgroup(w, "/a");
	fake_run(a->identity->id, 0, 1000, 1000, 7);
	change_mode(c, 0700);

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	replace_count(c, w->session);
	follow(c);
	assert_status(c, "/a", CGROUP_COUNTED);
	assert_non_null(strstr(a->why, "can't be opened"));
	fake_run(a->identity->id, 0, 1000, 1000, 2);
	retry(c);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 9);
	for (int cpu = 0; cpu < 6; cpu++)
		assert_null(fake_look(HW, 0, cpu, 0));

	change_mode(c, 0755);
	retry(c);
	retry(c);
	assert_null(a->why);
	fake_run(a->identity->id, 0, 1000, 1000, 4);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 13);
	assert_cell(w, ROW_ALL_CPUS, a, 2, true, 4);
}

/* Its own directory is seen from above. */
static void test_restart(void **state)
{
	struct closed *c = *state;
	struct count_world *w = c->w;
	struct saved saved;

	begin(c);
	fake_run(find_cgroup(w, "/a")->identity->id, 0, 1000, 1000, 7);
	session_tick(w->session, NULL);
	change_mode(c, 0700);
	stop(w, &saved);
	fake_run(find_cgroup(w, "/a")->identity->id, 0, 1000, 1000, 1);
	run_cpus(w, 1000, 1000, 1);
	admission_release(&c->admission);

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	replace_count(c, restore(w, &saved, NONE_MISSING));
	assert_status(c, "/a", CGROUP_COUNTED);
	fake_run(find_cgroup(w, "/a")->identity->id, 0, 1000, 1000, 2);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, find_cgroup(w, "/a"), 0, true, 10);
}

/* Nothing was open: it is not known, and not opened as all processes. */
static void test_start(void **state)
{
	struct closed *c = *state;

	change_mode(c, 0700);
	begin(c);
	assert_status(c, "/a", CGROUP_FAILED);
	assert_non_null(strstr(find_cgroup(c->w, "/a")->why, "can't be opened"));
	assert_null(fake_look(SW, 2, 0, 0));
}

/* --- what is gone goes */

static void test_removed_below(void **state)
{
	struct closed *c = *state;
	struct count_world *w = c->w;

	make(c, "a/x");
	make(c, "a/y");
	begin(c);
	assert_status(c, "/a/x", CGROUP_COUNTED);
	change_mode(c, 0700);
	destroy(c, "a/x");
	follow(c);
	assert_null(find_or_null(c, "/a/x"));
	assert_status(c, "/a/y", CGROUP_COUNTED);
	assert_status(c, "/a", CGROUP_COUNTED);
	assert_int_equal(fake_perf.nr_open, 2U * 2U * w->cpus.nr + session_stats(w->session).canaries);

	/* Renamed (v1): where it has gone can't be seen. */
	as_owner();
	assert_int_equal(renameat(w->root_fd, "a/y", w->root_fd, "a/z"), 0);
	as_daemon();
	follow(c);
	assert_null(find_or_null(c, "/a/y"));
	retry(c);
	change_mode(c, 0755);
	retry(c);
	assert_status(c, "/a/z", CGROUP_COUNTED);
}

/* More events than are kept, so that some are lost; the daemon hears of none of it before. */
static void lose_events(const struct closed *c)
{
	unsigned long max = queued_events_max();

	as_owner();
	for (unsigned long i = 0; i < max / 2 + 10; i++) {
		make_dir(c->w, "flood");
		remove_dir(c->w, "flood");
	}
	as_daemon();
}

/* Those that are seen to run go on; those that don't give way, when somebody needs their place. */
static void test_lost(void **state)
{
	struct closed *c = *state;
	struct count_world *w = c->w;
	_cleanup_(closep) int held = -1;
	uint64_t alive;

	make(c, "a/gone");
	make(c, "a/alive");
	w->options.cgroup_max = 3;
	begin(c);
	alive = find_cgroup(w, "/a/alive")->identity->id;
	/* So that no other directory gets its number, which a cgroup's never is. */
	held = openat(w->root_fd, "a/gone", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(held >= 0);
	change_mode(c, 0700);
	lose_events(c);
	destroy(c, "a/gone");
	follow(c);
	retry(c);
	retry(c);
	assert_int_equal(cgroup_tree_stats(w->tree).overflows, 1);
	assert_status(c, "/a/gone", CGROUP_COUNTED);
	assert_status(c, "/a/alive", CGROUP_COUNTED);

	/* It sleeps, and as nobody needs its place it stays; then it wakes up. */
	fake_run(alive, 0, 1000, 1000, 5);
	retry(c);
	make(c, "service");
	follow(c);
	assert_status(c, "/service", CGROUP_OVER_MAX);
	retry(c);
	retry(c);
	assert_status(c, "/service", CGROUP_COUNTED);
	assert_status(c, "/a", CGROUP_COUNTED);
	assert_status(c, "/a/alive", CGROUP_COUNTED);
	assert_int_not_equal(find_cgroup(w, "/a/gone")->status, CGROUP_COUNTED);
	assert_null(fake_look(SW, 2, 0, find_cgroup(w, "/a/gone")->identity->id));

	/* Who waits further on takes it from nobody who is alive. */
	make(c, "another");
	for (int i = 0; i < 3; i++)
		retry(c);
	assert_status(c, "/another", CGROUP_OVER_MAX);
	assert_status(c, "/a/alive", CGROUP_COUNTED);

	change_mode(c, 0755);
	retry(c);
	assert_null(find_or_null(c, "/a/gone"));
	assert_status(c, "/a/alive", CGROUP_COUNTED);
}

/* Those below that may be looked at, though not be listed, are. */
static void test_lost_where_not_listed(void **state)
{
	struct closed *c = *state;

	make(c, "a/gone");
	make(c, "a/alive");
	begin(c);
	change_mode(c, 0711);
	lose_events(c);
	destroy(c, "a/gone");
	follow(c);
	assert_null(find_or_null(c, "/a/gone"));
	assert_status(c, "/a/alive", CGROUP_COUNTED);
	assert_false(find_cgroup(c->w, "/a/alive")->doubtful);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reload, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reload_with_more, setup, teardown),
		cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(test_start, setup, teardown),
		cmocka_unit_test_setup_teardown(test_removed_below, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost_where_not_listed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lost, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
