/* SPDX-License-Identifier: MIT */
/* --- cgroups: records */

const collator = new Intl.Collator("en", { numeric: true });

/* Where each is in the tree: below the nearest one that is there. With a row for each CPU, each CPU has a tree. */
function link() {
	const compare = (a, b) => collator.compare(a.label, b.label) || (a.row.cpu ?? 0) - (b.row.cpu ?? 0);

	[...state.rows.values()].sort(compare).forEach((it, rank) => {
		let up = it.label;

		it.rank = rank;
		it.parent = null;
		it.hasKids = false;
		while (up !== "/" && !it.parent) {
			up = up.slice(0, Math.max(up.lastIndexOf("/"), 1));
			it.parent = state.rows.get(`${up} ${it.row.cpu ?? ""}`) ?? null;
			/* The top of a part of the tree. */
			if (up === "/") it.parent ??= state.rows.get(`/. ${it.row.cpu ?? ""}`) ?? null;
			if (it.parent === it) it.parent = null;
		}
		if (it.parent) it.parent.hasKids = true;
		const above = ["/", "/."].includes(it.parent?.label) ? 0 : it.parent?.label.length;

		const { row } = it;

		[it.name, it.kind] = shortName(row, it.parent ? above + 1 : 0);
		it.path = pathName(row);
		it.whole = visible(it.label);
		it.tip = row.image ? `${it.whole} · ${visible(row.image)}` : it.whole;
		it.found = [it.label, it.name, it.kind, row.unit, row.container_id, row.pod_uid, row.namespace, row.pod,
			row.container, row.image].join("\n").toLowerCase();
	});
}

function takeCgroups(rows) {
	const generation = ++state.generation, columns = state.columns.slice(1);
	let changed = false;

	for (const row of rows) {
		const key = keyOfRow(row);
		let it = state.rows.get(key);

		if (!it) {
			it = { key, label: row.cgroup, kids: [], past: {}, held: {}, numbers: [], depth: 0,
				isHidden: false };
			state.rows.set(key, it);
			changed = true;
		}
		/* Names are found a little later, all at once. */
		changed ||= it.row !== undefined && (it.row.image !== row.image || podName(it.row) !== podName(row) ||
			it.row.container !== row.container);
		it.row = row;
		it.generation = generation;
		for (const column of columns) {
			const number = rateOf(row, column);

			hold(it, column, number);
			keep(it.past, column.key, PAST, number.rate);
		}
		noteActivity(it);
	}
	for (const [key, it] of state.rows)
		if (it.generation !== generation) {
			state.rows.delete(key);
			changed = true;
		}
	if (changed) link();
	takeNumbers();
}

/* What the table shows of each, once for all that sort, compare and draw it. */
function takeNumbers() {
	const columns = state.columns.slice(1);

	for (const it of state.rows.values()) it.numbers = columns.map((column) => numberOf(it, column));
	measureHeat();
}

/* So many intervals have passed since the newest sample; those between are gaps in all lines. */
function pass(intervals) {
	const steps = Math.min(Math.max(intervals, 1), LONG_PAST);
	const kept = [...state.rows.values(), ...state.cpus.values()].flatMap((it) => Object.values(it.past));

	for (let i = 0; i < steps; i++) {
		state.at++;
		for (const past of kept) past[state.at % past.length] = NaN;
	}
}

/* --- cgroups: order */

/* Rows hold still: there is a new order for new numbers every few seconds at most, and none while the mouse is on the
 * rows, or the keys are on one of them. Sorting and filtering have their order at once; folding
 * leaves the others where they are. */
const STILL_MS = 5000;

function comparison() {
	const column = state.columns.find((it) => it.key === state.sort) ?? NAME, sign = state.falling ? -1 : 1;

	if (column.kind === "name") return (a, b) => sign * (a.rank - b.rank);
	for (const it of state.rows.values()) it.by = it.numbers[column.at].rate ?? NaN;
	return (a, b) => {
		/* What is not known comes last, either way. */
		const known = Number.isNaN(a.by) - Number.isNaN(b.by);

		return known || (Number.isNaN(a.by) ? 0 : sign * (a.by - b.by)) || a.rank - b.rank;
	};
}

function isHeld() {
	return state.isOver || (state.cursor !== null && document.activeElement === $("grid"));
}

function arrange() {
	state.order = [...state.rows.values()].sort(comparison());
	for (const it of state.order) it.isHidden = state.hidesIdle && it.idle;
	state.arranged = performance.now();
	/* As long as no number is known there is no order to be held. */
	state.isUnsorted = state.sort !== "name" && state.order.every((it) => Number.isNaN(it.by));
}

/* In the order before; those that are new come last. */
function keepOrder() {
	const known = new Set(state.order), kept = state.order.filter((it) => state.rows.get(it.key) === it);

	for (const it of state.rows.values()) if (!known.has(it)) kept.push(it);
	state.order = kept;
}

/* Those to be shown below each other, from records in their order. */
function treeOf(records, wanted) {
	const roots = [], view = [], looksFor = wanted !== "";
	const isWanted = (it) => !it.isHidden && it.found.includes(wanted);

	for (const it of records) {
		it.kids.length = 0;
		it.keep = false;
	}
	for (const it of records) {
		(it.parent?.kids ?? roots).push(it);
		if (isWanted(it)) for (let up = it; up && !up.keep; up = up.parent) up.keep = true;
	}
	const visit = (list, depth) => {
		for (const it of list) {
			if (!it.keep) continue;
			it.depth = depth;
			view.push(it);
			if (looksFor || !state.folded.has(it.key)) visit(it.kids, depth + 1);
		}
	};
	visit(roots, 0);
	return view;
}

function fillView() {
	const wanted = $("filter").value.trim().toLowerCase(), records = state.order;
	const found = records.filter((it) => !it.isHidden && it.found.includes(wanted));
	const hidden = records.reduce((nr, it) => nr + it.isHidden, 0), all = plural(records.length, "cgroup");

	state.view = state.tree ? treeOf(records, wanted) : found;
	put($("count"), (wanted || hidden ? `${found.length} of ${all}` : all) + (hidden ? `, ${hidden} idle` : ""));
	keepAddress();
	if (Number($("grid").getAttribute("aria-rowcount")) !== state.view.length + 1)
		$("rows").style.height = `calc(var(--row) * ${state.view.length})`;
	attr($("grid"), "aria-rowcount", state.view.length + 1);
	attr($("none"), "hidden", state.view.length ? "" : null);
	put($("none"), wanted ? "No cgroup has that in its name." : records.length ? "All cgroups are idle." :
		"No cgroups are counted.");
	draw();
}

/* As the reader wants it, now. */
function order() {
	arrange();
	fillView();
}

/* With new numbers. */
function reorder() {
	if (state.isUnsorted || (!isHeld() && performance.now() - state.arranged >= STILL_MS)) arrange();
	else keepOrder();
	fillView();
}
