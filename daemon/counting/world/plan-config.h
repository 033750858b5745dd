/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * From the config to a session: the groups that [cpu] and [cgroup] name are parsed into events, tried on the machine
 * and planned.
 */

#include "base/config/config.h"
#include "base/util/async-close.h"
#include "counting/session/session.h"
#include "counting/world/machine.h"

/*
 * Makes a session of the config on the machine, which has to outlive it. in_force (or NULL) is the session that it is
 * to take over from: events that are open there need not be found by their names again. -EINVAL, with FILE:LINE in why:
 * the config is wrong; -ENOMEM.
 */
int plan_config_session(struct session **ret, const struct config *config, const struct machine *machine,
			const struct session *in_force, struct async_close *closer, struct reason *why);

/* Can an event that the plan could not count be opened on the machine by now? */
bool plan_config_recovers(const struct plan *plan, const struct machine *machine);
