/* SPDX-License-Identifier: MIT */

/* config: files in their order, those that can't be read, and bytes that are no configuration. */

#include "base/config/list.h"
#include "base/util/buf.h"
#include "setup/configs.h"
#include "setup/scratch.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000000)

/* --- bytes */

static void test_nul_bytes(_unused_ void **state)
{
	static const char first[] = "\0", later[] = "[daemon]\ninterval = 1s\n# \0\n",
			  key[] = "[daemon]\ninterval = 1\0s\n";

	expect_error(first, 1, "f:1: there is a NUL byte");
	expect_error(later, sizeof(later) - 1, "f:3: there is a NUL byte");
	expect_error(key, sizeof(key) - 1, "f:2: there is a NUL byte");
}

/* One clear error, whatever the bytes are. */
static void test_noise(_unused_ void **state)
{
	enum { SIZE = 1 << 20 };
	_cleanup_(freep) char *noise = malloc(SIZE);
	unsigned random = 1;

	assert_non_null(noise);
	for (unsigned seed = 0; seed < 3; seed++) {
		for (size_t i = 0; i < SIZE; i++) {
			random = random * 1103515245 + 12345;
			/* All bytes; those without NUL; letters and line ends. */
			noise[i] = (char)(random >> 16);
			if (seed >= 1 && !noise[i])
				noise[i] = 'x';
			if (seed >= 2)
				noise[i] = "abcdefg\n"[noise[i] & 7];
		}
		noise[0] = 'x';
		noise[1] = 'x';
		expect_error(noise, SIZE, "f:1: ");
	}
	memset(noise, 'x', SIZE);
	expect_error(noise, SIZE, "f:1: this line is neither");
	memset(noise, '[', SIZE);
	expect_error(noise, SIZE, "f:1: this section has no ']'");
	memcpy(noise, "[daemon]\n", 9);
	memset(noise + 9, 'x', SIZE - 9);
	noise[SIZE - 2] = '=';
	expect_error(noise, SIZE, "f:2: [daemon] has no key 'xxx");
}

static void test_long_lines(_unused_ void **state)
{
	enum { SIZE = 1 << 20 };
	_cleanup_(config_freep) struct config *config = fresh_config();
	_cleanup_(buf_release) struct buf text = {};
	struct reason why;

	buf_str(&text, "[group \"core\"]\nevents = ");
	for (size_t i = 0; i < SIZE; i++)
		buf_char(&text, i % 8 ? 'e' : ',');
	buf_str(&text, "\nalone = yes\n[daemon]\n# ");
	for (size_t i = 0; i < SIZE; i++)
		buf_char(&text, 'c');
	buf_str(&text, "\ninterval = 7s");
	for (size_t i = 0; i < SIZE; i++)
		buf_char(&text, ' ');
	if (config_parse(config, "f", text.data, text.len, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(strlen(config_find_group(config, "core")->events), SIZE);
	assert_true(config_find_group(config, "core")->alone);
	assert_int_equal(config->interval, 7 * SECOND);
}

/* What could take long, or much memory, ends in an error. */
static void test_limits(_unused_ void **state)
{
	_cleanup_(buf_release) struct buf words = {}, paths = {}, groups = {}, lines = {}, large = {};

	buf_str(&words, "[cgroup]\ngroups = ");
	for (int i = 0; i < CONFIG_MAX_ENTRIES + 1; i++)
		buf_printf(&words, "g%d ", i);
	expect_error(words.data, words.len, "f:2: groups: more than 1000 values");

	buf_str(&paths, "[cgroup]\ncontainer_files = ");
	for (int i = 0; i < 33; i++)
		buf_printf(&paths, "/%d ", i);
	expect_error(paths.data, paths.len, "f:2: container_files: more than 32 values");

	for (int i = 0; i < CONFIG_MAX_ENTRIES; i++)
		buf_printf(&groups, "[group \"g%d\"]\n", i);
	expect_error(groups.data, groups.len, "f:998: more than 1000 groups");

	buf_str(&lines, "[group \"core\"]\nevents = a\n");
	for (int i = 0; i < 100000; i++)
		buf_str(&lines, " b\n");
	expect_error(lines.data, lines.len, "f:32771: events: more than 65536 bytes in indented lines");

	assert_true(buf_reserve(&large, 17 << 20));
	memset(large.data, '\n', 17 << 20);
	expect_error(large.data, 17 << 20, "f is larger than 16 MiB");
}

/* --- files */

static int load(const struct scratch *scratch, const char *name, bool must_exist, struct config **ret,
		struct reason *why)
{
	*ret = NULL;
	*why = (struct reason){};
	return config_load(ret, scratch_path(scratch, name), must_exist, why);
}

static void expect_load_error(const struct scratch *scratch, const char *name, int error, const char *file,
			      const char *message)
{
	struct config *config;
	struct reason why;

	assert_int_equal(load(scratch, name, true, &config, &why), error);
	assert_null(config);
	if (!strstr(why.text, scratch_path(scratch, file)) || !strstr(why.text, message))
		fail_msg("'%s' instead of '%s' and '%s'", why.text, scratch_path(scratch, file), message);
}

static void test_no_files(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = NULL, *defaults = fresh_config();
	struct scratch scratch;
	struct reason why;

	scratch_make(&scratch);
	assert_int_equal(load(&scratch, "perfmond.conf", false, &config, &why), 0);
	expect_same(config, defaults);
	expect_load_error(&scratch, "perfmond.conf", -ENOENT, "perfmond.conf", "No such file");
	config_free(config);
	assert_int_equal(load(&scratch, "no/such/folder/perfmond.conf", false, &config, &why), 0);
	expect_same(config, defaults);
	scratch_remove(&scratch);
}

static void test_drop_ins(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = NULL;
	struct scratch scratch;
	struct reason why;

	scratch_make(&scratch);
	scratch_text(&scratch, "perfmond.conf", "[daemon]\ninterval=2s\n[cgroup]\ninclude=/0\nmax=1\n");
	scratch_text(&scratch, "perfmond.conf.d/20-b.conf", "[daemon]\ninterval=4s\n[cgroup]\ninclude=/2\n");
	scratch_text(&scratch, "perfmond.conf.d/10-a.conf", "[daemon]\ninterval=3s\n[cgroup]\ninclude=/1\n");
	scratch_text(&scratch, "perfmond.conf.d/9.conf", "[cgroup]\ninclude=/9\n");
	/* None of these is one. */
	scratch_text(&scratch, "perfmond.conf.d/30.conf~", "wrong\n");
	scratch_text(&scratch, "perfmond.conf.d/.hidden.conf", "wrong\n");
	scratch_text(&scratch, "perfmond.conf.d/.conf", "wrong\n");
	scratch_text(&scratch, "perfmond.conf.d/README", "wrong\n");
	scratch_mkdir(&scratch, "perfmond.conf.d/40-folder.conf");
	assert_int_equal(mkfifo(scratch_path(&scratch, "perfmond.conf.d/50-fifo.conf"), 0600), 0);
	assert_int_equal(symlink("/dev/null", scratch_path(&scratch, "perfmond.conf.d/60-null.conf")), 0);
	/* A link to a plain file is. */
	scratch_text(&scratch, "elsewhere", "[cgroup]\nmax=7\n");
	assert_int_equal(symlink("../elsewhere", scratch_path(&scratch, "perfmond.conf.d/70-link.conf")), 0);

	if (load(&scratch, "perfmond.conf", true, &config, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(config->interval, 4 * SECOND);
	expect_list(&config->include, "/0|/1|/2|/9");
	expect_place(&config->include.places[1], scratch_path(&scratch, "perfmond.conf.d/10-a.conf"), 4);
	assert_int_equal(config->cgroup_max, 7);
	scratch_remove(&scratch);
}

/* The folder is beside the file, there or not. */
static void test_drop_ins_alone(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = NULL, *bare = NULL;
	struct scratch scratch;
	struct reason why;

	scratch_make(&scratch);
	scratch_text(&scratch, "perfmond.conf.d/a.conf", "[daemon]\ninterval=3s\n");
	assert_int_equal(load(&scratch, "perfmond.conf", false, &config, &why), 0);
	assert_int_equal(config->interval, 3 * SECOND);

	/* Of a name without a slash: the working folder. */
	assert_int_equal(chdir(scratch.path), 0);
	assert_int_equal(config_load(&bare, "perfmond.conf", false, &why), 0);
	assert_int_equal(bare->interval, 3 * SECOND);
	assert_string_equal(bare->listen.places[0].file, "built-in defaults");
	assert_int_equal(chdir("/"), 0);
	scratch_remove(&scratch);
}

static void test_bad_files(_unused_ void **state)
{
	struct scratch scratch;

	scratch_make(&scratch);
	scratch_text(&scratch, "perfmond.conf", "[daemon]\ninterval=2s\n");
	scratch_text(&scratch, "perfmond.conf.d/10.conf", "[daemon]\nfirst=1\nsecond=2\n");
	scratch_text(&scratch, "perfmond.conf.d/20.conf", "third\n");
	expect_load_error(&scratch, "perfmond.conf", -EINVAL, "perfmond.conf.d/10.conf", ":2: ");

	scratch_text(&scratch, "perfmond.conf.d/10.conf", "[cpu]\ngroups = none\n");
	scratch_text(&scratch, "perfmond.conf.d/20.conf", "");
	expect_load_error(&scratch, "perfmond.conf", -EINVAL, "perfmond.conf.d/10.conf", ":2: [cpu] groups names");
	/* A group may be defined in a later file. */
	scratch_text(&scratch, "perfmond.conf.d/20.conf", "[group \"none\"]\nevents=x\n");
	{
		_cleanup_(config_freep) struct config *config = NULL;
		struct reason why;

		assert_int_equal(load(&scratch, "perfmond.conf", true, &config, &why), 0);
	}

	scratch_text(&scratch, "perfmond.conf.d/10.conf", "");
	assert_int_equal(symlink("nowhere", scratch_path(&scratch, "perfmond.conf.d/30.conf")), 0);
	expect_load_error(&scratch, "perfmond.conf", -ENOENT, "perfmond.conf.d/30.conf", "No such file");
	expect_load_error(&scratch, "perfmond.conf.d", -EISDIR, "perfmond.conf.d", "Is a directory");
	expect_load_error(&scratch, "perfmond.conf/x", -ENOTDIR, "perfmond.conf/x", "Not a directory");
	scratch_remove(&scratch);
}

static void test_unreadable(_unused_ void **state)
{
	struct scratch scratch;
	bool root = geteuid() == 0;

	scratch_make(&scratch);
	assert_int_equal(chmod(scratch.path, 0755), 0);
	scratch_text(&scratch, "perfmond.conf", "");
	scratch_text(&scratch, "perfmond.conf.d/10.conf", "");
	assert_int_equal(chmod(scratch_path(&scratch, "perfmond.conf.d"), 0), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	expect_load_error(&scratch, "perfmond.conf", -EACCES, "perfmond.conf.d", "Permission denied");
	if (root)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(scratch_path(&scratch, "perfmond.conf.d"), 0755), 0);
	assert_int_equal(chmod(scratch_path(&scratch, "perfmond.conf"), 0), 0);
	if (root)
		assert_int_equal(seteuid(65534), 0);
	expect_load_error(&scratch, "perfmond.conf", -EACCES, "perfmond.conf", "Permission denied");
	if (root)
		assert_int_equal(seteuid(0), 0);
	scratch_remove(&scratch);

	/* A file in the place of the folder. */
	scratch_make(&scratch);
	scratch_text(&scratch, "perfmond.conf", "");
	scratch_text(&scratch, "perfmond.conf.d", "");
	expect_load_error(&scratch, "perfmond.conf", -ENOTDIR, "perfmond.conf.d", "Not a directory");
	scratch_remove(&scratch);
}

static void test_endless(_unused_ void **state)
{
	struct config *config = NULL;
	struct reason why;

	assert_int_equal(config_load(&config, "/dev/zero", true, &why), -EFBIG);
	assert_non_null(strstr(why.text, "/dev/zero"));
	assert_null(config);
}

/* As in "-c <(generate)". */
static void test_pipe(_unused_ void **state)
{
	_cleanup_(config_freep) struct config *config = NULL;
	struct reason why;
	char path[32];
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	assert_int_equal(write(fds[1], "[daemon]\ninterval=8s\n", 21), 21);
	close(fds[1]);
	if (config_load(&config, path, true, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(config->interval, 8 * SECOND);
	close(fds[0]);

	/* A writer that writes nothing is not waited for for ever. */
	assert_int_equal(pipe(fds), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	config_free(steal_ptr(config));
	assert_int_equal(config_load(&config, path, true, &why), -ETIMEDOUT);
	assert_non_null(strstr(why.text, path));
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nul_bytes),      cmocka_unit_test(test_noise),
		cmocka_unit_test(test_long_lines),     cmocka_unit_test(test_limits),
		cmocka_unit_test(test_no_files),       cmocka_unit_test(test_drop_ins),
		cmocka_unit_test(test_drop_ins_alone), cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_unreadable),     cmocka_unit_test(test_endless),
		cmocka_unit_test(test_pipe),
	};

	return cmocka_run_group_tests_name("config-files", tests, NULL, NULL);
}
