/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The live page for people at /: page/page.html with page/page.css and the scripts beside it, one document, compiled
 * into the binary. It gets all its data from the JSON API, and is the same whatever is counted. Makefile.am makes a C
 * file of it and of its security policy.
 */

#include <stddef.h>

extern const char page_html[];
extern const size_t page_html_size;

/* The Content-Security-Policy that the page needs: its own style and script, which are named by their hashes, its icon,
 * and requests to the daemon. */
extern const char page_security_policy[];
