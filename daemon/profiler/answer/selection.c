/* SPDX-License-Identifier: MIT */

#include "profiler/answer/selection.h"

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
	ret->contexts = calloc((size_t)archive_contexts_end(archive) + 1, sizeof(*ret->contexts));
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
	int wanted = is_wanted(selection, archive_context(selection->archive, number));
	uint64_t steps = (selection->of_cgroups ? glob_steps(&selection->cgroup) : 0) +
			 (selection->of_commands ? glob_steps(&selection->command) : 0);

	if (wanted < 0)
		return wanted;
	selection->contexts[number] = wanted ? CONTEXT_WANTED : CONTEXT_UNWANTED;
	return steps > GLOB_STEPS_MAX ? -E2BIG : 0;
}

struct walk {
	struct selection *selection;
	archive_take_t take;
	void *userdata;
};

static int take_wanted(void *userdata, const struct stored_sample *sample, uint64_t time)
{
	const struct walk *walk = userdata;
	unsigned char *context = &walk->selection->contexts[sample->context];
	int r = 0;

	if (*context == CONTEXT_UNKNOWN)
		r = judge_context(walk->selection, sample->context);
	return r >= 0 && *context == CONTEXT_WANTED ? walk->take(walk->userdata, sample, time) : r;
}

int selection_walk(struct selection *selection, uint64_t from, uint64_t to, archive_take_t take, void *userdata)
{
	struct walk walk = { selection, take, userdata };

	return archive_walk(selection->archive, from, to, take_wanted, &walk);
}
