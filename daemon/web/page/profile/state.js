/* SPDX-License-Identifier: MIT */
/*
 * The view of profiles. `asked` is what the reader wants to see, all of it in the address (link.js). load.js asks the
 * daemon for it; tree.js makes a tree of the answer, of which icicle.js draws a part, and functions.js a table.
 */

/* Of asked: as a page without an address begins. Times are seconds since the epoch. */
const PROFILE_ASKED = { cgroup: "", command: "", event: "", last: 300, from: null, to: null, base: null, search: "",
	mark: "", zoom: "", by: "function", sort: "self", fold: "" };

const profile = {
	isShown: false, asked: { ...PROFILE_ASKED }, isLoading: false, isDue: false, timer: 0, took: 0, error: null,
	question: "", tree: null, base: { key: "", answer: null }, heat: null, zoom: 0, cursor: null, hover: null,
	pointer: null, found: null, rows: [], rowsSubject: "", shownRows: 0,
	box: { width: 0, height: 0, top: 0, row: 20 },
	drag: null, which: "baseline", isRefused: false, isWholeReach: false, hasNoHeat: false,
};

/* "live": the last so many seconds, up to now; 0: all there is. Else from one time to another. */
function isLive() { return profile.asked.from === null; }

/* The levels above the functions: threads are one where the table is to have them. */
function levelsOf({ by }) { return by === "thread" ? "cgroup,command,thread" : "cgroup,command"; }

/* Changes what is asked for: `isStep` is one that the back button takes back. */
function askFor(changes, isStep = true) {
	const before = profile.asked, wants = ["cgroup", "command", "event", "last", "from", "to", "base"];

	profile.asked = { ...before, ...changes };
	keepAddress(isStep);
	drawAsked();
	if (levelsOf(before) !== levelsOf(profile.asked) ||
		wants.some((key) => JSON.stringify(before[key]) !== JSON.stringify(profile.asked[key]))) loadProfile();
	else drawProfile();
}
