/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Events whose text has no slash before a ':': NAME[:MODIFIERS] and subsystem:tracepoint.
 *
 * A name is looked for in this order: generic and software events, events in the sysfs of PMUs (core PMUs first), rNNN,
 * libpfm's names, tracepoints. A name that none of them has, but in the style of CPU vendors, becomes an event that
 * this machine lacks.
 */

#include "counting/event/parser.h"

/* text is a copy that is cut up. */
int event_parse_named(struct event_parser *parser, char *text);
