/* SPDX-License-Identifier: MIT */

#include "counting/event/catalog/folder.h"

#include "base/util/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

void name_array_release(struct name_array *array)
{
	for (size_t i = 0; i < array->nr; i++)
		free(array->names[i]);
	free(array->names);
	*array = (struct name_array){};
}

static int add_name(struct name_array *array, size_t *room, const char *name)
{
	if (array->nr == *room) {
		size_t more = *room ? 2 * *room : 16;
		char **names = reallocarray(array->names, more, sizeof(*names));

		if (!names)
			return -ENOMEM;
		array->names = names;
		*room = more;
	}
	array->names[array->nr] = strdup(name);
	if (!array->names[array->nr])
		return -ENOMEM;
	array->nr++;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int folder_read(int dirfd, const char *path, struct name_array *ret)
{
	_cleanup_(closep) int fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(closedirp) DIR *dir = NULL;
	_cleanup_(name_array_release) struct name_array array = {};
	size_t room = 0;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir)
		return -errno;
	(void)steal_fd(&fd);

	for (;;) {
		struct dirent *entry;
		int r;

		errno = 0;
		entry = readdir(dir);
		if (!entry && errno)
			return -errno;
		if (!entry)
			break;
		if (entry->d_name[0] == '.')
			continue;
		r = add_name(&array, &room, entry->d_name);
		if (r < 0)
			return r;
	}

	if (array.nr)
		qsort(array.names, array.nr, sizeof(*array.names), compare_names);
	*ret = steal_struct(array);
	return 0;
}
