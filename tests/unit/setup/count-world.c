/* SPDX-License-Identifier: MIT */

#include "setup/count-world.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static char *all_globs[] = { (char *)"**" };
static const struct cgroup_filter all_filter = { .include = all_globs, .nr_include = 1 };

static void ignore(void *userdata, struct cgroup *cgroup)
{
	(void)userdata;
	(void)cgroup;
}

int world_setup(void **state)
{
	struct count_world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	fake_perf_reset();
	strcpy(w->dir, "/tmp/perfmond-test-count-XXXXXX");
	assert_non_null(mkdtemp(w->dir));
	w->root_fd = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(w->root_fd >= 0);
	assert_int_equal(cpulist_parse(&w->cpus, "0-1,5"), 0);
	w->privilege = (struct privilege){ .paranoid = 2, .cap_perfmon = true, .fd_limit = 100000 };
	w->options = (struct session_options){ .linger = SECOND, .cgroup_max = 100, .fd_reserve = 10 };
	*state = w;
	return 0;
}

void make_dir(const struct count_world *w, const char *name)
{
	assert_int_equal(mkdirat(w->root_fd, name, 0755), 0);
}

void remove_dir(const struct count_world *w, const char *name)
{
	assert_int_equal(unlinkat(w->root_fd, name, AT_REMOVEDIR), 0);
}

uint64_t inode_of(const struct count_world *w, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(w->root_fd, name, &st, 0), 0);
	return st.st_ino;
}

int world_teardown(void **state)
{
	struct count_world *w = *state;
	char command[128];

	session_free(w->session);
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

static void add_event(struct event_list *list, const struct text_event *from)
{
	struct event *events = reallocarray(list->events, list->nr + 1, sizeof(*events));

	assert_non_null(events);
	list->events = events;
	events[list->nr] = (struct event){
		.text = strdup(from->text),
		.metric = strdup(from->text),
		.pmu = strdup(from->type == HW ? "cpu" :
			      from->type == SW ? "software" :
						 "uncore"),
		.attr = { .type = from->type, .config = from->config, .size = sizeof(struct perf_event_attr) },
		.scale = 1,
		.software = from->type == SW || from->type == PERF_TYPE_TRACEPOINT,
		.uncore = from->type == UNCORE_TYPE,
	};
	if (from->type == UNCORE_TYPE)
		assert_int_equal(cpulist_parse(&events[list->nr].cpus, "1"), 0);
	list->nr++;
}

struct group *add_group(struct count_world *w, enum scope scope, const char *name, bool alone,
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

const struct text_event cycles[2] = { { "cycles", HW, 0 }, { "instructions", HW, 1 } };
const struct text_event software[2] = { { "page-faults", SW, 2 }, { "context-switches", SW, 3 } };

static struct planner planner_of(const struct count_world *w)
{
	return (struct planner){
		.engines = w->engines ? w->engines : perf_alone,
		.cpus = &w->cpus,
		.cgroup_fd = w->root_fd,
		.no_cgroups = w->no_cgroups ? w->no_cgroups : "",
		.privilege = &w->privilege,
		.env = w->env,
		.counting = w->session ? session_plan(w->session) : NULL,
	};
}

int try_plan(struct count_world *w, struct reason *why)
{
	const struct planner planner = planner_of(w);
	int r;

	w->plan = plan_unref(w->plan);
	r = planner_make(&planner, w->groups, &w->plan, why);
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		group_list_release(&w->groups[scope]);
	return r;
}

bool plan_recovers(const struct count_world *w)
{
	const struct planner planner = planner_of(w);

	return planner_recovers(&planner, w->plan);
}

void make_plan(struct count_world *w)
{
	struct reason why;

	assert_int_equal(try_plan(w, &why), 0);
}

void start(struct count_world *w)
{
	const struct cgroup_observer observer = { ignore, ignore, ignore, NULL };
	struct reason why;

	if (!w->plan)
		make_plan(w);
	assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	assert_int_equal(cgroup_tree_new(&w->tree, w->dir, &all_filter, &observer, &why), 0);
	assert_int_equal(cgroup_tree_start(w->tree, &why), 0);
}

void takeover_begin(struct count_world *w, struct session *from)
{
	assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	assert_int_equal(session_takeover_begin(w->session, from), 0);
}

void takeover_end(const struct count_world *w, struct session *from)
{
	assert_int_equal(session_takeover_end(w->session, from), 0);
	session_free(from);
}

struct session *reload_begin(struct count_world *w)
{
	struct session *old = w->session;

	make_plan(w);
	takeover_begin(w, old);
	return old;
}

void run_cpus(const struct count_world *w, uint64_t enabled, uint64_t running, uint64_t by)
{
	for (size_t i = 0; i < w->cpus.nr; i++)
		fake_run(0, w->cpus.cpu[i], enabled, running, by);
}

struct cgroup *find_cgroup(const struct count_world *w, const char *label)
{
	struct cgroup *cgroup;

	TAILQ_FOREACH(cgroup, cgroup_tree_all(w->tree), in_all)
		if (strcmp(cgroup->identity->label, label) == 0)
			return cgroup;
	fail_msg("no cgroup %s", label);
	return NULL;
}

struct cgroup *add_cgroup(struct count_world *w, const char *label)
{
	struct reason why = {};
	struct cgroup *cgroup = find_cgroup(w, label);
	int r = session_add_cgroup(w->session, w->tree, cgroup, &why);

	if (r != CGROUP_COUNTED)
		fail_msg("%s: %d, %s", label, r, why.text);
	return cgroup;
}

void assert_sets(const struct count_world *w, enum scope scope, const char *sets)
{
	const struct scope_plan *plan = &w->plan->scope[scope];
	char text[256] = "";
	size_t at = 0;

	for (size_t i = 0; i < plan->nr_sets; i++)
		for (size_t k = 0; k < plan->sets[i].nr; k++) {
			size_t column = plan->sets[i].columns[k];

			at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%zu", k ? " " : i ? "|" : "", column);
			assert_int_equal(plan->columns[column].set, i);
			assert_int_equal(plan->columns[column].member, k);
		}
	assert_string_equal(text, sets);
}

const struct totals_row *row_of(const struct count_world *w, int cpu, const struct cgroup *cgroup)
{
	const struct totals_row *row = totals_find(session_totals(w->session), cpu, cgroup ? cgroup->identity : NULL);

	assert_non_null(row);
	return row;
}

void assert_cell(const struct count_world *w, int cpu, const struct cgroup *cgroup, size_t column, bool measured,
		 uint64_t total)
{
	const struct totals_cell *cell = &row_of(w, cpu, cgroup)->cells[column];

	if (cell->measured != measured || cell->total != total)
		fail_msg("CPU %d, column %zu: measured %d, total %llu, not %d, %llu", cpu, column, cell->measured,
			 (unsigned long long)cell->total, measured, (unsigned long long)total);
}

void assert_state(const struct count_world *w, enum scope scope, size_t column, enum event_state state,
		  const char *part_of_why)
{
	const char *why;
	enum event_state is = session_column_state(w->session, scope, column, &why);

	if (is != state || (part_of_why ? !why || !strstr(why, part_of_why) : why != NULL))
		fail_msg("%s, column %zu: %s, %s", scope_name(scope), column, event_state_name(is),
			 why ? why : "(null)");
}
