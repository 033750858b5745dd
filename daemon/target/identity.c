/* SPDX-License-Identifier: MIT */

#include "target/identity.h"

#include "util/text.h"

#include <errno.h>
#include <string.h>

#define CONTAINER_ID_LENGTH 64

/* A component of the path, or a part of one. */
struct piece {
	const char *s;
	size_t n;
};

#define PIECE(text) ((struct piece){ text, sizeof(text) - 1 })

/* What has been found so far: pieces of the label, s == NULL where nothing was. */
struct findings {
	struct piece unit, slice, container, pod;
	bool in_kubepods;	   /* below a component "kubepods" */
	struct piece parent; /* the component before */
};

static bool equals(struct piece a, struct piece b)
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

static struct piece tail(struct piece p, size_t n)
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

/* systemd puts a '_' before the names of units that the kernel could take for a file of its own
 * ("_cpu.service"), and before those that begin with one. */
static struct piece unescape(struct piece p)
{
	return p.n > 1 && p.s[0] == '_' ? tail(p, p.n - 1) : p;
}

static void look_for_unit(struct findings *f, struct piece component)
{
	static const struct piece types[] = {
		PIECE(".service"), PIECE(".scope"), PIECE(".socket"), PIECE(".mount"), PIECE(".swap"),
	};
	struct piece name = unescape(component);

	if (!is_unit_name(name))
		return;
	if (ends_with(name, PIECE(".slice")) && name.n > strlen(".slice")) {
		f->slice = name;
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (ends_with(name, types[i]) && name.n > types[i].n)
			f->unit = name;
}

/*
 * ID                            docker, containerd and Kubernetes with the cgroupfs driver
 * ENGINE-ID, ENGINE-ID.scope    with the systemd driver, or podman and cri-o with either
 * SLICE:ENGINE:ID               containerd, told of the systemd driver by one side only
 *
 * An engine's monitor (libpod-conmon-ID.scope) is not in the container.
 */
static void look_for_container(struct findings *f, struct piece component)
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
	id = tail(component, CONTAINER_ID_LENGTH);
	before = (struct piece){ component.s, component.n - CONTAINER_ID_LENGTH };
	if (!is_hex(id))
		return;

	/* Of podman's cgroupfs driver, this is a pod of containers. */
	if (before.n == 0 && equals(f->parent, PIECE("libpod_parent")))
		return;
	if (before.n == 0 || ends_with(before, PIECE(":")))
		f->container = id;
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
		if (equals(before, engines[i]))
			f->container = id;
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
static void look_for_pod(struct findings *f, struct piece component)
{
	const char *colon = memchr(component.s, ':', component.n);
	struct piece uid;

	if (f->in_kubepods && starts_with(component, PIECE("pod"))) {
		uid = tail(component, component.n - strlen("pod"));
		if (is_pod_uid(uid))
			f->pod = uid;
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
		uid = tail(component, length);
		before = (struct piece){ component.s, component.n - length };
		if (is_pod_uid(uid) && ends_with(before, PIECE("-pod")))
			f->pod = uid;
	}
}

static struct findings examine(const char *label)
{
	struct findings f = { .parent = PIECE("") };

	while (*label) {
		struct piece component = { label, strcspn(label, "/") };

		if (component.n) {
			look_for_unit(&f, component);
			look_for_container(&f, component);
			look_for_pod(&f, component);
			if (equals(component, PIECE("kubepods")))
				f.in_kubepods = true;
			f.parent = component;
		}
		label += component.n + (label[component.n] == '/');
	}
	return f;
}

/* Where nothing was found, NULL is all right. */
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
	struct findings f;

	if (!identity)
		return -ENOMEM;
	identity->refs = 1;
	identity->id = id;
	identity->label = strdup(label);
	if (!identity->label)
		return -ENOMEM;

	f = examine(identity->label);
	if (!copy_piece(&identity->unit, f.unit) || !copy_piece(&identity->slice, f.slice) ||
	    !copy_piece(&identity->container_id, f.container) || !copy_piece(&identity->pod_uid, f.pod))
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
