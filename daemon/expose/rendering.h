/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What many ask for at the same time is written once: a whole snapshot in one of its formats, and compressed, is kept
 * with the snapshot, and goes with it. Memory is bounded by that: there is one snapshot at a time that answers are made
 * from, and what is filtered is not kept.
 *
 * A snapshot's age, in its JSON, is that of when it was written.
 */

#include "expose/expose.h"
#include "util/blob.h"

/*
 * The whole snapshot in that format and coding, with a reference for the caller. *written is whether it was walked for
 * that, and not only compressed or found. -ENOMEM.
 */
int rendering_get(struct blob **ret, struct snapshot *snapshot, enum snapshot_format format,
		  enum snapshot_coding coding, bool *written);
