/* SPDX-License-Identifier: MIT */
/* --- the past, as the daemon has it: what happened before this page was opened, or while nobody looked at it */

/* More points than this are not asked for; the daemon would refuse more than 200,000. */
const POINTS = 190000;

/* Where the clock was set back, it has shown some times twice: the last slot of that time stays. */
function dropRepeated(history) {
	const { times, seconds } = history, stays = [];
	let first = Infinity;

	for (let i = times.length - 1; i >= 0; i--) {
		stays[i] = times[i] <= first + 0.1;
		if (stays[i]) first = Math.min(first, times[i] - seconds[i]);
	}
	if (stays.every(Boolean)) return history;
	const keep = (list) => list.filter((_, i) => stays[i]);
	const keepOf = (row) => ({ ...row, events: Object.fromEntries(
		Object.entries(row.events).map(([key, rates]) => [key, keep(rates)])) });

	return { ...history, times: keep(times), seconds: keep(seconds), cpus: history.cpus.map(keepOf),
		cgroups: history.cgroups.map(keepOf) };
}

async function askHistory(query) {
	return dropRepeated(await ask(`api/v1/history?${new URLSearchParams(query)}`));
}

/* Where a slot of time begins: where the one before it ends, but after a gap. */
function beginOf({ times, seconds }, i) {
	const begin = times[i] - seconds[i];

	return Math.abs(times[i - 1] - begin) < 0.1 ? times[i - 1] : begin;
}

/* Puts the rates of slots of time where a ring has nothing. Slots end when the daemon has read, and are of other
 * lengths than an interval: one fills the places from its end back to its beginning, be it none or several. */
function fillRing(pasts, key, length, history, rates) {
	if (!rates.some((rate) => rate > 0)) return;
	const ring = (pasts[key] ??= new Float32Array(length).fill(NaN));
	const place = (time) => Math.round(((state.snapshot.timestamp - time) * 1000) / state.interval);

	rates.forEach((rate, i) => {
		const end = place(beginOf(history, i));

		for (let back = place(history.times[i]); back < end && rate !== null; back++) {
			const at = (state.at - back + length * 2) % length;

			if (back >= 0 && back < length && Number.isNaN(ring[at])) ring[at] = rate;
		}
	});
}

/* The events that a column is made of. */
function partsOf(key) {
	if (key === "cpus_utilized") return ["task_clock"];
	const part = PARTS.find(([pattern]) => pattern.test(key));

	return part ? part.slice(1).map((event) => key.replace(part[0], event)) : [key];
}

function ratesOf(events, key) {
	const [over, under] = partsOf(key).map((part) => events[part]);

	if (!over || !under) return partsOf(key).length === 1 ? over : undefined;
	return over.map((x, i) => (x === null || !under[i] ? null : x / under[i]));
}

/* The past of some targets, with all events that the column is made of. */
async function askPast(key, filter) {
	const answers = await Promise.all(partsOf(key).map((event) =>
		askHistory({ ...filter, event: event.split("/")[0] })));

	for (const scope of ["cpus", "cgroups"])
		answers[0][scope].forEach((row, i) => {
			for (const other of answers.slice(1)) Object.assign(row.events, other[scope][i]?.events);
		});
	return answers[0];
}

function keyOfRow(row) { return `${row.cgroup} ${row.cpu ?? ""}`; }

/* What the lines of the rows show. */
function trendKey() { return state.sort === "name" ? state.columns[1]?.key : state.sort; }

/* As far back as there may be points for all rows. */
async function recallCgroups() {
	const key = trendKey(), length = Math.min(PAST, Math.floor(POINTS / state.rows.size) - 10);

	if (!key || length < 2) return;
	const history = await askPast(key, { scope: "cgroup", from: -length * state.interval / 1000 });

	for (const row of history.cgroups) {
		const it = state.rows.get(keyOfRow(row)), rates = ratesOf(row.events, key);

		if (it && rates) fillRing(it.past, key, PAST, history, rates);
	}
}

/* Sums of what is known of each slot. */
function sumRates(lists) {
	return lists[0]?.map((_, i) => {
		const known = lists.map((rates) => rates[i]).filter((rate) => rate !== null);

		return known.length ? known.reduce((a, b) => a + b) : null;
	}) ?? [];
}

async function recallCpus() {
	const from = -LONG_PAST * state.interval / 1000, all = state.cpus.get("all");

	if (!all || state.cpus.size * state.machine.length * 80 > POINTS) return;
	const history = await askHistory({ scope: "cpu", from }), sums = {};
	const keys = new Set(history.cpus.flatMap((row) => Object.keys(row.events)));

	for (const key of keys) sums[key] = sumRates(history.cpus.map((row) => row.events[key]).filter(Boolean));
	for (const row of [{ key: "all", events: sums }, ...history.cpus]) {
		const it = state.cpus.get(row.key ?? row.cpu);

		for (const key of it ? state.machine : []) {
			const rates = key === "cpus_utilized" ? null : ratesOf(row.events, key);

			if (rates) fillRing(it.past, key, LONG_PAST, history, rates);
		}
	}
}

/* The use of all CPUs is what the cgroups below the root use. */
async function recallUse() {
	const all = state.cpus.get("all"), from = -LONG_PAST * state.interval / 1000;
	const below = [...state.rows.values()].filter((it) =>
		it.label !== "/" && (!it.parent || it.parent.label === "/"));

	if (!all || !below.length || !state.machine.includes("cpus_utilized")) return;
	const cgroup = state.rows.size * 80 > POINTS ? "/*" : "**";
	const history = await askPast("cpus_utilized", { scope: "cgroup", cgroup, from });
	const known = new Set(below.map((it) => it.key));
	const rows = history.cgroups.filter((row) => row.events.task_clock && known.has(keyOfRow(row)));

	fillRing(all.past, "cpus_utilized", LONG_PAST, history, sumRates(rows.map((row) => row.events.task_clock)));
}

/* Where there is none (yet), the lines begin when the page is opened. */
async function recall() {
	try {
		await Promise.all([recallCgroups(), recallCpus(), recallUse()]);
		draw();
		drawCpus();
	} catch (error) {
		if (!(error instanceof Silence)) throw error;
	}
}
