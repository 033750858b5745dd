/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * What many ask for at the same time is written once: a whole snapshot in one of its formats, an answer about a part of
 * it, and either compressed, is kept with the snapshot, and goes with it. Memory is bounded by that: there is one
 * snapshot at a time that answers are made from, and of answers about a part it keeps the last ones, as many as
 * SNAPSHOT_ANSWERS and RENDERING_BYTES allow, but always one.
 *
 * A snapshot's age, in its JSON, is that of when it was written.
 */

#include "expose/expose.h"
#include "util/blob.h"

#define RENDERING_BYTES (16 * 1024 * 1024)

/*
 * The whole snapshot in that format and coding, with a reference for the caller. *written is whether it was walked for
 * that, and not only compressed or found. -ENOMEM.
 */
int rendering_get(struct blob **ret, struct snapshot *snapshot, enum snapshot_format format,
		  enum snapshot_coding coding, bool *written);

/* Writes into out: 0, or -ENOMEM with out released. */
typedef int (*rendering_writer)(struct buf *out, const struct snapshot *snapshot, const void *userdata);

/* The same for what write() answers to a question: equal ones have to have equal answers. */
int rendering_ask(struct blob **ret, struct snapshot *snapshot, const char *question, enum snapshot_coding coding,
		  rendering_writer write, const void *userdata, bool *written);
