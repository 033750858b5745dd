/* SPDX-License-Identifier: MIT */

#include "base/cgroup/identity.h"

#include "base/util/text.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define CONTAINER_ID_LENGTH 64
#define ECS_TASK_LENGTH 32

/* A component of the path, or a part of one. */
struct piece {
	const char *s;
	size_t n;
};

#define PIECE(text) ((struct piece){ text, sizeof(text) - 1 })

/* The names found in the components so far: pieces of the label, s == NULL for nothing. */
struct found {
	struct piece unit, slice, container, pod, machine;
	bool escaped, numbered; /* the machine */
	bool in_kubepods;	/* below a component "kubepods" */
	struct piece parent;	/* the component before */
};

static bool piece_equals(struct piece a, struct piece b)
{
	return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

static bool starts_with(struct piece p, struct piece start)
{
	return p.n >= start.n && memcmp(p.s, start.s, start.n) == 0;
}

static bool ends_with(struct piece p, struct piece end)
{
	return p.n >= end.n && memcmp(p.s + p.n - end.n, end.s, end.n) == 0;
}

static struct piece last_bytes(struct piece p, size_t n)
{
	return (struct piece){ p.s + p.n - n, n };
}

static bool consists_of(struct piece p, const char *characters)
{
	for (size_t i = 0; i < p.n; i++)
		if (!strchr(characters, p.s[i]))
			return false;
	return true;
}

static bool is_number(struct piece p)
{
	return p.n && consists_of(p, "0123456789");
}

static bool is_hex(struct piece p)
{
	return consists_of(p, "0123456789abcdef");
}

/* systemd.unit(5): the characters of unit names. */
static bool is_unit_name(struct piece p)
{
	return consists_of(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:-_.\\@");
}

/* systemd puts a '_' before a unit's name that begins with one, and before a name that a file of the kernel's could
 * have ("_cpu.service"). */
static struct piece unescape_unit(struct piece p)
{
	return p.n > 1 && p.s[0] == '_' ? last_bytes(p, p.n - 1) : p;
}

static void find_unit(struct found *found, struct piece component)
{
	static const struct piece types[] = {
		PIECE(".service"), PIECE(".scope"), PIECE(".socket"), PIECE(".mount"), PIECE(".swap"),
	};
	struct piece name = unescape_unit(component);

	if (!is_unit_name(name))
		return;
	if (ends_with(name, PIECE(".slice")) && name.n > strlen(".slice")) {
		found->slice = name;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (ends_with(name, types[i]) && name.n > types[i].n)
			found->unit = name;
}

/* The task's id is that of its cgroup. It stays shorter than other ids (CONTAINER_ID_SIZE). */
static bool is_ecs_container(struct piece task, struct piece component)
{
	return task.n == ECS_TASK_LENGTH && is_hex(task) && starts_with(component, task) && component.n > task.n + 1 &&
	       component.n < CONTAINER_ID_LENGTH && component.s[task.n] == '-' &&
	       is_number(last_bytes(component, component.n - task.n - 1));
}

/*
 * ID                            docker, containerd and Kubernetes with the cgroupfs driver
 * ENGINE-ID, ENGINE-ID.scope    with the systemd driver, or podman and cri-o with either
 * SLICE:ENGINE:ID               containerd, if only kubelet or only containerd is set to the systemd driver
 * TASK/TASK-NUMBER              Amazon ECS on Fargate and on Managed Instances, whose id is the last component
 *
 * An engine's monitor (libpod-conmon-ID.scope) is not in the container.
 */
static void find_container(struct found *found, struct piece component)
{
	static const struct piece engines[] = {
		PIECE("docker-"),	  PIECE("libpod-"), PIECE("libpod-payload-"),
		PIECE("cri-containerd-"), PIECE("crio-"),   PIECE("nerdctl-"),
	};
	struct piece id, before;

	if (is_ecs_container(found->parent, component))
		found->container = component;
	if (ends_with(component, PIECE(".scope")))
		component.n -= strlen(".scope");
	if (component.n < CONTAINER_ID_LENGTH)
		return;
	id = last_bytes(component, CONTAINER_ID_LENGTH);
	before = (struct piece){ component.s, component.n - CONTAINER_ID_LENGTH };
	if (!is_hex(id))
		return;

	/* With podman's cgroupfs driver, this is a pod of containers. */
	if (before.n == 0 && piece_equals(found->parent, PIECE("libpod_parent")))
		return;
	if (before.n == 0 || ends_with(before, PIECE(":")))
		found->container = id;
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
		if (piece_equals(before, engines[i]))
			found->container = id;
}

/* 8-4-4-4-12 hex digits, joined by '-' or, in a slice's name, '_'; or the 32 of a static pod, whose
 * uid is a hash. */
static bool is_pod_uid(struct piece p)
{
	if (p.n == 32)
		return is_hex(p);
	if (p.n != 36)
		return false;
	for (size_t i = 0; i < p.n; i++) {
		bool joint = i == 8 || i == 13 || i == 18 || i == 23;

		if (!strchr(joint ? "-_" : "0123456789abcdef", p.s[i]))
			return false;
	}
	return true;
}

/*
 * kubepods/burstable/podUID                           cgroupfs
 * [PARENT-]kubepods[-burstable]-podUID.slice          systemd
 * kubepods-burstable-podUID.slice:cri-containerd:ID   as above
 */
static void find_pod(struct found *found, struct piece component)
{
	const char *colon = memchr(component.s, ':', component.n);
	struct piece uid;

	if (found->in_kubepods && starts_with(component, PIECE("pod"))) {
		uid = last_bytes(component, component.n - strlen("pod"));
		if (is_pod_uid(uid))
			found->pod = uid;
		return;
	}

	if (colon)
		component.n = (size_t)(colon - component.s);
	if (!ends_with(component, PIECE(".slice")) || !memmem(component.s, component.n, "kubepods", 8))
		return;
	component.n -= strlen(".slice");
	for (size_t length = 32; length <= 36; length += 4) {
		struct piece before;

		if (component.n < length)
			return;
		uid = last_bytes(component, length);
		before = (struct piece){ component.s, component.n - length };
		if (is_pod_uid(uid) && ends_with(before, PIECE("-pod")))
			found->pod = uid;
	}
}

/*
 * machine-NAME.scope                  registered with systemd-machined
 * machine-qemu\x2d1\x2dNAME.scope     libvirt, whose names are DRIVER-NUMBER-NAME there
 * systemd-nspawn@NAME.service         with its unit
 * lxc.payload.NAME                    LXC, LXD and Incus
 * lxc/NAME                            LXC before 4.0, and containers of Proxmox VE, whose names are numbers
 * qemu.slice/NUMBER.scope             virtual machines of Proxmox VE
 *
 * NAME is escaped as systemd escapes it, but for LXC.
 */
static void find_machine(struct found *found, struct piece component)
{
	static const struct {
		struct piece parent; /* empty: any */
		struct piece before, behind;
		bool escaped, numbered, is_number;
	} forms[] = {
		{ .before = PIECE("machine-"), .behind = PIECE(".scope"), .escaped = true, .numbered = true },
		{ .before = PIECE("systemd-nspawn@"), .behind = PIECE(".service"), .escaped = true },
		{ .before = PIECE("lxc.payload."), .behind = PIECE("") },
		{ .parent = PIECE("lxc"), .before = PIECE(""), .behind = PIECE("") },
		{ .parent = PIECE("qemu.slice"), .before = PIECE(""), .behind = PIECE(".scope"), .is_number = true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		size_t around = forms[i].before.n + forms[i].behind.n;
		struct piece name = { component.s + forms[i].before.n, component.n - around };

		if (component.n <= around || !starts_with(component, forms[i].before) ||
		    !ends_with(component, forms[i].behind) ||
		    (forms[i].parent.n && !piece_equals(found->parent, forms[i].parent)) ||
		    (forms[i].is_number && !is_number(name)))
			continue;
		found->machine = name;
		found->escaped = forms[i].escaped;
		found->numbered = forms[i].numbered;
	}
}

static struct found parse_label(const char *label)
{
	struct found found = { .parent = PIECE("") };

	while (*label) {
		struct piece component = { label, strcspn(label, "/") };

		if (component.n) {
			find_unit(&found, component);
			find_container(&found, component);
			find_pod(&found, component);
			find_machine(&found, component);
			if (piece_equals(component, PIECE("kubepods")))
				found.in_kubepods = true;
			found.parent = component;
		}
		label += component.n + (label[component.n] == '/');
	}
	return found;
}

/* Leaves *ret for an absent piece. False if there is no memory. */
static bool copy_piece(char **ret, struct piece p)
{
	if (!p.s)
		return true;
	*ret = strndup(p.s, p.n);
	return *ret;
}

static int hex_digit(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* systemd.unit(5): "\x2d" is '-'. Escapes of what is not printed stay. */
static void unescape(char *text)
{
	char *to = text;

	while (*text) {
		int high = strncmp(text, "\\x", 2) == 0 ? hex_digit(text[2]) : -1;
		int low = high >= 2 && high <= 7 ? hex_digit(text[3]) : -1;

		if (low < 0 || (high == 7 && low == 15)) {
			*to++ = *text++;
		} else {
			*to++ = (char)(high * 16 + low);
			text += 4;
		}
	}
	*to = '\0';
}

/* libvirt's number is another one at each start of the machine. */
static void drop_number(char *machine)
{
	static const char *const drivers[] = { "qemu-", "lxc-", "ch-" };

	for (size_t i = 0; i < ARRAY_SIZE(drivers); i++) {
		size_t n = strlen(drivers[i]), digits;

		if (strncmp(machine, drivers[i], n) != 0)
			continue;
		digits = strspn(machine + n, "0123456789");
		if (digits && machine[n + digits] == '-' && machine[n + digits + 1]) {
			memmove(machine, machine + n + digits + 1, strlen(machine + n + digits + 1) + 1);
			return;
		}
	}
}

int cgroup_identity_of_label(struct cgroup_identity **ret, uint64_t id, const char *label)
{
	_cleanup_(cgroup_identity_unrefp) struct cgroup_identity *identity = calloc(1, sizeof(*identity));
	struct found found;

	if (!identity)
		return -ENOMEM;
	identity->refs = 1;
	identity->id = id;
	identity->label = strdup(label);
	if (!identity->label)
		return -ENOMEM;

	found = parse_label(identity->label);
	if (!copy_piece(&identity->unit, found.unit) || !copy_piece(&identity->slice, found.slice) ||
	    !copy_piece(&identity->container_id, found.container) || !copy_piece(&identity->pod_uid, found.pod) ||
	    !copy_piece(&identity->machine, found.machine))
		return -ENOMEM;
	if (identity->machine && found.escaped)
		unescape(identity->machine);
	if (identity->machine && found.numbered)
		drop_number(identity->machine);
	for (char *p = identity->pod_uid; p && *p; p++)
		if (*p == '_')
			*p = '-';

	*ret = steal_ptr(identity);
	return 0;
}

int cgroup_identity_new(struct cgroup_identity **ret, uint64_t id, const char *path)
{
	_cleanup_(freep) char *label = utf8_printable(path);

	return label ? cgroup_identity_of_label(ret, id, label) : -ENOMEM;
}

struct cgroup_identity *cgroup_identity_ref(struct cgroup_identity *identity)
{
	assert(identity->refs > 0);
	identity->refs++;
	return identity;
}

struct cgroup_identity *cgroup_identity_unref(struct cgroup_identity *identity)
{
	if (!identity || --identity->refs > 0)
		return NULL;

	free(identity->label);
	free(identity->unit);
	free(identity->slice);
	free(identity->container_id);
	free(identity->pod_uid);
	free(identity->machine);
	container_names_unref(identity->names);
	free(identity);
	return NULL;
}
