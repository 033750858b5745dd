/* SPDX-License-Identifier: MIT */

/* Names of nodes, and the folded format. */

#include "profiler/answer/profile.h"

#include "base/util/text.h"

#include <inttypes.h>

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return path[0] == '/' && slash[1] ? slash + 1 : path;
}

static void append_place(struct buf *out, const struct profile *profile, const struct profile_node *node)
{
	const struct archive_module *module = archive_module(profile->archive, node->module);

	buf_str(out, base_name(archive_text(profile->archive, module->path)));
	if (node->offset)
		buf_printf(out, "+0x%" PRIx64, node->offset);
}

void expose_profile_name(struct buf *out, const struct profile *profile, const struct profile_node *node)
{
	if (node->kind == PROFILE_ROOT)
		buf_str(out, "all");
	else if (node->kind == PROFILE_PLACE)
		append_place(out, profile, node);
	else
		buf_str(out, archive_text(profile->archive, node->text));
}

struct profile_thing expose_profile_no_function(const struct profile *profile, const struct profile_node *node)
{
	for (; node->parent; node = profile_node(profile, node->parent))
		if (node->kind == PROFILE_CGROUP &&
		    strcmp(archive_text(profile->archive, node->text), ARCHIVE_HIDDEN) == 0)
			return profile_thing_of(node);
	return (struct profile_thing){ .kind = PROFILE_ROOT };
}

void expose_profile_thing_name(struct buf *out, const struct profile *profile, const struct profile_thing *thing)
{
	const struct profile_node node = {
		.kind = thing->kind, .text = thing->text, .module = thing->module, .offset = thing->offset
	};

	if (thing->kind == PROFILE_ROOT)
		buf_str(out, "(no function)");
	else
		expose_profile_name(out, profile, &node);
}

/* Without samples, it is that of samples that are taken now. */
uint64_t expose_profile_period(const struct expose_profile *what)
{
	if (!what->measure.period)
		return 0;
	return what->profile->samples ? what->profile->period : what->measure.period;
}

/* --- folded */

/* The format has no way to write these in a name. */
static void append_name(struct buf *out, const struct profile *profile, const struct profile_node *node)
{
	_cleanup_(buf_release) struct buf name = {};
	_cleanup_(freep) char *text = NULL;

	expose_profile_name(&name, profile, node);
	text = buf_steal(&name);
	if (!text) {
		out->failed = true;
		return;
	}
	for (char *p = text_make_plain(text, ':'); (p = strchr(p, ';')); p++)
		*p = ':';
	buf_str(out, text);
}

static void append_path(struct buf *out, const struct profile *profile, uint32_t number)
{
	uint32_t path[ARCHIVE_DEPTH_MAX + 4];
	size_t depth = 0;

	for (uint32_t at = number; profile_node(profile, at)->parent && depth < ARRAY_SIZE(path);
	     at = profile_node(profile, at)->parent)
		path[depth++] = at;
	/* What has no stack is not lost: its cgroup and command, or at least that it is there. */
	if (depth == 0)
		buf_str(out, "all");
	for (size_t i = depth; i-- > 0;) {
		append_name(out, profile, profile_node(profile, path[i]));
		if (i)
			buf_char(out, ';');
	}
}

int expose_profile_folded(struct buf *out, const struct expose_profile *what)
{
	const struct profile *profile = what->profile;

	for (uint32_t i = 1; i <= profile_nr(profile); i++) {
		const struct profile_node *node = profile_node(profile, i);

		if (!node->self_samples)
			continue;
		append_path(out, profile, i);
		buf_printf(out, " %" PRIu32 "\n", node->self_samples);
	}
	return buf_finish(out, 0);
}
