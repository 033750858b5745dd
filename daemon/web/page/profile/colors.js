/* SPDX-License-Identifier: MIT */
/*
 * Colours of the icicle: a hue for each kind of code, which varies a little by module; with a baseline, red for more
 * and blue for less, which those who see no red from green can tell apart, and by sign in the text.
 */

const CODE = { group: "cgroups, commands", program: "programs", library: "libraries", kernel: "kernel",
	unnamed: "no name" };
const KINDS_OF_CODE = Object.keys(CODE), VARIANTS = 6, STEPS = 5;
/* Lightness, chroma and hue, and the hue's width, of light and of dark. */
const CODE_COLORS = { group: [[.885, .012, 210, 0], [.36, .015, 210, 0]],
	program: [[.865, .07, 165, 34], [.43, .062, 165, 34]], library: [[.845, .06, 255, 34], [.43, .075, 258, 34]],
	kernel: [[.85, .09, 68, 26], [.45, .085, 62, 26]], unnamed: [[.86, .012, 320, 0], [.39, .012, 320, 0]] };
const DIFFERENT = KINDS_OF_CODE.length * VARIANTS, CHANCE = DIFFERENT + STEPS, MATCH = CHANCE + STEPS + 1,
	CRUMBS = MATCH + 1, NR_COLORS = CRUMBS + 1;

function isDark() {
	const theme = document.documentElement.dataset.theme;

	return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function oklch(lightness, chroma, hue) {
	return `oklch(${lightness.toFixed(3)} ${chroma.toFixed(3)} ${hue.toFixed(1)})`;
}

/* All of them, by number: code by kind and variant, less to more, what matches a search, and what is too thin. */
function palette(dark) {
	const made = [];

	for (const kind of KINDS_OF_CODE) {
		const [lightness, chroma, hue, width] = CODE_COLORS[kind][dark ? 1 : 0];

		for (let i = 0; i < VARIANTS; i++)
			made.push(oklch(lightness + (i % 3 - 1) * .012, chroma,
				hue + (i / (VARIANTS - 1) - .5) * width));
	}
	for (let step = -STEPS; step <= STEPS; step++) {
		const much = Math.abs(step) / STEPS;

		made.push(oklch(dark ? .37 + much * .12 : .91 - much * .19, step ? .035 + much * .125 : .006,
			step < 0 ? 252 : 27));
	}
	made.push(...(dark ? [oklch(.5, .19, 335), oklch(.3, .008, 220)] :
		[oklch(.8, .16, 335), oklch(.93, .006, 110)]));
	return made;
}

/* What code is, by its file's name. */
function codeOf({ kind, module }) {
	if (kind !== FUNCTION && kind !== PLACE) return "group";
	if (kind === PLACE || !module) return "unnamed";
	if (module.startsWith("[kernel")) return "kernel";
	return /\.so(\.|$)|^\[vdso\]/.test(module.slice(module.lastIndexOf("/") + 1)) ? "library" : "program";
}

function colorOfThing(thing) {
	const code = codeOf(thing), variant = code === "group" ? 0 : hashText(thing.module ?? "") % VARIANTS;

	return KINDS_OF_CODE.indexOf(code) * VARIANTS + variant;
}

/* By how much the share changed, of the largest change there is. */
function colorOfChange({ change, isSure }, largest) {
	if (!isSure) return CHANCE;
	const step = Math.max(Math.ceil(Math.sqrt(Math.abs(change) / largest) * STEPS), 1);

	return CHANCE + Math.sign(change) * Math.min(step, STEPS);
}

function colorsOf(tree) {
	const colors = new Uint8Array(tree.nr);

	if (!tree.baseAnswer) {
		const own = tree.things.map(colorOfThing);

		for (let i = 0; i < tree.nr; i++) colors[i] = own[tree.thing[i]];
		return colors;
	}
	const changes = Array.from({ length: tree.nr }, (_, i) => changeOfNode(tree, i));
	const largest = changes.reduce((most, it) => (it.isSure ? Math.max(most, Math.abs(it.change)) : most), 0.01);

	for (let i = 0; i < tree.nr; i++) colors[i] = colorOfChange(changes[i], largest);
	return colors;
}

function drawLegend() {
	const colors = palette(isDark()), compared = Boolean(profile.tree?.baseAnswer);
	const signs = compared ? [["less", DIFFERENT], ["within chance", CHANCE], ["more", CHANCE + STEPS]] :
		KINDS_OF_CODE.map((kind, i) => [CODE[kind], i * VARIANTS + 2]);

	$("legend").replaceChildren();
	for (const [words, color] of signs) {
		const sign = make("span", $("legend"));

		make("i", sign).style.background = colors[color];
		sign.append(words);
	}
}
