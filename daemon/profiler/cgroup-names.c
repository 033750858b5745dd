/* SPDX-License-Identifier: MIT */

#include "profiler/cgroup-names.h"

#include "base/util/hash.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>

struct known_name {
	uint64_t id;
	char *path;
	bool in_tree;
	bool filtered, hidden; /* filtered: `hidden` is known */
	UT_hash_handle hh;
	TAILQ_ENTRY(known_name) in_others;
};

struct cgroup_names {
	struct known_name *by_id;
	TAILQ_HEAD(, known_name) others; /* that are not in the tree; the first is forgotten first */
	size_t nr_others;
};

int cgroup_names_new(struct cgroup_names **ret)
{
	*ret = calloc(1, sizeof(**ret));
	if (!*ret)
		return -ENOMEM;
	TAILQ_INIT(&(*ret)->others);
	return 0;
}

static void leave_others(struct cgroup_names *names, struct known_name *known)
{
	if (known->in_tree)
		return;
	TAILQ_REMOVE(&names->others, known, in_others);
	names->nr_others--;
}

static void forget_name(struct cgroup_names *names, struct known_name *known)
{
	leave_others(names, known);
	HASH_DEL(names->by_id, known);
	free(known->path);
	free(known);
}

static void join_others(struct cgroup_names *names, struct known_name *known)
{
	known->in_tree = false;
	TAILQ_INSERT_TAIL(&names->others, known, in_others);
	if (++names->nr_others > CGROUP_NAMES_MAX)
		forget_name(names, TAILQ_FIRST(&names->others));
}

void cgroup_names_forget(struct cgroup_names *names)
{
	struct known_name *known, *next;

	HASH_ITER(hh, names->by_id, known, next)
		forget_name(names, known);
}

void cgroup_names_forget_verdicts(struct cgroup_names *names)
{
	struct known_name *known, *next;

	HASH_ITER(hh, names->by_id, known, next)
		known->filtered = false;
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

/* One that is in the tree, in place of what was known of the id. NULL: no memory. */
static struct known_name *add_name(struct cgroup_names *names, uint64_t id, const char *path)
{
	struct known_name *known = find_known(names, id);

	if (known)
		forget_name(names, known);
	known = calloc(1, sizeof(*known));
	if (!known)
		return NULL;
	known->id = id;
	known->in_tree = true;
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

void cgroup_names_put(struct cgroup_names *names, uint64_t id, const char *path)
{
	(void)add_name(names, id, path);
}

void cgroup_names_end(struct cgroup_names *names, uint64_t id)
{
	struct known_name *known = find_known(names, id);

	if (known && known->in_tree)
		join_others(names, known);
}

void cgroup_names_end_all(struct cgroup_names *names)
{
	struct known_name *known, *next;

	HASH_ITER(hh, names->by_id, known, next)
		if (known->in_tree)
			join_others(names, known);
}

void cgroup_names_note(struct cgroup_names *names, uint64_t id, const char *path)
{
	struct known_name *known = find_known(names, id);

	if (known && known->in_tree)
		return;
	known = add_name(names, id, path);
	if (known)
		join_others(names, known);
}

bool cgroup_names_find(const struct cgroup_names *names, const struct cgroup_filter *filter, uint64_t id,
		       struct cgroup_name *ret)
{
	struct known_name *known = find_known(names, id);

	if (!known)
		return false;
	if (!known->filtered) {
		known->hidden = !cgroup_filter_admits(filter, known->path);
		known->filtered = true;
	}
	*ret = (struct cgroup_name){ .path = known->path, .hidden = known->hidden };
	return true;
}
