/* SPDX-License-Identifier: MIT */

#include "base/cgroup/container-names.h"

#include "base/util/text.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

const char *const container_name_keys[_CONTAINER_NAME_MAX] = {
	[CONTAINER_NAMESPACE] = "namespace",
	[CONTAINER_POD] = "pod",
	[CONTAINER_NAME] = "container",
	[CONTAINER_IMAGE] = "image",
};

/* --- names to keep */

struct container_names {
	unsigned refs;
	char *text[_CONTAINER_NAME_MAX]; /* NULL: not known */
};

static bool is_name(const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return false;
	return n > 0 && n < size;
}

/* False if there is no memory. */
static bool keep_text(char **ret, const char *text)
{
	*ret = is_name(text, CONTAINER_NAME_SIZE) ? utf8_printable(text) : NULL;
	return *ret || !is_name(text, CONTAINER_NAME_SIZE);
}

int container_names_new(struct container_names **ret, const struct container_texts *texts)
{
	_cleanup_(container_names_unrefp) struct container_names *names = calloc(1, sizeof(*names));
	bool any = false;

	if (!names)
		return -ENOMEM;
	names->refs = 1;
	for (int i = 0; i < _CONTAINER_NAME_MAX; i++) {
		if (!keep_text(&names->text[i], texts->text[i]))
			return -ENOMEM;
		any |= names->text[i] != NULL;
	}
	if (!any)
		return -ENODATA;
	*ret = steal_ptr(names);
	return 0;
}

int container_names_of_pod(struct container_names **ret, const struct container_names *names)
{
	struct container_texts texts = {};
	static const enum container_name of_pod[] = { CONTAINER_NAMESPACE, CONTAINER_POD };

	/* utf8_printable() can have made it longer. */
	for (size_t i = 0; i < ARRAY_SIZE(of_pod); i++)
		if (names->text[of_pod[i]])
			(void)snprintf(texts.text[of_pod[i]], CONTAINER_NAME_SIZE, "%s", names->text[of_pod[i]]);
	return container_names_new(ret, &texts);
}

struct container_names *container_names_ref(struct container_names *names)
{
	assert(names->refs > 0);
	names->refs++;
	return names;
}

struct container_names *container_names_unref(struct container_names *names)
{
	if (!names || --names->refs > 0)
		return NULL;
	for (int i = 0; i < _CONTAINER_NAME_MAX; i++)
		free(names->text[i]);
	free(names);
	return NULL;
}

const char *container_names_text(const struct container_names *names, enum container_name which)
{
	return names ? names->text[which] : NULL;
}

/* --- files */

json_t *container_file_parse(const char *text, size_t size)
{
	/* "No limit" is the largest number of 64 bits there, which jansson can't take as a whole number. */
	return json_loadb(text, size, JSON_DECODE_INT_AS_REAL, NULL);
}

/* text == NULL: there is none. */
static void add_text(struct container_texts *texts, enum container_name which, const char *text)
{
	char *to = texts->text[which];

	if (text && !*to && is_name(text, CONTAINER_NAME_SIZE))
		memcpy(to, text, strlen(text) + 1);
}

/* Annotations of a bundle, or labels of docker's. */
static void add_annotations(struct container_texts *texts, const json_t *annotations)
{
	static const struct {
		const char *key;
		enum container_name which;
	} known[] = {
		/* Kubelet's; CRI-O makes them annotations, and docker has them as labels. */
		{ "io.kubernetes.pod.namespace", CONTAINER_NAMESPACE },
		{ "io.kubernetes.pod.name", CONTAINER_POD },
		{ "io.kubernetes.container.name", CONTAINER_NAME },
		/* containerd */
		{ "io.kubernetes.cri.sandbox-namespace", CONTAINER_NAMESPACE },
		{ "io.kubernetes.cri.sandbox-name", CONTAINER_POD },
		{ "io.kubernetes.cri.container-name", CONTAINER_NAME },
		{ "io.kubernetes.cri.image-name", CONTAINER_IMAGE },
		/* CRI-O */
		{ "io.kubernetes.cri-o.ImageName", CONTAINER_IMAGE },
		/* nerdctl */
		{ "nerdctl/name", CONTAINER_NAME },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		add_text(texts, known[i].which, json_string_value(json_object_get(annotations, known[i].key)));
}

static void add_docker(struct container_texts *texts, const json_t *root)
{
	const json_t *config = json_object_get(root, "Config");
	const char *name = json_string_value(json_object_get(root, "Name"));

	add_annotations(texts, json_object_get(config, "Labels"));
	add_text(texts, CONTAINER_IMAGE, json_string_value(json_object_get(config, "Image")));
	add_text(texts, CONTAINER_NAME, name && *name == '/' ? name + 1 : name);
}

/* [{"id": …, "names": ["web"], "metadata": "{\"image-name\": …}"}, …] */
static void add_stored(struct container_texts *texts, const json_t *container)
{
	const char *metadata = json_string_value(json_object_get(container, "metadata"));
	json_t *inner = metadata ? container_file_parse(metadata, strlen(metadata)) : NULL;

	add_text(texts, CONTAINER_NAME, json_string_value(json_array_get(json_object_get(container, "names"), 0)));
	add_text(texts, CONTAINER_IMAGE, json_string_value(json_object_get(inner, "image-name")));
	json_decref(inner);
}

static void add_of_storage(struct container_texts *texts, const json_t *root, const char *id)
{
	for (size_t i = 0; i < json_array_size(root); i++) {
		const json_t *container = json_array_get(root, i);
		const char *name = json_string_value(json_object_get(container, "id"));

		if (name && strcmp(name, id) == 0)
			add_stored(texts, container);
	}
}

void container_file_find(struct container_texts *texts, const json_t *root, enum container_file kind, const char *id)
{
	if (kind == CONTAINER_BUNDLE)
		add_annotations(texts, json_object_get(root, "annotations"));
	else if (kind == CONTAINER_DOCKER)
		add_docker(texts, root);
	else
		add_of_storage(texts, root, id);
}
