/* SPDX-License-Identifier: MIT */

#include "profiler/cgroup-names.h"

#include "base/util/hash.h"

#include <errno.h>
#include <string.h>

struct known_name {
	uint64_t id;
	char *path;
	bool filtered, hidden; /* filtered: `hidden` is known */
	UT_hash_handle hh;
};

struct cgroup_names {
	struct known_name *by_id; /* in the order in which they were met */
};

int cgroup_names_new(struct cgroup_names **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static void forget_name(struct cgroup_names *names, struct known_name *known)
{
	HASH_DEL(names->by_id, known);
	free(known->path);
	free(known);
}

void cgroup_names_forget(struct cgroup_names *names)
{
	struct known_name *known, *next;

	HASH_ITER(hh, names->by_id, known, next)
		forget_name(names, known);
}

struct cgroup_names *cgroup_names_free(struct cgroup_names *names)
{
	if (names)
		cgroup_names_forget(names);
	free(names);
	return NULL;
}

static struct known_name *find_known(const struct cgroup_names *names, uint64_t id)
{
	struct known_name *known;

	HASH_FIND(hh, names->by_id, &id, sizeof(id), known);
	return known;
}

/* NULL: no memory. */
static struct known_name *add_name(struct cgroup_names *names, uint64_t id, const char *path)
{
	struct known_name *known = find_known(names, id);

	if (known)
		forget_name(names, known);
	if (HASH_COUNT(names->by_id) >= CGROUP_NAMES_MAX)
		forget_name(names, names->by_id);
	known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	known->id = id;
	known->path = strdup(path);
	if (known->path)
		HASH_ADD(hh, names->by_id, id, sizeof(known->id), known);
	if (!known->path || !known->hh.tbl) {
		free(known->path);
		free(known);
		return NULL;
	}
	return known;
}

void cgroup_names_note(struct cgroup_names *names, uint64_t id, const char *path)
{
	(void)add_name(names, id, path);
}

bool cgroup_names_find(struct cgroup_names *names, const struct cgroup_tree *tree, const struct cgroup_filter *filter,
		       uint64_t id, struct cgroup_name *ret)
{
	struct known_name *known = find_known(names, id);
	const struct cgroup *cgroup;

	if (!known && tree && (cgroup = cgroup_tree_find(tree, id)))
		known = add_name(names, id, cgroup->path);
	if (!known)
		return false;
	if (!known->filtered) {
		known->hidden = !cgroup_filter_admits(filter, known->path);
		known->filtered = true;
	}
	*ret = (struct cgroup_name){ .path = known->path, .hidden = known->hidden };
	return true;
}
