/* SPDX-License-Identifier: MIT */

/* Which CPUs there are, and where: from made trees of sysfs and procfs. */

#include "base/host/cpu.h"

#include "base/util/cleanup.h"
#include "setup/scratch.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void online(const char *text, int r, const char *formatted)
{
	_cleanup_(cpulist_release) struct cpulist list = {};
	_cleanup_(freep) char *made = NULL;
	struct reason why = {};
	struct scratch scratch;

	scratch_make(&scratch);
	if (text)
		scratch_text(&scratch, "devices/system/cpu/online", text);
	assert_int_equal(cpu_online(&list, scratch.path, &why), r);
	scratch_remove(&scratch);

	if (r == 0) {
		made = cpulist_format(&list);
		assert_string_equal(made, formatted);
	} else {
		assert_non_null(strstr(why.text, "/devices/system/cpu/online"));
		assert_null(list.cpu);
	}
}

static void test_the_list_of_online_cpus_names_some(_unused_ void **state)
{
	online("0-3\n", 0, "0-3");
	online("0,2-5,8\n", 0, "0,2-5,8");
	online("\n", -EBADMSG, NULL);
	online("", -EBADMSG, NULL);
	online("all of them\n", -EBADMSG, NULL);
	online(NULL, -ENOENT, NULL);
}

/* Lists that not every kernel has, and that say so in their own way where they name none. */
static void test_another_list_may_name_none(_unused_ void **state)
{
	static const struct {
		const char *text;
		int r;
		const char *formatted;
	} cases[] = {
		{ "1,3-4\n", 0, "1,3-4" }, { "\n", 0, "" },	    { "", 0, "" },
		{ "(null)\n", 0, "" },	   { NULL, -ENOENT, NULL }, { "(none)\n", -EBADMSG, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(cpulist_release) struct cpulist list = {};
		_cleanup_(freep) char *made = NULL;
		struct reason why = {};
		struct scratch scratch;

		scratch_make(&scratch);
		if (cases[i].text)
			scratch_text(&scratch, "devices/system/cpu/isolated", cases[i].text);
		assert_int_equal(cpu_list_read(&list, scratch.path, "isolated", &why), cases[i].r);
		scratch_remove(&scratch);
		made = cpulist_format(&list);
		assert_string_equal(made, cases[i].r ? "" : cases[i].formatted);
		assert_int_equal(strstr(why.text, "/devices/system/cpu/isolated") != NULL, cases[i].r < 0);
	}
}

static void test_a_change_of_the_list_is_seen_once(_unused_ void **state)
{
	struct cpu_watch watch;
	struct scratch scratch;

	scratch_make(&scratch);
	scratch_text(&scratch, "devices/system/cpu/online", "0-3\n");
	cpu_watch_open(&watch, scratch.path);
	assert_true(watch.fd >= 0);
	for (int i = 0; i < 2; i++)
		assert_false(cpu_watch_has_changed(&watch));
	scratch_text(&scratch, "devices/system/cpu/online", "0-2\n");
	assert_true(cpu_watch_has_changed(&watch));
	assert_false(cpu_watch_has_changed(&watch));
	scratch_text(&scratch, "devices/system/cpu/online", "0\n");
	assert_true(cpu_watch_has_changed(&watch));
	scratch_text(&scratch, "devices/system/cpu/online", "0-3\n");
	assert_true(cpu_watch_has_changed(&watch));
	cpu_watch_close(&watch);
	assert_false(cpu_watch_has_changed(&watch));
	scratch_remove(&scratch);

	/* Nothing to look at never changes. */
	cpu_watch_open(&watch, "/nonexistent");
	assert_int_equal(watch.fd, -1);
	assert_false(cpu_watch_has_changed(&watch));
	cpu_watch_close(&watch);
}

/* Files below devices/system/cpu: topology/NAME of the CPUs that have them. */
static void place_cpu(const struct scratch *scratch, int cpu, const char *package, const char *die)
{
	char name[96];

	(void)snprintf(name, sizeof(name), "devices/system/cpu/cpu%d/topology/physical_package_id", cpu);
	if (package)
		scratch_text(scratch, name, package);
	(void)snprintf(name, sizeof(name), "devices/system/cpu/cpu%d/topology/die_id", cpu);
	if (die)
		scratch_text(scratch, name, die);
}

static void expect_place_of(const struct cpu_topology *topology, int cpu, int package, int die)
{
	struct cpu_place place = cpu_topology_find(topology, cpu);

	assert_int_equal(place.package, package);
	assert_int_equal(place.die, die);
}

static void test_places_are_told_as_far_as_they_are_known(_unused_ void **state)
{
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {};
	_cleanup_(cpulist_release) struct cpulist cpus = {};
	struct scratch scratch;

	scratch_make(&scratch);
	place_cpu(&scratch, 0, "0\n", "0\n"); /* the package's only die */
	place_cpu(&scratch, 1, "0\n", "0\n");
	place_cpu(&scratch, 2, "1\n", "0\n"); /* two dies, and one CPU that does not say */
	place_cpu(&scratch, 3, "1\n", "1\n");
	place_cpu(&scratch, 4, "1\n", NULL);
	place_cpu(&scratch, 5, "-1\n", "-1\n"); /* arm guests */
	place_cpu(&scratch, 6, NULL, "3\n");
	place_cpu(&scratch, 7, "one\n", "");
	place_cpu(&scratch, 8, "4294967296\n", "0\n");
	place_cpu(&scratch, 9, "36\n", NULL);  /* before there were dies (Linux 5.2) */
	place_cpu(&scratch, 12, "0\n", "5\n"); /* not online, and so not asked for */
	assert_int_equal(cpulist_parse(&cpus, "0-10"), 0);
	assert_int_equal(cpu_topology_read(&topology, scratch.path, &cpus, NULL), 0);
	scratch_remove(&scratch);

	expect_place_of(&topology, 0, 0, -1);
	expect_place_of(&topology, 1, 0, -1);
	expect_place_of(&topology, 2, 1, 0);
	expect_place_of(&topology, 3, 1, 1);
	expect_place_of(&topology, 4, 1, -1);
	for (int cpu = 5; cpu <= 8; cpu++)
		expect_place_of(&topology, cpu, -1, -1);
	expect_place_of(&topology, 9, 36, -1);
	for (int cpu = 10; cpu <= 12; cpu++)
		expect_place_of(&topology, cpu, -1, -1);
	expect_place_of(&topology, -1, -1, -1);
	expect_place_of(NULL, 0, -1, -1);
}

/* The kernel takes the topology of a CPU that goes offline away. Its labels stay, and so do those of the others. */
static void test_an_offline_cpu_keeps_its_place(_unused_ void **state)
{
	_cleanup_(cpu_topology_release) struct cpu_topology before = {}, after = {}, more = {};
	_cleanup_(cpulist_release) struct cpulist all = {}, few = {}, others = {};
	struct scratch scratch;

	scratch_make(&scratch);
	place_cpu(&scratch, 0, "0\n", "0\n");
	place_cpu(&scratch, 1, "0\n", "1\n");
	place_cpu(&scratch, 3, "1\n", "0\n");
	assert_int_equal(cpulist_parse(&all, "0-1,3"), 0);
	assert_int_equal(cpulist_parse(&few, "0-1"), 0);
	assert_int_equal(cpulist_parse(&others, "0,2"), 0);
	assert_int_equal(cpu_topology_read(&before, scratch.path, &all, NULL), 0);

	/* One is gone from the list, another goes before its files are read. */
	assert_int_equal(unlink(scratch_path(&scratch, "devices/system/cpu/cpu1/topology/physical_package_id")), 0);
	assert_int_equal(unlink(scratch_path(&scratch, "devices/system/cpu/cpu1/topology/die_id")), 0);
	assert_int_equal(cpu_topology_read(&after, scratch.path, &few, &before), 0);
	expect_place_of(&after, 0, 0, 0);
	expect_place_of(&after, 1, 0, 1);
	expect_place_of(&after, 3, 1, -1);

	/* What comes makes dies known, and is not known of others. */
	place_cpu(&scratch, 2, "1\n", "1\n");
	assert_int_equal(cpu_topology_read(&more, scratch.path, &others, &after), 0);
	scratch_remove(&scratch);
	expect_place_of(&more, 0, 0, 0);
	expect_place_of(&more, 1, 0, 1);
	expect_place_of(&more, 2, 1, 1);
	expect_place_of(&more, 3, 1, 0);
}

static void test_without_cpus_there_are_no_places(_unused_ void **state)
{
	_cleanup_(cpu_topology_release) struct cpu_topology topology = {};
	const struct cpulist none = {};

	assert_int_equal(cpu_topology_read(&topology, "/nonexistent", &none, NULL), 0);
	expect_place_of(&topology, 0, -1, -1);
}

static void test_cpus_of_this_machine(_unused_ void **state)
{
	_cleanup_(cpulist_release) struct cpulist list = {};

	assert_int_equal(cpu_online(&list, "/sys", NULL), 0);
	assert_int_equal(list.nr, sysconf(_SC_NPROCESSORS_ONLN));
}

/* Where sysfs does not tell which CPUs there are. */
static void test_cpus_are_found_without_sysfs(_unused_ void **state)
{
	_cleanup_(cpulist_release) struct cpulist list = {};
	struct scratch scratch;
	const char *source;

	scratch_make(&scratch);
	assert_int_equal(cpu_online_otherwise(&list, scratch.path, &source), 0);
	assert_int_equal(list.nr, sysconf(_SC_NPROCESSORS_ONLN));
	assert_non_null(strstr(source, "C library"));
	cpulist_release(&list);
	scratch_text(&scratch, "stat", "cpu  1 2 3\ncpu0 1 2 3\ncpu3 1 2 3\ncpu99999999 1 2\nintr 1\ncpu5 1\n");
	assert_int_equal(cpu_online_otherwise(&list, scratch.path, &source), 0);
	assert_int_equal(list.nr, 2);
	assert_int_equal(list.cpu[0], 0);
	assert_int_equal(list.cpu[1], 3);
	assert_non_null(strstr(source, "stat"));
	scratch_remove(&scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_list_of_online_cpus_names_some),
		cmocka_unit_test(test_another_list_may_name_none),
		cmocka_unit_test(test_a_change_of_the_list_is_seen_once),
		cmocka_unit_test(test_places_are_told_as_far_as_they_are_known),
		cmocka_unit_test(test_an_offline_cpu_keeps_its_place),
		cmocka_unit_test(test_without_cpus_there_are_no_places),
		cmocka_unit_test(test_cpus_of_this_machine),
		cmocka_unit_test(test_cpus_are_found_without_sysfs),
	};

	return cmocka_run_group_tests_name("cpu", tests, NULL, NULL);
}
