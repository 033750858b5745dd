/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A snapshot as text: Prometheus's exposition format, OpenMetrics and JSON.
 *
 * There is one walk over the numbers of a snapshot (walk.h), which knows the filters and the order, and
 * a writer per format. Everything here is pure: from a snapshot to a buffer.
 *
 * All write into a struct buf and return 0, or -ENOMEM (the buffer's failure) with the buffer released; of a query
 * whose globs would take too long with the names there are, -E2BIG.
 */

#include "snapshot/about.h"
#include "snapshot/snapshot.h"
#include "util/buf.h"

/* What part of a snapshot is asked for. Zeroed: everything. Strings are borrowed. */
struct expose_query {
	bool without[_SCOPE_MAX]; /* scopes left out */
	const char *cgroup;	  /* glob on the label; leaves CPU rows alone */
	const char *event;	  /* glob on the metric name, or on the event's text */
	const char *sort;	  /* metric name, or the event's text: rows by falling rate, then total; unmeasured
				   * ones last */
	size_t limit;		  /* rows per scope; 0: all */
	uint64_t now;		  /* CLOCK_MONOTONIC ns, for the snapshot's age; 0: no age */
};

/* Is there an event of that name (as in `sort`) in a scope that query asks for? */
bool expose_has_event(const struct snapshot *snapshot, const struct expose_query *query, const char *name);

/* The whole snapshot in Prometheus's text format 0.0.4, and in OpenMetrics 1.0.0. */
int expose_prometheus(struct buf *out, const struct snapshot *snapshot);
int expose_openmetrics(struct buf *out, const struct snapshot *snapshot);

/* /api/v1/snapshot, /api/v1/events, /api/v1/cgroups, /api/v1/status */
int expose_json_snapshot(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query);
int expose_json_events(struct buf *out, const struct snapshot *snapshot);
int expose_json_cgroups(struct buf *out, const struct snapshot *snapshot);
int expose_json_status(struct buf *out, const struct snapshot *snapshot, const struct about *about);
