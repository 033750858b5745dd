/* SPDX-License-Identifier: MIT */

#include "profiler/naming/go-functions.h"

#include "base/util/cleanup.h"

#include <string.h>

#define WORD sizeof(ElfW(Addr))

/* Bytes before the header's words: the magic number, two zeroes, the quantum, and the size of a word. */
#define HEADER 8

/* Linkers align the table to this, or to more. */
#define ALIGNMENT 8

/* Words of struct moduledata of Go's runtime, in .go.module: pointers to the table, and to the first function. */
#define MODULE_TABLE 0
#define MODULE_TEXT 22

/* The numbers of the header's words; 0: the header has no such word. */
struct go_layout {
	uint32_t magic;
	uint8_t words;
	uint8_t text;	   /* the first function, to which addresses are relative; entries have 4-byte numbers then */
	uint8_t names;	   /* offset of the names; 0: they are relative to the table */
	uint8_t steps;	   /* offset of the steps; 0: they are relative to the table */
	uint8_t functions; /* offset of the functions' entries; 0: they follow the words */
};

static const struct go_layout layouts[] = {
	{ .magic = 0xfffffffb, .words = 1 },
	{ .magic = 0xfffffffa, .words = 7, .names = 2, .steps = 5, .functions = 6 },
	{ .magic = 0xfffffff0, .words = 8, .text = 2, .names = 3, .steps = 6, .functions = 7 },
	{ .magic = 0xfffffff1, .words = 8, .text = 2, .names = 3, .steps = 6, .functions = 7 },
};

static bool read_number(struct elf_bytes bytes, uint64_t at, size_t size, uint64_t *ret)
{
	uint32_t narrow;

	if (at > bytes.size || size > bytes.size - at)
		return false;
	*ret = 0;
	if (size == sizeof(*ret)) {
		memcpy(ret, bytes.data + at, sizeof(*ret));
	} else {
		memcpy(&narrow, bytes.data + at, sizeof(narrow));
		*ret = narrow;
	}
	return true;
}

/* The bytes from an offset on; no bytes: the offset is behind the end. */
static struct elf_bytes bytes_from(struct elf_bytes bytes, uint64_t at)
{
	if (at > bytes.size)
		return (struct elf_bytes){};
	return (struct elf_bytes){ bytes.data + at, bytes.size - (size_t)at };
}

/* --- where the table is */

static const struct go_layout *find_layout(struct elf_bytes bytes)
{
	uint64_t magic = 0;

	if (!read_number(bytes, 0, sizeof(uint32_t), &magic) || bytes.size < HEADER || bytes.data[4] || bytes.data[5] ||
	    (bytes.data[6] != 1 && bytes.data[6] != 2 && bytes.data[6] != 4) || bytes.data[7] != WORD)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
		if (layouts[i].magic == magic)
			return &layouts[i];
	return NULL;
}

/* A word of the header; UINT64_MAX: it is behind the end. */
static uint64_t read_word(const struct go_table *table, unsigned number)
{
	uint64_t value = 0;

	return read_number(table->bytes, HEADER + number * WORD, WORD, &value) ? value : UINT64_MAX;
}

/* Opens a table at the beginning of these bytes. False: there is none. */
static bool open_table(struct go_table *ret, struct elf_bytes bytes)
{
	const struct go_layout *layout = find_layout(bytes);
	size_t entry;

	if (!layout)
		return false;
	*ret = (struct go_table){ .layout = layout, .bytes = bytes, .names = bytes, .steps = bytes };
	entry = 2 * (layout->text ? sizeof(uint32_t) : WORD);
	ret->quantum = bytes.data[6];
	ret->nr = read_word(ret, 0);
	ret->functions = layout->functions ? read_word(ret, layout->functions) : HEADER + layout->words * WORD;
	if (layout->names)
		ret->names = bytes_from(bytes, read_word(ret, layout->names));
	if (layout->steps)
		ret->steps = bytes_from(bytes, read_word(ret, layout->steps));
	return ret->names.size && ret->nr && ret->nr < bytes_from(bytes, ret->functions).size / entry;
}

/* Searches a section for the table, and moves the section's beginning to it. */
static bool search_section(const struct elf_image *image, elf_section *section, struct go_table *ret)
{
	for (uint64_t at = 0; at < section->sh_size; at += ALIGNMENT) {
		struct elf_bytes all = { image->bytes.data + section->sh_offset, (size_t)section->sh_size };

		if (!open_table(ret, bytes_from(all, at)))
			continue;
		section->sh_addr += at;
		section->sh_offset += at;
		section->sh_size -= at;
		return true;
	}
	return false;
}

static bool find_section(const struct elf_image *image, elf_section *ret_section, struct go_table *ret)
{
	static const char *const own[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	elf_section section;

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (elf_image_find_section(image, own[i], ret_section) &&
		    open_table(ret, (struct elf_bytes){ image->bytes.data + ret_section->sh_offset,
							(size_t)ret_section->sh_size }))
			return true;
	if (!elf_image_find_section(image, ".data.rel.ro", &section) || !search_section(image, &section, ret))
		return false;
	*ret_section = section;
	return true;
}

bool go_table_is_there(const struct elf_image *image)
{
	struct go_table table;
	elf_section section;

	return find_section(image, &section, &table);
}

/* --- pointers */

/* The address that the dynamic linker writes to `address`, if the file is loaded at its own addresses. */
static bool find_relocation(const struct elf_image *image, uint64_t address, uint64_t *ret)
{
	elf_section section;
	ElfW(Rela) relocation;

	for (unsigned i = 0; elf_image_section(image, i, &section); i++) {
		if (section.sh_type != SHT_RELA || section.sh_entsize != sizeof(relocation))
			continue;
		for (uint64_t at = 0; at < section.sh_size; at += sizeof(relocation)) {
			if (!elf_image_read(image, section.sh_offset + at, &relocation, sizeof(relocation)))
				break;
			if (relocation.r_offset == address && relocation.r_info >> (WORD == 8 ? 32 : 8) == 0) {
				*ret = (uint64_t)relocation.r_addend;
				return true;
			}
		}
	}
	return false;
}

/* The pointer at an offset of a section. False: there is none. */
static bool read_pointer(const struct elf_image *image, const elf_section *section, uint64_t at, uint64_t *ret)
{
	struct elf_bytes bytes = { image->bytes.data + section->sh_offset, (size_t)section->sh_size };

	return read_number(bytes, at, WORD, ret) && (*ret || find_relocation(image, section->sh_addr + at, ret));
}

static bool is_code(const struct elf_image *image, uint64_t address)
{
	elf_segment segment;

	for (unsigned i = 0; elf_image_segment(image, i, &segment); i++)
		if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) && address >= segment.p_vaddr &&
		    address - segment.p_vaddr < segment.p_filesz)
			return true;
	return false;
}

/* The address of Go's first function. section: it has the table. */
static bool find_text(const struct elf_image *image, const elf_section *section, const struct go_layout *layout,
		      uint64_t *ret)
{
	elf_section module;
	uint64_t table;

	if (read_pointer(image, section, HEADER + layout->text * WORD, ret))
		return is_code(image, *ret);
	return elf_image_find_section(image, ".go.module", &module) &&
	       read_pointer(image, &module, MODULE_TABLE * WORD, &table) && table == section->sh_addr &&
	       read_pointer(image, &module, MODULE_TEXT * WORD, ret) && is_code(image, *ret);
}

bool go_table_find(const struct elf_image *image, struct go_table *ret)
{
	elf_section section;

	return find_section(image, &section, ret) &&
	       (!ret->layout->text || find_text(image, &section, ret->layout, &ret->text));
}

/* --- functions */

/* A number in an entry. which: 0: where the function begins; 1: the offset of its description; 2: where the next
 * function begins. */
static bool read_entry(const struct go_table *table, uint64_t number, unsigned which, uint64_t *ret)
{
	size_t size = table->layout->text ? sizeof(uint32_t) : WORD;

	return read_number(table->bytes, table->functions + (2 * number + which) * size, size, ret);
}

static const char *find_name(const struct go_table *table, uint64_t at)
{
	struct elf_bytes name = bytes_from(table->names, at);
	size_t max = name.size < GO_NAME_MAX ? name.size : GO_NAME_MAX;

	return max && name.data[0] && memchr(name.data, '\0', max) ? (const char *)name.data : NULL;
}

/* A description is an address, and numbers of 4 bytes: the offset of the name, two that are not read, and the offset of
 * the steps. */
static void read_function(const struct go_table *table, uint64_t offset, struct go_function *ret)
{
	struct elf_bytes functions = table->layout->functions ? bytes_from(table->bytes, table->functions) :
								table->bytes;
	struct elf_bytes rest =
		bytes_from(bytes_from(functions, offset), table->layout->text ? sizeof(uint32_t) : WORD);
	uint64_t name;

	ret->name = read_number(rest, 0, 4, &name) ? find_name(table, name) : NULL;
	if (!read_number(rest, 12, 4, &ret->steps))
		ret->steps = 0;
}

/* Functions that do not end behind their beginning are left out: a sound table is sorted. */
bool go_table_next(const struct go_table *table, uint64_t *number, struct go_function *ret)
{
	uint64_t start, offset, end;

	while (*number < table->nr && read_entry(table, *number, 0, &start) && read_entry(table, *number, 1, &offset) &&
	       read_entry(table, *number, 2, &end)) {
		(*number)++;
		if (end <= start || __builtin_add_overflow(start, table->text, &ret->start) ||
		    __builtin_add_overflow(end, table->text, &ret->end))
			continue;
		read_function(table, offset, ret);
		return true;
	}
	return false;
}

/* --- steps: pairs of numbers (LEB128): a change of the bytes on the stack, and the length of the code with it */

static bool read_leb128(struct go_steps *steps, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; shift < 35 && steps->at < steps->bytes.size; shift += 7) {
		uint64_t byte = steps->bytes.data[steps->at++];

		*ret |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

struct go_steps go_steps_begin(const struct go_table *table, const struct go_function *function)
{
	return (struct go_steps){
		.bytes = function->steps ? table->steps : (struct elf_bytes){},
		.at = function->steps,
		.address = function->start,
		.end = function->end,
		.size = -1,
		.quantum = table->quantum,
	};
}

bool go_steps_next(struct go_steps *steps, uint64_t *ret_start, uint64_t *ret_end, int64_t *ret_size)
{
	uint64_t added, length;

	if (steps->address >= steps->end || !read_leb128(steps, &added) || (!added && steps->has_begun) ||
	    !read_leb128(steps, &length) || !length)
		return false;
	/* The lowest bit is the sign. */
	steps->size += added & 1 ? -(int64_t)(added >> 1) - 1 : (int64_t)(added >> 1);
	steps->has_begun = true;
	length *= steps->quantum;
	*ret_start = steps->address;
	*ret_size = steps->size;
	steps->address = length < steps->end - steps->address ? steps->address + length : steps->end;
	*ret_end = steps->address;
	return true;
}
