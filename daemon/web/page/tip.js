/* SPDX-License-Identifier: MIT */
/*
 * Tips: what is in data-tip of an element, beside it. By a mouse that rests on it, at once by a key that comes to it,
 * and by a finger: a tap where a tap does nothing else, or a long one. The tip is in the top layer, so that dialogs
 * have tips as well; Escape, scrolling, or a tap elsewhere ends it.
 */

const REST_MS = 400, LONG_TAP_MS = 500;

const tip = { target: null, timer: 0, isLong: false, x: 0, y: 0, isFree: false, isOfMouse: false };

/* Where the mouse was last. */
const mouse = { x: NaN, y: NaN };

function tipOf(node) { return node instanceof Element ? node.closest("[data-tip]") : null; }

function hideTip() {
	clearTimeout(tip.timer);
	if (!tip.target) return;
	if (tip.target.getAttribute("aria-describedby") === "tip") tip.target.removeAttribute("aria-describedby");
	tip.target = null;
	tip.isFree = false;
	$("tip").hidePopover();
}

/* Below the target, or above where there is no room; a wide one near the pointer. */
function placeTip() {
	const box = tip.target.getBoundingClientRect(), own = $("tip").getBoundingClientRect(), { style } = $("tip");
	const near = box.width > 400 && tip.x ? tip.x - 12 : box.left;
	const below = box.bottom + 6, fits = below + own.height + 4 < innerHeight;

	style.left = `${Math.round(Math.max(Math.min(near, innerWidth - own.width - 8), 8))}px`;
	style.top = `${Math.round(fits ? below : Math.max(box.top - own.height - 6, 4))}px`;
}

function showTip(target, isOfMouse = false) {
	hideTip();
	if (!target?.isConnected || !target.dataset.tip) return;
	tip.target = target;
	tip.isOfMouse = isOfMouse;
	put($("tip"), target.dataset.tip);
	$("tip").showPopover();
	placeTip();
	if (target === document.activeElement) target.setAttribute("aria-describedby", "tip");
}

/* A tip of a place in a picture, which goes with the pointer. */
function showTipAt(target, text, x, y) {
	if (tip.target !== target) {
		hideTip();
		tip.target = target;
		tip.isFree = tip.isOfMouse = true;
		$("tip").showPopover();
	}
	put($("tip"), text);
	const own = $("tip").getBoundingClientRect(), { style } = $("tip");
	const fits = y + 18 + own.height + 4 < innerHeight;

	style.left = `${Math.round(Math.max(Math.min(x + 14, innerWidth - own.width - 8), 8))}px`;
	style.top = `${Math.round(fits ? y + 18 : Math.max(y - own.height - 10, 4))}px`;
}

function tipLater(target, after = REST_MS) {
	hideTip();
	if (target) tip.timer = setTimeout(() => showTip(target, true), after);
}

/* With new numbers. */
function renewTip() {
	if (!tip.target || tip.isFree) return;
	const text = tip.target.isConnected && !tip.target.closest("[hidden]") ? tip.target.dataset.tip : null;

	if (!text) hideTip();
	else put($("tip"), text);
}

/* A tap does something on these. */
function isUsed(node) { return node.closest("button, a, input, select, summary, label, .row") !== null; }

function onPointerOver(event) {
	const target = tipOf(event.target), { clientX: x, clientY: y } = event;

	if (event.pointerType !== "mouse") return;
	/* What is under a mouse that rests may change: that ends no tip of a key or of a finger. */
	const isResting = x === mouse.x && y === mouse.y;
	[mouse.x, mouse.y] = [x, y];
	if (isResting && tip.target && !tip.isOfMouse) return;
	if (target === tip.target || event.target.closest("#tip")) return;
	tip.x = x;
	tipLater(target);
}

function onTouch(event) {
	tip.isLong = false;
	if (event.pointerType === "mouse") return;
	[tip.x, tip.y] = [event.clientX, event.clientY];
	const target = tipOf(event.target);

	hideTip();
	if (target)
		tip.timer = setTimeout(() => {
			tip.isLong = true;
			showTip(target);
		}, LONG_TAP_MS);
}

function onPointerMove(event) {
	if (event.pointerType === "mouse") [mouse.x, mouse.y] = [event.clientX, event.clientY];
	else if (Math.hypot(event.clientX - tip.x, event.clientY - tip.y) > 10) clearTimeout(tip.timer);
}

/* A long tap does not open what it is on; a short one tells where it would do nothing. */
function onTap(event) {
	const target = tipOf(event.target);

	if (tip.isLong) {
		event.preventDefault();
		event.stopPropagation();
		tip.isLong = false;
	} else if (event.pointerType === "touch" && target && !isUsed(event.target)) {
		showTip(target);
	}
}

function beginTips() {
	document.addEventListener("pointerover", onPointerOver);
	/* A finger leaves when it is lifted; its tip stays. */
	document.documentElement.addEventListener("pointerleave", ({ pointerType }) => {
		if (pointerType === "mouse") hideTip();
	});
	document.addEventListener("pointerdown", onTouch);
	document.addEventListener("pointermove", onPointerMove);
	for (const end of ["pointerup", "pointercancel"])
		document.addEventListener(end, () => { if (!tip.target) clearTimeout(tip.timer); });
	document.addEventListener("click", onTap, true);
	document.addEventListener("contextmenu", (event) => { if (tip.isLong) event.preventDefault(); });
	document.addEventListener("focusin", (event) => {
		const target = tipOf(event.target);

		if (target === event.target && target.matches(":focus-visible")) showTip(target);
	});
	document.addEventListener("focusout", hideTip);
	document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); }, true);
	document.addEventListener("scroll", hideTip, { capture: true, passive: true });
}
