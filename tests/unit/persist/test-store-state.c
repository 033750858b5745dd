/* SPDX-License-Identifier: MIT */

/* Totals in the state directory: when the file is there, what a start says of it, and who may use the directory. */

#include "setup/scratch.h"
#include "setup/store-world.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_there(const struct scratch *scratch, const char *name)
{
	return access(scratch_path(scratch, name), F_OK) == 0;
}

static void test_the_state_file_is_used_once(void **state)
{
	struct count_world *w = *state;
	struct scratch scratch;
	struct start start;
	struct stat st;

	scratch_make(&scratch);
	leave_store(w, first_start(w, scratch.path));
	assert_int_equal(stat(scratch_path(&scratch, "totals"), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_false(is_there(&scratch, "running"));

	/* It goes when counting has begun, and not before another image is in the fd store. */
	next_start(w, scratch.path, 10, &start);
	expect_start(&start, true, true, "/totals, saved ");
	assert_true(is_there(&scratch, "totals"));
	fake_systemd.watched = scratch_path(&scratch, "totals");
	fake_systemd.was_there = false;
	assert_int_equal(store_begin(start.store, w->session), 0);
	assert_true(fake_systemd.was_there);
	assert_false(is_there(&scratch, "totals"));
	assert_true(is_there(&scratch, "running"));
	leave_store(w, start.store);
	assert_true(is_there(&scratch, "totals"));
	assert_false(is_there(&scratch, "running"));
	scratch_remove(&scratch);
}

static void test_a_start_tells_why_no_totals_were_saved(void **state)
{
	struct count_world *w = *state;
	struct scratch scratch;
	struct start start;

	scratch_make(&scratch);
	end_store(w, first_start(w, scratch.path));
	drop_all();
	next_start(w, scratch.path, 10, &start);
	expect_start(&start, false, false, NULL);

	/* The one before was killed. */
	assert_int_equal(store_begin(start.store, w->session), 0);
	end_store(w, start.store);
	drop_all();
	next_start(w, scratch.path, 10, &start);
	expect_start(&start, false, true, "before it could save them in ");
	end_store(w, start.store);

	scratch_text(&scratch, "running", "c0ffee00-0000-0000-0000-000000000000");
	next_start(w, scratch.path, 10, &start);
	expect_start(&start, false, false, "totals begin at zero: the machine was restarted");
	end_store(w, start.store);
	scratch_remove(&scratch);
}

static void make_link(const struct scratch *scratch)
{
	scratch_text(scratch, "target", "not ours");
	assert_int_equal(symlink("target", scratch_path(scratch, "totals")), 0);
}

static void make_fifo(const struct scratch *scratch)
{
	assert_int_equal(mkfifo(scratch_path(scratch, "totals"), 0600), 0);
}

static void make_text(const struct scratch *scratch)
{
	scratch_text(scratch, "totals", "written by somebody else");
}

static void make_empty(const struct scratch *scratch)
{
	scratch_text(scratch, "totals", "");
}

/* It has holes, and takes no room. */
static void make_huge(const struct scratch *scratch)
{
	scratch_text(scratch, "totals", "");
	assert_int_equal(truncate(scratch_path(scratch, "totals"), 1024L * 1024 * 1024 + 1), 0);
}

/* Whatever stands in the place of the file: the daemon begins anew, and its own file takes that place at the stop. */
static void test_a_state_file_that_is_none_does_no_harm(void **state)
{
	static const struct {
		void (*make)(const struct scratch *scratch);
		bool lost;
		const char *news;
	} cases[] = {
		{ make_link, true, "/totals: Too many levels of symbolic links" },
		{ make_text, true, "they were not written by perfmond" },
		{ make_fifo, false, NULL },
		{ make_empty, false, NULL },
		{ make_huge, false, NULL },
	};
	struct count_world *w = *state;
	struct scratch scratch;
	struct stat st;

	scratch_make(&scratch);
	end_store(w, first_start(w, NULL));
	drop_all();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct start start;

		(void)unlink(scratch_path(&scratch, "totals"));
		cases[i].make(&scratch);
		next_start(w, scratch.path, 10, &start);
		expect_start(&start, false, cases[i].lost, cases[i].news);
		leave_store(w, start.store);
		assert_int_equal(lstat(scratch_path(&scratch, "totals"), &st), 0);
		assert_true(S_ISREG(st.st_mode) && st.st_size > 100 && st.st_size < 1024L * 1024);
	}
	assert_int_equal(stat(scratch_path(&scratch, "target"), &st), 0);
	assert_int_equal(st.st_size, strlen("not ours"));
	scratch_remove(&scratch);
}

static void test_the_directory_is_claimed_until_it_is_released(void **state)
{
	_cleanup_(store_freep) struct store *first = NULL, *second = NULL, *none = NULL;
	struct count_world *w = *state;
	struct scratch scratch;
	struct reason why;

	scratch_make(&scratch);
	end_store(w, first_start(w, NULL));
	assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	assert_int_equal(store_new(&none, NULL, false), 0);
	assert_int_equal(store_claim(none, &why), 0);
	assert_int_equal(store_new(&first, scratch.path, false), 0);
	assert_int_equal(store_new(&second, scratch.path, false), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_claim(first, &why), 0);
	assert_int_equal(store_claim(second, &why), -EBUSY);
	assert_non_null(strstr(why.text, "in use by another perfmond"));
	assert_int_equal(store_leave(first, w->session, &why), 0);
	assert_int_equal(store_claim(second, &why), -EBUSY);
	store_release(first);
	assert_int_equal(store_claim(second, &why), 0);
	assert_int_equal(store_claim(first, &why), -EBUSY);
	/* As it is where it can't save. */
	assert_int_equal(unlink(scratch_path(&scratch, "totals")), 0);
	scratch_mkdir(&scratch, "totals/in-the-way");
	assert_int_equal(store_leave(second, w->session, &why), -EISDIR);
	store_release(second);
	assert_int_equal(store_claim(first, &why), 0);
	scratch_remove(&scratch);
}

static void test_leaving_tells_what_could_not_be_kept(void **state)
{
	static const struct {
		bool in_the_way; /* a folder, of the state file */
		int put_error, r;
		const char *part;
	} cases[] = {
		{ false, 0, 0, "" },
		{ false, -ENOENT, -ENOENT, "not all counters could be given to systemd's fd store: No such file" },
		{ true, 0, -EISDIR, "/totals: Is a directory" },
		{ true, -ENOENT, -EISDIR, "totals could not be saved in " },
	};
	struct count_world *w = *state;
	struct scratch scratch;

	scratch_make(&scratch);
	end_store(w, first_start(w, NULL));
	drop_all();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct reason why = {};
		struct start start;

		next_start(w, scratch.path, 10, &start);
		assert_int_equal(store_begin(start.store, w->session), 0);
		if (cases[i].in_the_way)
			scratch_mkdir(&scratch, "totals/in-the-way");
		fake_systemd.put_error = cases[i].put_error;
		assert_int_equal(store_leave(start.store, w->session, &why), cases[i].r);
		fake_systemd.put_error = 0;
		if (!strstr(why.text, cases[i].part))
			fail_msg("%s", why.text);
		/* The next start is to know that there is nothing. */
		assert_int_equal(is_there(&scratch, "running"), cases[i].in_the_way);
		end_store(w, start.store);
		drop_all();
		if (cases[i].in_the_way) {
			scratch_rmdir(&scratch, "totals/in-the-way");
			scratch_rmdir(&scratch, "totals");
		}
	}
	scratch_remove(&scratch);
}

static void keep_samples(struct store *store, const char *text)
{
	struct blob image = { .refs = 1, .data = (char *)(uintptr_t)text, .len = strlen(text) };
	struct reason why;

	assert_int_equal(store_put_samples(store, &image, &why), 0);
}

/* NULL: there are none. */
static void expect_samples(struct store *store, const char *text)
{
	_cleanup_(blob_unrefp) struct blob *image = NULL;
	struct reason why;

	assert_int_equal(store_take_samples(store, &image, &why), 0);
	assert_int_equal(image != NULL, text != NULL);
	if (!text)
		return;
	assert_int_equal(image->len, strlen(text));
	assert_memory_equal(image->data, text, image->len);
}

/* In the fd store alone, where there is one: until they are taken, also over a start that does not come so far. */
static void test_samples_in_the_fd_store(void **state)
{
	struct count_world *w = *state;
	struct scratch scratch;
	struct start start;

	scratch_make(&scratch);
	start.store = first_start(w, scratch.path);
	expect_samples(start.store, NULL);
	keep_samples(start.store, "first");
	end_store(w, start.store);
	assert_false(is_there(&scratch, "samples"));
	assert_int_equal(nr_entries("perfmond-samples"), 1);
	for (int i = 0; i < 2; i++) {
		next_start(w, scratch.path, 10, &start);
		assert_int_equal(nr_entries("perfmond-samples"), 1);
		if (i == 0)
			end_store(w, start.store);
	}
	expect_samples(start.store, "first");
	assert_int_equal(nr_entries("perfmond-samples"), 0);
	expect_samples(start.store, NULL);
	leave_store(w, start.store);
	scratch_remove(&scratch);
}

/* Only their owner may read them; a link, or what is no file, is not followed. A write that was killed is tidied up. */
static void test_samples_in_the_state_directory(void **state)
{
	_cleanup_(store_freep) struct store *store = NULL, *none = NULL;
	struct count_world *w = *state;
	struct scratch scratch;
	struct reason why;
	struct blob *image;
	struct stat st;
	char path[256];

	scratch_make(&scratch);
	end_store(w, first_start(w, NULL));
	scratch_text(&scratch, "samples.perfmond-abcdef", "half");
	assert_int_equal(store_new(&store, scratch.path, false), 0);
	assert_int_equal(store_claim(store, &why), 0);
	assert_false(is_there(&scratch, "samples.perfmond-abcdef"));
	keep_samples(store, "second");
	assert_int_equal(stat(scratch_path(&scratch, "samples"), &st), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	expect_samples(store, "second");
	assert_false(is_there(&scratch, "samples"));
	expect_samples(store, NULL);

	scratch_text(&scratch, "target", "not ours");
	(void)snprintf(path, sizeof(path), "%s", scratch_path(&scratch, "target"));
	assert_int_equal(symlink(path, scratch_path(&scratch, "samples")), 0);
	assert_int_equal(store_take_samples(store, &image, &why), -ELOOP);
	assert_null(image);
	keep_samples(store, "third");
	expect_samples(store, "third");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, strlen("not ours"));

	assert_int_equal(store_new(&none, NULL, false), 0);
	image = &(struct blob){ .refs = 1, .data = path, .len = 1 };
	assert_int_equal(store_put_samples(none, image, &why), -ENOENT);
	expect_samples(none, NULL);
	scratch_remove(&scratch);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_the_state_file_is_used_once),
		TEST(test_a_start_tells_why_no_totals_were_saved),
		TEST(test_a_state_file_that_is_none_does_no_harm),
		TEST(test_the_directory_is_claimed_until_it_is_released),
		TEST(test_samples_in_the_fd_store),
		TEST(test_samples_in_the_state_directory),
		TEST(test_leaving_tells_what_could_not_be_kept),
	};

	return cmocka_run_group_tests_name("store-state", tests, NULL, NULL);
}
