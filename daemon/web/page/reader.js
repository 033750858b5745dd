/* SPDX-License-Identifier: MIT */
/* --- what the reader does */

function sortBy(key, falling) {
	const other = key !== state.sort;

	state.sort = key;
	state.falling = falling;
	state.sorted = true;
	drawSort();
	order();
	if (other) recall();
}

function sortBeside(step) {
	const at = state.columns.findIndex((column) => column.key === state.sort);
	const column = state.columns[(at + step + state.columns.length) % state.columns.length];

	sortBy(column.key, column.kind !== "name");
	document.querySelector(".head [aria-sort]").scrollIntoView({ block: "nearest", inline: "nearest" });
}

function scrollTo(index) {
	const grid = $("grid"), height = rowHeight(), top = index * height;
	const least = top + height + grid.firstElementChild.offsetHeight - grid.clientHeight;

	if (top < grid.scrollTop || least > grid.scrollTop) grid.scrollTop = top < grid.scrollTop ? top : least;
	state.box.top = grid.scrollTop;
}

function moveTo(record) {
	if (!record) return;
	state.cursor = record.key;
	scrollTo(state.view.indexOf(record));
	draw();
}

function cursor() { return state.view.find((it) => it.key === state.cursor); }

/* The keys have come to another row: what there is to know of it, if they rest there. */
function tellRow() {
	const record = cursor(), slot = state.slots.find((it) => it.record === record && !it.node.hidden);

	if (slot) tipLater(slot.first);
}

function moveBy(step) {
	const at = state.view.findIndex((it) => it.key === state.cursor);

	moveTo(state.view[Math.max(Math.min(at < 0 ? 0 : at + step, state.view.length - 1), 0)]);
	tellRow();
}

function fold(record, folded = !state.folded.has(record?.key)) {
	if (!record || !state.tree) return;
	if (folded && record.kids.length) state.folded.add(record.key);
	else state.folded.delete(record.key);
	fillView();
}

function foldOrRise() {
	const it = cursor();

	if (it && state.tree && it.kids.length && !state.folded.has(it.key)) fold(it, true);
	else if (it?.parent) moveTo(it.parent);
}

function foldAll(folded) {
	state.folded.clear();
	for (const it of state.rows.values()) if (folded && it.parent && it.kids.length) state.folded.add(it.key);
	fillView();
}

function setTree(tree) {
	state.tree = tree;
	save("view", tree ? "tree" : "flat");
	attr($("tree"), "aria-pressed", tree);
	attr($("flat"), "aria-pressed", !tree);
	order();
}

/* Numbers per second, per 1,000 instructions, or totals. */
function setPer(per) {
	state.per = PER.includes(per) ? per : PER[0];
	save("per", state.per);
	for (const button of document.querySelectorAll("[data-per]"))
		attr(button, "aria-pressed", button.dataset.per === state.per);
	drawHead();
	takeNumbers();
	order();
}

/* Skips what there is no button for. */
function nextPer() {
	const there = PER.filter((per) => !document.querySelector(`[data-per="${per}"]`).hidden);

	setPer(there[(there.indexOf(state.per) + 1) % there.length]);
}

function setPeaks(peaks) {
	attr(document.documentElement, "data-peaks", peaks ? "" : null);
	attr($("peaks"), "aria-pressed", peaks);
}

function nextPeaks() {
	if ($("peaks").hidden) return;
	setPeaks(!document.documentElement.hasAttribute("data-peaks"));
	save("peaks", document.documentElement.hasAttribute("data-peaks") ? "yes" : "no");
}

function setAll(all) {
	state.all = all;
	attr($("all"), "aria-pressed", all);
	if (!state.snapshot) return;
	setColumns(state.snapshot.cgroups);
	takeNumbers();
	order();
}

function setTheme(theme) {
	attr(document.documentElement, "data-theme", theme === "auto" ? null : theme);
	put($("theme"), `Theme: ${theme}`);
	save("theme", theme);
	drawProfile();
}

function nextTheme() {
	setTheme({ auto: "light", light: "dark", dark: "auto" }[load("theme") ?? "auto"] ?? "auto");
}

function setPaused(paused) {
	state.paused = paused;
	attr($("pause"), "aria-pressed", paused);
	put($("pause"), paused ? "Go on" : "Pause");
	drawState();
	if (!paused) resume();
}
