/* SPDX-License-Identifier: MIT */

/* Kept totals in the fd store, also where images are damaged, and where memory or room is short. */

#include "setup/faults.h"
#include "setup/scratch.h"
#include "setup/store-world.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <zlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Restores with one call in so many failing; whether it did. */
static bool restart(struct count_world *w, struct store **store, const char *folder, uint64_t seed, unsigned one_in,
		    struct reason *news)
{
	_cleanup_(listen_fds_release) struct listen_fds passed;
	bool bad;

	pass_entries(&passed);
	assert_int_equal(store_new(store, folder, true), 0);
	if (one_in)
		faults_begin_random(seed, one_in);
	w->session = store_restore(*store, &passed, 10, news, &bad);
	faults_end();
	return w->session;
}

static void test_without_memory_all_is_kept_in_the_end(void **state)
{
	struct count_world *w = *state;
	struct store *store = first_start(w, NULL);
	unsigned restored = 0;

	for (uint64_t seed = 0; seed < 200; seed++) {
		struct reason news;

		end_store(w, store);
		if (restart(w, &store, NULL, seed, seed % 2 ? 2 : 300, &news)) {
			restored++;
		} else {
			assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
			/* Sometimes there is nothing to be opened. */
			if (seed % 3)
				(void)add_cgroup(w, "/0");
		}
		keep_all(store, w->session);
		check_kept(w->session);
		assert_int_equal(store_stats(store).kept, session_stats(w->session).fds);
		/* All is there again for the next. */
		end_store(w, store);
		drop_all();
		assert_int_equal(fake_perf.nr_open, 0);
		fake_perf.nr = 0;
		assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
		add_cgroups(w);
		assert_int_equal(store_new(&store, NULL, true), 0);
		keep_all(store, w->session);
	}
	assert_in_range(restored, 1, 199);
	end_store(w, store);
}

/* The image in the state directory may be the only one, with events that have gone on counting. */
static void test_a_state_file_goes_with_events_that_counted_on(void **state)
{
	struct count_world *w = *state;
	struct scratch scratch;
	struct reason news;
	struct store *store;

	scratch_make(&scratch);
	store = first_start(w, scratch.path);
	assert_int_equal(store_leave(store, w->session, &news), 0);
	end_store(w, store);
	for (size_t i = 0; i < ARRAY_SIZE(fake_systemd.entries); i++)
		if (!is_parcel(&fake_systemd.entries[i]))
			drop_entry(&fake_systemd.entries[i]);
	assert_true(restart(w, &store, scratch.path, 0, 0, &news));
	assert_non_null(strstr(news.text, "/totals, with all of 300 perf events, that have counted meanwhile"));
	keep_all(store, w->session);
	end_store(w, store);
	drop_all();
	assert_true(restart(w, &store, scratch.path, 0, 0, &news));
	assert_non_null(strstr(news.text, "; counts since then are missing"));
	end_store(w, store);
	scratch_remove(&scratch);
}

/* A full fd store has what it had, whatever is made anew. */
static void test_a_full_fd_store_keeps_what_it_had(void **state)
{
	struct count_world *w = *state;
	struct store *store = first_start(w, NULL);
	char label[16];

	/* An image and two parcels. */
	fake_systemd.most_entries = 3;
	for (int i = 0; i < 4; i++) {
		(void)snprintf(label, sizeof(label), "/%d", i);
		session_remove_cgroup(w->session, find_cgroup(w, label), false);
		keep_all(store, w->session);
		check_kept(w->session);
	}
	end_store(w, store);
}

/* --- what survives, and where it is */

/* Header and time of an image: they tell two of them apart. */
struct image_head {
	char bytes[128];
};

static struct image_head head_of(unsigned which)
{
	struct image_head head = {};

	assert_true(pread(memory_file(which), head.bytes, sizeof(head.bytes), 0) > 64);
	return head;
}

/* Saves, and returns which of the two files was written. */
static unsigned save_into(struct store *store, const struct session *session)
{
	struct image_head before[] = { head_of(0), head_of(1) }, after;
	unsigned nr = 0, which = 2;

	assert_int_equal(store_save(store, session), 0);
	for (unsigned i = 0; i < 2; i++) {
		after = head_of(i);
		if (memcmp(&after, &before[i], sizeof(after)) != 0) {
			which = i;
			nr++;
		}
	}
	assert_int_equal(nr, 1);
	return which;
}

enum damage { WHOLE, DAMAGED, SENSELESS };

/* Behind the header: magic, version, size, checksum, as numbers of 64 bits. */
#define HEADER 32

/* Damages the image, or writes one that has a right checksum, and makes no sense. */
static void damage(unsigned which, enum damage how)
{
	static unsigned char bytes[1024 * 1024];
	int fd = memory_file(which);
	uint64_t head[4];
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);

	if (how == WHOLE)
		return;
	assert_true(n > 200 && (size_t)n < sizeof(bytes));
	memset(bytes + 128, 0xff, (size_t)n - 128);
	memcpy(head, bytes, sizeof(head));
	if (how == SENSELESS)
		head[3] = crc32_z(0, bytes + HEADER, head[2] - HEADER);
	memcpy(bytes, head, sizeof(head));
	assert_int_equal(pwrite(fd, bytes, (size_t)n, 0), n);
}

/* One that is killed while it writes leaves the other image whole. */
static void test_images_are_written_in_turn(void **state)
{
	struct count_world *w = *state;
	struct store *store = first_start(w, NULL);
	unsigned which;

	assert_int_equal(store_save(store, w->session), 0);
	which = save_into(store, w->session);
	for (int i = 0; i < 4; i++) {
		which = !which;
		assert_int_equal(save_into(store, w->session), which);
	}
	end_store(w, store);
}

/* The next save then overwrites an image that is of no use: the one that is stays until there is another. */
static void test_a_damaged_image_leaves_the_other_one(void **state)
{
	static const struct {
		enum damage newer, older;
		const char *news;
	} cases[] = {
		{ WHOLE, WHOLE, NULL },
		{ WHOLE, DAMAGED, NULL },
		{ DAMAGED, WHOLE, NULL },
		{ SENSELESS, WHOLE, NULL },
		{ WHOLE, SENSELESS, NULL },
		{ DAMAGED, DAMAGED, "totals restart at zero, the saved ones can't be used: they are damaged" },
		{ SENSELESS, SENSELESS, "totals restart at zero, the saved ones can't be used: they make no sense" },
	};
	struct count_world *w = *state;
	struct store *store = first_start(w, NULL);
	unsigned newer, written;
	struct start start;

	assert_int_equal(store_save(store, w->session), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		/* Each of the two files is the newer one, in turn. */
		for (size_t k = 0; k <= i % 2; k++)
			newer = save_into(store, w->session);
		end_store(w, store);
		damage(newer, cases[i].newer);
		damage(!newer, cases[i].older);
		next_start(w, NULL, 10, &start);
		expect_start(&start, !cases[i].news, cases[i].news,
			     cases[i].news ?: "totals go on from systemd's fd store, with all of 300 perf events");
		store = start.store;
		written = save_into(store, w->session);
		if (!cases[i].news)
			assert_int_equal(written, cases[i].newer ? newer : !newer);
	}
	end_store(w, store);
}

/* Files that the daemon has no use for leave the store, and so do files that share a name. */
static void test_files_of_no_use_leave_the_fd_store(void **state)
{
	static const char *const names[] = { "other", "perfmond-memory-2", "perfmond-memory-x", "perfmond-memory-0" };
	struct count_world *w = *state;
	struct store *store = first_start(w, NULL);
	struct start start;

	keep_all(store, w->session);
	assert_int_equal(store_save(store, w->session), 0);
	end_store(w, store);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct entry *entry = &fake_systemd.entries[ARRAY_SIZE(fake_systemd.entries) - 1 - i];

		assert_int_equal(entry->fd, -1);
		strcpy(entry->name, names[i]);
		entry->fd = memfd_create("other", MFD_CLOEXEC);
	}
	next_start(w, NULL, 10, &start);
	expect_start(&start, true, false, "totals go on from systemd's fd store");
	assert_int_equal(nr_entries("other") + nr_entries("perfmond-memory-2") + nr_entries("perfmond-memory-x"), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(store_save(start.store, w->session), 0);
	assert_int_equal(nr_entries("perfmond-memory-"), 2);
	(void)memory_file(0);
	(void)memory_file(1);
	end_store(w, start.store);
}

/* Others need files too, also where the limit is lower than it was. */
static void test_restored_events_leave_files_to_others(void **state)
{
	static const struct {
		uint64_t limit, reserve;
		size_t most;
	} cases[] = { { UINT64_MAX, 100, 300 }, { 400, 100, 300 }, { 300, 100, 200 }, { 200, 180, 100 } };
	struct count_world *w = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct store *store = i ? NULL : first_start(w, NULL);
		struct start start;
		size_t open;

		if (store)
			end_store(w, store);
		fake_systemd.fd_limit = cases[i].limit;
		next_start(w, NULL, cases[i].reserve, &start);
		open = session_stats(w->session).fds;
		/* Groups of two. */
		assert_in_range(open, cases[i].most - 1, cases[i].most);
		expect_start(&start, true, cases[i].most < NR_EVENTS,
			     cases[i].most < NR_EVENTS ? "were not kept, and their counts since then are missing" :
							 "with all of 300 perf events");
		end_store(w, start.store);
	}
}

static void test_a_store_that_failed_stays_behind(void **state)
{
	struct count_world *w = *state;
	struct store *store = first_start(w, NULL);

	assert_false(store_is_behind(store, w->session));
	end_store(w, store);
	drop_all();
	assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	(void)add_cgroup(w, "/0");
	assert_int_equal(store_new(&store, NULL, true), 0);
	assert_true(store_is_behind(store, w->session));

	/* Without an image there are no parcels: their events could not be used. */
	fake_systemd.put_error = -ENOENT;
	fake_systemd.nr_puts = 0;
	assert_int_equal(store_update(store, w->session), -ENOENT);
	assert_int_equal(fake_systemd.nr_puts, 1);
	assert_true(store_is_behind(store, w->session));
	fake_systemd.put_error = 0;
	keep_all(store, w->session);
	check_kept(w->session);
	assert_int_equal(store_stats(store).kept, session_stats(w->session).fds);

	/* The second memory file can't be stored: what was kept before is outdated. */
	fake_systemd.put_error = -ENOENT;
	assert_int_equal(store_save(store, w->session), -ENOENT);
	assert_true(store_is_behind(store, w->session));
	fake_systemd.put_error = 0;
	keep_all(store, w->session);

	(void)add_cgroup(w, "/1");
	assert_true(store_is_behind(store, w->session));
	keep_all(store, w->session);
	check_kept(w->session);
	end_store(w, store);
}

/* Nothing is written where nothing is kept. */
static void test_without_any_place_nothing_is_kept(void **state)
{
	_cleanup_(store_freep) struct store *store = NULL;
	struct count_world *w = *state;
	struct reason why;

	end_store(w, first_start(w, NULL));
	drop_all();
	assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	(void)add_cgroup(w, "/0");
	assert_int_equal(store_new(&store, NULL, false), 0);
	assert_int_equal(store_begin(store, w->session), 0);
	assert_int_equal(store_save(store, w->session), 0);
	assert_int_equal(store_update(store, w->session), 0);
	assert_false(store_is_behind(store, w->session));
	assert_int_equal(store_stats(store).saves, 0);
	assert_int_equal(store_leave(store, w->session, &why), 0);
	assert_int_equal(nr_entries(""), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_without_memory_all_is_kept_in_the_end),
		TEST(test_a_state_file_goes_with_events_that_counted_on),
		TEST(test_a_full_fd_store_keeps_what_it_had),
		TEST(test_images_are_written_in_turn),
		TEST(test_a_damaged_image_leaves_the_other_one),
		TEST(test_files_of_no_use_leave_the_fd_store),
		TEST(test_restored_events_leave_files_to_others),
		TEST(test_a_store_that_failed_stays_behind),
		TEST(test_without_any_place_nothing_is_kept),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
