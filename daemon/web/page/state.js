/* SPDX-License-Identifier: MIT */
/*
 * One fetch of the snapshot an interval, and every few seconds of what changes rarely (events, status). What a table
 * shows is kept in records, one a cgroup; the rows that are in sight are drawn from a pool of elements, whose texts
 * are changed and which are never made anew. Nothing foreign becomes markup: all of it is put into text nodes.
 */
const REVIEW_MS = 5000, PATIENCE_MS = 10000, PAST = 90, LONG_PAST = 180, SPARE = 4;
/* Less than that share of the time is an estimate. */
const WHOLE = 0.995;
const COUNTED = new Set(["ok", "multiplexed"]);
const NAME = { key: "name", kind: "name", label: "cgroup" };

const state = {
	events: { cpu: [], cgroup: [] }, ratios: { cpu: new Set(), cgroup: new Set() }, columns: [NAME],
	machine: [], cpuColumns: [], nrCpus: 1, mapped: load("map"), hasCpuRows: load("cpus") === "rows",
	status: null, before: null,
	rows: new Map(), view: [], folded: new Set(), slots: [], cursor: null, generation: 0, at: 0, cpus: new Map(),
	sort: "cpus_utilized", falling: true, tree: load("view") !== "flat", all: false,
	sorted: false, order: [], arranged: 0, isUnsorted: true, isOver: false, per: load("per") ?? "second",
	choice: load("columns")?.split(" ").filter(Boolean) || null, hidesIdle: load("idle") === "hidden",
	heat: new Map(), leaves: 0, box: { row: 26, height: 0, top: 0 },
	range: 60, past: null, loading: false, charts: { keys: "", list: [] }, crossed: null, wanted: null,
	snapshot: null, interval: 1000, time: 0, paused: false, away: null, restarted: 0, reviewed: 0, busy: false,
	timer: 0,
};
