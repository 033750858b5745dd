/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The addresses of the kernel's symbols, from /proc/kallsyms: more than a hundred thousand lines "ADDRESS TYPE
 * NAME[\t[MODULE]]". Without permission, all addresses in it are 0.
 */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* KSYM_NAME_LEN of Linux 6.1, with the NUL. */
#define KALLSYMS_NAME_MAX 512

/* A line. Name and module end before white space. */
struct kallsyms_line {
	uint64_t address;
	char type;
	const char *name, *module; /* module "": the kernel itself, or no module */
	size_t name_length;
	const char *text; /* all of it, with its '\n' */
};

/* Hands over the lines of the file at path, but for malformed ones. The error of opening, or -EIO. */
int kallsyms_each(const char *path, void (*take)(void *userdata, const struct kallsyms_line *line), void *userdata);

/* The same for an open file. */
int kallsyms_each_of(FILE *file, void (*take)(void *userdata, const struct kallsyms_line *line), void *userdata);

/* Is the symbol code: a function, or a label in one? */
bool kallsyms_is_code(const struct kallsyms_line *line);

/* Can a function or variable of the kernel be called so? */
bool kallsyms_is_name(const char *name);

/*
 * The address of a symbol of the kernel or of a module. path is "/proc/kallsyms" but in tests; NULL: there is none.
 * Negative errno with the sentence in why: -EACCES the addresses are hidden; -ENOENT no such symbol; -ENOTUNIQ
 * several of that name; -EOPNOTSUPP per-CPU data, whose address differs by CPU; or the error of opening the file.
 */
int kallsyms_find(const char *path, const char *name, uint64_t *ret, struct reason *why);

/*
 * Saves the functions' lines of the file at path (of code: types T and W) in another one, which only the owner of its
 * folder can read; an older one is replaced. Returns the number of functions; negative errno with the sentence in why:
 * -EACCES the addresses are hidden; or the error of reading or writing.
 */
int kallsyms_save(const char *path, const char *file, struct reason *why);
