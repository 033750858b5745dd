/* SPDX-License-Identifier: MIT */
/*
 * The strip of time: how much there was of the event, over the last hour or the whole reach of memory, and two brushes
 * on it, the stretch that is shown and the baseline. A drag makes a stretch; the ends of one are sliders. A daemon that
 * can't tell (404) has no strip.
 */

const STRIP_SECONDS = 3600, STRIP_COLUMN = 4, STRIP_LEAST = 60, LEAST_DRAG = 4;

function stripParameters(reach) {
	const { asked, isWholeReach } = profile;
	const oldest = Math.min(asked.from ?? Infinity, asked.base?.[0] ?? Infinity), now = Date.now() / 1000;
	const wanted = Math.max(isWholeReach ? reach : Math.min(reach, STRIP_SECONDS), now - oldest);
	const length = Math.ceil(Math.min(Math.max(wanted, STRIP_LEAST), 31 * 86400));
	const columns = Math.min(Math.max(Math.floor($("profile").clientWidth / STRIP_COLUMN), 60), 400);

	return { from: `-${length}s`, columns, rows: 1 };
}

function stripTime(share) { return profile.heat.from + share * (profile.heat.to - profile.heat.from); }

function stripShare(time) {
	const { from, to } = profile.heat;

	return Math.min(Math.max((time - from) / (to - from), 0), 1);
}

/* The stretch that is shown, or the one that is dragged. */
function stretchNow(which) {
	const { tree, asked, drag } = profile;

	if (drag?.which === which) return [drag.from, drag.to].sort((a, b) => a - b);
	if (which === "baseline") return asked.base && [...asked.base];
	return asked.from !== null ? [asked.from, asked.to] : tree ? [tree.answer.from, tree.answer.to] : null;
}

function placeBrush(brush) {
	const stretch = stretchNow(brush.dataset.which), { from, to } = profile.heat;

	attr(brush, "hidden", stretch ? null : "");
	if (!stretch) return;
	const [left, right] = stretch.map(stripShare);

	brush.style.left = `${left * 100}%`;
	brush.style.width = `${(right - left) * 100}%`;
	[...brush.children].forEach((end, i) => {
		attr(end, "aria-valuemin", Math.round(from));
		attr(end, "aria-valuemax", Math.round(to));
		attr(end, "aria-valuenow", Math.round(stretch[i]));
		attr(end, "aria-valuetext", momentText(stretch[i]));
	});
}

function drawStripColumns() {
	const { heat } = profile, canvas = $("strip-canvas"), context = canvas.getContext("2d");
	const ratio = devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
	const top = Math.max(...heat.values, 0), step = width / heat.columns;

	[canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.clearRect(0, 0, width, height);
	context.fillStyle = getComputedStyle(canvas).color;
	heat.values.forEach((value, i) => {
		const high = value ? Math.max(value / top * (height - 14), 1) : 0;

		context.fillRect(i * step, height - high, Math.max(step - 0.5, 0.5), high);
	});
	return top / heat.column_seconds;
}

/* What a column tells: CPUs, or events per second. */
function rateText(rate) {
	const { unit } = profile.heat;

	return unit === "seconds" ? `${digits(rate)} CPUs` : `${short(rate)} ${unit === "count" ? "" : unit}/s`;
}

function drawBrushes() {
	if (profile.heat) for (const brush of document.querySelectorAll("#strip .brush")) placeBrush(brush);
}

function drawStrip() {
	const { heat, tree } = profile, { asked } = profile;

	attr($("strip"), "hidden", heat ? null : "");
	attr($("whole-reach"), "hidden", heat && tree?.answer.reach_seconds > STRIP_SECONDS + 60 ? null : "");
	attr($("whole-reach"), "aria-pressed", Boolean(profile.isWholeReach));
	attr($("which"), "hidden", heat && asked.base ? null : "");
	for (const button of document.querySelectorAll("[data-which]"))
		if (button.tagName === "BUTTON") attr(button, "aria-pressed", button.dataset.which === profile.which);
	if (!heat) return;
	const top = drawStripColumns();

	put($("strip").querySelector(".top"), rateText(top));
	attr($("strip-canvas"), "aria-label", `${heat.event} over time, at most ${rateText(top)}`);
	const axis = $("strip").querySelector(".axis");
	[0, 0.5, 1].forEach((share, i) => put(axis.children[i], momentText(stripTime(share))));
	drawBrushes();
}

/* --- dragging */

function shareOfEvent(event) {
	const box = $("strip").querySelector(".plot").getBoundingClientRect();

	return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
}

/* A stretch of two ends; it is a column long at least. */
function setStretch(which, from, to) {
	const [begin, end] = [from, to].sort((a, b) => a - b), { heat } = profile;
	const last = Math.max(end, begin + (heat?.column_seconds ?? 1));
	const stretch = [begin, last].map((time) => Math.round(time * 10) / 10);

	askFor(which === "baseline" ? { base: stretch } : { from: stretch[0], to: stretch[1] });
}

function beginDrag(event) {
	if (event.button > 0 || !profile.heat) return;
	const end = event.target.closest("[role=slider]"), time = stripTime(shareOfEvent(event));
	const which = end ? end.parentNode.dataset.which : profile.asked.base ? profile.which : "stretch";
	const stretch = stretchNow(which), isFirst = end === end?.parentNode.firstElementChild;

	event.currentTarget.setPointerCapture(event.pointerId);
	profile.drag = { which, from: end ? stretch[isFirst ? 1 : 0] : time, to: end ? stretch[isFirst ? 0 : 1] : time,
		x: event.clientX, isMoved: false };
}

function continueDrag(event) {
	const { drag, heat } = profile, share = shareOfEvent(event);

	if (!heat) return;
	if (drag) {
		drag.to = stripTime(share);
		drag.isMoved ||= Math.abs(event.clientX - drag.x) >= LEAST_DRAG;
		if (drag.isMoved) drawBrushes();
	}
	if (event.pointerType !== "mouse") return;
	const column = Math.min(Math.floor(share * heat.columns), heat.columns - 1);
	const text = drag?.isMoved ? stretchText(...stretchNow(drag.which)) : `${momentText(stripTime(share))}\n` +
		`${rateText(heat.values[column] / heat.column_seconds)}, ${plural(heat.samples[column], "sample")}`;

	showTipAt($("strip-canvas"), text, event.clientX, event.clientY);
}

function endDrag(event) {
	const { drag } = profile;

	profile.drag = null;
	if (event.type === "pointerup" && drag?.isMoved) setStretch(drag.which, drag.from, drag.to);
	else drawBrushes();
}

/* The ends by keys: a column, or ten. */
const SLIDER_KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };

function onSliderKey(event) {
	const brush = event.target.parentNode, { which } = brush.dataset, { heat } = profile;
	const stretch = stretchNow(which), at = event.target === brush.firstElementChild ? 0 : 1;

	if (!(event.key in SLIDER_KEYS) || !stretch) return;
	event.preventDefault();
	event.stopPropagation();
	const moved = stretch[at] + SLIDER_KEYS[event.key] * heat.column_seconds;

	stretch[at] = Math.min(Math.max(moved, heat.from), heat.to);
	if (stretch[0] < stretch[1]) setStretch(which, ...stretch);
}

function beginStrip() {
	const plot = $("strip").querySelector(".plot");

	plot.addEventListener("pointerdown", beginDrag);
	plot.addEventListener("pointermove", continueDrag);
	plot.addEventListener("pointerup", endDrag);
	plot.addEventListener("pointercancel", endDrag);
	plot.addEventListener("pointerleave", hideTip);
	plot.addEventListener("keydown", onSliderKey);
	$("whole-reach").addEventListener("click", () => {
		profile.isWholeReach = !profile.isWholeReach;
		loadProfile();
	});
	for (const button of document.querySelectorAll("button[data-which]"))
		button.addEventListener("click", () => {
			profile.which = button.dataset.which;
			drawStrip();
		});
}
