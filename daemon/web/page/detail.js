/* SPDX-License-Identifier: MIT */
/* --- all of one cgroup */

function fillDetail(record) {
	const list = $("detail").querySelector("dl"), body = $("detail").querySelector("tbody"), { row } = record;
	const ratios = Object.entries(row.derived).map(([key, x]) => [key.replaceAll("_", " "), x && digits(x)]);
	const about = [["namespace", row.namespace], ["pod", row.pod], ["container", row.container],
		["image", row.image], ["machine", row.machine], ["unit", row.unit], ["slice", row.slice],
		["container id", row.container_id], ["pod uid", row.pod_uid], ["id", row.id], ["CPU", row.cpu],
		...ratios];
	const keys = new Set(Object.keys(row.events));

	put($("title"), record.whole + (row.gone ? " (removed)" : ""));
	list.replaceChildren();
	for (const [what, text] of about)
		if (text !== undefined && text !== null) {
			make("dt", list, "", what);
			make("dd", list, "", visible(String(text)));
		}
	body.replaceChildren();
	for (const event of state.events.cgroup) {
		const it = row.events[keyOf(event, keys)], line = make("tr", body), unit = UNITS[event.unit] ?? "/s";
		const counted = COUNTED.has(event.state), share = it?.running ?? null;
		const isPart = share !== null && share < WHOLE;

		make("td", line, "", event.text);
		make("td", line, "", `${it?.total?.toLocaleString("en") ?? "–"} ${event.unit ?? ""}`);
		for (const rate of [it?.rate, it?.rate_1m, it?.rate_5m, it?.rate_peak])
			make("td", line, "", rate === undefined || rate === null ? "–" : `${short(rate)} ${unit}`);
		make("td", line, isPart ? "warn" : "", share === null ? "–" : percent(share));
		make("td", line, counted ? "" : "warn", counted ? event.state : `⊘ ${event.state}: ${event.reason}`);
	}
}

function showDetail(record) {
	if (!record) return;
	fillDetail(record);
	$("detail").dataset.key = record.key;
	$("detail").showModal();
	state.past = null;
	$("charts").replaceChildren();
	setRange(state.range);
}

/* --- charts: of one cgroup, and of its parent behind it */

const RANGES = [60, 900, 3600];

function shownRecord() { return $("detail").open ? state.rows.get($("detail").dataset.key) : undefined; }

/* A label as a glob that matches nothing else. */
function globOf(label) { return label.replace(/[*?[]/g, "[$&]"); }

/* Slots of a second and of a quarter of a minute, as slots of one length: short ones are put together. */
function evenSlots(history, rows, least) {
	const made = { times: [], seconds: [], rows: rows.map(() => ({})) }, { times, seconds } = history;

	for (let i = 0; i < times.length;) {
		let end = i, length = 0;

		for (; end < times.length && length < least - 0.5; end++) {
			if (end > i && times[end] - times[end - 1] > seconds[end] * 1.5) break;
			length += seconds[end];
		}
		made.times.push(times[end - 1]);
		made.seconds.push(length);
		rows.forEach((row, k) => {
			for (const [key, rates] of Object.entries(row?.events ?? {})) {
				let known = 0, counted = 0;

				for (let at = i; at < end; at++)
					if (rates[at] !== null) {
						known += seconds[at];
						counted += rates[at] * seconds[at];
					}
				(made.rows[k][key] ??= []).push(known ? counted / known : null);
			}
		});
		i = end;
	}
	return made;
}

async function loadPast(record) {
	const { range } = state, labels = [record.label, record.parent?.label], histories = [];

	for (const label of labels)
		histories.push(label && globOf(label).length <= 1000 ? await askHistory(
			{ scope: "cgroup", cgroup: globOf(label), from: -range - (range > 60 ? 15 : 1) }) : null);
	const rowOf = (history) => history?.cgroups.find((row) => (row.cpu ?? "") === (record.row.cpu ?? ""));
	const [own, parent] = histories;
	/* Both have the same slots, but for one that ends between the two requests. */
	const fits = parent && parent.times.length === own?.times.length && parent.times[0] === own.times[0];

	if (!own || state.range !== range || shownRecord() !== record) return;
	state.past = { ...evenSlots(own, [rowOf(own), fits ? rowOf(parent) : null], range > 60 ? 15 : 1), range,
		parent: fits && rowOf(parent) ? record.parent.path : null, until: own.timestamp,
		loaded: performance.now() };
	drawCharts();
}

/* Asks again when there is something new to be seen. */
async function refreshPast() {
	const record = shownRecord(), age = state.past ? performance.now() - state.past.loaded : Infinity;

	const fresh = state.past?.range === state.range && age < (state.range > 60 ? 15000 : 900);

	if (!record || state.loading || fresh) return;
	state.loading = true;
	try {
		await loadPast(record);
	} catch (error) {
		if (!(error instanceof Silence)) throw error;
	} finally {
		state.loading = false;
	}
	if (state.past?.range !== state.range && shownRecord()) refreshPast();
}

function newChart(column) {
	const node = make("div", $("charts"), "chart"), head = make("h3", node), it = { node, column };

	make("b", head, "", column.label);
	it.now = make("span", head);
	it.about = make("small", head);
	it.plot = make("div", node, "plot");
	it.svg = make("svg", it.plot);
	it.svg.setAttribute("preserveAspectRatio", "none");
	it.svg.setAttribute("role", "img");
	it.parent = make("path", it.svg, "parent");
	it.area = make("path", it.svg, "area");
	it.line = make("path", it.svg);
	it.top = make("span", it.plot, "top");
	it.cross = make("div", it.plot, "cross");
	it.axis = make("div", node, "axis");
	for (let i = 0; i < 3; i++) make("span", it.axis);
	node.dataset.key = column.key;
	attr(it.cross, "hidden", "");
	it.plot.addEventListener("pointermove", (event) => {
		const box = it.plot.getBoundingClientRect();

		cross((event.clientX - box.left) / box.width);
	});
	it.plot.addEventListener("pointerleave", () => cross(null));
	return it;
}

/* A line of rates by their time, 0 to 1000 wide and 100 high, with gaps where nothing is known. */
function timeLine(past, rates, top, area) {
	const from = past.until - past.range, x = (time) => ((time - from) / past.range * 1000).toFixed(1);
	let path = "", start = null, last = null;
	const end = () => { if (area && start !== null) path += `L${last} 100L${start} 100Z`; };

	(rates ?? []).forEach((rate, i) => {
		const gap = i && past.times[i] - past.times[i - 1] > past.seconds[i] * 1.5;

		if (rate === null || gap) {
			end();
			start = null;
		}
		if (rate === null) return;
		if (start === null) start = x(past.times[i]);
		const isFirst = last === null || path === "" || start === x(past.times[i]);
		path += `${isFirst ? "M" : "L"}${x(past.times[i])} ` + (100 - (top ? rate / top : 0) * 92).toFixed(1);
		last = x(past.times[i]);
	});
	end();
	return path;
}

function withUnit(x, column) {
	const [text, prefix] = si(x);

	return `${text} ${prefix}${column.unit === "ratio" ? "" : column.unit}`.trim();
}

function drawChart(it, past) {
	const { column } = it, [own, parent] = past.rows.map((events) => ratesOf(events, column.key));
	const known = (own ?? []).filter((rate) => rate !== null), highest = Math.max(0, ...known);
	const above = Math.max(0, ...(parent ?? []).filter((rate) => rate !== null));
	/* A parent that is far above would leave nothing to be seen. */
	const behind = above <= 3 * highest, top = behind ? Math.max(highest, above) : highest;
	const mean = known.length ? known.reduce((a, b) => a + b) / known.length : null;
	const words = known.length ? `min ${short(Math.min(...known))} · mean ${short(mean)} · max ${short(highest)}` :
		"not known";

	it.rates = own;
	it.svg.setAttribute("viewBox", "0 0 1000 100");
	attr(it.svg, "aria-label", `${column.label}, ${column.unit}: ${words}`);
	attr(it.parent, "d", behind ? timeLine(past, parent, top, false) : "");
	attr(it.area, "d", timeLine(past, own, top, true));
	attr(it.line, "d", timeLine(past, own, top, false));
	put(it.about, words);
	put(it.top, withUnit(top, column));
	[past.range, past.range / 2, 0].forEach((ago, i) => put(it.axis.children[i], clock((past.until - ago) * 1000)));
}

function drawCharts() {
	const { past } = state, columns = state.columns.filter((column) => column.kind !== "name" && column.counted);
	const keys = columns.map((column) => column.key).join(" ");

	if (state.charts.keys !== keys || !$("charts").querySelector(".chart")) {
		$("charts").replaceChildren();
		state.charts = { keys, list: columns.map(newChart) };
	}
	for (const it of state.charts.list) drawChart(it, past);
	if (!past.times.length)
		$("charts").replaceChildren(make("p", null, "", "No past is kept yet ([daemon] history_memory)."));
	cross(state.crossed);
}

/* One moment in all charts: a line, and the numbers of the slot that it is in. */
function cross(share) {
	const { past } = state, time = share === null ? null : past.until - past.range * (1 - share);
	const isIn = (end, i) => time <= end && time > end - past.seconds[i] * 1.5;
	const at = share === null ? -1 : past.times.findIndex(isIn);

	state.crossed = share;
	for (const it of state.charts.list) {
		attr(it.cross, "hidden", share === null ? "" : null);
		it.cross.style.left = `${(share ?? 0) * 100}%`;
		put(it.now, at < 0 ? "" : withUnit(it.rates?.[at] ?? null, it.column));
	}
	put($("moment"), share !== null ? clock(time * 1000) : past?.parent ? `behind it: ${past.parent}` : "");
}

function setRange(range) {
	state.range = RANGES.includes(range) ? range : 60;
	for (const button of document.querySelectorAll("[data-range]"))
		attr(button, "aria-pressed", Number(button.dataset.range) === state.range);
	refreshPast();
	keepAddress();
}

/* --- copies */

async function copy(text, button) {
	/* Not what a click before has put there. */
	const name = (button.dataset.name ??= button.textContent);

	try {
		await navigator.clipboard.writeText(text);
	} catch {
		/* Without TLS, from another machine. */
		const area = make("textarea", document.querySelector("dialog[open]") ?? document.body, "unseen");

		area.value = text;
		area.select();
		document.execCommand("copy");
		area.remove();
	}
	put(button, "Copied");
	setTimeout(() => put(button, name), 1500);
}

function pastRows() {
	const past = state.past ?? { times: [], rows: [{}] }, list = state.charts.list.filter((it) => it.rates);

	return past.times.map((time, i) => ({ time: new Date(time * 1000).toISOString(),
		...Object.fromEntries(list.map((it) => [it.column.key, it.rates[i]])) }));
}

function pastAsCsv() {
	const rows = pastRows(), keys = Object.keys(rows[0] ?? { time: 0 });

	return [keys.join(","), ...rows.map((row) => keys.map((key) => row[key] ?? "").join(","))].join("\n") + "\n";
}

function pastAsJson() {
	const about = { host: state.status?.machine?.hostname ?? null, cgroup: shownRecord()?.label };

	return JSON.stringify({ ...about, rows: pastRows() }, null, "\t");
}
