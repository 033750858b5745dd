/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Reports of the running daemon, to the log and, as STATUS=, to systemd. The events' states, the status line and
 * recurring problems are remembered, so that only changes are reported.
 *
 * An event is reported when it begins or ceases to be counted, in some cgroups too; events with the same reason share a
 * line. That it ceases is reported once a minute at most.
 */

#include "base/util/log.h"
#include "counting/world/world.h"
#include "service/profiles/profiles.h"

/* Recurring news, each remembered apart from the others. */
enum report_topic {
	REPORT_CGROUPS, /* the tree could not be read */
	REPORT_CPUS,	/* CPUs and the sysctl have changed */
	REPORT_MOUNTS,
	REPORT_NAMES, /* of containers can't be had */
	_REPORT_TOPIC_MAX,
};

struct report;

/* -ENOMEM. */
int report_new(struct report **ret);
struct report *report_free(struct report *report);
DEFINE_CLEANUP(struct report *, report_free)

/* Logs what the config has and nothing uses, and what the machine lacks: PMUs, CPUs, cgroups. Not remembered: for a
 * start or a reload. */
void report_machine(const struct world *world);

/* Logs events whose state has changed, and rules of captures that are not evaluated, and sends STATUS= where it has
 * changed. */
void report_states(struct report *report, const struct world *world, const struct profiles *profiles);
/* Logs the status for the first time, when all cgroups found at the start have been opened. */
void report_opened(const struct report *report);

/* Logs cgroups that are left out, or can't be watched or followed, and when that is over. */
void report_tree(struct report *report, const struct world *world);

/* r is negative where not everything could be saved for the next start; logs that, and when it is over. */
void report_saved(struct report *report, int r);

/* Logs the sentence, if there is one, unless it was the last of its topic within a minute. */
void report_news(struct report *report, enum report_topic topic, int priority, const struct reason *news);

/* After a reload: the states of all events, or the status, are reported again. */
void report_forget_states(struct report *report);
void report_forget_status(struct report *report);
