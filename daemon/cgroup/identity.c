/* SPDX-License-Identifier: MIT */

#include "cgroup/identity.h"

#include "util/text.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define CONTAINER_ID_LENGTH 64

/* A component of the path, or a part of one. */
struct piece {
	const char *s;
	size_t n;
};

#define PIECE(text) ((struct piece){ text, sizeof(text) - 1 })

/* The names found in the components so far: pieces of the label, s == NULL for nothing. */
struct found {
	struct piece unit, slice, container, pod;
	bool in_kubepods;    /* below a component "kubepods" */
	struct piece parent; /* the component before */
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

static bool is_hex(struct piece p)
{
	for (size_t i = 0; i < p.n; i++)
		if (!strchr("0123456789abcdef", p.s[i]))
			return false;
	return true;
}

/* systemd.unit(5): the characters of unit names. */
static bool is_unit_name(struct piece p)
{
	for (size_t i = 0; i < p.n; i++)
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:-_.\\@", p.s[i]))
			return false;
	return true;
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

/*
 * ID                            docker, containerd and Kubernetes with the cgroupfs driver
 * ENGINE-ID, ENGINE-ID.scope    with the systemd driver, or podman and cri-o with either
 * SLICE:ENGINE:ID               containerd, if only kubelet or only containerd is set to the systemd driver
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

static struct found parse_label(const char *label)
{
	struct found found = { .parent = PIECE("") };

	while (*label) {
		struct piece component = { label, strcspn(label, "/") };

		if (component.n) {
			find_unit(&found, component);
			find_container(&found, component);
			find_pod(&found, component);
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
	    !copy_piece(&identity->container_id, found.container) || !copy_piece(&identity->pod_uid, found.pod))
		return -ENOMEM;
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
	free(identity);
	return NULL;
}
