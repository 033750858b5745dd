/* SPDX-License-Identifier: MIT */
/*
 * The table of functions, threads, commands or cgroups beside the icicle, of what is zoomed to: the same numbers for
 * those who can't see it. A row marks its nodes in the icicle.
 */

const FUNCTIONS_BY = ["function", "thread", "command", "cgroup"];
const FUNCTIONS_SORT = ["self", "total", "change", "name"];
/* More of them at once would take the browser long to lay out. */
const ROWS_AT_FIRST = 200, MORE_ROWS = 1000;

function isOf({ kind }, by) { return by === "function" ? kind === FUNCTION || kind === PLACE : kind === by; }

/* Does a node stand below another of its kind and name? Its total is counted there. */
function isRecursion(tree, i, top) {
	for (let at = i; at !== top;) {
		at = tree.parent[at];
		if (tree.thing[at] === tree.thing[i]) return true;
	}
	return false;
}

/* The rows of what is in or below `top`, as /api/v1/profile/top adds them up. */
function rowsOf(tree, top, by) {
	const inside = insideOf(tree, top), rows = new Map(), wanted = tree.things.map((thing) => isOf(thing, by));

	for (let i = top; i < tree.nr; i++) {
		const id = tree.thing[i];

		if (!inside[i] || !wanted[id]) continue;
		const it = rows.get(id) ?? { thing: tree.things[id], self: 0, total: 0, baseSelf: 0, baseTotal: 0 };

		/* All that is in a cgroup, or of a command or thread, is its own. */
		it.self += by === "function" ? tree.self[i] : tree.total[i];
		it.baseSelf += by === "function" ? tree.baseSelf[i] : tree.baseTotal[i];
		if (!isRecursion(tree, i, top)) {
			it.total += tree.total[i];
			it.baseTotal += tree.baseTotal[i];
		}
		rows.set(id, it);
	}
	return [...rows.values()];
}

/* With shares and, with a baseline, the change of what is sorted by: that of self, or of total. */
function measureRows(tree, top, rows, sort) {
	const whole = tree.total[top] || 1, baseWhole = tree.baseTotal[top] || 1;
	const nr = tree.samples[top], baseNr = tree.baseSamples[top];

	for (const it of rows) {
		const [part, basePart] = sort === "total" ? [it.total, it.baseTotal] : [it.self, it.baseSelf];

		it.share = it.self / whole;
		it.totalShare = it.total / whole;
		it.error = errorOf(it.share, nr);
		it.delta = tree.baseAnswer ? changeOf(part / whole, nr, basePart / baseWhole, baseNr) : null;
	}
}

const ROW_ORDER = {
	self: (a, b) => b.self - a.self || b.total - a.total,
	total: (a, b) => b.total - a.total || b.self - a.self,
	change: (a, b) => Math.abs(b.delta?.change ?? 0) - Math.abs(a.delta?.change ?? 0) || b.self - a.self,
	name: (a, b) => collator.compare(a.thing.name, b.thing.name),
};

/* --- drawing */

function newFunctionRow() {
	const node = make("tr"), head = make("th", node), button = make("button", head), it = { node, button };

	head.setAttribute("scope", "row");
	it.sign = make("i", button);
	it.name = make("span", button, "name");
	make("span", it.name);
	make("span", it.name);
	it.file = make("small", button);
	for (const cell of ["self", "total", "change"]) it[cell] = make("td", node, cell);
	it.share = make("b", it.self);
	it.error = make("small", it.self);
	button.addEventListener("click", () => markThing(it.row));
	return it;
}

function markOf(thing) { return thing.hash.toString(36); }

/* Again: no longer. */
function markThing({ thing }) {
	const mark = markOf(thing);

	askFor({ mark: profile.asked.mark === mark ? "" : mark, search: "" });
}

function drawFunctionRow(it, row, colors) {
	const { thing, delta } = row, { mark, by } = profile.asked, { unit } = profile.tree.answer;
	const file = (thing.module ?? "").slice((thing.module ?? "").lastIndexOf("/") + 1);

	it.row = row;
	attr(it.node, "class", delta && !delta.isSure ? "chance" : null);
	attr(it.button, "aria-pressed", mark !== "" && markOf(thing) === mark);
	it.sign.style.background = colors[colorOfThing(thing)];
	inTwo(nameText(thing)).forEach((text, i) => put(it.name.children[i], text));
	put(it.file, by === "function" && !thing.missing ? visible(file) : "");
	attr(it.button, "data-tip", [visible(thing.name), kindText(thing),
		`self ${weightText(row.self, unit)}, total ${weightText(row.total, unit)}`].join("\n"));
	attr(it.self, "class", row.self ? "self" : "self none");
	put(it.share, row.self ? percent(row.share) : "0 %");
	put(it.error, row.self ? ` ± ${digits(row.error * 100)}` : "");
	it.self.style.setProperty("--share", row.share);
	put(it.total, percent(row.totalShare));
	put(it.change, delta ? `${signed(delta.change)} ± ${digits(delta.error * 100)}` : "");
	attr(it.change, "class", `change ${!delta?.isSure ? "" : delta.change > 0 ? "more" : "less"}`);
	attr(it.change, "hidden", delta ? null : "");
}

const functionRows = [];

/* More rows are shown for as long as they are of the same. */
function keepShownRows({ by, zoom, cgroup, command, event }) {
	const subject = JSON.stringify([by, zoom, cgroup, command, event]);

	if (subject !== profile.rowsSubject) profile.shownRows = 0;
	profile.rowsSubject = subject;
}

/* The rows are of what is zoomed to. */
function drawFunctions() {
	const { tree, asked, zoom } = profile, isCompared = Boolean(tree.baseAnswer), colors = palette(isDark());
	const sort = asked.sort === "change" && !isCompared ? "self" : asked.sort, body = $("functions").tBodies[0];

	keepShownRows(asked);
	profile.rows = rowsOf(tree, zoom, asked.by);
	measureRows(tree, zoom, profile.rows, sort);
	profile.rows.sort(ROW_ORDER[sort]);
	const nr = Math.min(profile.rows.length, Math.max(profile.shownRows, ROWS_AT_FIRST));
	while (functionRows.length < nr) functionRows.push(newFunctionRow());
	for (let i = 0; i < nr; i++) {
		drawFunctionRow(functionRows[i], profile.rows[i], colors);
		if (!functionRows[i].node.isConnected) body.append(functionRows[i].node);
	}
	while (body.rows.length > nr) body.lastElementChild.remove();
	const way = sort === "name" ? "ascending" : "descending";
	for (const head of $("functions").tHead.querySelectorAll("th")) {
		attr(head, "aria-sort", head.dataset.sort === sort ? way : null);
		if (head.dataset.sort === "change") attr(head, "hidden", isCompared ? null : "");
	}
	const words = `${plural(profile.rows.length, asked.by)} of ${zoom ? visible(thingOf(tree, zoom).name) : "all"}`;
	put($("functions").caption, words);
	put($("functions-said"), words);
	attr($("more-rows"), "hidden", nr < profile.rows.length ? null : "");
	put($("more-rows"), `Show ${Math.min(profile.rows.length - nr, MORE_ROWS).toLocaleString("en")} more`);
}

function showMoreRows() {
	profile.shownRows = $("functions").tBodies[0].rows.length + MORE_ROWS;
	drawFunctions();
}
