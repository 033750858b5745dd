/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Small parsers and writers of text that several rooms need. All are pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A whole unsigned number, decimal or with 0x hexadecimal, no sign, no white space; -EINVAL, -ERANGE. */
int parse_u64(const char *text, uint64_t *ret);

/* yes/no, true/false, on/off, 1/0, as systemd's files have them; -EINVAL. */
int parse_bool(const char *text, bool *ret);

/* A duration with its unit (ns, us, ms, s, min, h, d; a number alone is seconds; fractions such as
 * 1.5s are allowed), in nanoseconds; -EINVAL, -ERANGE. */
int parse_duration(const char *text, uint64_t *ret_ns);

/* A number of bytes: decimal, with or without KiB, MiB or GiB (or K, M, G, which are the same) behind it; -EINVAL,
 * -ERANGE. */
int parse_size(const char *text, uint64_t *ret);

/* A part of something, in percent with its sign ("1%", "0.5 %"), in parts in a million; -EINVAL; -ERANGE: it is more
 * than the whole. */
#define PPM UINT64_C(1000000)
int parse_share(const char *text, uint64_t *ret_ppm);

/*
 * Makes bytes valid UTF-8, different texts of different bytes: a byte outside of a valid sequence becomes U+FFFD and
 * its two hex digits, and so do the bytes of a U+FFFD in the text. Cgroup names are bytes; label values and JSON have
 * to be UTF-8. To be freed; NULL if there is no memory.
 */
char *utf8_printable(const char *bytes);
/* Does it stay as it is? */
bool utf8_is_printable(const char *bytes);

/* The length of the valid UTF-8 sequence at s (1 to 4), or 0. No overlong forms, no surrogates. */
size_t utf8_length(const char *s);

/* The length of the character at s; 0: it is the end, a control character (C0, DEL or C1) or no valid UTF-8, which a
 * terminal could take for a command. */
size_t plain_length(const char *s);
/* Is there nothing of that kind in text? */
bool text_is_plain(const char *text);
/* Puts `with` in the place of each byte of that kind. Returns text. */
char *text_make_plain(char *text, char with);

/* The beginning of text, for a message: what is not plain becomes '?', and "..." stands for the part that does not fit.
 * Returns out. */
#define EXCERPT_MAX 64
char *text_excerpt(char out[static EXCERPT_MAX], const char *text);

/*
 * Makes one text of the forms in which editors save it, for every file that people write: drops the byte order mark
 * (U+FEFF in UTF-8) at the start of a line, where joined files have it too, and the carriage return at the end of one.
 * Changes the n bytes in place, NUL or not, and returns how many are left.
 */
size_t text_unify_lines(char *text, size_t n);

/* Are both lists the same texts, in the same order? */
bool texts_are_equal(char *const *a, size_t nr_a, char *const *b, size_t nr_b);

/* Lower case, with '_' for every character other than a-z and 0-9, except at the end. To be freed; NULL if there is no
 * memory. */
char *metric_name(const char *text);
