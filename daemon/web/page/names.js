/* SPDX-License-Identifier: MIT */
/* --- names: short ones, of what systemd and the runtimes of containers make; those that people gave, where known */

const RUNTIMES = { "cri-containerd": "containerd", crio: "cri-o", docker: "docker", libpod: "podman" };

/* With the part above. */
const MACHINE = new RegExp("/(?:machine-[^/]+\\.scope|systemd-nspawn@[^/]+\\.service|lxc\\.payload\\.[^/]+)$" +
	"|^lxc/[^/]+$|^qemu\\.slice/\\d+\\.scope$");

function podName(row) { return [row.namespace, row.pod].filter(Boolean).join("/"); }

/* [name, kind] of one part of a row's path, below another. */
function shortPart(part, above, row) {
	const container = /^(?:([a-z-]+)-)?([0-9a-f]{64})(?:\.scope)?$/.exec(part);
	/* Of Amazon ECS: the number tells the containers of a task apart. */
	const task = /^([0-9a-f]{32})-(\d+)$/.exec(part);
	const pod = /^(?:kubepods-)?(?:(burstable|besteffort)-)?pod([0-9a-f]{8})[0-9a-f_-]{24,28}(?:\.slice)?$/
		.exec(part);

	if (container && (!container[1] || container[1] in RUNTIMES))
		return [(container[2] === row.container_id && row.container) || container[2].slice(0, 12),
			RUNTIMES[container[1]] ?? "container"];
	if (task && task[1] === above)
		return [(part === row.container_id && row.container) || `${above.slice(0, 12)}-${task[2]}`,
			"container"];
	if (pod)
		return [podName(row) || `pod ${pod[2]}`,
			pod[1] ?? /(burstable|besteffort)(\.slice)?$/.exec(above)?.[1] ?? "guaranteed"];
	if (row.machine && MACHINE.test(`${above}/${part}`)) return [row.machine, "machine"];
	const bare = part.replace(/\.(slice|scope)$/, "") || part, prefix = above.replace(/\.slice$/, "-");
	const rest = part.endsWith(".slice") && bare.startsWith(prefix) ? bare.slice(prefix.length) : "";
	/* "1000" alone would say nothing. The escapes are those of systemd.unit(5). */
	const name = /\D/.test(rest) ? rest : bare;
	return [name.replace(/\\x([2-7][0-9a-f])/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), ""];
}

function shortParts(row) {
	const parts = row.cgroup.split("/");

	return parts.map((part, i) => shortPart(part, parts[i - 1] ?? "", row));
}

/* [name, kind] of what stands behind the first so many characters of a row's label. */
function shortName(row, from) {
	const short = shortParts(row).slice(row.cgroup.slice(0, from).split("/").length - 1);
	const names = short.map(([name]) => name).join("/"), kind = short.at(-1)?.[1] ?? "";

	return row.cgroup === "/" ? ["/", ""] : [visible(names), kind];
}

/* Without the tree: "namespace/pod · container", or else the path. */
function pathName(row) {
	const names = shortParts(row).map(([name]) => name);
	const from = names.findIndex((name) => name && [podName(row), row.container, row.machine].includes(name));

	return from < 0 ? shortName(row, 0)[0] : visible(names.slice(from).join(" · "));
}

/* That of a cgroup by its label, also if it is gone. */
function cgroupName(label) { return state.rows.get(`${label} `)?.path ?? shortName({ cgroup: label }, 0)[0]; }

/* In two, of which the first is cut where there is no room for both: the last part of a path, or some characters. */
function inTwo(name) {
	const slash = name.lastIndexOf("/"), all = [...name];
	const last = slash > 0 && name.length - slash <= 32 ? [...name.slice(slash)].length : 8;

	return all.length > 16 ? [all.slice(0, -last).join(""), all.slice(-last).join("")] : [name, ""];
}
