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

/* What ends the name of the gauge beside an event's counter, for its highest rate. */
#define PEAK_SUFFIX "_peak_per_second"

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

/* What a sample is of. Its labels are those of both texts. */
struct series {
	struct label_text target, own;
	uint64_t since; /* ns since the epoch when the counter began; 0: not known */
};

struct family_writer {
	/* Adds a label with its separator in front ("," in both formats), so that texts can be joined. */
	void (*label)(struct buf *labels, const char *name, const char *value);
	void (*begin)(void *userdata, const struct family *family);
	/* A sample of the family begun last, of value count × scale. */
	void (*sample)(void *userdata, const struct series *series, uint64_t count, const struct scale *scale);
	/* The same of a value that was not counted. */
	void (*measure)(void *userdata, const struct series *series, double value);
	void (*end)(void *userdata); /* after the last family */
};

/* -ENOMEM. */
int walk_families(const struct walk *walk, const struct family_writer *writer, void *userdata);
