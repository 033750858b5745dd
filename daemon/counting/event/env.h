/* SPDX-License-Identifier: MIT */
#pragma once

/* The machine, as texts of events are looked up on it. */

#include "counting/event/catalog/pmu.h"

/* Owned by the caller, read only. */
struct event_env {
	const struct pmu_catalogue *pmus;
	const char *tracefs;	     /* its root, or a list in its place (tracefs.h); NULL: not mounted */
	const char *tracefs_problem; /* the sentence then, or NULL */
	const char *kallsyms;	     /* "/proc/kallsyms"; NULL: there is none */
};
