/* SPDX-License-Identifier: MIT */

#include "base/cgroup/descendants.h"

#include "base/cgroup/identity.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NO_PARENT SIZE_MAX

/* A label in the order of the tree. */
struct place {
	const char *path; /* "" is the top */
	size_t label;
	size_t parent; /* the place of the nearest cgroup above it, or NO_PARENT */
	size_t descendants;
};

/* All others are below the top, whatever its label. */
static const char *path_of(const char *label)
{
	return strcmp(label, "/") == 0 || strcmp(label, CGROUP_PART_LABEL) == 0 ? "" : label;
}

/* A slash comes before any other byte: what is below a cgroup follows it at once ("/a", "/a/b", "/a-b"). */
static int byte_order(char c)
{
	return c == '\0' ? -1 : c == '/' ? 0 : (unsigned char)c;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	size_t i = 0;

	while (x->path[i] && x->path[i] == y->path[i])
		i++;
	return byte_order(x->path[i]) - byte_order(y->path[i]);
}

static bool is_below(const char *path, const char *above)
{
	size_t n = strlen(above);

	return strncmp(path, above, n) == 0 && path[n] == '/';
}

/* A place that follows one of the same path is the same cgroup, and has the same parent. */
static size_t find_parent(const struct place *places, size_t at)
{
	size_t i = at - 1;

	if (at == 0)
		return NO_PARENT;
	while (i != NO_PARENT && !is_below(places[at].path, places[i].path))
		i = places[i].parent;
	return i;
}

static bool is_same(const struct place *places, size_t at)
{
	return at > 0 && strcmp(places[at].path, places[at - 1].path) == 0;
}

int descendants_count(const char *const *labels, size_t nr, size_t *ret)
{
	_cleanup_(freep) struct place *places = calloc(nr + 1, sizeof(*places));

	if (!places)
		return -ENOMEM;
	for (size_t i = 0; i < nr; i++)
		places[i] = (struct place){ .path = path_of(labels[i]), .label = i };
	qsort(places, nr, sizeof(*places), compare_places);
	for (size_t i = 0; i < nr; i++)
		places[i].parent = find_parent(places, i);
	/* From below: all that are below a place come after it. */
	for (size_t i = nr; i-- > 0;) {
		size_t to = is_same(places, i) ? i - 1 : places[i].parent;

		if (to != NO_PARENT)
			places[to].descendants += places[i].descendants + !is_same(places, i);
	}
	for (size_t i = 0; i < nr; i++)
		ret[places[i].label] = is_same(places, i) ? ret[places[i - 1].label] : places[i].descendants;
	return 0;
}
