/* SPDX-License-Identifier: MIT */

#include "profiler/naming/naming-child.h"

#include "base/util/helper.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct child {
	struct naming_answers *answers;
	const struct naming_files *files;
	const struct module_key *key;
	struct function_place places[NAMING_PLACES];
	size_t nr;
};

static void answer_all(const struct child *child, enum naming naming)
{
	for (size_t i = 0; i < child->nr; i++)
		child->answers->naming[i] = naming;
}

/* What can't go on. */
static void end_with(const struct child *child, enum naming naming)
{
	answer_all(child, naming);
	helper_exit();
}

static void write_answers(const struct child *child)
{
	struct naming_answers *answers = child->answers;

	for (size_t i = 0; i < child->nr; i++) {
		const struct function_place *place = &child->places[i];

		answers->naming[i] = place->naming;
		answers->start[i] = place->start;
		answers->end[i] = place->end;
		if (place->name && place->name != answers->names[i])
			memcpy(answers->names[i], place->name, strnlen(place->name, FUNCTION_NAME_MAX - 1));
	}
}

/* --- files */

static struct elf_bytes map_file(const char *path, struct stat *ret)
{
	_cleanup_(closep) int fd = path[0] ? helper_open_regular(path, ret) : -1;
	void *data = fd < 0 || ret->st_size <= 0 ? MAP_FAILED :
						   mmap(NULL, (size_t)ret->st_size, PROT_READ, MAP_PRIVATE, fd, 0);

	return data == MAP_FAILED ? (struct elf_bytes){} : (struct elf_bytes){ data, (size_t)ret->st_size };
}

/* Maps the files that may be the one; by its inode, if it has no build id, which is only known when it is read. */
static void map_candidates(const struct child *child, struct elf_bytes ret[static NAMING_FILES])
{
	bool any = false;

	for (size_t i = 0; i < NAMING_FILES; i++) {
		struct stat st;

		ret[i] = map_file(child->files->files[i], &st);
		any |= ret[i].size > 0;
		if (ret[i].size && !child->key->build_id_size && !module_key_is_inode(child->key, &st))
			ret[i].size = 0;
	}
	if (!any)
		end_with(child, NAMING_NO_FILE);
	if (!ret[0].size && !ret[1].size)
		end_with(child, NAMING_OTHER_FILE);
}

static struct elf_bytes map_linked(const struct child *child)
{
	struct elf_bytes bytes = {};
	struct stat st;

	for (size_t i = 0; i < NAMING_LINK_FILES && !bytes.size; i++)
		bytes = map_file(child->files->by_link[i], &st);
	/* What is known already stays. */
	if (child->files->linked && !bytes.size)
		helper_exit();
	return bytes;
}

static unsigned char *map_room(void)
{
	void *room = mmap(NULL, FUNCTION_NAMES_ROOM, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return room == MAP_FAILED ? NULL : room;
}

static struct elf_bytes choose_candidate(const struct elf_bytes *candidates, const struct module_key *key)
{
	for (size_t i = 0; i < NAMING_FILES; i++)
		if (function_names_is_file(candidates[i], key))
			return candidates[i];
	return candidates[candidates[0].size ? 0 : 1];
}

/* Asks for the file of debug symbols, if the places lack names that it might have. */
static void write_link(const struct child *child, struct elf_bytes file)
{
	struct elf_image image;
	const char *link;
	uint32_t crc;
	bool lacks = false;

	for (size_t i = 0; i < child->nr; i++)
		lacks |= child->places[i].naming != NAMING_NAMED;
	if (lacks && elf_image_open(&image, file) && elf_image_debug_link(&image, &link, &crc) &&
	    strnlen(link, sizeof(child->answers->link)) < sizeof(child->answers->link))
		strcpy(child->answers->link, link);
}

_Noreturn static void name_in_file(struct child *child)
{
	struct elf_bytes candidates[NAMING_FILES];
	struct function_sources sources = {};
	struct stat st;

	sources.by_link = map_linked(child);
	map_candidates(child, candidates);
	sources.by_build_id = map_file(child->files->by_build_id, &st);
	sources.room = map_room();
	helper_seal();
	sources.file = choose_candidate(candidates, child->key);
	if (!function_names_find(child->places, child->nr, &sources, child->key))
		write_link(child, sources.file);
	write_answers(child);
	helper_exit();
}

_Noreturn static void name_in_vdso(struct child *child)
{
	struct function_sources sources = { .file = elf_vdso() };

	helper_seal();
	if (!sources.file.size)
		end_with(child, NAMING_GENERATED);
	(void)function_names_find(child->places, child->nr, &sources, child->key);
	write_answers(child);
	helper_exit();
}

_Noreturn void naming_child_run(struct naming_answers *answers, const struct naming_files *files,
				const struct module_key *key, const uint64_t *offsets, size_t nr)
{
	struct child child = { .answers = answers, .files = files, .key = key, .nr = nr };

	for (size_t i = 0; i < nr; i++)
		child.places[i].offset = offsets[i];
	if (files->vdso)
		name_in_vdso(&child);
	name_in_file(&child);
}
