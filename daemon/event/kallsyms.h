/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The addresses of the kernel's symbols, from /proc/kallsyms: "ADDRESS TYPE NAME[\t[MODULE]]", more than a
 * hundred thousand lines of it. To those who may not know, it shows zeros.
 */

#include "util/reason.h"

#include <stdbool.h>
#include <stdint.h>

/* Can a function or variable of the kernel be called so? */
bool kallsyms_is_name(const char *name);

/*
 * The address of a symbol of the kernel or of a module. path is "/proc/kallsyms" but in tests; NULL: there is none.
 * Negative errno with the sentence in why: -EACCES the addresses are hidden; -ENOENT no such symbol; -ENOTUNIQ
 * several of that name; -EOPNOTSUPP per-CPU data, which has no one address; or what opening the file said.
 */
int kallsyms_find(const char *path, const char *name, uint64_t *ret, struct reason *why);
