/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Stands in for the service: a snapshot and a machine that never change, and switches for what can go wrong.
 */

#include "profiler/capture/captures.h"
#include "web/http/web.h"

#include <jansson.h>

/* Stops whoever answers about profiles, which may be in a child: in memory that processes share. */
struct fake_gate {
	_Atomic unsigned entered; /* times */
	_Atomic bool open;	  /* they go on */
	_Atomic unsigned through; /* so many go on all the same */
	_Atomic bool deadly;	  /* … and die */
};

struct fake_source {
	struct web_source source;
	struct snapshot *snapshot;
	int snapshot_error;		   /* what asking for it returns; 0: it is there */
	struct archive *archive;	   /* empty, for the test to fill */
	int profile_error;		   /* what asking for a profile returns */
	struct fake_gate *gate;		   /* NULL: there is none */
	struct captures captures;	   /* none, for the test to add */
	struct capture_values_list values; /* none */
	struct history history;		   /* empty */
	struct clock_steps clock;	   /* read once */
	const char *saved;		   /* the id of a capture on disk; NULL: there is none */
	struct capture_rule_info rules[2];
	size_t nr_rules;
	bool ready;
	unsigned nr_snapshots, nr_scraped, nr_written, nr_profiles, nr_updates; /* calls */

	struct pmu_catalogue pmus;
	struct event_env env;
	struct privilege privilege;
	struct host_identity identity;
	struct cpulist cpus;
	struct machine_info info;
	struct web_stats stats;
};

/* Takes the snapshot over. Version "1.2.3", no PMUs, no cgroup mount; ready. */
struct fake_source *fake_source_new(struct snapshot *snapshot);
void fake_source_free(struct fake_source *fake);

/* The body of what its route answers, as a text to be freed. The status is as expected, and the type, unless that is
 * NULL. */
char *ask_route(struct fake_source *fake, const char *target, unsigned status, const char *type);
json_t *ask_route_json(struct fake_source *fake, const char *target);
