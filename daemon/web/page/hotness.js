/* SPDX-License-Identifier: MIT */
/*
 * Where it is hot: in the column that is sorted by, a bar behind each number, as long as its share of the largest; in
 * all columns, a warm number where one cgroup alone does a quarter or more of all that is counted; rows that do nothing
 * are greyed, and can be hidden.
 */

const WARM = 0.25, HOT = 0.5;
/* With fewer cgroups than this, or less than that much a second, a large share says nothing. */
const LEAST_LEAVES = 4, LEAST_CPUS = 0.1, LEAST_RATE = 10;
/* CPUs in use, and for how long: less than that is idle. */
const IDLE_CPUS = 0.0005, IDLE_MS = 10000;

/* Of each column: the largest number, and the sum of those that have nothing below them. */
function measureHeat() {
	const columns = state.columns.filter((column) => column.kind === "events" || column.key === "cpus_utilized");
	let leaves = 0;

	const heats = columns.map((column) => ({ at: column.at, top: 0, sum: 0 }));

	for (const { numbers, hasKids } of state.rows.values()) {
		leaves += !hasKids;
		for (const heat of heats) {
			const { rate } = numbers[heat.at];

			if (rate > heat.top) heat.top = rate;
			if (!hasKids) heat.sum += rate ?? 0;
		}
	}
	state.heat = new Map(columns.map((column, i) => [column.key, heats[i]]));
	state.leaves = leaves;
}

/* [class or null, share]. A cgroup with others below it is as warm as they are, unless these are folded. */
function warmthOf(record, column, rate) {
	const heat = state.heat.get(column.key), least = column.key === "cpus_utilized" ? LEAST_CPUS : LEAST_RATE;
	const isLeaf = !record.hasKids || (state.tree && state.folded.has(record.key) && record.parent);

	if (!heat || !isLeaf || rate === null || state.leaves < LEAST_LEAVES) return [null, 0];
	const share = rate / heat.sum;

	if ((state.per === "second" && rate < least) || state.per === "instructions") return [null, share];
	return [share >= HOT ? "hot" : share >= WARM ? "warm" : null, share];
}

function drawBar(it, column, rate, warmth) {
	const top = column.key === state.sort ? state.heat.get(column.key)?.top : 0;
	const length = top && rate > 0 ? Math.max(Math.round(rate / top * 100), 1) : 0;

	if (it.bar !== length) it.cell.style.setProperty("--share", length / 100);
	it.bar = length;
	attr(it.cell, "data-bar", length ? warmth ?? "cool" : null);
}

/* When it did something last; what is not known is not idle. */
function noteActivity(it) {
	const { events, derived } = it.row, use = derived.cpus_utilized;
	let isActive = use >= IDLE_CPUS;

	if (use === undefined) {
		const numbers = Object.values(events);

		isActive = numbers.length === 0 || numbers.some(({ rate }) => rate !== 0);
	}
	if (isActive) it.active = state.time;
	it.active ??= -Infinity;
	it.idle = state.time - it.active >= IDLE_MS;
}

function setIdle(hidden) {
	state.hidesIdle = hidden;
	save("idle", hidden ? "hidden" : "shown");
	attr($("idle"), "aria-pressed", hidden);
	order();
}
