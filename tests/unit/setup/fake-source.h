/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What the manager is to the web room: a snapshot and a machine that never change, and switches for what
 * can go wrong.
 */

#include "web/web.h"

struct fake_source {
	struct web_source source;
	struct snapshot *snapshot;
	int snapshot_error; /* what asking for it returns; 0: it is there */
	bool ready;
	unsigned nr_snapshots, nr_scraped, nr_written; /* calls */

	struct pmu_catalogue pmus;
	struct event_env env;
	struct privilege privilege;
	struct cpulist cpus;
	struct machine_info info;
	struct web_stats stats;
};

/* Takes the snapshot over. Version "1.2.3", no PMUs, no cgroup mount; ready. */
struct fake_source *fake_source_new(struct snapshot *snapshot);
void fake_source_free(struct fake_source *fake);
