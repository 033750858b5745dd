/* SPDX-License-Identifier: MIT */

/*
 * Kept totals, where memory is short while the next start takes them over. The perf events, the parcels that they
 * are in and the fd store are played: linked with WITH_FAULTS and -Wl,--wrap= for the functions below.
 */

#include "persist/fd-parcel.h"
#include "persist/store.h"
#include "setup/count-world.h"
#include "setup/faults.h"
#include "setup/scratch.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* --- a parcel is a file with the fds' numbers in it */

int __wrap_fd_parcel_new(const int *fds, size_t nr);
int __wrap_fd_parcel_peek(int socket, int fds[static FD_PARCEL_MAX], bool *whole);

int __wrap_fd_parcel_new(const int *fds, size_t nr)
{
	int fd = memfd_create("parcel", MFD_CLOEXEC);

	assert_true(fd >= 0 && nr > 0 && nr <= FD_PARCEL_MAX);
	assert_int_equal(write(fd, fds, nr * sizeof(*fds)), nr * sizeof(*fds));
	return fd;
}

static size_t look(int parcel, int fds[static FD_PARCEL_MAX])
{
	ssize_t n = pread(parcel, fds, FD_PARCEL_MAX * sizeof(*fds), 0);

	assert_true(n > 0);
	return (size_t)n / sizeof(*fds);
}

int __wrap_fd_parcel_peek(int socket, int fds[static FD_PARCEL_MAX], bool *whole)
{
	size_t nr = look(socket, fds);

	for (size_t i = 0; i < nr; i++)
		fake_hold(fds[i]);
	*whole = true;
	return (int)nr;
}

/* --- the fd store */

static struct entry {
	char name[64];
	int fd; /* -1: none */
} entries[64];

/* More are ignored, without a word. */
static size_t most_entries;

static bool is_parcel(const struct entry *entry)
{
	return entry->fd >= 0 && strncmp(entry->name, "perfmond-events-", 16) == 0;
}

static void drop(struct entry *entry)
{
	int fds[FD_PARCEL_MAX];
	size_t nr = is_parcel(entry) ? look(entry->fd, fds) : 0;

	for (size_t i = 0; i < nr; i++)
		assert_int_equal(close(fds[i]), 0);
	entry->fd = safe_close(entry->fd);
}

int __wrap_sd_pid_notify_with_fds(pid_t pid, int unset, const char *state, const int *fds, unsigned nr);
int __wrap_sd_notifyf(int unset, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool same_file(int a, int b)
{
	struct stat x, y;

	assert_true(fstat(a, &x) == 0 && fstat(b, &y) == 0);
	return x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* What is there already, and what is too much, is ignored, as systemd does. */
int __wrap_sd_pid_notify_with_fds(pid_t pid, int unset, const char *state, const int *fds, unsigned nr)
{
	struct entry *entry = entries;
	int held[FD_PARCEL_MAX];

	assert_true(pid == 0 && unset == 0 && nr == 1);
	for (struct entry *other = entries; other < entries + most_entries; other++)
		if (other->fd >= 0 && same_file(other->fd, fds[0]))
			return 1;
	while (entry->fd >= 0)
		if (++entry == entries + most_entries)
			return 1;
	assert_int_equal(sscanf(state, "FDSTORE=1\nFDPOLL=0\nFDNAME=%63s", entry->name), 1);
	entry->fd = dup(fds[0]);
	assert_true(entry->fd >= 0);
	for (size_t i = 0, n = is_parcel(entry) ? look(entry->fd, held) : 0; i < n; i++)
		fake_hold(held[i]);
	return 1;
}

int __wrap_sd_notifyf(int unset, const char *format, ...)
{
	char text[128];
	va_list ap;

	assert_int_equal(unset, 0);
	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	for (struct entry *entry = entries; entry < entries + ARRAY_SIZE(entries); entry++)
		if (entry->fd >= 0 && strcmp(strstr(text, "FDNAME=") + 7, entry->name) == 0)
			drop(entry);
	return 1;
}

/* The list that the next instance is passed. */
static void pass(struct listen_fds *ret)
{
	*ret = (struct listen_fds){ .fds = calloc(ARRAY_SIZE(entries), sizeof(*ret->fds)) };
	assert_non_null(ret->fds);
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		if (entries[i].fd >= 0)
			ret->fds[ret->nr++] = (struct listen_fd){ dup(entries[i].fd), strdup(entries[i].name) };
}

/* --- tests */

/* As many as it takes for their events to fill a parcel and begin another. */
#define NR_CGROUPS 50
#define NR_EVENTS (NR_CGROUPS * 3 * 2)

static void add_cgroups(struct world *w)
{
	char label[16];

	for (int i = 0; i < NR_CGROUPS; i++) {
		(void)snprintf(label, sizeof(label), "/%d", i);
		(void)add_cgroup(w, label);
	}
}

static void keep_all(struct store *store, const struct count *count)
{
	do
		assert_int_equal(store_keep(store, count), 0);
	while (store_is_behind(store, count));
}

static void see(void *userdata, int fd, struct kept_id id)
{
	unsigned *times = userdata;

	(void)fd;
	times[id.id - 7000]++;
}

/* In the parcels is what is open, once each. */
static void check_kept(const struct count *count)
{
	unsigned opened[FAKE_MAX] = {}, kept[FAKE_MAX] = {};
	int fds[FD_PARCEL_MAX];

	count_each_kept(count, see, opened);
	for (const struct entry *entry = entries; entry < entries + ARRAY_SIZE(entries); entry++)
		for (size_t i = 0, nr = is_parcel(entry) ? look(entry->fd, fds) : 0; i < nr; i++)
			kept[fds[i] - FAKE_FD]++;
	assert_memory_equal(opened, kept, sizeof(opened));
}

static void end(struct world *w, struct store *store)
{
	w->count = count_free(w->count);
	store_free(store);
}

static struct store *begin(struct world *w, const char *folder)
{
	struct store *store;
	char name[16];

	add_group(w, SCOPE_CGROUP, "software", false, software, 2);
	for (int i = 0; i < NR_CGROUPS; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		make_dir(w, name);
	}
	start(w);
	add_cgroups(w);
	assert_int_equal(store_new(&store, folder, true), 0);
	keep_all(store, w->count);
	check_kept(w->count);
	assert_int_equal(store_stats(store).kept, NR_EVENTS);
	return store;
}

/* Restores with one call in so many failing; whether it did. */
static bool restart(struct world *w, struct store **store, const char *folder, uint64_t seed, unsigned one_in,
		    struct reason *news)
{
	_cleanup_(listen_fds_release) struct listen_fds passed;
	bool bad;

	pass(&passed);
	assert_int_equal(store_new(store, folder, true), 0);
	if (one_in)
		faults_begin_random(seed, one_in);
	w->count = store_restore(*store, &passed, 10, news, &bad);
	faults_end();
	return w->count;
}

static void test_memory_is_short(void **state)
{
	struct world *w = *state;
	struct store *store = begin(w, NULL);
	unsigned restored = 0;

	for (uint64_t seed = 0; seed < 200; seed++) {
		struct reason news;

		end(w, store);
		if (restart(w, &store, NULL, seed, seed % 2 ? 2 : 300, &news)) {
			restored++;
		} else {
			assert_int_equal(count_new(&w->count, w->plan, &w->cpus, &w->privilege, &w->options), 0);
			/* Sometimes there is nothing to be opened. */
			if (seed % 3)
				(void)add_cgroup(w, "/0");
		}
		keep_all(store, w->count);
		check_kept(w->count);
		assert_int_equal(store_stats(store).kept, count_stats(w->count).fds);
		/* All is there again for the next. */
		end(w, store);
		for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
			drop(&entries[i]);
		assert_int_equal(fake_perf.nr_open, 0);
		fake_perf.nr = 0;
		assert_int_equal(count_new(&w->count, w->plan, &w->cpus, &w->privilege, &w->options), 0);
		add_cgroups(w);
		assert_int_equal(store_new(&store, NULL, true), 0);
		keep_all(store, w->count);
	}
	assert_in_range(restored, 1, 199);
	end(w, store);
}

/* The image in the state directory may be the only one, with events that have gone on counting. */
static void test_what_is_told(void **state)
{
	struct world *w = *state;
	struct scratch scratch;
	struct reason news;
	struct store *store;

	scratch_make(&scratch);
	store = begin(w, scratch.path);
	assert_int_equal(store_leave(store, w->count, &news), 0);
	end(w, store);
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		if (!is_parcel(&entries[i]))
			drop(&entries[i]);
	assert_true(restart(w, &store, scratch.path, 0, 0, &news));
	assert_non_null(strstr(news.text, "/totals, with all of 300 perf events, that have counted meanwhile"));
	keep_all(store, w->count);
	end(w, store);
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		drop(&entries[i]);
	assert_true(restart(w, &store, scratch.path, 0, 0, &news));
	assert_non_null(strstr(news.text, "; counts since then are missing"));
	end(w, store);
	scratch_remove(&scratch);
}

/* A full fd store has what it had, whatever is made anew. */
static void test_no_room(void **state)
{
	struct world *w = *state;
	struct store *store = begin(w, NULL);
	char label[16];

	/* An image and two parcels. */
	most_entries = 3;
	for (int i = 0; i < 4; i++) {
		(void)snprintf(label, sizeof(label), "/%d", i);
		count_remove_cgroup(w->count, find_cgroup(w, label), false);
		keep_all(store, w->count);
		check_kept(w->count);
	}
	end(w, store);
}

static int setup(void **state)
{
	most_entries = ARRAY_SIZE(entries);
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		entries[i].fd = -1;
	return world_setup(state);
}

static int teardown(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		drop(&entries[i]);
	return world_teardown(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_memory_is_short, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room, setup, teardown),
	};

	return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
