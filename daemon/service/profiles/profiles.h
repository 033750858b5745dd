/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The daemon's side of profiles: tells the profiler what is sampled, and which cgroups there are; puts questions to it;
 * evaluates the rules of captures, and orders captures. All of it is of the world as it is now (counting/world). Where
 * there is no profiler, or it has just ended, everything is told again to the next one.
 */

#include "counting/alarm/capture-values.h"
#include "counting/world/world.h"
#include "profiler/protocol.h"
#include "service/profiles/profiler-keeper.h"
#include "web/api/source.h"

#include <systemd/sd-event.h>

struct profiles;

/* Of the world, which is borrowed, as is the keeper. sampled: session_sampled() of the session before this one.
 * Negative errno. */
int profiles_new(struct profiles **ret, sd_event *loop, struct world *world, struct profiler_keeper *keeper,
		 uint64_t sampled);
struct profiles *profiles_free(struct profiles *profiles);
DEFINE_CLEANUP(struct profiles *, profiles_free)

/* Tells the profiler what has changed in the world. Costs little where nothing has. */
void profiles_follow(struct profiles *profiles);
/* The end of an interval: evaluates rules. */
void profiles_tick(struct profiles *profiles);

/* Before the loop runs: the first profiler is to go on with these samples (or NULL), which are taken over. */
void profiles_go_on(struct profiles *profiles, struct blob *samples);

/* At the stop: the profiler saves captures, and hands over its samples, which are returned; for so many ns at most.
 * NULL: it did not. The world is told until when was sampled. */
struct blob *profiles_leave(struct profiles *profiles, uint64_t ns);

/* --- questions to the profiler, as of struct web_source */

int profiles_ask(struct profiles *profiles, const struct profile_question *question, web_answered_t answered,
		 void *asker, struct reason *why);
void profiles_cancel(struct profiles *profiles);

/* --- how it is */

/* Has the profiler opened its rings, or found out that it can't; or are profiles off? */
bool profiles_are_in_force(const struct profiles *profiles);
/* The same, or has the first profiler had five seconds for it since this was first asked? Others do without it then. */
bool profiles_have_started(struct profiles *profiles);
/* Is something sampled? */
bool profiles_are_on(const struct profiles *profiles);
/* Why events are not sampled although they should be, or there is no profiler; "": nothing is wrong. */
const char *profiles_problem(const struct profiles *profiles);
/* [profile "NAME"] sections of which nothing is sampled although profiles are on. */
size_t profiles_nr_lost(const struct profiles *profiles);
void profiles_stats(const struct profiles *profiles, struct profile_stats *ret);

/* Number i of the rules that make captures; false after the last. */
bool profiles_rule(const struct profiles *profiles, size_t i, struct capture_rule_info *ret);
