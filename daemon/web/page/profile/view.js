/* SPDX-License-Identifier: MIT */
/* --- the view of profiles: what there is to choose, and all of it drawn */

/* The choices, as they are asked for. */
function drawAsked() {
	const { asked } = profile;

	for (const [field, key] of [["profile-cgroup", "cgroup"], ["profile-command", "command"], ["search", "search"]])
		/* What is being typed stays. */
		if ($(field).dataset.asked !== asked[key]) $(field).value = $(field).dataset.asked = asked[key];
	for (const button of document.querySelectorAll("[data-last]"))
		attr(button, "aria-pressed", isLive() && Number(button.dataset.last) === asked.last);
	attr($("live"), "aria-pressed", isLive());
	attr($("compare"), "aria-pressed", Boolean(asked.base));
	for (const button of document.querySelectorAll("[data-by]"))
		attr(button, "aria-pressed", button.dataset.by === asked.by);
	attr($("fold"), "aria-pressed", asked.fold !== "");
	attr($("profile"), "aria-busy", profile.isLoading);
	drawBrushes();
}

function fillCgroups() {
	$("profile-cgroups").replaceChildren();
	for (const label of [...new Set([...state.rows.values()].map((it) => it.label))].sort())
		make("option", $("profile-cgroups")).value = globOf(label);
}

function fillEvents() {
	const select = $("profile-event"), { event, events } = profile.tree.answer;

	attr(select.parentNode, "hidden", events.length > 1 ? null : "");
	if (select.dataset.events !== events.join(" ")) {
		select.dataset.events = events.join(" ");
		select.replaceChildren();
		for (const name of events) make("option", select, "", name).value = name;
	}
	select.value = event;
}

function drawDownloads() {
	const { from, to } = profile.tree.answer, file = `perfmond-${new Date(from * 1000).toISOString().slice(0, 19)}`;

	for (const link of document.querySelectorAll("[data-format]")) {
		const { format } = link.dataset;

		attr(link, "href", daemonUrl(profileUrl(format, { from, to })));
		attr(link, "download", `${file.replaceAll(":", "")}${link.dataset.ending}`);
	}
}

/* Words in the place of a profile: it is off, there is none, or the question is wrong; or above one, that there is no
 * newer one. */
function drawNoProfile() {
	const { error, tree } = profile, isEmpty = tree && !tree.answer.samples && !tree.baseAnswer?.samples;
	const text = error ?? (isEmpty ? "No samples are in this stretch: nothing of it was on a CPU." :
		tree ? "" : "Asking …");

	attr($("profile-none"), "hidden", text ? null : "");
	attr($("profile-both"), "hidden", tree && !isEmpty ? null : "");
	attr($("downloads"), "hidden", tree ? null : "");
	put($("profile-none"), visible(text));
	if (!tree) {
		for (const id of ["profile-sum", "stretch", "base-stretch"]) put($(id), "");
		attr($("profile-notes"), "hidden", "");
	}
	return !tree || isEmpty;
}

function drawProfile() {
	if (!profile.isShown) return;
	const isNone = drawNoProfile(), { tree } = profile;

	drawStrip();
	if (tree) {
		fillEvents();
		drawDownloads();
		drawSum();
		drawProfileNotes();
	}
	if (isNone) {
		if (profile.pointer) hoverOver(null);
		return;
	}
	profile.zoom = nodeOfLink(tree, profile.asked.zoom);
	find();
	drawFound();
	drawFunctions();
	drawLegend();
	attr($("profile"), "data-compared", tree.baseAnswer ? "" : null);
	attr($("fold"), "hidden", tree.things.some(canFold) ? null : "");
	attr($("zoom-out"), "hidden", profile.zoom ? null : "");
	put($("zoom-out"), `Out of ${visible(thingOf(tree, profile.zoom).name)}`);
	tellNode(profile.cursor);
	measureIcicle();
	if (profile.pointer) hoverOver(profile.pointer);
}

/* --- what the reader does */

/* From now on, or no longer. */
function setLive(live) {
	const { tree, asked } = profile;

	if (live) askFor({ from: null, to: null });
	else if (tree && asked.from === null)
		askFor({ from: Math.round(tree.answer.from * 10) / 10, to: Math.round(tree.answer.to * 10) / 10 });
}

/* With the stretch before, of the same length. */
function setCompared(compared) {
	const [from, to] = stretchNow("stretch") ?? [];

	if (compared && from === undefined) return;
	profile.which = "baseline";
	askFor({ base: compared ? [2 * from - to, from].map((time) => Math.round(time * 10) / 10) : null,
		sort: compared ? "change" : profile.asked.sort === "change" ? "self" : profile.asked.sort });
}

function zoomOut() {
	if (profile.zoom) zoomTo(0);
	else if (profile.asked.search || profile.asked.mark) askFor({ search: "", mark: "" });
}

function setSearch(text) { askFor({ search: text, mark: "" }, false); }

function showView(isProfile, isStep = true) {
	profile.isShown = isProfile;
	if (isProfile && $("detail").open) $("detail").close();
	attr($("profile"), "hidden", isProfile ? null : "");
	attr(document.body, "data-view", isProfile ? "profile" : "list");
	for (const [id, isCurrent] of [["to-list", !isProfile], ["to-profile", isProfile]])
		attr($(id), "aria-current", isCurrent ? "page" : null);
	hideTip();
	if (isStep) keepAddress(true);
	drawAsked();
	if (isProfile) {
		drawProfile();
		loadProfile();
	} else {
		measureGrid();
	}
}

/* Of a cgroup with those below it, or of all. */
function showProfileOf(record) {
	profile.asked = { ...PROFILE_ASKED, cgroup: record ? scopeOf(record) : "" };
	profile.tree = profile.heat = profile.error = null;
	showView(true);
}

/* A plain click stays on the page; others open the link as links are opened. */
function onPlainClick(node, does) {
	node.addEventListener("click", (event) => {
		event.stopPropagation();
		if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
		event.preventDefault();
		does();
	});
}

const PROFILE_KEYS = {
	"/": () => $("search").focus(),
	f: () => showView(false),
	l: () => setLive(!isLive()),
	b: () => setCompared(!profile.asked.base),
	ArrowUp: () => moveInIcicle("up"),
	ArrowDown: () => moveInIcicle("down"),
	ArrowLeft: () => moveInIcicle("left"),
	ArrowRight: () => moveInIcicle("right"),
	Home: () => moveInIcicle("home"),
	Enter: () => zoomTo(profile.cursor),
	Escape: zoomOut,
};
/* These work where the icicle has the focus, or nothing has it. */
const ICICLE_KEYS = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "Enter"]);

function onProfileKey(event) {
	const { key, target } = event, isField = /^(INPUT|SELECT)$/.test(target.tagName);
	const isIcicle = target === $("icicle") || target === document.body;

	if (target === $("search") && (key === "Escape" || key === "Enter")) {
		if (key === "Escape") setSearch($("search").value = "");
		$("icicle").focus();
		event.preventDefault();
		return;
	}
	if (isField || (ICICLE_KEYS.has(key) && !isIcicle)) return;
	const does = PROFILE_KEYS[key] ?? ({ " ": KEYS[" "], "?": KEYS["?"], d: KEYS.d })[key];

	if (!does || (key === " " && /^(BUTTON|SUMMARY|A)$/.test(target.tagName))) return;
	event.preventDefault();
	if (target === document.body && ICICLE_KEYS.has(key)) $("icicle").focus();
	does();
}

function beginChoices() {
	for (const key of ["cgroup", "command"])
		$(`profile-${key}`).addEventListener("change", ({ target }) =>
			askFor({ [key]: target.value.trim(), zoom: "" }));
	$("profile-cgroup").addEventListener("focus", fillCgroups);
	$("profile-event").addEventListener("change", ({ target }) =>
		askFor({ event: target.value === EVENT_DEFAULT ? "" : target.value, zoom: "" }));
	for (const button of document.querySelectorAll("[data-last]"))
		button.addEventListener("click", () =>
			askFor({ last: Number(button.dataset.last), from: null, to: null }));
	for (const button of document.querySelectorAll("[data-by]"))
		button.addEventListener("click", () => askFor({ by: button.dataset.by }));
	for (const head of $("functions").tHead.querySelectorAll("th"))
		head.firstElementChild.addEventListener("click", () => askFor({ sort: head.dataset.sort }));
	$("fold").addEventListener("click", () => askFor({ fold: profile.asked.fold ? "" : "yes" }));
	$("live").addEventListener("click", PROFILE_KEYS.l);
	$("compare").addEventListener("click", PROFILE_KEYS.b);
	$("zoom-out").addEventListener("click", () => zoomTo(0));
	$("more-rows").addEventListener("click", showMoreRows);
	$("search").addEventListener("input", ({ target }) => setSearch(target.value));
	$("copy-folded").addEventListener("click", ({ target }) => copy(foldedOf(profile.tree), target));
	$("copy-profile").addEventListener("click", ({ target }) => copy(location.href, target));
}

function beginProfile() {
	const canvas = $("icicle-canvas");

	canvas.addEventListener("click", (event) => zoomTo(nodeUnder(event)));
	canvas.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") hoverOver(event); });
	canvas.addEventListener("pointerleave", () => hoverOver(null));
	$("icicle").addEventListener("scroll", () => {
		profile.box.top = $("icicle").scrollTop;
		drawIcicleSoon();
	}, { passive: true });
	new ResizeObserver(() => {
		if (!profile.isShown || !profile.tree) return;
		measureIcicle();
		drawStrip();
	}).observe($("icicle"));
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawProfile);
	onPlainClick($("to-list"), () => showView(false));
	onPlainClick($("to-profile"), () => showView(true));
	onPlainClick($("detail-profile"), () => showProfileOf(state.rows.get($("detail").dataset.key)));
	beginChoices();
	beginStrip();
}
