/* SPDX-License-Identifier: MIT */

/* What a plan learns by trying events and groups, on a kernel that the test plays. */

#include "setup/count-world.h"
#include "setup/machines.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct text_event five[] = {
	{ "cycles", HW, 0 },   { "instructions", HW, 1 },  { "cache-misses", HW, 3 },
	{ "branches", HW, 4 }, { "branch-misses", HW, 5 },
};

static const struct column *column_of(const struct count_world *w, size_t at)
{
	return &w->plan->scope[SCOPE_CPU].columns[at];
}

static void assert_why(const struct count_world *w, size_t column, enum event_state state, const char *part)
{
	const struct column *c = column_of(w, column);

	if (c->state != state || (part ? !c->why || !strstr(c->why, part) : c->why != NULL))
		fail_msg("column %zu: %s, %s", column, event_state_name(c->state), c->why ? c->why : "(null)");
}

/* --- groups that do not fit */

static int refuse_third(const struct fake_event *event, int nr_members)
{
	return event->attr.type == HW && nr_members >= 2 ? EINVAL : 0;
}

static void test_split_where_refused(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "big", false, five, 5)->split = true;
	add_group(w, SCOPE_CPU, "software", false, software, 2)->split = true;
	fake_perf.refuse = refuse_third;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1|2 3|4|5 6");
	for (size_t i = 0; i < 5; i++)
		assert_why(w, i, EVENT_OK, "group 'big' does not fit the PMU at once");
	assert_why(w, 5, EVENT_OK, NULL);
	assert_int_equal(fake_perf.nr_open, 0);
}

/* A PMU that takes any group, and then does not run it. */
static void test_split_where_never_run(void **state)
{
	struct count_world *w = *state;

	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "big", false, five, 5)->split = true;
	add_group(w, SCOPE_CGROUP, "big", false, five, 5)->split = true;
	fake_perf.counters = 3;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1 2|3 4");
	assert_sets(w, SCOPE_CGROUP, "0 1 2|3 4");

	/* Both parts are counted, under one group's times. */
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	fake_run(0, 1, SECOND, SECOND, 1000);
	session_tick(w->session, NULL);
	for (size_t i = 0; i < 5; i++)
		assert_cell(w, 1, NULL, i, true, 1000);
	assert_state(w, SCOPE_CPU, 4, EVENT_OK, "counted in parts");

	/* Parts take turns; both is said. */
	fake_run(0, 1, SECOND, SECOND / 2, 1000);
	session_tick(w->session, NULL);
	assert_state(w, SCOPE_CPU, 4, EVENT_MULTIPLEXED, "ran 50 %");
	assert_state(w, SCOPE_CPU, 4, EVENT_MULTIPLEXED, "estimated; group 'big' does not fit the PMU at once");
}

/* With software events in it: they need no counter, and one that leads a rest is led by what is hardware. */
static void test_split_mixed(void **state)
{
	static const struct text_event mixed[] = {
		{ "cycles", HW, 0 },   { "faults", SW, 2 },   { "instructions", HW, 1 },
		{ "switches", SW, 3 }, { "branches", HW, 4 },
	};
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "mixed", false, mixed, 5)->split = true;
	fake_perf.counters = 1;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1|2 3|4");
	fake_perf.counters = 2;
	add_group(w, SCOPE_CPU, "mixed", false, mixed, 5)->split = true;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1 2 3|4");
}

/* Two of the software context behind a hardware event, which the kernel takes only one of. */
static int refuse_second_software(const struct fake_event *event, int nr_members)
{
	return event->attr.type == SW && nr_members >= 1 ? EINVAL : 0;
}

/* What is left of a mixed group can be exact, and then has no times; what is exact is not tried as a group. */
static void test_split_leaves_exact(void **state)
{
	static const struct text_event mixed[] = { { "cycles", HW, 0 }, { "faults", SW, 2 }, { "switches", SW, 3 } };
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "mixed", false, mixed, 3)->split = true;
	fake_perf.refuse = refuse_second_software;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0|1 2");
	assert_false(w->plan->scope[SCOPE_CPU].sets[0].exact);
	assert_true(w->plan->scope[SCOPE_CPU].sets[1].exact);
}

/* Pinned is all or nothing: the group is not split, and others are tried beside it. */
static void test_pinned_and_split(void **state)
{
	struct count_world *w = *state;
	struct group *group;

	make_dir(w, "a");
	fake_perf.counters = 4;
	group = add_group(w, SCOPE_CPU, "flexible", false, five, 3);
	group->split = true;
	group = add_group(w, SCOPE_CPU, "pinned", false, &five[3], 2);
	group->split = true;
	group->events.events[1].attr.pinned = 1;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1|2|3 4");
	assert_int_equal(fake_perf.nr_open, 0);

	group = add_group(w, SCOPE_CGROUP, "pinned", false, five, 5);
	group->split = true;
	group->events.events[4].attr.pinned = 1;
	make_plan(w);
	assert_sets(w, SCOPE_CGROUP, "0 1 2 3 4");
	assert_int_equal(fake_perf.nr_open, 0);
}

static void test_together(void **state)
{
	struct count_world *w = *state;

	/* One that the kernel refuses says so in all of its events … */
	add_group(w, SCOPE_CPU, "big", false, five, 5);
	fake_perf.refuse = refuse_third;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "");
	for (size_t i = 0; i < 5; i++)
		assert_why(w, i, EVENT_NEVER_SCHEDULED, "refuses 'cache-misses' beside the 2 before it");

	/* … and one that it takes and never runs is not opened, lest it take its turns from others. */
	fake_perf.refuse = NULL;
	fake_perf.counters = 3;
	add_group(w, SCOPE_CPU, "big", false, five, 5);
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "");
	for (size_t i = 0; i < 5; i++)
		assert_why(w, i, EVENT_NEVER_SCHEDULED, "now runs the first 3 of its 5 events at once");
}

/* Nothing can be learnt of a PMU that others have to the last counter. */
static int all_taken(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	fake_perf.counters = event->attr.pinned ? -1 : 0;
	return 0;
}

static void test_all_counters_taken(void **state)
{
	struct count_world *w = *state;

	fake_perf.refuse = all_taken;
	add_group(w, SCOPE_CPU, "big", false, five, 5)->split = true;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1 2 3 4");
	assert_why(w, 0, EVENT_OK, NULL);
}

/* --- a PMU of which not all counters count */

/* Five counters of which so many count. */
static struct machine make_liar(int usable)
{
	fake_perf.counters = 5;
	fake_perf.usable = usable;
	fake_perf.by_reading = 1000;
	return machine_new(machine_zen);
}

static void test_split_where_not_all_count(void **state)
{
	static const struct text_event mixed[] = {
		{ "faults", SW, 2 },   { "cycles", HW, 0 },   { "instructions", HW, 1 },
		{ "switches", SW, 3 }, { "branches", HW, 4 }, { "cache-misses", HW, 3 },
	};
	struct count_world *w = *state;
	struct machine machine = make_liar(3);

	w->env = &machine.env;
	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "big", false, five, 5)->split = true;
	add_group(w, SCOPE_CGROUP, "mixed", false, mixed, 6)->split = true;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1 2|3 4");
	for (size_t i = 0; i < 5; i++)
		assert_why(
			w, i, EVENT_OK,
			"group 'big' does not fit the PMU at once (of its 5 counters only 3 count) and is counted in "
			"parts");
	assert_sets(w, SCOPE_CGROUP, "1 0 2 3 4|5");
	assert_int_equal(w->plan->pmus.nr, 1);
	assert_int_equal(w->plan->pmus.pmus[0].usable, 3);
	machine_release(&machine);
}

/* The kernel knows best what fits a PMU that is true: some counters are for some events only. */
static void test_a_true_pmu_is_no_bound(void **state)
{
	struct count_world *w = *state;
	struct machine machine = make_liar(0);

	w->env = &machine.env;
	add_group(w, SCOPE_CPU, "big", false, five, 5)->split = true;
	fake_perf.counters = 4;
	make_plan(w);
	assert_int_equal(w->plan->pmus.pmus[0].advertised, 4);
	assert_int_equal(w->plan->pmus.pmus[0].usable, 4);
	assert_sets(w, SCOPE_CPU, "0 1 2 3|4");
	assert_why(w, 0, EVENT_OK, "group 'big' does not fit the PMU at once and is counted in parts");
	machine_release(&machine);
}

/* Of what may not be split, nothing is opened: one of its events would be a false 0. */
static void test_together_where_not_all_count(void **state)
{
	struct count_world *w = *state;
	struct machine machine = make_liar(4);
	struct group *group;

	w->env = &machine.env;
	add_group(w, SCOPE_CPU, "big", false, five, 5);
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "");
	for (size_t i = 0; i < 5; i++)
		assert_why(w, i, EVENT_NEVER_SCHEDULED,
			   "of the 5 counters of PMU 'cpu' only 4 count at once, as a test has shown: make it smaller, "
			   "or set split = yes");

	add_group(w, SCOPE_CPU, "four", false, five, 4);
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1 2 3");
	assert_why(w, 0, EVENT_OK, NULL);

	group = add_group(w, SCOPE_CPU, "pinned", false, five, 5);
	group->split = true;
	group->events.events[0].attr.pinned = 1;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "");
	assert_why(w, 4, EVENT_NEVER_SCHEDULED, "only 4 count at once, as a test has shown: make it smaller");
	assert_null(strstr(column_of(w, 4)->why, "split"));
	machine_release(&machine);
}

static bool is_exclusive(const struct count_world *w, enum scope scope, size_t set)
{
	return w->plan->scope[scope].sets[set].exclusive;
}

/* Two groups that the PMU would run at once have more events than count: the kernel lets an exclusive one run alone. */
static void test_groups_are_kept_apart(void **state)
{
	struct count_world *w = *state;
	struct machine machine = make_liar(4);

	w->env = &machine.env;
	make_dir(w, "a");
	add_group(w, SCOPE_CPU, "two", false, five, 2);
	add_group(w, SCOPE_CPU, "two more", false, &five[2], 2);
	make_plan(w);
	assert_false(is_exclusive(w, SCOPE_CPU, 0) || is_exclusive(w, SCOPE_CPU, 1));

	add_group(w, SCOPE_CPU, "two", false, five, 2);
	add_group(w, SCOPE_CPU, "three more", false, &five[2], 3);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	make_plan(w);
	assert_true(is_exclusive(w, SCOPE_CPU, 0) && is_exclusive(w, SCOPE_CPU, 1));
	assert_false(is_exclusive(w, SCOPE_CPU, 2));
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_true(fake_find(HW, 0, 0, 0)->attr.exclusive && fake_find(HW, 3, 0, 0)->attr.exclusive);
	assert_false(fake_find(HW, 1, 0, 0)->attr.exclusive);
	w->session = session_free(w->session);
	w->tree = cgroup_tree_free(w->tree);

	/* Cgroups have levels, each with its own events. A pinned group always runs. */
	add_group(w, SCOPE_CPU, "pinned", false, five, 2)->events.events[0].attr.pinned = 1;
	add_group(w, SCOPE_CGROUP, "one", false, five, 1);
	make_plan(w);
	assert_false(is_exclusive(w, SCOPE_CPU, 0));
	assert_true(is_exclusive(w, SCOPE_CGROUP, 0));

	/* A true PMU can be shared. */
	fake_perf.usable = 0;
	add_group(w, SCOPE_CPU, "five", false, five, 5);
	add_group(w, SCOPE_CGROUP, "five", false, five, 5);
	make_plan(w);
	assert_false(is_exclusive(w, SCOPE_CPU, 0) || is_exclusive(w, SCOPE_CGROUP, 0));
	machine_release(&machine);
}

/* A reload knows what the start has found, although our own pinned events have counters by now. */
static void test_known_at_a_reload(void **state)
{
	struct count_world *w = *state;
	struct machine machine = make_liar(4);
	struct session *old;

	w->env = &machine.env;
	add_group(w, SCOPE_CPU, "pinned", false, five, 2)->events.events[0].attr.pinned = 1;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	add_group(w, SCOPE_CPU, "pinned", false, five, 2)->events.events[0].attr.pinned = 1;
	old = reload_begin(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
	assert_int_equal(w->plan->pmus.pmus[0].advertised, 5);
	assert_int_equal(w->plan->pmus.pmus[0].usable, 4);
	machine_release(&machine);
}

/* Where it is in force, a split goes on as it is; its fds are not touched. */
static void test_split_stays_over_reload(void **state)
{
	struct count_world *w = *state;
	struct session *old;
	int calls;

	add_group(w, SCOPE_CPU, "big", false, five, 5)->split = true;
	fake_perf.counters = 2;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	old = w->session;
	calls = fake_perf.nr_open;

	add_group(w, SCOPE_CPU, "big", false, five, 5)->split = true;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1|2 3|4");
	assert_int_equal(fake_perf.nr_open, calls);
	takeover_begin(w, old);
	calls = fake_perf.nr_calls;
	assert_int_equal(session_add_cpus(w->session), 0);
	takeover_end(w, old);
	assert_int_equal(fake_perf.nr_calls, calls);
}

/* --- attributes that the kernel refuses */

static bool (*refused)(const struct perf_event_attr *attr);
static int refused_with;

static int refuse_attr(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->attr.type == HW && refused(&event->attr) ? refused_with : 0;
}

static bool precise_2(const struct perf_event_attr *attr)
{
	return attr->precise_ip > 1;
}

static bool precise(const struct perf_event_attr *attr)
{
	return attr->precise_ip;
}

static bool hv(const struct perf_event_attr *attr)
{
	return attr->exclude_hv;
}

static bool hv_or_idle(const struct perf_event_attr *attr)
{
	return attr->exclude_hv || attr->exclude_idle;
}

static bool guest(const struct perf_event_attr *attr)
{
	return attr->exclude_guest;
}

static bool any(const struct perf_event_attr *attr)
{
	return attr->exclude_user || attr->exclude_kernel || attr->exclude_hv || attr->exclude_guest ||
	       attr->exclude_idle;
}

static bool exclusive(const struct perf_event_attr *attr)
{
	return attr->exclusive || attr->pinned;
}

static const struct {
	const char *what;
	struct perf_event_attr asked, got; /* their flags */
	bool (*refused)(const struct perf_event_attr *attr);
	int error;
	bool host_only;
	enum event_state state;
	const char *why;
} concessions[] = {
	{ .what = "as precise as it goes",
	  .asked = { .precise_ip = 3 },
	  .got = { .precise_ip = 1 },
	  .refused = precise_2,
	  .error = EOPNOTSUPP,
	  .why = "without what the kernel refuses here: precise_ip 3 (1 is used)" },
	{ .what = "x86 has no precise counting",
	  .asked = { .precise_ip = 2, .exclude_guest = 1 },
	  .got = { .exclude_guest = 1 },
	  .refused = precise,
	  .error = EINVAL,
	  .why = "precise_ip 2 (0 is used)" },
	{ .what = "as little as possible",
	  .asked = { .precise_ip = 2, .exclude_guest = 1, .exclude_hv = 1, .exclude_kernel = 1 },
	  .got = { .precise_ip = 2, .exclude_guest = 1, .exclude_kernel = 1 },
	  .refused = hv,
	  .error = EPERM,
	  .why = "refuses here: exclude_hv" },
	{ .what = "two of them",
	  .asked = { .precise_ip = 1, .exclude_guest = 1, .exclude_hv = 1, .exclude_idle = 1 },
	  .got = { .precise_ip = 1, .exclude_guest = 1 },
	  .refused = hv_or_idle,
	  .error = EOPNOTSUPP,
	  .why = "exclude_hv, exclude_idle" },
	{ .what = "perf's habit",
	  .asked = { .exclude_guest = 1, .exclude_kernel = 1 },
	  .got = { .exclude_kernel = 1 },
	  .refused = guest,
	  .error = EOPNOTSUPP,
	  .why = "exclude_guest" },
	{ .what = "exclusive and pinned",
	  .asked = { .exclusive = 1, .pinned = 1 },
	  .refused = exclusive,
	  .error = EINVAL,
	  .why = "exclusive, pinned" },
	{ .what = "a name that would be untrue",
	  .asked = { .exclude_guest = 1 },
	  .got = { .exclude_guest = 1 },
	  .refused = guest,
	  .error = EOPNOTSUPP,
	  .host_only = true,
	  .state = EVENT_UNSUPPORTED,
	  .why = "can't leave out what the modifiers ask it to" },
	{ .what = "a PMU that leaves nothing out",
	  .asked = { .exclude_kernel = 1, .exclude_hv = 1 },
	  .got = { .exclude_kernel = 1, .exclude_hv = 1 },
	  .refused = any,
	  .error = EINVAL,
	  .state = EVENT_UNSUPPORTED,
	  .why = "can't leave out" },
};

static void test_concessions(void **state)
{
	struct count_world *w = *state;

	fake_perf.refuse = refuse_attr;
	for (size_t i = 0; i < ARRAY_SIZE(concessions); i++) {
		struct perf_event_attr want = concessions[i].got;
		struct event *event = &add_group(w, SCOPE_CPU, "core", false, cycles, 1)->events.events[0];

		event->attr = concessions[i].asked;
		event->attr.size = want.size = sizeof(want);
		event->host_only = concessions[i].host_only;
		refused = concessions[i].refused;
		refused_with = concessions[i].error;
		make_plan(w);
		assert_why(w, 0, concessions[i].state, concessions[i].why);
		if (memcmp(&column_of(w, 0)->attr, &want, sizeof(want)) != 0)
			fail_msg("%s", concessions[i].what);
		assert_int_equal(fake_perf.nr_open, 0);
	}
}

static int busy_if_imprecise(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->attr.precise_ip ? EINVAL : EBUSY;
}

/* The error that is left when nothing more can be given up is the one that is told. */
static void test_concession_then_busy(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 1)->events.events[0].attr.precise_ip = 2;
	fake_perf.refuse = busy_if_imprecise;
	make_plan(w);
	assert_why(w, 0, EVENT_FAILED, "EBUSY");
	assert_true(plan_may_recover(w->plan));
	assert_false(plan_recovers(w));
	fake_perf.refuse = NULL;
	assert_true(plan_recovers(w));
	assert_int_equal(fake_perf.nr_open, 0);
}

/* What was found out is kept: it is not tried again on each fd, nor at a reload, and told all the same. */
static void test_concession_is_kept(void **state)
{
	struct count_world *w = *state;
	int calls;

	fake_perf.refuse = refuse_attr;
	refused = precise;
	refused_with = EINVAL;
	for (int i = 0; i < 2; i++) {
		add_group(w, SCOPE_CPU, "core", false, cycles, 1)->events.events[0].attr.precise_ip = 2;
		calls = fake_perf.nr_calls;
		make_plan(w);
		assert_why(w, 0, EVENT_OK, "precise_ip 2");
		if (i == 1) {
			assert_int_equal(fake_perf.nr_calls, calls);
			break;
		}
		start(w);
		calls = fake_perf.nr_calls;
		assert_int_equal(session_add_cpus(w->session), 0);
		assert_int_equal(fake_perf.nr_calls, calls + 3);
		assert_int_equal(fake_find(HW, 0, 1, 0)->attr.precise_ip, 0);
		session_tick(w->session, NULL);
		assert_state(w, SCOPE_CPU, 0, EVENT_OK, "precise_ip 2");
		plan_unref(w->plan);
		w->plan = NULL;
	}
}

/* The kernel pins groups, by their leaders. */
static void test_pinned_by_a_member(void **state)
{
	struct count_world *w = *state;
	struct group *group = add_group(w, SCOPE_CPU, "core", false, five, 3);

	group->events.events[1].attr.pinned = 1;
	group->events.events[2].attr.exclusive = 1;
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_true(fake_find(HW, 0, 0, 0)->attr.pinned);
	assert_true(fake_find(HW, 0, 0, 0)->attr.exclusive);
	assert_false(fake_find(HW, 1, 0, 0)->attr.pinned);
	assert_false(fake_find(HW, 3, 0, 0)->attr.exclusive);
	assert_why(w, 1, EVENT_OK, NULL);
}

/* Opens behind a certain leader only. */
static int refuse_without_leader(const struct fake_event *event, int nr_members)
{
	return event->attr.type == HW && event->attr.config == 5 &&
			       (nr_members == 0 || fake_perf.events[event->leader].attr.config != 4) ?
		       EINVAL :
		       0;
}

static void test_needs_a_leader(void **state)
{
	struct count_world *w = *state;

	add_group(w, SCOPE_CPU, "topdown", false, &five[3], 2);
	fake_perf.refuse = refuse_without_leader;
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1");
	assert_why(w, 1, EVENT_OK, NULL);

	/* Not alone, and not behind another. */
	add_group(w, SCOPE_CPU, "topdown", true, &five[3], 2);
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0");
	assert_why(w, 1, EVENT_FAILED, "EINVAL");
	add_group(w, SCOPE_CPU, "topdown", false, &five[2], 3);
	make_plan(w);
	assert_sets(w, SCOPE_CPU, "0 1");
	assert_why(w, 2, EVENT_FAILED, "EINVAL");
	assert_int_equal(fake_perf.nr_open, 0);
}

/* --- older kernels, filters, and what can pass */

static int refuse_extended(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->attr.type == HW && event->attr.config >> 32 ? ENOENT : 0;
}

/* Arm's PMUs before Linux 6.6. */
static void test_no_extended_type(void **state)
{
	struct count_world *w = *state;
	struct event *events = add_group(w, SCOPE_CPU, "core", false, cycles, 2)->events.events;

	events[0].attr.config |= 8ULL << 32;
	assert_int_equal(cpulist_parse(&events[0].cpus, "1,5"), 0);
	events[1].attr.config |= 8ULL << 32; /* on any CPU it would be another event */
	fake_perf.refuse = refuse_extended;
	start(w);
	assert_why(w, 0, EVENT_OK, NULL);
	assert_why(w, 1, EVENT_UNSUPPORTED, "ENOENT");
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(fake_perf.nr_open, 2);
	fake_find(HW, 0, 5, 0);
}

static void test_size(void **state)
{
	struct count_world *w = *state;

	/* perf_event_attr of Linux 3.12, which has all that this event needs. */
	fake_perf.known_size = PERF_ATTR_SIZE_VER3;
	start(w);
	add_group(w, SCOPE_CPU, "core", false, cycles, 1);
	make_plan(w);
	assert_why(w, 0, EVENT_OK, NULL);

	/* config3 can't be left out: it would be another event. */
	fake_perf.known_size = 128;
	add_group(w, SCOPE_CPU, "core", false, cycles, 1)->events.events[0].config3 = 1;
	make_plan(w);
	assert_why(w, 0, EVENT_UNSUPPORTED, "config3 came with Linux 6.3");
}

/* The size that the kernel names is taken. */
static void test_size_named(void **state)
{
	struct count_world *w = *state;

	fake_perf.known_size = PERF_ATTR_SIZE_VER1;
	fake_perf.strict_size = true;
	add_group(w, SCOPE_CPU, "core", false, cycles, 1);
	make_plan(w);
	assert_why(w, 0, EVENT_OK, NULL);
	start(w);
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_int_equal(fake_find(HW, 0, 5, 0)->attr.size, PERF_ATTR_SIZE_VER1);
}

static void test_filter(void **state)
{
	struct count_world *w = *state;
	struct group *group = add_group(w, SCOPE_CPU, "software", false, software, 2);

	group->events.events[0].filter = strdup("prev_pid == 0");
	group->events.events[1].filter = strdup("x ===");
	fake_perf.bad_filter = "x ===";
	start(w);
	assert_why(w, 0, EVENT_OK, NULL);
	assert_why(w, 1, EVENT_FAILED, "does not take its filter");
	assert_int_equal(session_add_cpus(w->session), 0);
	assert_string_equal(fake_find(SW, 2, 5, 0)->filter, "prev_pid == 0");
}

static void test_may_recover(void **state)
{
	static const int passing[] = { EBUSY, ENOSPC, EMFILE, ENFILE, ENOMEM, EINTR };
	static const int lasting[] = { ENOENT, EACCES, EINVAL, ENODEV, EOPNOTSUPP };
	struct count_world *w = *state;

	fake_perf.refuse = refuse_hardware;
	for (size_t i = 0; i < ARRAY_SIZE(passing) + ARRAY_SIZE(lasting); i++) {
		bool passes = i < ARRAY_SIZE(passing);

		fake_perf.error = passes ? passing[i] : lasting[i - ARRAY_SIZE(passing)];
		add_group(w, SCOPE_CPU, "core", false, cycles, 2);
		add_group(w, SCOPE_CGROUP, "software", false, software, 2);
		make_plan(w);
		assert_int_equal(plan_may_recover(w->plan), passes);
		assert_int_equal(plan_nr_counted(w->plan), 2);
	}
	fake_perf.error = 0;
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	make_plan(w);
	assert_false(plan_may_recover(w->plan));
}

/* Events that open and do not count what is provoked are in no set, in neither scope, and the others are. */
static void test_never_fires(void **state)
{
	static const struct text_event events[] = {
		{ "faults", SW, 2 },
		{ "switches", SW, 3 },
		{ "migrations", SW, 4 }, /* nobody can provoke them */
		{ "branches", HW, 4 },
		{ "written", PERF_TYPE_BREAKPOINT, 0 },
		{ "syscalls:sys_enter_read", PERF_TYPE_TRACEPOINT, 77 },
	};
	static const struct {
		uint32_t type;
		size_t columns[2];
		const char *why;
	} cases[] = {
		{ SW, { 0, 1 }, "of perfmond's own was not counted" },
		{ HW, { 3, 3 }, "a loop of perfmond's own was not counted" },
		{ PERF_TYPE_BREAKPOINT, { 4, 4 }, "debug exceptions" },
		{ PERF_TYPE_TRACEPOINT, { 5, 5 }, "a system call of perfmond's own was not counted" },
	};
	struct count_world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		size_t nr_dead = cases[i].columns[1] - cases[i].columns[0] + 1;

		add_group(w, SCOPE_CPU, "all", true, events, ARRAY_SIZE(events));
		add_group(w, SCOPE_CGROUP, "all", true, events, ARRAY_SIZE(events));
		fake_perf.dead_types = 1U << cases[i].type;
		make_plan(w);
		for (size_t k = 0; k < ARRAY_SIZE(events); k++) {
			bool dead = k >= cases[i].columns[0] && k <= cases[i].columns[1];

			assert_why(w, k, dead ? EVENT_NEVER_FIRES : EVENT_OK, dead ? cases[i].why : NULL);
			assert_int_equal(column_of(w, k)->set == NO_SET, dead);
		}
		assert_int_equal(plan_nr_counted(w->plan), 2 * (ARRAY_SIZE(events) - nr_dead));
		/* It is not looked at again and again. */
		assert_false(plan_may_recover(w->plan));
	}
	fake_perf.dead_types = 0;
	add_group(w, SCOPE_CPU, "all", true, events, ARRAY_SIZE(events));
	make_plan(w);
	assert_int_equal(plan_nr_counted(w->plan), ARRAY_SIZE(events));
}

/* Of many uprobes one is provoked in each scope, and stands for all of them: to close a file of one is slow. */
static void test_one_uprobe_is_provoked(void **state)
{
	enum { UPROBE = 7 };
	static const struct text_event probes[] = { { "one", UPROBE, 0 }, { "other", UPROBE, 0 } };
	struct count_world *w = *state;

	for (int dead = 0; dead < 2; dead++) {
		struct group *group = add_group(w, SCOPE_CPU, "probes", true, probes, ARRAY_SIZE(probes));
		int begin = fake_perf.nr, own = 0;

		for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
			group->events.events[i].probe = strdup("/program");
			group->events.events[i].probe_ino = 1 + i;
		}
		fake_perf.dead_types = dead ? 1U << UPROBE : 0;
		make_plan(w);
		for (int i = begin; i < fake_perf.nr; i++)
			own += fake_perf.events[i].own && fake_perf.events[i].attr.type == UPROBE;
		assert_int_equal(own, 1);
		for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
			assert_why(w, i, dead ? EVENT_NEVER_FIRES : EVENT_OK, dead ? "function with a probe" : NULL);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_split_where_refused),
		TEST(test_split_where_never_run),
		TEST(test_split_mixed),
		TEST(test_split_leaves_exact),
		TEST(test_pinned_and_split),
		TEST(test_together),
		TEST(test_all_counters_taken),
		TEST(test_split_where_not_all_count),
		TEST(test_a_true_pmu_is_no_bound),
		TEST(test_together_where_not_all_count),
		TEST(test_groups_are_kept_apart),
		TEST(test_known_at_a_reload),
		TEST(test_split_stays_over_reload),
		TEST(test_concessions),
		TEST(test_concession_then_busy),
		TEST(test_concession_is_kept),
		TEST(test_pinned_by_a_member),
		TEST(test_needs_a_leader),
		TEST(test_no_extended_type),
		TEST(test_size),
		TEST(test_size_named),
		TEST(test_filter),
		TEST(test_may_recover),
		TEST(test_never_fires),
		TEST(test_one_uprobe_is_provoked),
	};

	return cmocka_run_group_tests_name("plan-tries", tests, NULL, NULL);
}
