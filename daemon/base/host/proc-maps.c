/* SPDX-License-Identifier: MIT */

#include "base/host/proc-maps.h"

#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>

/* struct procmap_query of <linux/fs.h>, Linux 6.11. */
struct procmap_query_v1 {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};

#define QUERY_MAPPING _IOWR('f', 17, struct procmap_query_v1)
#define QUERY_EXECUTABLE 0x04
#define QUERY_COVERING_OR_NEXT 0x10

_Static_assert(sizeof(struct procmap_query_v1) == 104, "as the kernel has it");

/* As records of the kernel have it. */
#define ANONYMOUS "//anon"

/* A path, and " (deleted)" behind it. */
#define NAME_SIZE (PATH_MAX + 16)

/* Of the text. A mapping with a longer line is left out. */
#define LINE_SIZE (2 * NAME_SIZE)

/* --- by PROCMAP_QUERY */

/* 0; -ENOENT: none is left; -ENOTTY: this kernel does not have it. */
static int query_next(int fd, uint64_t from, struct proc_mapping *ret, char name[static NAME_SIZE], uint64_t *ret_end)
{
	struct procmap_query_v1 query = {
		.size = sizeof(query),
		.query_flags = QUERY_EXECUTABLE | QUERY_COVERING_OR_NEXT,
		.query_addr = from,
		.vma_name_size = NAME_SIZE,
		.vma_name_addr = (uintptr_t)name,
	};

	*ret = (struct proc_mapping){ .path = name };
	query.build_id_size = MODULE_BUILD_ID_MAX;
	query.build_id_addr = (uintptr_t)ret->key.build_id;
	name[0] = '\0';
	if (ioctl(fd, QUERY_MAPPING, &query) < 0)
		return -errno;
	if (!name[0])
		ret->path = ANONYMOUS;
	ret->start = query.vma_start;
	ret->size = query.vma_end - query.vma_start;
	ret->offset = query.vma_offset;
	ret->key.build_id_size = query.build_id_size;
	/* With a build id, the place says nothing more. */
	if (!query.build_id_size) {
		ret->key.major = query.dev_major;
		ret->key.minor = query.dev_minor;
		ret->key.inode = query.inode;
	}
	*ret_end = query.vma_end;
	return 0;
}

static int read_by_queries(int fd, size_t max, int (*take)(void *userdata, const struct proc_mapping *mapping),
			   void *userdata)
{
	char name[NAME_SIZE];
	uint64_t at = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < max; i++) {
		struct proc_mapping mapping;

		r = query_next(fd, at, &mapping, name, &at);
		if (r == 0)
			r = take(userdata, &mapping);
		else if (r == -ENOENT)
			return 0;
	}
	return r;
}

/* --- by text: "START-END PERMS OFFSET MAJOR:MINOR INODE   PATH" (proc(5)) */

bool proc_maps_parse(struct proc_mapping *ret, const char *line)
{
	struct proc_mapping mapping = {};
	char perms[5] = "";
	uint64_t end;
	int n = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 "%n",
		   &mapping.start, &end, perms, &mapping.offset, &mapping.key.major, &mapping.key.minor,
		   &mapping.key.inode, &n) != 7 ||
	    end <= mapping.start || strlen(perms) < 3 || perms[2] != 'x')
		return false;
	mapping.size = end - mapping.start;
	mapping.path = line + n + strspn(line + n, " ");
	if (!mapping.path[0])
		mapping.path = ANONYMOUS;
	*ret = mapping;
	return true;
}

/* Allocates nothing, as stdio would: threads call this (thread.h). */
struct lines {
	int fd;
	bool skips; /* the rest of a line that has no room */
	size_t at, end;
	char text[LINE_SIZE];
};

/* Reads more behind the bytes that are left. 0: there is no more. Negative errno of read(2). */
static ssize_t read_more(struct lines *lines)
{
	ssize_t n;

	lines->end -= lines->at;
	memmove(lines->text, lines->text + lines->at, lines->end);
	lines->at = 0;
	if (lines->end == sizeof(lines->text)) {
		lines->skips = true;
		lines->end = 0;
	}
	n = read(lines->fd, lines->text + lines->end, sizeof(lines->text) - lines->end);
	if (n > 0)
		lines->end += (size_t)n;
	return n < 0 ? -errno : n;
}

/* 1, and a line without its newline, valid until the next call; 0 at the end; negative errno of read(2). */
static int next_line(struct lines *lines, const char **ret)
{
	for (;;) {
		char *line = lines->text + lines->at, *end = memchr(line, '\n', lines->end - lines->at);

		if (!end) {
			ssize_t n = read_more(lines);

			if (n <= 0)
				return (int)n;
			continue;
		}
		*end = '\0';
		lines->at = (size_t)(end + 1 - lines->text);
		if (!lines->skips) {
			*ret = line;
			return 1;
		}
		lines->skips = false;
	}
}

static int read_by_text(int fd, size_t max, int (*take)(void *userdata, const struct proc_mapping *mapping),
			void *userdata)
{
	struct lines lines = { .fd = fd };
	struct proc_mapping mapping;
	const char *line;
	int r = 1;

	for (size_t i = 0; i < max && (r = next_line(&lines, &line)) > 0;) {
		if (!proc_maps_parse(&mapping, line))
			continue;
		r = take(userdata, &mapping);
		if (r < 0)
			break;
		i++;
	}
	return r < 0 ? r : 0;
}

int proc_maps_read(const char *procroot, uint32_t pid, size_t max,
		   int (*take)(void *userdata, const struct proc_mapping *mapping), void *userdata)
{
	char path[PATH_MAX];
	_cleanup_(closep) int fd = -1;
	int r;

	if (snprintf(path, sizeof(path), "%s/%" PRIu32 "/maps", procroot, pid) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = read_by_queries(fd, max, take, userdata);
	return r == -ENOTTY ? read_by_text(fd, max, take, userdata) : r;
}

int proc_comm_read(const char *procroot, uint32_t pid, char ret[static PROC_COMM_SIZE])
{
	_cleanup_(freep) char *text = NULL;
	char path[PATH_MAX];
	int r;

	if (snprintf(path, sizeof(path), "%s/%" PRIu32 "/comm", procroot, pid) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, &text);
	if (r == 0)
		(void)snprintf(ret, PROC_COMM_SIZE, "%s", text);
	return r;
}
