/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The samples that a question is about: those of an event, of some cgroups and commands, in a stretch of time.
 *
 * Event, cgroup and command are looked at once for each context that has samples in the stretch, and not for each
 * sample.
 */

#include "base/util/glob.h"
#include "profiler/archive/archive.h"

struct selection {
	const struct archive *archive;
	const char *event;
	bool of_cgroups, of_commands;
	bool below;		     /* a cgroup is wanted also if one above it matches */
	struct glob cgroup, command; /* in use, where there are such */
	unsigned char *contexts;     /* by number: not looked at yet, wanted, or not wanted */
};

/* event: the archive's name. cgroup, command: globs, or NULL for all; below: cgroups below those that match are wanted,
 * too. All are borrowed, and the archive must not change until the selection is released. -ENOMEM. */
int selection_init(struct selection *ret, const struct archive *archive, const char *event, const char *cgroup,
		   bool below, const char *command);
void selection_release(struct selection *selection);

/* Is there a sample of the context in a stretch that was walked? */
bool selection_has(const struct selection *selection, uint32_t context);

/* Calls take() for each sample in [from, to) (CLOCK_MONOTONIC ns): a sample is of one of two neighbouring stretches.
 * What take() returned, if that is less than 0; -E2BIG: the globs take too long. */
int selection_walk(struct selection *selection, uint64_t from, uint64_t to, archive_take_t take, void *userdata);
