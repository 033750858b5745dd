/* SPDX-License-Identifier: MIT */
/* --- what is searched, or marked in the table: which nodes these are, and their sum */

/* A node below another one that is found too adds nothing to the sum. */
function sumFound(tree, isFound, top) {
	const inside = insideOf(tree, top), is = new Uint8Array(tree.nr), covered = new Uint8Array(tree.nr);
	const found = { is, total: 0, base: 0, nodes: 0, things: new Set() };

	for (let i = top; i < tree.nr; i++) {
		if (!inside[i]) continue;
		const above = i > top ? covered[tree.parent[i]] : 0;

		is[i] = isFound[tree.thing[i]] ? 1 : 0;
		covered[i] = above | is[i];
		if (!is[i]) continue;
		found.nodes++;
		found.things.add(tree.thing[i]);
		if (above) continue;
		found.total += tree.total[i];
		found.base += tree.baseTotal[i];
	}
	return found;
}

function find() {
	const { tree, asked, zoom } = profile, text = asked.search.trim().toLowerCase();
	const hasText = (thing) => thing.kind !== "all" && thing.found.includes(text);
	const isFound = (thing) => (text ? hasText(thing) : markOf(thing) === asked.mark);

	profile.found = text || asked.mark ? sumFound(tree, tree.things.map(isFound), zoom) : null;
}

function drawFound() {
	const { found, tree, zoom } = profile, whole = tree.total[zoom] || 1;

	attr($("found"), "hidden", found ? null : "");
	if (!found) return;
	const names = found.things.size === 1 && profile.asked.mark ? visible(tree.things[[...found.things][0]].name) :
		plural(found.things.size, "name");
	const base = tree.baseAnswer ? `, baseline ${percent(found.base / (tree.baseTotal[zoom] || 1))}` : "";

	put($("found"), found.nodes ? `${names}: ${weightText(found.total, tree.answer.unit)}, ` +
		`${shareText(found.total, whole, tree.samples[zoom])} of ${zoom ? "what is zoomed to" : "all"}${base}` :
		"nothing has that name");
}
