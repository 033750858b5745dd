/* SPDX-License-Identifier: MIT */

/*
 * The world on made procfs and sysfs, without events and without cgroups: what it follows, what it reports, and who
 * owns a config when.
 */

#include "base/util/buf.h"
#include "counting/world/world.h"
#include "setup/scratch.h"

#include <errno.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ONLINE "sys/devices/system/cpu/online"
#define PARANOID "proc/sys/kernel/perf_event_paranoid"
#define NO_MOUNT "[cgroup] mount names /nonexistent: No such file or directory"

struct fixture {
	struct scratch scratch;
	struct world *world;
};

/* Two CPUs at level 2, with procfs and sysfs in the scratch folder, whose lines in the config are 2 and 3. */
static struct config *make_config(const struct fixture *f, const char *more)
{
	_cleanup_(buf_release) struct buf text = {};
	_cleanup_(config_freep) struct config *config = NULL;
	struct reason why;

	buf_printf(&text,
		   "[daemon]\nprocfs = %s/proc\nsysfs = %s/sys\n[cpu]\ngroups =\n[cgroup]\ngroups =\nmount = "
		   "/nonexistent\n[profiles]\nenabled = no\n%s",
		   f->scratch.path, f->scratch.path, more);
	assert_false(text.failed);
	assert_int_equal(config_new(&config), 0);
	assert_int_equal(config_parse(config, "test.conf", text.data, text.len, &why), 0);
	return steal_ptr(config);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct config *config;
	struct reason why;

	assert_non_null(f);
	scratch_make(&f->scratch);
	scratch_text(&f->scratch, ONLINE, "0-1\n");
	scratch_text(&f->scratch, PARANOID, "2\n");
	config = make_config(f, "");
	assert_int_equal(world_new(&f->world, config, NULL, &why), 0);
	assert_ptr_equal(world_config(f->world), config);
	assert_int_equal(world_start(f->world, &why), 0);
	assert_string_equal(why.text, "");
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	world_free(f->world);
	scratch_remove(&f->scratch);
	free(f);
	return 0;
}

static void move_sysfs(const struct fixture *f, const char *from, const char *to)
{
	assert_int_equal(rename(scratch_path(&f->scratch, from), scratch_path(&f->scratch, to)), 0);
}

/* Follows the machine once; the news begin with the text, or are empty. */
#define expect_news(f, beginning) expect_news_at(f, beginning, __LINE__)
static void expect_news_at(const struct fixture *f, const char *beginning, int line)
{
	struct reason news;

	world_follow_machine(f->world, &news);
	if (beginning[0] ? strncmp(news.text, beginning, strlen(beginning)) != 0 : news.text[0])
		fail_msg("line %d: '%s' instead of '%s'", line, news.text, beginning);
}

static void test_sysctl(void **state)
{
	struct fixture *f = *state;

	expect_news(f, "");
	scratch_text(&f->scratch, PARANOID, "1\n");
	expect_news(f, "kernel.perf_event_paranoid is now 1: retried");
	assert_int_equal(world_info(f->world)->privilege->paranoid, 1);
	expect_news(f, "");
}

/* It is retried after a while, and not before. */
static void test_sysctl_not_applied(void **state)
{
	struct fixture *f = *state;

	move_sysfs(f, "sys", "away");
	scratch_text(&f->scratch, PARANOID, "1\n");
	expect_news(f, "kernel.perf_event_paranoid has changed, but the config can't be applied again: test.conf:3: ");
	assert_int_equal(world_info(f->world)->privilege->paranoid, 2);
	expect_news(f, "");
	move_sysfs(f, "away", "sys");
	expect_news(f, "");
	/* Back to what it was. */
	scratch_text(&f->scratch, PARANOID, "2\n");
	expect_news(f, "");
}

static void test_cpus(void **state)
{
	struct fixture *f = *state;
	const struct machine_info *info = world_info(f->world);

	assert_int_equal(info->cpus->nr, 2);
	scratch_text(&f->scratch, ONLINE, "0\n");
	expect_news(f, "CPUs have come or gone: counted now: 0");
	assert_int_equal(info->cpus->nr, 1);
	expect_news(f, "");
	scratch_text(&f->scratch, ONLINE, "0-1\n");
	expect_news(f, "CPUs have come or gone: counted now: 0-1");
}

/* CPUs are tried again at once: they may be coming one after another. */
static void test_cpus_not_applied(void **state)
{
	struct fixture *f = *state;
	const char *failed = "CPUs have come or gone, but the config can't be applied again yet: test.conf:3: ";

	scratch_text(&f->scratch, ONLINE, "0\n");
	move_sysfs(f, "sys", "away");
	expect_news(f, failed);
	expect_news(f, failed);
	assert_int_equal(world_info(f->world)->cpus->nr, 2);
	move_sysfs(f, "away", "sys");
	expect_news(f, "CPUs have come or gone: counted now: 0");
	expect_news(f, "");
}

/* Both at once: one application of the config is enough. */
static void test_cpus_and_sysctl(void **state)
{
	struct fixture *f = *state;

	scratch_text(&f->scratch, ONLINE, "0\n");
	scratch_text(&f->scratch, PARANOID, "1\n");
	expect_news(f, "CPUs have come or gone: counted now: 0");
	assert_int_equal(world_info(f->world)->privilege->paranoid, 1);
	expect_news(f, "");
}

static void test_reload(void **state)
{
	struct fixture *f = *state;
	const struct machine_info *info = world_info(f->world);
	struct config *config = make_config(f, "[cpu]\nexclude = 1\n");
	struct reload *reload;
	struct reason why;

	assert_int_equal(world_prepare(f->world, config, &reload, &why), 0);
	assert_ptr_not_equal(world_config(f->world), config);
	world_commit(f->world, reload, &why);
	assert_ptr_equal(world_config(f->world), config);
	assert_ptr_equal(world_info(f->world), info);
	assert_int_equal(info->cpus->nr, 1);

	/* One that was prepared and is given up takes its config along. */
	config = make_config(f, "");
	assert_int_equal(world_prepare(f->world, config, &reload, &why), 0);
	reload_free(reload);
	assert_int_equal(info->cpus->nr, 1);
}

/* The config stays the caller's, and nothing has changed. */
static void test_refused(void **state)
{
	struct fixture *f = *state;
	_cleanup_(config_freep) struct config *config = make_config(f, "[cpu]\nexclude = 0-1\n");
	const struct config *in_force = world_config(f->world);
	struct world *other = NULL;
	struct reload *reload = NULL;
	struct reason why;

	assert_int_equal(world_prepare(f->world, config, &reload, &why), -EINVAL);
	assert_string_equal(why.text, "[cpu] exclude leaves no CPU that is online");
	assert_null(reload);
	assert_int_equal(world_new(&other, config, NULL, &why), -EINVAL);
	assert_null(other);
	assert_ptr_equal(world_config(f->world), in_force);
	assert_int_equal(world_info(f->world)->cpus->nr, 2);
}

static void expect_snapshot(const struct fixture *f, const struct self_stats *own, int made, uint64_t scrapes)
{
	_cleanup_(snapshot_unrefp) struct snapshot *snapshot = NULL;

	assert_int_equal(world_snapshot(f->world, UINT64_MAX, own, &snapshot), made);
	assert_int_equal(snapshot->self.scrapes, scrapes);
	assert_int_equal(snapshot->self.interval, world_config(f->world)->interval);
	assert_int_not_equal(snapshot->self.start_time, 0);
}

/* It is made once a reading, with the caller's figures at that time. */
static void test_snapshot(void **state)
{
	struct fixture *f = *state;
	struct self_stats own = { .scrapes = 7 };

	expect_snapshot(f, &own, 1, 7);
	own.scrapes++;
	expect_snapshot(f, &own, 0, 7);
	world_tick(f->world);
	expect_snapshot(f, &own, 1, 8);
	expect_snapshot(f, NULL, 0, 8);
	world_tick(f->world);
	expect_snapshot(f, NULL, 1, 0);
}

static void begin_commit(const struct fixture *f)
{
	struct reload *reload;
	struct reason why;

	assert_int_equal(world_prepare(f->world, make_config(f, ""), &reload, &why), 0);
	world_begin_commit(f->world, reload);
	assert_true(world_is_committing(f->world));
}

/* A reload in steps: meanwhile a snapshot is of the last reading before it, and who reads has all steps done. */
static void test_steps(void **state)
{
	struct fixture *f = *state;
	uint64_t generation = world_generation(f->world);
	struct reason news;

	expect_snapshot(f, NULL, 1, 0);
	begin_commit(f);
	assert_true(world_is_waiting(f->world));
	assert_true(world_admit(f->world, 0));
	expect_snapshot(f, NULL, 0, 0);
	assert_true(world_is_committing(f->world));
	assert_int_equal(world_generation(f->world), generation);
	assert_true(world_admit(f->world, 0));
	assert_false(world_is_committing(f->world));
	assert_int_equal(world_generation(f->world), generation + 1);
	expect_snapshot(f, NULL, 1, 0);

	begin_commit(f);
	world_tick(f->world);
	assert_false(world_is_committing(f->world));
	/* There is no snapshot that could be shown. */
	begin_commit(f);
	expect_snapshot(f, NULL, 1, 0);
	assert_false(world_is_committing(f->world));
	begin_commit(f);
	expect_news(f, "");
	assert_false(world_is_committing(f->world));
	begin_commit(f);
	world_follow_mounts(f->world, true, &news);
	assert_false(world_is_committing(f->world));
	begin_commit(f);
	world_finish_commit(f->world, &news);
	assert_string_equal(news.text, "");
	assert_int_equal(world_generation(f->world), generation + 6);
	/* It is freed in the middle of one. */
	begin_commit(f);
}

static void test_problems(void **state)
{
	struct fixture *f = *state;
	const struct machine *machine = world_machine(f->world);
	struct reason text;

	assert_true(machine_problem(machine, 0, &text));
	assert_non_null(strstr(text.text, "/sys/bus/event_source/devices: No such file or directory"));
	assert_true(machine_problem(machine, 1, &text));
	assert_string_equal(text.text, "no cgroups: " NO_MOUNT);
	assert_false(machine_problem(machine, 2, &text));

	assert_int_equal(machine_open_cgroups(machine, &text), -1);
	assert_string_equal(text.text, NO_MOUNT);
	assert_null(world_tree(f->world));
	assert_false(world_describe(f->world, &text));
	assert_string_equal(text.text, "nothing: the config names no event");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(sysctl),		TEST(sysctl_not_applied), TEST(cpus),
		TEST(cpus_not_applied), TEST(cpus_and_sysctl),	  TEST(reload),
		TEST(refused),		TEST(snapshot),		  TEST(steps),
		TEST(problems),
	};

	return cmocka_run_group_tests_name("world", tests, NULL, NULL);
}
