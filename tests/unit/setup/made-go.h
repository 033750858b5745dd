/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Made programs in Go: files of 64 bits with a table of functions (go-functions.h), in each layout, and with what can
 * be wrong in one. Names are the last bytes of the table, and the table those of the file.
 */

#include "base/elf/elf-image.h"

#define MADE_GO_CODE 0x1000U	  /* offset of the code, … */
#define MADE_GO_TEXT 0x401000U	  /* … its address, … */
#define MADE_GO_SIZE 0x1000U	  /* … and its bytes */
#define MADE_GO_TABLE 0x2000U	  /* offset of the section with the table */
#define MADE_GO_ADDRESS 0x502000U /* … and its address */

enum made_go_layout { MADE_GO_1_2, MADE_GO_1_16, MADE_GO_1_18, MADE_GO_1_20, _MADE_GO_MAX };

/* Where the pointer to the first function is. */
enum made_go_text {
	MADE_GO_TEXT_STORED,
	MADE_GO_TEXT_RELOCATED,
	MADE_GO_TEXT_IN_MODULE,
	MADE_GO_TEXT_RELOCATED_IN_MODULE,
	_MADE_GO_TEXT_MAX,
};

struct made_go_function {
	uint64_t at; /* from the first one on */
	const char *name;
	const char *steps; /* bytes other than 0; "": none */
};

/* 0, NULL: as it should be. */
struct made_go {
	enum made_go_layout layout;
	unsigned machine;			  /* e_machine; 0: x86-64 */
	const char *section;			  /* NULL: .gopclntab */
	const struct made_go_function *functions; /* up to one without a name */
	uint64_t end;				  /* of the last one */
	size_t before;				  /* bytes in the section before the table */
	enum made_go_text text;
	uint64_t text_at; /* its value */
	bool is_other_module;
	uint32_t magic;
	uint8_t quantum, word;
	uint64_t count;
	uint32_t offset;   /* added to all offsets of functions */
	unsigned odd_word; /* the header's word of this number is beyond the end */
	size_t cut;	   /* bytes at the end that are not there */
};

/* The file; its bytes are valid until the next call. What can't be made ends the program. */
struct elf_bytes made_go_file(const struct made_go *made);
