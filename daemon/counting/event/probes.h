/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Functions of the kernel and of programs, counted at their entry or their return (ret): kprobe:PLACE, kretprobe:PLACE,
 * uprobe:/FILE:PLACE, uretprobe:/FILE:PLACE, through the kernel's PMUs of those names (perf_event_open(2), "kprobe and
 * uprobe").
 */

#include "counting/event/parser.h"

/* text begins behind the prefix, and is a copy that is cut up. */
int event_parse_kprobe(struct event_parser *parser, char *text);
int event_parse_uprobe(struct event_parser *parser, char *text);
