/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Finds a function in a program or a shared library, as an offset from the file's start, which is where a uprobe is
 * put.
 *
 * The file is foreign bytes. Its symbols are those of .dynsym, or else of .symtab, as far as they are defined in it and
 * are code. If a function has several versions, the default one is meant, with which programs are linked today.
 */

#include "base/util/reason.h"

#include <stdint.h>

struct elf_symbol {
	uint64_t offset; /* in the file */
	uint64_t size;	 /* of the function; 0: not known */
};

/*
 * Finds the function `name` in the file that fd has open for reading. Negative errno with the sentence in why:
 * -ENOEXEC no ELF program or library; -ENOENT no such function; -ENOTUNIQ several of that name; -EOPNOTSUPP an indirect
 * one (STT_GNU_IFUNC), whose address is that of code which chooses an implementation; -EFBIG far more symbols than any
 * program has.
 */
int elf_symbol_find(struct elf_symbol *ret, int fd, const char *name, struct reason *why);

/* Is the offset in the code of the file? -EINVAL if not; -ENOEXEC, -EFBIG as above. */
int elf_check_code(int fd, uint64_t offset, struct reason *why);
