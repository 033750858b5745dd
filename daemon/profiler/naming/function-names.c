/* SPDX-License-Identifier: MIT */

#include "profiler/naming/function-names.h"

#include "base/elf/xz.h"
#include "profiler/naming/unwind-table.h"

#include <string.h>
#include <zlib.h>

typedef ElfW(Sym) elf_symbol_entry;

/* A bound of the work on a hostile file; the largest programs have a few million symbols. */
#define SYMBOLS_MAX 20000000U

_Static_assert(FUNCTION_NAMES_ROOM > XZ_MEMORY, "room for what is decompressed, behind the memory for that");

/* The search in all sources. */
struct search {
	struct function_place *places;
	size_t nr;
	struct elf_image file;
	bool compressed; /* there are compressed symbols that could not be read */
};

static bool is_same_build_id(const struct elf_image *image, const unsigned char *build_id, size_t size)
{
	unsigned char own[MODULE_BUILD_ID_MAX];

	return elf_image_build_id(image, own) == size && memcmp(own, build_id, size) == 0;
}

bool function_names_is_file(struct elf_bytes file, const struct module_key *key)
{
	struct elf_image image;

	return elf_image_open(&image, file) &&
	       (!key->build_id_size || is_same_build_id(&image, key->build_id, key->build_id_size));
}

/* --- tables of symbols */

/* The name at an offset of a table of names; NULL unless it ends there. */
static const char *find_name(const struct elf_image *image, const elf_section *names, uint64_t at)
{
	const unsigned char *name;
	uint64_t size = names->sh_size;

	if (names->sh_type == SHT_NOBITS || names->sh_offset > image->bytes.size)
		return NULL;
	if (size > image->bytes.size - names->sh_offset)
		size = image->bytes.size - names->sh_offset;
	if (at >= size)
		return NULL;
	name = image->bytes.data + names->sh_offset + at;
	return *name && memchr(name, '\0', size - at) ? (const char *)name : NULL;
}

static bool is_function(const elf_symbol_entry *symbol)
{
	unsigned type = symbol->st_info & 0xf;

	return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF && symbol->st_size > 0;
}

/* Of functions that have a place, the one that begins last is the innermost; of equal ones the first is taken. */
static void consider_symbol(const struct search *search, const struct elf_image *image, const elf_section *names,
			    const elf_symbol_entry *symbol)
{
	for (size_t i = 0; i < search->nr; i++) {
		struct function_place *place = &search->places[i];
		uint64_t behind = place->address - symbol->st_value;
		const char *name;

		if (place->naming == NAMING_NO_MAPPING || place->address < symbol->st_value ||
		    behind >= symbol->st_size || behind > place->offset ||
		    (place->name && place->offset - place->start <= behind))
			continue;
		name = find_name(image, names, symbol->st_name);
		if (!name)
			return;
		place->name = name;
		place->start = place->offset - behind;
		if (__builtin_add_overflow(place->start, symbol->st_size, &place->end))
			place->end = UINT64_MAX;
		place->naming = NAMING_NAMED;
	}
}

/* True: the table has functions. */
static bool scan_symbols(const struct search *search, const struct elf_image *image, const elf_section *table)
{
	uint64_t nr_symbols = table->sh_size / sizeof(elf_symbol_entry);
	elf_symbol_entry symbol;
	elf_section names;
	bool any = false;

	if (table->sh_entsize != sizeof(symbol) || !elf_image_section(image, table->sh_link, &names))
		return false;
	for (uint64_t i = 0; i < nr_symbols && i < SYMBOLS_MAX; i++) {
		if (!elf_image_read(image, table->sh_offset + i * sizeof(symbol), &symbol, sizeof(symbol)))
			break;
		if (!is_function(&symbol))
			continue;
		any = true;
		consider_symbol(search, image, &names, &symbol);
	}
	return any;
}

static bool scan_tables(const struct search *search, const struct elf_image *image, unsigned type)
{
	elf_section section;
	bool any = false;

	for (unsigned i = 0; elf_image_section(image, i, &section) && !any; i++)
		if (section.sh_type == type)
			any = scan_symbols(search, image, &section);
	return any;
}

/* --- files of debug symbols */

static bool scan_by_build_id(const struct search *search, struct elf_bytes bytes)
{
	unsigned char build_id[MODULE_BUILD_ID_MAX];
	size_t size = elf_image_build_id(&search->file, build_id);
	struct elf_image image;

	return size && bytes.size && elf_image_open(&image, bytes) && is_same_build_id(&image, build_id, size) &&
	       scan_tables(search, &image, SHT_SYMTAB);
}

static bool scan_by_link(const struct search *search, struct elf_bytes bytes)
{
	struct elf_image image;
	const char *name;
	uint32_t crc;

	return bytes.size && elf_image_debug_link(&search->file, &name, &crc) &&
	       crc32_z(0, bytes.data, bytes.size) == crc && elf_image_open(&image, bytes) &&
	       scan_tables(search, &image, SHT_SYMTAB);
}

/* An ELF file of symbols that .dynsym does not have, as a section of the file. */
static bool scan_compressed(struct search *search, unsigned char *room)
{
	struct elf_bytes packed, bytes = {};
	struct elf_image image;

	if (!elf_image_find(&search->file, ".gnu_debugdata", &packed))
		return false;
	if (room) {
		bytes.data = room + XZ_MEMORY;
		bytes.size = xz_decompress(room + XZ_MEMORY, FUNCTION_NAMES_ROOM - XZ_MEMORY, packed.data, packed.size,
					   room);
	}
	search->compressed = !elf_image_open(&image, bytes);
	return !search->compressed && scan_tables(search, &image, SHT_SYMTAB);
}

/* --- all of them */

/* By the table for unwinding. */
static void bound_function(const struct search *search, struct function_place *place)
{
	uint64_t start, end;

	if (place->naming == NAMING_NO_MAPPING || !unwind_table_find(&search->file, place->address, &start, &end) ||
	    place->address - start > place->offset)
		return;
	place->start = place->offset - (place->address - start);
	if (__builtin_add_overflow(place->start, end - start, &place->end))
		place->end = UINT64_MAX;
}

static void set_all(struct function_place *places, size_t nr, enum naming naming)
{
	for (size_t i = 0; i < nr; i++)
		places[i].naming = naming;
}

static void begin_search(struct search *search)
{
	for (size_t i = 0; i < search->nr; i++) {
		struct function_place *place = &search->places[i];

		place->naming = elf_image_address(&search->file, place->offset, &place->address) ? NAMING_NO_SYMBOL :
												   NAMING_NO_MAPPING;
	}
}

/* any: there were symbols beyond those that are exported. */
static void end_search(const struct search *search, bool any)
{
	enum naming naming = search->compressed ? NAMING_COMPRESSED : any ? NAMING_NO_SYMBOL : NAMING_STRIPPED;

	for (size_t i = 0; i < search->nr; i++) {
		if (search->places[i].name)
			continue;
		bound_function(search, &search->places[i]);
		search->places[i].naming = naming;
	}
}

bool function_names_find(struct function_place *places, size_t nr, const struct function_sources *sources,
			 const struct module_key *key)
{
	struct search search = { .places = places, .nr = nr };
	bool all, some = false;

	for (size_t i = 0; i < nr; i++) {
		places[i].name = NULL;
		places[i].start = places[i].end = 0;
	}
	if (!elf_image_open(&search.file, sources->file)) {
		set_all(places, nr, NAMING_MALFORMED);
		return true;
	}
	if (!function_names_is_file(sources->file, key)) {
		set_all(places, nr, NAMING_OTHER_FILE);
		return true;
	}
	begin_search(&search);
	all = scan_tables(&search, &search.file, SHT_SYMTAB) || scan_by_build_id(&search, sources->by_build_id) ||
	      scan_by_link(&search, sources->by_link);
	if (!all) {
		some = scan_compressed(&search, sources->room);
		(void)scan_tables(&search, &search.file, SHT_DYNSYM);
	}
	end_search(&search, all || some);
	return all;
}
