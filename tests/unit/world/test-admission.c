/* SPDX-License-Identifier: MIT */

/* Which cgroups are counted when not all can be: by the rule, step by step, and whatever happens in between. */

#include "counting/world/admission.h"
#include "setup/count-world.h"
#include "setup/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* CPU time that a cgroup of that label has used; that of one not in the list can't be read. */
struct usage {
	const char *label;
	uint64_t usec;
};

static struct usage usages[16];

int __wrap_cgroup_usage(const struct cgroup_tree *tree, const struct cgroup *cgroup, uint64_t *usec);

int __wrap_cgroup_usage(_unused_ const struct cgroup_tree *tree, const struct cgroup *cgroup, uint64_t *usec)
{
	for (size_t i = 0; usages[i].label; i++)
		if (strcmp(usages[i].label, cgroup->identity->label) == 0) {
			*usec = usages[i].usec;
			return 0;
		}
	return -ENOENT;
}

static void set_usages(const struct usage *from)
{
	size_t n = 0;

	while (from[n].label)
		n++;
	assert_true(n < ARRAY_SIZE(usages));
	memcpy(usages, from, (n + 1) * sizeof(*from));
}

/* Files of a cgroup: on each of three CPUs two events in a group, and its clock. */
#define FDS 9

/* Of a call of admission_admit(): UINT64_MAX, or 0 for a step each. */
static uint64_t budget;

struct admitted {
	struct count_world *w;
	struct admission admission;
	struct cgroup_filter filter;
	uint64_t seed; /* printed where a test that has one fails */
};

/* --- what holds at any time */

static void check(const struct admitted *r)
{
	const struct admission *admission = &r->admission;
	size_t nr[_CGROUP_STATUS_MAX] = {}, all = 0, waiting = 0;
	const struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(r->w->tree), in_all) {
		nr[cgroup->status]++;
		assert_int_equal(session_has_cgroup(admission->session, cgroup), cgroup->status == CGROUP_COUNTED);
		if (cgroup->status == CGROUP_FAILED || cgroup->status == CGROUP_OVER_MAX ||
		    cgroup->status == CGROUP_OVER_FDS)
			assert_non_null(cgroup->why);
	}
	TAILQ_FOREACH(cgroup, &admission->waiting, in_waiting)
		waiting++;
	assert_int_equal(waiting, admission->nr_status[CGROUP_WAITING]);
	for (int status = 0; status < _CGROUP_STATUS_MAX; status++) {
		assert_int_equal(nr[status], admission->nr_status[status]);
		all += nr[status];
	}
	assert_int_equal(all, cgroup_tree_size(r->w->tree));
	for (size_t i = 0; i < admission->nr_chosen; i++)
		if (admission->chosen[i])
			assert_int_equal(admission->chosen[i]->chosen, i + 1);
}

/* --- what is done */

static void admit(struct admitted *r)
{
	for (int steps = 0; admission_admit(&r->admission, budget); steps++) {
		check(r);
		assert_true(steps < 1000);
	}
	check(r);
}

static void follow(struct admitted *r)
{
	struct reason why;

	assert_int_equal(cgroup_tree_follow(r->w->tree, UINT64_MAX, &why), 0);
	check(r);
}

static struct session *make_session(struct count_world *w)
{
	struct session *session;

	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	add_group(w, SCOPE_CGROUP, "core", false, cycles, 1);
	make_plan(w);
	assert_int_equal(session_new(&session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	return session;
}

/* dirs end with NULL; max counts the root as well. */
static void begin(struct admitted *r, const char *const *dirs, uint64_t max)
{
	static char *all[] = { (char *)"**" };
	const struct cgroup_observer observer = admission_observer(&r->admission);
	struct count_world *w = r->w;
	struct reason why;

	w->options.cgroup_max = max;
	w->options.linger = 0;
	for (; *dirs; dirs++)
		make_dir(w, *dirs);
	w->session = make_session(w);
	admission_init(&r->admission, w->session);
	r->filter = (struct cgroup_filter){ .include = all, .nr_include = 1 };
	assert_int_equal(cgroup_tree_new(&w->tree, w->dir, &r->filter, &observer, &why), 0);
	assert_false(admission_admit(&r->admission, 0)); /* there are no cgroups */
	r->admission.tree = w->tree;
	assert_int_equal(cgroup_tree_start(w->tree, &why), 0);
	check(r);
}

/* A reload with another max. */
static void reload(struct admitted *r, uint64_t max)
{
	struct count_world *w = r->w;
	struct session *from = w->session;

	w->options.cgroup_max = max;
	w->session = make_session(w);
	assert_int_equal(session_takeover_begin(w->session, from), 0);
	assert_int_equal(admission_begin_move(&r->admission, w->session, from), 0);
	assert_false(admission_move(&r->admission, UINT64_MAX));
	check(r);
	takeover_end(w, from);
	assert_int_equal(session_stats(w->session).fds, fake_perf.nr_open);
}

static void expect(const struct admitted *r, const char *label, enum cgroup_status status)
{
	const struct cgroup *cgroup = find_cgroup(r->w, label);

	if (cgroup->status != (int)status)
		fail_msg("%s: %s, not %s (%s)", label, cgroup_status_name((enum cgroup_status)cgroup->status),
			 cgroup_status_name(status), cgroup->why ? cgroup->why : "");
}

static int setup(void **state)
{
	struct admitted *r = calloc(1, sizeof(*r));
	void *w;

	assert_non_null(r);
	assert_int_equal(world_setup(&w), 0);
	r->w = w;
	usages[0].label = NULL;
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct admitted *r = *state;
	void *w = r->w;

	if (r->seed)
		print_error("seed %llu\n", (unsigned long long)r->seed);
	admission_release(&r->admission);
	free(r);
	return world_teardown(&w);
}

static const char *const some[] = { "a", "b", "c", "a/x", "b/y", NULL };

/* --- the rule */

static void test_room_for_all(void **state)
{
	struct admitted *r = *state;

	begin(r, some, 6);
	assert_true(admission_is_waiting(&r->admission));
	admit(r);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 6);
	assert_false(admission_is_waiting(&r->admission));
	assert_false(admission_wants_ranking(&r->admission));
	assert_int_equal(admission_needed_fds(&r->admission), 6 * FDS);
	assert_int_equal(r->admission.missed, 0);
}

static void test_shallow_then_busy(void **state)
{
	struct admitted *r = *state;

	set_usages((const struct usage[]){ { "/a", 100 }, { "/b", 300 }, { "/c", 500 }, { "/a/x", 9000 }, {} });
	begin(r, some, 3);
	admit(r);
	expect(r, "/", CGROUP_COUNTED);
	expect(r, "/b", CGROUP_COUNTED);
	expect(r, "/c", CGROUP_COUNTED);
	expect(r, "/a", CGROUP_OVER_MAX);
	expect(r, "/a/x", CGROUP_OVER_MAX);
	expect(r, "/b/y", CGROUP_OVER_MAX);
	assert_non_null(strstr(find_cgroup(r->w, "/b/y")->why, "[cgroup] max"));
	assert_false(admission_is_waiting(&r->admission));

	/* Room that comes back goes to the next, when its time has come. */
	remove_dir(r->w, "c");
	follow(r);
	assert_false(admission_wants_ranking(&r->admission));
	fake_perf.clock += SECOND;
	assert_true(admission_wants_ranking(&r->admission));
	admit(r);
	expect(r, "/a", CGROUP_COUNTED);
	expect(r, "/a/x", CGROUP_OVER_MAX);
	assert_false(admission_wants_ranking(&r->admission));
}

/* The CPU time used since the last ranking decides. */
static void test_busy_of_late(void **state)
{
	static const char *const dirs[] = { "a", "b", "c", NULL };
	struct admitted *r = *state;

	set_usages((const struct usage[]){ { "/a", 5000 }, { "/b", 4000 }, { "/c", 3000 }, {} });
	begin(r, dirs, 2);
	admit(r);
	expect(r, "/a", CGROUP_COUNTED);
	set_usages((const struct usage[]){ { "/a", 5000 }, { "/b", 4001 }, { "/c", 3002 }, {} });
	remove_dir(r->w, "a");
	follow(r);
	fake_perf.clock += SECOND;
	admit(r);
	expect(r, "/b", CGROUP_OVER_MAX);
	expect(r, "/c", CGROUP_COUNTED);
}

/* New ones compete with those that were left out, and what is counted goes on. */
static void test_new_ones(void **state)
{
	static const char *const dirs[] = { "a", "a/x", "a/z", NULL };
	struct admitted *r = *state;

	set_usages((const struct usage[]){ { "/a/x", 2 }, { "/a/z", 1 }, { "/new", 0 }, {} });
	begin(r, dirs, 3);
	admit(r);
	expect(r, "/a/x", CGROUP_COUNTED);
	expect(r, "/a/z", CGROUP_OVER_MAX);
	make_dir(r->w, "new");
	follow(r);
	expect(r, "/new", CGROUP_WAITING);
	admit(r);
	expect(r, "/new", CGROUP_OVER_MAX);
	remove_dir(r->w, "a/x");
	make_dir(r->w, "a/busy");
	follow(r);
	expect(r, "/a/busy", CGROUP_WAITING);
	fake_perf.clock += SECOND;
	admit(r);
	expect(r, "/new", CGROUP_COUNTED);
	expect(r, "/a/z", CGROUP_OVER_MAX);
	expect(r, "/a/busy", CGROUP_OVER_MAX);
}

/* --- what happens meanwhile */

static void test_removed_while_ranking(void **state)
{
	for (size_t steps = 0; steps < 12; steps++)
		for (size_t dir = 0; dir < 3; dir++) {
			static const char *const dirs[] = { "a", "b", "c", "d", NULL };
			struct admitted *r = *state;

			set_usages((const struct usage[]){ { "/a", 9 }, { "/b", 8 }, { "/c", 7 }, {} });
			begin(r, dirs, 3);
			for (size_t i = 0; i < steps; i++)
				(void)admission_admit(&r->admission, 0);
			check(r);
			remove_dir(r->w, dirs[dir]);
			follow(r);
			for (int i = 0; i < 3; i++) {
				fake_perf.clock += SECOND;
				admit(r);
			}
			assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 3);
			assert_int_equal(r->admission.nr_status[CGROUP_OVER_MAX], 1);
			expect(r, "/", CGROUP_COUNTED);
			assert_int_equal(teardown(state), 0);
			assert_int_equal(setup(state), 0);
		}
}

/* The kernel has no more files than were thought. */
static void test_no_more_files(void **state)
{
	struct admitted *r = *state;

	fake_perf.limit = 2 * FDS + 3;
	fake_perf.refuse = refuse_beyond_limit;
	begin(r, some, 100);
	admit(r);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 2);
	assert_int_equal(r->admission.nr_status[CGROUP_OVER_FDS], 4);
	assert_non_null(strstr(find_cgroup(r->w, "/c")->why, "EMFILE"));
	assert_int_equal(fake_perf.nr_open, 2 * FDS);
	fake_perf.refuse = NULL;
	admit(r);
	for (int i = 0; i < 2; i++) {
		fake_perf.clock += SECOND;
		admit(r);
	}
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 6);
}

/* Known beforehand: the limit has room for two, by the rule. */
static void test_few_files(void **state)
{
	struct admitted *r = *state;

	set_usages((const struct usage[]){ { "/b", 5 }, {} });
	r->w->privilege.fd_limit = 10 + 2 * FDS + 5;
	begin(r, some, 100);
	admit(r);
	expect(r, "/", CGROUP_COUNTED);
	expect(r, "/b", CGROUP_COUNTED);
	expect(r, "/a", CGROUP_OVER_FDS);
	assert_non_null(strstr(find_cgroup(r->w, "/a/x")->why, "LimitNOFILE"));
	assert_int_equal(admission_needed_fds(&r->admission), 6 * FDS);
}

static void test_max_lowered_and_raised(void **state)
{
	struct admitted *r = *state;
	size_t calls;

	begin(r, some, 4);
	admit(r);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 4);
	calls = (size_t)fake_perf.nr;
	reload(r, 2);
	admit(r);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 2);
	assert_int_equal(r->admission.nr_status[CGROUP_OVER_MAX], 4);
	expect(r, "/", CGROUP_COUNTED);
	assert_int_equal(fake_perf.nr_open, 2 * FDS + 3);
	assert_int_equal(fake_perf.nr,
			 calls + 4); /* canaries, and a page fault; the rest was handed over, and not tried */
	reload(r, 10);
	admit(r);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 6);
	/* In the middle of a ranking. */
	reload(r, 3);
	remove_dir(r->w, "a/x");
	follow(r);
	fake_perf.clock += SECOND;
	(void)admission_admit(&r->admission, 0);
	reload(r, 4);
	admit(r);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 4);
}

/* One near the root that was found last is kept before a deep one that was found first. */
static void test_max_lowered_by_the_rule(void **state)
{
	static const char *const deep[] = { "a", "a/x", "a/y", NULL };
	struct admitted *r = *state;

	begin(r, deep, 10);
	admit(r);
	make_dir(r->w, "z");
	follow(r);
	admit(r);
	expect(r, "/z", CGROUP_COUNTED);
	reload(r, 3);
	admit(r);
	expect(r, "/", CGROUP_COUNTED);
	expect(r, "/a", CGROUP_COUNTED);
	expect(r, "/z", CGROUP_COUNTED);
	expect(r, "/a/x", CGROUP_OVER_MAX);
	expect(r, "/a/y", CGROUP_OVER_MAX);
}

static void test_filter(void **state)
{
	static char *b[] = { (char *)"/b**" };
	struct admitted *r = *state;

	begin(r, some, 100);
	admit(r);
	r->filter.exclude = b;
	r->filter.nr_exclude = 1;
	cgroup_tree_set_filter(r->w->tree, &r->filter);
	check(r);
	expect(r, "/b", CGROUP_EXCLUDED);
	expect(r, "/b/y", CGROUP_EXCLUDED);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 4);
	assert_int_equal(admission_needed_fds(&r->admission), 4 * FDS);
	reload(r, 100);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 4);
	r->filter.nr_exclude = 0;
	cgroup_tree_set_filter(r->w->tree, &r->filter);
	admit(r);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 6);
}

static int refuse_hardware_on_cpu_1(const struct fake_event *event, int nr_members)
{
	return event->cpu == 1 && event->attr.type != SW ? EBUSY : nr_members * 0;
}

/* Refused cgroups are tried again, and so are sets that counted ones lack. */
static void test_retry(void **state)
{
	struct admitted *r = *state;
	size_t calls;

	begin(r, some, 100);
	fake_perf.refuse = refuse_hardware_on_cpu_1;
	admit(r);
	assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 6);
	assert_non_null(strstr(find_cgroup(r->w, "/c")->why, "EBUSY"));
	fake_perf.error = EBUSY;
	fake_perf.refuse = refuse_all;
	make_dir(r->w, "d");
	follow(r);
	admit(r);
	expect(r, "/d", CGROUP_FAILED);

	fake_perf.clock += 10ULL * SECOND;
	calls = (size_t)fake_perf.nr_calls;
	admission_retry(&r->admission);
	assert_true(admission_is_waiting(&r->admission));
	admit(r);
	expect(r, "/d", CGROUP_FAILED);
	assert_non_null(find_cgroup(r->w, "/c")->why);
	assert_true((size_t)fake_perf.nr_calls > calls);
	assert_false(admission_is_waiting(&r->admission));

	fake_perf.refuse = NULL;
	admit(r);
	expect(r, "/d", CGROUP_FAILED); /* not before its time */
	admission_retry(&r->admission);
	admit(r);
	expect(r, "/d", CGROUP_COUNTED);
	assert_null(find_cgroup(r->w, "/c")->why);
	assert_int_equal(fake_perf.nr_open, 7 * FDS);
	/* Nothing is left to be done. */
	calls = (size_t)fake_perf.nr_calls;
	admission_retry(&r->admission);
	admit(r);
	assert_int_equal(fake_perf.nr_calls, calls);
}

static int refuse_cgroups(const struct fake_event *event, _unused_ int nr_members)
{
	return event->cgroup ? ENOENT : 0;
}

/* Gone without having been counted: removed before their turn, at their turn, or only as the kernel forgot them while
 * their directories still stood. */
static void test_missed(void **state)
{
	static const char *const dirs[] = { "a", "b", "c", NULL };
	struct admitted *r = *state;

	begin(r, dirs, 100);
	remove_dir(r->w, "a");
	follow(r);
	assert_int_equal(r->admission.missed, 1);

	remove_dir(r->w, "b");
	fake_perf.refuse = refuse_cgroups;
	admit(r);
	expect(r, "/b", CGROUP_FAILED);
	assert_non_null(strstr(find_cgroup(r->w, "/b")->why, "it was removed"));
	expect(r, "/c", CGROUP_FAILED);
	admission_retry(&r->admission);
	admit(r);
	assert_int_equal(r->admission.missed, 1);
	remove_dir(r->w, "c");
	follow(r);
	assert_int_equal(r->admission.missed, 3);
}

/* For want of room, all their lives; one that was counted for a part of its life is not missed. */
static void test_left_out_and_gone(void **state)
{
	static const char *const dirs[] = { "a", "b", "c", NULL };
	struct admitted *r = *state;

	begin(r, dirs, 2);
	admit(r);
	expect(r, "/b", CGROUP_OVER_MAX);
	remove_dir(r->w, "c");
	follow(r);
	assert_int_equal(r->admission.missed, 1);
	remove_dir(r->w, "a");
	follow(r);
	assert_int_equal(r->admission.missed, 1);
}

/* Each allocation fails once, on the way from the first reading of the tree to a reload: in the end all are counted. */
static void test_no_memory(void **state)
{
	bool failed = true;

	for (long n = 0; failed; n++) {
		struct admitted *r = *state;
		struct session *from;

		begin(r, some, 4);
		faults_begin(FAULT_MEMORY, n, ENOMEM);
		for (int i = 0; i < 3; i++) {
			while (admission_admit(&r->admission, budget))
				;
			fake_perf.clock += 2U * SECOND;
		}
		faults.on = false;
		from = r->w->session;
		r->w->options.cgroup_max = 100;
		r->w->session = make_session(r->w);
		faults.on = true;
		(void)session_takeover_begin(r->w->session, from);
		(void)admission_begin_move(&r->admission, r->w->session, from);
		(void)admission_move(&r->admission, UINT64_MAX);
		(void)session_takeover_end(r->w->session, from);
		faults_end();
		session_free(from);
		assert_int_equal(session_stats(r->w->session).fds, fake_perf.nr_open);
		admission_retry(&r->admission);
		admit(r);
		assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], 6);
		assert_int_equal(fake_perf.nr_open, 6 * FDS + 3);
		failed = faults.has_failed;
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

/* --- anything, in any order */

struct chaos {
	uint64_t seed;
	char dirs[16][16];
	unsigned nr_made;
};

static void change_tree(struct admitted *r, struct chaos *chaos)
{
	char *dir = chaos->dirs[faults_random(&chaos->seed, ARRAY_SIZE(chaos->dirs))];

	if (*dir) {
		remove_dir(r->w, dir);
		*dir = '\0';
	} else {
		/* A name of its own: inode numbers can be used again. */
		(void)snprintf(dir, sizeof(chaos->dirs[0]), "%u", chaos->nr_made++);
		make_dir(r->w, dir);
	}
}

static void do_anything(struct admitted *r, struct chaos *chaos)
{
	switch (faults_random(&chaos->seed, 10)) {
	case 0:
	case 1:
	case 2:
		change_tree(r, chaos);
		break;
	case 3:
	case 4:
		follow(r);
		break;
	case 5:
		fake_perf.clock += faults_random(&chaos->seed, 3U * SECOND);
		break;
	case 6:
		fake_perf.limit = (int)faults_random(&chaos->seed, 60);
		fake_perf.refuse = faults_random(&chaos->seed, 2) ? refuse_beyond_limit :
				   faults_random(&chaos->seed, 2) ? refuse_hardware_on_cpu_1 :
								    NULL;
		break;
	case 7:
		admission_retry(&r->admission);
		break;
	case 8:
		if (faults_random(&chaos->seed, 4) == 0)
			reload(r, faults_random(&chaos->seed, 12));
		break;
	default:
		for (uint64_t n = faults_random(&chaos->seed, 5); n; n--)
			(void)admission_admit(&r->admission, budget);
	}
	check(r);
	assert_int_equal(session_stats(r->w->session).fds, fake_perf.nr_open);
}

static void test_anything(void **state)
{
	static const char *const none[] = { NULL };

	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct admitted *r = *state;
		struct chaos chaos = { .seed = seed };

		r->seed = seed;
		begin(r, none, 8);
		for (int i = 0; i < 100; i++)
			do_anything(r, &chaos);
		/* With room for all, all are counted. */
		fake_perf.refuse = NULL;
		follow(r);
		reload(r, 100);
		for (int i = 0; i < 3; i++) {
			admission_retry(&r->admission);
			fake_perf.clock += 2U * SECOND;
			admit(r);
		}
		assert_int_equal(r->admission.nr_status[CGROUP_COUNTED], cgroup_tree_size(r->w->tree));
		assert_int_equal(fake_perf.nr_open, FDS * cgroup_tree_size(r->w->tree) + 3);
		r->seed = 0;
		assert_int_equal(teardown(state), 0);
		assert_int_equal(setup(state), 0);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_room_for_all),
		TEST(test_shallow_then_busy),
		TEST(test_busy_of_late),
		TEST(test_new_ones),
		TEST(test_removed_while_ranking),
		TEST(test_no_more_files),
		TEST(test_few_files),
		TEST(test_max_lowered_and_raised),
		TEST(test_max_lowered_by_the_rule),
		TEST(test_filter),
		TEST(test_retry),
		TEST(test_missed),
		TEST(test_left_out_and_gone),
		TEST(test_no_memory),
		TEST(test_anything),
	};
	int failed;

	budget = UINT64_MAX;
	failed = cmocka_run_group_tests_name("admission", tests, NULL, NULL);
	budget = 0;
	return failed | cmocka_run_group_tests_name("admission-steps", tests, NULL, NULL);
}
