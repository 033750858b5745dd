/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The names by which people know a container, from a file that its runtime keeps about it:
 *
 *   CONTAINER_BUNDLE   config.json of an OCI bundle: annotations of containerd's CRI, CRI-O and nerdctl
 *   CONTAINER_DOCKER   config.v2.json of docker: name, image, and labels of Kubernetes
 *   CONTAINER_STORAGE  containers.json of podman's and CRI-O's storage: names and images of all containers
 *
 * The files are foreign bytes, and some of what is in them is chosen by whoever starts a container. A name that is too
 * long, or has control characters, is none.
 */

#include "base/util/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum container_name {
	CONTAINER_NAMESPACE, /* of Kubernetes, as is … */
	CONTAINER_POD,
	CONTAINER_NAME,
	CONTAINER_IMAGE, /* as it was asked for */
	_CONTAINER_NAME_MAX,
};

/* "namespace", "pod", "container", "image": in labels and in JSON. */
extern const char *const container_name_keys[_CONTAINER_NAME_MAX];

#define CONTAINER_NAME_SIZE 512

/* Names on their way; "": not known. */
struct container_texts {
	char text[_CONTAINER_NAME_MAX][CONTAINER_NAME_SIZE];
};

/* The same for keeping: immutable, shared by references. */
struct container_names;

/* With one reference. The texts need not be well-formed: one that is no name (see above) is left out. -ENODATA: none is
 * left; -ENOMEM. */
int container_names_new(struct container_names **ret, const struct container_texts *texts);
/* The names of a container's pod, without its own. Errors likewise. */
int container_names_of_pod(struct container_names **ret, const struct container_names *names);
struct container_names *container_names_ref(struct container_names *names);
/* Takes NULL; returns NULL. */
struct container_names *container_names_unref(struct container_names *names);
DEFINE_CLEANUP(struct container_names *, container_names_unref)

/* NULL: it is not known, as all of them are where names is NULL. */
const char *container_names_text(const struct container_names *names, enum container_name which);

enum container_file {
	CONTAINER_BUNDLE,
	CONTAINER_DOCKER,
	CONTAINER_STORAGE,
};

/* Parses a file's text, which the caller has bounded. To be freed with json_decref(). NULL: it is not JSON in UTF-8, or
 * there is no memory, which jansson does not tell apart. */
json_t *container_file_parse(const char *text, size_t size);

/* Adds what the file tells of the container with that id to the texts, where they are "". */
void container_file_find(struct container_texts *texts, const json_t *root, enum container_file kind, const char *id);
