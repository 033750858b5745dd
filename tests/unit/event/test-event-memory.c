/* SPDX-License-Identifier: MIT */

/* Every allocation of the event room fails once. */

#include "counting/event/catalog/tracefs.h"
#include "counting/event/parse.h"
#include "counting/event/walk.h"
#include "setup/machines.h"
#include "setup/no-memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Allocations until the one that fails; 0: none does. */
static unsigned countdown;

static bool fails(void)
{
	return countdown && --countdown == 0;
}

static int ignore_listing(_unused_ void *userdata, _unused_ const struct event_listing *listing)
{
	return 0;
}

static const struct tree_file broken_files[] = {
	{ "bad/type", "x" },  { "broken/type", "9" }, { "broken/format/a", "b" },     { "broken/events/c", "d" },
	{ "odd/type", "10" }, { "odd/cpumask", "" },  { "odd/events/e", "config=1" }, {},
};

static void test_load(_unused_ void **state)
{
	char *dir = tree_new(machine_intel);
	int r = -ENOMEM;

	tree_add(dir, broken_files);
	for (unsigned n = 1; r == -ENOMEM; n++) {
		_cleanup_(pmu_catalogue_freep) struct pmu_catalogue *pmus = NULL;

		countdown = n;
		r = pmu_catalogue_load(&pmus, dir, NULL);
		/* Where it came to its end, nothing failed. */
		assert_int_equal(r, countdown ? 0 : -ENOMEM);
		countdown = 0;
		assert_int_equal(r == 0, pmus != NULL);
	}
	assert_int_equal(r, 0);
	tree_free(dir);
}

static void check_parse(const struct event_env *env, const char *text, int want)
{
	int r = -ENOMEM;

	for (unsigned n = 1; r == -ENOMEM; n++) {
		_cleanup_(event_list_release) struct event_list list = {};
		struct reason why;

		countdown = n;
		r = event_parse(&list, env, text, &why);
		assert_int_equal(r, countdown ? want : -ENOMEM);
		countdown = 0;
		assert_int_equal(r == 0, list.nr > 0);
	}
	assert_int_equal(r, want);
}

/* What it comes to depends on libpfm. */
static void check_pfm_parse(const struct event_env *env, const char *text)
{
	_cleanup_(event_list_release) struct event_list list = {};

	check_parse(env, text, event_parse(&list, env, text, NULL));
}

static void test_parse(_unused_ void **state)
{
	static const struct tree_file tracefs_files[] = { { "events/a/b/id", "1" }, {} };
	char *dir = tree_new(machine_intel), *tracefs = tree_new(tracefs_files);
	char *kallsyms = tree_path(tracefs, "kallsyms");
	struct event_env env = { .tracefs = tracefs, .kallsyms = kallsyms };
	struct pmu_catalogue *pmus = NULL;
	int r = -ENOMEM;

	tree_add(dir, broken_files);
	assert_int_equal(pmu_catalogue_load(&pmus, dir, NULL), 0);
	env.pmus = pmus;
	check_parse(&env, "cycles:u", 0);
	check_parse(&env, "label=cs", 0);
	check_parse(&env, "9=cs", -EINVAL);
	check_parse(&env, "_=cs", 0);
	check_parse(&env, "r1a8", 0);
	check_parse(&env, "a:b:k", 0);
	check_parse(&env, "a:c", 0);
	check_parse(&env, "mem-loads", 0);
	check_parse(&env, "clockticks", 0);
	check_parse(&env, "uncore_cbox/event=1,name=x/", 0);
	check_parse(&env, "cpu/nothing/", 0);
	check_parse(&env, "odd/e/", 0);
	check_parse(&env, "nopmu/e/u", 0);
	check_parse(&env, "cylces", -EINVAL);
	check_pfm_parse(&env, "skx::INST_RETIRED:ANY_P:u");
	check_pfm_parse(&env, "skx::INST_RETIRED:ANY_P:x");
	check_pfm_parse(&env, "skx::NO_SUCH:ANY");
	check_pfm_parse(&env, "NO_SUCH:ANY");
	check_pfm_parse(&env, "RAPL_ENERGY_PKG");
	tree_text(tracefs, "kallsyms", "ffffffff82000000 D jiffies\n");
	check_parse(&env, "mem:0x10/8:w:u", 0);
	check_parse(&env, "mem:jiffies+8:w", 0);
	check_parse(&env, "mem:gone", 0);
	check_parse(&env, "mem:jiffies/9", -EINVAL);
	check_parse(&env, "a:b/filter='x y'/k", 0);
	check_parse(&env, "a:b/filter='x',filter='y'/", -EINVAL);
	check_parse(&env, "kretprobe:vfs_read/filter='x'/", 0);
	check_parse(&env, "kprobe:'", -EINVAL);
	check_parse(&env, "uretprobe:/proc/self/exe:event_parse", 0);
	check_parse(&env, "uprobe:'/proc/self/exe':gone/filter='x'/", 0);
	check_parse(&env, "uprobe:/proc/self/exe:event_parse+x", -EINVAL);

	for (unsigned n = 1; r == -ENOMEM; n++) {
		countdown = n;
		r = event_walk(&env, ignore_listing, NULL);
		assert_int_equal(r, countdown ? 0 : -ENOMEM);
		countdown = 0;
	}
	assert_int_equal(r, 0);

	pmu_catalogue_free(pmus);
	free(kallsyms);
	tree_free(dir);
	tree_free(tracefs);
}

static void test_find(_unused_ void **state)
{
	char *dir = tree_new(NULL), *file = tree_path(dir, "mountinfo");
	int r = -ENOMEM;

	tree_text(dir, "mountinfo", "31 23 0:7 / /d rw - debugfs d rw\n42 23 0:13 / /t rw - tracefs t rw\n");
	for (unsigned n = 1; r == -ENOMEM; n++) {
		_cleanup_(freep) char *found = NULL;

		countdown = n;
		r = tracefs_find(file, &found, NULL);
		assert_int_equal(r, countdown ? 0 : -ENOMEM);
		countdown = 0;
		assert_int_equal(r == 0, found != NULL);
	}
	assert_int_equal(r, 0);
	free(file);
	tree_free(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_load),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_find),
	};

	/* libpfm's tables of PMUs that are not there (libpfm(3)). */
	if (setenv("LIBPFM_ENCODE_INACTIVE", "1", 1) < 0)
		abort();
	memory_fails = fails;
	return cmocka_run_group_tests_name("event memory", tests, NULL, NULL);
}
