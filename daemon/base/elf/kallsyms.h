/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The addresses of the kernel's symbols, from /proc/kallsyms: more than a hundred thousand lines "ADDRESS TYPE
 * NAME[\t[MODULE]]". Without permission, all addresses in it are 0.
 */

#include "base/util/reason.h"

#include <stdbool.h>
#include <stdint.h>

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
