/* SPDX-License-Identifier: MIT */
/* --- the daemon: what it costs, what it lacks, whether it is there */

function drawCost() {
	const { status, before } = state, { cost } = status;
	const same = before?.start_time === status.start_time;
	const since = same ? status.uptime_seconds - before.uptime_seconds : 0;
	const share = since > 0 ? (cost.cpu_seconds - before.cost.cpu_seconds) / since : cost.cpu_share;
	const parts = [["perfmond", status.version], ["up", duration(status.uptime_seconds)],
		["CPU", `${digits(share * 100)} % of one`], ["memory", bytes(cost.resident_bytes)],
		["loop lag", seconds(cost.loop_lag_seconds)],
		["open events", `${status.files.events.toLocaleString("en")} of ${plural(status.files.limit, "file")}`],
		["cgroups counted", status.cgroups.counted.toLocaleString("en")],
		["a reading", seconds(cost.reads ? cost.read_seconds / cost.reads : null)]];

	parts.forEach(([what, text], i) => {
		const part = $("cost").children[i] ?? make("span", $("cost"));

		if (!part.firstChild) part.append(`${what} `, make("b"));
		put(part.lastChild, text);
	});
}

/* Problems in the daemon's own words, and why each event is not counted, those of one reason together. */
function drawNotes() {
	const list = $("notes").querySelector("ul"), lost = new Map();
	const problems = state.status.problems.filter((text) => !text.endsWith("/api/v1/events says why"));

	for (const event of [...state.events.cpu, ...state.events.cgroup])
		if (!COUNTED.has(event.state)) {
			const why = `${event.state}: ${event.reason ?? "no reason is known"}`;

			lost.set(why, (lost.get(why) ?? new Set()).add(event.text));
		}
	const lines = [...problems.map((text) => ["!", text]),
		...[...lost].map(([why, names]) => ["⊘", `${[...names].join(", ")}: not counted, ${why}`])];
	const events = new Set([...lost.values()].flatMap((names) => [...names])).size;
	const summary = [problems.length && plural(problems.length, "problem"),
		events && `${plural(events, "event")} not counted`];

	attr($("notes"), "hidden", lines.length ? null : "");
	put($("notes").firstElementChild, summary.filter(Boolean).join(", "));
	lines.forEach(([mark, text], i) => {
		const item = list.children[i] ?? make("li", list);

		attr(item, "data-mark", mark);
		put(item, visible(text));
	});
	while (list.children.length > lines.length) list.lastElementChild.remove();
}

/* Which machine this is; the address until that is known. */
function drawWhere() {
	const machine = state.status?.machine, name = visible(machine?.hostname ?? location.host);
	const about = machine && [machine.cpu_model, plural(machine.cpus, "CPU"),
		machine.kernel && `Linux ${machine.kernel}`, location.host];

	put($("where").firstChild, name);
	put($("where").lastChild, visible(about?.filter(Boolean).join(" · ") ?? ""));
	if (document.title !== `${name} · perfmond`) document.title = `${name} · perfmond`;
}

function drawState() {
	const every = state.interval < 1000 ? `${state.interval} ms` : duration(state.interval / 1000);
	const recent = state.restarted && Date.now() - state.restarted < 60000;
	const text = state.away ? `away since ${clock(state.away.since)}` : state.paused ? "paused" :
		`live, every ${every}${recent ? `; restarted at ${clock(state.restarted)}` : ""}`;

	put($("state"), text);
	attr($("state"), "class", state.away ? "away" : state.paused ? "paused" : null);
	attr(document.body, "class", state.away ? "away" : null);
	attr($("toast"), "hidden", state.away ? null : "");
	if (state.away)
		put($("toast"), `perfmond has not answered since ${clock(state.away.since)}: ${state.away.why}. ` +
			"The numbers shown are its last ones; the page continues by itself when it is back.");
}
