/* SPDX-License-Identifier: MIT */

/*
 * Allocations that fail, one after the other, in config: each time -ENOMEM comes back, nothing is lost and
 * nothing is half done.
 */

#include "base/config/config.h"
#include "setup/no-memory.h"
#include "setup/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Allocations left until one fails; < 0: none does. */
static long left = -1;
static bool failed;

static bool fails(void)
{
	if (left < 0 || left-- > 0)
		return false;
	failed = true;
	return true;
}

/* The next call is tried with its first allocation failing, then its second, … until none fails. */
#define EVERY_ALLOCATION (long _n = 0; _n == 0 || failed; _n++)

static void fail_after(long n)
{
	left = n;
	failed = false;
}

static void fail_never(void)
{
	left = -1;
}

static const char text[] =
	"[daemon]\ninterval=2s\n[web]\nlisten=[::1]:0\nlisten=/run/x\n[cpu]\ngroups=a core\n"
	"[cgroup]\ninclude=/a\n  /b\nexclude=/c\n[group \"a\"]\nevents=x,\n  y\n[group \"core\"]\nalone=1\n";

static void test_config_new(_unused_ void **state)
{
	for
		EVERY_ALLOCATION
		{
			struct config *config = NULL;
			int r;

			fail_after(_n);
			r = config_new(&config);
			fail_never();
			assert_int_equal(r, failed ? -ENOMEM : 0);
			assert_int_equal(!config, failed);
			config_free(config);
		}
}

static void test_config_parse(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = NULL;
	struct reason why;

	assert_int_equal(config_new(&config), 0);
	for
		EVERY_ALLOCATION
		{
			const struct config before = *config;
			int r;

			fail_after(_n);
			r = config_parse(config, "f", text, strlen(text), &why);
			fail_never();
			assert_int_equal(r, failed ? -ENOMEM : 0);
			if (!failed)
				break;
			assert_memory_equal(config, &before, sizeof(before));
			assert_string_equal(why.text, "f: out of memory");
		}
	assert_int_equal(config->include.nr, 2);
	assert_string_equal(config_find_group(config, "a")->events, "x, y");
}

static void test_config_errors(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = NULL;

	assert_int_equal(config_new(&config), 0);
	for
		EVERY_ALLOCATION
		{
			int r;

			fail_after(_n);
			r = config_parse(config, "f", "[web]\nliisten=x\n", 16, NULL);
			fail_never();
			assert_int_equal(r, failed ? -ENOMEM : -EINVAL);
		}
}

static void test_config_load(_unused_ void **state)
{
	struct scratch scratch;
	struct reason why;

	scratch_make(&scratch);
	scratch_text(&scratch, "perfmond.conf", text);
	scratch_text(&scratch, "perfmond.conf.d/1.conf", text);
	for
		EVERY_ALLOCATION
		{
			struct config *config = NULL;
			int r;

			fail_after(_n);
			r = config_load(&config, scratch_path(&scratch, "perfmond.conf"), true, &why);
			fail_never();
			assert_int_equal(r, failed ? -ENOMEM : 0);
			assert_int_equal(!config, failed);
			config_free(config);
		}
	scratch_remove(&scratch);
}

static void test_config_set_listen(_unused_ void **state)
{
	char *listen[] = { (char *)"[::1]:0", (char *)"/run/x" };
	_cleanup_(config_freep) struct config *config = NULL;

	assert_int_equal(config_new(&config), 0);
	for
		EVERY_ALLOCATION
		{
			int r;

			fail_after(_n);
			r = config_set_listen(config, listen, 2);
			fail_never();
			assert_int_equal(r, failed ? -ENOMEM : 0);
			assert_int_equal(config->listen.nr, failed ? 1 : 2);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config_new),	  cmocka_unit_test(test_config_parse),
		cmocka_unit_test(test_config_errors),	  cmocka_unit_test(test_config_load),
		cmocka_unit_test(test_config_set_listen),
	};

	memory_fails = fails;
	return cmocka_run_group_tests_name("config-memory", tests, NULL, NULL);
}
