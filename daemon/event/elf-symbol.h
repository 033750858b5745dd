/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Where a function is in a program or a shared library: what a uprobe is put at, counted from the file's start.
 *
 * The file is foreign bytes. Its symbols are those of .dynsym, or else of .symtab, and only those that it defines and
 * that are code. Of a function in several versions the default one is meant, which is the one that programs are
 * linked with today.
 */

#include "util/reason.h"

#include <stdint.h>

struct elf_symbol {
	uint64_t offset; /* in the file */
	uint64_t size;	 /* of the function; 0: not known */
};

/*
 * Finds the function `name` in the file that fd has open for reading. Negative errno with the sentence in why:
 * -ENOEXEC no ELF program or library; -ENOENT no such function; -ENOTUNIQ several of that name; -EOPNOTSUPP an
 * indirect one (STT_GNU_IFUNC), at whose address is the choice of an implementation and not the function; -EFBIG
 * far more symbols than any program has.
 */
int elf_symbol_find(struct elf_symbol *ret, int fd, const char *name, struct reason *why);

/* Is the file's offset in its code? -EINVAL where it is not, and -ENOEXEC, -EFBIG as above. */
int elf_check_code(int fd, uint64_t offset, struct reason *why);
