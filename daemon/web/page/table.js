/* SPDX-License-Identifier: MIT */
/* --- cgroups: drawing */

function newSlot(number) {
	const node = make("div", $("rows"), "row"), first = make("span", node);
	const it = { node, first, twist: make("span", first, "twist"), name: make("span", first, "name"),
		kind: make("span", first, "kind"), tag: make("span", first, "tag"), flame: newFlame(first) };
	const graph = make("span", node);

	node.id = `row-${number}`;
	node.setAttribute("role", "row");
	first.setAttribute("role", "rowheader");
	it.twist.setAttribute("aria-hidden", "true");
	make("span", it.name);
	make("span", it.name);
	graph.setAttribute("role", "gridcell");
	it.graph = makeLine(graph, PAST, 18, false);
	it.cells = state.columns.slice(1).map((column) => newCell(node, "gridcell", isRatio(column)));
	it.twist.addEventListener("click", (event) => {
		event.stopPropagation();
		fold(it.record);
	});
	onPlainClick(it.flame, () => showProfileOf(it.record));
	node.addEventListener("click", () => {
		moveTo(it.record);
		showDetail(it.record);
	});
	return it;
}

/* The way to a cgroup's profile: for the mouse, since keys have one of their own. */
function newFlame(parent) {
	const link = make("a", parent, "flame");

	attr(link, "tabindex", -1);
	attr(link, "aria-label", "Profile");
	attr(link, "data-tip", "Which functions use its CPU time (f)");
	for (const width of [12, 8, 5]) make("i", link).style.width = `${width}px`;
	return link;
}

function drawSlot(slot, record, index) {
	const { node } = slot, folds = state.tree && record.kids.length > 0, open = !state.folded.has(record.key);
	const about = [record.row.cpu === undefined ? "" : `CPU ${record.row.cpu}`, record.row.gone ? "removed" : ""];

	if (slot.record !== record) attr(slot.flame, "href", profileLink(record));
	slot.record = record;
	attr(node, "hidden", null);
	if (slot.index !== index) node.style.transform = `translateY(calc(var(--row) * ${index}))`;
	slot.index = index;
	if (slot.depth !== record.depth || slot.inTree !== state.tree)
		slot.first.style.setProperty("--depth", state.tree ? Math.min(record.depth, 12) : 0);
	slot.depth = record.depth;
	slot.inTree = state.tree;
	attr(node, "aria-rowindex", index + 2);
	attr(node, "aria-level", state.tree ? record.depth + 1 : null);
	attr(node, "aria-expanded", folds ? open : null);
	attr(node, "aria-selected", record.key === state.cursor);
	attr(node, "class", ["row", record.key === state.cursor && "cursor", (record.row.gone || record.idle) && "idle"]
		.filter(Boolean).join(" "));
	attr(slot.twist, "hidden", state.tree ? null : "");
	put(slot.twist, folds ? (open ? "▾" : "▸") : "");
	inTwo(state.tree ? record.name : record.path).forEach((text, i) => put(slot.name.children[i], text));
	put(slot.kind, record.kind);
	put(slot.tag, about.filter(Boolean).join(" "));
	attr(slot.first, "data-tip", record.tip);
	attr(slot.first, "aria-description", record.tip === slot.name.textContent ? null : record.tip);
	state.columns.forEach((column, i) => { if (i) drawCell(slot.cells[i - 1], record, column); });
	drawLine(slot.graph, record.past[trendKey()]);
}

/* Sizes are asked for when they change: with numbers that have just been written, each question would have the browser
 * lay out the page at once. */
function measureGrid() {
	const grid = $("grid");

	state.box = { row: parseFloat(getComputedStyle($("rows")).getPropertyValue("--row")) || 26,
		height: grid.clientHeight, top: grid.scrollTop };
	drawSoon();
}

function rowHeight() { return state.box.row; }

/* Rows in sight, and some more. A record has the slot of its place, so that scrolling draws only what comes. */
function draw() {
	const grid = $("grid"), height = rowHeight(), nr = Math.ceil(state.box.height / height) + 2 * SPARE;
	const first = Math.max(Math.min(Math.floor(state.box.top / height) - SPARE, state.view.length - nr), 0);
	const cursor = state.view.findIndex((it) => it.key === state.cursor);

	while (state.slots.length < nr) state.slots.push(newSlot(state.slots.length));
	const size = state.slots.length, taken = new Set();
	for (let i = first; i < Math.min(first + nr, state.view.length); i++) {
		drawSlot(state.slots[i % size], state.view[i], i);
		taken.add(i % size);
	}
	state.slots.forEach((slot, i) => { if (!taken.has(i)) attr(slot.node, "hidden", ""); });
	const drawn = cursor >= first && cursor < first + nr;
	attr(grid, "aria-activedescendant", drawn ? `row-${cursor % size}` : null);
}

const drawSoon = onceAFrame(draw);

/* The head: a button a column, which tells whether its event is counted. */
function drawHead() {
	const head = $("grid").firstElementChild, { key } = document.activeElement.dataset;

	head.replaceChildren();
	state.columns.forEach((column, i) => {
		const cell = make("span", head), button = make("button", cell);
		const isPlain = column.kind === "name" || column.state === "ok";
		const mark = isPlain ? "" : COUNTED.has(column.state) ? "~" : "⊘";

		cell.setAttribute("role", "columnheader");
		button.tabIndex = 0;
		button.dataset.key = column.key;
		const label = make("span", button, "label");
		if (mark) make("span", label, "mark", mark);
		label.append(column.label);
		if (shownUnit(column)) make("small", button, "", shownUnit(column));
		if (mark) make("span", button, "unseen", column.quality);
		if (column.text) attr(button, "data-tip", `${column.text}: ${column.quality}`);
		button.addEventListener("click", () => {
			sortBy(column.key, column.key === state.sort ? !state.falling : column.kind !== "name");
		});
		if (i === 0) {
			const trend = make("span", head, "trend", "trend");

			trend.setAttribute("role", "columnheader");
			attr(trend, "data-tip", `of what is sorted by, per second, over the last ${PAST} readings`);
		}
	});
	drawSort();
	makeDrag(head.firstChild);
	/* Whoever is on a column stays there. */
	[...head.querySelectorAll("button")].find((button) => key && button.dataset.key === key)?.focus();
}

/* The names take what the numbers leave, or a width of the reader's, and then the trend takes the rest. */
function setNameWidth(width) {
	const { style } = document.documentElement, least = 96, most = Math.max($("grid").clientWidth - 96, least);
	const px = width === null ? null : Math.round(Math.min(Math.max(width, least), most));

	for (const [name, text] of [["--name", `${px}px`], ["--least-name", `${px}px`],
		["--trend", "minmax(6rem, 1fr)"]])
		if (px === null) style.removeProperty(name);
		else style.setProperty(name, text);
	save("name", px ?? "");
	attr($("drag"), "aria-valuemax", most);
	attr($("drag"), "aria-valuenow", Math.round($("drag").parentNode.offsetWidth));
}

/* The right edge of the names, to be dragged; a double click lets go of it. */
function makeDrag(cell) {
	const drag = make("span", cell), about = { role: "separator", tabindex: 0, "aria-orientation": "vertical",
		"aria-label": "Width of the names", "aria-valuemin": 96,
		"data-tip": "Drag: width of the names; double click: all there is" };

	drag.id = "drag";
	for (const [name, text] of Object.entries(about)) attr(drag, name, text);
	setNameWidth(Number(load("name")) || null);
	drag.addEventListener("pointerdown", (event) => drag.setPointerCapture(event.pointerId));
	drag.addEventListener("pointermove", (event) => {
		if (drag.hasPointerCapture(event.pointerId))
			setNameWidth(event.clientX - cell.getBoundingClientRect().left);
	});
	drag.addEventListener("dblclick", () => setNameWidth(null));
	drag.addEventListener("keydown", (event) => {
		const step = { ArrowLeft: -16, ArrowRight: 16 }[event.key];

		if (step) setNameWidth(cell.offsetWidth + step);
		if (event.key === "Escape") setNameWidth(null);
		if (step || event.key === "Escape") event.preventDefault();
	});
}

function drawSort() {
	const way = state.falling ? "descending" : "ascending";

	for (const button of document.querySelectorAll(".head button"))
		attr(button.parentNode, "aria-sort", button.dataset.key === state.sort ? way : null);
}

function sameColumns(some, others) {
	return some.length === others.length && some.every((column, i) =>
		["key", "unit", "state", "quality"].every((what) => column[what] === others[i][what]));
}

/* Anew only where the events are others than before, or their states. */
function setColumns(rows) {
	const all = columnsOf("cgroup", rows), shown = [NAME, ...chosen(all.filter((it) => it.counted || state.all))];
	const same = sameColumns(shown, state.columns);

	attr($("all"), "hidden", all.every((column) => column.counted) ? "" : null);
	if (same && state.slots.length) return;
	shown.forEach((column, i) => { column.at = i - 1; });
	state.columns = shown;
	/* A link, or the reader, may want a column that is not there yet. */
	if (!shown.some((column) => column.key === state.sort) && (!state.sorted || state.before))
		state.sort = shown[1]?.key ?? "name";
	state.isUnsorted = true;
	$("rows").replaceChildren();
	state.slots = [];
	const tracks = shown.slice(1).map((column) => (isRatio(column) ? "var(--ratio)" : "var(--column)"));
	$("grid").style.setProperty("--tracks", tracks.join(" "));
	$("grid").style.setProperty("--least", `calc(${["var(--least-name)", "6rem", ...tracks].join(" + ")})`);
	drawHead();
}
