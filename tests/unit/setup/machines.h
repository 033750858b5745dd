/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What /sys/bus/event_source/devices looks like on machines that are not at hand, as tables for tree.h.
 * The files hold what Linux's drivers write for them.
 */

#include "counting/event/parse.h"
#include "setup/tree.h"

extern const struct tree_file machine_intel[];	   /* a client with uncore and RAPL */
extern const struct tree_file machine_hybrid[];	   /* P-cores (CPUs 0-15) and E-cores (16-23), uncore */
extern const struct tree_file machine_server[];	   /* two sockets (CPUs 0-15, 16-31) with uncore and RAPL */
extern const struct tree_file machine_zen[];	   /* two L3 complexes, data fabric, IBS */
extern const struct tree_file machine_arm[];	   /* one core PMU; DSU, two SMMUs */
extern const struct tree_file machine_biglittle[]; /* Cortex-A53 (0-3) and A72 (4-5) */
extern const struct tree_file machine_power[];	   /* events with parameters */

/* All of them by name, ended by an entry without; NULL for a name that none has. */
struct machine_kind {
	const char *name;
	const struct tree_file *files;
};
extern const struct machine_kind machine_kinds[];
const struct machine_kind *machine_kind_find(const char *name);

/* A tracefs with a few tracepoints. */
extern const struct tree_file machine_tracefs[];

/* A machine that events can be parsed on. As in tree.h, what goes wrong in making it ends the program. */
struct machine {
	char *sysfs, *tracefs;
	struct pmu_catalogue *pmus;
	struct event_env env;
};

struct machine machine_new(const struct tree_file *files);
void machine_release(struct machine *machine);

/* The events of a text that is known to be good. */
struct event_list machine_parse(const struct machine *machine, const char *text);
