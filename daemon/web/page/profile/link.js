/* SPDX-License-Identifier: MIT */
/* --- the address of what a profile shows */

/* What "#" is followed by: only what is not as it is anyway. */
function profileAddress(asked = profile.asked) {
	const about = new URLSearchParams({ show: "profile" });

	for (const key of ["cgroup", "command", "event", "search", "mark", "zoom", "by", "sort", "fold"])
		if (asked[key] !== PROFILE_ASKED[key]) about.set(key, asked[key]);
	if (asked.from !== null) about.set("time", `${asked.from}-${asked.to}`);
	else if (asked.last !== PROFILE_ASKED.last) about.set("last", asked.last);
	if (asked.base) about.set("base", asked.base.join("-"));
	return about;
}

/* "1700000000-1700000060.5" as two times; null: it is none. */
function stretchOf(text) {
	const found = /^(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)$/.exec(text ?? "");
	const [from, to] = found ? [Number(found[1]), Number(found[2])] : [];

	return from < to ? [from, to] : null;
}

function readProfileAddress(about) {
	const asked = { ...PROFILE_ASKED }, stretch = stretchOf(about.get("time")), last = Number(about.get("last"));

	for (const key of ["cgroup", "command", "event", "search", "mark", "zoom", "fold"])
		asked[key] = about.get(key) ?? "";
	if (FUNCTIONS_BY.includes(about.get("by"))) asked.by = about.get("by");
	if (FUNCTIONS_SORT.includes(about.get("sort"))) asked.sort = about.get("sort");
	if (stretch) [asked.from, asked.to] = stretch;
	else if (about.has("last") && last >= 0 && last <= 31 * 86400) asked.last = last;
	asked.base = stretchOf(about.get("base"));
	profile.asked = asked;
}

/* A cgroup, with those below it, as cgroup of what is asked. */
function scopeOf({ label }) { return label === "/" || label === "/." ? "" : globOf(label); }

function profileLink(record) {
	return `#${profileAddress({ ...PROFILE_ASKED, cgroup: record ? scopeOf(record) : "" })}`;
}
