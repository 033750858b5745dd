/* SPDX-License-Identifier: MIT */

/*
 * The list of perf events in systemd's fd store, against a store that the test plays. Events are numbers: an event's fd
 * is its id, and a parcel is a file with such numbers in it.
 */

#include "service/persist/fd-store.h"

#include "base/util/buf.h"
#include "service/persist/fd-parcel.h"
#include "setup/no-memory.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PARCELS_MAX 64

static struct played {
	/* Events that the daemon has open: a bit for each. */
	bool open[8192];

	/* Parcels in the fd store, by their names' numbers. */
	struct parcel {
		uint64_t number; /* 0: none */
		int fds[FD_PARCEL_MAX];
		size_t nr;
	} parcels[PARCELS_MAX];
	bool checks_all; /* a removal leaves all open events stored */

	unsigned puts, removals; /* messages */
	int parcel_error;	 /* no socket can be made */
	int put_error;		 /* of sending; > 0: nobody listens */
	bool is_cut;		 /* the limit of open files leaves a parcel's last event out */
	int pool_refuses;	 /* the pool does not take this event */
	char state[128];	 /* of the last message */
} played;

/* --- what stands around the store */

void __wrap_session_each_stored(const struct session *session, stored_visitor each, void *userdata);
int __wrap_stored_pool_add(struct stored_pool *pool, int fd, struct stored_id *ret_id);
int __wrap_fd_parcel_new(const int *fds, size_t nr);
int __wrap_fd_parcel_peek(int socket, int fds[static FD_PARCEL_MAX], bool *whole);
int __wrap_sd_pid_notify_with_fds(pid_t pid, int unset, const char *state, const int *fds, unsigned nr);
int __wrap_sd_notifyf(int unset, const char *format, ...) __attribute__((format(printf, 2, 3)));

static struct stored_id id_of(int event)
{
	return (struct stored_id){ STORED_PERF_EVENT, (uint64_t)event };
}

/* In falling order, as the table need not come sorted. */
void __wrap_session_each_stored(_unused_ const struct session *session, stored_visitor each, void *userdata)
{
	for (size_t i = ARRAY_SIZE(played.open); i-- > 0;)
		if (played.open[i])
			each(userdata, (int)i, id_of((int)i));
}

int __wrap_stored_pool_add(struct stored_pool *pool, int fd, struct stored_id *ret_id)
{
	if (fd == played.pool_refuses)
		return -EMFILE;
	pool->nr++;
	*ret_id = id_of(fd);
	return 0;
}

int __wrap_fd_parcel_new(const int *fds, size_t nr)
{
	int fd = memfd_create("parcel", MFD_CLOEXEC);

	if (played.parcel_error) {
		safe_close(fd);
		return -played.parcel_error;
	}
	assert_true(fd >= 0 && nr > 0 && nr <= FD_PARCEL_MAX);
	assert_int_equal(write(fd, fds, nr * sizeof(*fds)), nr * sizeof(*fds));
	return fd;
}

int __wrap_fd_parcel_peek(int socket, int fds[static FD_PARCEL_MAX], bool *whole)
{
	ssize_t n = pread(socket, fds, FD_PARCEL_MAX * sizeof(*fds), 0);

	if (n <= 0)
		return -ENOTSOCK;
	*whole = !played.is_cut;
	return (int)((size_t)n / sizeof(*fds)) - played.is_cut;
}

static struct parcel *find_parcel(uint64_t number)
{
	for (struct parcel *parcel = played.parcels; parcel < played.parcels + PARCELS_MAX; parcel++)
		if (parcel->number == number)
			return parcel;
	return NULL;
}

static size_t nr_parcels(void)
{
	size_t nr = 0;

	for (size_t i = 0; i < PARCELS_MAX; i++)
		nr += played.parcels[i].number != 0;
	return nr;
}

/* All open events that were stored before are in some parcel, at each moment. */
static void assert_stored(const bool before[static ARRAY_SIZE(played.open)])
{
	static bool now[ARRAY_SIZE(played.open)];

	memset(now, 0, sizeof(now));
	for (size_t i = 0; i < PARCELS_MAX; i++)
		for (size_t k = 0; played.parcels[i].number && k < played.parcels[i].nr; k++)
			now[played.parcels[i].fds[k]] = true;
	for (size_t i = 0; i < ARRAY_SIZE(now); i++)
		if (before[i] && played.open[i] && !now[i])
			fail_msg("event %zu is in no parcel", i);
}

static void note_stored(bool ret[static ARRAY_SIZE(played.open)])
{
	memset(ret, 0, sizeof(played.open));
	for (size_t i = 0; i < PARCELS_MAX; i++)
		for (size_t k = 0; played.parcels[i].number && k < played.parcels[i].nr; k++)
			ret[played.parcels[i].fds[k]] = true;
}

int __wrap_sd_pid_notify_with_fds(pid_t pid, int unset, const char *state, const int *fds, unsigned nr)
{
	struct parcel *parcel = find_parcel(0);
	uint64_t number;
	bool whole;

	assert_true(pid == 0 && unset == 0 && nr == 1);
	(void)snprintf(played.state, sizeof(played.state), "%s", state);
	if (played.put_error)
		return played.put_error > 0 ? 0 : played.put_error;
	played.puts++;
	if (sscanf(state, "FDSTORE=1\nFDPOLL=0\nFDNAME=perfmond-events-%" SCNu64, &number) != 1)
		return 1;
	if (find_parcel(number))
		return 1;
	parcel->nr = (size_t)__wrap_fd_parcel_peek(fds[0], parcel->fds, &whole);
	parcel->number = number;
	return 1;
}

int __wrap_sd_notifyf(int unset, const char *format, ...)
{
	static bool before[ARRAY_SIZE(played.open)];
	struct parcel *parcel;
	uint64_t number;
	va_list ap;

	assert_int_equal(unset, 0);
	va_start(ap, format);
	(void)vsnprintf(played.state, sizeof(played.state), format, ap);
	va_end(ap);
	played.removals++;
	note_stored(before);
	if (sscanf(played.state, "FDSTOREREMOVE=1\nFDNAME=perfmond-events-%" SCNu64, &number) == 1)
		while ((parcel = find_parcel(number)) && number)
			parcel->number = 0;
	if (played.checks_all)
		assert_stored(before);
	return 1;
}

/* --- */

static int setup(_unused_ void **state)
{
	played = (struct played){ .checks_all = true, .pool_refuses = -1 };
	return 0;
}

static void set_open(int from, int to, bool open)
{
	for (int i = from; i < to; i++)
		played.open[i] = open;
}

/* "NUMBER:EVENTS ...", of the parcels, by rising numbers. */
static void assert_parcels(const char *expected)
{
	_cleanup_(buf_release) struct buf text = {};

	for (uint64_t number = 1; number < 1100; number++) {
		const struct parcel *parcel = find_parcel(number);

		if (parcel)
			buf_printf(&text, "%s%" PRIu64 ":%zu", text.len ? " " : "", number, parcel->nr);
	}
	assert_string_equal(text.len ? text.data : "", expected);
}

/* Until all is stored; each open event is then in one parcel, and no other. */
static void update_all(struct fd_store *store)
{
	unsigned times[ARRAY_SIZE(played.open)] = {};
	size_t nr = 0;

	do
		assert_int_equal(fd_store_update(store, NULL), 0);
	while (!fd_store_is_current(store));
	for (size_t i = 0; i < PARCELS_MAX; i++)
		for (size_t k = 0; played.parcels[i].number && k < played.parcels[i].nr; k++)
			times[played.parcels[i].fds[k]]++;
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		if (times[i] != played.open[i])
			fail_msg("event %zu is stored %u times", i, times[i]);
		nr += played.open[i];
	}
	assert_int_equal(fd_store_nr_events(store), nr);
}

/* The files that the next instance is passed: the parcels, the later ones first. */
static void pass(struct listen_fds *ret)
{
	*ret = (struct listen_fds){ .fds = calloc(PARCELS_MAX, sizeof(*ret->fds)) };
	assert_non_null(ret->fds);
	for (size_t i = PARCELS_MAX; i-- > 0;) {
		const struct parcel *parcel = &played.parcels[i];
		struct listen_fd *file = &ret->fds[ret->nr];

		if (parcel->number == 0)
			continue;
		file->fd = __wrap_fd_parcel_new(parcel->fds, parcel->nr);
		assert_true(asprintf(&file->name, "perfmond-events-%" PRIu64, parcel->number) > 0);
		ret->nr++;
	}
}

/* --- names and messages */

static void test_names_are_a_prefix_and_a_number(_unused_ void **state)
{
	static const struct {
		const char *name;
		bool is_one;
		uint64_t number;
	} cases[] = {
		{ "p-0", true, 0 },   { "p-42", true, 42 }, { "p-18446744073709551615", true, UINT64_MAX },
		{ "p-", false, 0 },   { "p-x", false, 0 },  { "p-18446744073709551616", false, 0 },
		{ "p--1", false, 0 }, { "p-1x", false, 0 }, { "q-1", false, 0 },
		{ "", false, 0 },     { "p", false, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t number = 7;

		assert_int_equal(fd_store_parse_name(cases[i].name, "p-", &number), cases[i].is_one);
		assert_int_equal(number, cases[i].is_one ? cases[i].number : 7);
	}
}

/* systemd does not watch the files: it would drop perf events at once. */
static void test_messages_are_those_of_sd_notify(_unused_ void **state)
{
	assert_int_equal(fd_store_put(0, "a-name"), 0);
	assert_string_equal(played.state, "FDSTORE=1\nFDPOLL=0\nFDNAME=a-name");
	fd_store_remove("a-name");
	assert_string_equal(played.state, "FDSTOREREMOVE=1\nFDNAME=a-name");
	played.put_error = 1;
	assert_int_equal(fd_store_put(0, "a-name"), -ENOTCONN);
	played.put_error = -EPIPE;
	assert_int_equal(fd_store_put(0, "a-name"), -EPIPE);
}

/* --- updates */

static void test_an_update_touches_only_parcels_that_have_changed(_unused_ void **state)
{
	_cleanup_(fd_store_freep) struct fd_store *store = NULL;

	assert_int_equal(fd_store_new(&store), 0);
	update_all(store);
	assert_int_equal(played.puts, 0);
	set_open(0, 600, true);
	update_all(store);
	assert_parcels("1:253 2:253 3:94");
	assert_int_equal(played.puts, 3);

	/* Nothing has changed. */
	update_all(store);
	assert_int_equal(played.puts, 3);
	assert_int_equal(played.removals, 0);

	/* A closed one leaves its parcel, and new ones go where there is room: at first into a parcel that has to be
	 * made anyway. */
	played.open[300] = false;
	update_all(store);
	assert_parcels("1:253 3:94 4:252");
	played.open[550] = false;
	played.open[7000] = true;
	update_all(store);
	assert_parcels("1:253 4:252 5:94");
	played.open[7001] = true;
	update_all(store);
	assert_parcels("1:253 5:94 6:253");

	/* A parcel without events is removed. */
	set_open(0, 8192, false);
	update_all(store);
	assert_parcels("");
}

static void test_an_update_makes_a_few_parcels_only(_unused_ void **state)
{
	_cleanup_(fd_store_freep) struct fd_store *store = NULL;

	assert_int_equal(fd_store_new(&store), 0);
	set_open(0, 20 * FD_PARCEL_MAX, true);
	assert_int_equal(fd_store_update(store, NULL), 0);
	assert_false(fd_store_is_current(store));
	assert_true(nr_parcels() > 0 && nr_parcels() < 20);
	update_all(store);
	assert_int_equal(nr_parcels(), 20);
}

/* Whatever fails, stored events stay stored, and the next update makes up for it. */
static void test_a_failed_update_is_tried_again(_unused_ void **state)
{
	static const struct played failures[] = {
		{ .parcel_error = ETOOMANYREFS },
		{ .put_error = 1 },
		{ .put_error = -ECONNREFUSED },
	};
	static const int errors[] = { -ETOOMANYREFS, -ENOTCONN, -ECONNREFUSED };
	_cleanup_(fd_store_freep) struct fd_store *store = NULL;
	static bool before[ARRAY_SIZE(played.open)];

	assert_int_equal(fd_store_new(&store), 0);
	set_open(0, 300, true);
	update_all(store);
	for (size_t i = 0; i < ARRAY_SIZE(failures); i++) {
		set_open(10 * (int)i, 10 * (int)i + 5, false);
		set_open(1000 + 300 * (int)i, 1300 + 300 * (int)i, true);
		note_stored(before);
		played.parcel_error = failures[i].parcel_error;
		played.put_error = failures[i].put_error;
		for (int times = 0; times < 2; times++) {
			assert_int_equal(fd_store_update(store, NULL), errors[i]);
			assert_false(fd_store_is_current(store));
			assert_stored(before);
		}
		played.parcel_error = played.put_error = 0;
		update_all(store);
	}
}

static long memory_left;

static bool fails_once(void)
{
	return memory_left-- == 0;
}

static void test_without_memory_what_is_stored_stays(_unused_ void **state)
{
	static bool before[ARRAY_SIZE(played.open)];
	long left = 0;
	int r;

	/* Each allocation fails once. */
	do {
		_cleanup_(fd_store_freep) struct fd_store *store = NULL;

		set_open(0, 8192, false);
		memset(played.parcels, 0, sizeof(played.parcels));
		assert_int_equal(fd_store_new(&store), 0);
		set_open(0, 300, true);
		update_all(store);
		note_stored(before);
		played.open[3] = false;
		set_open(1000, 1300, true);
		memory_left = left++;
		memory_fails = fails_once;
		r = fd_store_update(store, NULL);
		memory_fails = NULL;
		assert_true(r == 0 || r == -ENOMEM);
		assert_stored(before);
		update_all(store);
	} while (r < 0);
	assert_in_range(left, 5, 50);
}

/* --- taking over */

static void test_parcels_are_adopted_as_they_are(_unused_ void **state)
{
	struct fd_store *store;
	struct listen_fds passed;
	struct stored_pool pool = {};

	assert_int_equal(fd_store_new(&store), 0);
	set_open(0, 600, true);
	update_all(store);
	fd_store_free(store);
	assert_parcels("1:253 2:253 3:94");
	played.puts = 0;

	pass(&passed);
	assert_int_equal(fd_store_new(&store), 0);
	fd_store_adopt(store, &passed, &pool);
	assert_int_equal(pool.nr, 600);
	assert_int_equal(fd_store_nr_events(store), 600);
	for (size_t i = 0; i < passed.nr; i++)
		assert_int_equal(passed.fds[i].fd, -1);
	update_all(store);
	assert_int_equal(played.puts, 0);
	/* The next parcel's number is higher than those of the ones before. */
	played.open[0] = false;
	update_all(store);
	assert_parcels("2:253 3:94 4:252");
	listen_fds_release(&passed);
	fd_store_free(store);
}

/* Which files are parcels, by their names and kinds; the others stay in the list. */
static void test_other_files_are_not_adopted(_unused_ void **state)
{
	static const char *const names[] = { "perfmond-events-0", "perfmond-events-", "perfmond-events-1x",
					     "perfmond-memory-0", "events-1",	      "perfmond-events-9" };
	struct listen_fd files[ARRAY_SIZE(names) + 1];
	struct listen_fds passed = { files, ARRAY_SIZE(files) };
	_cleanup_(fd_store_freep) struct fd_store *store = NULL;
	struct stored_pool pool = {};

	assert_int_equal(fd_store_new(&store), 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		files[i] = (struct listen_fd){ __wrap_fd_parcel_new((int[]){ 1 }, 1), (char *)names[i] };
	/* A listening socket of that name, and one that is taken. */
	safe_close(files[5].fd);
	files[5].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(listen(files[5].fd, 1), -1); /* it has no name yet */
	assert_int_equal(bind(files[5].fd, &(struct sockaddr){ .sa_family = AF_UNIX }, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(files[5].fd, 1), 0);
	files[6] = (struct listen_fd){ -1, (char *)"perfmond-events-8" };

	fd_store_adopt(store, &passed, &pool);
	assert_int_equal(pool.nr, 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_true(files[i].fd >= 0);
		close(files[i].fd);
	}
	assert_true(fd_store_is_current(store));
}

/* A passed parcel that differs from what is in the list is stored anew, also where nothing else has changed. */
static void test_parcels_that_are_not_whole_are_stored_anew(_unused_ void **state)
{
	static const struct {
		bool is_cut;
		int pool_refuses;
		long memory_left; /* allocations: the list of parcels, the parcel, the table of events */
		int gone;	  /* an event that is not opened anew */
		const char *parcels;
	} cases[] = {
		{ true, -1, -1, 8, "6:2" },  { false, 7, -1, 7, "6:2" }, { false, -1, 0, -1, "6:3" },
		{ false, -1, 1, -1, "6:3" }, { false, -1, 2, 6, "6:2" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(fd_store_freep) struct fd_store *store = NULL;
		_cleanup_(listen_fds_release) struct listen_fds passed = {};
		struct stored_pool pool = {};

		(void)setup(NULL);
		played.parcels[0] = (struct parcel){ .number = 5, .fds = { 6, 7, 8 }, .nr = 3 };
		set_open(6, 9, true);
		pass(&passed);
		assert_int_equal(fd_store_new(&store), 0);
		played.is_cut = cases[i].is_cut;
		played.pool_refuses = cases[i].pool_refuses;
		/* Without memory for the parcel, its events are in none for a while. */
		played.checks_all = cases[i].memory_left < 0;
		memory_left = cases[i].memory_left;
		memory_fails = fails_once;
		fd_store_adopt(store, &passed, &pool);
		memory_fails = NULL;
		played.is_cut = false;
		if (cases[i].gone >= 0)
			played.open[cases[i].gone] = false;
		update_all(store);
		assert_parcels(cases[i].parcels);
	}
}

/* Files that are no parcel leave the store. Of parcels with one name, FDSTOREREMOVE drops all: so all are made anew. */
static void test_odd_parcels_are_cleared_up(_unused_ void **state)
{
	_cleanup_(fd_store_freep) struct fd_store *store = NULL;
	struct listen_fd files[3] = {};
	struct listen_fds passed = { files, ARRAY_SIZE(files) };
	struct stored_pool pool = {};

	assert_int_equal(fd_store_new(&store), 0);
	files[0] = (struct listen_fd){ memfd_create("empty", MFD_CLOEXEC), (char *)"perfmond-events-9" };
	files[1] = (struct listen_fd){ __wrap_fd_parcel_new((int[]){ 6 }, 1), (char *)"perfmond-events-3" };
	files[2] = (struct listen_fd){ __wrap_fd_parcel_new((int[]){ 7 }, 1), (char *)"perfmond-events-3" };
	played.parcels[0] = (struct parcel){ .number = 9 };
	played.parcels[1] = (struct parcel){ .number = 3, .fds = { 6 }, .nr = 1 };
	played.parcels[2] = (struct parcel){ .number = 3, .fds = { 7 }, .nr = 1 };
	set_open(6, 8, true);
	played.checks_all = false; /* an event may be in no parcel for a moment here */
	fd_store_adopt(store, &passed, &pool);
	assert_int_equal(pool.nr, 2);
	update_all(store);
	assert_parcels("10:1 11:1");
}

static int teardown(_unused_ void **state)
{
	memory_fails = NULL;
	return 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_names_are_a_prefix_and_a_number),
		TEST(test_messages_are_those_of_sd_notify),
		TEST(test_an_update_touches_only_parcels_that_have_changed),
		TEST(test_an_update_makes_a_few_parcels_only),
		TEST(test_a_failed_update_is_tried_again),
		TEST(test_without_memory_what_is_stored_stays),
		TEST(test_parcels_are_adopted_as_they_are),
		TEST(test_other_files_are_not_adopted),
		TEST(test_parcels_that_are_not_whole_are_stored_anew),
		TEST(test_odd_parcels_are_cleared_up),
	};

	return cmocka_run_group_tests_name("fd-store", tests, NULL, NULL);
}
