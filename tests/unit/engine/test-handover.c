/* SPDX-License-Identifier: MIT */

/* Events whose groups change in a reload, on a kernel that the test plays: there everything that runs happens once more
 * at each call of the daemon, so that whatever is lost, or counted twice, between two calls shows. */

#include "base/cgroup/identity.h"
#include "setup/count-world.h"

#include <errno.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct text_event one[] = { { "page-faults", SW, 2 } };
static const struct text_event two[] = { { "page-faults", SW, 2 }, { "context-switches", SW, 3 } };
static const struct text_event three[] = { { "page-faults", SW, 2 },
					   { "cpu-migrations", SW, 4 },
					   { "context-switches", SW, 3 } };
static const struct text_event faults[] = { { "page-faults", SW, 2 } }, switches[] = { { "context-switches", SW, 3 } };
static const struct text_event hardware[] = { { "cycles", HW, 0 }, { "branches", HW, 4 } };

/* How often everything has happened since counting started. */
static uint64_t happened;

static void happen(uint64_t by)
{
	fake_happen(by);
	happened += by;
}

static int happen_always(enum fake_call call)
{
	(void)call;
	happen(1);
	return 0;
}

static void reload_cpus(struct count_world *w)
{
	struct session *old = reload_begin(w);

	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
}

/* Each CPU is started at another moment, after which all of it counts the same. */
static void start_counting(struct count_world *w, uint64_t *began)
{
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	session_tick(w->session, NULL);
	for (size_t i = 0; i < w->cpus.nr; i++)
		began[i] = happened - row_of(w, w->cpus.cpu[i], NULL)->cells[0].total;
	fake_perf.fault = happen_always;
}

/* The last reading was that of the last CPU, but for the calls behind it. */
static void assert_exact(struct count_world *w, const uint64_t *began, size_t column, size_t group)
{
	fake_perf.fault = NULL;
	session_tick(w->session, NULL);
	for (size_t i = 0; i < w->cpus.nr; i++) {
		assert_cell(w, w->cpus.cpu[i], NULL, column, true, happened - began[i]);
		assert_int_equal(row_of(w, w->cpus.cpu[i], NULL)->times[group].enabled, 1000 * (happened - began[i]));
	}
	fake_perf.fault = happen_always;
}

/* An event joins a group, and leaves it again. */
static void test_group_grows_and_shrinks(void **state)
{
	struct count_world *w = *state;
	uint64_t began[3];

	happened = 0;
	add_group(w, SCOPE_CPU, "g", false, one, 1);
	start_counting(w, began);
	for (int i = 0; i < 3; i++) {
		add_group(w, SCOPE_CPU, "g", false, two, 2);
		reload_cpus(w);
		assert_exact(w, began, 0, 0);
		add_group(w, SCOPE_CPU, "g", false, one, 1);
		reload_cpus(w);
		assert_exact(w, began, 0, 0);
	}
	assert_int_equal(fake_perf.nr_open, 3);
}

/* Two groups become one, and one becomes two. */
static void test_groups_merge_and_part(void **state)
{
	struct count_world *w = *state;
	uint64_t began[3];

	happened = 0;
	add_group(w, SCOPE_CPU, "a", false, faults, 1);
	add_group(w, SCOPE_CPU, "b", false, switches, 1);
	start_counting(w, began);
	for (size_t i = 0; i < w->cpus.nr; i++) /* … of which the other was started as late */
		assert_cell(w, w->cpus.cpu[i], NULL, 1, true, happened - began[i]);
	for (int i = 0; i < 3; i++) {
		add_group(w, SCOPE_CPU, "a", false, three, 3);
		reload_cpus(w);
		assert_exact(w, began, 0, 0);
		assert_exact(w, began, 2, 0);
		add_group(w, SCOPE_CPU, "a", false, faults, 1);
		add_group(w, SCOPE_CPU, "b", false, switches, 1);
		reload_cpus(w);
		assert_exact(w, began, 0, 0);
		fake_perf.fault = NULL;
		session_tick(w->session, NULL);
		for (size_t k = 0; k < w->cpus.nr; k++)
			assert_cell(w, w->cpus.cpu[k], NULL, 1, true, happened - began[k]);
		fake_perf.fault = happen_always;
	}
	assert_int_equal(fake_perf.nr_open, 6);
}

/* What happens rarely is handed over as it is: nothing twice, whenever it happens. */
static int happen_at;
static int happen_once(enum fake_call call)
{
	(void)call;
	if (happen_at-- == 0)
		happen(1);
	return 0;
}

static void test_rare_event(void **state)
{
	struct count_world *w = *state;
	uint64_t began[3];

	happened = 0;
	add_group(w, SCOPE_CPU, "g", false, one, 1);
	start_counting(w, began);
	for (int at = 0; at < 60; at++) {
		add_group(w, SCOPE_CPU, "g", false, at % 2 ? one : two, at % 2 ? 1 : 2);
		happen_at = at;
		fake_perf.fault = happen_once;
		reload_cpus(w);
		assert_exact(w, began, 0, 0);
	}
}

/* A group of the PMU, of a cgroup. */
static void test_hardware_in_a_cgroup(void **state)
{
	struct count_world *w = *state;
	struct session *old;
	struct cgroup *a;
	uint64_t began;

	happened = 0;
	add_group(w, SCOPE_CGROUP, "core", false, hardware, 1);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	began = happened;
	fake_perf.fault = happen_always;
	add_group(w, SCOPE_CGROUP, "core", false, hardware, 2);
	old = reload_begin(w);
	add_cgroup(w, "/a");
	takeover_end(w, old);
	fake_perf.fault = NULL;
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 3 * (happened - began));
}

/* What the CPUs' events feed of the root cgroup goes over with them: it stays their sum. */
static void test_root_is_fed(void **state)
{
	struct count_world *w = *state;
	struct session *old;
	struct cgroup *root;
	uint64_t sum;

	happened = 0;
	add_group(w, SCOPE_CPU, "g", false, one, 1);
	add_group(w, SCOPE_CGROUP, "g", false, one, 1);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	root = find_cgroup(w, "/");
	root->identity->id = CGROUP_ROOT_ID;
	add_cgroup(w, "/");
	fake_perf.fault = happen_always;
	for (int i = 0; i < 4; i++) {
		add_group(w, SCOPE_CPU, "g", false, i % 2 ? one : two, i % 2 ? 1 : 2);
		add_group(w, SCOPE_CGROUP, "g", false, i % 2 ? one : two, i % 2 ? 1 : 2);
		old = reload_begin(w);
		assert_int_equal(session_add_cpus(w->session), 0);
		add_cgroup(w, "/");
		takeover_end(w, old);
		sum = 0;
		for (size_t k = 0; k < w->cpus.nr; k++)
			sum += row_of(w, w->cpus.cpu[k], NULL)->cells[0].total;
		assert_true(sum > 0);
		assert_cell(w, ROW_ALL_CPUS, root, 0, true, sum);
	}
	fake_perf.fault = NULL;
}

/* What is pinned has to be closed first, to be had again. */
static void test_pinned(void **state)
{
	struct count_world *w = *state;

	fake_perf.counters = 2;
	add_group(w, SCOPE_CPU, "core", false, hardware, 1)->events.events[0].attr.pinned = 1;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	happen(5);
	add_group(w, SCOPE_CPU, "core", false, hardware, 2)->events.events[0].attr.pinned = 1;
	reload_cpus(w);
	happen(3);
	session_tick(w->session, NULL);
	assert_cell(w, 0, NULL, 0, true, 8);
	assert_cell(w, 0, NULL, 1, true, 3);
}

/* A reading that fails in the midst of it loses no more than that. */
static int failing;
static int fail_reads(enum fake_call call)
{
	return call == FAKE_READ && failing-- > 0 ? EIO : 0;
}

static void test_failed_readings(void **state)
{
	struct count_world *w = *state;
	uint64_t began[3];

	for (int nr = 1; nr < 12; nr++) {
		add_group(w, SCOPE_CPU, "g", false, nr % 2 ? one : two, nr % 2 ? 1 : 2);
		if (nr == 1)
			start_counting(w, began);
		fake_perf.fault = NULL;
		happen(10);
		failing = nr;
		if (nr > 1) {
			struct session *old = reload_begin(w);

			fake_perf.fault = fail_reads;
			assert_int_equal(session_add_cpus(w->session), 0);
			fake_perf.fault = NULL;
			takeover_end(w, old);
		}
	}
	happen(10);
	session_tick(w->session, NULL);
	for (size_t i = 0; i < w->cpus.nr; i++)
		assert_cell(w, w->cpus.cpu[i], NULL, 0, true, 120);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_group_grows_and_shrinks), TEST(test_groups_merge_and_part), TEST(test_rare_event),
		TEST(test_hardware_in_a_cgroup),    TEST(test_root_is_fed),	      TEST(test_pinned),
		TEST(test_failed_readings),
	};

	return cmocka_run_group_tests_name("handover", tests, NULL, NULL);
}
