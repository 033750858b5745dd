/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * PMU/TERMS/MODIFIERS. PMU is a PMU's name, or that of several instances without their numbers, with or without
 * "uncore_" in front; the event is added on each of them that has it.
 */

#include "counting/event/catalog/term.h"
#include "counting/event/parser.h"

/* text is a copy that is cut up. */
int event_parse_dynamic(struct event_parser *parser, char *text);

/* Adds the event that the terms make on this PMU. -ENOENT, with the sentence in parser->missing, if the PMU has no
 * event of that name, which another machine's may have. */
int event_add_terms(struct event_parser *parser, const struct pmu *pmu, const struct term_list *terms);
