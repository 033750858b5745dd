# SPDX-License-Identifier: MIT
"""Profiles that are played: answers of /api/v1/profile and /api/v1/profile/heat, made of stacks and their samples."""

import random
import time

import harness

PERIOD = 0.01
# The page asks again for a live profile the later, the longer it took, but after a minute at most.
AGAIN = 60 + harness.PATIENCE
KERNEL, LIBC = "[kernel]", "/usr/lib/x86_64-linux-gnu/libc.so.6"
STRIPPED = "the file is stripped, and has no debug symbols here"

# (cgroup, command, (function, its file)…) and the number of samples. A function without a name has a reason as well.
DB, WEB = "/system.slice/db.service", "/system.slice/web.service"
BY_DB, BY_WEB = (DB, "postgres", ("main", "/usr/bin/postgres")), (WEB, "nginx", ("main", "/usr/sbin/nginx"))
WRITE, SERVE = (("write", LIBC), ("ksys_write", KERNEL)), ("serve", "/usr/sbin/nginx")
STACKS = {
    (*BY_DB, ("exec_query", "/usr/bin/postgres"), ("hash_join", "/usr/bin/postgres")): 400,
    (*BY_DB, ("exec_query", "/usr/bin/postgres")): 100,
    (*BY_DB, *WRITE, ("copy_user", KERNEL)): 100,
    (*BY_WEB, SERVE, ("memcpy", LIBC)): 200,
    (*BY_WEB, ("libssl.so.3+0x1b2c0", "/usr/lib/libssl.so.3", STRIPPED)): 150,
    (*BY_WEB, SERVE, *WRITE): 30,
    ("(hidden)", "(hidden)"): 20,
}


class Tree:
    """Flat arrays, parents before their children."""

    def __init__(self):
        self.nodes = {part: [] for part in ("parent", "kind", "name", "module", "missing", "self", "total", "samples")}
        self.places = {}
        self.add(-1, "all", "all")

    def add(self, parent, kind, name, module=None, missing=None):
        key = parent, kind, name, module, missing
        if key not in self.places:
            self.places[key] = len(self.nodes["name"])
            for part, value in zip(self.nodes, (parent, kind, name, module, missing, 0, 0, 0)):
                self.nodes[part].append(value)
        return self.places[key]

    def put(self, stack, samples, weight):
        at = self.add(self.add(0, "cgroup", stack[0]), "command", stack[1])
        for name, module, *missing in stack[2:]:
            at = self.add(at, "place" if missing else "function", name, module, *missing)
        self.nodes["self"][at] += weight
        while at >= 0:
            self.nodes["total"][at] += weight
            self.nodes["samples"][at] += samples
            at = self.nodes["parent"][at]


STACK_ENDS = {"frame_pointers": 0.25, "whole": 0.75, "cut": 0, "no_table": 0, "lost": 0}


def profile(stacks=None, begin=None, end=None, nodes=None, **others):
    """An answer of /api/v1/profile, of 60 s up to now."""
    now = time.time()
    tree = Tree()
    for stack, samples in (STACKS if stacks is None else stacks).items():
        tree.put(stack, samples, samples * PERIOD)
    nodes = nodes or tree.nodes
    unnamed = sum(weight for weight, kind in zip(nodes["self"], nodes["kind"]) if kind == "place")
    total = nodes["total"][0]
    return {"event": "cpu-clock", "unit": "seconds", "from": begin or now - 60, "to": end or now, "since": now - 7200,
            "reach_seconds": 3000, "gap_seconds": 0, "period": PERIOD, "samples": nodes["samples"][0],
            "total": total, "weights": "sampled", "not_counted": None, "uncounted": [],
            "unnamed_ratio": unnamed / total if total else None, "cut": False,
            "stack_ends": {end: share if total else None for end, share in STACK_ENDS.items()},
            "events": ["cpu-clock", "faults"], "nodes": nodes, **others}


def times_of(query, now=None):
    """The stretch that a query asks for."""
    now = now or time.time()

    def moment(text):
        if text.startswith("-"):
            return now - float(text[1:-1])
        return now if text == "now" else float(text)

    return max(moment(query.get("from", "-300s")), now - 3000), moment(query.get("to", "now"))


def play(player, stacks=None, before=None):
    """The same stacks at all times, or others in stretches that end more than 10 s ago."""
    def answer(query):
        begin, end = times_of(query)
        is_before = before is not None and end < time.time() - 10
        of_event = {"event": "faults", "unit": "count"} if query.get("event") == "faults" else {}
        return profile(before if is_before else stacks, begin, end, **of_event)

    def heat(query):
        begin, end = times_of(query)
        nr = int(query["columns"]) * int(query.get("rows", 1))
        step = (end - begin) / int(query["columns"])
        samples = [int(step / PERIOD * 2 * random.Random(int((begin + i * step) / step)).random()) for i in range(nr)]
        return {"event": "cpu-clock", "unit": "seconds", "from": begin, "to": end, "since": time.time() - 7200,
                "columns": int(query["columns"]), "rows": int(query.get("rows", 1)), "column_seconds": step,
                "values": [nr * PERIOD for nr in samples], "samples": samples}

    player.profile, player.heat = answer, heat


def large(nr=50000, depth=60):
    """The arrays of a tree of so many nodes, deep and wide, with names and files of real length."""
    chance, tree, stack = random.Random(1), Tree(), [0]
    modules = ["/usr/bin/program", LIBC, KERNEL, *(f"/usr/lib/x86_64-linux-gnu/library-{i}.so.{i}" for i in range(40))]
    nodes = tree.nodes
    for i in range(nr - 1):
        at = stack[-1]
        level = len(stack) - 1
        if level == 0:
            kind, name, module = "cgroup", f"/system.slice/service-number-{i}.service", None
        elif level == 1:
            kind, name, module = "command", f"command-{i % 50}", None
        else:
            kind, name = "function", f"some_function_of_the_program_{i % 6000}_with_a_long_name"
            module = modules[i % len(modules)]
        for part, value in zip(nodes, (at, kind, name, module, None, 0, 0, 0)):
            nodes[part].append(value)
        nodes["samples"][-1] = chance.randrange(1, 40)
        stack.append(i + 1)
        # Up to some caller, which then calls something else.
        while len(stack) > depth or (len(stack) > 3 and chance.random() < 0.5):
            stack.pop()
        if chance.random() < 0.003:
            stack = [0]
    own = nodes["samples"][:]
    for i in range(len(own) - 1, 0, -1):
        nodes["samples"][nodes["parent"][i]] += nodes["samples"][i]
    nodes["self"] = [nr * PERIOD for nr in own]
    nodes["total"] = [nr * PERIOD for nr in nodes["samples"]]
    return nodes


# --- what a browser shows of one

# What is drawn: of each row the places, widths and colours of its boxes. A box ends a pixel earlier, or a quarter of
# its width.
DRAWN = """
const rows = [], { prototype } = CanvasRenderingContext2D, { fillRect } = prototype;
prototype.fillRect = function (x, y, width, height) {
	if (this.canvas.id === 'icicle-canvas')
		(rows[Math.round((y + profile.box.top) / profile.box.row)] ??= []).push(
			[x, width >= 3 ? width + 1 : width / 0.75, this.fillStyle, this.globalAlpha]);
	return fillRect.call(this, x, y, width, height);
};
drawIcicle();
prototype.fillRect = fillRect;
return [rows, profile.box.width];
"""

# The middle of a node that is drawn, by its name, in the window.
PLACE = """
const { tree, box, zoom } = profile, view = viewOf();
const area = document.querySelector('#icicle-canvas').getBoundingClientRect();
const i = [...Array(tree.nr).keys()].find((at) => thingOf(tree, at).name === arguments[0]);
const x = tree.depth[i] < tree.depth[zoom] ? box.width / 2 : (tree.x[i] + tree.width[i] / 2 - view.left) * view.scale;
return [area.left + x, area.top + (tree.depth[i] + 0.5) * box.row - box.top];
"""

ROWS = """
return [...document.querySelectorAll('#functions tbody tr')].map((row) => ({
	name: row.querySelector('.name').textContent, file: row.querySelector('th small').textContent,
	self: row.querySelector('.self').textContent, total: row.querySelector('.total').textContent,
	change: row.querySelector('.change').hidden ? null : row.querySelector('.change').textContent,
	way: row.querySelector('.change').className, chance: row.className === 'chance',
	tip: row.querySelector('button').dataset.tip }));
"""


def drawn(browser):
    """[left, width, colour, opacity] of the boxes of each row, and the width of all."""
    rows, width = browser.run(DRAWN)
    return [sorted(row) for row in rows], width


def widths(browser):
    """How much of each row is drawn, 0 to 1."""
    rows, width = drawn(browser)
    return [sum(box[1] for box in row) / width for row in rows]


def mouse(browser, kind, x, y, **others):
    browser.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": kind, "x": x, "y": y, **others})


def click(browser, x, y):
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        mouse(browser, kind, x, y, **({} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}))


def drag(browser, selector, begin, end):
    """Over shares of an element's width, with the mouse."""
    box = browser.run("return document.querySelector(arguments[0]).getBoundingClientRect()", selector)
    y = box["top"] + box["height"] / 2
    x = [box["left"] + share * box["width"] for share in (begin, (begin + end) / 2, end)]
    mouse(browser, "mouseMoved", x[0], y)
    mouse(browser, "mousePressed", x[0], y, button="left", clickCount=1)
    for at in x[1:]:
        mouse(browser, "mouseMoved", at, y, button="left", buttons=1)
    mouse(browser, "mouseReleased", x[2], y, button="left", clickCount=1)


def place(browser, name):
    """Of a node that holds still: lines above the icicle come and go with what is shown."""
    def still():
        before = browser.run(PLACE, name)
        time.sleep(0.1)
        return before if browser.run(PLACE, name) == before else None
    return harness.until(still, f"{name} holds still")


def click_node(browser, name):
    click(browser, *place(browser, name))


def said(browser):
    return browser.text("#icicle-said")


def zoomed(browser):
    """The path of what is zoomed to."""
    return browser.run("return pathOf(profile.tree, profile.zoom)")


def row(browser, name):
    return next(row for row in browser.run(ROWS) if row["name"] == name)


def until_drawn(browser):
    harness.until(lambda: browser.run("return profile.tree !== null && !profile.isLoading"), "a profile is drawn")
