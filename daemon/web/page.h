/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The page for people at /: what this is, where to look, and what is counted. HTML without a script.
 */

#include "snapshot/about.h"
#include "snapshot/snapshot.h"
#include "util/buf.h"

/* What the page needs of a browser: nothing from anywhere, but its own style. */
#define PAGE_SECURITY_POLICY "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " \
			     "frame-ancestors 'none'"

/* -ENOMEM, with out released. */
int page_write(struct buf *out, const struct snapshot *snapshot, const struct about *about);
