/* SPDX-License-Identifier: MIT */

#include "base/elf/module.h"

#include <string.h>
#include <sys/sysmacros.h>

bool module_key_is_inode(const struct module_key *key, const struct stat *st)
{
	return st->st_ino == key->inode && major(st->st_dev) == key->major && minor(st->st_dev) == key->minor;
}

struct module *module_new(const struct module_key *key, const char *path)
{
	size_t size = strlen(path) + 1;
	struct module *module = malloc(sizeof(*module) + size);

	if (!module)
		return NULL;
	module->refs = 1;
	module->key = *key;
	memcpy(module->path, path, size);
	return module;
}

struct module *module_ref(struct module *module)
{
	module->refs++;
	return module;
}

struct module *module_unref(struct module *module)
{
	if (module && --module->refs == 0)
		free(module);
	return NULL;
}

bool module_is(const struct module *module, const struct module_key *key, const char *path)
{
	return memcmp(&module->key, key, sizeof(*key)) == 0 && strcmp(module->path, path) == 0;
}

bool module_is_file(const struct module *module)
{
	return module->path[0] == '/' && module->path[1] != '/' && (module->key.build_id_size || module->key.inode);
}
