/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Globs over paths and names: ? is one character, * any run of them, both without '/', [a-z] and [!a-z] a class; ** is
 * any run with '/'. A backslash is a plain character, since names of systemd's units contain many ("\x2d"); a class
 * ("[*]") matches a special character literally. The whole text has to match. Characters are those of UTF-8, and single
 * bytes where the text is not UTF-8.
 *
 * The glob is parsed once, into the characters that each place in it takes. The text is read once, with a bit for each
 * place that may have been reached: there is no backtracking, whatever glob and text are. For long texts a table maps
 * characters to the places that take them. The work is counted in steps, each of which is an operation or two on a
 * word, and has bounds that hold for every glob and every text: GLOB_STEPS_ONCE for the work done once a glob, and
 * GLOB_STEPS_PER_BYTE for each byte of text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a glob. A longer one matches nothing: callers that take globs from users refuse it. */
#define GLOB_MAX 1024

#define GLOB_WORDS (GLOB_MAX / 64 + 1)

#define GLOB_STEPS_ONCE 1000000
#define GLOB_STEPS_PER_BYTE (GLOB_WORDS + 13)

/* Said where so many texts were to be matched that it would have taken too long. */
#define GLOB_TOO_LONG "the glob takes too long to match so many and such long names; use a shorter one"

/* Characters that a place takes. */
struct glob_item {
	uint32_t low, high;
	uint16_t place;
	bool wild; /* of ? or a class: not '/' */
};

struct glob {
	size_t end;		       /* the place behind the last character: so many are matched there */
	size_t words;		       /* of bits for places, that are in use; 0: the glob is too long */
	uint64_t stays[2][GLOB_WORDS]; /* places of stars, by whether the character they take is a '/' */
	struct glob_item items[GLOB_MAX];
	size_t nr_items;
	unsigned looked;	  /* characters looked up without a table */
	struct glob_table *table; /* or NULL */
	uint64_t bytes, steps;	  /* of all texts so far; for them and for the glob */
};

void glob_init(struct glob *glob, const char *text);
void glob_release(struct glob *glob);
/* The table is kept in glob, and the steps are counted there. Without memory it takes more steps. */
bool glob_matches(struct glob *glob, const char *text);

/* The work so far, in steps, and the bytes of all texts. */
uint64_t glob_steps(const struct glob *glob);
uint64_t glob_bytes(const struct glob *glob);
/* All of that, for one text. */
bool glob_match(const char *glob, const char *text);
