/* SPDX-License-Identifier: MIT */

/*
 * Everything that counting asks of the kernel and of memory fails, call by call: what counts goes on, what does not is
 * told, nothing is left open, and when the fault is gone all is counted again.
 */

#include "counting/engine/stored.h"
#include "setup/count-world.h"
#include "setup/faults.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TP PERF_TYPE_TRACEPOINT
#define NR_CPUS 3
#define NR_CGROUPS 2
#define BOOT "a-boot"

/* What has been seen of a series: it never goes lower. */
struct mark {
	char series[64];
	uint64_t total;
};

struct target {
	struct cgroup *cgroup;
	int status; /* enum cgroup_status, or negative errno */
	bool told;  /* with a sentence */
	bool was_counted;
};

struct run {
	struct count_world *w;
	struct plan *plans[2];
	struct session *session;
	struct stored_pool pool;
	struct target targets[NR_CGROUPS];
	struct mark marks[256];
	size_t nr_marks;
	bool stays_online; /* no CPU goes offline on the way */
	char what[96];	   /* for messages */
};

#define expect(run, condition, ...)                                                                                    \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			faults_end();                                                                                  \
			print_error("%s: ", (run)->what);                                                              \
			fail_msg(__VA_ARGS__);                                                                         \
		}                                                                                                      \
	} while (0)

/* --- what has to hold at any time */

static void check_fds(const struct run *run)
{
	size_t fds = (run->session ? session_stats(run->session).fds : 0) + run->pool.nr;

	expect(run, fds == (size_t)fake_perf.nr_open, "%zu fds are told, %d are open", fds, fake_perf.nr_open);
}

static void check_mark(struct run *run, const struct totals_row *row, const struct column *column, uint64_t total)
{
	char series[64];
	size_t i;

	(void)snprintf(series, sizeof(series), "%s %d %s %s %s", scope_name(row->scope), row->cpu,
		       row->identity ? row->identity->label : "", column->event->metric,
		       column->event->filter ? column->event->filter : "");
	for (i = 0; i < run->nr_marks && strcmp(run->marks[i].series, series) != 0; i++)
		;
	assert_true(i < ARRAY_SIZE(run->marks));
	if (i == run->nr_marks) {
		strcpy(run->marks[run->nr_marks++].series, series);
		run->marks[i].total = 0;
	}
	expect(run, total >= run->marks[i].total, "%s: %llu after %llu", series, (unsigned long long)total,
	       (unsigned long long)run->marks[i].total);
	run->marks[i].total = total;
}

static void check_totals(struct run *run)
{
	const struct totals *totals = session_totals(run->session);
	const struct totals_row *row;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		TAILQ_FOREACH(row, &totals->rows[scope], in_totals)
			for (size_t i = 0; i < totals->plan->scope[scope].nr_columns; i++)
				check_mark(run, row, &totals->plan->scope[scope].columns[i], row->cells[i].total);
}

/* Of all of the set's members, or of none: a group is never half open. */
static bool is_open(const struct run *run, const struct scope_plan *plan, const struct set *set, int cpu, uint64_t id)
{
	size_t nr = 0;

	for (size_t i = 0; i < set->nr; i++) {
		const struct event *event = plan->columns[set->columns[i]].event;

		nr += fake_look(event->attr.type, event->attr.config, cpu, id) != NULL;
	}
	expect(run, nr == 0 || nr == set->nr, "%zu of %zu members are open on CPU %d", nr, set->nr, cpu);
	return nr > 0;
}

/* The scope's sets that are not open on some CPU. */
static size_t nr_missing(const struct run *run, enum scope scope, uint64_t id, size_t *of)
{
	const struct scope_plan *plan = &session_plan(run->session)->scope[scope];
	size_t nr = 0;

	*of = plan->nr_sets * NR_CPUS;
	for (size_t i = 0; i < plan->nr_sets; i++)
		for (size_t k = 0; k < NR_CPUS; k++)
			nr += !is_open(run, plan, &plan->sets[i], run->w->cpus.cpu[k], id);
	return nr;
}

/* A set that is not open on some CPU says so, and the others do not. */
static void check_states(const struct run *run)
{
	const struct scope_plan *plan = &session_plan(run->session)->scope[SCOPE_CPU];

	for (size_t i = 0; i < plan->nr_columns && !faults.nodev; i++) {
		const struct set *set = &plan->sets[plan->columns[i].set];
		const char *why;
		enum event_state state = session_column_state(run->session, SCOPE_CPU, i, &why);
		size_t nr = 0;

		for (size_t k = 0; k < NR_CPUS; k++)
			nr += is_open(run, plan, set, run->w->cpus.cpu[k], 0);
		if (nr < NR_CPUS)
			expect(run, state == EVENT_FAILED && why && *why, "%s is open on %zu CPUs, and %s",
			       plan->columns[i].event->text, nr, event_state_name(state));
		else if (faults.nr_failed[FAKE_READ] == 0)
			expect(run, state == EVENT_OK, "%s is open, and %s: %s", plan->columns[i].event->text,
			       event_state_name(state), why ? why : "");
	}
}

/* Of the cgroup on CPU number k, where it has a row a CPU. */
static const struct totals_row *row_of_cgroup(const struct run *run, size_t i, size_t k)
{
	int cpu = run->w->options.cgroup_per_cpu ? run->w->cpus.cpu[k] : ROW_ALL_CPUS;

	return totals_find(session_totals(run->session), cpu, run->targets[i].cgroup->identity);
}

static void check_cgroups(const struct run *run)
{
	for (size_t i = 0; i < NR_CGROUPS; i++) {
		const struct target *target = &run->targets[i];
		size_t of, missing = nr_missing(run, SCOPE_CGROUP, target->cgroup->identity->id, &of);
		bool counted = target->status == CGROUP_COUNTED;

		expect(run, session_has_cgroup(run->session, target->cgroup) == counted, "cgroup %zu: status %d", i,
		       target->status);
		expect(run, counted || missing == of, "cgroup %zu is not counted, and open", i);
		expect(run, target->was_counted || !row_of_cgroup(run, i, 0),
		       "cgroup %zu was never counted, and has a row", i);
		expect(run, !counted || target->told || faults.nodev || missing == 0,
		       "cgroup %zu is counted, less %zu of %zu", i, missing, of);
		expect(run, !counted || faults.nodev || missing < of, "cgroup %zu is counted, and not open", i);
	}
}

/* What looks does not fail. */
static void check(struct run *run)
{
	bool on = faults.on;

	faults.on = false;
	check_fds(run);
	check_totals(run);
	check_cgroups(run);
	faults.on = on;
}

/* --- what is done */

/* Time goes by everywhere. */
static void pass_time(const struct run *run, uint64_t by)
{
	for (size_t k = 0; k < NR_CPUS; k++) {
		fake_run(0, run->w->cpus.cpu[k], 1000, 1000, by);
		for (size_t i = 0; i < NR_CGROUPS; i++)
			fake_run(run->targets[i].cgroup->identity->id, run->w->cpus.cpu[k], 1000, 1000, by);
	}
}

static bool any_state_failed(const struct run *run)
{
	const struct plan *plan = session_plan(run->session);
	const char *why;

	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++)
			if (session_column_state(run->session, (enum scope)scope, i, &why) == EVENT_FAILED && why)
				return true;
	return false;
}

static void tick(struct run *run)
{
	uint64_t errors = session_stats(run->session).read_errors;

	session_tick(run->session, NULL);
	expect(run, session_stats(run->session).read_errors == errors || any_state_failed(run),
	       "a lost reading is not told");
	check(run);
	check_states(run);
}

static void add(struct run *run, struct session *session, size_t i)
{
	struct target *target = &run->targets[i];
	struct reason why = {};

	target->status = session_add_cgroup(session, run->w->tree, target->cgroup, &why);
	target->was_counted |= target->status == CGROUP_COUNTED;
	target->told = why.text[0] != '\0';
	expect(run, target->status == CGROUP_COUNTED || target->status == -ENOENT || target->told,
	       "cgroup %zu: status %d, and no reason", i, target->status);
}

static int new_count(const struct run *run, struct session **ret, int plan)
{
	return session_new(ret, run->plans[plan], &run->w->cpus, &run->w->privilege, &run->w->options);
}

/* As the world does it, for a reload, CPUs that were offline, and after a restart. Without memory for it, what is
 * there goes on. */
static void renew(struct run *run, int plan)
{
	struct session *from = run->session, *count;
	int r, after;

	if (new_count(run, &count, plan) < 0)
		return;
	r = session_takeover_begin(count, from);
	(void)session_add_cpus(count);
	for (size_t i = 0; i < NR_CGROUPS; i++)
		add(run, count, i);
	after = session_takeover_end(count, from);
	expect(run, (r == 0 && after == 0) || faults.nr_failed[FAULT_MEMORY], "%d, %d", r, after);
	if (r < 0 || after < 0)
		run->nr_marks = 0; /* some totals start anew */
	run->session = session_free(from);
	run->session = count;
	check(run);
}

struct handed {
	int fds[256];
	size_t nr;
};

static void hand_over(void *userdata, int fd, struct stored_id id)
{
	struct handed *handed = userdata;

	assert_true(handed->nr < ARRAY_SIZE(handed->fds));
	assert_true(id.id > 0);
	fake_hold(fd);
	handed->fds[handed->nr++] = fd;
}

/* The daemon ends, and another goes on from its image and its perf events. */
static void restart(struct run *run)
{
	_cleanup_(rewrite_release) struct rewrite image = {};
	struct handed handed = {};
	struct reason why = {};
	struct stored_id id;
	int r;

	if (!session_save(run->session, BOOT, &image))
		return;
	session_each_stored(run->session, hand_over, &handed);
	run->session = session_free(run->session);
	run->pool.max = SIZE_MAX;
	for (size_t i = 0; i < handed.nr; i++)
		if (stored_pool_add(&run->pool, handed.fds[i], &id) < 0)
			safe_close(handed.fds[i]);
	check_fds(run);
	r = session_restore(&run->session, image.buf.data, image.buf.len, BOOT, &run->w->privilege, &run->pool, &why);
	stored_pool_release(&run->pool);
	check_fds(run);
	expect(run, r == 0 || why.text[0], "%d, and no reason", r);
	expect(run, r == 0 || faults.nr_failed[FAULT_MEMORY], "%d: %s", r, why.text);
	if (r < 0) {
		/* It begins anew. */
		run->nr_marks = 0;
		faults_end();
		assert_int_equal(new_count(run, &run->session, 1), 0);
		assert_int_equal(session_add_cpus(run->session), 0);
	}
	renew(run, 1);
	if (session_plan(run->session) != run->plans[1]) {
		/* What was restored is there to be succeeded. */
		faults_end();
		renew(run, 1);
	}
}

static void remove_and_add(struct run *run, size_t i)
{
	if (session_has_cgroup(run->session, run->targets[i].cgroup)) {
		session_remove_cgroup(run->session, run->targets[i].cgroup, true);
		run->targets[i].status = CGROUP_WAITING;
		check(run);
	}
	add(run, run->session, i);
	check(run);
}

/* Each step, as far as it comes. */
static void scenario(struct run *run)
{
	if (new_count(run, &run->session, 0) < 0) {
		faults_end();
		assert_int_equal(new_count(run, &run->session, 0), 0);
	}
	(void)session_add_cpus(run->session);
	check_fds(run);
	for (size_t i = 0; i < NR_CGROUPS; i++)
		add(run, run->session, i);
	check(run);
	pass_time(run, 10);
	tick(run);
	pass_time(run, 5);
	tick(run);
	remove_and_add(run, 1);
	pass_time(run, 3);
	tick(run);

	if (!run->stays_online)
		fake_take_apart(1);
	pass_time(run, 2);
	tick(run);
	renew(run, 0);
	pass_time(run, 2);
	tick(run);

	renew(run, 1);
	pass_time(run, 1);
	tick(run);
	restart(run);
	pass_time(run, 4);
	tick(run);
}

/* --- when the fault is gone */

/* A round of what the world does at times. */
static void mend(struct run *run)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};

	session_mend_cpus(run->session);
	for (size_t i = 0; i < NR_CGROUPS; i++)
		add(run, run->session, i);
	pass_time(run, 1);
	tick(run);
	assert_int_equal(session_find_lost(run->session, &lost), 0);
	if (lost.nr)
		renew(run, 1);
}

/* CPUs go and come, and with them what did not start on them, or was taken to be offline. */
static void revive(struct run *run)
{
	_cleanup_(cpulist_release) struct cpulist lost = {};

	session_mend_cpus(run->session);
	for (size_t k = 0; k < NR_CPUS; k++)
		fake_take_apart(run->w->cpus.cpu[k]);
	pass_time(run, 0);
	session_tick(run->session, NULL);
	pass_time(run, 0);
	session_tick(run->session, NULL);
	assert_int_equal(session_find_lost(run->session, &lost), 0);
	expect(run, lost.nr == NR_CPUS, "only %zu CPUs are known to have been offline", lost.nr);
	renew(run, 1);
}

static void check_grown(const struct run *run, const struct totals_row *row, const uint64_t *before, uint64_t by)
{
	const struct scope_plan *plan = &session_plan(run->session)->scope[row->scope];

	for (size_t i = 0; i < plan->nr_columns; i++) {
		const char *why;
		enum event_state state = session_column_state(run->session, row->scope, i, &why);

		expect(run, row->cells[i].measured, "%s %s is not measured", plan->columns[i].event->text, row->target);
		expect(run, row->cells[i].total == before[i] + by, "%s %s: %llu after %llu, not %llu more",
		       plan->columns[i].event->text, row->target, (unsigned long long)row->cells[i].total,
		       (unsigned long long)before[i], (unsigned long long)by);
		expect(run, state == EVENT_OK, "%s: %s, %s", plan->columns[i].event->text, event_state_name(state),
		       why ? why : "");
	}
}

/* All of it counts, and as much as happens. */
static void check_all_counts(struct run *run)
{
	bool per_cpu = run->w->options.cgroup_per_cpu;
	uint64_t before[NR_CPUS * (1 + NR_CGROUPS)][8];
	const struct totals_row *rows[NR_CPUS * (1 + NR_CGROUPS)];
	size_t nr = 0;

	for (size_t k = 0; k < NR_CPUS && session_plan(run->session)->scope[SCOPE_CPU].nr_sets > 0; k++)
		rows[nr++] = totals_find(session_totals(run->session), run->w->cpus.cpu[k], NULL);
	for (size_t i = 0; i < NR_CGROUPS; i++) {
		expect(run, run->targets[i].status == CGROUP_COUNTED && !run->targets[i].told,
		       "cgroup %zu is not counted", i);
		for (size_t k = 0; k < (per_cpu ? NR_CPUS : 1); k++)
			rows[nr++] = row_of_cgroup(run, i, k);
	}
	for (size_t i = 0; i < nr; i++) {
		expect(run, rows[i], "row %zu is missing", i);
		for (size_t c = 0; c < session_plan(run->session)->scope[rows[i]->scope].nr_columns; c++)
			before[i][c] = rows[i]->cells[c].total;
	}
	pass_time(run, 100);
	tick(run);
	for (size_t i = 0; i < nr; i++)
		check_grown(run, rows[i], before[i], rows[i]->cpu == ROW_ALL_CPUS ? NR_CPUS * 100 : 100);
}

/* One run from the beginning to the end; the faults have begun. */
static void run_scenario(struct run *run)
{
	run->nr_marks = 0;
	for (size_t i = 0; i < NR_CGROUPS; i++)
		run->targets[i] = (struct target){ .cgroup = run->targets[i].cgroup };
	scenario(run);
	faults_end();
	/* With faults all over, who could have told that a CPU was offline may not have been there. */
	if (faults.nodev || faults.nr_failed[FAKE_ENABLE] || (faults.one_in && !run->stays_online))
		revive(run);
	faults.nodev = false;
	memset(faults.nr_failed, 0, sizeof(faults.nr_failed));
	mend(run);
	check_all_counts(run);
	run->session = session_free(run->session);
	expect(run, fake_perf.nr_open == 0, "%d are open at the end", fake_perf.nr_open);
}

/* --- the tests */

static void as_tracepoint(struct event *event, const char *filter)
{
	free(event->pmu);
	event->pmu = strdup("tracepoint");
	event->filter = strdup(filter);
	event->software = true;
}

static void make_plans(struct run *run, bool has_cpus)
{
	static const struct text_event other[2] = { { "cycles", HW, 0 }, { "branches", HW, 4 } };
	static const struct text_event trace[1] = { { "sched:sched_switch", TP, 300 } };
	struct count_world *w = run->w;

	for (int i = 0; i < 2; i++) {
		if (has_cpus) {
			add_group(w, SCOPE_CPU, "core", false, i ? other : cycles, 2);
			add_group(w, SCOPE_CPU, "software", false, software, 2);
		}
		add_group(w, SCOPE_CGROUP, "software", false, software, 2);
		as_tracepoint(add_group(w, SCOPE_CGROUP, "trace", false, trace, 1)->events.events,
			      i ? "prev_pid == 1" : "prev_pid == 2");
		make_plan(w);
		plan_end_tries(w->plan, NULL); /* they would be of another kernel each time */
		run->plans[i] = steal_ptr(w->plan);
	}
}

static int set_up(void **state, bool has_cpus, bool per_cpu)
{
	struct run *run = calloc(1, sizeof(*run));
	const char *const names[NR_CGROUPS] = { "/a", "/b" };
	void *w;

	assert_non_null(run);
	assert_int_equal(world_setup(&w), 0);
	run->w = w;
	run->w->options.linger = 3600ULL * SECOND;
	run->w->options.cgroup_per_cpu = per_cpu;
	make_dir(run->w, "a");
	make_dir(run->w, "b");
	make_plans(run, has_cpus);
	run->w->plan = plan_ref(run->plans[0]);
	start(run->w);
	run->w->session = session_free(run->w->session);
	for (size_t i = 0; i < NR_CGROUPS; i++)
		run->targets[i].cgroup = find_cgroup(run->w, names[i]);
	*state = run;
	return 0;
}

static int setup(void **state)
{
	return set_up(state, true, false);
}

static int setup_per_cpu(void **state)
{
	return set_up(state, true, true);
}

/* CPUs are known to be there by their canaries only. */
static int setup_cgroups(void **state)
{
	return set_up(state, false, false);
}

static int teardown(void **state)
{
	struct run *run = *state;
	void *w = run->w;

	faults_end();
	stored_pool_release(&run->pool);
	session_free(run->session);
	for (int i = 0; i < 2; i++)
		plan_unref(run->plans[i]);
	free(run);
	return world_teardown(&w);
}

/* Each call of a kind, with each error it can have. */
static void try_kind(struct run *run, int kind)
{
	bool failed = true;

	for (long n = 0; failed; n++)
		for (const int *error = fault_errors(kind); *error; error++) {
			(void)snprintf(run->what, sizeof(run->what), "%s number %ld: %s", fault_name(kind), n,
				       *error > 0	    ? strerrorname_np(*error) :
				       *error == FAKE_EMPTY ? "empty" :
							      "short");
			fake_perf_reset();
			faults_begin(kind, n, *error);
			run_scenario(run);
			failed = faults.has_failed;
		}
}

static void test_open(void **state)
{
	try_kind(*state, FAKE_OPEN);
}

static void test_read(void **state)
{
	try_kind(*state, FAKE_READ);
}

static void test_ioctl(void **state)
{
	try_kind(*state, FAKE_ID);
	try_kind(*state, FAKE_ENABLE);
	try_kind(*state, FAKE_FILTER);
}

static void test_directory(void **state)
{
	try_kind(*state, FAULT_DIRECTORY);
}

static void test_memory(void **state)
{
	try_kind(*state, FAULT_MEMORY);
}

static void test_random(void **state)
{
	struct run *run = *state;

	for (uint64_t seed = 1; seed <= 3000; seed++) {
		(void)snprintf(run->what, sizeof(run->what), "seed %llu", (unsigned long long)seed);
		run->stays_online = seed % 2;
		fake_perf_reset();
		faults_begin_random(seed, 3 + (unsigned)(seed * 7 % 200));
		run_scenario(run);
	}
}

/* A plan that was made while something failed: what is not counted says why, and nothing is left open. */
static void check_plan(const struct run *run, const struct plan *plan)
{
	for (int scope = 0; scope < _SCOPE_MAX; scope++)
		for (size_t i = 0; i < plan->scope[scope].nr_columns; i++) {
			const struct column *column = &plan->scope[scope].columns[i];
			bool counted = column->set != NO_SET;

			expect(run, counted == (column->state == EVENT_OK), "%s: %s", column->event->text,
			       event_state_name(column->state));
			expect(run, counted || (column->why && column->why[0]), "%s: no reason", column->event->text);
			expect(run, counted || faults.has_failed, "%s is not counted", column->event->text);
		}
}

static void try_plans(struct run *run, int kind)
{
	struct count_world *w = run->w;
	bool failed = true;

	for (long n = 0; failed; n++)
		for (const int *error = fault_errors(kind); *error; error++) {
			struct reason why = {};
			int r;

			(void)snprintf(run->what, sizeof(run->what), "a plan: %s number %ld: error %d",
				       fault_name(kind), n, *error);
			fake_perf_reset();
			add_group(w, SCOPE_CPU, "core", false, cycles, 2)->split = true;
			add_group(w, SCOPE_CPU, "software", true, software, 2);
			add_group(w, SCOPE_CGROUP, "pinned", false, cycles, 2)->events.events[0].attr.pinned = 1;
			as_tracepoint(add_group(w, SCOPE_CGROUP, "trace", false, software, 1)->events.events, "x == 1");
			plan_unref(w->plan);
			w->plan = NULL;
			faults_begin(kind, n, *error);
			r = try_plan(w, &why);
			faults_end();
			expect(run, fake_perf.nr_open == 0, "%d are open", fake_perf.nr_open);
			expect(run, r == 0 || (r == -ENOMEM && why.text[0] && *error == ENOMEM), "%d: %s", r, why.text);
			expect(run, (r == 0) == (w->plan != NULL), "%d", r);
			if (w->plan)
				check_plan(run, w->plan);
			failed = faults.has_failed;
		}
}

static void test_plan(void **state)
{
	for (int kind = 0; kind < FAULT_KINDS; kind++)
		try_plans(*state, kind);
}

/* What is said of a call that failed names it. */
static void test_sentences(void **state)
{
	struct run *run = *state;

	for (const int *error = fault_errors(FAKE_OPEN); *error; error++) {
		const char *why = NULL;

		if (*error == ENODEV) /* its CPU is offline, which is normal */
			continue;
		fake_perf_reset();
		assert_int_equal(new_count(run, &run->session, 0), 0);
		faults_begin(FAKE_OPEN, 4, *error); /* CPU 1's first */
		(void)session_add_cpus(run->session);
		faults_end();
		session_tick(run->session, NULL);
		assert_int_equal(session_column_state(run->session, SCOPE_CPU, 0, &why), EVENT_FAILED);
		assert_non_null(why);
		if (!strstr(why, strerrorname_np(*error)) || !strstr(why, "CPU 1"))
			fail_msg("%s: %s", strerrorname_np(*error), why);
		run->session = session_free(run->session);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_OF(name, setup) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_sentences),
		TEST(test_plan),
		TEST(test_open),
		TEST_OF(test_open, setup_cgroups),
		TEST(test_read),
		TEST_OF(test_read, setup_cgroups),
		TEST(test_ioctl),
		TEST(test_directory),
		TEST(test_memory),
		TEST_OF(test_memory, setup_per_cpu),
		TEST(test_random),
		TEST_OF(test_random, setup_per_cpu),
		TEST_OF(test_random, setup_cgroups),
	};

	return cmocka_run_group_tests_name("faults-count", tests, NULL, NULL);
}
