/* SPDX-License-Identifier: MIT */
/* --- small pieces */

function $(id) { return document.getElementById(id); }

function load(key) {
	try { return localStorage.getItem(`perfmond.${key}`); } catch { return null; }
}

function save(key, value) {
	try { localStorage.setItem(`perfmond.${key}`, value); } catch { /* then it is not kept */ }
}

function make(tag, parent, className, text) {
	const svg = tag === "svg" || tag === "path";
	const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);

	if (className) node.setAttribute("class", className);
	if (text !== undefined) put(node, text);
	if (parent) parent.append(node);
	return node;
}

/* Touches the page only where something has changed; most of it does not, from one reading to the next. */
function put(node, text) {
	const child = node.firstChild ?? node.appendChild(document.createTextNode(""));

	if (child.data !== text) child.data = text;
}

function attr(node, name, value) {
	if (value === null || value === undefined) {
		if (node.hasAttribute(name)) node.removeAttribute(name);
	} else if (node.getAttribute(name) !== String(value)) {
		node.setAttribute(name, value);
	}
}

/* A function that has something drawn before the next frame, once, however often it is called. */
function onceAFrame(does) {
	let isDue = false;

	return () => {
		if (isDue) return;
		isDue = true;
		requestAnimationFrame(() => {
			isDue = false;
			does();
		});
	};
}

function digits(x) {
	return x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
}

/* As many digits as an estimate is worth. */
function twoDigits(x) {
	if (x >= 99.5) return String(Number(x.toPrecision(2)));
	return x >= 9.95 ? x.toFixed(0) : x >= 0.995 ? x.toFixed(1) : x.toFixed(2);
}

/* [digits, prefix]: three digits that count, or two. */
function si(x, isEstimate) {
	const size = Math.abs(x ?? NaN), round = isEstimate ? twoDigits : digits;

	if (Number.isNaN(size)) return ["–", ""];
	if (size === 0) return ["0", ""];
	if (size < 0.005) return ["<0.01", ""];
	for (const [one, prefix] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
		if (size >= one * (isEstimate ? 0.995 : 0.9995)) return [round(x / one), prefix];
	return [round(x), ""];
}

function short(x) { return si(x).join("\u202f").trim(); }

function bytes(x) {
	for (const [one, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]])
		if (x >= one) return `${digits(x / one)} ${unit}`;
	return `${x} B`;
}

function percent(x) { return `${digits(x * 100)} %`; }

function plural(n, what) { return `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`; }

function duration(s) {
	if (s < 120) return `${Math.floor(s)} s`;
	if (s < 7200) return `${Math.floor(s / 60)} min`;
	return s < 172800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
}

function clock(ms) { return new Date(ms).toLocaleTimeString("en-GB"); }

function seconds(s) {
	if (s === null || s === undefined) return "–";
	return s < 1e-3 ? `${digits(s * 1e6)} µs` : s < 1 ? `${digits(s * 1e3)} ms` : `${digits(s)} s`;
}

/* A file's name can have line feeds and the like in it, which get their pictures; and characters that cannot be seen,
 * or change the order of others (format, unassigned, private, and odd spaces), which are named. */
function visible(text) {
	const pictured = text.replace(/[\x00-\x1f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)));
	const code = (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;

	return pictured.replaceAll("\x7f", "\u2421").replace(/(?! )[\p{C}\p{Z}\u034f\u115f\u1160\u3164\uffa0]/gu, code);
}

/* A line of past numbers, the newest at the right; a gap where one is not known. */
function line(past, length, height, area) {
	let path = "", top = 0, start = -1, last = 0;

	for (let i = 0; i < length; i++) top = past[i] > top ? past[i] : top;
	for (let i = 0; i < length; i++) {
		const x = past[(state.at + 1 + i) % length];

		if (Number.isNaN(x)) {
			if (area && start >= 0) path += `L${last} ${height}L${start} ${height}Z`;
			start = -1;
			continue;
		}
		path += `${start < 0 ? "M" : "L"}${i} ${(height - 1 - (top ? x / top : 0) * (height - 3)).toFixed(1)}`;
		if (start < 0) start = i;
		last = i;
	}
	if (area && start >= 0) path += `L${last} ${height}L${start} ${height}Z`;
	return path;
}

function makeLine(parent, length, height, area) {
	const svg = make("svg", parent);

	svg.setAttribute("viewBox", `0 0 ${length - 1} ${height}`);
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("aria-hidden", "true");
	return { area: area ? make("path", svg, "area") : null, path: make("path", svg), length, height };
}

function drawLine(it, past) {
	attr(it.path, "d", past ? line(past, it.length, it.height, false) : "");
	if (it.area) attr(it.area, "d", past ? line(past, it.length, it.height, true) : "");
}

/* Past numbers are kept by the column's key, one an interval, in a ring in which state.at is the newest: { key: ring }.
 * What was never anything else than 0 has none. */
function keep(pasts, key, length, rate) {
	if (!pasts[key] && !(rate > 0)) return;
	pasts[key] ??= new Float32Array(length).fill(NaN);
	pasts[key][state.at % length] = rate ?? NaN;
}
