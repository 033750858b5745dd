/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * A file with code, as the kernel names it in a mapping: by its build id, or else by device and inode, with the path as
 * the process saw it, which may be another's in another mount namespace. Immutable; shared by counted references.
 */

#include "base/util/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define MODULE_BUILD_ID_MAX 20

struct module_key {
	unsigned char build_id[MODULE_BUILD_ID_MAX];
	uint32_t build_id_size; /* 0: not known */
	uint32_t major, minor;	/* of the device; with inode 0, none is known */
	uint64_t inode;
};

/* Is that the file, by device and inode? */
bool module_key_is_inode(const struct module_key *key, const struct stat *st);

/* The path of the code that the kernel maps into each process. It is the same for all programs of this machine's own
 * kind, not for those of others (32 bits). */
#define MODULE_VDSO "[vdso]"

struct module {
	unsigned refs;
	struct module_key key;
	char path[]; /* as bytes; MODULE_VDSO, "//anon", … are no files */
};

/* With one reference. NULL: no memory. */
struct module *module_new(const struct module_key *key, const char *path);
struct module *module_ref(struct module *module);
struct module *module_unref(struct module *module);
DEFINE_CLEANUP(struct module *, module_unref)

bool module_is(const struct module *module, const struct module_key *key, const char *path);

/* Can its symbols be looked for in a file? */
bool module_is_file(const struct module *module);
