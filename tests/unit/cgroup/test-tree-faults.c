/* SPDX-License-Identifier: MIT */

/*
 * The cgroup room when system calls and allocations fail: each one that a scenario makes, one after the other, with
 * each error that its manual page lists, and all from that one on. Whatever fails, nothing crashes or leaks, no
 * existing cgroup is reported as removed, the tree is incomplete if some are not seen, and one rescan repairs it.
 */

#include "base/cgroup/mount.h"
#include "base/cgroup/usage.h"
#include "base/host/busy.h"
#include "base/host/cpu.h"
#include "base/util/text.h"
#include "setup/no-memory.h"
#include "setup/watched.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <cmocka.h>

/* --- faults */

enum call { OPEN, FSTAT, READ, FDOPENDIR, READDIR, INOTIFY_INIT, ADD_WATCH, RM_WATCH, MEMORY, _CALL_MAX };

#define MAX_ERRORS 16
static const struct {
	const char *name;
	int errors[MAX_ERRORS]; /* the first is the one that it fails with for good */
} calls[_CALL_MAX] = {
	[OPEN] = { "open",
		   { EMFILE, EACCES, EINTR, EIO, ELOOP, ENAMETOOLONG, ENFILE, ENODEV, ENOENT, ENOMEM, ENOTDIR,
		     EOVERFLOW, EPERM } },
	[FSTAT] = { "fstat", { EIO, EBADF, ENOMEM, EOVERFLOW } },
	[READ] = { "read", { EIO, EBADF, EFAULT, EINTR, EINVAL, ENODEV, ENOMEM } },
	[FDOPENDIR] = { "fdopendir", { EMFILE, EBADF, ENFILE, ENOMEM, ENOTDIR } },
	[READDIR] = { "readdir", { EIO, EBADF, EFAULT, EINVAL, ENOENT, ENOMEM } },
	[INOTIFY_INIT] = { "inotify_init1", { EMFILE, ENFILE, ENOMEM } },
	[ADD_WATCH] = { "inotify_add_watch", { ENOSPC, EACCES, ENOENT, ENOMEM, ENOTDIR } },
	[RM_WATCH] = { "inotify_rm_watch", { EINVAL, EBADF } },
	[MEMORY] = { "memory", { ENOMEM } },
};

static struct fault {
	bool armed;
	enum call call;
	int error;
	long after; /* so many calls succeed */
	bool all;   /* … and all others fail, not only the next */
	long calls;
	bool hit;
} fault;

static bool fails(enum call call)
{
	if (!fault.armed || fault.call != call)
		return false;
	if (fault.all ? fault.calls++ < fault.after : fault.calls++ != fault.after)
		return false;
	fault.hit = true;
	errno = fault.error;
	return true;
}

/* They say that the directory is not there, or can't be: whether it is they are not asked again. */
static bool fault_lies(void)
{
	if (fault.call == READDIR)
		return fault.error == ENOENT;
	return fault.call == OPEN && (fault.error == ENOENT || fault.error == ENOTDIR || fault.error == ELOOP ||
				      fault.error == ENODEV || fault.error == ENAMETOOLONG);
}

static void show_fault(void)
{
	print_error("%s fails at call %ld%s with %s\n", calls[fault.call].name, fault.after,
		    fault.all ? " and after" : "", strerrorname_np(fault.error));
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, mode_t mode);
int __real___open_2(const char *path, int flags);
int __wrap___open_2(const char *path, int flags);
int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, mode_t mode);
int __real___openat_2(int dir, const char *path, int flags);
int __wrap___openat_2(int dir, const char *path, int flags);
int __real_fstat(int fd, struct stat *st);
int __wrap_fstat(int fd, struct stat *st);
ssize_t __real_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __real_pread(int fd, void *to, size_t size, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t size, off_t at);
DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);
int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __real_inotify_rm_watch(int fd, int wd);
int __wrap_inotify_rm_watch(int fd, int wd);

int __wrap_open(const char *path, int flags, mode_t mode)
{
	return fails(OPEN) ? -1 : __real_open(path, flags, mode);
}

int __wrap___open_2(const char *path, int flags)
{
	return fails(OPEN) ? -1 : __real___open_2(path, flags);
}

int __wrap_openat(int dir, const char *path, int flags, mode_t mode)
{
	return fails(OPEN) ? -1 : __real_openat(dir, path, flags, mode);
}

int __wrap___openat_2(int dir, const char *path, int flags)
{
	return fails(OPEN) ? -1 : __real___openat_2(dir, path, flags);
}

int __wrap_fstat(int fd, struct stat *st)
{
	return fails(FSTAT) ? -1 : __real_fstat(fd, st);
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
	return fails(READ) ? -1 : __real_read(fd, to, size);
}

ssize_t __wrap_pread(int fd, void *to, size_t size, off_t at)
{
	return fails(READ) ? -1 : __real_pread(fd, to, size, at);
}

DIR *__wrap_fdopendir(int fd)
{
	return fails(FDOPENDIR) ? NULL : __real_fdopendir(fd);
}

struct dirent *__wrap_readdir(DIR *dir)
{
	return fails(READDIR) ? NULL : __real_readdir(dir);
}

int __wrap_inotify_init1(int flags)
{
	return fails(INOTIFY_INIT) ? -1 : __real_inotify_init1(flags);
}

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	return fails(ADD_WATCH) ? -1 : __real_inotify_add_watch(fd, path, mask);
}

/* It fails where there is no such watch, and none is left. */
int __wrap_inotify_rm_watch(int fd, int wd)
{
	int r = __real_inotify_rm_watch(fd, wd);

	return fails(RM_WATCH) ? -1 : r;
}

static bool fails_for_memory(void)
{
	return fails(MEMORY);
}

static unsigned nr_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned nr = 0;

	assert_non_null(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

/* Runs the scenario with every fault, where kinds are the calls that it has to make. */
static void with_every_fault(void (*scenario)(void *data), void *data, unsigned kinds)
{
	unsigned met = 0, fds = nr_fds();

	for (enum call call = 0; call < _CALL_MAX; call++)
		for (const int *error = calls[call].errors; *error; error++)
			for (int all = 0; all <= (error == calls[call].errors); all++)
				for (long after = 0; after == 0 || fault.hit; after++) {
					fault = (struct fault){
						.call = call, .error = *error, .after = after, .all = all
					};
					scenario(data);
					fault.armed = false;
					met |= fault.hit ? 1U << call : 0;
					if (nr_fds() != fds) {
						show_fault();
						fail_msg("%u files are open instead of %u", nr_fds(), fds);
					}
				}
	assert_int_equal(met, kinds);
}

/* What the scenario does with the fault in place, and only that. */
#define WITH_FAULT(expression)                                                                                         \
	({                                                                                                             \
		fault.armed = true;                                                                                    \
		__typeof__(expression) _result = (expression);                                                         \
		fault.armed = false;                                                                                   \
		_result;                                                                                               \
	})

#define EXPECT(condition)                                                                                              \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fault.armed = false;                                                                           \
			show_fault();                                                                                  \
			fail_msg("%s", #condition);                                                                    \
		}                                                                                                      \
	} while (0)

/* --- the tree */

static void added(_unused_ void *userdata, struct cgroup *c)
{
	EXPECT(c->identity && c->path);
	c->status = 1;
}

/* What is reported as removed does not stand there any more, whatever failed. */
static void removed(void *userdata, struct cgroup *c)
{
	const struct watched *w = userdata;
	bool armed = fault.armed;
	struct stat st;

	fault.armed = false;
	EXPECT(c->status == 1);
	if (!fault_lies())
		EXPECT(lstat(scratch_path(&w->scratch, c->path + 1), &st) < 0 || st.st_ino != c->identity->id);
	fault.armed = armed;
}

static void changed(_unused_ void *userdata, _unused_ struct cgroup *c)
{
	fail_msg("the filter stays");
}

static void follow(struct watched *w, bool rescan)
{
	int r, n = 0;

	w->why.text[0] = '\0';
	if (rescan)
		cgroup_tree_rescan(w->tree);
	do
		r = WITH_FAULT(cgroup_tree_follow(w->tree, w->budget, &w->why));
	while (r == 1 && n++ < 10000);
	EXPECT(r <= 0);
	EXPECT(r == 0 || ((r == -fault.error || fault_lies()) && strstr(w->why.text, strerror(-r))));
	EXPECT(r == 0 || cgroup_tree_is_incomplete(w->tree));
}

/* A tree that says it is whole is what is on disk; a missing watch has a sentence. */
static void check(struct watched *w)
{
	struct cgroup *c;

	bool refused = fault.hit && (fault.call == ADD_WATCH || fault.call == INOTIFY_INIT);
	bool missing = cgroup_tree_stats(w->tree).watches_missing > 0;

	EXPECT(missing || !cgroup_tree_problem(w->tree));
	EXPECT(!missing || !refused || cgroup_tree_problem(w->tree));
	if (!cgroup_tree_is_incomplete(w->tree) && !fault_lies())
		watched_check(w);
	TAILQ_FOREACH(c, cgroup_tree_all(w->tree), in_all)
		c->status = 1;
}

static void ask_one(struct watched *w, struct cgroup *c)
{
	uint64_t usec = 7;
	int fd, r;

	fd = WITH_FAULT(cgroup_open(w->tree, c));
	EXPECT(fd >= 0 || (fault.hit && (fd == -fault.error || fault_lies())));
	safe_close(fd);
	r = WITH_FAULT(cgroup_usage(w->tree, c, &usec));
	EXPECT(r == 0 || r == -EOPNOTSUPP || (fault.hit && (r == -fault.error || fault_lies())));
	EXPECT(usec == (r == 0 ? 5000 : 7));
}

static void change(const struct watched *w, int turn)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "new%d/x/y", turn);
	watched_mkdir(w, name);
	(void)snprintf(name, sizeof(name), "d%d", turn);
	watched_rmdir(w, name);
	watched_remake(w, "again");
	watched_mkdir(w, "again/in");
	watched_rename(w, turn ? "to" : "from", turn ? "from" : "to");
}

static void put_right(struct watched *w)
{
	EXPECT(watched_try(w) == 0);
	cgroup_tree_rescan(w->tree);
	EXPECT(watched_try(w) == 0);
	watched_check(w);
	EXPECT(cgroup_tree_fd(w->tree) >= 0);
	EXPECT(!cgroup_tree_is_incomplete(w->tree));
	EXPECT(!cgroup_tree_problem(w->tree));
	EXPECT(cgroup_tree_stats(w->tree).left_out == 0);

	/* All of them are followed. */
	watched_mkdir(w, "more");
	watched_mkdir(w, "a/b/c/more");
	watched_mkdir(w, "new1/x/y/more");
	EXPECT(watched_try(w) == 0);
	watched_check(w);
}

static void follow_a_tree(void *data)
{
	static const char *const names[] = { "a/b/c", "\xff/e", "d0", "d1", "again", "from/x" };
	const struct cgroup_observer observer = { added, removed, changed, data };
	struct watched *w = data;
	int r;

	/* With one of the two, which call it is is nearly the same with the other. */
	w->budget = (fault.after + fault.all) % 2 ? 0 : UINT64_MAX;
	scratch_make(&w->scratch);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		watched_mkdir(w, names[i]);
	scratch_text(&w->scratch, "a/cpu.stat", "usage_usec 5000\n");

	w->tree = NULL;
	w->why.text[0] = '\0';
	r = WITH_FAULT(cgroup_tree_new(&w->tree, w->scratch.path, &admit_all, &observer, &w->why));
	EXPECT(r == 0 ? w->tree != NULL : r == -ENOMEM && !w->tree && w->why.text[0]);
	if (!w->tree)
		EXPECT(cgroup_tree_new(&w->tree, w->scratch.path, &admit_all, &observer, &w->why) == 0);
	r = WITH_FAULT(cgroup_tree_start(w->tree, &w->why));
	EXPECT(r == 0 || ((r == -fault.error || fault_lies()) && strstr(w->why.text, w->scratch.path)));
	check(w);
	for (int turn = 0; turn < 2; turn++) {
		change(w, turn);
		follow(w, turn == 1);
		check(w);
		if (watched_find(w, "/a"))
			ask_one(w, watched_find(w, "/a"));
		watched_rmdir(w, "again/in");
	}
	put_right(w);
	cgroup_tree_free(w->tree);
	scratch_remove(&w->scratch);
}

static void test_tree(_unused_ void **state)
{
	struct watched w = {};

	with_every_fault(follow_a_tree, &w, (1U << _CALL_MAX) - 1);
}

/* --- what is read once */

static void read_mounts(void *data)
{
	struct cgroup_mount mount = {};
	struct reason why = {};
	int r = WITH_FAULT(cgroup_mount_find(&mount, scratch_path(data, "mountinfo"), &why));

	EXPECT(r == 0 || (fault.hit && r == -fault.error && why.text[0] && !mount.path));
	EXPECT(r < 0 || strcmp(mount.path, "/cgroup") == 0);
	cgroup_mount_release(&mount);
}

static void read_cpus(void *data)
{
	const struct scratch *scratch = data;
	struct cpulist cpus = {};
	struct reason why = {};
	int r = WITH_FAULT(cpu_online(&cpus, scratch->path, &why));

	EXPECT(r == 0 || (fault.hit && r == -fault.error && why.text[0] && cpus.nr == 0));
	EXPECT(r < 0 || cpus.nr == 4);
	cpulist_release(&cpus);
}

/* A change that can't be seen now is seen later. Where the file can't be opened, none is ever seen. */
static void watch_cpus(void *data)
{
	const struct scratch *scratch = data;
	struct cpu_watch watch;
	bool seen;

	scratch_text(scratch, "devices/system/cpu/online", "0-3\n");
	WITH_FAULT((cpu_watch_open(&watch, scratch->path), 0));
	scratch_text(scratch, "devices/system/cpu/online", "0-2\n");
	seen = WITH_FAULT(cpu_watch_has_changed(&watch));
	EXPECT(seen || fault.hit);
	EXPECT(seen || cpu_watch_has_changed(&watch) || watch.fd < 0);
	EXPECT(!cpu_watch_has_changed(&watch));
	cpu_watch_close(&watch);
	scratch_text(scratch, "devices/system/cpu/online", "0-3\n");
}

/* What can't be read is not known. */
static void read_topology(void *data)
{
	const struct scratch *scratch = data;
	struct cpu_topology topology = {};
	int cpu = 0, r = WITH_FAULT(cpu_topology_read(&topology, scratch->path, &(struct cpulist){ &cpu, 1 }, NULL));
	int package = cpu_topology_find(&topology, 0).package;

	EXPECT(r == 0 || (fault.hit && r == -ENOMEM && !topology.places));
	EXPECT(package == 3 || (fault.hit && package == CPU_NOWHERE));
	cpu_topology_release(&topology);
}

static void read_busy(void *data)
{
	const struct scratch *scratch = data;
	struct cpu_busy busy = {};
	int cpu = 0;
	const struct cpulist cpus = { &cpu, 1 };
	const uint64_t *first = WITH_FAULT(cpu_busy_update(&busy, &cpus, scratch->path));
	const uint64_t *second = WITH_FAULT(cpu_busy_update(&busy, &cpus, scratch->path));

	EXPECT(!first);
	EXPECT(second ? *second == 0 : fault.hit);
	cpu_busy_release(&busy);
}

static void name_a_container(_unused_ void *data)
{
	struct cgroup_identity *identity = NULL;
	int r = WITH_FAULT(
		cgroup_identity_new(&identity, 1,
				    "/kubepods.slice/kubepods-pod0123456789abcdef0123456789abcdef.slice/crio-"
				    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope"));

	EXPECT(r == 0 ? identity->pod_uid != NULL : r == -ENOMEM && !identity);
	cgroup_identity_unref(identity);
}

static void test_files(_unused_ void **state)
{
	const unsigned of_a_file = 1U << OPEN | 1U << READ | 1U << MEMORY;
	struct scratch scratch;

	scratch_make(&scratch);
	scratch_text(&scratch, "mountinfo", "1 0 0:1 / /cgroup rw - cgroup2 cgroup2 rw\n");
	scratch_text(&scratch, "stat", "cpu 1 2 3 4 5 6 7 8\ncpu0 1 2 3 4 5 6 7 8\n");
	scratch_text(&scratch, "devices/system/cpu/online", "0-3\n");
	scratch_text(&scratch, "devices/system/cpu/cpu0/topology/physical_package_id", "3\n");
	with_every_fault(read_mounts, &scratch, of_a_file);
	with_every_fault(read_cpus, &scratch, of_a_file);
	with_every_fault(watch_cpus, &scratch, 1U << OPEN | 1U << READ);
	with_every_fault(read_topology, &scratch, of_a_file);
	with_every_fault(read_busy, &scratch, of_a_file);
	with_every_fault(name_a_container, &scratch, 1U << MEMORY);
	scratch_remove(&scratch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_tree),
	};

	memory_fails = fails_for_memory;
	return cmocka_run_group_tests_name("faults-target", tests, NULL, NULL);
}
