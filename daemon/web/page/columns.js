/* SPDX-License-Identifier: MIT */
/* --- columns: what there is to show, of CPUs and of cgroups */

const UNITS = { seconds: "CPUs", joules: "W", bytes: "B/s", celsius: "°C" };
const RATIOS = { cpus_utilized: ["CPU use", "CPUs"], ipc: ["IPC", ""] };

function keyOf(event, keys) {
	const long = `${event.event}/${event.pmu}`;

	return keys.has(long) ? long : event.event;
}

/* An event that has failed can be counted in some rows all the same. */
function eventColumn(event, key, keys) {
	const whole = COUNTED.has(event.state), counted = whole || keys.has(key);
	const words = `${event.state}: ${event.reason}`;

	return { key, kind: "events", label: key.replaceAll("_", " "), unit: UNITS[event.unit] ?? "/s",
		base: event.unit ?? undefined, text: event.text, state: event.state, counted,
		quality: whole ? event.state : counted ? words : `not counted: ${event.reason ?? event.state}` };
}

function ratioColumn(key) {
	const [label, unit] = RATIOS[key] ?? [key.replaceAll("_", " ").replace(" ratio", ""), "ratio"];

	return { key, kind: "derived", label, unit, dividend: dividend(key),
		text: key === "ipc" ? "instructions per cycle" : key, state: "ok", counted: true, quality: "ok" };
}

/* These have no peak, and want less room. */
function isRatio(column) { return column.kind === "derived" && column.key !== "cpus_utilized"; }

/* What the numbers of events are: per second, per 1,000 instructions, or totals. Ratios stay what they are. */
const PER = ["second", "instructions", "total"];
const TOTAL_UNITS = { seconds: "s", joules: "J", bytes: "B" };

/* Is a column a plain count, which can be told per 1,000 instructions? */
function isCount(column) { return column.kind === "events" && column.unit === "/s"; }

function hasTotal(column) {
	return column.key === "cpus_utilized" || isCount(column) || column.base in TOTAL_UNITS;
}

/* The unit of a column's numbers in the table, as the reader wants them. */
function shownUnit(column) {
	if (state.per === "total" && hasTotal(column))
		return isCount(column) ? "total" : TOTAL_UNITS[column.base ?? "seconds"];
	return state.per === "instructions" && isCount(column) ? "/ 1k instr." : column.unit;
}

/* All keys that the rows have. */
function keysOf(rows, kind) {
	const keys = new Set();

	for (const row of rows) for (const key in row[kind]) keys.add(key);
	return keys;
}

function columnsOf(scope, rows) {
	const keys = keysOf(rows, "events"), seen = state.ratios[scope];
	const known = Object.keys(RATIOS).reverse(), place = (key) => -known.indexOf(key);

	/* A ratio that nothing has for a while, since nothing runs, keeps its column. */
	for (const key of keysOf(rows, "derived")) if (!key.startsWith("cpi")) seen.add(key);
	const columns = new Map([...seen].sort((a, b) => place(a) - place(b)).map((key) => [key, ratioColumn(key)]));

	for (const event of state.events[scope]) {
		const key = keyOf(event, keys);

		/* The clock's rate is the CPU use, which is there already. */
		if (!(key === "task_clock" && columns.has("cpus_utilized")))
			columns.set(key, eventColumn(event, key, keys));
	}
	return [...columns.values()].sort((a, b) => b.counted - a.counted);
}

/* The event whose quality a ratio has: what it is divided by is counted at the same time. */
function dividend(key) {
	return key.replace(/^cpus_utilized/, "task_clock").replace(/^ipc/, "instructions")
		.replace("_miss_ratio", "_misses");
}

/* { rate, peak, share } of a row's column, over the last interval. */
function rateOf(row, column) {
	if (column.kind !== "derived") {
		const it = row.events[column.key];

		return { rate: it?.rate ?? null, peak: it?.rate_peak ?? null, share: it?.running ?? null };
	}
	/* The kernel's accounting of a CPU is not shared with anything. */
	if (row.busy_seconds !== undefined && column.key === "cpus_utilized")
		return { rate: row.derived[column.key] ?? null, peak: null, share: null };
	const it = row.events[column.dividend], rate = row.derived[column.key] ?? null;

	if (it) {
		const hasPeak = column.key === "cpus_utilized" && rate !== null;

		return { rate, share: it.running, peak: hasPeak ? it.rate_peak ?? null : null };
	}
	/* An event that the config has renamed is not found: its ratio is taken for no better than the row's worst. */
	const shares = Object.values(row.events).map((event) => event.running).filter((share) => share !== null);

	return { rate, share: shares.length ? Math.min(...shares) : null, peak: null };
}

/* An event that shares the PMU is not counted in every interval: what was estimated last is held for a while. */
const HOLD_MS = 15000;

/* Remembers estimates of a record or a CPU; `number` is its newest. */
function hold(it, column, number) {
	const { key } = column;

	if (number.rate === null) return;
	if (isEstimate(number)) it.held[key] = { ...number, at: state.time };
	else delete it.held[key];
}

/* The newest rate, or the estimate that is held in place of one: { rate, peak, share, age } */
function heldRate(it, column) {
	const number = rateOf(it.row, column), held = it.held[column.key];

	if (number.rate !== null || !held || it.row.gone) return number;
	const age = state.time - held.at;

	return age <= Math.max(HOLD_MS, 3 * state.interval) ? { ...held, age } : number;
}

const INSTRUCTIONS = { key: "instructions", kind: "events" };

/* A number of the table, per what the reader wants it: { rate, peak, share, age }. */
function numberOf(it, column) {
	const number = heldRate(it, column);

	if (state.per === "total" && hasTotal(column)) {
		const { total } = it.row.events[column.key === "cpus_utilized" ? "task_clock" : column.key] ?? {};

		return { rate: total ?? null, peak: null, share: number.share };
	}
	if (state.per !== "instructions" || !isCount(column)) return number;
	const under = heldRate(it, INSTRUCTIONS);

	if (!under.rate || number.rate === null) return { rate: null, peak: null, share: null };
	return { rate: number.rate / under.rate * 1000, peak: null, age: number.age ?? under.age,
		share: Math.min(number.share ?? 1, under.share ?? 1) };
}

/* The quality of a number, as a mark and in words. */
function quality(number, column) {
	if (!column.counted) return ["⊘", column.quality];
	if (number.rate === null) return ["", "not known: not measured here, or not yet"];
	if (number.age)
		return ["~", `an estimate, of ${duration(Math.round(number.age / 1000))} ago: not counted since`];
	if (number.share !== null && number.share < WHOLE)
		return ["~", `an estimate: counted ${percent(number.share)} of the time`];
	return ["", ""];
}

/* What is told of a number beside it. */
function hint(words, peak, heat) {
	const highest = peak === null ? "" : `▴ highest rate of one reading within the last minute: ${short(peak)}`;

	return [words, heat, highest].filter(Boolean).join("; ") || null;
}

function newCell(parent, role, isPlain) {
	const cell = make("span", parent, isPlain ? "plain" : "");

	cell.setAttribute("role", role);
	/* The number stands below its column's name, and so its peak before it. */
	return { cell, peak: make("span", cell, "peak"), mark: make("span", cell, "mark"), digits: make("span", cell),
		unit: make("span", cell, "unit"), words: make("span", cell, "unseen") };
}

function isEstimate(number) { return Boolean(number.age) || (number.share !== null && number.share < WHOLE); }

function drawCell(it, record, column) {
	const number = record.numbers[column.at], [mark, words] = quality(number, column);
	const [text, prefix] = column.counted ? si(number.rate, isEstimate(number)) : ["", ""];
	const [warmth, share] = warmthOf(record, column, number.rate);
	const peak = number.peak === null ? "" : `▴\u2009${short(number.peak)}`;

	put(it.mark, mark);
	put(it.digits, text);
	put(it.unit, prefix);
	put(it.peak, peak);
	put(it.words, words);
	attr(it.digits, "class", text === "0" ? "zero" : warmth);
	attr(it.cell, "data-tip", hint(words, number.peak, warmth ? `${percent(share)} of all` : ""));
	drawBar(it, column, number.rate, warmth);
}
