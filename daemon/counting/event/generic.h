/* SPDX-License-Identifier: MIT */
#pragma once

/* Events that every core PMU may have, under one name: generic hardware events, cache events, and raw ones (rNNN). */

#include "counting/event/parser.h"
#include "counting/event/tables.h"

/* The hardware or cache event of that name: its type and config, and its canonical name. False if there is none. */
bool generic_find_hardware(const char *name, struct event *ret, char canonical[static EVENT_CACHE_NAME_MAX]);

/* "r1a8" or "r0x1a8"; -EINVAL if it has another form, -ERANGE if it has more than 64 bits. */
int generic_parse_raw(const char *text, uint64_t *ret);

/* Adds one event for each core PMU. If the machine has none, adds one event without a PMU, with fallback as the PMU's
 * name. -ENOMEM. */
int generic_add_on_core(struct event_parser *parser, const struct event *like, const char *fallback);
