/* SPDX-License-Identifier: MIT */

#include "setup/no-memory.h"

#include "base/util/cleanup.h"

#include <search.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool (*memory_fails)(void);

static bool fails(void)
{
	return memory_fails && memory_fails();
}

/* The names are whole, for list-sources. */
#define WRAP(type, wrap, real, arguments, call)                                                                        \
	type real arguments;                                                                                           \
	type wrap arguments;                                                                                           \
	type wrap arguments                                                                                            \
	{                                                                                                              \
		return fails() ? NULL : real call;                                                                     \
	}

typedef int compare_fn(const void *, const void *);

WRAP(void *, __wrap_malloc, __real_malloc, (size_t size), (size))
WRAP(void *, __wrap_calloc, __real_calloc, (size_t nr, size_t size), (nr, size))
WRAP(void *, __wrap_realloc, __real_realloc, (void *old, size_t size), (old, size))
WRAP(void *, __wrap_reallocarray, __real_reallocarray, (void *old, size_t nr, size_t size), (old, nr, size))
WRAP(char *, __wrap_strdup, __real_strdup, (const char *text), (text))
WRAP(char *, __wrap_strndup, __real_strndup, (const char *text, size_t size), (text, size))
WRAP(void *, __wrap_tsearch, __real_tsearch, (const void *key, void **root, compare_fn *compare), (key, root, compare))

int __real_vasprintf(char **ret, const char *format, va_list ap) _printf_(2, 0);
int __wrap_vasprintf(char **ret, const char *format, va_list ap) _printf_(2, 0);
int __wrap_asprintf(char **ret, const char *format, ...) _printf_(2, 3);
int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...) _printf_(3, 4);

int __wrap_vasprintf(char **ret, const char *format, va_list ap)
{
	/* What it leaves behind on failure is undefined: nothing that may be used. */
	*ret = (char *)-1;
	return fails() ? -1 : __real_vasprintf(ret, format, ap);
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = __wrap_vasprintf(ret, format, ap);
	va_end(ap);
	return n;
}

/* Its name with _FORTIFY_SOURCE. */
int __wrap___asprintf_chk(char **ret, _unused_ int flag, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = __wrap_vasprintf(ret, format, ap);
	va_end(ap);
	return n;
}
