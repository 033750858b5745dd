/* SPDX-License-Identifier: MIT */

#include "profiler/naming/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

struct decoding {
	struct buf *out;
	size_t max; /* the longest that the buffer may become */
	jmp_buf too_long;
};

/* libiberty can't be told to stop, and would print a name that doubles a hundred times to its end. The jump loses no
 * memory: libiberty allocates none. */
static void take_part(const char *part, size_t size, void *userdata)
{
	struct decoding *decoding = userdata;

	if (size > decoding->max - decoding->out->len)
		longjmp(decoding->too_long, 1);
	buf_add(decoding->out, part, size);
}

/* Rust comes first: the symbols of its first scheme are valid in C++ too. */
static bool decode(struct decoding *decoding, const char *symbol)
{
	if (setjmp(decoding->too_long))
		return false;
	return rust_demangle_callback(symbol, DMGL_PARAMS, take_part, decoding) ||
	       cplus_demangle_v3_callback(symbol, DMGL_PARAMS | DMGL_ANSI, take_part, decoding);
}

bool demangle(struct buf *out, const char *symbol)
{
	struct decoding decoding = { .out = out, .max = out->len + DEMANGLED_MAX };
	size_t before = out->len;

	if (strncmp(symbol, "_Z", 2) != 0 && strncmp(symbol, "_R", 2) != 0 && strncmp(symbol, "_GLOBAL_", 8) != 0)
		return false;
	if (!decode(&decoding, symbol) || out->len == before) {
		out->len = before;
		return false;
	}
	return true;
}
