/* SPDX-License-Identifier: MIT */

#include "profiler/origin.h"

#include "base/util/file.h"

#include <errno.h>
#include <fcntl.h>

void origin_release(struct origin *origin)
{
	free(origin->boot_id);
	free(origin->visible);
	*origin = (struct origin){};
}

/* "" where it can't be read. */
static int read_boot_id(char **ret, const char *procfs)
{
	_cleanup_(freep) char *path = NULL;
	int r;

	if (asprintf(&path, "%s/sys/kernel/random/boot_id", procfs) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	r = read_text_file(AT_FDCWD, path, FILE_MAX_SYSFS, ret);
	if (r == 0 || r == -ENOMEM)
		return r;
	*ret = strdup("");
	return *ret ? 0 : -ENOMEM;
}

/* With lengths, so that no two choices have the same text. */
static void write_globs(struct buf *out, const char *name, char *const *globs, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		buf_printf(out, "%s %zu %s\n", name, strlen(globs[i]), globs[i]);
}

int origin_make(struct origin *ret, const struct profiler_settings *settings, const char *procfs)
{
	_cleanup_(origin_release) struct origin origin = {};
	struct buf visible = {};
	int r = read_boot_id(&origin.boot_id, procfs);

	write_globs(&visible, "include", settings->include, settings->nr_include);
	write_globs(&visible, "exclude", settings->exclude, settings->nr_exclude);
	origin.visible = buf_steal(&visible);
	if (r < 0 || !origin.visible)
		return -ENOMEM;
	origin.is = (struct archive_origin){ .boot_id = origin.boot_id, .visible = origin.visible };
	*ret = steal_struct(origin);
	return 0;
}
