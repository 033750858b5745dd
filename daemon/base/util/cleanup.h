/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Scope-bound release of what a function owns.
 *
 * A local variable that owns something is declared with _cleanup_(). A constructor builds into such a variable, and
 * hands it over with steal_ptr(), steal_fd() or steal_struct() as its last step, so that every early return unwinds by
 * itself and outputs stay untouched on failure.
 */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _unused_ __attribute__((unused))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Takes the pointer out of a variable, which is NULL then. */
#define steal_ptr(p)                                                                                                   \
	({                                                                                                             \
		__typeof__(&(p)) _where = &(p);                                                                        \
		__typeof__(p) _what = *_where;                                                                         \
		*_where = NULL;                                                                                        \
		_what;                                                                                                 \
	})

/* Takes what a struct owns out of a variable, which is empty then. */
#define steal_struct(s)                                                                                                \
	({                                                                                                             \
		__typeof__(&(s)) _where = &(s);                                                                        \
		__typeof__(s) _what = *_where;                                                                         \
		*_where = (__typeof__(s)){};                                                                           \
		_what;                                                                                                 \
	})

static inline int steal_fd(int *fd)
{
	int what = *fd;

	*fd = -1;
	return what;
}

/* Closes fd unless it is negative; returns -1, to be assigned to the variable. */
static inline int safe_close(int fd)
{
	if (fd >= 0)
		(void)close(fd);
	return -1;
}

static inline void freep(void *p)
{
	free(*(void **)p);
}

static inline void closep(int *fd)
{
	safe_close(*fd);
}

static inline void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

static inline void closefilep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

/* Defines NAMEp() for _cleanup_() from a destructor NAME() that takes NULL. */
#define DEFINE_CLEANUP(type, name)                                                                                     \
	static inline void name##p(type *p)                                                                            \
	{                                                                                                              \
		if (*p)                                                                                                \
			name(*p);                                                                                      \
	}
