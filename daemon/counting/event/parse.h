/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Makes events of texts in perf's syntax:
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
 * Single quotes enclose characters that would be syntax (quote.h): a filter, a term's value, a FILE or FUNCTION with
 * odd characters. A list of events is split at commas, except quoted ones, and those between the two slashes around
 * terms. The slashes in mem:, uprobe: and uretprobe: are parts of ADDRESS/LENGTH and of paths, and protect no comma.
 *
 * One text can make several events, distinguished by the label `pmu`: on a hybrid machine "cycles" is one event on each
 * core PMU; likewise "uncore_imc/…/" on uncore_imc_0, uncore_imc_1, …
 *
 * A wrong text and an absent event are two things. A text that is no event on any machine (a syntax error, an unknown
 * name) is refused. A text that is well formed, but not available on this machine (no such PMU, a PMU without an event
 * of that name, no such tracepoint, tracefs not readable) makes an event with `absent` set to a negative errno and the
 * sentence in `why_absent`: a fleet shares one config, and the event's state tells why it is not counted here.
 */

#include "base/util/reason.h"
#include "counting/event/env.h"
#include "counting/event/event.h"

/* Parses one event and appends the events that it makes to list. -EINVAL (syntax, unknown name, unknown term, value out
 * of range) with the sentence in why; -ENOMEM. The list is unchanged on failure. */
int event_parse(struct event_list *list, const struct event_env *env, const char *text, struct reason *why);

/* Splits "a, pmu/x=1,y=2/:u, label=b" by the rule above, in place. Returns the next part, without white space around
 * it, and moves *cursor on; NULL at the end. An empty part is returned as "" (which event_parse() refuses). */
char *event_next_text(char **cursor);
