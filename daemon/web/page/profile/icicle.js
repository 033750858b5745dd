/* SPDX-License-Identifier: MIT */
/*
 * The icicle: a canvas as large as what is in sight of it, at the top of which stand the cgroups, below them their
 * commands, below these the functions. Only rows in sight are drawn, and of them nodes of a pixel or more; those that
 * are thinner are one piece together. Nodes above the one that is zoomed to are as wide as all.
 */

const LEAST_LABEL = 32, LABEL_LEFT = 5;

/* What is seen: from which x, and how many pixels a unit of width has. */
function viewOf() {
	const { tree, zoom, box } = profile, width = tree.width[zoom];

	return { left: tree.x[zoom], right: tree.x[zoom] + width, scale: width ? box.width / width : 0 };
}

function isMatch(i) { return profile.found !== null && profile.found.is[i] === 1; }

function colorOf(tree, i) { return isMatch(i) ? MATCH : tree.color[i]; }

/* Fills `boxes`, a list of places for each colour, and `labels`, with a row's nodes in sight. */
function placeRow(tree, depth, view, top, boxes, labels) {
	const row = tree.rows[depth], { x, width } = tree, { zoom } = profile, isAbove = depth < tree.depth[zoom];
	let thin = -1, thinEnd = 0;
	const endThin = () => {
		if (thin >= 0 && thinEnd - thin >= 0.5) boxes[CRUMBS].push(thin, top, thinEnd - thin);
		thin = -1;
	};

	for (let k = firstRightOf(tree, row, view.left); k < row.length; k++) {
		const i = row[k], left = isAbove ? 0 : (x[i] - view.left) * view.scale;
		const pixels = isAbove ? profile.box.width : width[i] * view.scale;

		if (!(x[i] < view.right)) break;
		if (pixels < 1) {
			if (thin >= 0 && left - thinEnd > 0.01) endThin();
			if (thin < 0) thin = left;
			thinEnd = left + pixels;
			continue;
		}
		endThin();
		boxes[colorOf(tree, i)].push(left, top, pixels);
		if (pixels >= LEAST_LABEL) labels.push(i, left, top, pixels);
		if (isAbove) break;
	}
	endThin();
}

/* --- text */

const labelWidths = new Map();

function labelWidth(context, text) {
	let width = labelWidths.get(text);

	if (width === undefined) {
		if (labelWidths.size > 20000) labelWidths.clear();
		width = context.measureText(text).width;
		labelWidths.set(text, width);
	}
	return width;
}

/* As much of a name as there is room for: of a function its beginning, of a cgroup its last part. */
function fitLabel(context, text, room, isPath) {
	if (labelWidth(context, text) <= room) return text;
	if (isPath && text.includes("/", 1))
		return fitLabel(context, text.slice(text.lastIndexOf("/") + 1), room, false);
	const nr = Math.floor(text.length * room / labelWidth(context, text)) - 1;

	return nr < 3 ? "" : `${text.slice(0, nr).replace(/[\ud800-\udbff]$/, "")}…`;
}

/* What stands in a node: with a baseline, by how much its share has changed. */
function labelOf(tree, i) {
	const name = nameText(thingOf(tree, i));

	if (!tree.baseAnswer) return name;
	const only = !tree.samples[i] ? " gone" : !tree.baseSamples[i] ? " new" : "";
	return `${name}  ${signed(changeOfNode(tree, i).change)}${only}`;
}

function drawLabels(context, tree, labels) {
	const { row, width: whole } = profile.box;

	context.textBaseline = "middle";
	for (let k = 0; k < labels.length; k += 4) {
		const [i, left, top, width] = [labels[k], labels[k + 1], labels[k + 2], labels[k + 3]];
		/* Of one that begins left of what is seen, its text does not. */
		const from = Math.max(left, 0), room = Math.min(left + width, whole) - from - 2 * LABEL_LEFT;
		const isPath = thingOf(tree, i).kind === "cgroup";
		const text = room > 8 ? fitLabel(context, labelOf(tree, i), room, isPath) : "";

		context.globalAlpha = profile.found && !isMatch(i) ? 0.6 : 1;
		if (text) context.fillText(text, from + LABEL_LEFT, top + row / 2 + 0.5, room);
	}
	context.globalAlpha = 1;
}

/* --- drawing */

function outline(context, view, i, color, thick) {
	const { tree, zoom, box } = profile, isAbove = tree.depth[i] < tree.depth[zoom];
	const left = isAbove ? 0 : (tree.x[i] - view.left) * view.scale;
	const width = isAbove ? box.width : tree.width[i] * view.scale, top = tree.depth[i] * box.row - box.top;

	context.strokeStyle = color;
	context.lineWidth = thick;
	context.strokeRect(Math.max(left, 0) + thick / 2, top + thick / 2,
		Math.max(Math.min(width, box.width - Math.max(left, 0)) - thick - 1, 1), box.row - thick - 1);
}

function fillBoxes(context, boxes, colors) {
	const height = profile.box.row - 1;

	boxes.forEach((list, color) => {
		context.fillStyle = colors[color];
		/* What is searched stands out of the rest. */
		context.globalAlpha = profile.found && color !== MATCH ? 0.45 : 1;
		for (let k = 0; k < list.length; k += 3)
			context.fillRect(list[k], list[k + 1], list[k + 2] - Math.min(list[k + 2] / 4, 1), height);
	});
	context.globalAlpha = 1;
}

function drawIcicle() {
	const { tree, box } = profile, canvas = $("icicle-canvas"), context = canvas.getContext("2d");
	const ratio = devicePixelRatio || 1, boxes = Array.from({ length: NR_COLORS }, () => []), labels = [];

	if (!tree || !box.width) return;
	performance.mark("icicle begins");
	const size = [Math.round(box.width * ratio), Math.round(box.height * ratio)];
	if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.clearRect(0, 0, box.width, box.height);
	const view = viewOf(), first = Math.floor(box.top / box.row), style = getComputedStyle(canvas);
	const last = Math.min(Math.ceil((box.top + box.height) / box.row), tree.rows.length);

	context.font = `12px ${style.fontFamily}`;
	for (let depth = first; depth < last; depth++)
		placeRow(tree, depth, view, depth * box.row - box.top, boxes, labels);
	fillBoxes(context, boxes, palette(isDark()));
	context.fillStyle = style.color;
	drawLabels(context, tree, labels);
	if (profile.hover !== null) outline(context, view, profile.hover, style.color, 1);
	if (profile.cursor !== null) outline(context, view, profile.cursor, style.outlineColor, 2);
	performance.measure("icicle", "icicle begins");
	if (performance.getEntriesByName("icicle").length > 200) performance.clearMeasures("icicle");
	performance.clearMarks("icicle begins");
}

const drawIcicleSoon = onceAFrame(drawIcicle);

/* Sizes change with the window, and with the depth of the tree. */
function measureIcicle() {
	const node = $("icicle"), row = parseFloat(getComputedStyle(node).getPropertyValue("--icicle-row")) || 20;
	const rows = profile.tree?.rows.length ?? 0;

	$("icicle-room").style.height = `${rows * row}px`;
	$("icicle-canvas").style.height = `${node.clientHeight}px`;
	profile.box = { width: node.clientWidth, height: node.clientHeight, top: node.scrollTop, row };
	drawIcicleSoon();
}

/* So that a node's row is in sight, with some above it. */
function scrollToNode(i) {
	const node = $("icicle"), { row } = profile.box, top = profile.tree.depth[i] * row;

	if (top < node.scrollTop || top + 3 * row > node.scrollTop + node.clientHeight)
		node.scrollTop = Math.max(top - 3 * row, 0);
	profile.box.top = node.scrollTop;
}

/* --- zoom, cursor, mouse */

function zoomTo(i) {
	const { tree } = profile;

	if (!tree || i === null) return;
	profile.cursor = i;
	if (i !== profile.zoom) askFor({ zoom: linkOfNode(tree, i) });
	else drawIcicle();
	tellNode(i);
	if (tree.depth[i] * profile.box.row < $("icicle").scrollTop) scrollToNode(i);
}

function nodeUnder(event) {
	const { tree, box, zoom } = profile, area = $("icicle-canvas").getBoundingClientRect();
	const depth = Math.floor((event.clientY - area.top + box.top) / box.row);

	if (!tree || depth < 0 || depth >= tree.rows.length) return null;
	const view = viewOf(), x = view.left + (event.clientX - area.left) / view.scale;
	/* Above the node that is zoomed to, there is one in each row. */
	return nodeAt(tree, depth, depth < tree.depth[zoom] ? tree.x[zoom] + tree.width[zoom] / 2 : x);
}

/* What is under the pointer: it is asked again for each new tree, since a mouse may rest. `at`: null if it is away. */
function hoverOver(at) {
	const i = at ? nodeUnder(at) : null;

	profile.pointer = at;
	if (i !== profile.hover) {
		profile.hover = i;
		drawIcicleSoon();
	}
	$("icicle-canvas").style.cursor = i === null ? "" : "pointer";
	if (i === null) hideTip();
	else showTipAt($("icicle-canvas"), nodeTip(profile.tree, i).join("\n"), at.clientX, at.clientY);
}

/* The next node in a row, of those that are as wide as a pixel. */
function beside(i, step) {
	const { tree } = profile, row = tree.rows[tree.depth[i]], view = viewOf();

	for (let k = firstRightOf(tree, row, tree.x[i]) + step; k >= 0 && k < row.length; k += step) {
		const other = row[k];

		if (tree.x[other] >= view.right || tree.x[other] < view.left) break;
		if (tree.width[other] * view.scale >= 1) return other;
	}
	return i;
}

function firstBelow(i) {
	const { tree } = profile, below = nodeAt(tree, tree.depth[i] + 1, tree.x[i]);

	return below !== null && tree.parent[below] === i ? below : i;
}

function moveInIcicle(step) {
	const { tree, cursor, zoom } = profile;

	if (!tree) return;
	const from = cursor ?? zoom, steps = { up: () => Math.max(tree.parent[from], 0), down: () => firstBelow(from),
		left: () => beside(from, -1), right: () => beside(from, 1), home: () => zoom };

	profile.cursor = cursor === null ? zoom : steps[step]();
	scrollToNode(profile.cursor);
	drawIcicle();
	tellNode(profile.cursor);
}

/* The line below the icicle, which is also read out. */
function tellNode(i) { put($("icicle-said"), i === null ? "" : nodeTip(profile.tree, i).join(" · ")); }
