/* SPDX-License-Identifier: MIT */
/*
 * The heat map of many CPUs: a cell each, as warm as its number of one column. The use of a CPU is told of the whole
 * CPU, all else of the CPU that has most. The reader can have rows with lines and numbers instead.
 */

const MAP_CPUS = 16, LEVELS = 10;

/* One of them is the sum. */
function isMany() { return state.cpus.size > MAP_CPUS; }

function isMapped() { return isMany() && !state.hasCpuRows; }

function mapColumn() { return state.cpuColumns.find((column) => column.key === state.mapped) ?? state.cpuColumns[0]; }

/* The columns to choose from. */
function setMap() {
	const select = $("map-by"), keys = state.machine.join(" ");

	attr($("map"), "hidden", isMany() ? null : "");
	if (select.dataset.keys === keys) return;
	select.dataset.keys = keys;
	select.replaceChildren();
	for (const column of state.cpuColumns) {
		const option = make("option", select, "", column.label);

		option.value = column.key;
		option.selected = column === mapColumn();
	}
}

function mapCell(i) {
	const cell = $("cells").children[i] ?? make("span", $("cells"));

	cell.setAttribute("aria-hidden", "true");
	return cell;
}

/* The words for what is seen: the most, and how many CPUs are full. */
function mapWords(column, cpus, rates) {
	const known = rates.filter((rate) => rate !== null), mean = known.reduce((a, b) => a + b, 0) / known.length;
	const most = Math.max(...known), where = cpus[rates.indexOf(most)]?.key;

	if (!known.length) return "not known yet";
	if (column.key !== "cpus_utilized")
		return `mean ${withUnit(mean, column)}, most on CPU ${where}: ${withUnit(most, column)}`;
	const full = known.filter((rate) => warmthOfUse(rate)).length;

	return `mean ${percent(mean)}, most on CPU ${where}: ${percent(most)}; ` +
		`${full ? `${plural(full, "CPU")} above 80 %` : "none above 80 %"}`;
}

function levelOf(rate, top) {
	if (rate === null) return "no";
	return top ? Math.min(Math.floor(rate / top * LEVELS), LEVELS - 1) : 0;
}

function drawMap() {
	const column = mapColumn();

	if (!isMany() || !column) return;
	const cpus = [...state.cpus.values()].filter((it) => it.key !== "all");
	const rates = cpus.map((it) => heldRate(it, column).rate);
	const isUse = column.key === "cpus_utilized", top = isUse ? 1 : Math.max(...rates.map((rate) => rate ?? 0));
	const words = mapWords(column, cpus, rates);

	put($("map-words"), words);
	attr($("cells"), "hidden", isMapped() ? null : "");
	attr($("cells"), "aria-label", `${column.label} of ${plural(cpus.length, "CPU")}: ${words}`);
	if (!isMapped()) return;
	cpus.forEach((it, i) => {
		const cell = mapCell(i), rate = rates[i];

		put(cell, String(it.key));
		attr(cell, "data-level", levelOf(rate, top));
		attr(cell, "data-tip", `CPU ${it.key}: ${rate === null ? "not known" : isUse ? percent(rate) :
			withUnit(rate, column)}`);
	});
	while ($("cells").children.length > cpus.length) $("cells").lastElementChild.remove();
}

function setCpuRows(hasRows) {
	state.hasCpuRows = hasRows;
	save("cpus", hasRows ? "rows" : "map");
	attr($("cpu-rows"), "aria-pressed", hasRows);
	drawCpus();
}

function setMapped(key) {
	state.mapped = key;
	save("map", key);
	drawMap();
}
