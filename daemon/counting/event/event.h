/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An event: a thing that can be counted, apart from where and when. It is a perf_event_attr with a name and a unit, and
 * with the CPUs it can be counted on. parse.h makes events of texts.
 */

#include "base/host/event-attr.h"
#include "base/util/buf.h"
#include "base/util/cpulist.h"
#include "counting/event/unit.h"

#include <stdbool.h>
#include <stdint.h>

struct event {
	char *text;   /* as written, without the label: "cycles:u" */
	char *metric; /* the name in metrics and JSON: "cycles_user", or the label given */
	char *pmu;    /* the PMU's name in sysfs, or "cpu", "software", "tracepoint", "raw", … */
	bool no_pmu;  /* a core PMU's event, but sysfs has no core PMU: the name in `pmu` is made up */
	bool by_pmu;  /* the text makes several events: series carry the label `pmu` */

	/* type, config*, exclude_*, pinned, … and size; read_format and the like are not set. */
	struct perf_event_attr attr;
	uint64_t config3; /* Linux 6.3; event_attr() puts it behind attr */
	double scale;	  /* total = count × scale, in the unit */
	enum event_unit unit;

	bool host_only; /* guests are excluded because the text asks for it (H), not by perf's habit */
	bool steady;	/* counts all the time on a CPU that is not idle: cycles, instructions, … */

	/* The CPUs it can be counted on. nr == 0: every CPU. */
	struct cpulist cpus;
	bool uncore; /* a device's event: on `cpus` only, never for a cgroup */

	/* Of a tracepoint or a probe: the argument of PERF_EVENT_IOC_SET_FILTER, in the syntax of the kernel's
	 * Documentation/trace/events.rst. NULL: none. */
	char *filter;

	/* The string that attr.config1 has to point to: the function of a kprobe, the path of a uprobe's file; NULL for
	 * other events. event_attr() sets the pointer; in `attr` it stays 0, so that two events can be compared. */
	char *probe;
	/* The uprobe's file: the kernel's probe stays with the inode, even if another file gets the path. */
	uint64_t probe_dev, probe_ino;

	/* In the kernel's software context: software, tracepoint, breakpoint, uprobe, kprobe and msr events. They are
	 * never multiplexed, so that their counts need no scaling, and can join any group. */
	bool software;

	int absent;	  /* 0, or why this machine lacks it: -ENOENT, -EACCES, -ENODEV, … (parse.h) */
	char *why_absent; /* the sentence; also set if the event is kept */
	bool retained; /* it can't be looked up now, and is counted as it was found before (session_retain_events()) */
};

struct event_list {
	struct event *events;
	size_t nr;
};

/* Appends the name of its series: metric, with the unit as its last word, once ("task_clock_seconds"). */
void event_series_name(struct buf *out, const struct event *event);

/* Appends what people know it by: its text, with the PMU where the text makes several events ("cycles (cpu_core)"). */
void event_title(struct buf *out, const struct event *event);

/* The argument of perf_event_open(2) for the event. Its size is the larger one only if config3 is used: an older kernel
 * refuses that (E2BIG). It may point into the event, and must not outlive it. */
void event_attr(union event_attr *ret, const struct event *event);

/* Do they count the same, under the same name? */
bool event_equal(const struct event *a, const struct event *b);

/* Does the kernel take tens of milliseconds to close its last fd? It does for a tracepoint, and for any probe. */
bool event_is_slow_to_close(const struct event *event);

void event_release(struct event *event);
void event_list_release(struct event_list *list);
