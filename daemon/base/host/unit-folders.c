/* SPDX-License-Identifier: MIT */

#include "base/host/unit-folders.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int unit_state_folder(char **ret)
{
	const char *folders = getenv("STATE_DIRECTORY");

	*ret = folders && *folders ? strndup(folders, strcspn(folders, ":")) : NULL;
	return folders && *folders && !*ret ? -ENOMEM : 0;
}

int unit_saved_path(const char *name, char **ret)
{
	const char *folders = getenv("RUNTIME_DIRECTORY");
	char *path;

	if (!folders || !*folders)
		return -ENOENT;
	if (asprintf(&path, "%.*s/%s", (int)strcspn(folders, ":"), folders, name) < 0)
		return -ENOMEM;
	*ret = path;
	return 0;
}
