/* SPDX-License-Identifier: MIT */

#include "profiler/answer/selection.h"

#include "base/util/clock.h"

#include <errno.h>
#include <string.h>

/* Steps of matching globs, for one walk: see base/util/glob.h. */
#define GLOB_STEPS_MAX 50000000U

enum {
	CONTEXT_UNKNOWN,
	CONTEXT_WANTED,
	CONTEXT_UNWANTED,
};

int selection_init(struct selection *ret, const struct archive *archive, const char *event, const char *cgroup,
		   bool below, const char *command)
{
	ret->contexts = calloc((size_t)table_end(&archive->contexts) + 1, sizeof(*ret->contexts));
	if (!ret->contexts)
		return -ENOMEM;
	ret->archive = archive;
	ret->event = event;
	ret->of_cgroups = cgroup;
	ret->below = below;
	ret->of_commands = command;
	if (cgroup)
		glob_init(&ret->cgroup, cgroup);
	if (command)
		glob_init(&ret->command, command);
	return 0;
}

void selection_release(struct selection *selection)
{
	if (selection->of_cgroups)
		glob_release(&selection->cgroup);
	if (selection->of_commands)
		glob_release(&selection->command);
	free(selection->contexts);
}

bool selection_has(const struct selection *selection, uint32_t context)
{
	return selection->contexts[context] == CONTEXT_WANTED;
}

/* Does the glob match a path, or one above it? 0 or 1; -ENOMEM. */
static int matches_above(struct glob *glob, const char *path)
{
	_cleanup_(freep) char *above = strdup(path);
	char *slash;

	if (!above)
		return -ENOMEM;
	while ((slash = strrchr(above, '/'))) {
		if (glob_matches(glob, above))
			return 1;
		/* The root is "/". */
		if (slash == above)
			return glob_matches(glob, "/");
		*slash = '\0';
	}
	/* Such as "(hidden)". */
	return glob_matches(glob, path);
}

static int matches_cgroup(struct selection *selection, const char *path)
{
	if (!selection->of_cgroups)
		return 1;
	return selection->below ? matches_above(&selection->cgroup, path) : glob_matches(&selection->cgroup, path);
}

/* 0 or 1; -ENOMEM. */
static int is_wanted(struct selection *selection, const struct archive_context *context)
{
	const struct archive *archive = selection->archive;

	if (strcmp(archive_text(archive, context->event), selection->event) != 0 ||
	    (selection->of_commands && !glob_matches(&selection->command, archive_text(archive, context->command))))
		return 0;
	return matches_cgroup(selection, archive_text(archive, context->cgroup));
}

/* -E2BIG, -ENOMEM */
static int judge_context(struct selection *selection, uint32_t number)
{
	int wanted = is_wanted(selection, table_at(&selection->archive->contexts, number));
	uint64_t steps = (selection->of_cgroups ? glob_steps(&selection->cgroup) : 0) +
			 (selection->of_commands ? glob_steps(&selection->command) : 0);

	if (wanted < 0)
		return wanted;
	selection->contexts[number] = wanted ? CONTEXT_WANTED : CONTEXT_UNWANTED;
	return steps > GLOB_STEPS_MAX ? -E2BIG : 0;
}

static int walk_segment(struct selection *selection, const struct segment *segment, uint64_t from, uint64_t to,
			selection_take_t take, void *userdata)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < segment->nr; i++) {
		const struct stored_sample *sample = &segment->samples[i];
		uint64_t time = segment->base + (uint64_t)sample->ms * NS_PER_MS;

		if (time < from || time >= to)
			continue;
		if (selection->contexts[sample->context] == CONTEXT_UNKNOWN)
			r = judge_context(selection, sample->context);
		if (r >= 0 && selection->contexts[sample->context] == CONTEXT_WANTED)
			r = take(userdata, sample, time);
	}
	return r;
}

int selection_walk(struct selection *selection, uint64_t from, uint64_t to, selection_take_t take, void *userdata)
{
	const struct segment *segment;
	int r = 0;

	TAILQ_FOREACH(segment, &selection->archive->segments, in_all)
		if (r >= 0 && segment->nr && segment->last >= from && segment->first < to)
			r = walk_segment(selection, segment, from, to, take, userdata);
	return r < 0 ? r : 0;
}
