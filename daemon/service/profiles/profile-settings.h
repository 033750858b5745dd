/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The profiler's settings, from the config and the machine: cpu-clock, and the event of each [profile "NAME"], with why
 * it can't be sampled here: the machine lacks it, or it opens and does not count (counting/event/firing.h).
 */

#include "base/config/config.h"
#include "base/util/async-close.h"
#include "base/util/cpulist.h"
#include "counting/event/env.h"
#include "counting/event/event.h"
#include "profiler/protocol.h"

/* -EINVAL with FILE:LINE in why: an event of a [profile "NAME"] is none on any machine; -ENOMEM. */
int profile_settings_check(const struct config *config, const struct event_env *env, struct reason *why);

/* With profiles off there is no event. closer closes what is slow to close. Errors as above. */
int profile_settings_make(struct profiler_settings *ret, const struct config *config, const struct cpulist *cpus,
			  const struct event_env *env, struct async_close *closer, struct reason *why);

/* The events that are sampled under this name, to be released; an empty list: there are none. Errors as above. */
int profile_settings_events(struct event_list *ret, const struct config *config, const struct event_env *env,
			    const char *name, struct reason *why);
