/* SPDX-License-Identifier: MIT */
#pragma once

/* mem:ADDRESS[/LENGTH][:ACCESS]: accesses that the CPU's debug registers watch for. */

#include "counting/event/parser.h"

/* text begins behind "mem:", and is a copy that is cut up. */
int event_parse_breakpoint(struct event_parser *parser, char *text);
