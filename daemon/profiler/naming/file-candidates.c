/* SPDX-License-Identifier: MIT */

#include "profiler/naming/file-candidates.h"

#include "base/util/file.h"
#include "base/util/helper.h"
#include "profiler/naming/function-names.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

_printf_(2, 3) static void set_path(char path[static PATH_MAX], const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(path, PATH_MAX, format, args);
	va_end(args);
	if (n < 0 || n >= PATH_MAX)
		path[0] = '\0';
}

void file_candidates_set(struct file_candidates *ret, const char *proc, const char *path, const struct module_key *key,
			 const struct file_user *user)
{
	memset(ret->paths, 0, sizeof(ret->paths));
	ret->key = *key;
	ret->is_vdso = strcmp(path, MODULE_VDSO) == 0;
	ret->is_any = ret->is_vdso;
	if (path[0] != '/')
		return;
	set_path(ret->paths[0], "%s", path);
	if (!user->pid)
		return;
	set_path(ret->paths[1], "%s/%" PRIu32 "/root%s", proc, user->pid, path);
	set_path(ret->paths[2], "%s/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, proc, user->pid, user->start,
		 user->end);
	set_path(ret->paths[3], "%s/%" PRIu32 "/exe", proc, user->pid);
}

/* --- in the child, up to its exec */

static int copy_vdso(void)
{
	struct elf_bytes vdso = elf_vdso();
	int fd = vdso.size ? memfd_create("perfmond-vdso", MFD_CLOEXEC) : -1;

	return fd >= 0 && write_all(fd, (const char *)vdso.data, vdso.size) == 0 ? fd : -1;
}

enum naming file_candidates_open(const struct file_candidates *candidates, int ret[static FILE_CANDIDATES])
{
	enum naming naming = candidates->is_vdso ? NAMING_GENERATED : NAMING_NO_FILE;

	for (size_t i = 0; i < FILE_CANDIDATES; i++) {
		struct stat st;
		int fd = candidates->is_vdso && i == 0 ? copy_vdso() : helper_open_regular(candidates->paths[i], &st);

		ret[i] = -1;
		if (fd < 0)
			continue;
		if (candidates->is_any || candidates->key.build_id_size || module_key_is_inode(&candidates->key, &st)) {
			ret[i] = fd;
			naming = NAMING_NAMED;
		} else if (naming != NAMING_NAMED && i < FILE_CANDIDATES_AT_PATH) {
			naming = NAMING_OTHER_FILE;
		}
	}
	return naming;
}

/* --- in the child that was executed */

struct elf_bytes file_candidates_map(int fd)
{
	struct stat st;
	void *data;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return (struct elf_bytes){};
	if (st.st_size <= 0)
		return (struct elf_bytes){ (const unsigned char *)"", 0 };
	data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	return data == MAP_FAILED ? (struct elf_bytes){} : (struct elf_bytes){ data, (size_t)st.st_size };
}

struct elf_bytes file_candidates_choose(const struct elf_bytes candidates[static FILE_CANDIDATES],
					const struct module_key *key)
{
	struct elf_bytes any = {};

	for (size_t i = 0; i < FILE_CANDIDATES; i++) {
		if (function_names_is_file(candidates[i], key))
			return candidates[i];
		if (!any.data && i < FILE_CANDIDATES_AT_PATH)
			any = candidates[i];
	}
	return any;
}
