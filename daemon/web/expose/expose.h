/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A snapshot in a format: the Prometheus text format, OpenMetrics, the protobuf format, and JSON.
 *
 * One selection from the snapshot (walk.h) has the filters and the order, and there is a writer for each format.
 * Everything here is pure: from a snapshot to a buffer.
 *
 * Functions append to `out` and return 0. On failure they release `out` and return -ENOMEM, -EFBIG at the bound of the
 * buffer, or -E2BIG for a query whose globs would take too long to match.
 */

#include "base/util/buf.h"
#include "base/util/moment.h"
#include "counting/snapshot/machine-info.h"
#include "counting/snapshot/snapshot.h"

/* Selects a part of a snapshot. Zeroed: everything. Strings are borrowed. */
struct expose_query {
	bool without[_SCOPE_MAX]; /* scopes to leave out */
	bool without_self;	  /* of text formats: leaves out the daemon's own metrics */
	const char *cgroup;	  /* glob on the label of cgroups; CPU rows are not affected */
	bool leaves;		  /* of cgroups, only those without others below them; CPU rows are not affected */
	const char *event;	  /* glob on the metric's name or on the event's text */
	const char *sort;	  /* a metric's name or an event's text: rows are sorted by falling rate, then by total,
				   * unmeasured ones last */
	size_t limit;		  /* rows in each scope; 0: all */
	struct moment from, to;	  /* of the past alone, where now is the last reading; none: no bound */
	uint64_t now;		  /* CLOCK_MONOTONIC ns, to show the snapshot's age; 0: the age is not shown */
};

/* Does a scope that the query selects have an event with that name, as `sort` takes it? */
bool expose_has_event(const struct snapshot *snapshot, const struct expose_query *query, const char *name);

/* A snapshot in the Prometheus text format 0.0.4, and in OpenMetrics 1.0.0. query NULL: everything. */
int expose_prometheus(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query);
int expose_openmetrics(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query);
/* The same in the protobuf format (protobuf-format.c). */
int expose_protobuf(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query);

/* The documents of /api/v1/snapshot, /api/v1/events, /api/v1/cgroups and /api/v1/status. */
int expose_json_snapshot(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query);
int expose_json_events(struct buf *out, const struct snapshot *snapshot);
int expose_json_cgroups(struct buf *out, const struct snapshot *snapshot);
/* no_profiles: why some events are not sampled; "": nothing is wrong. */
int expose_json_status(struct buf *out, const struct snapshot *snapshot, const struct machine_info *info,
		       const char *no_profiles);
