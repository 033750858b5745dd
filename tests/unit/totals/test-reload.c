/* SPDX-License-Identifier: MIT */

/* Totals that go from one totals to the next: what it costs where there are many CPUs, cgroups, groups. */

#include "counting/totals/reload.h"
#include "counting/totals/tick.h"
#include "setup/made-snapshot.h"

#include <inttypes.h>
#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND 1000000000U

/* What is counted: names that are compared, and keys that are made to look for a row, which are freed. */
static uint64_t work;

int __wrap_strcmp(const char *a, const char *b);
int __real_strcmp(const char *a, const char *b);
void __wrap_free(void *p);
void __real_free(void *p);

int __wrap_strcmp(const char *a, const char *b)
{
	work++;
	return __real_strcmp(a, b);
}

void __wrap_free(void *p)
{
	work++;
	__real_free(p);
}

/* So many groups of one event in both scopes, each a set. */
static struct plan *plan_of_groups(int nr)
{
	struct made_event *events = calloc(2 * (size_t)nr + 1, sizeof(*events));
	char(*names)[32] = calloc((size_t)nr, sizeof(*names));
	struct snapshot *snapshot;
	struct plan *plan;

	assert_non_null(events);
	assert_non_null(names);
	for (int i = 0; i < nr; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "group%d", i);
		events[2 * i] = (struct made_event){ SCOPE_CPU, names[i], .text = names[i], .set = i };
		events[2 * i + 1] = (struct made_event){ SCOPE_CGROUP, names[i], .text = names[i], .set = i };
	}
	snapshot = made_snapshot(events);
	plan = plan_ref(snapshot->plan);
	snapshot_unref(snapshot);
	free(names);
	free(events);
	return plan;
}

static struct cpulist first_cpus(int nr)
{
	struct cpulist cpus = {};

	for (int i = 0; i < nr; i++)
		assert_int_equal(cpulist_add(&cpus, i), 0);
	return cpus;
}

/* Rows of so many cgroups, one a CPU, that have counted something. */
static struct totals *totals_of_cgroups(struct plan *plan, int nr_cgroups, const struct cpulist *cpus)
{
	struct totals *totals;

	assert_int_equal(totals_new(&totals, plan, 10000), 0);
	for (int i = 0; i < nr_cgroups; i++) {
		_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = NULL;
		char path[32];

		(void)snprintf(path, sizeof(path), "/cgroup%d", i);
		assert_int_equal(cgroup_identity_new(&identity, (uint64_t)i + 2, path), 0);
		for (size_t k = 0; k < cpus->nr; k++) {
			struct totals_row *row;

			assert_int_equal(totals_take(totals, SCOPE_CGROUP, cpus->cpu[k], identity, &row), 0);
			for (size_t c = 0; c < plan->scope[SCOPE_CGROUP].nr_columns; c++) {
				row->cells[c].total = 1 + (uint64_t)i;
				row->cells[c].measured = true;
				row->times[c].enabled = 10 + c;
			}
		}
	}
	return totals;
}

/* What it takes that all the cgroups end, as where the config drops them. */
static uint64_t work_of_ends(struct plan *plan, int nr_cgroups, int nr_cpus)
{
	_cleanup_(cpulist_release) struct cpulist cpus = first_cpus(nr_cpus);
	_cleanup_(totals_freep) struct totals *from = totals_of_cgroups(plan, nr_cgroups, &cpus);
	_cleanup_(totals_freep) struct totals *to = NULL;
	uint64_t before, took;

	assert_int_equal(totals_new(&to, plan, 10000), 0);
	before = work;
	assert_int_equal(totals_carry(to, from, true, &cpus, SECOND), 0);
	took = work - before;
	assert_int_equal(to->nr_rows[SCOPE_CGROUP], (size_t)nr_cgroups * (size_t)nr_cpus);
	assert_int_equal(to->nr_gone, nr_cgroups);
	return took;
}

/* Eight times the CPUs are eight times the rows, and not 64 times the work. */
static void test_many_cpus(void **state)
{
	struct plan *plan = plan_of_groups(1);
	uint64_t took = work_of_ends(plan, 20, 32), more_took = work_of_ends(plan, 20, 256);

	(void)state;
	print_message("20 cgroups on 32 CPUs: %" PRIu64 " steps; on 256: %" PRIu64 "\n", took, more_took);
	assert_in_range(more_took, 20 * 256, 10 * took);
	plan_unref(plan);
}

/* What it takes that a totals takes over from another with so many groups of events. */
static uint64_t work_of_groups(int nr_groups)
{
	_cleanup_(plan_unrefp) struct plan *plan = plan_of_groups(nr_groups), *next = plan_of_groups(nr_groups);
	_cleanup_(cpulist_release) struct cpulist cpus = first_cpus(1);
	_cleanup_(totals_freep) struct totals *from = totals_of_cgroups(plan, 100, &cpus);
	_cleanup_(totals_freep) struct totals *to = NULL;
	uint64_t before, took;
	const struct totals_row *row;

	assert_int_equal(totals_new(&to, next, 10000), 0);
	before = work;
	assert_int_equal(totals_carry(to, from, true, &cpus, SECOND), 0);
	took = work - before;
	row = TAILQ_FIRST(&to->rows[SCOPE_CGROUP]);
	for (size_t k = 0; k < (size_t)nr_groups; k++) {
		assert_int_equal(row->cells[k].total, 1);
		assert_int_equal(row->times[k].enabled, 10 + k);
	}
	return took;
}

/* Events and groups are looked for once, by their names, and not for each row, one by one. */
static void test_many_groups(void **state)
{
	uint64_t took = work_of_groups(50), more_took = work_of_groups(400);

	(void)state;
	print_message("50 groups: %" PRIu64 " steps; 400: %" PRIu64 "\n", took, more_took);
	assert_in_range(more_took, 400, 16 * took);
}

/* A series that goes on has begun when its first row did, also if the wall clock was set back meanwhile. */
static void test_beginning(void **state)
{
	_cleanup_(plan_unrefp) struct plan *plan = plan_of_groups(1);
	_cleanup_(cpulist_release) struct cpulist cpus = first_cpus(1);
	_cleanup_(totals_freep) struct totals *from = totals_of_cgroups(plan, 1, &cpus);
	_cleanup_(totals_freep) struct totals *to = totals_of_cgroups(plan, 1, &cpus);
	struct totals_row *old = TAILQ_FIRST(&from->rows[SCOPE_CGROUP]), *row = TAILQ_FIRST(&to->rows[SCOPE_CGROUP]);

	(void)state;
	assert_true(old->began < row->began);
	old->since = row->since + 3600 * (uint64_t)SECOND;
	assert_int_equal(totals_carry(to, from, true, &cpus, SECOND), 0);
	assert_int_equal(row->since, old->since);
	assert_int_equal(row->began, old->began);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_many_cpus),
		cmocka_unit_test(test_many_groups),
		cmocka_unit_test(test_beginning),
	};

	return cmocka_run_group_tests_name("carry", tests, NULL, NULL);
}
