/* SPDX-License-Identifier: MIT */
/* --- the address: what is shown, for a link */

const FOLDS = 40;

/* Of the view of cgroups; that of profiles has its own (profile/link.js). */
function listAddress() {
	const record = shownRecord(), about = new URLSearchParams(), filter = $("filter").value.trim();

	if (filter) about.set("filter", filter);
	if (state.sorted) about.set("sort", (state.falling ? "" : "-") + state.sort);
	if (!state.tree) about.set("view", "flat");
	if (state.per !== PER[0]) about.set("per", state.per);
	if (state.hidesIdle) about.set("idle", "hidden");
	if (state.choice) about.set("columns", state.choice.join(" "));
	for (const key of [...state.folded].slice(0, FOLDS)) about.append("fold", key);
	if (record) {
		about.set("cgroup", record.key);
		about.set("range", state.range);
	}
	return about;
}

/* A step is one that the back button takes back. */
function keepAddress(isStep = false) {
	if (!state.snapshot && !profile.isShown) return;
	const about = profile.isShown ? profileAddress() : listAddress(), hash = about.size ? `#${about}` : "";
	const keep = isStep === true ? "pushState" : "replaceState";

	if (hash !== location.hash) history[keep](null, "", location.pathname + location.search + hash);
}

/* Before there are numbers; a cgroup is opened when it is there. */
function readListAddress(about) {
	const sort = about.get("sort");

	$("filter").value = about.get("filter") ?? "";
	if (sort) {
		state.sorted = true;
		state.sort = sort.replace(/^-/, "");
		state.falling = !sort.startsWith("-");
	}
	if (about.has("view")) state.tree = about.get("view") !== "flat";
	if (PER.includes(about.get("per"))) state.per = about.get("per");
	if (about.has("idle")) state.hidesIdle = about.get("idle") === "hidden";
	if (about.has("columns")) setChoice(about.get("columns").split(" "));
	state.folded = new Set(about.getAll("fold"));
	state.range = Number(about.get("range")) || 60;
	state.wanted = about.get("cgroup");
}

/* The view that the address is of, as it has it; the other stays as it is. */
function readAddress() {
	const about = new URLSearchParams(location.hash.slice(1)), isProfile = about.get("show") === "profile";

	if (isProfile) readProfileAddress(about);
	else readListAddress(about);
	return isProfile;
}

/* The address as it is read, on what there is. */
function applyListAddress() {
	setTree(state.tree);
	setPer(state.per);
	setIdle(state.hidesIdle);
	drawSort();
}

/* A link was pasted, or the reader went back. */
function followAddress() {
	const isProfile = readAddress();

	/* First: what follows keeps the address of the view that is shown. */
	showView(isProfile, false);
	if (isProfile) return;
	if (state.snapshot) setColumns(state.snapshot.cgroups);
	applyListAddress();
	if (state.wanted) openWanted();
}

function openWanted() {
	const record = state.rows.get(state.wanted);

	if (!record || $("detail").open) return;
	state.wanted = null;
	state.cursor = record.key;
	showDetail(record);
}
