/* SPDX-License-Identifier: MIT */

#include "setup/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

void scratch_make(struct scratch *scratch)
{
	const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	(void)snprintf(scratch->path, sizeof(scratch->path), "%s/perfmond-test-XXXXXX", base);
	assert_non_null(mkdtemp(scratch->path));
}

void scratch_remove(struct scratch *scratch)
{
	char *roots[] = { scratch->path, NULL };
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOSTAT, NULL);
	FTSENT *entry;

	assert_non_null(walk);
	while ((entry = fts_read(walk))) {
		if (entry->fts_info == FTS_D)
			(void)chmod(entry->fts_accpath, 0700);
		else if (entry->fts_info == FTS_DP)
			(void)rmdir(entry->fts_accpath);
		else
			(void)unlink(entry->fts_accpath);
	}
	fts_close(walk);
	assert_int_equal(access(scratch->path, F_OK), -1);
}

const char *scratch_path(const struct scratch *scratch, const char *name)
{
	static char paths[4][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];

	assert_in_range(snprintf(path, PATH_MAX, "%s/%s", scratch->path, name), 1, PATH_MAX - 1);
	return path;
}

static void make_folders(const char *path, size_t from)
{
	char folder[PATH_MAX];

	for (const char *p = path + from; (p = strchr(p, '/')); p++) {
		(void)snprintf(folder, sizeof(folder), "%.*s", (int)(p - path), path);
		assert_true(mkdir(folder, 0755) == 0 || errno == EEXIST);
	}
}

void scratch_write(const struct scratch *scratch, const char *name, const char *text, size_t size)
{
	const char *path = scratch_path(scratch, name);
	int fd;

	make_folders(path, strlen(scratch->path) + 1);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, size), size);
	assert_int_equal(close(fd), 0);
}

void scratch_text(const struct scratch *scratch, const char *name, const char *text)
{
	scratch_write(scratch, name, text, strlen(text));
}

void scratch_mkdir(const struct scratch *scratch, const char *name)
{
	const char *path = scratch_path(scratch, name);

	make_folders(path, strlen(scratch->path) + 1);
	assert_int_equal(mkdir(path, 0755), 0);
}

void scratch_rmdir(const struct scratch *scratch, const char *name)
{
	assert_int_equal(rmdir(scratch_path(scratch, name)), 0);
}
