/* SPDX-License-Identifier: MIT */

#include "profiler/naming/function-names.h"

#include "base/elf/xz.h"
#include "profiler/naming/go-functions.h"
#include "profiler/naming/unwind-table.h"

#include <string.h>
#include <zlib.h>

typedef ElfW(Sym) elf_symbol_entry;

/* Bounds of the work on a hostile file; the largest programs have a few million symbols. */
#define SYMBOLS_MAX 20000000U
#define FUNCTIONS_MAX ((size_t)4 << 20)
#define CODE_SEGMENTS_MAX 16

_Static_assert(FUNCTION_NAMES_ROOM > XZ_MEMORY, "decompressed bytes follow the decompressor's memory");

/* A function, by its addresses. */
struct bounds {
	uint64_t start, end;
	const char *name; /* in the file's bytes or the room; NULL: none */
	uint32_t order;	  /* in which functions were found */
};

struct functions {
	struct bounds *items;
	size_t nr, cap;
};

/* The functions that were found in all sources so far. */
struct search {
	struct functions named, unnamed;
	const struct function_places *places;
	uint64_t *addresses; /* of the places, sorted */
	size_t nr_addresses;
	struct elf_image file;
	bool compressed; /* there are compressed symbols that could not be read */
	bool failed;	 /* no memory, or too many */
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

/* The name at an offset of a table of names; NULL: there is no name, or it does not end in the table. */
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

/* Is a place in [start, end) asked for? */
static bool is_wanted(const struct search *search, uint64_t start, uint64_t end)
{
	size_t low = 0, high = search->nr_addresses;

	if (!search->places->nr)
		return true;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (search->addresses[middle] < start)
			low = middle + 1;
		else
			high = middle;
	}
	return low < search->nr_addresses && search->addresses[low] < end;
}

static void add_function(struct search *search, struct functions *functions, uint64_t start, uint64_t end,
			 const char *name)
{
	if (functions->nr == functions->cap) {
		size_t cap = functions->cap ? functions->cap * 2 : 1024;
		struct bounds *items = cap > FUNCTIONS_MAX ? NULL : reallocarray(functions->items, cap, sizeof(*items));

		if (!items) {
			search->failed = true;
			return;
		}
		functions->items = items;
		functions->cap = cap;
	}
	functions->items[functions->nr] = (struct bounds){ start, end, name, (uint32_t)functions->nr };
	functions->nr++;
}

static void take_symbol(struct search *search, const struct elf_image *image, const elf_section *names,
			const elf_symbol_entry *symbol)
{
	uint64_t end;
	const char *name;

	if (__builtin_add_overflow(symbol->st_value, symbol->st_size, &end))
		end = UINT64_MAX;
	if (!is_wanted(search, symbol->st_value, end))
		return;
	name = find_name(image, names, symbol->st_name);
	if (name)
		add_function(search, &search->named, symbol->st_value, end, name);
}

/* True: the table has functions. */
static bool scan_symbols(struct search *search, const struct elf_image *image, const elf_section *table)
{
	uint64_t nr_symbols = table->sh_size / sizeof(elf_symbol_entry);
	elf_symbol_entry symbol;
	elf_section names;
	bool any = false;

	if (table->sh_entsize != sizeof(symbol) || !elf_image_section(image, table->sh_link, &names))
		return false;
	for (uint64_t i = 0; i < nr_symbols && i < SYMBOLS_MAX && !search->failed; i++) {
		if (!elf_image_read(image, table->sh_offset + i * sizeof(symbol), &symbol, sizeof(symbol)))
			break;
		if (!is_function(&symbol))
			continue;
		any = true;
		take_symbol(search, image, &names, &symbol);
	}
	return any;
}

static bool scan_tables(struct search *search, const struct elf_image *image, unsigned type)
{
	elf_section section;
	bool any = false;

	for (unsigned i = 0; elf_image_section(image, i, &section) && !any; i++)
		if (section.sh_type == type)
			any = scan_symbols(search, image, &section);
	return any;
}

/* --- files of debug symbols */

static bool scan_by_build_id(struct search *search, struct elf_bytes bytes)
{
	unsigned char build_id[MODULE_BUILD_ID_MAX];
	size_t size = elf_image_build_id(&search->file, build_id);
	struct elf_image image;

	return size && bytes.size && elf_image_open(&image, bytes) && is_same_build_id(&image, build_id, size) &&
	       scan_tables(search, &image, SHT_SYMTAB);
}

static bool scan_by_link(struct search *search, struct elf_bytes bytes)
{
	struct elf_image image;
	const char *name;
	uint32_t crc;

	return bytes.size && elf_image_debug_link(&search->file, &name, &crc) &&
	       crc32_z(0, bytes.data, bytes.size) == crc && elf_image_open(&image, bytes) &&
	       scan_tables(search, &image, SHT_SYMTAB);
}

/* The section .gnu_debugdata is a compressed ELF file with symbols that .dynsym does not have. */
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

/* --- programs in Go */

/* True: the table has functions. */
static bool scan_go(struct search *search)
{
	struct go_function function;
	struct go_table table;
	uint64_t number = 0;
	bool any = false;

	if (!go_table_find(&search->file, &table))
		return false;
	while (!search->failed && go_table_next(&table, &number, &function)) {
		any = true;
		if (is_wanted(search, function.start, function.end))
			add_function(search, function.name ? &search->named : &search->unnamed, function.start,
				     function.end, function.name);
	}
	return any;
}

/* --- bounds of functions without names */

static void scan_unwinding(struct search *search)
{
	struct unwind_section section;
	uint64_t at = 0, start, end;

	if (!unwind_section_find(&search->file, false, &section))
		return;
	while (!search->failed && unwind_section_next(&section, &at, &start, &end))
		if (is_wanted(search, start, end))
			add_function(search, &search->unnamed, start, end, NULL);
}

/* --- places in the order of the file */

/* Of functions that begin together, the one that was found first counts, and so comes last. */
static int compare_bounds(const void *a, const void *b)
{
	const struct bounds *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? 1 : x->order > y->order ? -1 : 0;
}

/* Writes the functions of a segment without overlaps. The segment begins at the address `from`, which the file has at
 * `offset`. */
struct flattening {
	struct function_list_writer *writer;
	const struct search *search;
	uint32_t *open; /* numbers of the named functions that have begun, the innermost last */
	size_t nr_open, next_unnamed;
	uint64_t from, offset;
};

static void put(const struct flattening *flat, uint64_t address, const char *name, uint64_t start)
{
	uint64_t place = flat->offset + (address - flat->from);
	uint64_t back = address - start;

	/* The function may begin before the segment, and even before the file. */
	if (start != FUNCTION_NONE && !name)
		start = back <= place ? place - back : place;
	function_list_add(flat->writer, place, name, start);
}

/* Writes a stretch that no symbol covers. */
static void put_unnamed(struct flattening *flat, uint64_t from, uint64_t to)
{
	const struct functions *unnamed = &flat->search->unnamed;

	while (from < to) {
		const struct bounds *next;

		while (flat->next_unnamed < unnamed->nr && unnamed->items[flat->next_unnamed].end <= from)
			flat->next_unnamed++;
		next = flat->next_unnamed < unnamed->nr ? &unnamed->items[flat->next_unnamed] : NULL;
		if (!next || next->start > from) {
			put(flat, from, NULL, FUNCTION_NONE);
			from = next && next->start < to ? next->start : to;
		} else {
			put(flat, from, NULL, next->start);
			from = next->end < to ? next->end : to;
		}
	}
}

static void put_stretch(struct flattening *flat, uint64_t from, uint64_t to)
{
	const struct bounds *named = flat->search->named.items;

	while (from < to) {
		uint64_t end = to;

		while (flat->nr_open && named[flat->open[flat->nr_open - 1]].end <= from)
			flat->nr_open--;
		if (!flat->nr_open) {
			put_unnamed(flat, from, to);
			return;
		}
		if (named[flat->open[flat->nr_open - 1]].end < end)
			end = named[flat->open[flat->nr_open - 1]].end;
		put(flat, from, named[flat->open[flat->nr_open - 1]].name, 0);
		from = end;
	}
}

/* open: room for the numbers of all named functions. */
static void put_segment(struct function_list_writer *writer, const struct search *search, const elf_segment *segment,
			uint32_t *open)
{
	const struct functions *named = &search->named;
	uint64_t at = segment->p_vaddr, end = at + segment->p_filesz;
	struct flattening flat = {
		.writer = writer,
		.search = search,
		.open = open,
		.from = at,
		.offset = segment->p_offset,
	};

	for (size_t i = 0; i < named->nr && named->items[i].start < end; i++) {
		uint64_t start = named->items[i].start;

		if (named->items[i].end <= at)
			continue;
		if (start > at) {
			put_stretch(&flat, at, start);
			at = start;
		}
		flat.open[flat.nr_open++] = (uint32_t)i;
	}
	put_stretch(&flat, at, end);
	put(&flat, end, NULL, FUNCTION_NONE);
}

/* Finds the segments of code, and sorts them by their offset in the file. Where two overlap in the file, the first one
 * counts. */
static size_t find_code(const struct elf_image *image, elf_segment ret[static CODE_SEGMENTS_MAX])
{
	elf_segment segment;
	size_t nr = 0, at;

	for (unsigned i = 0; nr < CODE_SEGMENTS_MAX && elf_image_segment(image, i, &segment); i++) {
		if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) ||
		    segment.p_filesz > UINT64_MAX - segment.p_vaddr || segment.p_filesz > UINT64_MAX - segment.p_offset)
			continue;
		for (at = nr; at > 0 && ret[at - 1].p_offset > segment.p_offset; at--)
			ret[at] = ret[at - 1];
		ret[at] = segment;
		nr++;
	}
	return nr;
}

/* Finds the addresses of the places. False: no memory. */
static bool find_addresses(struct search *search)
{
	uint64_t address;

	search->addresses = reallocarray(NULL, search->places->nr + 1, sizeof(*search->addresses));
	for (size_t i = 0; search->addresses && i < search->places->nr; i++) {
		size_t at = search->nr_addresses;

		if (!elf_image_address(&search->file, search->places->offsets[i], &address))
			continue;
		for (; at > 0 && search->addresses[at - 1] > address; at--)
			search->addresses[at] = search->addresses[at - 1];
		search->addresses[at] = address;
		search->nr_addresses++;
	}
	return search->addresses;
}

static void sort(struct functions *functions)
{
	if (functions->nr)
		qsort(functions->items, functions->nr, sizeof(*functions->items), compare_bounds);
}

static void write_functions(struct function_list_writer *writer, struct search *search)
{
	_cleanup_(freep) uint32_t *open = reallocarray(NULL, search->named.nr + 1, sizeof(*open));
	elf_segment code[CODE_SEGMENTS_MAX];
	size_t nr = find_code(&search->file, code);

	if (!open || search->failed) {
		writer->failed = true;
		return;
	}
	sort(&search->named);
	sort(&search->unnamed);
	for (size_t i = 0; i < nr; i++)
		put_segment(writer, search, &code[i], open);
}

static void release_search(struct search *search)
{
	free(search->named.items);
	free(search->unnamed.items);
	free(search->addresses);
}

/* --- all of them */

enum naming function_names_list(struct function_list_writer *writer, const struct function_sources *sources,
				const struct module_key *key, const struct function_places *places, bool *ret_has_all)
{
	_cleanup_(release_search) struct search search = { .places = places };
	bool all, some = false;

	*ret_has_all = true;
	if (!elf_image_open(&search.file, sources->file))
		return NAMING_MALFORMED;
	if (!function_names_is_file(sources->file, key))
		return NAMING_OTHER_FILE;
	if (!find_addresses(&search)) {
		writer->failed = true;
		return NAMING_FAILED;
	}
	all = scan_tables(&search, &search.file, SHT_SYMTAB) || scan_by_build_id(&search, sources->by_build_id) ||
	      scan_by_link(&search, sources->by_link);
	if (!all) {
		some = scan_go(&search);
		some |= scan_compressed(&search, sources->room);
		(void)scan_tables(&search, &search.file, SHT_DYNSYM);
	}
	scan_unwinding(&search);
	write_functions(writer, &search);
	*ret_has_all = all;
	return search.compressed ? NAMING_COMPRESSED : all || some ? NAMING_NO_SYMBOL : NAMING_STRIPPED;
}
