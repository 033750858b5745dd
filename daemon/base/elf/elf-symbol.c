/* SPDX-License-Identifier: MIT */

#include "base/elf/elf-symbol.h"

#include "base/util/names.h"

#include <ctype.h>
#include <errno.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

/* Bytes of a symbol table, and of its names; each is read as a whole. */
#define TABLE_MAX ((uint64_t)256 << 20)

/* With more functions than this, no similar name is suggested: comparing them takes too long. */
#define OFFER_MAX 100000

/* In a symbol's version: it is not the default one. */
#define VERSION_HIDDEN 0x8000

/* Executable segments: a program has one or two. */
#define SEGMENTS_MAX 64

enum rank {
	RANK_NONE,
	RANK_OLD_VERSION,
	RANK_DEFAULT,
};

/* Code, as it is in the file and in memory. */
struct segment {
	uint64_t offset, address, size;
};

struct search {
	Elf *elf;
	struct segment segments[SEGMENTS_MAX];
	size_t nr_segments;
	const char *name;
	size_t length;
	size_t nr_functions; /* seen */
	bool offering;	     /* this is the second scan, for similar names */
	struct nearest nearest;

	/* The best so far. */
	struct elf_symbol found;
	enum rank rank;
	bool indirect;
	bool several;
	uint64_t another; /* if several: the offset of one of the others */
};

DEFINE_CLEANUP(Elf *, elf_end)

/* Read once, not for each symbol: a file can have any number of headers. */
static int read_segments(struct search *search)
{
	size_t nr = 0;
	GElf_Phdr phdr;

	if (elf_getphdrnum(search->elf, &nr) < 0)
		return 0;
	for (size_t i = 0; i < nr && i <= INT32_MAX && gelf_getphdr(search->elf, (int)i, &phdr); i++) {
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X))
			continue;
		if (search->nr_segments == SEGMENTS_MAX)
			return -EFBIG;
		search->segments[search->nr_segments++] = (struct segment){
			.offset = phdr.p_offset,
			.address = phdr.p_vaddr,
			.size = phdr.p_filesz,
		};
	}
	return 0;
}

/* Is the symbol in a segment of code? *ret is its place in the file. */
static bool locate_code(const struct search *search, const GElf_Sym *symbol, struct elf_symbol *ret)
{
	for (size_t i = 0; i < search->nr_segments; i++) {
		const struct segment *segment = &search->segments[i];

		if (symbol->st_value < segment->address || symbol->st_value - segment->address >= segment->size)
			continue;
		*ret = (struct elf_symbol){
			.offset = symbol->st_value - segment->address + segment->offset,
			.size = symbol->st_size,
		};
		return true;
	}
	return false;
}

static bool is_code(const GElf_Sym *symbol)
{
	int type = GELF_ST_TYPE(symbol->st_info);

	return symbol->st_shndx != SHN_UNDEF && (type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC);
}

/* How well name matches the name sought. In .symtab, linkers append versions to names: with "@@" for the default one,
 * with "@" for others. */
static enum rank rank_of(const struct search *search, const char *name, bool hidden)
{
	if (strncmp(name, search->name, search->length))
		return RANK_NONE;
	name += search->length;
	if (*name && *name != '@')
		return RANK_NONE;
	return hidden || (name[0] == '@' && name[1] != '@') ? RANK_OLD_VERSION : RANK_DEFAULT;
}

static void consider_symbol(struct search *search, const GElf_Sym *symbol, enum rank rank)
{
	struct elf_symbol place;

	if (rank < search->rank || rank == RANK_NONE || !locate_code(search, symbol, &place))
		return;
	if (rank > search->rank) {
		search->rank = rank;
		search->found = place;
		search->indirect = search->several = false;
	}
	if (place.offset != search->found.offset) {
		search->several = true;
		search->another = place.offset;
		return;
	}
	if (place.size > search->found.size)
		search->found.size = place.size;
	search->indirect |= GELF_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
}

/* The first section of that type, or NULL: a file has one of each. */
static Elf_Scn *find_section(Elf *elf, GElf_Word type, GElf_Shdr *ret)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section)))
		if (gelf_getshdr(section, ret) && ret->sh_type == type)
			return section;
	return NULL;
}

static bool is_small(Elf_Scn *section)
{
	GElf_Shdr shdr;

	return !section || !gelf_getshdr(section, &shdr) || shdr.sh_size <= TABLE_MAX;
}

/* A suggestion is foreign bytes, and goes into a sentence: only printable ones are offered. */
static void offer_name(struct search *search, const char *name)
{
	for (const char *p = name; *p; p++)
		if (!isgraph((unsigned char)*p))
			return;
	nearest_offer(&search->nearest, name);
}

static int scan_table(struct search *search, GElf_Word type)
{
	size_t size = gelf_fsize(search->elf, ELF_T_SYM, 1, EV_CURRENT);
	GElf_Shdr shdr, versions_shdr;
	Elf_Scn *table = find_section(search->elf, type, &shdr), *versions_table = NULL;
	Elf_Data *data, *versions;

	if (!table)
		return 0;
	if (type == SHT_DYNSYM)
		versions_table = find_section(search->elf, SHT_GNU_versym, &versions_shdr);
	if (!is_small(table) || !is_small(versions_table) || !is_small(elf_getscn(search->elf, shdr.sh_link)))
		return -EFBIG;
	data = elf_getdata(table, NULL);
	versions = elf_getdata(versions_table, NULL);
	if (!data || !size)
		return 0;

	for (size_t i = 0; i < data->d_size / size && i <= INT32_MAX; i++) {
		GElf_Versym version = 0;
		GElf_Sym symbol;
		const char *name;

		if (!gelf_getsym(data, (int)i, &symbol))
			break;
		if (!is_code(&symbol))
			continue;
		name = elf_strptr(search->elf, shdr.sh_link, symbol.st_name);
		if (!name || !*name)
			continue;
		if (versions)
			(void)gelf_getversym(versions, (int)i, &version);
		search->nr_functions++;
		if (search->offering)
			offer_name(search, name);
		else
			consider_symbol(search, &symbol, rank_of(search, name, version & VERSION_HIDDEN));
	}
	return 0;
}

/* The symbols that a library exports come first: they have versions, and no local functions. */
static int scan_tables(struct search *search)
{
	int r = scan_table(search, SHT_DYNSYM);

	return r < 0 || search->rank != RANK_NONE ? r : scan_table(search, SHT_SYMTAB);
}

static int fail_not_found(struct search *search, struct reason *why)
{
	if (!search->nr_functions)
		return reason_set(why, -ENOENT, "it has no symbols: write the function's offset in the file instead");
	nearest_init(&search->nearest, search->name);
	search->offering = true;
	if (search->nr_functions <= OFFER_MAX)
		(void)scan_tables(search);
	if (search->nearest.name[0])
		return reason_set(why, -ENOENT, "it has no function '%.100s'; did you mean '%s'?", search->name,
				  search->nearest.name);
	return reason_set(why, -ENOENT, "it has no function '%.100s' in its symbol tables", search->name);
}

static int search_result(struct search *search, struct elf_symbol *ret, struct reason *why)
{
	if (search->rank == RANK_NONE)
		return fail_not_found(search, why);
	if (search->several)
		return reason_set(why, -ENOTUNIQ,
				  "it has several functions '%.100s' (at 0x%" PRIx64 ", 0x%" PRIx64
				  "): write the offset of the one that is meant",
				  search->name, search->found.offset, search->another);
	if (search->indirect)
		return reason_set(why, -EOPNOTSUPP,
				  "'%.100s' is an indirect function: the code at its address only chooses an "
				  "implementation, once; name one of the implementations",
				  search->name);
	*ret = search->found;
	return 0;
}

/* Checks that it is a program or a shared library, and reads its segments. */
static int search_begin(struct search *search, int fd, struct reason *why)
{
	GElf_Ehdr ehdr;

	(void)elf_version(EV_CURRENT);
	search->elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!search->elf || elf_kind(search->elf) != ELF_K_ELF || !gelf_getehdr(search->elf, &ehdr) ||
	    (ehdr.e_type != ET_EXEC && ehdr.e_type != ET_DYN))
		return reason_set(why, -ENOEXEC, "it is not an ELF program or shared library");
	return read_segments(search) < 0 ? reason_set(why, -EFBIG, "it has more executable segments than any program") :
					   0;
}

static void search_release(struct search *search)
{
	elf_endp(&search->elf);
}

int elf_symbol_find(struct elf_symbol *ret, int fd, const char *name, struct reason *why)
{
	_cleanup_(search_release) struct search search = { .name = name, .length = strlen(name) };
	int r = search_begin(&search, fd, why);

	if (r < 0)
		return r;
	r = scan_tables(&search);
	if (r < 0)
		return reason_set(why, r, "its symbol table is too large");
	return search_result(&search, ret, why);
}

int elf_check_code(int fd, uint64_t offset, struct reason *why)
{
	_cleanup_(search_release) struct search search = {};
	int r = search_begin(&search, fd, why);

	for (size_t i = 0; r == 0 && i < search.nr_segments; i++)
		if (offset >= search.segments[i].offset && offset - search.segments[i].offset < search.segments[i].size)
			return 0;
	return r < 0 ? r : reason_set(why, -EINVAL, "offset 0x%" PRIx64 " is not in its code", offset);
}
