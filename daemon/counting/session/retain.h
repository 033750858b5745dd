/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Events that can't be looked up now and are open. A tracepoint's number is known by tracefs alone, and a symbol's
 * address by kallsyms; what counts needs neither any more. While an event is open the kernel gives its number to no
 * other.
 */

#include "counting/session/engines.h"

/* Of the groups of a plan to come: an event that the engines have open is not absent, but stays what it was found to
 * be. */
void retain_events(const struct engines *engines, struct group_list groups[static _SCOPE_MAX]);
