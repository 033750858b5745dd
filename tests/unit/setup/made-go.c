/* SPDX-License-Identifier: MIT */

#include "setup/made-go.h"

#include "base/util/buf.h"

#include <stdlib.h>
#include <string.h>

#define RELOCATIONS 0x800
#define MODULE 0x900
#define MODULE_ADDRESS 0x601000
#define SECTIONS 0x200
#define NAMES 0x600

/* Words of the header, and of the module. */
#define TEXT_WORD 2
#define MODULE_TEXT 22

static const struct {
	uint32_t magic;
	unsigned words, names, steps, functions; /* numbers of words; 0: as in the header of 1.2 */
	bool is_narrow;
} layouts[] = {
	[MADE_GO_1_2] = { 0xfffffffb, 1, 0, 0, 0, false },
	[MADE_GO_1_16] = { 0xfffffffa, 7, 2, 5, 6, false },
	[MADE_GO_1_18] = { 0xfffffff0, 8, 3, 6, 7, true },
	[MADE_GO_1_20] = { 0xfffffff1, 8, 3, 6, 7, true },
};

static void add_number(struct buf *buf, uint64_t number, size_t size)
{
	uint32_t narrow = (uint32_t)number;

	if (size == sizeof(narrow))
		buf_add(buf, (const char *)&narrow, sizeof(narrow));
	else
		buf_add(buf, (const char *)&number, sizeof(number));
}

static uint64_t text_of(const struct made_go *made)
{
	return made->text_at ? made->text_at : MADE_GO_TEXT;
}

/* What the functions' entries, they themselves, their steps and their names take. */
struct parts {
	struct buf entries, functions, steps, names;
};

static size_t count_functions(const struct made_go *made)
{
	size_t nr = 0;

	while (made->functions[nr].name)
		nr++;
	return nr;
}

/* begins: offsets of the parts, as the functions have them. */
static void fill_parts(struct parts *parts, const struct made_go *made, size_t functions_at, size_t steps_at,
		       size_t names_at)
{
	bool is_narrow = layouts[made->layout].is_narrow;
	size_t size = is_narrow ? 4 : 8, nr = count_functions(made);
	uint64_t base = is_narrow ? 0 : MADE_GO_TEXT;

	buf_char(&parts->steps, '\0');
	for (size_t i = 0; i < nr; i++) {
		const struct made_go_function *function = &made->functions[i];
		size_t steps = steps_at + parts->steps.len;

		add_number(&parts->entries, base + function->at, size);
		add_number(&parts->entries, functions_at + parts->functions.len + made->offset, size);
		add_number(&parts->functions, base + function->at, size);
		add_number(&parts->functions, names_at + parts->names.len, 4);
		add_number(&parts->functions, 0, 4);
		add_number(&parts->functions, 0, 4);
		add_number(&parts->functions, function->steps[0] ? steps : 0, 4);
		add_number(&parts->functions, 0, 4);
		buf_add(&parts->steps, function->steps, strlen(function->steps) + 1);
		buf_add(&parts->names, function->name, strlen(function->name) + 1);
	}
	add_number(&parts->entries, base + made->end, size);
}

static void release_parts(struct parts *parts)
{
	buf_release(&parts->entries);
	buf_release(&parts->functions);
	buf_release(&parts->steps);
	buf_release(&parts->names);
}

static void add_header(struct buf *table, const struct made_go *made, const uint64_t words[static 8])
{
	add_number(table, made->magic ? made->magic : layouts[made->layout].magic, 4);
	buf_char(table, '\0');
	buf_char(table, '\0');
	buf_char(table, (char)(made->quantum ? made->quantum : 1));
	buf_char(table, (char)(made->word ? made->word : 8));
	for (unsigned i = 0; i < layouts[made->layout].words; i++)
		add_number(table, made->odd_word && made->odd_word == i ? UINT64_MAX - 3 : words[i], 8);
}

static void add_table(struct buf *table, const struct made_go *made)
{
	size_t nr = count_functions(made), wide = layouts[made->layout].words == 1;
	size_t size = layouts[made->layout].is_narrow ? 4 : 8;
	size_t entries = 8 + 8 * layouts[made->layout].words, functions = entries + (2 * nr + 1) * size;
	size_t steps = functions + nr * (size + 20), names;
	uint64_t words[8] = { made->count ? made->count : nr };
	_cleanup_(release_parts) struct parts parts = {}, sizes = {};

	fill_parts(&sizes, made, 0, 0, 0);
	names = steps + sizes.steps.len;
	release_parts(&sizes);
	sizes = (struct parts){};
	if (wide) {
		fill_parts(&parts, made, functions, steps, names);
	} else {
		fill_parts(&parts, made, functions - entries, 0, 0);
		words[layouts[made->layout].names] = names;
		words[layouts[made->layout].steps] = steps;
		words[layouts[made->layout].functions] = entries;
	}
	if (layouts[made->layout].is_narrow && made->text == MADE_GO_TEXT_STORED)
		words[TEXT_WORD] = text_of(made);
	add_header(table, made, words);
	buf_add(table, parts.entries.data, parts.entries.len);
	buf_add(table, parts.functions.data, parts.functions.len);
	buf_add(table, parts.steps.data, parts.steps.len);
	buf_add(table, parts.names.data, parts.names.len);
}

/* --- the file */

static void put(struct buf *file, size_t at, const void *bytes, size_t size)
{
	while (file->len < at + size)
		buf_char(file, '\0');
	if (file->failed)
		abort();
	memcpy(file->data + at, bytes, size);
}

static void put_headers(struct buf *file, const struct made_go *made, size_t size)
{
	static const char names[] = "\0.names\0.rela.dyn\0.go.module";
	const char *section = made->section ? made->section : ".gopclntab";
	const elf_segment segment = { .p_type = PT_LOAD,
				      .p_flags = PF_R | PF_X,
				      .p_offset = MADE_GO_CODE,
				      .p_vaddr = MADE_GO_TEXT,
				      .p_filesz = MADE_GO_SIZE,
				      .p_memsz = MADE_GO_SIZE };
	elf_section sections[5] = {
		[1] = { .sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = NAMES, .sh_size = 0x80 },
		[2] = { .sh_name = 8, .sh_type = SHT_RELA, .sh_offset = RELOCATIONS, .sh_entsize = sizeof(ElfW(Rela)) },
		[3] = { .sh_name = 18, .sh_type = SHT_PROGBITS, .sh_addr = MODULE_ADDRESS, .sh_offset = MODULE },
		[4] = { .sh_name = sizeof(names), .sh_type = SHT_PROGBITS, .sh_addr = MADE_GO_ADDRESS },
	};
	elf_header header = { .e_type = ET_DYN, .e_phnum = 1, .e_shnum = 5, .e_shstrndx = 1 };

	header.e_machine = (uint16_t)(made->machine ? made->machine : EM_X86_64);
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	header.e_phoff = sizeof(header);
	header.e_phentsize = sizeof(segment);
	header.e_shoff = SECTIONS;
	header.e_shentsize = sizeof(sections[0]);
	sections[2].sh_size = 4 * sizeof(ElfW(Rela));
	sections[3].sh_size = made->text >= MADE_GO_TEXT_IN_MODULE ? (MODULE_TEXT + 1) * 8 : 0;
	sections[4].sh_offset = MADE_GO_TABLE;
	sections[4].sh_size = size;
	put(file, 0, &header, sizeof(header));
	put(file, sizeof(header), &segment, sizeof(segment));
	put(file, SECTIONS, sections, sizeof(sections));
	put(file, NAMES, names, sizeof(names));
	put(file, NAMES + sizeof(names), section, strlen(section) + 1);
}

/* The pointers that are not in the table's header. */
static void put_pointers(struct buf *file, const struct made_go *made)
{
	uint64_t table = MADE_GO_ADDRESS + made->before, text = text_of(made);
	ElfW(Rela) relocations[4] = {
		{ .r_offset = table + 8, .r_addend = 1, .r_info = 8 },
		{ .r_offset = table + 8 + 8 * TEXT_WORD, .r_addend = 1, .r_info = (uint64_t)1 << 32 | 8 },
	};

	if (made->is_other_module)
		table += 0x100;
	if (made->text == MADE_GO_TEXT_RELOCATED) {
		relocations[3] = (ElfW(Rela)){ table + 8 + 8 * TEXT_WORD, 8, (int64_t)text };
	} else if (made->text == MADE_GO_TEXT_IN_MODULE) {
		put(file, MODULE, &table, sizeof(table));
		put(file, MODULE + 8 * MODULE_TEXT, &text, sizeof(text));
	} else if (made->text == MADE_GO_TEXT_RELOCATED_IN_MODULE) {
		relocations[2] = (ElfW(Rela)){ MODULE_ADDRESS, 8, (int64_t)table };
		relocations[3] = (ElfW(Rela)){ MODULE_ADDRESS + 8 * MODULE_TEXT, 8, (int64_t)text };
	}
	put(file, RELOCATIONS, relocations, sizeof(relocations));
}

struct elf_bytes made_go_file(const struct made_go *made)
{
	static struct buf file;
	struct buf table = {};

	add_table(&table, made);
	if (table.failed)
		abort();
	table.len -= made->cut;
	buf_release(&file);
	file = (struct buf){};
	put_headers(&file, made, made->before + table.len);
	put_pointers(&file, made);
	put(&file, MADE_GO_TABLE + made->before, table.data, table.len);
	buf_release(&table);
	return (struct elf_bytes){ (const unsigned char *)file.data, file.len };
}
