/* SPDX-License-Identifier: MIT */

#include "profiler/naming/jit-files.h"

#include "base/util/clock.h"
#include "base/util/file.h"
#include "base/util/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The kernel stamps files with the time of its last tick. */
#define STAMP_SLACK_NS ((int64_t)NS_PER_S)

/* --- the process */

struct owner {
	uint32_t pid; /* in its own namespace */
	bool is_here; /* it is in this process's namespace of pids */
	uid_t user;
	uint64_t started; /* ticks since the machine's start */
};

/* The text of a file below /proc/PID; false: it can't be read. */
static bool read_proc(const char *proc, uint32_t pid, const char *name, char *ret, size_t size)
{
	char path[PATH_MAX];
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%" PRIu32 "/%s", proc, pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, ret, size - 1);
	safe_close(fd);
	ret[n > 0 ? n : 0] = '\0';
	/* A longer text would lack lines at its end. */
	return n > 0 && (size_t)n < size - 1;
}

/* How many numbers a line of /proc/PID/status has, and the last of them. */
static unsigned read_numbers(const char *status, const char *name, uint64_t *ret_last)
{
	const char *at = strstr(status, name);
	unsigned nr = 0;

	for (at = at ? at + strlen(name) : NULL; at && *at == '\t'; nr++) {
		char *end;

		*ret_last = strtoull(at + 1, &end, 10);
		if (end == at + 1)
			break;
		at = end;
	}
	return nr;
}

/* The 22nd field of /proc/PID/stat. The second one may have blanks and parentheses in it. */
static uint64_t start_of(const char *stat)
{
	const char *at = strrchr(stat, ')');

	for (unsigned field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at + 1, NULL, 10) : 0;
}

static bool read_owner(struct owner *ret, const char *proc, uint32_t pid)
{
	char text[4096];
	uint64_t number = 0;
	unsigned nr;

	if (!read_proc(proc, pid, "stat", text, sizeof(text)))
		return false;
	ret->started = start_of(text);
	if (!ret->started || !read_proc(proc, pid, "status", text, sizeof(text)))
		return false;
	/* The last of four users owns the files that the process makes. */
	if (read_numbers(text, "\nUid:", &number) != 4)
		return false;
	ret->user = (uid_t)number;
	nr = read_numbers(text, "\nNSpid:", &number);
	ret->pid = nr ? (uint32_t)number : pid;
	ret->is_here = nr <= 1;
	return true;
}

static int64_t now_of(clockid_t clock)
{
	struct timespec now = {};

	(void)clock_gettime(clock, &now);
	return now.tv_sec * (int64_t)NS_PER_S + now.tv_nsec;
}

/* When the program began, by the clock of files' time stamps. */
static int64_t beginning_of(const struct owner *owner, uint64_t executed_at)
{
	int64_t ticks = sysconf(_SC_CLK_TCK), age;

	if (executed_at)
		age = now_of(CLOCK_MONOTONIC) - (int64_t)executed_at;
	else
		age = now_of(CLOCK_BOOTTIME) - (int64_t)owner->started * ((int64_t)NS_PER_S / ticks);
	return now_of(CLOCK_REALTIME) - age - STAMP_SLACK_NS;
}

/* --- files */

/* Opens one name below a folder. ".." and links are refused. */
static int open_name(int folder, const char *name, int flags)
{
	return strcmp(name, "..") == 0 ? -1 : openat(folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC | flags);
}

static int open_regular(int place, int folder, const char *name)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
	char again[32];
	struct stat st;
	int fd;

	if (place < 0 || fstat(place, &st) < 0 || !S_ISREG(st.st_mode))
		return -1;
	(void)snprintf(again, sizeof(again), "/proc/self/fd/%d", place);
	fd = open(again, flags & ~O_NOFOLLOW);
	/* In a sandbox without /proc/self, the name is opened again. */
	return fd >= 0 ? fd : openat(folder, name, flags);
}

/* A regular file below a folder; the path is cut up. -1: there is none. */
static int open_below(int root, char *path)
{
	int folder = fcntl(root, F_DUPFD_CLOEXEC, 0), place, fd;
	char *name = path, *slash;

	while (folder >= 0 && (slash = strchr(name, '/'))) {
		int next = folder;

		*slash = '\0';
		if (name[0])
			next = open_name(folder, name, O_DIRECTORY);
		if (next != folder)
			safe_close(folder);
		folder = next;
		name = slash + 1;
	}
	place = folder < 0 ? -1 : open_name(folder, name, 0);
	fd = open_regular(place, folder, name);
	safe_close(place);
	safe_close(folder);
	return fd;
}

/* Does the file count? */
static bool is_sound(int fd, const struct owner *owner, int64_t beginning, struct jit_file_state *ret)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != owner->user || st.st_size <= 0 ||
	    (uint64_t)st.st_size > JIT_FILE_MAX ||
	    st.st_mtim.tv_sec * (int64_t)NS_PER_S + st.st_mtim.tv_nsec < beginning)
		return false;
	*ret = (struct jit_file_state){
		.device = st.st_dev,
		.inode = st.st_ino,
		.size = (uint64_t)st.st_size,
		.seconds = st.st_mtim.tv_sec,
		.nanoseconds = st.st_mtim.tv_nsec,
	};
	return true;
}

/* The tree of files that the process sees. Without the permission to open it, it is taken to be this process's tree, if
 * both are in the same namespace of pids. */
static int open_root(const char *proc, const struct jit_question *question, const struct owner *owner)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%" PRIu32 "/root", proc, question->pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 && owner->is_here ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : fd;
}

/* The paths of the files, which begin with a slash; "": none. */
static void make_paths(char paths[static JIT_NR_FILES][PATH_MAX], const struct jit_question *question, uint32_t pid)
{
	char name[32];

	(void)snprintf(paths[JIT_MAP], PATH_MAX, "/tmp/perf-%" PRIu32 ".map", pid);
	(void)snprintf(name, sizeof(name), "/jit-%" PRIu32 ".dump", pid);
	paths[JIT_DUMP][0] = '\0';
	/* A dump with another pid in its name is an ancestor's, which writes on: the mapping was inherited. */
	for (size_t i = 0; i < JIT_DUMPS_MAX; i++) {
		const char *base = strrchr(question->dumps[i], '/');

		if (base && strcmp(base, name) == 0)
			(void)snprintf(paths[JIT_DUMP], PATH_MAX, "%s", question->dumps[i]);
	}
}

static bool is_same(const struct jit_seen *a, const struct jit_seen *b)
{
	return a->started == b->started && a->pid == b->pid && memcmp(a->files, b->files, sizeof(a->files)) == 0;
}

_Static_assert(sizeof(struct jit_file_state) == 40, "states have no padding");

enum naming jit_files_open(const char *proc, const struct jit_question *question, int ret[static JIT_NR_FILES],
			   struct jit_seen *ret_seen)
{
	char paths[JIT_NR_FILES][PATH_MAX];
	enum naming naming = NAMING_NO_MAP;
	struct owner owner = {};
	int64_t beginning;
	int root;

	ret[JIT_MAP] = ret[JIT_DUMP] = -1;
	*ret_seen = (struct jit_seen){};
	if (!read_owner(&owner, proc, question->pid))
		return NAMING_NO_MAP;
	ret_seen->pid = owner.pid;
	beginning = beginning_of(&owner, question->executed_at);
	make_paths(paths, question, owner.pid);
	root = open_root(proc, question, &owner);
	for (size_t i = 0; root >= 0 && i < JIT_NR_FILES; i++) {
		ret[i] = paths[i][0] ? open_below(root, paths[i]) : -1;
		if (is_sound(ret[i], &owner, beginning, &ret_seen->files[i]))
			naming = NAMING_NAMED;
		else
			ret[i] = safe_close(ret[i]);
	}
	safe_close(root);
	ret_seen->started = owner.started;
	ret_seen->is_same = naming == NAMING_NAMED && is_same(ret_seen, &question->seen);
	if (!ret_seen->is_same)
		return naming;
	for (size_t i = 0; i < JIT_NR_FILES; i++)
		ret[i] = safe_close(ret[i]);
	return NAMING_NO_SYMBOL;
}
