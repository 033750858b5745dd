/* SPDX-License-Identifier: MIT */

#include "profiler/capture/capture-folder.h"

#include "base/util/clock.h"
#include "base/util/file.h"
#include "base/util/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#define SUFFIX ".pb.gz"

/* "20261123T021155Z". */
#define STAMP_SIZE 16

/* A folder that others have filled is not looked at without end. */
#define FILES_MAX 100000

/* A name, cut into its parts from its end: TIME and NUMBER have one form, and NAME may have any, also theirs. */
struct file_name {
	char name[NAME_MAX + 1];
	size_t rule; /* bytes of NAME */
	char stamp[STAMP_SIZE + 1];
	uint64_t number;
	uint64_t size;
	struct timespec written;
};

static bool is_stamp(const char *text)
{
	static const char form[] = "00000000T000000Z";

	for (size_t i = 0; i < STAMP_SIZE; i++)
		if (form[i] == '0' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
			return false;
	return true;
}

/* The first n bytes of a name, without what is behind its number. */
static bool parse_name(struct file_name *ret, const char *name, size_t n)
{
	char *end, *dash;

	if (n > NAME_MAX)
		return false;
	memcpy(ret->name, name, n);
	ret->name[n] = '\0';
	dash = strrchr(ret->name, '-');
	if (!dash || dash - ret->name <= STAMP_SIZE + 1 || dash[-STAMP_SIZE - 1] != '-' || !is_stamp(dash - STAMP_SIZE))
		return false;
	ret->number = strtoull(dash + 1, &end, 10);
	memcpy(ret->stamp, dash - STAMP_SIZE, STAMP_SIZE);
	ret->stamp[STAMP_SIZE] = '\0';
	ret->rule = (size_t)(dash - ret->name) - STAMP_SIZE - 1;
	return dash[1] >= '0' && dash[1] <= '9' && !*end;
}

static bool ends_with(const char *name, size_t n, const char *suffix)
{
	size_t length = strlen(suffix);

	return n > length && memcmp(name + n - length, suffix, length) == 0;
}

/* NAME-TIME-NUMBER.pb.gz. */
static bool parse_file_name(struct file_name *ret, const char *name)
{
	size_t n = strlen(name);

	if (!ends_with(name, n, SUFFIX) || !parse_name(ret, name, n - strlen(SUFFIX)))
		return false;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	return true;
}

/* What replace_file() leaves where it is killed. */
static bool is_leftover(const char *name)
{
	size_t n = replace_leftover(name);
	struct file_name parsed;

	return ends_with(name, n, SUFFIX) && parse_name(&parsed, name, n - strlen(SUFFIX));
}

static int compare_times(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? (a->tv_sec < b->tv_sec ? -1 : 1) :
					(a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

/* The newest first. Names have the time of day, which can be set back. */
static int compare_files(const void *a, const void *b)
{
	const struct file_name *x = a, *y = b;
	int r = compare_times(&y->written, &x->written) ?: strcmp(y->stamp, x->stamp);

	return r ? r : x->number < y->number ? 1 : x->number > y->number ? -1 : 0;
}

/* All files of captures, in any order. tidy: what was left behind is removed. */
static size_t list_files(int fd, bool tidy, struct file_name **ret)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	struct file_name *files = NULL;
	const struct dirent *entry;
	size_t nr = 0, room = 0;

	if (!dir)
		safe_close(copy);
	for (size_t seen = 0; dir && seen < FILES_MAX && (entry = readdir(dir)); seen++) {
		struct stat st;

		if (tidy && is_leftover(entry->d_name))
			(void)unlinkat(fd, entry->d_name, 0);
		if (nr == room) {
			struct file_name *more = reallocarray(files, room = 2 * room + 16, sizeof(*files));

			if (!more)
				break;
			files = more;
		}
		if (!parse_file_name(&files[nr], entry->d_name) ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		files[nr].written = st.st_mtim;
		files[nr++].size = (uint64_t)st.st_size;
	}
	if (dir)
		closedir(dir);
	*ret = files;
	return nr;
}

static bool is_of_rule(const struct file_name *file, const char *rule)
{
	return strlen(rule) == file->rule && memcmp(file->name, rule, file->rule) == 0;
}

/* Removes the oldest files beyond the bounds, before one of `more` bytes is written. Returns when the newest was
 * written; 0: there is none. */
static struct timespec prune(int fd, const struct capture_file *wanted, uint64_t more)
{
	_cleanup_(freep) struct file_name *files = NULL;
	size_t nr = list_files(fd, true, &files);
	uint64_t bytes = more, of_rule = 1;
	struct timespec newest = {};
	bool full = false;

	if (nr) {
		qsort(files, nr, sizeof(*files), compare_files);
		newest = files[0].written;
	}
	for (size_t i = 0; i < nr; i++) {
		bool own = is_of_rule(&files[i], wanted->rule);

		/* Behind one that does not fit, older ones go too. */
		full |= bytes + files[i].size > wanted->max_bytes;
		if (full || (own && of_rule >= wanted->keep)) {
			(void)unlinkat(fd, files[i].name, 0);
			continue;
		}
		of_rule += own;
		bytes += files[i].size;
	}
	return newest;
}

/* A new file is the newest, whatever the clock says. */
static void make_newest(const char *path, struct timespec newest)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, newest };
	struct stat st;

	if (stat(path, &st) < 0 || compare_times(&st.st_mtim, &newest) > 0)
		return;
	if (++times[1].tv_nsec == NS_PER_S)
		times[1] = (struct timespec){ .tv_sec = newest.tv_sec + 1 };
	(void)utimensat(AT_FDCWD, path, times, 0);
}

int capture_folder_write(const char *folder, const struct capture_file *file, const char *bytes, size_t size,
			 struct reason *why)
{
	_cleanup_(freep) char *path = NULL;
	_cleanup_(closep) int fd = -1;
	struct timespec newest;
	int r;

	if (!folder)
		return reason_set(why, -ENOENT,
				  "captures can't be saved: there is no state directory (STATE_DIRECTORY; "
				  "StateDirectory= of the unit)");
	if (mkdir(folder, 0700) < 0 && errno != EEXIST)
		return reason_set(why, -errno, "captures can't be saved: the folder %s can't be made: %s", folder,
				  strerror(errno));
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return reason_set(why, -errno, "captures can't be saved in %s: %s", folder, strerror(errno));
	newest = prune(fd, file, size);
	if (asprintf(&path, "%s/%s" SUFFIX, folder, file->id) < 0) {
		path = NULL;
		return reason_set(why, -ENOMEM, "out of memory");
	}
	r = replace_file(path, 0600, true, bytes, size);
	if (r == 0)
		make_newest(path, newest);
	/* The same for all captures, so that it is logged once. */
	return r < 0 ? reason_set(why, r, "captures can't be saved in %s: %s", folder, strerror(-r)) : 0;
}

int capture_folder_list(const char *folder, struct capture_saved **ret, size_t *ret_nr)
{
	_cleanup_(closep) int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	_cleanup_(freep) struct file_name *files = NULL;
	size_t nr = fd < 0 ? 0 : list_files(fd, false, &files);
	struct capture_saved *saved = calloc(nr + 1, sizeof(*saved));

	if (!saved)
		return -ENOMEM;
	if (nr)
		qsort(files, nr, sizeof(*files), compare_files);
	*ret_nr = 0;
	for (size_t i = 0; i < nr; i++) {
		/* Not this daemon's: a name that nobody could ask for. */
		if (!utf8_is_printable(files[i].name))
			continue;
		(void)snprintf(saved[*ret_nr].id, sizeof(saved->id), "%.*s",
			       (int)(strlen(files[i].name) - strlen(SUFFIX)), files[i].name);
		saved[(*ret_nr)++].bytes = files[i].size;
	}
	*ret = saved;
	return 0;
}

/* Up to the end, also of a file that is longer than it was. */
static int read_to_end(int fd, struct buf *ret)
{
	char bytes[65536];
	ssize_t n;

	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		buf_add(ret, bytes, (size_t)n);
	return n < 0 ? -errno : ret->failed ? -ENOMEM : 0;
}

/* Appends the file of one. -ENOENT: there is none; other errors of reading it; -ENOMEM. */
static int read_capture(struct buf *out, const char *folder, const char *id)
{
	_cleanup_(closep) int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	_cleanup_(closep) int file = -1;
	char name[NAME_MAX + 1];
	struct file_name parsed;
	struct stat st;

	if (fd < 0 || snprintf(name, sizeof(name), "%s" SUFFIX, id) >= (int)sizeof(name) || strchr(name, '/') ||
	    !parse_file_name(&parsed, name))
		return -ENOENT;
	file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0 || fstat(file, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) ? read_to_end(file, out) : -ENOENT;
}

int capture_folder_answer(struct buf *out, const char *folder, const struct profile_question *question,
			  struct reason *why)
{
	bool is_part = question->from.kind || question->to.kind || question->cgroup || question->command;
	_cleanup_(buf_release) struct buf bytes = {};
	int r = read_capture(&bytes, folder, question->capture);

	if (r == -ENOMEM)
		return reason_set(why, r, "out of memory");
	if (r < 0)
		return reason_set(why, -ENOENT,
				  "there is no such capture, or not any more; /api/v1/captures lists them");
	if (question->form != PROFILE_FORM_PPROF || is_part)
		return reason_set(why, -EINVAL, "the capture is on disk alone: ask for format=pprof, of all of it");
	buf_add(out, bytes.data, bytes.len);
	r = buf_finish(out, 0);
	return r < 0 ? reason_set(why, r, "out of memory") : 0;
}
