/* SPDX-License-Identifier: MIT */
/* --- what is told of a profile in words: of one node, of the whole, and what is missing and why */

const HIDDEN = "(hidden)";

function shareText(part, whole, samples) {
	const share = whole ? part / whole : 0;

	return `${percent(share)} ± ${digits(errorOf(share, samples) * 100)}`;
}

/* What kind of thing it is, and in which file. */
function kindText(thing) {
	if (thing.name === HIDDEN && thing.kind !== FUNCTION && thing.kind !== PLACE)
		return `${thing.kind} that [profiles] include and exclude do not show`;
	if (thing.missing) return `no name: ${thing.missing}${thing.module ? ` (${visible(thing.module)})` : ""}`;
	if (thing.kind === "all") return "all that is shown";
	return thing.module ? `function in ${visible(thing.module)}` : thing.kind;
}

function changeText(tree, i) {
	const { change, error, isSure } = changeOfNode(tree, i), before = tree.baseTotal[i] / (tree.baseTotal[0] || 1);
	const only = !tree.samples[i] ? "; only in the baseline" : !tree.baseSamples[i] ? "; not in the baseline" : "";

	return `baseline ${percent(before)}, change ${signed(change)} ± ${digits(error * 100)}` +
		`${isSure ? "" : ": within chance"}${only}`;
}

/* The lines of a node's tip; "± " is half the 95 % interval. */
function nodeTip(tree, i) {
	const thing = thingOf(tree, i), { unit } = tree.answer, { zoom } = profile;
	const whole = tree.total[0], nr = tree.samples[0];
	const of = (x) => (x ? `${weightText(x, unit)}, ${shareText(x, whole, nr)}` : "0");
	const isBelow = zoom && i !== zoom && insideOf(tree, zoom)[i];
	const part = isBelow ? ` (${percent(tree.total[i] / (tree.total[zoom] || 1))} of ` +
		`${visible(thingOf(tree, zoom).name)})` : "";

	return [thing.kind === "all" ? "all" : visible(thing.name), kindText(thing),
		`total ${of(tree.total[i])}${part}`, `self ${of(tree.self[i])}`,
		`${tree.samples[i].toLocaleString("en")} of ${plural(nr, "sample")}`,
		...(tree.baseAnswer ? [changeText(tree, i)] : [])];
}

/* --- the whole */

/* As ISO 8601, which the Swedish locale is. */
function dateText(time) { return new Date(time * 1000).toLocaleDateString("sv"); }

function momentText(time) { return clock(time * 1000); }

function stretchText(from, to) {
	const long = to - from, isToday = dateText(from) === dateText(Date.now() / 1000);
	const date = isToday ? "" : `${dateText(from)} `;

	return `${date}${momentText(from)} – ${momentText(to)} (${long < 10 ? `${digits(long)} s` : duration(long)})`;
}

function drawSum() {
	const { tree } = profile, { answer } = tree, { unit, event, total, samples } = answer;
	const what = { seconds: "CPU time", count: event }[unit] ?? event;
	const cpus = event === "cpu-clock" && cpusText(tree);

	put($("profile-sum"), [samples ? `${weightText(total, unit)} ${what}` : "no samples", cpus,
		samples && plural(samples, "sample")].filter(Boolean).join(" · "));
	put($("stretch"), stretchText(answer.from, answer.to));
	const base = tree.baseAnswer;
	put($("base-stretch"), base ? `compared with ${stretchText(base.from, base.to)}` : "");
}

/* --- what is missing */

/* Weights without a name by reason: [reason, weight, samples, files by weight]. */
function missingBy(tree) {
	const reasons = new Map(), own = tree.samples.slice(0, tree.nr);

	for (let i = 1; i < tree.nr; i++) own[tree.parent[i]] -= tree.samples[i];
	for (let i = 0; i < tree.nr; i++) {
		const { kind, missing, module } = thingOf(tree, i);

		if (kind !== PLACE || !tree.self[i]) continue;
		const it = reasons.get(missing) ?? { weight: 0, samples: 0, files: new Map() };
		const file = (module ?? "").slice((module ?? "").lastIndexOf("/") + 1);

		it.weight += tree.self[i];
		it.samples += own[i];
		it.files.set(file, (it.files.get(file) ?? 0) + tree.self[i]);
		reasons.set(missing, it);
	}
	return [...reasons].sort(([, a], [, b]) => b.weight - a.weight);
}

function filesText(files) {
	const names = [...files].sort(([, a], [, b]) => b - a).map(([name]) => visible(name)).filter(Boolean);

	return names.length ? ` (${names.slice(0, 3).join(", ")}${names.length > 3 ? ", …" : ""})` : "";
}

/* [short, long] of stacks that may lack callers. */
const stackEnds = {
	cut: ["are cut", "the stack is deeper than the part of it that is copied ([profiles] stack_bytes), and the " +
		"outermost callers are missing"],
	no_table: ["end in code without a table", "the stack leads through code that has no table for unwinding, and " +
		"the callers above it are missing"],
	lost: ["lost their way", "the way to a caller was wrong, and the callers above it are missing"],
	frame_pointers: ["by frame pointers", "the stack was not copied: where programs and libraries are built " +
		"without frame pointers, the innermost function is right, and its callers are missing or wrong"],
};

/* [short, long] of each thing that the reader should know of an answer. */
function notesOf(tree) {
	const { answer } = tree, { asked } = profile, notes = [], whole = answer.total || 1;
	const wanted = asked.from ?? (asked.last ? answer.to - asked.last : null);

	if (answer.unnamed_ratio)
		notes.push([`${percent(answer.unnamed_ratio)} without a name`, ...missingBy(tree).map(([reason, it]) =>
			`${percent(it.weight / whole)} without a name, ${plural(it.samples, "sample")}: ${reason}` +
			filesText(it.files))]);
	for (const [end, [short, long]] of Object.entries(stackEnds)) {
		const share = answer.stack_ends[end];

		if (share >= 0.005)
			notes.push([`${percent(share)} ${short}`, `${percent(share)} of samples: ${long}`]);
	}
	if (answer.gap_seconds > 0)
		notes.push([`${seconds(answer.gap_seconds)} not sampled`,
			`${seconds(answer.gap_seconds)} of the stretch were not sampled, since events were opened ` +
			"anew: at a reload, or when a CPU came or went"]);
	if (wanted !== null && answer.from - wanted > 1)
		notes.push([`begins at ${momentText(answer.from)}`, answer.from - answer.since < 1 ?
			`sampling began at ${momentText(answer.since)}: nothing is known before` :
			`memory reaches back to ${momentText(answer.from)} ([profiles] memory)`]);
	if (answer.cut)
		notes.push(["the tree is cut", "the tree was too large: what is left out counts for the node above; " +
			"ask for fewer cgroups, or a shorter stretch"]);
	return notes;
}

function drawProfileNotes() {
	const notes = notesOf(profile.tree), list = $("profile-notes").querySelector("ul");
	const lines = notes.flatMap(([, ...long]) => long);

	attr($("profile-notes"), "hidden", notes.length ? null : "");
	put($("profile-notes").firstElementChild, notes.map(([short]) => short).join(" · "));
	lines.forEach((text, i) => put(list.children[i] ?? make("li", list), text));
	while (list.children.length > lines.length) list.lastElementChild.remove();
}
