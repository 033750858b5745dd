/* SPDX-License-Identifier: MIT */

#include "setup/made-elf.h"

#include "base/util/buf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUST(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "made-elf.c:%d: %s: %s\n", __LINE__, #condition, elf_errmsg(-1));              \
			abort();                                                                                       \
		}                                                                                                      \
	} while (0)

/* Where the sections' headers are, and behind them what the sections hold. */
#define SECTIONS 0x100
#define CONTENTS 0x300

/* A file being made. Buffers have to stay until it is written. */
struct making {
	Elf *elf;
	bool wide; /* 64 bits */
	uint64_t at;
	struct buf names[2], symbols[2], versions;
};

static Elf_Scn *add_section(struct making *making, GElf_Word type, Elf_Type content, const void *bytes, size_t size,
			    size_t entry)
{
	Elf_Scn *section = elf_newscn(making->elf);
	Elf_Data *data = elf_newdata(section);
	GElf_Shdr shdr = {
		.sh_type = type, .sh_offset = making->at, .sh_size = size, .sh_entsize = entry, .sh_addralign = 8
	};

	MUST(section && data);
	data->d_type = content;
	data->d_buf = (void *)(uintptr_t)bytes;
	data->d_size = size;
	data->d_align = 8;
	MUST(gelf_update_shdr(section, &shdr));
	making->at += (size + 7) / 8 * 8;
	return section;
}

static void link_to(Elf_Scn *section, size_t other)
{
	GElf_Shdr shdr;

	MUST(gelf_getshdr(section, &shdr));
	shdr.sh_link = (GElf_Word)other;
	MUST(gelf_update_shdr(section, &shdr));
}

static void add_symbol(const struct making *making, struct buf *symbols, struct buf *names,
		       const struct made_symbol *symbol)
{
	unsigned char info = GELF_ST_INFO(STB_GLOBAL, symbol->type ? symbol->type : STT_FUNC);
	GElf_Half section = symbol->undefined ? SHN_UNDEF : 1;
	GElf_Word name = (GElf_Word)names->len;
	Elf64_Sym wide = {
		.st_name = name, .st_info = info, .st_shndx = section, .st_value = symbol->at, .st_size = symbol->size
	};
	Elf32_Sym narrow = { .st_name = name,
			     .st_info = info,
			     .st_shndx = section,
			     .st_value = (Elf32_Addr)symbol->at,
			     .st_size = (Elf32_Word)symbol->size };

	buf_add(names, symbol->name, strlen(symbol->name) + 1);
	buf_add(symbols, making->wide ? (char *)&wide : (char *)&narrow, making->wide ? sizeof(wide) : sizeof(narrow));
}

static void add_table(struct making *making, const struct made_symbol *table, bool dynamic, bool versions)
{
	struct buf *names = &making->names[dynamic], *symbols = &making->symbols[dynamic];
	size_t size = making->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	static const char nothing[sizeof(Elf64_Sym)];
	Elf_Scn *section, *strings;

	buf_char(names, '\0');
	buf_add(symbols, nothing, size);
	buf_add(&making->versions, nothing, dynamic ? sizeof(GElf_Versym) : 0);
	for (; table->name; table++) {
		add_symbol(making, symbols, names, table);
		if (dynamic)
			buf_add(&making->versions, (const char *)&table->version, sizeof(table->version));
	}
	section = add_section(making, dynamic ? SHT_DYNSYM : SHT_SYMTAB, ELF_T_SYM, symbols->data, symbols->len, size);
	strings = add_section(making, SHT_STRTAB, ELF_T_BYTE, names->data, names->len, 0);
	link_to(section, elf_ndxscn(strings));
	if (versions)
		link_to(add_section(making, SHT_GNU_versym, ELF_T_HALF, making->versions.data, making->versions.len,
				    sizeof(GElf_Versym)),
			elf_ndxscn(section));
}

static void add_headers(struct making *making, const struct made_elf *made)
{
	static const int native = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
	GElf_Phdr code = { .p_type = PT_LOAD,
			   .p_flags = PF_R | PF_X,
			   .p_offset = MADE_OFFSET,
			   .p_vaddr = MADE_ADDRESS,
			   .p_filesz = MADE_SIZE,
			   .p_memsz = MADE_SIZE };
	GElf_Phdr data = { .p_type = PT_LOAD,
			   .p_flags = PF_R | PF_W,
			   .p_offset = MADE_OFFSET,
			   .p_vaddr = MADE_DATA_ADDRESS,
			   .p_filesz = MADE_SIZE,
			   .p_memsz = MADE_SIZE };
	GElf_Ehdr ehdr;

	MUST(gelf_newehdr(making->elf, making->wide ? ELFCLASS64 : ELFCLASS32));
	MUST(gelf_getehdr(making->elf, &ehdr));
	ehdr.e_ident[EI_DATA] = (unsigned char)(made->encoding ? made->encoding : native);
	ehdr.e_type = made->type ? made->type : ET_DYN;
	ehdr.e_version = EV_CURRENT;
	ehdr.e_phoff = gelf_fsize(making->elf, ELF_T_EHDR, 1, EV_CURRENT);
	ehdr.e_shoff = SECTIONS;
	MUST(gelf_update_ehdr(making->elf, &ehdr));
	MUST(gelf_newphdr(making->elf, 2));
	MUST(gelf_update_phdr(making->elf, 0, &data));
	MUST(gelf_update_phdr(making->elf, 1, &code));
}

void made_elf_write(const char *path, const struct made_elf *made)
{
	_cleanup_(closep) int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct making making = { .wide = made->class != ELFCLASS32, .at = CONTENTS };
	static const char code[16];

	MUST(fd >= 0 && elf_version(EV_CURRENT) != EV_NONE);
	making.elf = elf_begin(fd, ELF_C_WRITE, NULL);
	MUST(making.elf);
	(void)elf_flagelf(making.elf, ELF_C_SET, ELF_F_LAYOUT);
	add_headers(&making, made);
	(void)add_section(&making, SHT_PROGBITS, ELF_T_BYTE, code, sizeof(code), 0);
	if (made->symtab)
		add_table(&making, made->symtab, false, false);
	if (made->dynsym)
		add_table(&making, made->dynsym, true, made->versions);
	MUST(making.at <= MADE_OFFSET);
	MUST(elf_update(making.elf, ELF_C_WRITE) >= 0);
	(void)elf_end(making.elf);
	MUST(ftruncate(fd, MADE_OFFSET + MADE_SIZE) == 0);
	for (size_t i = 0; i < 2; i++) {
		buf_release(&making.names[i]);
		buf_release(&making.symbols[i]);
	}
	buf_release(&making.versions);
}
