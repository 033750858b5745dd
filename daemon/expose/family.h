/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Metric families, as the Prometheus text format and OpenMetrics have them in common, and the table of functions that
 * a writer of such a format fills in.
 *
 * A family is one metric: a name, a type, and all of its samples in one piece. Labels are text that the writer itself
 * has made, once for each row and once for each column, so that they are not escaped again for each of a hundred
 * thousand samples.
 */

#include "expose/number.h"

enum family_type {
	FAMILY_COUNTER,
	FAMILY_GAUGE,
	FAMILY_INFO, /* its value is always 1; the information is in the labels */
};

/* The end of the name of the gauge that shows the highest rate of an event, beside its counter. */
#define PEAK_SUFFIX "_peak_per_second"

struct family {
	const char *name; /* with the unit, without the suffix of a type ("_total", "_info") */
	enum family_type type;
	const char *unit; /* "seconds", …, or "" */
	const char *help; /* not escaped; names from the config may be in it */
};

/* Labels as label() has written them. */
struct label_text {
	const char *text;
	size_t len;
};

/* One series of a family. Its labels are those of both texts, one after the other. */
struct series {
	struct label_text target, own;
	uint64_t since; /* ns since the epoch when the counter began; 0: unknown */
};

struct family_writer {
	/* Adds a label preceded by its separator ("," in both formats), so that texts can be joined. */
	void (*label)(struct buf *labels, const char *name, const char *value);
	void (*begin)(void *userdata, const struct family *family);
	/* Adds a sample with the value count × scale to the family begun last. */
	void (*sample)(void *userdata, const struct series *series, uint64_t count, const struct scale *scale);
	/* The same for a value that is not a count. */
	void (*measure)(void *userdata, const struct series *series, double value);
	void (*end)(void *userdata); /* after the last family */
};
