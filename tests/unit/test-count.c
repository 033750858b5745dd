/* SPDX-License-Identifier: MIT */

/* Plan, engine and ledger on a kernel that the test plays: what the real one can't be made to do. */

#include "count/count.h"
#include "count/engine.h"
#include "fake-perf.h"
#include "util/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HW PERF_TYPE_HARDWARE
#define SW PERF_TYPE_SOFTWARE
#define UNCORE_TYPE 77

#define SECOND 1000000000U

/* --- a machine of three CPUs, and a hierarchy of plain directories */

struct world {
	char dir[64];
	int root_fd;
	struct cpulist cpus;
	struct privilege privilege;
	struct group_list groups[_SCOPE_MAX];
	struct cgroup_tree *tree;
	struct plan *plan;
	struct count *count;
	struct count_options options;
};

static char *all_globs[] = { (char *)"**" };
static const struct cgroup_filter all_filter = { .include = all_globs, .nr_include = 1 };

static void ignore(void *userdata, struct cgroup *cgroup)
{
	(void)userdata;
	(void)cgroup;
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	fake_perf_reset();
	strcpy(w->dir, "/tmp/perfmond-test-count-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->root_fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(w->root_fd >= 0);
	assert_int_equal(cpulist_parse(&w->cpus, "0-1,5"), 0);
	w->privilege = (struct privilege){ .paranoid = 2, .cap_perfmon = true, .fd_limit = 100000 };
	w->options = (struct count_options){ .linger = SECOND, .cgroup_max = 100, .fd_reserve = 10 };
	*state = w;
	return 0;
}

static void make_dir(const struct world *w, const char *name)
{
	assert_int_equal(mkdirat(w->root_fd, name, 0755), 0);
}

static void remove_dir(const struct world *w, const char *name)
{
	assert_int_equal(unlinkat(w->root_fd, name, AT_REMOVEDIR), 0);
}

static uint64_t inode_of(const struct world *w, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(w->root_fd, name, &st, 0), 0);
	return st.st_ino;
}

static int teardown(void **state)
{
	struct world *w = *state;
	char command[128];

	count_free(w->count);
	plan_unref(w->plan);
	cgroup_tree_free(w->tree);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		group_list_release(&w->groups[scope]);
	cpulist_release(&w->cpus);
	safe_close(w->root_fd);
	assert_int_equal(fake_perf.nr_open, 0);
	snprintf(command, sizeof(command), "rm -r %s", w->dir);
	assert_int_equal(system(command), 0);
	free(w);
	return 0;
}

/* --- what is configured */

struct text_event {
	const char *text;
	uint32_t type;
	uint64_t config;
};

static void add_event(struct event_list *list, const struct text_event *from)
{
	struct event *events = reallocarray(list->events, list->nr + 1, sizeof(*events));

	assert_non_null(events);
	list->events = events;
	events[list->nr] = (struct event){
		.text = strdup(from->text),
		.metric = strdup(from->text),
		.pmu = strdup(from->type == HW ? "cpu" : from->type == SW ? "software" : "uncore"),
		.attr = { .type = from->type, .config = from->config, .size = sizeof(struct perf_event_attr) },
		.scale = 1,
		.software = from->type == SW,
		.uncore = from->type == UNCORE_TYPE,
	};
	if (from->type == UNCORE_TYPE)
		assert_int_equal(cpulist_parse(&events[list->nr].cpus, "1"), 0);
	list->nr++;
}

static struct group *add_group(struct world *w, enum scope scope, const char *name, bool alone,
			       const struct text_event *events, size_t nr)
{
	struct group_list *list = &w->groups[scope];
	struct group *groups = reallocarray(list->groups, list->nr + 1, sizeof(*groups));

	assert_non_null(groups);
	list->groups = groups;
	groups[list->nr] = (struct group){ .name = strdup(name), .alone = alone };
	for (size_t i = 0; i < nr; i++)
		add_event(&groups[list->nr].events, &events[i]);
	return &groups[list->nr++];
}

static const struct text_event cycles[] = { { "cycles", HW, 0 }, { "instructions", HW, 1 } };
static const struct text_event software[] = { { "page-faults", SW, 2 }, { "context-switches", SW, 3 } };

static int try_plan(struct world *w, struct reason *why)
{
	return plan_new(&w->plan, w->groups, &w->cpus, w->root_fd, "", &w->privilege,
			w->count ? count_plan(w->count) : NULL, why);
}

static void make_plan(struct world *w)
{
	struct reason why;

	assert_int_equal(try_plan(w, &why), 0);
}

static void start(struct world *w)
{
	const struct cgroup_observer observer = { ignore, ignore, ignore, NULL };
	struct reason why;

	if (!w->plan)
		make_plan(w);
	assert_int_equal(count_new(&w->count, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	assert_int_equal(cgroup_tree_new(&w->tree, w->dir, &all_filter, &observer, &why), 0);
	assert_int_equal(cgroup_tree_start(w->tree, &why), 0);
}

static struct cgroup *find_cgroup(const struct world *w, const char *label)
{
	struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(w->tree), in_all)
		if (strcmp(cgroup->identity->label, label) == 0)
			return cgroup;
	fail_msg("no cgroup %s", label);
	return NULL;
}

static struct cgroup *add_cgroup(struct world *w, const char *label)
{
	struct reason why = {};
	struct cgroup *cgroup = find_cgroup(w, label);
	int r = count_add_cgroup(w->count, w->tree, cgroup, &why);

	if (r != CGROUP_COUNTED)
		fail_msg("%s: %d, %s", label, r, why.text);
	return cgroup;
}

static const struct row *row_of(const struct world *w, int cpu, const struct cgroup *cgroup)
{
	const struct row *row = ledger_find(count_ledger(w->count), cpu, cgroup ? cgroup->identity : NULL);

	assert_non_null(row);
	return row;
}

static void assert_cell(const struct world *w, int cpu, const struct cgroup *cgroup, size_t column, bool measured,
			uint64_t total)
{
	const struct cell *cell = &row_of(w, cpu, cgroup)->cells[column];

	if (cell->measured != measured || cell->total != total)
		fail_msg("CPU %d, column %zu: measured %d, total %llu, not %d, %llu", cpu, column, cell->measured,
			 (unsigned long long)cell->total, measured, (unsigned long long)total);
}

static void assert_state(const struct world *w, enum scope scope, size_t column, enum event_state state,
			 const char *part_of_why)
{
	const char *why;
	enum event_state is = count_column_state(w->count, scope, column, &why);

	if (is != state || (part_of_why ? !why || !strstr(why, part_of_why) : why != NULL))
		fail_msg("%s, column %zu: %s, %s", scope_name(scope), column, event_state_name(is),
			 why ? why : "(null)");
}

/* --- plan */

static void test_plan_sets(void **state)
{
	static const struct text_event mixed[] = {
		{ "page-faults", SW, 2 },
		{ "cycles", HW, 0 },
		{ "x", UNCORE_TYPE, 9 },
	};
	static const struct text_event alone[] = { { "minor-faults", SW, 5 }, { "major-faults", SW, 6 } };
	struct world *w = *state;
	const struct scope_plan *plan;

	add_group(w, SCOPE_CPU, "mixed", false, mixed, 3);
	add_group(w, SCOPE_CPU, "alone", true, alone, 2);
	make_plan(w);
	plan = &w->plan->scope[SCOPE_CPU];
	assert_int_equal(plan->nr_columns, 5);
	assert_int_equal(plan->nr_sets, 4);

	/* The hardware event leads, and the software event goes with it, no longer exact. */
	assert_int_equal(plan->sets[0].nr, 2);
	assert_int_equal(plan->sets[0].columns[0], 1);
	assert_int_equal(plan->sets[0].columns[1], 0);
	assert_int_equal(plan->columns[1].member, 0);
	assert_int_equal(plan->columns[0].member, 1);
	assert_false(plan->sets[0].exact);
	assert_int_equal(plan->sets[0].cpus.nr, 3);

	/* An uncore event stands by itself, on its own CPU. */
	assert_int_equal(plan->sets[1].nr, 1);
	assert_int_equal(plan->sets[1].cpus.nr, 1);
	assert_int_equal(plan->sets[1].cpus.cpu[0], 1);

	assert_int_equal(plan->sets[2].nr, 1);
	assert_int_equal(plan->sets[3].nr, 1);
	assert_true(plan->sets[3].exact);
	assert_int_equal(fake_perf.nr_open, 0);
}

static int refuse_with;

static int refuse_hardware(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->attr.type == HW ? refuse_with : 0;
}

/* Every errno of a refused event: its state, and what the sentence has to speak of. */
static void test_plan_errnos(void **state)
{
	static const struct {
		int error;
		bool may;
		int paranoid;
		enum event_state state;
		const char *why;
	} cases[] = {
		{ ENOENT, true, 2, EVENT_UNSUPPORTED, "no PMU" },
		{ EOPNOTSUPP, true, 2, EVENT_UNSUPPORTED, "no PMU" },
		{ ENODEV, true, 2, EVENT_UNSUPPORTED, "offline" },
		{ ENOSYS, true, 2, EVENT_UNSUPPORTED, "seccomp" },
		{ EACCES, false, 2, EVENT_DENIED, "CAP_PERFMON" },
		{ EPERM, false, PARANOID_UNKNOWN, EVENT_DENIED, "CAP_PERFMON" },
		{ EACCES, true, 4, EVENT_DENIED, "perf_event_paranoid is 4" },
		{ EPERM, true, 2, EVENT_DENIED, "seccomp" },
		{ EINVAL, true, 2, EVENT_FAILED, "config 0x0" },
		{ EBUSY, true, 2, EVENT_FAILED, "exclusively" },
		{ ENOSPC, true, 2, EVENT_FAILED, "breakpoints" },
		{ E2BIG, true, 2, EVENT_FAILED, "older" },
		{ EMFILE, true, 2, EVENT_FAILED, "LimitNOFILE" },
		{ ENFILE, true, 2, EVENT_FAILED, "file-max" },
		{ ENOMEM, true, 2, EVENT_FAILED, "memory" },
		{ EIO, true, 2, EVENT_FAILED, "Input/output" },
	};
	struct world *w = *state;

	fake_perf.refuse = refuse_hardware;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct column *column;

		add_group(w, SCOPE_CPU, "core", false, cycles, 1);
		add_group(w, SCOPE_CPU, "software", false, software, 2);
		refuse_with = cases[i].error;
		w->privilege.cap_perfmon = cases[i].may;
		w->privilege.paranoid = cases[i].paranoid;
		fake_perf.nr_calls = 0;
		make_plan(w);

		column = &w->plan->scope[SCOPE_CPU].columns[0];
		assert_int_equal(column->state, cases[i].state);
		assert_true(column->set == NO_SET);
		if (!strstr(column->why, cases[i].why))
			fail_msg("%s: %s", strerror(cases[i].error), column->why);
		/* The others are counted; and each was tried once, their group once more. */
		assert_int_equal(w->plan->scope[SCOPE_CPU].nr_sets, 1);
		assert_int_equal(w->plan->scope[SCOPE_CPU].sets[0].nr, 2);
		assert_int_equal(fake_perf.nr_calls, 5);
		w->plan = plan_unref(w->plan);
	}
}

static int refuse_third(const struct fake_event *event, int nr_members)
{
	return event->attr.type == HW && nr_members >= 2 ? EINVAL : 0;
}

static void test_plan_group_too_large(void **state)
{
	static const struct text_event three[] = {
		{ "cycles", HW, 0 },
		{ "instructions", HW, 1 },
		{ "branches", HW, 4 },
	};
	struct world *w = *state;
	const struct scope_plan *plan;

	add_group(w, SCOPE_CPU, "big", false, three, 3);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	fake_perf.refuse = refuse_third;
	make_plan(w);
	plan = &w->plan->scope[SCOPE_CPU];
	assert_int_equal(plan->nr_sets, 1);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(plan->columns[i].state, EVENT_FAILED);
		assert_non_null(strstr(plan->columns[i].why, "'branches'"));
		assert_non_null(strstr(plan->columns[i].why, "'big'"));
	}
	assert_int_equal(plan->columns[3].set, 0);
	assert_int_equal(fake_perf.nr_open, 0);
}

static void test_plan_same_series_twice(void **state)
{
	struct world *w = *state;
	struct reason why;

	add_group(w, SCOPE_CGROUP, "a", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "b", false, cycles, 1);
	assert_int_equal(try_plan(w, &why), -EEXIST);
	assert_non_null(strstr(why.text, "'cycles' in group 'a'"));
	assert_non_null(strstr(why.text, "group 'b'"));
}

/* Names meet by what they become as series, with the unit. */
static void test_plan_series_meet(void **state)
{
	static const struct text_event one[] = { { "a", SW, 1 } }, other[] = { { "a_seconds", HW, 0 } };
	static const struct text_event times[] = { { "group_running", SW, 1 } };
	struct world *w = *state;
	struct reason why;
	struct group *group;

	group = add_group(w, SCOPE_CPU, "one", false, one, 1);
	group->events.events[0].unit = EVENT_UNIT_SECONDS;
	add_group(w, SCOPE_CPU, "other", false, other, 1);
	assert_int_equal(try_plan(w, &why), -EEXIST);
	assert_non_null(strstr(why.text, "'a_seconds'"));

	group = add_group(w, SCOPE_CPU, "times", false, times, 1);
	group->events.events[0].unit = EVENT_UNIT_SECONDS;
	assert_int_equal(try_plan(w, &why), -EEXIST);
	assert_non_null(strstr(why.text, "'group_running_seconds'"));

	/* One event on several PMUs is one family. */
	for (int i = 0; i < 2; i++) {
		group = add_group(w, SCOPE_CPU, i ? "atom" : "core", false, cycles, 1);
		group->events.events[0].by_pmu = true;
		free(group->events.events[0].pmu);
		group->events.events[0].pmu = strdup(i ? "cpu_atom" : "cpu_core");
	}
	make_plan(w);
}

static void test_plan_absent_and_uncountable(void **state)
{
	static const struct text_event uncore[] = { { "x", UNCORE_TYPE, 9 } };
	struct world *w = *state;
	struct group *group = add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	const struct column *columns;

	group->events.events[0].absent = -EACCES;
	group->events.events[0].why_absent = strdup("tracefs is root's");
	group->events.events[1].absent = -ENOENT;
	group->events.events[1].why_absent = strdup("no such PMU");
	add_group(w, SCOPE_CGROUP, "uncore", false, uncore, 1);
	make_plan(w);
	columns = w->plan->scope[SCOPE_CGROUP].columns;
	assert_int_equal(columns[0].state, EVENT_DENIED);
	assert_string_equal(columns[0].why, "tracefs is root's");
	assert_int_equal(columns[1].state, EVENT_UNSUPPORTED);
	assert_string_equal(columns[1].why, "no such PMU");
	assert_int_equal(columns[2].state, EVENT_UNSUPPORTED);
	assert_int_equal(fake_perf.nr_calls, 0);
	assert_int_equal(w->plan->scope[SCOPE_CGROUP].nr_sets, 0);
}

static void test_plan_no_cgroups(void **state)
{
	struct world *w = *state;
	struct reason why;

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	assert_int_equal(plan_new(&w->plan, w->groups, &w->cpus, -1, "no hierarchy", &w->privilege, NULL, &why), 0);
	assert_int_equal(w->plan->scope[SCOPE_CGROUP].columns[0].state, EVENT_UNSUPPORTED);
	assert_string_equal(w->plan->scope[SCOPE_CGROUP].columns[0].why, "no hierarchy");
}

/* --- CPUs */

static void test_cpus_exact(void **state)
{
	struct world *w = *state;

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_int_equal(fake_perf.nr_open, 6);
	assert_int_equal(count_stats(w->count).fds, 6);
	/* Leaders start disabled and are enabled when their group is whole; members follow them. */
	assert_true(fake_find(SW, 2, 0, 0)->attr.disabled);
	assert_true(fake_find(SW, 2, 0, 0)->started);
	assert_false(fake_find(SW, 3, 0, 0)->attr.disabled);
	assert_int_equal(fake_find(SW, 3, 5, 0)->attr.read_format, PERF_FORMAT_GROUP | PERF_FORMAT_ID |
									   PERF_FORMAT_TOTAL_TIME_ENABLED |
									   PERF_FORMAT_TOTAL_TIME_RUNNING);

	fake_run(0, 5, 1000, 500, 7); /* a lie: software events are never multiplexed */
	fake_find(SW, 3, 5, 0)->value += 100;
	count_read(w->count);
	assert_cell(w, 0, NULL, 0, true, 0);
	assert_cell(w, 5, NULL, 0, true, 7);
	assert_cell(w, 5, NULL, 1, true, 107);

	/* Members in another order than they were opened in are told apart by their ids. */
	fake_find(SW, 2, 5, 0)->reversed = true;
	fake_run(0, 5, 1000, 1000, 1);
	count_read(w->count);
	assert_cell(w, 5, NULL, 0, true, 8);
	assert_cell(w, 5, NULL, 1, true, 108);
}

static void test_cpus_multiplexed(void **state)
{
	struct world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);

	/* CPU 0 never gets the PMU, CPU 1 half of the time, CPU 5 always. */
	fake_run(0, 0, 1000, 0, 0);
	fake_run(0, 1, 1000, 500, 100);
	fake_run(0, 5, 1000, 1000, 100);
	count_tick(w->count);
	assert_cell(w, 0, NULL, 0, false, 0);
	assert_cell(w, 1, NULL, 0, true, 200);
	assert_cell(w, 5, NULL, 0, true, 100);
	assert_state(w, SCOPE_CPU, 0, EVENT_MULTIPLEXED, "50 %");

	/* The time that CPU 0 was not observed is covered once it runs. */
	fake_run(0, 0, 1000, 1000, 300);
	fake_run(0, 1, 1000, 0, 0);
	count_tick(w->count);
	assert_cell(w, 0, NULL, 1, true, 600);
	assert_cell(w, 1, NULL, 1, true, 200);

	fake_run(0, 0, 1000, 1000, 1);
	fake_run(0, 1, 1000, 1000, 1);
	fake_run(0, 5, 1000, 1000, 1);
	count_tick(w->count);
	assert_cell(w, 1, NULL, 1, true, 202);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
}

static void test_never_scheduled(void **state)
{
	struct world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	for (int i = 0; i < 3; i++)
		fake_run(0, w->cpus.cpu[i], 1000, 0, 0);
	count_tick(w->count);
	assert_state(w, SCOPE_CPU, 1, EVENT_NEVER_SCHEDULED, "'core'");
	assert_cell(w, 5, NULL, 1, false, 0);
}

static void test_rates_and_times(void **state)
{
	struct world *w = *state;
	const struct row *row;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	count_tick(w->count);
	row = row_of(w, 0, NULL);
	assert_true(isnan(row->cells[0].rate)); /* no interval has ended yet */

	/* More time than has passed on the clock is not believed: the count is taken as it is. */
	fake_run(0, 0, 3600ULL * SECOND, 1800ULL * SECOND, 1000);
	count_tick(w->count);
	assert_true(row->cells[0].rate > 0 && isfinite(row->cells[0].rate));
	assert_true(row->times[0].enabled < 60ULL * SECOND);
	assert_true(row->times[0].running <= row->times[0].enabled);
	assert_int_equal(row->cells[0].total, 1000);

	/* Nor do times fall; and from there on, counts are scaled again. */
	fake_find(HW, 0, 0, 0)->enabled = 5;
	fake_find(HW, 0, 0, 0)->running = 4;
	count_tick(w->count);
	assert_true(row->times[0].enabled < 60ULL * SECOND);
	assert_int_equal(row->cells[0].total, 1000);
	fake_run(0, 0, 1000, 500, 7);
	count_tick(w->count);
	assert_int_equal(row->cells[0].total, 1014);
	assert_int_equal(count_stats(w->count).backwards, 0);

	/* A value that falls adds nothing, and what it passes again is not counted twice. */
	fake_find(HW, 0, 0, 0)->value -= 100;
	count_tick(w->count);
	assert_int_equal(count_stats(w->count).backwards, 1);
	fake_run(0, 0, 1000, 1000, 101);
	count_tick(w->count);
	assert_int_equal(row->cells[0].total, 1015);
}

/* A group that can't be read loses its series until it can, and nothing else does. */
static void test_read_errors(void **state)
{
	static const struct {
		int error;
		ssize_t cut;
		const char *why;
	} cases[] = {
		{ EIO, -1, "Input/output" },
		{ 0, 0, "error state" },
		{ 0, 24, "another group" },
	};
	struct world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CPU, "software", false, software, 2);
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct fake_event *leader = fake_find(HW, 0, 1, 0);

		leader->read_errno = cases[i].error;
		leader->read_cut = cases[i].cut;
		fake_run(0, 1, 1000, 1000, 10);
		count_tick(w->count);
		assert_state(w, SCOPE_CPU, 0, EVENT_FAILED, cases[i].why);
		assert_state(w, SCOPE_CPU, 1, EVENT_FAILED, "CPU 1");
		assert_state(w, SCOPE_CPU, 2, EVENT_OK, NULL);
		assert_cell(w, 1, NULL, 0, false, 10 * i);
		assert_cell(w, 0, NULL, 0, true, 0);
		assert_cell(w, 1, NULL, 2, true, 10 * (i + 1));

		leader->read_errno = 0;
		leader->read_cut = -1;
		count_tick(w->count);
		assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
		assert_cell(w, 1, NULL, 0, true, 10 * (i + 1));
	}
	assert_int_equal(count_stats(w->count).read_errors, ARRAY_SIZE(cases));
}

static int refuse_cpu_1(const struct fake_event *event, int nr_members)
{
	return event->cpu == 1 && event->attr.config == 1 && nr_members > 0 ? refuse_with : 0;
}

/* A set that can't be opened on one CPU is counted on the others, and says where it is not. */
static void test_one_cpu_refuses(void **state)
{
	struct world *w = *state;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	make_plan(w);
	refuse_with = EBUSY;
	fake_perf.refuse = refuse_cpu_1;
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_int_equal(count_stats(w->count).cpus, 2);
	assert_int_equal(fake_perf.nr_open, 4);
	count_tick(w->count);
	assert_state(w, SCOPE_CPU, 1, EVENT_FAILED, "CPU 1");
	assert_cell(w, 0, NULL, 0, true, 0);
	assert_null(ledger_find(count_ledger(w->count), 1, NULL));
}

static int refuse_member_of_cpu_5(const struct fake_event *event, int nr_members)
{
	return event->cpu == 5 && nr_members == 1 ? ENODEV : 0;
}

/* A CPU that goes offline in the middle of it leaves no half of a group, and no 0 that nobody measured. */
static void test_one_cpu_goes(void **state)
{
	struct world *w = *state;

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	make_plan(w);
	fake_perf.refuse = refuse_member_of_cpu_5;
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_int_equal(fake_perf.nr_open, 4);
	assert_int_equal(count_stats(w->count).fds, 4);
	count_tick(w->count);
	assert_state(w, SCOPE_CPU, 0, EVENT_OK, NULL);
	assert_cell(w, 0, NULL, 0, true, 0);
	assert_cell(w, 5, NULL, 0, false, 0);
}

/* --- cgroups */

static void test_cgroup_sums(void **state)
{
	struct world *w = *state;
	struct cgroup *a, *b;
	uint64_t ino;

	add_group(w, SCOPE_CGROUP, "core", false, cycles, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	ino = inode_of(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	b = add_cgroup(w, "/b");
	assert_int_equal(fake_perf.nr_open, 12);
	assert_true(fake_perf.flags & PERF_FLAG_PID_CGROUP);

	/* b never ran: a true 0. a ran on one CPU only, and there without the PMU: unknown. */
	fake_run(ino, 0, 1000, 0, 0);
	count_tick(w->count);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 0);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 0);

	fake_run(ino, 0, 1000, 1000, 10);
	fake_run(ino, 5, 1000, 500, 3);
	count_tick(w->count);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 26);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 0);

	/* A sum of which a part can't be read is no sum. */
	fake_find(HW, 0, 5, ino)->read_errno = EIO;
	count_tick(w->count);
	assert_cell(w, ROW_ALL_CPUS, a, 0, false, 26);
}

static void test_cgroup_per_cpu(void **state)
{
	struct world *w = *state;
	struct cgroup *a;

	w->options.cgroup_per_cpu = true;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	fake_run(inode_of(w, "a"), 5, 1000, 1000, 9);
	count_tick(w->count);
	assert_cell(w, 0, a, 0, true, 0);
	assert_cell(w, 5, a, 0, true, 9);
	assert_null(ledger_find(count_ledger(w->count), ROW_ALL_CPUS, a->identity));
	count_remove_cgroup(w->count, a, false);
	assert_null(ledger_find(count_ledger(w->count), 5, a->identity));
}

static int open_limit;

static int refuse_beyond_limit(const struct fake_event *event, int nr_members)
{
	(void)event;
	(void)nr_members;
	return fake_perf.nr_open >= open_limit ? EMFILE : 0;
}

/* All or nothing: a cgroup that does not fit leaves no fd behind and takes nothing from the others. */
static void test_cgroup_limits(void **state)
{
	struct world *w = *state;
	struct reason why = {};
	struct cgroup *a, *b;

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	start(w);
	a = add_cgroup(w, "/a");
	b = find_cgroup(w, "/b");

	for (open_limit = 6; open_limit < 12; open_limit++) {
		fake_perf.refuse = refuse_beyond_limit;
		assert_int_equal(count_add_cgroup(w->count, w->tree, b, &why), CGROUP_OVER_FDS);
		assert_non_null(strstr(why.text, "LimitNOFILE"));
		assert_int_equal(fake_perf.nr_open, 6);
		assert_int_equal(count_stats(w->count).fds, 6);
		assert_null(ledger_find(count_ledger(w->count), ROW_ALL_CPUS, b->identity));
	}
	fake_perf.refuse = NULL;

	/* Known beforehand: 6 open, 6 more and 10 in reserve are over 21. */
	w->privilege.fd_limit = 21;
	fake_perf.nr_calls = 0;
	assert_int_equal(count_add_cgroup(w->count, w->tree, b, &why), CGROUP_OVER_FDS);
	assert_int_equal(fake_perf.nr_calls, 0);
	assert_non_null(strstr(why.text, "limit of 21"));

	w->privilege.fd_limit = 22;
	assert_int_equal(count_add_cgroup(w->count, w->tree, b, &why), CGROUP_COUNTED);
	count_remove_cgroup(w->count, a, false);
	assert_int_equal(fake_perf.nr_open, 6);
}

static void test_cgroup_max(void **state)
{
	struct world *w = *state;
	struct reason why = {};
	struct cgroup *a;

	w->options.cgroup_max = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	assert_int_equal(count_add_cgroup(w->count, w->tree, find_cgroup(w, "/"), &why), CGROUP_OVER_MAX);
	assert_non_null(strstr(why.text, "[cgroup] max"));
	count_remove_cgroup(w->count, a, true);
	assert_int_equal(count_add_cgroup(w->count, w->tree, find_cgroup(w, "/"), &why), CGROUP_COUNTED);
}

static int refuse_cgroups(const struct fake_event *event, int nr_members)
{
	(void)nr_members;
	return event->cgroup ? ENOENT : 0;
}

static void test_cgroup_unknown_or_gone(void **state)
{
	struct world *w = *state;
	struct reason why = {};
	struct cgroup *a;

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = find_cgroup(w, "/a");
	fake_perf.refuse = refuse_cgroups;
	assert_int_equal(count_add_cgroup(w->count, w->tree, a, &why), CGROUP_FAILED);
	assert_non_null(strstr(why.text, "subtree_control"));
	fake_perf.refuse = NULL;
	remove_dir(w, "a");
	assert_int_equal(count_add_cgroup(w->count, w->tree, a, &why), -ENOENT);
	/* Another one in its place is another cgroup. */
	make_dir(w, "other");
	make_dir(w, "a");
	assert_int_equal(count_add_cgroup(w->count, w->tree, a, &why), -ENOENT);
	assert_int_equal(fake_perf.nr_open, 0);
}

/* The last counts are read at removal and linger; made again under its path, its series go on. */
static void test_cgroup_life(void **state)
{
	struct world *w = *state;
	struct cgroup *a;
	struct cgroup_identity *old;
	struct reason why;
	uint64_t old_id;

	w->options.linger = 3600ULL * SECOND;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	old = cgroup_identity_ref(a->identity);
	old_id = old->id;
	fake_run(old_id, 1, 1000, 1000, 5);
	count_remove_cgroup(w->count, a, true);
	assert_int_equal(fake_perf.nr_open, 0);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 5);
	assert_int_equal(count_stats(w->count).lingering, 1);

	/* A directory made before the old one goes has another inode. */
	make_dir(w, "new");
	remove_dir(w, "a");
	assert_int_equal(renameat(w->root_fd, "new", w->root_fd, "a"), 0);
	assert_int_equal(cgroup_tree_rescan(w->tree, &why), 0);
	a = add_cgroup(w, "/a");
	assert_true(a->identity->id != old_id);
	fake_run(a->identity->id, 0, 1000, 1000, 2);
	count_tick(w->count);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 7);
	assert_int_equal(count_stats(w->count).lingering, 0);
	cgroup_identity_unref(old);
}

static void test_cgroup_expires(void **state)
{
	struct world *w = *state;
	struct cgroup *a;

	w->options.linger = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	a = add_cgroup(w, "/a");
	count_read(w->count);
	count_remove_cgroup(w->count, a, true);
	assert_non_null(ledger_find(count_ledger(w->count), ROW_ALL_CPUS, a->identity));
	count_tick(w->count);
	assert_null(ledger_find(count_ledger(w->count), ROW_ALL_CPUS, a->identity));
	assert_int_equal(count_stats(w->count).lingering, 0);
}

/* Many that come and go leave no more rows behind than cgroups may be counted. */
static void test_lingering_is_bounded(void **state)
{
	struct world *w = *state;
	struct cgroup *cgroup;
	char name[16];

	w->options.cgroup_max = 3;
	w->options.linger = 3600ULL * SECOND;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		make_dir(w, name);
	}
	start(w);
	for (int i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "/c%d", i);
		cgroup = add_cgroup(w, name);
		count_remove_cgroup(w->count, cgroup, true);
	}
	assert_int_equal(count_stats(w->count).lingering, 3);
	assert_int_equal(count_ledger(w->count)->nr_rows[SCOPE_CGROUP], 3);
	assert_null(ledger_find(count_ledger(w->count), ROW_ALL_CPUS, find_cgroup(w, "/c4")->identity));
	assert_cell(w, ROW_ALL_CPUS, find_cgroup(w, "/c5"), 0, true, 0);
}

/* --- reload */

static struct count *successor(struct world *w)
{
	struct count *old = w->count;

	plan_unref(w->plan);
	w->plan = NULL;
	make_plan(w);
	assert_int_equal(count_new(&w->count, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	count_succeed(w->count, old);
	return old;
}

/* Equal sets are handed over with what they have counted; changed ones are opened anew, and the totals
 * of events in both go on. */
static void test_reload(void **state)
{
	static const struct text_event more[] = { { "cycles", HW, 0 }, { "branches", HW, 4 } };
	struct world *w = *state;
	struct fake_event *kept, *changed;
	struct count *old;
	struct cgroup *a;
	int calls;

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	a = add_cgroup(w, "/a");
	for (int i = 0; i < 3; i++)
		fake_run(0, w->cpus.cpu[i], 1000, 1000, 10);
	fake_run(a->identity->id, 0, 1000, 1000, 4);
	count_tick(w->count);
	kept = fake_find(SW, 2, 0, 0);
	changed = fake_find(HW, 0, 0, 0);

	add_group(w, SCOPE_CPU, "software", false, software, 2);
	add_group(w, SCOPE_CPU, "core", false, more, 2);
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	old = successor(w);
	fake_run(0, 0, 1000, 1000, 1); /* while the new one is made */
	calls = fake_perf.nr_calls;
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_ptr_equal(add_cgroup(w, "/a"), a);
	assert_int_equal(fake_perf.nr_calls - calls, 6); /* the changed group, on three CPUs */
	assert_int_equal(count_succeeded(w->count, old), 0);
	count_free(old);
	assert_true(kept->open);
	assert_false(changed->open);

	fake_run(0, 0, 1000, 1000, 1);
	count_tick(w->count);
	assert_cell(w, 0, NULL, 0, true, 12); /* page-faults: nothing lost */
	assert_cell(w, 5, NULL, 0, true, 10);
	assert_cell(w, 0, NULL, 2, true, 12); /* cycles: up to its last moment, and from the new group */
	assert_cell(w, 0, NULL, 3, true, 1);  /* branches: new */
	assert_cell(w, ROW_ALL_CPUS, a, 1, true, 4);
	assert_int_equal(fake_perf.nr_open, 18);
	assert_int_equal(count_stats(w->count).fds, 18);
}

/* What comes up to the moment in which a changed set is replaced is counted; and the replacement needs no more
 * room than its own. */
static void test_reload_in_little_room(void **state)
{
	static const struct text_event more[] = { { "page-faults", SW, 2 }, { "minor-faults", SW, 5 } };
	struct world *w = *state;
	struct reason why = {};
	struct count *old;
	struct cgroup *a, *b;

	w->options.linger = SECOND;
	w->privilege.fd_limit = 22; /* 6 and 6, and 10 in reserve */
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	start(w);
	a = add_cgroup(w, "/a");
	b = add_cgroup(w, "/b");
	count_tick(w->count);

	add_group(w, SCOPE_CGROUP, "software", false, more, 2);
	old = successor(w);
	fake_run(a->identity->id, 0, 1000, 1000, 3);
	fake_run(b->identity->id, 0, 1000, 1000, 4);
	open_limit = 12;
	fake_perf.refuse = refuse_beyond_limit;
	assert_int_equal(count_add_cgroup(w->count, w->tree, a, &why), CGROUP_COUNTED);
	assert_string_equal(why.text, "");
	assert_int_equal(count_add_cgroup(w->count, w->tree, b, &why), CGROUP_COUNTED);
	assert_int_equal(count_succeeded(w->count, old), 0);
	count_free(old);
	assert_int_equal(fake_perf.nr_open, 12);
	assert_cell(w, ROW_ALL_CPUS, a, 0, true, 3);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 4);
	assert_cell(w, ROW_ALL_CPUS, b, 1, true, 0);
}

/* A cgroup that is gone by the time of the reload, or has no room any more, is read once more and lingers. */
static void test_reload_leaves_out(void **state)
{
	struct world *w = *state;
	struct reason why = {};
	struct count *old;
	struct cgroup *a, *b;

	w->options.linger = 3600ULL * SECOND;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	make_dir(w, "a");
	make_dir(w, "b");
	start(w);
	a = add_cgroup(w, "/a");
	b = add_cgroup(w, "/b");
	count_tick(w->count);
	remove_dir(w, "a");
	fake_run(a->identity->id, 0, 1000, 1000, 3);
	fake_run(b->identity->id, 0, 1000, 1000, 4);

	w->options.cgroup_max = 1;
	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	old = successor(w);
	assert_int_equal(count_add_cgroup(w->count, w->tree, a, &why), -ENOENT);
	count_remove_cgroup(old, a, true);
	assert_int_equal(count_add_cgroup(w->count, w->tree, find_cgroup(w, "/"), &why), CGROUP_COUNTED);
	assert_int_equal(count_add_cgroup(w->count, w->tree, b, &why), CGROUP_OVER_MAX);
	count_remove_cgroup(old, b, true);
	assert_int_equal(count_succeeded(w->count, old), 0);
	count_free(old);
	assert_cell(w, ROW_ALL_CPUS, b, 0, true, 4);
	assert_int_equal(count_stats(w->count).lingering, 1); /* as many as may be counted */
}

/* An event that is counted is not tried again, when it could only be refused for being in use; one that is no
 * longer counted is not shown with its old total. */
static void test_reload_busy(void **state)
{
	struct world *w = *state;
	struct count *old;

	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	start(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	for (int i = 0; i < 3; i++)
		fake_run(0, w->cpus.cpu[i], 1000, 1000, 10);
	count_tick(w->count);

	refuse_with = EBUSY;
	fake_perf.refuse = refuse_hardware;
	add_group(w, SCOPE_CPU, "core", false, cycles, 2);
	old = successor(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_int_equal(count_succeeded(w->count, old), 0);
	count_free(old);
	assert_cell(w, 5, NULL, 0, true, 10);

	add_group(w, SCOPE_CPU, "core", false, cycles, 1);
	old = successor(w);
	assert_int_equal(count_add_cpus(w->count), 0);
	assert_int_equal(count_succeeded(w->count, old), 0);
	count_free(old);
	count_tick(w->count);
	assert_state(w, SCOPE_CPU, 0, EVENT_FAILED, "exclusively");
	assert_cell(w, 5, NULL, 0, false, 10);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_plan_sets),
		TEST(test_plan_errnos),
		TEST(test_plan_group_too_large),
		TEST(test_plan_same_series_twice),
		TEST(test_plan_series_meet),
		TEST(test_plan_absent_and_uncountable),
		TEST(test_plan_no_cgroups),
		TEST(test_cpus_exact),
		TEST(test_cpus_multiplexed),
		TEST(test_never_scheduled),
		TEST(test_rates_and_times),
		TEST(test_read_errors),
		TEST(test_one_cpu_refuses),
		TEST(test_one_cpu_goes),
		TEST(test_cgroup_sums),
		TEST(test_cgroup_per_cpu),
		TEST(test_cgroup_limits),
		TEST(test_cgroup_max),
		TEST(test_cgroup_unknown_or_gone),
		TEST(test_cgroup_life),
		TEST(test_cgroup_expires),
		TEST(test_lingering_is_bounded),
		TEST(test_reload),
		TEST(test_reload_in_little_room),
		TEST(test_reload_leaves_out),
		TEST(test_reload_busy),
	};

	return cmocka_run_group_tests_name("count", tests, NULL, NULL);
}
