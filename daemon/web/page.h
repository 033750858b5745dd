/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The live page for people at /: page.html, which is in the binary and asks the JSON API for all it shows.
 *
 * It is the same whatever is counted. Makefile.am makes a C file of it, and of its security policy.
 */

#include "util/buf.h"

extern const char page_html[];
extern const size_t page_html_size;

/* What the page needs of a browser: its own style and script, which are named by their hashes, its icon, and the
 * daemon's answers. */
extern const char page_security_policy[];

/* -ENOMEM, with out released. */
int page_write(struct buf *out);
