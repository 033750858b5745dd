/* SPDX-License-Identifier: MIT */
/* --- the machine */

/* CPUs in use: by the kernel's accounting, or, where not all CPUs are told one by one, by the clocks of cgroups. */
function addUse(sum, cpus) {
	const uses = cpus.map((cpu) => cpu.derived.cpus_utilized);

	if (uses.length && uses.every((use) => use !== undefined)) {
		sum.derived.cpus_utilized = uses.reduce((a, b) => a + b);
		sum.busy_seconds = 0;
		return;
	}
	/* The root's clock runs on all CPUs all the time: what is used is what those below it use. Of a part of the
	 * tree, that is not the machine's. */
	const below = (it) => it.label !== "/" && (!it.parent || it.parent.label === "/");
	const used = [...state.rows.values()].filter(below);
	if (state.status?.cgroups.mount?.whole !== false && used.some((it) => "cpus_utilized" in it.row.derived)) {
		const shares = used.map((it) => it.row.events.task_clock?.running ?? 1);

		sum.derived.cpus_utilized = used.reduce((all, it) => all + (it.row.derived.cpus_utilized ?? 0), 0);
		sum.events.task_clock ??= { rate: sum.derived.cpus_utilized, running: Math.min(...shares) };
	}
}

/* What all CPUs do together: sums, and ratios of sums. */
function sumOf(cpus, columns) {
	const sum = { events: {}, derived: {} };

	for (const column of columns) {
		if (column.kind !== "events") continue;
		const known = cpus.map((cpu) => cpu.events[column.key]).filter((it) => it && it.rate !== null);
		const shares = known.map((it) => it.running).filter((share) => share !== null);

		if (known.length)
			sum.events[column.key] = { rate: known.reduce((all, it) => all + it.rate, 0),
				running: shares.length ? Math.min(...shares) : null };
	}
	if (sum.events.cycles?.rate && sum.events.instructions)
		sum.derived.ipc = sum.events.instructions.rate / sum.events.cycles.rate;
	addUse(sum, cpus);
	return sum;
}

function newCpu(key, label) {
	const node = make("div", $("machine"), key === "all" ? "cpu all" : "cpu"), row = { events: {}, derived: {} };

	node.setAttribute("role", "row");
	make("span", node, "", label).setAttribute("role", "rowheader");
	return { key, node, row, past: {}, held: {}, cells: [] };
}

/* Of many CPUs, those that have been in sight have cells. */
function fillCpu(it, columns) {
	const all = it.key === "all";

	for (const column of columns) {
		const cell = make("span", it.node);

		cell.setAttribute("role", "cell");
		const what = all ? make("span", cell, "what", column.label) : null;
		const graph = all ? null : makeLine(cell, LONG_PAST, 14, false);
		const rate = make("span", cell, "rate"), mark = make("span", rate, "mark");
		const number = make("span", rate, all ? "big" : ""), unit = make("span", rate, all ? "faint" : "unit");

		if (what) attr(what, "data-tip", column.text);
		it.cells.push({ cell, mark, number, unit, words: make("span", cell, "unseen"),
			peak: all ? make("span", cell, "peak") : null,
			graph: graph ?? makeLine(cell, LONG_PAST, 34, true) });
	}
}

function highest(past) { return past?.reduce((a, x) => (x > a ? x : a), 0) ?? 0; }

/* CPUs that are nearly full. */
function warmthOfUse(use) { return use >= 0.95 ? "hot" : use >= 0.8 ? "warm" : null; }

function drawCpu(it, columns) {
	const all = it.key === "all";

	if (!it.cells.length) fillCpu(it, columns);
	columns.forEach((column, i) => {
		const cell = it.cells[i], number = heldRate(it, column), [mark, words] = quality(number, column);
		const [text, prefix] = si(number.rate, isEstimate(number)), past = it.past[column.key];
		const use = column.key === "cpus_utilized" ? number.rate / (all ? state.nrCpus : 1) : 0;

		put(cell.mark, mark);
		put(cell.number, text);
		put(cell.unit, all ? prefix + column.unit : prefix);
		put(cell.words, words);
		attr(cell.number.parentNode, "class", ["rate", warmthOfUse(use)].filter(Boolean).join(" "));
		attr(cell.cell, "data-tip", hint(words, number.peak));
		if (all) {
			put(cell.peak, `▴ ${short(highest(past))}`);
			attr(cell.peak, "data-tip", "▴ the highest of what the line shows");
		}
		drawLine(cell.graph, past);
	});
}

function cpuColumns(rows) {
	const columns = columnsOf("cpu", rows).filter((column) => column.counted && column.key !== "cpus_utilized");

	if (state.ratios.cgroup.has("cpus_utilized") || rows.some((row) => row.busy_seconds !== undefined))
		columns.unshift(ratioColumn("cpus_utilized"));
	return columns;
}

/* Of many CPUs, those in sight are drawn; the numbers of the others are kept for their lines. */
function drawCpus() {
	const { scrollTop, clientHeight } = isMapped() ? { scrollTop: 0, clientHeight: 0 } : $("machine"), height = 24;
	const first = scrollTop - 4 * height, last = scrollTop + clientHeight + 4 * height;
	let top = 0;

	for (const it of state.cpus.values()) {
		const isSingle = it.key !== "all";

		attr(it.node, "hidden", isSingle && isMapped() ? "" : null);
		if (!isSingle || (!isMapped() && top >= first && top <= last)) drawCpu(it, state.cpuColumns);
		top += isSingle ? height : 0;
	}
	drawMap();
}

/* For those who have the page read to them: the names that others see in the line of all CPUs. */
function drawMachineHead(columns) {
	const head = make("div", $("machine"), "unseen");

	head.setAttribute("role", "row");
	for (const text of ["CPU", ...columns.map((column) => [column.label, column.unit].filter(Boolean).join(", "))])
		make("span", head, "", text).setAttribute("role", "columnheader");
}

/* Other columns are other cells; the past stays. */
function setCpuColumns(columns) {
	const keys = columns.map((column) => column.key);

	state.cpuColumns = columns;
	if (state.machine.join(" ") === keys.join(" ")) return;
	$("machine").replaceChildren();
	$("machine").style.setProperty("--events", columns.length);
	drawMachineHead(columns);
	state.machine = keys;
	for (const [key, it] of state.cpus) {
		const { past, held } = it;

		state.cpus.set(key, { ...newCpu(key, ""), past, held });
	}
}

function drawMachine(cpus) {
	const single = cpus.filter((row) => "cpu" in row).map((row) => [row.cpu, `CPU ${row.cpu}`, row]);
	const seen = new Set();

	setCpuColumns(cpuColumns(cpus));
	const columns = state.cpuColumns;
	attr($("machine"), "hidden", columns.length ? null : "");
	state.nrCpus = single.length || (state.status?.machine?.cpus ?? 1);
	const all = ["all", single.length ? plural(single.length, "CPU") : "all CPUs", sumOf(cpus, columns)];

	for (const [key, label, row] of [all, ...single]) {
		if (!state.cpus.has(key)) state.cpus.set(key, newCpu(key, label));
		const it = state.cpus.get(key);

		seen.add(key);
		put(it.node.firstChild, label);
		it.row = row;
		for (const column of columns) {
			const number = rateOf(row, column);

			hold(it, column, number);
			keep(it.past, column.key, LONG_PAST, number.rate);
		}
	}
	for (const [key, it] of state.cpus)
		if (!seen.has(key)) {
			it.node.remove();
			state.cpus.delete(key);
		}
	setMap();
	drawCpus();
}
