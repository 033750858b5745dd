/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * An event: what can be counted, apart from where and when.
 *
 * Text in perf's syntax is turned into a perf_event_attr with a name and a unit:
 *
 *   [LABEL=]EVENT[:MODIFIERS]
 *   EVENT: a generic hardware, software or hardware cache event by name (tables.h) | rNNN |
 *          pmu/event/ | pmu/term=value,…/ | an event's name in a core PMU's sysfs |
 *          a name that libpfm knows (pfm.h) |
 *          subsystem:tracepoint[/filter='…'/] | mem:ADDRESS[/LENGTH][:ACCESS] |
 *          uprobe:/FILE:PLACE[/filter='…'/] | uretprobe:… | kprobe:PLACE[/filter='…'/] | kretprobe:…
 *   ADDRESS: a number, or SYMBOL[+OFFSET] of the kernel; ACCESS: r, w and rw, or x
 *   PLACE: FUNCTION[+OFFSET], or a number: the offset in the file, the address in the kernel
 *
 * Single quotes hold what would be taken for syntax (quote.h): around a filter, a term's value, a FILE or FUNCTION
 * with odd characters. A list of events is split at commas, but not at those which are quoted, nor between the two
 * slashes around terms. The slashes in mem:, uprobe: and uretprobe: are parts of ADDRESS/LENGTH and of paths, and
 * never keep a comma from splitting.
 *
 * One text can be several events: on a hybrid machine "cycles" is one event on each core PMU, told
 * apart by the label `pmu`; so is "uncore_imc/…/" on uncore_imc_0, uncore_imc_1, …
 *
 * Two kinds of no are kept apart. What can't be an event on any machine (a syntax error, a name nobody
 * knows) is an error of whoever wrote it. What is well formed but not on this machine (no such PMU, a PMU without
 * an event of that name, no such tracepoint, tracefs not readable) is an event all the same, with `absent` set to a
 * negative errno and the sentence in `why_absent`: a fleet shares one config, and the event's state says why it
 * is not counted here.
 */

#include "event/pmu.h"
#include "event/unit.h"
#include "util/buf.h"
#include "util/reason.h"

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

struct event {
	char *text;   /* as written, without the label: "cycles:u" */
	char *metric; /* the name in metrics and JSON: "cycles_user", or the label given */
	char *pmu;    /* the PMU's name in sysfs, or "cpu", "software", "tracepoint", "raw", … */
	bool no_pmu;  /* a core PMU's, where sysfs has none: its name is made up */
	bool by_pmu;  /* the text stands for several events: series carry the label `pmu` */

	struct perf_event_attr attr; /* type, config*, exclude_*, pinned …; size set; nothing of reading */
	uint64_t config3;	     /* event_attr() puts it behind attr */
	double scale;		     /* total = count × scale, in the unit */
	enum event_unit unit;

	bool host_only; /* guests are left out because the text says so (H), not by perf's habit */
	bool steady;	/* counts all the time on a CPU that runs anything: cycles, instructions … */

	/* Where it can be counted. nr == 0: on every CPU. */
	struct cpulist cpus;
	bool uncore; /* a device's event: on `cpus` only, never for a cgroup */

	/* Of a tracepoint or a probe: PERF_EVENT_IOC_SET_FILTER is to be given it, in the words of the kernel's
	 * Documentation/trace/events.rst. NULL: none. */
	char *filter;

	/* What attr.config1 has to point to: the function of a kprobe, the path of a uprobe's file; NULL for
	 * other events. event_attr() puts it there; in `attr` it stays 0, so that two can be compared. */
	char *probe;
	/* The uprobe's file: the kernel's probe stays with it, whatever the path comes to stand for. */
	uint64_t probe_dev, probe_ino;

	/* In the kernel's software context: software, tracepoint, breakpoint, uprobe, kprobe, msr events.
	 * They are never multiplexed, so that their plain delta is exact, and can join any group. */
	bool software;

	int absent; /* 0, or why this machine lacks it: -ENOENT, -EACCES, -ENODEV, … */
	char *why_absent; /* the sentence; also where it is not absent since it is kept */
	bool kept; /* it can't be looked up now, and is counted on as it was found before (count_keep_events()) */
};

/* What parsing looks at; owned by the caller, read only. */
struct event_env {
	const struct pmu_catalogue *pmus;
	const char *tracefs;	      /* its root, or a list's (tracefs.h), or NULL where not mounted */
	const char *tracefs_problem;  /* then: the sentence, or NULL */
	const char *kallsyms;	      /* "/proc/kallsyms"; NULL: there is none */
};

struct event_list {
	struct event *events;
	size_t nr;
};

/* perf_event_attr as of Linux 6.3, which has config3, whatever the headers know that this is built with. */
union event_attr {
	struct perf_event_attr attr;
	struct {
		uint8_t before[128]; /* PERF_ATTR_SIZE_VER7 */
		uint64_t config3;
	};
};

/* Adds the name its series share: metric, with the unit at its end ("task_clock_seconds"), which is there once. */
void event_series_name(struct buf *out, const struct event *event);

/* What perf_event_open(2) is to be given for the event, size included: the larger one only where config3 is
 * used, which an older kernel then refuses (E2BIG). Not to outlive the event, which it may point into. */
void event_attr(union event_attr *ret, const struct event *event);

/* Do they count the same, under the same name? */
bool event_equal(const struct event *a, const struct event *b);

/* Closing its last fd takes the kernel tens of milliseconds: a tracepoint's, or any of a probe's. */
bool event_is_slow_to_close(const struct event *event);

void event_release(struct event *event);
void event_list_release(struct event_list *list);

/*
 * Parses one event and appends what it stands for to list. 0; -EINVAL (syntax, unknown name, unknown
 * term, value out of range) with the sentence in why; -ENOMEM. The list is untouched on failure.
 */
int event_parse(struct event_list *list, const struct event_env *env, const char *text, struct reason *why);

/* Splits "a, pmu/x=1,y=2/:u, label=b" by the rule above, in place: *cursor moves on, the
 * return value is the next part without white space around it, or NULL at the end. An empty part is
 * returned as "" (and is a syntax error for event_parse()). */
char *event_next_text(char **cursor);

/* Calls each() for every event this machine can name, PMU by PMU: generic and software events, cache
 * events, PMU events, the forms of breakpoints and probes, tracepoints. Hardware and cache events are only there
 * where a core PMU is, once for each, whatever it has of them. `name` is what a config would say; unit is "" or a
 * unit's name. each() returning other than 0 ends the walk with that value. */
struct event_listing {
	const char *kind; /* "Hardware event", "Hardware cache event", "Software event", "Kernel PMU event",
			   * "Hardware breakpoint", "Kernel probe", "User probe", "libpfm event", "Tracepoint" */
	const char *pmu;  /* "cpu", "software", "msr", … */
	const char *name;
	const char *unit;
	bool is_generic; /* of the kernel's own names for what PMUs count: this one may lack it */
};
int event_walk(const struct event_env *env,
	       int (*each)(void *userdata, const struct event_listing *listing), void *userdata);
