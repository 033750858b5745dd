/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Names of C++ and Rust, which compilers encode in symbols ("_ZN2ns1fEi" is ns::f(int)). libiberty decodes them: both
 * schemes of Rust, without the hashes at the ends of names, and the scheme of the Itanium C++ ABI.
 *
 * Symbols are foreign bytes, and a short one may stand for a name of any length. So demangle() is called in a sealed
 * child, and has bounds: a symbol is decoded if it has fewer than 1,024 bytes (libiberty's bound), and its name at most
 * DEMANGLED_MAX. No memory is allocated but the buffer's, and no system call is made.
 *
 * Without libiberty no symbol is decoded (demangle-none.c).
 */

#include "base/util/buf.h"

#include <stdbool.h>

#define DEMANGLED_MAX 16384

/* Appends the name. False: the symbol is not decoded, and nothing is appended. */
bool demangle(struct buf *out, const char *symbol);
