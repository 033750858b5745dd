/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The identity of a cgroup, whether or not it still exists: shared by the tree, the totals and snapshots, which may
 * outlive it. Immutable, but for names, which are found later, once; freed with its last reference.
 */

#include "base/cgroup/container-names.h"
#include "base/util/cleanup.h"

#include <stdint.h>

/* The inode of a hierarchy's root directory: kernfs numbers from 1. In a cgroup namespace "/" is another. */
#define CGROUP_ROOT_ID 1

/* The label of a top directory that is not the machine's root. No other cgroup has it, since no directory is named
 * ".". */
#define CGROUP_PART_LABEL "/."

#define CGROUP_ANCESTORS_MAX 32

/* A cgroup's ancestors. */
struct cgroup_ancestors {
	size_t nr;			    /* how many there are */
	uint64_t ids[CGROUP_ANCESTORS_MAX]; /* of the nearest ones, the parent first; the others are 0 */
};

struct cgroup_identity {
	unsigned refs;
	uint64_t id; /* inode of the directory: the kernel's cgroup id */
	/* CLOCK_MONOTONIC ns, shortly after it was made; 0: it was there when the tree was first read. */
	uint64_t found_at;
	char *label; /* the path below the mount as valid UTF-8 (utf8_printable()); "/" is the root (or "/.") */

	/*
	 * The origin, from the label; NULL if it does not apply. Of several, the innermost: a unit of a user's manager,
	 * a container in a container.
	 *
	 * Understands the layouts of systemd, its machines, and of docker, podman, cri-o, containerd, Kubernetes and
	 * Amazon ECS with both the systemd and the cgroupfs driver. doc/metrics.md lists the forms.
	 */
	char *unit;	    /* nginx.service, …, without systemd's escaping of the cgroup's name */
	char *slice;	    /* system.slice, user-1000.slice, … */
	char *container_id; /* 64 hex digits; of ECS also TASK-NUMBER, at most 63 characters */
	char *pod_uid;	    /* of a Kubernetes pod, with its dashes; a static pod's has none */
	char *machine;	    /* of systemd-nspawn, libvirt, LXC and Proxmox VE: its name, as their own tools show it */

	/* Of its container, or its pod, from the runtime's files (container-finder.h): a reference. NULL: none are
	 * known, or not yet. */
	struct container_names *names;
};

/* A new one, with one reference, for the path below the mount, as bytes. -ENOMEM. */
int cgroup_identity_new(struct cgroup_identity **ret, uint64_t id, const char *path);
/* The same, for a label that was kept. */
int cgroup_identity_of_label(struct cgroup_identity **ret, uint64_t id, const char *label);
struct cgroup_identity *cgroup_identity_ref(struct cgroup_identity *identity);
/* Takes NULL; returns NULL. */
struct cgroup_identity *cgroup_identity_unref(struct cgroup_identity *identity);
DEFINE_CLEANUP(struct cgroup_identity *, cgroup_identity_unref)
