/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The world's members, and functions that its files share. For this room alone.
 */

#include "base/cgroup/container-finder.h"
#include "base/config/config.h"
#include "base/host/busy.h"
#include "base/util/clock-steps.h"
#include "counting/alarm/capture-rules.h"
#include "counting/history/history.h"
#include "counting/snapshot/machine-info.h"
#include "counting/snapshot/snapshot.h"
#include "counting/world/admission.h"
#include "counting/world/machine.h"

/* How often the BPF engine is tried again, which had to be given up. */
#define ENGINE_RETRY_NS 60000000000U

/* A session takes over from another one, in steps. */
struct takeover {
	struct session *from;  /* NULL: it is over */
	struct reload *reload; /* until then, with the machine and config that were in force; or NULL */
	bool has_moved;	       /* all cgroups were moved */
	int result;
	struct reason news; /* world_commit() */
	bool has_news;	    /* that came after the first step, and were not told yet */
};

/* Times are CLOCK_MONOTONIC ns where nothing else is said. */
struct world {
	struct config *config;
	struct machine *machine;
	struct machine_info info;
	struct reason no_crediting; /* world_no_crediting() */
	struct async_close *closer;
	struct session *session;
	struct session *restored; /* from before a restart, until the start */
	struct takeover takeover;
	struct clock_steps clock;
	struct history history;
	const struct capture_rules *rules; /* that snapshots tell of, or NULL */
	struct snapshot *latest;	   /* of the last reading; NULL: outdated, or not made yet */
	uint64_t start_time;		   /* ns since the epoch */
	uint64_t started_at;

	uint64_t generation; /* world_generation() */

	/* Cgroups. */
	struct cgroup_filter filter;
	struct cgroup_tree *tree; /* NULL: no cgroup mount */
	uint64_t nr_trees;	  /* made so far */
	struct admission admission;
	struct container_finder *finder; /* of names */
	struct cgroup_changes changes;

	/* The machine (follow.c). */
	struct cpu_watch cpu_watch;
	struct cpu_busy busy;
	bool cpus_changed;	 /* CPUs have changed, and the config was not applied again since */
	uint64_t cpus_opened_at; /* the last time events were reopened for their sake */
	uint64_t sysctl_retry_at;
	uint64_t suspended;	  /* clock_steps_suspended(), when events were last tried */
	uint64_t engine_retry_at; /* the BPF engine is not looked at before; 0: it had not to be given up */
	uint64_t retried_at;	  /* when failed events, and the tree, were last tried again */

	/* Mounts (mounts.c). */
	bool mounts_changed;	/* mounts have changed, and the config was not applied again since */
	uint64_t mount_lost_at; /* since when the tree waits for its mount; 0: it is there */
	uint64_t mounts_due_at; /* all mounts are not read again before */
	int hierarchy;		/* perf_event's, when they were read (cgroup_perf_hierarchy()) */
};

/* The members that are NULL stay in force as they are. */
struct reload {
	struct machine *machine;
	struct config *config;
	struct session *session;
};

/* Begins what a reload of the config in force would do, on the machine as it is now (world_begin_commit()). 0, and the
 * news so far; or errors as of world_new(). */
int world_reapply(struct world *world, struct reason *why);

/* Works out what world_no_crediting() returns, of the machine and the session in force. */
void world_explain_no_crediting(struct world *world);

/* Reads the clocks, and notes whether they have moved against each other. */
struct clock_times world_note_clocks(struct world *world);

/* Puts machine and config in force, beside the session that is. They are taken over. */
void world_use(struct world *world, struct machine *machine, struct config *config);

/* Makes the tree of the mount in force and reads it; its cgroups wait. Negative errno where there is no tree; 0 with a
 * sentence in why where part of it is missing. */
int world_start_tree(struct world *world, struct reason *why);

/* Before a reload. next: the machine to come, or NULL: the one in force. Another mount of the same tree keeps the tree;
 * a mount of another tree drops it. */
void world_keep_or_drop_tree(struct world *world, const struct machine *next);

/* The session in force takes over from another, which is freed. A sentence in why: totals were lost for want of memory,
 * or CPUs were offline. */
void world_take_over(struct world *world, struct session *from, struct reason *why);

/* A step of about budget ns of the takeover that is under way. */
void world_take_over_some(struct world *world, uint64_t budget);

/* Every ten seconds: tries again whatever could not be opened or watched, in case there is room by now. */
void world_retry(struct world *world);

/* All figures: the caller's own (or NULL) and the world's. */
struct self_stats world_self_stats(const struct world *world, const struct self_stats *own);
