/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Globs over paths and names: ? is one character, * any run of them, both without '/', [a-z] and [!a-z] a class; ** is
 * any run with '/'. A backslash is a plain character, since names of systemd's units are full of them ("\x2d"); what is
 * special is matched literally in a class ("[*]"). The whole text has to match. Characters are those of UTF-8, and
 * single bytes where the text is none.
 *
 * The text is gone through once, with a bit for each place in the glob that may have been reached: nothing is tried
 * again, whatever glob and text are, so that a match takes at most GLOB_MAX / 64 steps a character. Which places a
 * character fits is looked up in the glob once, and kept.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a glob. A longer one matches nothing: who takes globs from somebody refuses it. */
#define GLOB_MAX 1024

#define GLOB_WORDS (GLOB_MAX / 64 + 1)
#define GLOB_SLOTS 128

struct glob {
	const char *text; /* borrowed */
	size_t end;	  /* the place behind the last character: so many are matched there */
	size_t words;	  /* of bits for places, that are in use */
	uint64_t stays[2][GLOB_WORDS]; /* places of stars, by whether the character they take is a '/' */
	uint32_t known[GLOB_SLOTS];    /* the character whose places are kept there, or 0 */
	uint64_t fits[GLOB_SLOTS][GLOB_WORDS];
};

void glob_init(struct glob *glob, const char *text);
/* What is looked up is kept in glob. */
bool glob_matches(struct glob *glob, const char *text);

/* Both, for once. */
bool glob_match(const char *glob, const char *text);
