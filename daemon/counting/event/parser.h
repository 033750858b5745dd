/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * One text on its way to events. event_parse() (parse.h) makes a parser; the parser of the text's kind (named, dynamic,
 * breakpoint, probes, pfm-event) adds its events to the parser's list; then all of them go into the caller's list at
 * once.
 *
 * Functions return 0 or a negative errno. -EINVAL: the text can't be right, with the sentence in parser->why. -ENOMEM.
 */

#include "counting/event/env.h"
#include "counting/event/event.h"
#include "counting/event/modifier.h"

struct event_parser {
	const struct event_env *env;
	const struct pmu_catalogue *pmus; /* never NULL */
	const char *text;		  /* without the label */
	char *label;			  /* the metric's name if one was given, or NULL */
	char *name;			  /* else the metric's name is made from this: "context-switches", "msr/tsc" */
	struct modifier modifier;
	char *filter, *probe; /* as in struct event */
	struct event_list list;
	struct reason missing; /* why a PMU of this machine lacks the event */
	struct reason *why;
};

/* Writes "event 'TEXT': …" into why and returns -EINVAL. */
int event_parser_refuse(struct event_parser *parser, const char *format, ...) _printf_(2, 3);

/* Sets the text that the metric's name is made from if no label is given; quotes are left out. */
int event_parser_set_name(struct event_parser *parser, const char *format, ...) _printf_(2, 3);

/* Cuts off the parts behind the name of a tracepoint or a probe's place: "/filter='…'/", which goes into the parser,
 * and modifiers; *ret_modifier is NULL if there are none. */
int event_parser_cut_tail(struct event_parser *parser, char *name, char **ret_modifier);

/* Cuts "+OFFSET" off a symbol; *ret is 0 if there is none. */
int event_parser_cut_offset(struct event_parser *parser, char *symbol, uint64_t *ret);

/* Parses the modifiers, of which there has to be one at least. */
int event_parser_set_modifier(struct event_parser *parser, const char *text);

/* Adds an event: `like` (type, config, scale, unit) with the parser's text and modifiers, on pmu's CPUs. NULL: on all
 * CPUs, with fallback as the name of its PMU. */
int event_parser_add(struct event_parser *parser, const struct event *like, const struct pmu *pmu,
		     const char *fallback);

/* Adds an event that this machine lacks, with why->text as the sentence. */
int event_parser_add_absent(struct event_parser *parser, const struct event *like, const char *pmu, int absent,
			    const struct reason *why);

/* The type of an event whose PMU is missing: no PMU has it, while 0 would be PERF_TYPE_HARDWARE. */
#define NO_PMU_TYPE UINT32_MAX

/* Adds an event that this machine lacks, with no more than the name of its PMU. */
int event_parser_add_missing(struct event_parser *parser, const char *pmu, int absent, const struct reason *why);
