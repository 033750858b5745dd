/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One text on its way to events: event_parse() makes a draft, one of the readers of syntax below adds
 * what the text stands for, and then all of it goes into the caller's list at once.
 */

#include "event/event.h"
#include "event/modifier.h"
#include "event/pfm.h"
#include "event/tables.h"

struct draft {
	const struct event_env *env;
	const struct pmu_catalogue *pmus; /* never NULL */
	const char *text;		  /* without the label */
	char *label;			  /* the metric's name where it was given, or NULL */
	char *name;			  /* else what it is made from: "context-switches", "msr/tsc" */
	struct modifier modifier;
	char *filter, *probe; /* as in struct event */
	struct event_list list;
	struct reason missing; /* of what a PMU of this machine lacks */
	struct reason *why;
};

/* Writes "event 'TEXT': …" into why and returns -EINVAL. */
int draft_refuse(struct draft *draft, const char *format, ...) _printf_(2, 3);

/* What the metric is called after where no label is given; quotes are left out. -ENOMEM. */
int draft_set_name(struct draft *draft, const char *format, ...) _printf_(2, 3);

/* Cuts off what follows the name of a tracepoint or a probe's place: "/filter='…'/", which is put into the draft,
 * and modifiers; *modifier is NULL where there are none. -EINVAL, -ENOMEM. */
int draft_cut_tail(struct draft *draft, char *name, char **modifier);

/* Cuts "+OFFSET" off a symbol; 0 where there is none. -EINVAL. */
int draft_cut_offset(struct draft *draft, char *symbol, uint64_t *ret);

/* Parses what stands behind the event; "" and ":" are told apart by the caller. */
int draft_set_modifier(struct draft *draft, const char *text);

/* Adds an event: like (type, config, scale, unit) with the draft's text and modifiers. pmu gives the CPUs;
 * NULL: all of them, and fallback is the name that the event's pmu has then. -ENOMEM. */
int draft_add(struct draft *draft, const struct event *like, const struct pmu *pmu, const char *fallback);

/* Adds an event that this machine lacks, with why->text as the sentence. -ENOMEM. */
int draft_add_absent(struct draft *draft, const struct event *like, const char *pmu, int absent,
		     const struct reason *why);

/* A type that no PMU has: that of an event whose PMU is not there, lest it be taken for PERF_TYPE_HARDWARE. */
#define NO_PMU_TYPE UINT32_MAX

/* Adds such an event, of which no more is known. */
int draft_add_missing(struct draft *draft, const char *pmu, int absent, const struct reason *why);

/* Adds what the terms mean to the PMU. -EINVAL; -ENOENT, with the sentence in draft->missing, where the PMU has no
 * event of that name, which another machine's may have; -ENOMEM. */
int draft_add_terms(struct draft *draft, const struct pmu *pmu, const struct term_list *terms);

/* Adds an event on each core PMU, told which one it is for, or one on none where there is no core PMU, with
 * fallback as its PMU's name. -ENOMEM. */
int draft_add_on_core(struct draft *draft, const struct event *like, const char *fallback);

/* "r1a8" or "r0x1a8"; -EINVAL where it is not of that kind, -ERANGE where it has more than 64 bits. */
int parse_raw(const char *text, uint64_t *ret);

/* The hardware or cache event of that name: type and config, and its canonical name. */
bool generic_hardware(const char *name, struct event *ret, char canonical[static EVENT_CACHE_NAME_MAX]);

/* Names, rNNN and tracepoints: what has no slash before a ':'. text is a copy that is cut up. -EINVAL, -ENOMEM. */
int draft_named(struct draft *draft, char *text);

/* Of a name that was refused: one in the style of CPU vendors may be another CPU's, and becomes an event that this
 * machine lacks. -EINVAL where it is in no such style; -ENOMEM. */
int draft_vendors(struct draft *draft);

/* PMU/TERMS/MODIFIERS: what has one. text is a copy that is cut up. -EINVAL, -ENOMEM. */
int draft_dynamic(struct draft *draft, char *text);

/* A name that libpfm knows (pfm.h). -ENOENT where it does not; -EINVAL, -ENOMEM. */
int draft_pfm(struct draft *draft);

/* Adds to why, where the text looks like a name of libpfm's, what is to be said of that; returns r. */
int draft_hint_pfm(const struct draft *draft, int r, struct reason *why);

/* What libpfm's encoding is on this machine, in the unit that sysfs has for it. *pmu is the PMU of that type, or
 * NULL: for a raw event, that is every core PMU. -ENOENT where no PMU of the machine has it, -ENOMEM. */
int event_from_pfm(struct event *ret, const struct pmu **pmu, const struct pmu_catalogue *pmus,
		   const struct pfm_encoding *encoding);

/* What is told by its beginning, which text is without: mem:, then kprobe: and kretprobe:, then uprobe: and
 * uretprobe:. text is a copy that is cut up. -EINVAL, -ENOMEM. */
int draft_breakpoint(struct draft *draft, char *text);
int draft_kprobe(struct draft *draft, char *text);
int draft_uprobe(struct draft *draft, char *text);
