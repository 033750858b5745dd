/* SPDX-License-Identifier: MIT */
/*
 * The columns that the reader has chosen, in the reader's order: a list of keys, of which "-key" is hidden. Columns
 * that are not in the list, as of an event that was configured since, come after them.
 */

/* null: as configured. */
function setChoice(list) {
	state.choice = list?.length ? list : null;
	save("columns", state.choice?.join(" ") ?? "");
}

function chosen(columns) {
	const places = new Map(state.choice?.map((key, i) => [key.replace(/^-/, ""), i]));

	if (!state.choice) return columns;
	return columns.filter((column) => !state.choice.includes(`-${column.key}`))
		.sort((a, b) => (places.get(a.key) ?? Infinity) - (places.get(b.key) ?? Infinity) || 0);
}

/* All of them, the hidden ones where they would be. */
function choosable() {
	const choice = state.choice;

	state.choice = choice?.map((key) => key.replace(/^-/, "")) ?? null;
	const all = chosen(columnsOf("cgroup", state.snapshot?.cgroups ?? []).filter((it) => it.counted || state.all));
	state.choice = choice;
	return all;
}

function useChoice(list) {
	setChoice(list);
	if (!state.snapshot) return;
	setColumns(state.snapshot.cgroups);
	takeNumbers();
	order();
}

function listedChoice() {
	return [...$("choice").children].map((item) =>
		(item.querySelector("input").checked ? "" : "-") + item.dataset.key);
}

function move(item, step) {
	const other = step < 0 ? item.previousElementSibling : item.nextElementSibling, focus = document.activeElement;

	if (!other) return;
	if (step < 0) other.before(item);
	else other.after(item);
	focus.focus();
	useChoice(listedChoice());
	const place = [...$("choice").children].indexOf(item) + 1;
	put($("moved"), `${item.querySelector("label").textContent} is column ${place}`);
}

function fillChoice() {
	$("choice").replaceChildren();
	for (const column of choosable()) {
		const item = make("li", $("choice")), label = make("label", item), box = make("input", label);

		item.dataset.key = column.key;
		box.type = "checkbox";
		box.checked = !state.choice?.includes(`-${column.key}`);
		box.addEventListener("change", () => useChoice(listedChoice()));
		label.append(column.label);
		for (const [step, sign, words] of [[-1, "↑", "further left"], [1, "↓", "further right"]]) {
			const button = make("button", item, "", sign);

			attr(button, "aria-label", `${column.label} ${words}`);
			attr(button, "data-tip", words);
			button.addEventListener("click", () => move(item, step));
		}
	}
}

function showChoice() {
	if (!state.snapshot) return;
	fillChoice();
	put($("moved"), "");
	$("chooser").showModal();
}

function resetChoice() {
	useChoice(null);
	fillChoice();
}
