/* SPDX-License-Identifier: MIT */

#include "profiler/origin.h"

#include "base/host/boot-id.h"

#include <errno.h>

void origin_release(struct origin *origin)
{
	free(origin->boot_id);
	free(origin->visible);
	*origin = (struct origin){};
}

/* With lengths, so that no two choices have the same text. */
static void write_globs(struct buf *out, const char *name, char *const *globs, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		buf_printf(out, "%s %zu %s\n", name, strlen(globs[i]), globs[i]);
}

int origin_make(struct origin *ret, const struct profiler_settings *settings)
{
	_cleanup_(origin_release) struct origin origin = { .boot_id = boot_id_read() };
	struct buf visible = {};

	write_globs(&visible, "include", settings->include, settings->nr_include);
	write_globs(&visible, "exclude", settings->exclude, settings->nr_exclude);
	origin.visible = buf_steal(&visible);
	if (!origin.boot_id || !origin.visible)
		return -ENOMEM;
	origin.is = (struct archive_origin){ .boot_id = origin.boot_id, .visible = origin.visible };
	*ret = steal_struct(origin);
	return 0;
}
