/* SPDX-License-Identifier: MIT */
#pragma once

/* Events by the names of CPU vendors, which libpfm knows (catalog/pfm.h). */

#include "counting/event/catalog/pfm.h"
#include "counting/event/parser.h"

/* Parses the whole text. -ENOENT if libpfm has no event of that name on this machine. */
int event_parse_pfm(struct event_parser *parser);

/* For a name that was refused: one in the style of CPU vendors may be another CPU's, and is added as an event that this
 * machine lacks. -EINVAL, without a sentence, if it is in no such style. */
int event_parse_vendors(struct event_parser *parser);

/* Appends a hint to why (NULL: none) if the text looks like one of libpfm's names; returns r. */
int event_hint_pfm(const struct event_parser *parser, int r, struct reason *why);

/* The event of libpfm's encoding, in the unit that sysfs has for it. *ret_pmu is the PMU of that type; NULL for a raw
 * event, which every core PMU counts. -ENOENT if no PMU of the machine has it, -ENOMEM. */
int event_of_pfm(struct event *ret, const struct pmu **ret_pmu, const struct pmu_catalogue *pmus,
		 const struct pfm_encoding *encoding);
