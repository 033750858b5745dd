/* SPDX-License-Identifier: MIT */
#pragma once

/*
 * Metric families, as the Prometheus text format and OpenMetrics have them in common; their syntax, but for numbers;
 * and the table of functions that a writer of a snapshot fills in.
 *
 * A family is one metric: a name, a type, and all of its samples in one piece. Labels are text that is made once for
 * each row and once for each column, so that they are not escaped again for each of a hundred thousand samples.
 *
 * In the text format a family has the name of its samples. In OpenMetrics it has a name of its own, to which its type
 * adds suffixes ("_total", "_created", "_info") for the samples, and no two families may have samples of one name.
 */

#include "base/util/number.h"
#include "counting/plan/plan.h"

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

/* Labels as family_label() has written them. */
struct label_text {
	const char *text;
	size_t len;
};

/* One series of a family. Its labels are those of both texts, one after the other. */
struct series {
	struct label_text target, own;
	uint64_t since; /* ns since the epoch when the counter began; 0: unknown */
};

/* The name and the help of the family of an event's totals, such as "perf_cgroup_task_clock_seconds". aggregate: CPUs
 * are shown as their sum. */
void family_event_name(struct buf *out, enum scope scope, const struct event *event);
void family_event_help(struct buf *out, const struct column *column, bool aggregate);

/* Adds a label preceded by its separator, so that texts can be joined. A negative number gets none: it is unknown, or
 * not that of one CPU. */
void family_label(struct buf *labels, const char *name, const char *value);
void family_number_label(struct buf *labels, const char *name, int number);

/* Adds what is quoted from there on, as it was before family_label() escaped it. Returns where the next label begins.
 */
const char *family_label_value(struct buf *out, const char *quoted);

/* Adds the name of the family's samples. */
void family_sample_name(struct buf *out, const struct family *family);

/* Begins a family with its lines of comments, and puts the name of its samples into *samples. */
void family_begin_prometheus(struct buf *out, struct buf *samples, const struct family *family);
/* The same. False: samples of no other name can be in it, such as "_created" of a counter. */
bool family_begin_openmetrics(struct buf *out, struct buf *samples, const struct family *family);

/* A sample without its value: the name, the labels in braces, and a space. */
void family_series(struct buf *out, const struct buf *name, const struct series *series);

struct family_writer {
	void (*begin)(void *userdata, const struct family *family);
	/* Adds a sample with the value count × scale to the family begun last. */
	void (*sample)(void *userdata, const struct series *series, uint64_t count, const struct scale *scale);
	/* The same for a value that is not a count. */
	void (*measure)(void *userdata, const struct series *series, double value);
	void (*end)(void *userdata); /* after the last family */
};
