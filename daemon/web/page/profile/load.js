/* SPDX-License-Identifier: MIT */
/* --- asking for profiles: what is live is asked for again, the more seldom the longer it is and the longer it takes */

const EVENT_DEFAULT = "cpu-clock";

/* Of which cgroups, with those below them, commands and event. */
function scopeParameters() {
	const { cgroup, command, event } = profile.asked, given = { cgroup, below: cgroup && "yes", command, event };

	return Object.fromEntries(Object.entries(given).filter(([, text]) => text));
}

function stretchParameters(asked) {
	if (asked.from !== null) return { from: asked.from, to: asked.to };
	return { from: asked.last ? `-${asked.last}s` : 0 };
}

function profileUrl(format, stretch) {
	const by = levelsOf(profile.asked);

	return `api/v1/profile?${new URLSearchParams({ format, by, ...stretch, ...scopeParameters() })}`;
}

/* A baseline does not change while the stretch goes on. */
async function askBase() {
	const { base } = profile.asked, url = base && profileUrl("json", { from: base[0], to: base[1] });

	if (url && profile.base.key !== url) profile.base = { key: url, answer: await ask(url) };
	return url ? profile.base.answer : null;
}

async function askHeat(reach) {
	const parameters = { ...stripParameters(reach), ...scopeParameters() };

	if (profile.hasNoHeat) return null;
	try {
		return await ask(`api/v1/profile/heat?${new URLSearchParams(parameters)}`);
	} catch (error) {
		if (!(error instanceof Silence)) throw error;
		profile.hasNoHeat = error.status === 404;
		return null;
	}
}

/* The same node in another tree; what is not there any more is nothing. */
function sameNode(before, i, tree) {
	const found = i === null ? -1 : tree.link.subarray(0, tree.nr).indexOf(before.link[i]);

	return found < 0 ? null : found;
}

function takeProfile(answer, base, heat, question) {
	const before = profile.tree, tree = makeTree(answer, base);

	profile.question = question;
	profile.cursor = before ? sameNode(before, profile.cursor, tree) : null;
	profile.hover = null;
	profile.tree = tree;
	profile.heat = heat;
	profile.error = null;
	profile.isRefused = false;
}

/* What went wrong, in the daemon's words; that it is away is said elsewhere. Where there is no answer, the one before
 * stays, if it is of the same question. */
function noteFailure(error, question) {
	if (!(error instanceof Silence)) throw error;
	profile.error = error.status ? error.words ?? error.message :
		state.away ? null : `perfmond has not answered: ${error.message}`;
	/* A question that makes no sense makes none later. */
	profile.isRefused = error.status === 400;
	if (error.status || question !== profile.question) {
		profile.tree = null;
		profile.heat = null;
	}
}

function profileDelay() {
	const { last } = profile.asked, long = last || profile.tree?.answer.reach_seconds || 0;

	return Math.max(Math.min(Math.max(long * 1000 / 60, 2000, profile.took * 20), 60000), state.interval);
}

async function askProfile() {
	const begin = performance.now(), url = profileUrl("json", stretchParameters(profile.asked));
	const question = `${url} ${profile.asked.base}`;

	profile.isDue = false;
	try {
		const answer = await ask(url), base = await askBase(), heat = await askHeat(answer.reach_seconds);

		if (!profile.isDue) takeProfile(answer, base, heat, question);
	} catch (error) {
		noteFailure(error, question);
	}
	profile.took = performance.now() - begin;
}

async function loadProfile() {
	clearTimeout(profile.timer);
	if (!profile.isShown) return;
	profile.isDue = true;
	if (profile.isLoading) return;
	profile.isLoading = true;
	drawAsked();
	try {
		while (profile.isDue) await askProfile();
	} finally {
		profile.isLoading = false;
	}
	drawAsked();
	drawProfile();
	profileLater();
}

/* What is live, or has no answer yet. */
function isAskedAgain() { return isLive() || profile.tree === null; }

function profileLater() {
	clearTimeout(profile.timer);
	if (!profile.isShown || profile.isRefused) return;
	profile.timer = setTimeout(() => { if (isAskedAgain() && !state.paused && !document.hidden) loadProfile(); },
		profileDelay());
}
