/* SPDX-License-Identifier: MIT */

/*
 * Prometheus's text format, version 0.0.4, and what has come of it, OpenMetrics 1.0.0: two writers of the walk by
 * family, that differ in what stands around the samples.
 *
 * A family has its samples' name in the one. In the other it has a name of its own, to which each type adds what it
 * adds, and no two families may add up to the same.
 */

#include "expose/expose.h"

#include "expose/escape.h"
#include "expose/family.h"

#include <errno.h>

struct exposition {
	struct buf *out;
	struct buf name;    /* of the family's samples */
	struct buf created; /* of the samples that tell when its counters began; empty: there are none */
	bool tells_created;
};

static const char *type_suffix(enum family_type type)
{
	static const char *const suffixes[] = {
		[FAMILY_COUNTER] = "_total",
		[FAMILY_GAUGE] = "",
		[FAMILY_INFO] = "_info",
	};

	return suffixes[type];
}

static void add_label(struct buf *labels, const char *name, const char *value)
{
	buf_char(labels, ',');
	buf_str(labels, name);
	buf_add(labels, "=\"", 2);
	escape_label(labels, value);
	buf_char(labels, '"');
}

/* "# TYPE name text\n"; the text is a word. */
static void add_comment(struct buf *out, const char *keyword, const char *name, size_t name_length, const char *text)
{
	buf_str(out, keyword);
	buf_add(out, name, name_length);
	buf_char(out, ' ');
	buf_str(out, text);
	buf_char(out, '\n');
}

static void add_help(struct buf *out, const char *name, size_t name_length, const char *text,
		     void (*escape)(struct buf *out, const char *text))
{
	buf_str(out, "# HELP ");
	buf_add(out, name, name_length);
	buf_char(out, ' ');
	escape(out, text);
	buf_char(out, '\n');
}

static void name_samples(struct exposition *e, const struct family *family)
{
	e->name.len = 0;
	buf_str(&e->name, family->name);
	buf_str(&e->name, type_suffix(family->type));
	e->out->failed |= e->name.failed;
}

static void begin_prometheus(void *userdata, const struct family *family)
{
	struct exposition *e = userdata;

	name_samples(e, family);
	add_help(e->out, e->name.data, e->name.len, family->help, escape_help);
	/* The format has no type for an info. */
	add_comment(e->out, "# TYPE ", e->name.data, e->name.len,
		    family->type == FAMILY_COUNTER ? "counter" : "gauge");
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Could the family be taken for a part of another? Events can be given such names. */
static bool is_ambiguous(const struct family *family)
{
	static const char *const ends[] = { "_total", "_created", "_info", PEAK_SUFFIX };

	for (size_t i = 0; family->type == FAMILY_COUNTER && i < ARRAY_SIZE(ends); i++)
		if (ends_with(family->name, ends[i]))
			return true;
	return false;
}

static void begin_openmetrics(void *userdata, const struct family *family)
{
	static const char *const types[] = {
		[FAMILY_COUNTER] = "counter",
		[FAMILY_GAUGE] = "gauge",
		[FAMILY_INFO] = "info",
	};
	struct exposition *e = userdata;
	/* Then it is told by its samples' name, to which nothing is added: of no type, and without what types have. */
	bool ambiguous = is_ambiguous(family);
	size_t n;

	name_samples(e, family);
	n = ambiguous ? e->name.len : strlen(family->name);
	add_comment(e->out, "# TYPE ", e->name.data, n, ambiguous ? "unknown" : types[family->type]);
	if (*family->unit && !ambiguous)
		add_comment(e->out, "# UNIT ", e->name.data, n, family->unit);
	add_help(e->out, e->name.data, n, family->help, escape_label);

	e->created.len = 0;
	if (!e->tells_created || family->type != FAMILY_COUNTER || ambiguous)
		return;
	buf_str(&e->created, family->name);
	buf_str(&e->created, "_created");
	e->out->failed |= e->created.failed;
}

static char *put(char *p, const char *text, size_t n)
{
	memcpy(p, text, n);
	return p + n;
}

/* A sample but for its value. */
static void add_series(struct buf *out, const struct buf *name, const struct series *series)
{
	size_t labels = series->target.len + series->own.len;
	char *p;

	/* One look at the buffer's size for all of it: three braces and spaces. */
	if (!buf_reserve(out, name->len + labels + 3))
		return;
	p = put(out->data + out->len, name->data, name->len);
	if (labels) {
		char *brace = put(put(p, series->target.text, series->target.len), series->own.text, series->own.len);

		*p = '{'; /* for the separator that is in front of the first label */
		*brace = '}';
		p = brace + 1;
	}
	*p++ = ' ';
	out->len = (size_t)(p - out->data);
}

static void add_sample(void *userdata, const struct series *series, uint64_t count, const struct scale *scale)
{
	struct exposition *e = userdata;
	const struct scale ns = SCALE_NS;

	add_series(e->out, &e->name, series);
	number_add(e->out, count, scale);
	buf_char(e->out, '\n');
	if (e->created.len == 0 || series->since == 0)
		return;
	add_series(e->out, &e->created, series);
	number_add(e->out, series->since, &ns);
	buf_char(e->out, '\n');
}

static void add_measure(void *userdata, const struct series *series, double value)
{
	struct exposition *e = userdata;

	add_series(e->out, &e->name, series);
	measure_add(e->out, value);
	buf_char(e->out, '\n');
}

static void end_prometheus(void *userdata)
{
	(void)userdata; /* The format ends where it ends. */
}

static void end_openmetrics(void *userdata)
{
	struct exposition *e = userdata;

	buf_str(e->out, "# EOF\n");
}

static int expose(struct buf *out, const struct snapshot *snapshot, const struct family_writer *writer)
{
	struct exposition e = { .out = out, .tells_created = snapshot->options.created };
	_cleanup_(walk_freep) struct walk *walk = NULL;
	int r = walk_new(&walk, snapshot, NULL);

	if (r == 0)
		r = walk_families(walk, writer, &e);
	buf_release(&e.name);
	buf_release(&e.created);
	if (r == 0 && !out->failed)
		return 0;
	buf_release(out);
	return -ENOMEM;
}

int expose_prometheus(struct buf *out, const struct snapshot *snapshot)
{
	static const struct family_writer writer = {
		.label = add_label,
		.begin = begin_prometheus,
		.sample = add_sample,
		.measure = add_measure,
		.end = end_prometheus,
	};

	return expose(out, snapshot, &writer);
}

int expose_openmetrics(struct buf *out, const struct snapshot *snapshot)
{
	static const struct family_writer writer = {
		.label = add_label,
		.begin = begin_openmetrics,
		.sample = add_sample,
		.measure = add_measure,
		.end = end_openmetrics,
	};

	return expose(out, snapshot, &writer);
}
