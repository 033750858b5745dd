/* SPDX-License-Identifier: MIT */

/* Two engines that count parts of one plan: the kernel's perf events, on a kernel that the test plays, and one that the
 * test plays itself. Everything happens on each CPU, and in the cgroup, as often as `happened` says. */

#include "base/cgroup/identity.h"
#include "counting/engine/perf/perf.h"
#include "counting/session/engines.h"
#include "setup/count-restart.h"
#include "setup/fake-engine.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FAULTS 2
#define SWITCHES 3
static const struct text_event both[] = { { "page-faults", SW, FAULTS }, { "context-switches", SW, SWITCHES } };
static const struct text_event other[] = { { "cycles", HW, 0 } };

/* The root cgroup is counted too. */
static bool has_root;
/* Each event is a set of its own. */
static bool alone;

/* The engines that an image can name; those of this build where it is not set. */
static bool fake_is_known;

const struct engine_ops *__real_engines_by_name(const char *name);
const struct engine_ops *__wrap_engines_by_name(const char *name);
const struct engine_ops *__wrap_engines_by_name(const char *name)
{
	return fake_is_known && strcmp(name, engine_fake.name) == 0 ? &engine_fake : __real_engines_by_name(name);
}

static int engines_setup(void **state)
{
	fake_engine_reset();
	fake_is_known = true;
	has_root = alone = false;
	return world_setup(state);
}

static void happen(uint64_t by)
{
	fake_happen(by);
	fake_engine.happened += by;
}

static int happen_always(enum fake_call call)
{
	(void)call;
	happen(1);
	return 0;
}

static struct cgroup *add_root(struct count_world *w)
{
	find_cgroup(w, "/")->identity->id = CGROUP_ROOT_ID;
	return add_cgroup(w, "/");
}

/* The same groups in both scopes, as the default config has them. */
static void add_groups(struct count_world *w)
{
	add_group(w, SCOPE_CPU, "g", alone, both, 2);
	add_group(w, SCOPE_CGROUP, "g", alone, both, 2);
}

static struct cgroup *start_counting(struct count_world *w)
{
	struct cgroup *a;

	add_groups(w);
	make_dir(w, "a");
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	a = add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	return a;
}

/* The next plan, with engines by another preference. `between` happens when half of it is taken over. */
static void take_over(struct count_world *w, struct session *from, uint64_t between)
{
	add_groups(w);
	make_plan(w);
	takeover_begin(w, from);
	assert_int_equal(session_add_cpus(w->session), 0);
	happen(between);
	if (has_root)
		(void)add_root(w);
	(void)add_cgroup(w, "/a");
	takeover_end(w, from);
}

static const struct engine_ops *engine_of(const struct count_world *w, enum scope scope, size_t column)
{
	const struct scope_plan *plan = &w->plan->scope[scope];

	return plan->columns[column].set == NO_SET ? NULL : plan->sets[plan->columns[column].set].engine;
}

static uint64_t total(const struct count_world *w, const struct cgroup *cgroup, size_t column)
{
	return row_of(w, cgroup ? ROW_ALL_CPUS : w->cpus.cpu[0], cgroup)->cells[column].total;
}

/* An engine is chosen for each event; one that all refuse has the reason of the last. */
static void test_chosen_per_event(void **state)
{
	struct count_world *w = *state;

	fake_engine.takes = 1 << FAULTS;
	w->engines = fake_first;
	fake_perf.refuse = refuse_hardware;
	fake_perf.error = ENOENT;
	add_group(w, SCOPE_CPU, "h", false, other, 1);
	(void)start_counting(w);
	assert_ptr_equal(engine_of(w, SCOPE_CPU, 0), NULL);
	assert_state(w, SCOPE_CPU, 0, EVENT_UNSUPPORTED, "ENOENT");
	assert_ptr_equal(engine_of(w, SCOPE_CPU, 1), &engine_fake);
	assert_ptr_equal(engine_of(w, SCOPE_CPU, 2), &engine_perf);
	assert_ptr_equal(engine_of(w, SCOPE_CGROUP, 0), &engine_fake);
	assert_ptr_equal(engine_of(w, SCOPE_CGROUP, 1), &engine_perf);
	assert_string_equal(session_engine_name(w->session), "fake, perf");
	/* Events of two engines are no kernel group. */
	assert_sets(w, SCOPE_CGROUP, "0|1");
	assert_int_equal(session_stats(w->session).fds, 2 * w->cpus.nr);

	w->engines = perf_first;
	w->session = session_free(w->session);
	plan_unref(w->plan);
	w->plan = NULL;
	add_groups(w);
	make_plan(w);
	assert_ptr_equal(engine_of(w, SCOPE_CPU, 0), &engine_perf);
	assert_sets(w, SCOPE_CGROUP, "0 1");
}

/* The reason of what perf counts since the fake engine does not. */
static const char *const left = "left to engine perf: the fake engine does not count it";

/* Each counts its own sets, and nobody counts one twice. */
static void test_both_count(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	fake_engine.takes = 1 << SWITCHES;
	w->engines = fake_first;
	a = start_counting(w);
	happen(7);
	session_tick(w->session, NULL);
	for (size_t column = 0; column < 2; column++) {
		assert_cell(w, w->cpus.cpu[0], NULL, column, true, 7);
		assert_cell(w, ROW_ALL_CPUS, a, column, true, 7 * w->cpus.nr);
		assert_state(w, SCOPE_CGROUP, column, EVENT_OK, column == 0 ? left : NULL);
	}
	session_remove_cgroup(w->session, a, true);
	happen(5);
	session_tick(w->session, NULL);
	assert_cell(w, w->cpus.cpu[0], NULL, 1, true, 12);
	assert_int_equal(total(w, a, 1), 7 * w->cpus.nr);
}

/* One takeover after another, by what the fake engine takes in each; nothing is lost, and nothing counted twice. */
static void check_takeovers(struct count_world *w, const struct cgroup *cgroup, const uint64_t *takes, size_t nr)
{
	for (size_t i = 1; i < nr; i++) {
		happen(3);
		fake_engine.takes = takes[i];
		take_over(w, w->session, 2);
		happen(4);
		session_tick(w->session, NULL);
		for (size_t column = 0; column < 2; column++) {
			assert_cell(w, w->cpus.cpu[0], NULL, column, true, 9 * i);
			assert_cell(w, ROW_ALL_CPUS, cgroup, column, true, 9 * i * w->cpus.nr);
		}
	}
}

/* From one engine to the other and back, some sets and all. */
static void test_takeover(void **state)
{
	static const uint64_t takes[] = { 0, 1 << SWITCHES, 1 << SWITCHES | 1 << FAULTS, 1 << FAULTS, 0, 12, 0 };
	struct count_world *w = *state;
	struct cgroup *a;

	w->engines = fake_first;
	a = start_counting(w);
	check_takeovers(w, a, takes, ARRAY_SIZE(takes));
	/* One group, and nothing else is open. */
	assert_int_equal(session_stats(w->session).fds, 4 * w->cpus.nr);
	assert_int_equal(fake_perf.nr_open, 4 * (int)w->cpus.nr);
}

/* The root is what the CPUs are at each reading, whoever counts them. */
static void test_root_in_a_takeover(void **state)
{
	static const uint64_t takes[] = { 0, 12, 0, 1 << SWITCHES, 12, 1 << FAULTS, 12, 0 };
	struct count_world *w = *state;
	struct cgroup *root;

	w->engines = fake_first;
	alone = true;
	(void)start_counting(w);
	has_root = true;
	root = add_root(w);
	session_tick(w->session, NULL);
	check_takeovers(w, root, takes, ARRAY_SIZE(takes));
}

/* Where everything happens at each call as well, nothing is counted twice, and what is lost is what happened between
 * the last reading of the old engine and the start of the new one: a call. */
static void test_takeover_in_motion(void **state)
{
	struct count_world *w = *state;
	uint64_t began, counted;

	w->engines = fake_first;
	(void)start_counting(w);
	began = fake_engine.happened - total(w, NULL, 1);
	for (int i = 1; i <= 6; i++) {
		fake_engine.takes = i % 2 ? 1 << SWITCHES : 0;
		fake_perf.fault = happen_always;
		take_over(w, w->session, 0);
		fake_perf.fault = NULL;
		session_tick(w->session, NULL);
		counted = total(w, NULL, 1);
		assert_true(counted <= fake_engine.happened - began);
		assert_true(counted + (uint64_t)i >= fake_engine.happened - began);
	}
}

/* An event that is no more: the old engine's counts up to the end stay, also where it was the engine's last. */
static void test_engine_goes(void **state)
{
	struct count_world *w = *state;
	struct session *from;

	fake_engine.takes = 1 << FAULTS | 1 << SWITCHES;
	w->engines = fake_first;
	(void)start_counting(w);
	happen(5);
	w->engines = NULL;
	add_group(w, SCOPE_CPU, "g", false, &both[1], 1);
	from = reload_begin(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, from);
	happen(1);
	session_tick(w->session, NULL);
	assert_cell(w, w->cpus.cpu[0], NULL, 0, true, 6);
	assert_string_equal(session_engine_name(w->session), "perf");
}

/* --- no room, no such cgroup */

static int try_cgroup(struct count_world *w, const char *name, struct reason *why)
{
	char label[32];

	make_dir(w, name);
	assert_true(cgroup_tree_follow(w->tree, UINT64_MAX, why) >= 0);
	(void)snprintf(label, sizeof(label), "/%s", name);
	why->text[0] = '\0';
	return session_add_cgroup(w->session, w->tree, find_cgroup(w, label), why);
}

static void test_room(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};

	fake_engine.takes = 1 << FAULTS;
	fake_engine.max_cgroups = 3;
	w->engines = fake_first;
	(void)start_counting(w);
	assert_int_equal(session_fds_per_cgroup(w->session), w->cpus.nr);
	assert_int_equal(session_fds_of_cpus(w->session), w->cpus.nr);
	assert_int_equal(session_room(w->session), 2);
	w->privilege.fd_limit = session_stats(w->session).fds + w->options.fd_reserve + w->cpus.nr;
	assert_int_equal(session_room(w->session), 1);
	fake_engine.max_cgroups = 1;
	assert_int_equal(session_room(w->session), 0);
	assert_int_equal(try_cgroup(w, "b", &why), CGROUP_OVER_MAX);
	assert_non_null(strstr(why.text, "fake, perf"));
}

/* The second engine can't: nothing of a new cgroup stays open in the first, but where the rest can be counted. */
static void test_second_fails(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};
	size_t fds;

	fake_engine.takes = 1 << SWITCHES;
	w->engines = fake_first;
	(void)start_counting(w);
	fds = session_stats(w->session).fds;

	fake_engine.error = -EMFILE;
	assert_int_equal(try_cgroup(w, "b", &why), CGROUP_OVER_FDS);
	assert_int_equal(session_stats(w->session).fds, fds);
	/* Only this engine does not know the cgroup, or has another problem. */
	fake_engine.error = -ENOENT;
	assert_int_equal(try_cgroup(w, "c", &why), CGROUP_COUNTED);
	assert_string_equal(why.text, "the fake engine fails");
	assert_int_equal(session_stats(w->session).fds, fds + w->cpus.nr);
	fake_engine.error = -EINVAL;
	assert_int_equal(try_cgroup(w, "d", &why), CGROUP_COUNTED);
	assert_int_equal(session_stats(w->session).fds, fds + 2 * w->cpus.nr);
}

static int refuse_cgroups(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->cgroup ? ENOSPC : 0;
}

/* An event that is counted in one cgroup and not in another is not as it should be, and shown where it is counted. */
static void test_lacking_in_some_cgroups(void **state)
{
	struct count_world *w = *state;
	struct reason why = {};
	struct cgroup *a;

	fake_engine.takes = 1 << SWITCHES;
	w->engines = fake_first;
	a = start_counting(w);
	fake_perf.refuse = refuse_cgroups;
	assert_int_equal(try_cgroup(w, "b", &why), CGROUP_COUNTED);
	happen(3);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_FAILED, "1 of 2 cgroups lack it: /b, CPU 0, 'page-faults': ");
	assert_true(session_column_is_partial(w->session, SCOPE_CGROUP, 0));
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 9);
	assert_state(w, SCOPE_CGROUP, 1, EVENT_OK, NULL);
	assert_false(session_column_is_partial(w->session, SCOPE_CGROUP, 1));
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, left);

	fake_perf.refuse = NULL;
	(void)add_cgroup(w, "/b");
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, left);

	/* The one that lacked it goes, and the one that had it. */
	fake_perf.refuse = refuse_cgroups;
	assert_int_equal(try_cgroup(w, "c", &why), CGROUP_COUNTED);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_FAILED, "1 of 3 cgroups lack it: /c");
	session_remove_cgroup(w->session, find_cgroup(w, "/c"), true);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_OK, left);
	assert_int_equal(try_cgroup(w, "d", &why), CGROUP_COUNTED);
	session_remove_cgroup(w->session, a, true);
	session_remove_cgroup(w->session, find_cgroup(w, "/b"), true);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CGROUP, 0, EVENT_FAILED, "1 of 1 cgroups lack it: /d");
	assert_false(session_column_is_partial(w->session, SCOPE_CGROUP, 0));
}

/* A cgroup that continues keeps what one engine has taken over when the other has no files; the cells of an engine that
 * fails are not measured any more. */
static void test_one_fails_in_a_takeover(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;

	fake_engine.takes = 1 << SWITCHES;
	w->engines = fake_first;
	a = start_counting(w);
	happen(3);
	session_tick(w->session, NULL);
	fake_engine.error = -EMFILE;
	take_over(w, w->session, 2);
	happen(4);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 9 * w->cpus.nr);
	assert_cell(w, ROW_ALL_CPUS, a, 1, false, 5 * w->cpus.nr);
	assert_int_equal(session_stats(w->session).fds, 2 * w->cpus.nr);
	fake_engine.error = 0;
	take_over(w, w->session, 0);
	happen(1);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 10 * w->cpus.nr);
	assert_cell(w, ROW_ALL_CPUS, a, 1, true, 6 * w->cpus.nr);
}

static void test_life(void **state)
{
	struct count_world *w = *state;
	_cleanup_(cpulist_release) struct cpulist lost = {};

	fake_engine.takes = 1 << FAULTS | 1 << SWITCHES;
	w->engines = fake_first;
	(void)start_counting(w);
	/* The engine tells that CPUs are online: nothing has to be opened for that. */
	assert_int_equal(session_stats(w->session).canaries, 0);
	assert_int_equal(session_find_lost(w->session, &lost), 0);
	assert_int_equal(lost.nr, 0);
	fake_engine.offline = w->cpus.cpu[1];
	assert_int_equal(session_find_lost(w->session, &lost), 0);
	assert_int_equal(lost.nr, 1);
	assert_int_equal(lost.cpu[0], w->cpus.cpu[1]);
}

/* --- over a restart */

static void test_image(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;
	struct saved saved;

	fake_engine.takes = 1 << SWITCHES;
	w->engines = fake_first;
	a = start_counting(w);
	for (uint64_t i = 1; i <= 3; i++) {
		happen(3);
		session_tick(w->session, NULL);
		happen(2);
		stop(w, &saved);
		happen(4);
		take_over(w, restore(w, &saved, NONE_MISSING), 0);
		session_tick(w->session, NULL);
		for (size_t column = 0; column < 2; column++) {
			assert_cell(w, w->cpus.cpu[0], NULL, column, true, 9 * i);
			assert_cell(w, ROW_ALL_CPUS, a, column, true, 9 * i * w->cpus.nr);
		}
	}
}

/* A daemon without that engine: totals go on from the image, and perf counts on. */
static void test_image_of_unknown_engine(void **state)
{
	struct count_world *w = *state;
	struct cgroup *a;
	struct saved saved;

	fake_engine.takes = 1 << SWITCHES;
	w->engines = fake_first;
	a = start_counting(w);
	happen(3);
	session_tick(w->session, NULL);
	stop(w, &saved);
	fake_is_known = false;
	w->engines = NULL;
	happen(2);
	take_over(w, restore(w, &saved, NONE_MISSING), 0);
	happen(4);
	session_tick(w->session, NULL);
	assert_cell(w, w->cpus.cpu[0], NULL, 0, true, 9);
	assert_cell(w, w->cpus.cpu[0], NULL, 1, true, 7);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 9 * w->cpus.nr);
	assert_cell(w, ROW_ALL_CPUS, a, 1, true, 7 * w->cpus.nr);
}

/* Bytes that are changed are refused, or make a session that can be used. */
static void test_image_damaged(void **state)
{
	struct count_world *w = *state;
	_cleanup_(buf_release) struct buf image = {};

	fake_engine.takes = 1 << SWITCHES;
	w->engines = fake_first;
	(void)start_counting(w);
	assert_true(save_image(w->session, &image));
	for (size_t i = 0; i < image.len; i++) {
		struct stored_pool pool = { .max = SIZE_MAX };
		struct session *session = NULL;
		struct reason why;

		image.data[i] ^= 1;
		assert_int_equal(session_restore(&session, image.data, image.len, BOOT, &w->privilege, &pool, &why),
				 -EBADMSG);
		image.data[i] ^= 1;
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, engines_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_chosen_per_event),
		TEST(test_both_count),
		TEST(test_takeover),
		TEST(test_root_in_a_takeover),
		TEST(test_takeover_in_motion),
		TEST(test_engine_goes),
		TEST(test_room),
		TEST(test_second_fails),
		TEST(test_lacking_in_some_cgroups),
		TEST(test_one_fails_in_a_takeover),
		TEST(test_life),
		TEST(test_image),
		TEST(test_image_of_unknown_engine),
		TEST(test_image_damaged),
	};

	return cmocka_run_group_tests_name("engines", tests, NULL, NULL);
}
