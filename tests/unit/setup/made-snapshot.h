/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Snapshots made by hand, with whatever numbers and names a test wants, for the rooms that only read
 * them. They are on the heap as snapshot_new() makes them, and snapshot_unref() frees all of one. Running
 * out of memory ends the test.
 */

#include "counting/snapshot/snapshot.h"

#define MADE_NO_SET (-1)

/* An event of a table that ends with .text NULL. What is 0 or NULL is what most events have. */
struct made_event {
	enum scope scope;
	const char *group;
	const char *text;
	const char *metric; /* NULL: text with '_' for what is no letter or digit */
	const char *pmu;    /* NULL: "cpu" */
	bool by_pmu;
	uint32_t type;
	uint64_t config;
	bool user; /* counts user mode only */
	bool uncore;
	double scale; /* 0: 1 */
	enum event_unit unit;
	int set; /* number of its set; MADE_NO_SET: not counted */
	enum event_state state;
	const char *why;
	int absent;
};

/* With columns, plan and sets (on CPUs 0 and 1), and no rows. */
struct snapshot *made_snapshot(const struct made_event *events);

/* Adds a row: a CPU where path is NULL. Returns its number. Cells are not measured, rates and shares NAN. */
size_t made_row(struct snapshot *snapshot, enum scope scope, int cpu, const char *path, uint64_t id);

/* Sets a cell, which is then measured, and of which no more is known. */
void made_cell(struct snapshot *snapshot, enum scope scope, size_t row, size_t column, uint64_t total, double rate);
/* What more is known of it. */
void made_trend(struct snapshot *snapshot, enum scope scope, size_t row, size_t column, float average_1m,
		float average_5m, float highest);
void made_times(struct snapshot *snapshot, enum scope scope, size_t row, size_t set, uint64_t enabled, uint64_t running,
		double share);

/* Adds a cgroup of the tree. */
void made_cgroup(struct snapshot *snapshot, const char *path, uint64_t id, enum cgroup_status status, const char *why);
