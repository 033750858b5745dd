/* SPDX-License-Identifier: MIT */

/* Events that can't be looked up any more while they are counted, as a tracepoint while tracefs is not mounted: on a
 * kernel that the test plays. */

#include "setup/count-world.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TRACE PERF_TYPE_TRACEPOINT

static const struct text_event trace[] = { { "sched:sched_switch", TRACE, 300 } };

/* The group's event is as the parser leaves one that it can't look up: absent is an errno, or 0. */
static void add_trace(struct count_world *w, enum scope scope, int absent, uint64_t id)
{
	struct event *event = add_group(w, scope, "trace", false, trace, 1)->events.events;

	event->software = true;
	event->attr.config = absent ? 0 : id;
	event->absent = absent;
	event->why_absent = absent ? strdup("tracefs is not mounted") : NULL;
}

/* What a reload does, up to the moment in which targets are added. */
static struct session *keep_and_reload(struct count_world *w)
{
	session_retain_events(w->session, w->groups);
	return reload_begin(w);
}

static void end_reload(struct count_world *w, struct session *old)
{
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
}

/* It goes on with all it has, over one reload after the other, and a sentence says so. */
static void test_kept_on_cpus(void **state)
{
	struct count_world *w = *state;
	int opened;

	add_trace(w, SCOPE_CPU, 0, 300);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	run_cpus(w, 1000, 1000, 10);
	for (int i = 0; i < 2; i++) {
		add_trace(w, SCOPE_CPU, i ? -EACCES : -ENODEV, 0);
		end_reload(w, keep_and_reload(w));
		run_cpus(w, 1000, 1000, 1);
		session_tick(w->session, NULL);
		assert_cell(w, 5, NULL, 0, true, 11 + (uint64_t)i);
		assert_state(w, SCOPE_CPU, 0, EVENT_OK,
			     "counted on as it was found before, for now: tracefs is not mounted");
	}

	/* It can be looked up again, and is the same. */
	opened = fake_perf.nr;
	add_trace(w, SCOPE_CPU, 0, 300);
	end_reload(w, keep_and_reload(w));
	assert_int_equal(fake_perf.nr, opened);
	session_tick(w->session, NULL);
	assert_cell(w, 5, NULL, 0, true, 12);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
}

/* Cgroups come and go meanwhile: its number is held while none has it open. */
static void test_kept_in_cgroups(void **state)
{
	struct count_world *w = *state;
	struct session *old;
	struct cgroup *a, *b;

	add_trace(w, SCOPE_CGROUP, 0, 300);
	make_dir(w, "a");
	make_dir(w, "b");
	start(w);
	a = add_cgroup(w, "/a");
	fake_run(a->identity->id, 0, 1000, 1000, 4);
	add_trace(w, SCOPE_CGROUP, -ENODEV, 0);
	old = keep_and_reload(w);
	add_cgroup(w, "/a");
	end_reload(w, old);
	session_remove_cgroup(w->session, a, true);
	assert_int_equal(fake_perf.nr_open, 1 + w->cpus.nr); /* with what tells whether a CPU is up */
	fake_find(TRACE, 300, 0, inode_of(w, "."));

	/* Also over a reload, after which it is the only one. */
	add_trace(w, SCOPE_CGROUP, -ENODEV, 0);
	end_reload(w, keep_and_reload(w));
	fake_find(TRACE, 300, 0, inode_of(w, "."));
	b = add_cgroup(w, "/b");
	fake_run(b->identity->id, 0, 1000, 1000, 7);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 7);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 4);
}

/* Where nothing of it is open, its number may be another's by now: it is not counted, and its total waits for it. */
static void test_not_kept(void **state)
{
	struct count_world *w = *state;
	struct session *old;
	struct cgroup *a;

	w->options.linger = 3600ULL * SECOND;
	add_trace(w, SCOPE_CGROUP, 0, 300);
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	fake_run(a->identity->id, 0, 1000, 1000, 4);
	session_remove_cgroup(w->session, a, true);

	add_trace(w, SCOPE_CGROUP, -ENODEV, 0);
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	end_reload(w, keep_and_reload(w));
	assert_state(w, SCOPE_CGROUP, 0, EVENT_UNSUPPORTED, "tracefs is not mounted");
	add_cgroup(w, "/a");
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 4);

	/* With another number, as of a module that was loaded again. */
	add_trace(w, SCOPE_CGROUP, 0, 301);
	add_group(w, SCOPE_CGROUP, "software", false, software, 1);
	old = keep_and_reload(w);
	add_cgroup(w, "/a");
	end_reload(w, old);
	fake_run(a->identity->id, 0, 1000, 1000, 3);
	session_tick(w->session, NULL);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 7);
}

/* Other events that are absent are so. */
static void test_only_what_is_alike(void **state)
{
	static const struct text_event other[] = { { "sched:sched_waking", TRACE, 300 } };
	struct count_world *w = *state;
	struct event *event;

	add_trace(w, SCOPE_CPU, 0, 300);
	add_group(w, SCOPE_CPU, "core", false, cycles, 1);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	event = add_group(w, SCOPE_CPU, "trace", false, other, 1)->events.events;
	event->absent = -ENODEV;
	event->why_absent = strdup("tracefs is not mounted");
	event = add_group(w, SCOPE_CPU, "core", false, cycles, 1)->events.events;
	event->absent = -ENODEV;
	event->why_absent = strdup("no such PMU");
	end_reload(w, keep_and_reload(w));
	assert_state(w, SCOPE_CPU, 0, EVENT_UNSUPPORTED, "tracefs is not mounted");
	assert_state(w, SCOPE_CPU, 1, EVENT_UNSUPPORTED, "no such PMU");
	assert_int_equal(fake_perf.nr_open, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_kept_on_cpus),
		TEST(test_kept_in_cgroups),
		TEST(test_not_kept),
		TEST(test_only_what_is_alike),
	};

	return cmocka_run_group_tests_name("keep", tests, NULL, NULL);
}
