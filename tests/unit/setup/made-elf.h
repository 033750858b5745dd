/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Made ELF files: of any class and byte order, with just what elf-symbol.h looks at. What can't be made ends the
 * program.
 */

#include <gelf.h>
#include <stdbool.h>

/* The only code: one loaded segment of MADE_SIZE bytes, from MADE_OFFSET of the file at MADE_ADDRESS. All that is
 * not zero is before it in the file. */
#define MADE_ADDRESS 0x10000U
#define MADE_OFFSET 0x1000U
#define MADE_SIZE 0x2000U
/* Data, which is loaded and can't be executed, in the same bytes of the file. */
#define MADE_DATA_ADDRESS 0x40000U

struct made_symbol {
	const char *name;
	uint64_t at, size; /* its address */
	unsigned type;	   /* 0: STT_FUNC */
	bool undefined;
	GElf_Versym version; /* in .dynsym */
};

struct made_elf {
	int class, encoding;			   /* 0: 64 bits, this machine's byte order */
	GElf_Half type;				   /* 0: ET_DYN */
	const struct made_symbol *symtab, *dynsym; /* each ended by an entry without name; NULL: no such section */
	bool versions;				   /* of those in .dynsym */
};

void made_elf_write(const char *path, const struct made_elf *made);
