/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Answers questions about samples, until the profiler is a process of its own that does it: each in a child of the
 * daemon (work-child.h), one at a time.
 */

#include "counting/world/world.h"
#include "web/api/source.h"

#include <systemd/sd-event.h>

struct answerer;

/* All are borrowed. The CPU time of the children is added to *cpu_ns. -ENOMEM. */
int answerer_new(struct answerer **ret, sd_event *loop, struct world *world, uint64_t *cpu_ns);
/* Kills a child that is at work. */
struct answerer *answerer_free(struct answerer *answerer);
DEFINE_CLEANUP(struct answerer *, answerer_free)

/* As in struct web_source. */
int answerer_ask(struct answerer *answerer, const struct profile_question *question, web_answered_t answered,
		 void *asker, struct reason *why);
void answerer_cancel(struct answerer *answerer);
