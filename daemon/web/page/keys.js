/* SPDX-License-Identifier: MIT */
/* --- keys */

const KEYS = {
	"/": () => $("filter").focus(),
	"?": () => $("keys").showModal(),
	" ": () => setPaused(!state.paused),
	"<": () => sortBeside(-1),
	">": () => sortBeside(1),
	"-": () => foldAll(true),
	"+": () => foldAll(false),
	r: () => sortBy(state.sort, !state.falling),
	t: () => setTree(!state.tree),
	p: nextPeaks,
	n: nextPer,
	i: () => setIdle(!state.hidesIdle),
	c: showChoice,
	u: () => setAll(!state.all),
	f: () => showProfileOf(document.activeElement === $("grid") ? cursor() : undefined),
	d: nextTheme,
};

const GRID_KEYS = {
	ArrowDown: () => moveBy(1),
	ArrowUp: () => moveBy(-1),
	PageDown: () => moveBy(Math.floor($("grid").clientHeight / rowHeight()) - 2),
	PageUp: () => moveBy(2 - Math.floor($("grid").clientHeight / rowHeight())),
	Home: () => moveTo(state.view[0]),
	End: () => moveTo(state.view.at(-1)),
	ArrowLeft: foldOrRise,
	ArrowRight: () => fold(cursor(), false),
	Enter: () => showDetail(cursor()),
};

function onKey(event) {
	const { key, target } = event, own = target === $("grid") || target === document.body;
	const does = KEYS[key] ?? (own ? GRID_KEYS[key] : undefined);

	if (event.ctrlKey || event.metaKey || event.altKey) return;
	if ($("detail").open && "123".includes(key)) setRange(RANGES[key - 1]);
	if (document.querySelector("dialog[open]")) return;
	if (profile.isShown) {
		onProfileKey(event);
		return;
	}
	if (target === $("filter")) {
		if (key === "Escape" || key === "Enter" || key === "ArrowDown") {
			if (key === "Escape") $("filter").value = "";
			$("grid").focus();
			order();
			event.preventDefault();
		}
		return;
	}
	if (!does || target.tagName === "SELECT" || (key === " " && /^(BUTTON|SUMMARY)$/.test(target.tagName))) return;
	event.preventDefault();
	if (target === document.body && key in GRID_KEYS) $("grid").focus();
	does();
}

function begin() {
	drawWhere();
	setTheme(load("theme") ?? "auto");
	beginProfile();
	showView(readAddress(), false);
	applyListAddress();
	setCpuRows(state.hasCpuRows);
	beginTips();
	document.addEventListener("keydown", onKey);
	document.addEventListener("visibilitychange", resume);
	$("filter").addEventListener("input", order);
	$("grid").addEventListener("scroll", measureGrid, { passive: true });
	$("machine").addEventListener("scroll", drawCpus, { passive: true });
	new ResizeObserver(measureGrid).observe($("grid"));
	$("pause").addEventListener("click", () => setPaused(!state.paused));
	$("theme").addEventListener("click", nextTheme);
	$("help").addEventListener("click", KEYS["?"]);
	$("tree").addEventListener("click", () => setTree(true));
	$("flat").addEventListener("click", () => setTree(false));
	$("peaks").addEventListener("click", KEYS.p);
	$("idle").addEventListener("click", KEYS.i);
	$("columns").addEventListener("click", KEYS.c);
	$("as-configured").addEventListener("click", resetChoice);
	$("cpu-rows").addEventListener("click", () => setCpuRows(!state.hasCpuRows));
	$("map-by").addEventListener("change", (event) => setMapped(event.target.value));
	$("rows").addEventListener("pointerenter", (event) => { state.isOver = event.pointerType === "mouse"; });
	$("rows").addEventListener("pointerleave", () => { state.isOver = false; });
	for (const button of document.querySelectorAll("[data-per]"))
		button.addEventListener("click", () => setPer(button.dataset.per));
	$("all").addEventListener("click", KEYS.u);
	$("detail").addEventListener("close", keepAddress);
	for (const button of document.querySelectorAll("[data-range]"))
		button.addEventListener("click", () => setRange(Number(button.dataset.range)));
	$("copy-link").addEventListener("click", (event) => copy(location.href, event.target));
	$("copy-csv").addEventListener("click", (event) => copy(pastAsCsv(), event.target));
	$("copy-json").addEventListener("click", (event) => copy(pastAsJson(), event.target));
	/* It comes with the new address. "hashchange" comes later: a refresh before it would keep the old address. */
	addEventListener("popstate", followAddress);
	refresh();
}

/* When all parts of the script are there, in whatever order. */
document.addEventListener("DOMContentLoaded", begin);
