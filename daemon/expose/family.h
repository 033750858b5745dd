/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * The walk by family: what the Prometheus text format and OpenMetrics have in common.
 *
 * A family is one metric: a name, what it is, and all of its samples in one piece. A family without a
 * sample is not begun. The walk hands labels over as text that the writer itself has made of them, once
 * a row and once a column, and not again for each of a hundred thousand samples.
 */

#include "expose/walk.h"

enum family_type {
	FAMILY_COUNTER,
	FAMILY_GAUGE,
	FAMILY_INFO, /* always 1; what it says is in the labels */
};

struct family {
	const char *name; /* with its unit, without what a type adds to it: "_total", "_info" */
	enum family_type type;
	const char *unit; /* "seconds", …, "" */
	const char *help; /* foreign text may be in it */
};

/* Labels as label() has written them. */
struct label_text {
	const char *text;
	size_t len;
};

struct family_writer {
	/* Adds a label with its separator in front ("," in both formats), so that texts can be joined. */
	void (*label)(struct buf *labels, const char *name, const char *value);
	void (*begin)(void *userdata, const struct family *family);
	/* A sample of the family begun last. Its labels are those of both texts; the value is count × scale. */
	void (*sample)(void *userdata, struct label_text target, struct label_text own, uint64_t count,
		       const struct scale *scale);
	void (*end)(void *userdata); /* after the last family */
};

/* -ENOMEM. */
int walk_families(const struct walk *walk, const struct family_writer *writer, void *userdata);
