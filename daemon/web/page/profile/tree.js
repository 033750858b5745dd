/* SPDX-License-Identifier: MIT */
/*
 * An answer of /api/v1/profile as a tree of typed arrays, in the order of the answer: parents come before their
 * children. With a second answer, the baseline, it has the nodes of both, and a node is as wide as the mean of its two
 * shares; else as its total. `rows` has the nodes of each depth, from left to right: that is all that drawing needs.
 */

const PLACE = "place", FUNCTION = "function";

function newTree(answer, base) {
	const size = answer.nodes.name.length + (base?.nodes.name.length ?? 0), number = () => new Float64Array(size);

	return { answer, baseAnswer: base, nr: 0, parent: new Int32Array(size), depth: new Uint16Array(size),
		self: number(), total: number(), samples: number(),
		baseSelf: number(), baseTotal: number(), baseSamples: number(), width: number(), x: number(),
		link: new Uint32Array(size), thing: new Int32Array(size), things: [], rows: [], color: null };
}

/* FNV-1a of UTF-16. */
function hashText(text, hash = 0x811c9dc5) {
	for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
	return hash >>> 0;
}

/* What a node is: a function of a file, a command, a cgroup. Most names are of one thing. */
function thingNumber(tree, nodes, i, byName) {
	const name = nodes.name[i], kind = nodes.kind[i], module = nodes.module[i], missing = nodes.missing[i];
	const isIt = (it) => it.module === module && it.kind === kind && it.missing === missing;
	const first = byName.get(name);
	let thing = first;

	while (thing && !isIt(thing)) thing = thing.next;
	if (!thing) {
		thing = { id: tree.things.length, name, kind, module, missing, found: name.toLowerCase(), next: first,
			hash: hashText([name, kind, module, missing].join("\0")) };
		byName.set(name, thing);
		tree.things.push(thing);
	}
	return thing.id;
}

function addNode(tree, parent, thing) {
	const number = tree.nr++, isTop = parent < 0;

	tree.parent[number] = parent;
	tree.thing[number] = thing;
	tree.depth[number] = isTop ? 0 : tree.depth[parent] + 1;
	tree.link[number] = Math.imul(Math.imul(isTop ? 0 : tree.link[parent], 0x01000193) ^ tree.things[thing].hash,
		0x9e3779b1);
	return number;
}

/* Adds the nodes of an answer; `into` are the arrays that its numbers go to. `known`, where there may be nodes already:
 * their numbers by parent and thing. */
function addNodes(tree, nodes, into, byName, known) {
	const at = new Int32Array(nodes.name.length);

	for (let i = 0; i < at.length; i++) {
		const parent = i ? at[nodes.parent[i]] : -1, thing = thingNumber(tree, nodes, i, byName);

		at[i] = known?.get(parent * MANY + thing) ?? addNode(tree, parent, thing);
		into.self[at[i]] += nodes.self[i];
		into.total[at[i]] += nodes.total[i];
		into.samples[at[i]] += nodes.samples[i];
	}
}

const MANY = 0x4000000;

function addBase(tree, base, byName) {
	const known = new Map(), into = { self: tree.baseSelf, total: tree.baseTotal, samples: tree.baseSamples };

	for (let i = 0; i < tree.nr; i++) known.set(tree.parent[i] * MANY + tree.thing[i], i);
	addNodes(tree, base.nodes, into, byName, known);
}

/* The children of each node, the widest first: of node i those from begin[i] to begin[i + 1]. */
function childrenOf(tree) {
	const begin = new Int32Array(tree.nr + 2), list = new Int32Array(tree.nr), { width, link } = tree;
	const order = Int32Array.from({ length: tree.nr }, (_, i) => i);

	for (let i = 1; i < tree.nr; i++) begin[tree.parent[i] + 2]++;
	for (let i = 1; i < begin.length; i++) begin[i] += begin[i - 1];
	/* Those of one width always in one order. */
	order.sort((a, b) => width[b] - width[a] || link[a] - link[b]);
	/* begin[parent + 1] goes from the parent's begin to its end. */
	for (const i of order) if (i) list[begin[tree.parent[i] + 1]++] = i;
	return { begin, list };
}

/* Where each node is, in the unit of widths, and which are at each depth. */
function layOut(tree) {
	const { begin, list } = childrenOf(tree), { x, width, rows } = tree;

	for (let row = Int32Array.of(0); row.length;) {
		const next = [];

		rows.push(row);
		for (const i of row) {
			let left = x[i];

			for (let k = begin[i]; k < begin[i + 1]; k++) {
				x[list[k]] = left;
				left += width[list[k]];
				next.push(list[k]);
			}
		}
		row = Int32Array.from(next);
	}
}

function makeTree(answer, base) {
	const tree = newTree(answer, base), byName = new Map();

	addNodes(tree, answer.nodes, tree, byName, null);
	if (base) addBase(tree, base, byName);
	const whole = tree.total[0] || 1, baseWhole = tree.baseTotal[0] || 1;
	for (let i = 0; i < tree.nr; i++)
		tree.width[i] = base ? (tree.total[i] / whole + tree.baseTotal[i] / baseWhole) / 2 : tree.total[i];
	layOut(tree);
	tree.color = colorsOf(tree);
	return tree;
}

/* Template and generic arguments as "<…>". What begins with "<" is a type of Rust, and "operator<" is no bracket. */
function foldName(name) {
	let out = "", depth = 0;

	for (let i = 0; i < name.length; i++) {
		const c = name[i], isArrow = c === ">" && name[i - 1] === "-";

		if (c === "<" && (depth || /[\w:]$/.test(out)) && !/\boperator<?$/.test(out)) {
			if (!depth++) out += "<…>";
		} else if (c === ">" && depth && !isArrow) {
			depth--;
		} else if (!depth) {
			out += c;
		}
	}
	return depth ? name : out;
}

function canFold({ kind, name }) { return kind === FUNCTION && name.includes("<") && foldName(name) !== name; }

/* As it stands in the icicle and the table. */
function nameText(thing) {
	if (thing.kind === "cgroup") return cgroupName(thing.name);
	return visible(profile.asked.fold && canFold(thing) ? foldName(thing.name) : thing.name);
}

function thingOf(tree, i) { return tree.things[tree.thing[i]]; }

/* The node of a link's number, or the whole. */
function nodeOfLink(tree, text) {
	const link = parseInt(text, 36), found = text ? tree.link.subarray(0, tree.nr).indexOf(link) : -1;

	return Math.max(found, 0);
}

function linkOfNode(tree, i) { return i ? tree.link[i].toString(36) : ""; }

/* The first of a row that ends right of x. */
function firstRightOf(tree, row, x) {
	let low = 0, high = row.length;

	while (low < high) {
		const middle = (low + high) >> 1, i = row[middle];

		if (tree.x[i] + tree.width[i] > x) high = middle;
		else low = middle + 1;
	}
	return low;
}

function nodeAt(tree, depth, x) {
	const row = tree.rows[depth], i = row?.[firstRightOf(tree, row, x)];

	return i !== undefined && tree.x[i] <= x ? i : null;
}

/* Which nodes are `top` or below it: 1. */
function insideOf(tree, top) {
	const inside = new Uint8Array(tree.nr);

	for (let i = top; i < tree.nr; i++)
		inside[i] = i === top || (tree.parent[i] >= 0 && inside[tree.parent[i]]) ? 1 : 0;
	return inside;
}

/* The names from the outermost on. */
function pathOf(tree, i) {
	const path = [];

	for (; i > 0; i = tree.parent[i]) path.unshift(thingOf(tree, i).name);
	return path;
}

/* --- numbers */

/* Half the width of a share's 95 % interval, of so many samples, as the daemon works it out. */
function errorOf(share, samples) { return samples ? 1.96 * Math.sqrt(share * (1 - share) / samples) : 1; }

/*
 * The change of a share from n samples to m samples: { change, error, isSure }. By Agresti and Caffo: a sample is added
 * to both sides of both, so that the interval holds for few samples too, and of shares of 0 and of 1. It is sure when 0
 * is not in its 95 % interval.
 */
function changeOf(share, m, baseShare, n) {
	const p = (share * m + 1) / (m + 2), q = (baseShare * n + 1) / (n + 2);
	const error = 1.96 * Math.sqrt(p * (1 - p) / (m + 2) + q * (1 - q) / (n + 2));

	return { change: share - baseShare, error, isSure: Math.abs(p - q) > error };
}

function changeOfNode(tree, i) {
	return changeOf(tree.total[i] / (tree.total[0] || 1), tree.samples[0],
		tree.baseTotal[i] / (tree.baseTotal[0] || 1), tree.baseSamples[0]);
}

/* A weight with its unit. */
function weightText(x, unit) {
	if (unit === "seconds") return x < 120 ? seconds(x) : duration(x);
	if (unit === "bytes") return bytes(x);
	return unit === "count" ? (x < 1e6 ? Math.round(x).toLocaleString("en") : short(x)) : `${short(x)} ${unit}`;
}

function signed(share) { return `${share < 0 ? "−" : "+"}${digits(Math.abs(share) * 100)} %`; }

function cpusText(tree) {
	const { unit, from, to, total } = tree.answer;

	return unit === "seconds" && to > from ? `${digits(total / (to - from))} CPUs` : "";
}

/* --- folded */

/* A line for each stack with its number of samples, as the daemon's format=folded has it: ":" for each byte of what
 * separates names, or is a command for a terminal. */
function foldedOf(tree) {
	const clean = (name) => name.replace(/[;\x00-\x1f\x7f]/g, ":").replace(/[\x80-\x9f]/g, "::");
	const own = tree.samples.slice(0, tree.nr), lines = [];

	for (let i = 1; i < tree.nr; i++) own[tree.parent[i]] -= tree.samples[i];
	for (let i = 0; i < tree.nr; i++)
		if (own[i] > 0) lines.push(`${pathOf(tree, i).map(clean).join(";") || "all"} ${own[i]}\n`);
	return lines.join("");
}
