/* SPDX-License-Identifier: MIT */
/* --- asking */

/* The daemon gave no answer that can be used; the message goes on from "perfmond has not answered: ". With the status
 * of an answer and its words, where there is one. */
class Silence extends Error {
	constructor(message, status = 0, words = null) {
		super(message);
		Object.assign(this, { status, words });
	}
}

/* The daemon's paths are below that of the page, which has a slash at its end or, behind a proxy, may have none. The
 * rest of the address is left out: with a password in it, fetch() refuses it. The browser has that already. */
function daemonUrl(path) {
	return location.origin + location.pathname.replace(/\/?$/, "/") + path;
}

async function ask(path) {
	let answer;

	try {
		answer = await fetch(daemonUrl(path),
			{ cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
	} catch (error) {
		throw new Silence(error.name === "TimeoutError" ? "it takes too long" : "it can't be reached");
	}
	if (!answer.ok) {
		const { error } = await answer.json().catch(() => ({}));

		throw new Silence(`it says ${answer.status} ${answer.statusText}`, answer.status, error ?? null);
	}
	try {
		return await answer.json();
	} catch {
		throw new Silence("its answer was cut short");
	}
}

/* What is configured, however it is counted at the moment. */
function namesOf(events) {
	return JSON.stringify(events.map((event) => [event.group, event.text, event.event, event.pmu]));
}

async function review() {
	const [events, status] = await Promise.all([ask("api/v1/events"), ask("api/v1/status")]);

	if (state.status && state.status.start_time !== status.start_time) state.restarted = Date.now();
	state.before = state.status;
	state.status = status;
	for (const scope of ["cpu", "cgroup"]) {
		const those = events.events.filter((event) => event.scope === scope);

		if (namesOf(those) !== namesOf(state.events[scope])) state.ratios[scope].clear();
		state.events[scope] = those;
	}
	state.reviewed = performance.now();
}

/* After the daemon's own reading, so that we take that one rather than have all read anew. */
function delay(snapshot) {
	const interval = snapshot.interval_seconds * 1000, age = (snapshot.age_seconds ?? 0) * 1000;

	state.interval = Math.min(Math.max(interval, 1000), 60000);
	return state.interval - Math.min(age, 100) + 20;
}

/* The parts of the ratios, by the ratio's beginning: { over: under }. */
const PARTS = [[/^ipc/, "instructions", "cycles"], [/^cpi/, "cycles", "instructions"],
	[/^cache_miss_ratio/, "cache_misses", "cache_references"], [/^branch_miss_ratio/, "branch_misses", "branches"],
	[/^branch_miss_ratio/, "branch_misses", "branch_instructions"],
	[/^(.*_load)_miss_ratio/, "$1_misses", "$1s"]];

function ratioSince(key, events) {
	for (const [pattern, over, under] of PARTS) {
		const [a, b] = [over, under].map((part) => events[key.replace(pattern, part)]?.rate);

		if (pattern.test(key) && a !== undefined && b) return a / b;
	}
	return null;
}

/* Seconds between two readings, also if the clock was set meanwhile; or the machine was started again. */
function timeBetween(before, snapshot) {
	const passed = snapshot.monotonic_seconds - before.monotonic_seconds;

	return passed >= 0 ? passed : snapshot.timestamp - before.timestamp;
}

/* Where the daemon's interval is shorter than the page's, its rates are those of one interval out of several: they are
 * replaced by what the totals say of all of them. */
function rateSince(before, snapshot) {
	const passed = before && snapshot.interval_seconds < 1 ? timeBetween(before, snapshot) : 0;

	if (passed < 0.5) return;
	for (const scope of ["cpus", "cgroups"]) {
		const old = new Map(before[scope].map((row) => [keyOfRow(row), row]));

		for (const row of snapshot[scope]) {
			const was = old.get(keyOfRow(row));

			if (!was || was.id !== row.id) continue;
			for (const [key, it] of Object.entries(row.events)) {
				const risen = it.total - was.events[key]?.total;

				if (it.rate !== null && risen >= 0) it.rate = risen / passed;
			}
			for (const key of Object.keys(row.derived))
				row.derived[key] = (key === "cpus_utilized" ? row.events.task_clock?.rate :
					ratioSince(key, row.events)) ?? row.derived[key];
		}
	}
}

/* The use of each CPU, of its busy time since the reading before. The kernel's steps are of 10 ms, and it is read a
 * moment after the counters. */
function useSince(before, snapshot) {
	const passed = before ? timeBetween(before, snapshot) : 0;

	if (!passed) return;
	const old = new Map(before.cpus.map((row) => [row.cpu, row]));

	for (const row of snapshot.cpus) {
		const was = old.get(row.cpu), risen = row.busy_seconds - was?.busy_seconds;

		if (!(risen >= 0)) continue;
		row.derived.cpus_utilized = passed < 0.3 ? was.derived.cpus_utilized : Math.min(risen / passed, 1);
	}
}

/* The reader can't have numbers per something that is not counted. */
function setPerThere(rows) {
	const isThere = rows.some((row) => "instructions" in row.events);

	attr(document.querySelector("[data-per=instructions]"), "hidden", isThere ? null : "");
	if (!isThere && state.per === "instructions" && rows.length) setPer(PER[0]);
}

function hasPeak(event) { return event.rate_peak !== undefined; }

function show(snapshot) {
	const has = $("peaks").hidden && snapshot.cgroups.some(({ events }) => Object.values(events).some(hasPeak));
	const passed = state.snapshot ? timeBetween(state.snapshot, snapshot) * 1000 / state.interval : 1;
	const unseen = !state.snapshot || Math.round(passed) > 1;

	performance.mark("begin");
	rateSince(state.snapshot, snapshot);
	useSince(state.snapshot, snapshot);
	state.snapshot = snapshot;
	state.time = snapshot.monotonic_seconds * 1000;
	pass(Math.round(passed));
	setColumns(snapshot.cgroups);
	takeCgroups(snapshot.cgroups);
	drawMachine(snapshot.cpus);
	reorder();
	setPerThere(snapshot.cgroups);
	if (has) {
		attr($("peaks"), "hidden", null);
		setPeaks(load("peaks") !== "no");
	}
	if (unseen) recall();
	renewTip();
	const open = shownRecord();
	if (open) fillDetail(open);
	refreshPast();
	if (state.wanted) openWanted();
	keepAddress();
	performance.measure("refresh", "begin");
	if (performance.getEntriesByName("refresh").length > 100) performance.clearMeasures("refresh");
	performance.clearMarks("begin");
}

async function refresh() {
	let wait = 1000;

	if (state.busy || state.paused || document.hidden) return;
	state.busy = true;
	clearTimeout(state.timer);
	try {
		const due = !state.status || state.away || performance.now() - state.reviewed >= REVIEW_MS;
		const snapshot = await ask("api/v1/snapshot");

		if (due) await review();
		wait = delay(snapshot);
		state.away = null;
		/* What comes after the reader has paused it changes nothing, unless there is nothing yet. */
		const isShown = !state.paused || !state.snapshot;
		if (isShown) show(snapshot);
		if (due && isShown) {
			drawWhere();
			drawCost();
			drawNotes();
		}
	} catch (error) {
		if (!(error instanceof Silence)) throw error;
		state.away = { since: state.away?.since ?? Date.now(), why: error.message };
	} finally {
		state.busy = false;
		state.timer = setTimeout(refresh, wait);
	}
	drawState();
}

function resume() {
	if (state.paused || document.hidden) return;
	refresh();
	if (isAskedAgain()) loadProfile();
}
