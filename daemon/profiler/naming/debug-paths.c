/* SPDX-License-Identifier: MIT */

#include "profiler/naming/debug-paths.h"

#include <stdio.h>
#include <string.h>

static void drop_if_long(char *path, int length)
{
	if (length < 0 || length >= PATH_MAX)
		path[0] = '\0';
}

void debug_path_by_build_id(char ret[static PATH_MAX], const char *root, const struct module_key *key)
{
	char hex[2 * MODULE_BUILD_ID_MAX + 1] = "";

	ret[0] = '\0';
	if (key->build_id_size < 2 || key->build_id_size > MODULE_BUILD_ID_MAX)
		return;
	for (size_t i = 0; i < key->build_id_size; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", key->build_id[i]);
	drop_if_long(ret, snprintf(ret, PATH_MAX, "%s/.build-id/%.2s/%s.debug", root, hex, hex + 2));
}

void debug_paths_by_link(char ret[static DEBUG_LINK_PATHS][PATH_MAX], const char *root, const char *program,
			 const char *link)
{
	const char *slash = strrchr(program, '/');
	int folder = slash ? (int)(slash - program) : 0;
	int i = 0;

	for (int k = 0; k < DEBUG_LINK_PATHS; k++)
		ret[k][0] = '\0';
	if (!slash || !link[0] || strchr(link, '/') || strcmp(link, ".") == 0 || strcmp(link, "..") == 0)
		return;
	drop_if_long(ret[i], snprintf(ret[i], PATH_MAX, "%.*s/%s", folder, program, link));
	i++;
	drop_if_long(ret[i], snprintf(ret[i], PATH_MAX, "%.*s/.debug/%s", folder, program, link));
	i++;
	drop_if_long(ret[i], snprintf(ret[i], PATH_MAX, "%s%.*s/%s", root, folder, program, link));
}
