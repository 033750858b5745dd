/* SPDX-License-Identifier: MIT */

#include "setup/store-world.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>

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

size_t look_into_parcel(int parcel, int fds[static FD_PARCEL_MAX])
{
	ssize_t n = pread(parcel, fds, FD_PARCEL_MAX * sizeof(*fds), 0);

	assert_true(n > 0);
	return (size_t)n / sizeof(*fds);
}

int __wrap_fd_parcel_peek(int socket, int fds[static FD_PARCEL_MAX], bool *whole)
{
	size_t nr = look_into_parcel(socket, fds);

	for (size_t i = 0; i < nr; i++)
		fake_hold(fds[i]);
	*whole = true;
	return (int)nr;
}

/* --- the fd store */

struct fake_systemd fake_systemd;

bool is_parcel(const struct entry *entry)
{
	return entry->fd >= 0 && strncmp(entry->name, "perfmond-events-", 16) == 0;
}

void drop_entry(struct entry *entry)
{
	int fds[FD_PARCEL_MAX];
	size_t nr = is_parcel(entry) ? look_into_parcel(entry->fd, fds) : 0;

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
	struct entry *entry = fake_systemd.entries;
	int held[FD_PARCEL_MAX];

	assert_true(pid == 0 && unset == 0 && nr == 1);
	fake_systemd.nr_puts++;
	if (fake_systemd.put_error)
		return fake_systemd.put_error;
	fake_systemd.was_there |= fake_systemd.watched && access(fake_systemd.watched, F_OK) == 0;
	for (struct entry *other = fake_systemd.entries; other < fake_systemd.entries + fake_systemd.most_entries;
	     other++)
		if (other->fd >= 0 && same_file(other->fd, fds[0]))
			return 1;
	while (entry->fd >= 0)
		if (++entry == fake_systemd.entries + fake_systemd.most_entries)
			return 1;
	assert_int_equal(sscanf(state, "FDSTORE=1\nFDPOLL=0\nFDNAME=%63s", entry->name), 1);
	entry->fd = dup(fds[0]);
	assert_true(entry->fd >= 0);
	for (size_t i = 0, n = is_parcel(entry) ? look_into_parcel(entry->fd, held) : 0; i < n; i++)
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
	for (struct entry *entry = fake_systemd.entries;
	     entry < fake_systemd.entries + ARRAY_SIZE(fake_systemd.entries); entry++)
		if (entry->fd >= 0 && strcmp(strstr(text, "FDNAME=") + 7, entry->name) == 0)
			drop_entry(entry);
	return 1;
}

/* The list that the next instance is passed. */
void pass_entries(struct listen_fds *ret)
{
	*ret = (struct listen_fds){ .fds = calloc(ARRAY_SIZE(fake_systemd.entries), sizeof(*ret->fds)) };
	assert_non_null(ret->fds);
	for (size_t i = 0; i < ARRAY_SIZE(fake_systemd.entries); i++)
		if (fake_systemd.entries[i].fd >= 0)
			ret->fds[ret->nr++] = (struct listen_fd){ dup(fake_systemd.entries[i].fd),
								  strdup(fake_systemd.entries[i].name) };
}

/* --- the limit of open files, and time */

void __wrap_privilege_read(struct privilege *ret, const char *procroot);
int __wrap_privilege_raise_fd_limit(struct privilege *privilege);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);

void __wrap_privilege_read(struct privilege *ret, _unused_ const char *procroot)
{
	*ret = (struct privilege){ .paranoid = 2, .cap_perfmon = true };
}

int __wrap_privilege_raise_fd_limit(struct privilege *privilege)
{
	privilege->fd_limit = fake_systemd.fd_limit;
	return 0;
}

/* A claim waits in vain. */
int __wrap_nanosleep(_unused_ const struct timespec *time, _unused_ struct timespec *left)
{
	return 0;
}

/* --- a daemon that keeps */

void add_cgroups(struct count_world *w)
{
	char label[16];

	for (int i = 0; i < NR_CGROUPS; i++) {
		(void)snprintf(label, sizeof(label), "/%d", i);
		(void)add_cgroup(w, label);
	}
}

void keep_all(struct store *store, const struct session *session)
{
	do
		assert_int_equal(store_update(store, session), 0);
	while (store_is_behind(store, session));
}

static void see(void *userdata, int fd, struct stored_id id)
{
	unsigned *times = userdata;

	(void)fd;
	times[id.id - 7000]++;
}

/* In the parcels is what is open, once each. */
void check_kept(const struct session *session)
{
	unsigned opened[FAKE_MAX] = {}, kept[FAKE_MAX] = {};
	int fds[FD_PARCEL_MAX];

	session_each_stored(session, see, opened);
	for (const struct entry *entry = fake_systemd.entries;
	     entry < fake_systemd.entries + ARRAY_SIZE(fake_systemd.entries); entry++)
		for (size_t i = 0, nr = is_parcel(entry) ? look_into_parcel(entry->fd, fds) : 0; i < nr; i++)
			kept[fds[i] - FAKE_FD]++;
	assert_memory_equal(opened, kept, sizeof(opened));
}

void end_store(struct count_world *w, struct store *store)
{
	w->session = session_free(w->session);
	store_free(store);
}

struct store *first_start(struct count_world *w, const char *folder)
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
	keep_all(store, w->session);
	check_kept(w->session);
	assert_int_equal(store_stats(store).kept, NR_EVENTS);
	return store;
}

/* --- the next one */

void next_start(struct count_world *w, const char *folder, uint64_t reserve, struct start *ret)
{
	_cleanup_(listen_fds_release) struct listen_fds passed;
	struct reason why;

	pass_entries(&passed);
	*ret = (struct start){};
	assert_int_equal(store_new(&ret->store, folder, true), 0);
	assert_int_equal(store_claim(ret->store, &why), 0);
	w->session = store_restore(ret->store, &passed, reserve, &ret->news, &ret->lost);
	ret->restored = w->session;
	if (!w->session)
		assert_int_equal(session_new(&w->session, w->plan, &w->cpus, &w->privilege, &w->options), 0);
	for (size_t i = 0; i < passed.nr; i++)
		assert_int_equal(passed.fds[i].fd, -1);
}

void expect_start(const struct start *start, bool restored, bool lost, const char *part)
{
	if (start->restored != restored || start->lost != lost || (part && !strstr(start->news.text, part)))
		fail_msg("%s, %s: '%s'", start->restored ? "restored" : "anew", start->lost ? "lost" : "not lost",
			 start->news.text);
	if (!part)
		assert_string_equal(start->news.text, "");
}

void drop_all(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(fake_systemd.entries); i++)
		drop_entry(&fake_systemd.entries[i]);
}

size_t nr_entries(const char *name)
{
	size_t nr = 0;

	for (size_t i = 0; i < ARRAY_SIZE(fake_systemd.entries); i++)
		nr += fake_systemd.entries[i].fd >= 0 && strncmp(fake_systemd.entries[i].name, name, strlen(name)) == 0;
	return nr;
}

int memory_file(unsigned which)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "perfmond-memory-%u", which);
	for (size_t i = 0; i < ARRAY_SIZE(fake_systemd.entries); i++)
		if (fake_systemd.entries[i].fd >= 0 && strcmp(fake_systemd.entries[i].name, name) == 0)
			return fake_systemd.entries[i].fd;
	fail_msg("%s is not stored", name);
	return -1;
}

void leave_store(struct count_world *w, struct store *store)
{
	struct reason why;

	assert_int_equal(store_leave(store, w->session, &why), 0);
	end_store(w, store);
	drop_all();
}

int store_setup(void **state)
{
	fake_systemd = (struct fake_systemd){ .most_entries = FAKE_ENTRIES, .fd_limit = 100000 };
	for (size_t i = 0; i < ARRAY_SIZE(fake_systemd.entries); i++)
		fake_systemd.entries[i].fd = -1;
	return world_setup(state);
}

int store_teardown(void **state)
{
	drop_all();
	return world_teardown(state);
}
