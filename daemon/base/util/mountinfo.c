/* SPDX-License-Identifier: MIT */

#include "base/util/mountinfo.h"

#include "base/util/cleanup.h"
#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libmount.h>
#include <stdio.h>
#include <string.h>

/* Bytes of text that libmount gets at a time: its table takes several times the memory of the text. */
#define PIECE_SIZE (32 * 1024)

DEFINE_CLEANUP(struct libmnt_table *, mnt_unref_table)
DEFINE_CLEANUP(struct libmnt_iter *, mnt_free_iter)

/* libmount guesses the format of the text from its first line, which therefore has to be one of mountinfo. For a source
 * /dev/root, which only the root file system has, it would read /proc/cmdline and sysfs: such a line is left out. */
static bool is_for_library(const char *line, size_t n)
{
	unsigned id, parent;
	char head[24];

	(void)snprintf(head, sizeof(head), "%.*s", (int)n, line);
	return sscanf(head, "%u %u", &id, &parent) == 2 && !memmem(line, n, " /dev/root ", strlen(" /dev/root "));
}

/* Fills the piece with lines from *text. A line that is longer than a piece is left out: those of the kernel have a few
 * pages at most. */
static size_t cut_piece(const char **text, char piece[static PIECE_SIZE])
{
	size_t length = 0;

	while (**text) {
		size_t n = strcspn(*text, "\n"), whole = n + ((*text)[n] == '\n');

		if (n + 1 < PIECE_SIZE && is_for_library(*text, n)) {
			if (length + n + 1 > PIECE_SIZE)
				break;
			memcpy(piece + length, *text, n);
			piece[length + n] = '\n';
			length += n + 1;
		}
		*text += whole;
	}
	return length;
}

static int walk_table(struct libmnt_table *table, mountinfo_each_t each, void *userdata)
{
	_cleanup_(mnt_free_iterp) struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;

	if (!iter)
		return -ENOMEM;
	while (mnt_table_next_fs(table, iter, &fs) == 0) {
		const struct mountinfo mount = {
			.id = (uint64_t)mnt_fs_get_id(fs),
			.device = mnt_fs_get_devno(fs),
			.root = mnt_fs_get_root(fs),
			.mount_point = mnt_fs_get_target(fs),
			.fstype = mnt_fs_get_fstype(fs),
			.options = mnt_fs_get_fs_options(fs) ?: "",
		};
		int r;

		if (!mount.root || !mount.mount_point || mount.mount_point[0] != '/' || !mount.fstype)
			continue;
		r = each(userdata, &mount);
		if (r)
			return r;
	}
	return 0;
}

static int walk_piece(char *piece, size_t length, mountinfo_each_t each, void *userdata)
{
	_cleanup_(mnt_unref_tablep) struct libmnt_table *table = mnt_new_table();
	_cleanup_(closefilep) FILE *file = fmemopen(piece, length, "r");
	int r;

	if (!table || !file)
		return -ENOMEM;
	r = mnt_table_parse_stream(table, file, "mountinfo");
	return r < 0 ? r : walk_table(table, each, userdata);
}

int mountinfo_walk_text(const char *text, mountinfo_each_t each, void *userdata)
{
	_cleanup_(freep) char *piece = malloc(PIECE_SIZE);
	size_t length;
	int r = 0;

	if (!piece)
		return -ENOMEM;
	while (r == 0 && (length = cut_piece(&text, piece)) > 0)
		r = walk_piece(piece, length, each, userdata);
	return r;
}

int mountinfo_walk(const char *file, mountinfo_each_t each, void *userdata)
{
	_cleanup_(freep) char *text = NULL;
	int r = read_text_file(AT_FDCWD, file, MOUNTINFO_MAX, &text);

	return r < 0 ? r : mountinfo_walk_text(text, each, userdata);
}

bool mountinfo_has_option(const struct mountinfo *mount, const char *name)
{
	return mnt_optstr_get_option(mount->options, name, NULL, NULL) == 0;
}
