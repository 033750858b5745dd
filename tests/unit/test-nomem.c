/* SPDX-License-Identifier: MIT */

/*
 * Allocations that fail, one after the other, in config and target: each time -ENOMEM comes back, nothing is
 * lost and nothing is half done. Linked with -Wl,--wrap= for the functions below.
 */

#include "config/config.h"
#include "target/cpu.h"
#include "watched.h"

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

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t nr, size_t size);
void *__wrap_calloc(size_t nr, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__real_reallocarray(void *p, size_t nr, size_t size);
void *__wrap_reallocarray(void *p, size_t nr, size_t size);
char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
char *__wrap_strndup(const char *s, size_t n);
void *__real_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));
void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *));

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t nr, size_t size)
{
	return fails() ? NULL : __real_calloc(nr, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

void *__wrap_reallocarray(void *p, size_t nr, size_t size)
{
	return fails() ? NULL : __real_reallocarray(p, nr, size);
}

char *__wrap_strdup(const char *s)
{
	return fails() ? NULL : __real_strdup(s);
}

char *__wrap_strndup(const char *s, size_t n)
{
	return fails() ? NULL : __real_strndup(s, n);
}

void *__wrap_tsearch(const void *key, void **root, int (*compare)(const void *, const void *))
{
	return fails() ? NULL : __real_tsearch(key, root, compare);
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

/* --- config */

static const char text[] =
	"[daemon]\ninterval=2s\n[web]\nlisten=[::1]:0\nlisten=/run/x\n[cpu]\ngroups=a core\n"
	"[cgroup]\ninclude=/a\n  /b\nexclude=/c\n[group \"a\"]\nevents=x,\n  y\n[group \"core\"]\nalone=1\n";

static void test_config_new(_unused_ void **state)
{
	for EVERY_ALLOCATION {
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
	for EVERY_ALLOCATION {
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
	for EVERY_ALLOCATION {
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
	for EVERY_ALLOCATION {
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
	for EVERY_ALLOCATION {
		int r;

		fail_after(_n);
		r = config_set_listen(config, listen, 2);
		fail_never();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		assert_int_equal(config->listen.nr, failed ? 1 : 2);
	}
}

/* --- target */

static void test_identity(_unused_ void **state)
{
	for EVERY_ALLOCATION {
		struct cgroup_identity *identity = NULL;
		int r;

		fail_after(_n);
		r = cgroup_identity_new(
			&identity, 1,
			"/kubepods.slice/kubepods-pod0123456789abcdef0123456789abcdef.slice/crio-"
			"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope");
		fail_never();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		assert_int_equal(!identity, failed);
		if (identity)
			assert_non_null(identity->pod_uid);
		cgroup_identity_unref(identity);
	}
}

static void test_mount(_unused_ void **state)
{
	struct scratch scratch;

	scratch_make(&scratch);
	scratch_text(&scratch, "mountinfo", "1 0 0:1 / /cgroup rw - cgroup2 cgroup2 rw\n");
	scratch_text(&scratch, "devices/system/cpu/online", "0-3\n");
	scratch_text(&scratch, "devices/system/cpu/cpu0/topology/physical_package_id", "0\n");
	for EVERY_ALLOCATION {
		struct cgroup_mount mount = {};
		int r;

		fail_after(_n);
		r = cgroup_mount_find(&mount, scratch_path(&scratch, "mountinfo"), NULL);
		fail_never();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		cgroup_mount_release(&mount);
	}
	for EVERY_ALLOCATION {
		struct cpulist cpus = {};
		int r;

		fail_after(_n);
		r = cpu_online(&cpus, scratch.path, NULL);
		fail_never();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		cpulist_release(&cpus);
	}
	for EVERY_ALLOCATION {
		struct cpu_topology topology = {};
		int cpu = 0, r;

		fail_after(_n);
		r = cpu_topology_read(&topology, scratch.path, &(struct cpulist){ &cpu, 1 });
		fail_never();
		assert_int_equal(r, failed ? -ENOMEM : 0);
		cpu_topology_release(&topology);
	}
	scratch_remove(&scratch);
}

static void ignore(_unused_ void *userdata, _unused_ struct cgroup *cgroup)
{
}

static void test_tree(_unused_ void **state)
{
	const struct cgroup_observer observer = { .added = ignore, .removed = ignore, .changed = ignore };
	struct watched w = {};
	long n = 0;

	scratch_make(&w.scratch);
	scratch_mkdir(&w.scratch, "a/b/c");
	scratch_mkdir(&w.scratch, "\xff/e");
	do {
		int r;

		w.tree = NULL;
		fail_after(n++);
		r = cgroup_tree_new(&w.tree, w.scratch.path, &admit_all, &observer, &w.why);
		if (r == 0)
			r = cgroup_tree_start(w.tree, &w.why);
		fail_never();
		/* Without memory for a watch it can do. */
		if (r < 0)
			assert_int_equal(r, -ENOMEM);
		assert_true(failed || r == 0);

		if (w.tree && r < 0) {
			assert_true(cgroup_tree_is_incomplete(w.tree));
			watched_rescan(&w);
		} else if (w.tree && failed) {
			watched_rescan(&w);
		}
		if (w.tree) {
			assert_int_equal(cgroup_tree_size(w.tree), 6);
			assert_int_equal(cgroup_tree_stats(w.tree).watches, 6);
			assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 0);
			assert_false(cgroup_tree_is_incomplete(w.tree));
			watched_check(&w);
			/* All of them are followed. */
			scratch_mkdir(&w.scratch, "new");
			scratch_mkdir(&w.scratch, "a/b/c/new");
			watched_follow(&w);
			watched_check(&w);
			scratch_rmdir(&w.scratch, "new");
			scratch_rmdir(&w.scratch, "a/b/c/new");
			watched_follow(&w);
			watched_check(&w);
		}
		cgroup_tree_free(w.tree);
	} while (failed);
	w.tree = NULL;
	watched_free(&w);
}

/* An event that can't be followed is made up for by a rescan. */
static void test_dispatch(_unused_ void **state)
{
	const struct cgroup_observer observer = { .added = ignore, .removed = ignore, .changed = ignore };
	struct watched w = {};

	scratch_make(&w.scratch);
	assert_int_equal(cgroup_tree_new(&w.tree, w.scratch.path, &admit_all, &observer, &w.why), 0);
	assert_int_equal(cgroup_tree_start(w.tree, &w.why), 0);
	for EVERY_ALLOCATION {
		int r;

		scratch_mkdir(&w.scratch, "a/b");
		fail_after(_n);
		r = cgroup_tree_follow(w.tree, UINT64_MAX, &w.why);
		fail_never();
		assert_true(r == 0 || (failed && r == -ENOMEM));
		if (r < 0)
			assert_true(cgroup_tree_is_incomplete(w.tree));
		watched_rescan(&w);
		watched_compare(&w, w.scratch.path);
		scratch_rmdir(&w.scratch, "a/b");
		scratch_rmdir(&w.scratch, "a");
		watched_follow(&w);
		assert_int_equal(cgroup_tree_stats(w.tree).watches, 1);
		assert_int_equal(cgroup_tree_stats(w.tree).watches_missing, 0);
	}
	watched_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config_new),
		cmocka_unit_test(test_config_parse),
		cmocka_unit_test(test_config_errors),
		cmocka_unit_test(test_config_load),
		cmocka_unit_test(test_config_set_listen),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_mount),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_dispatch),
	};

	return cmocka_run_group_tests_name("nomem", tests, NULL, NULL);
}
