/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One text on its way to events: event_parse() makes a draft, one of the two readers of syntax below adds
 * what the text stands for, and then all of it goes into the caller's list at once.
 */

#include "event/event.h"
#include "event/modifier.h"
#include "event/tables.h"

struct draft {
	const struct event_env *env;
	const struct pmu_catalogue *pmus; /* never NULL */
	const char *text;		  /* without the label */
	char *label;			  /* the metric's name where it was given, or NULL */
	char *name;			  /* else what it is made from: "context-switches", "msr/tsc" */
	struct modifier modifier;
	struct event_list list;
	struct reason *why;
};

/* Writes "event 'TEXT': …" into why and returns -EINVAL. */
int draft_refuse(struct draft *draft, const char *format, ...) _printf_(2, 3);

/* Parses what stands behind the event; "" and ":" are told apart by the caller. */
int draft_set_modifier(struct draft *draft, const char *text);

/* Adds an event: like (type, config, scale, unit) with the draft's text and modifiers. pmu gives the CPUs;
 * NULL: all of them, and fallback is the name that the event's pmu has then. -ENOMEM. */
int draft_add(struct draft *draft, const struct event *like, const struct pmu *pmu, const char *fallback);

/* Adds an event that this machine lacks, with why->text as the sentence. -ENOMEM. */
int draft_add_absent(struct draft *draft, const struct event *like, const char *pmu, int absent,
		     const struct reason *why);

/* Adds what the terms mean to the PMU. -EINVAL, -ENOMEM. */
int draft_add_terms(struct draft *draft, const struct pmu *pmu, const struct term_list *terms);

/* "r1a8" or "r0x1a8"; -EINVAL where it is not of that kind, -ERANGE where it has more than 64 bits. */
int parse_raw(const char *text, uint64_t *ret);

/* The hardware or cache event of that name: type and config, and its canonical name. */
bool generic_hardware(const char *name, struct event *ret, char canonical[static EVENT_CACHE_NAME_MAX]);

/* Names, rNNN and tracepoints: what has no slash. text is a copy that is cut up. -EINVAL, -ENOMEM. */
int draft_named(struct draft *draft, char *text);

/* PMU/TERMS/MODIFIERS: what has one. text is a copy that is cut up. -EINVAL, -ENOMEM. */
int draft_dynamic(struct draft *draft, char *text);
