/* SPDX-License-Identifier: MIT */

/*
 * The Prometheus text format 0.0.4 and its successor, OpenMetrics 1.0.0: two writers of the walk by family, which
 * differ in the lines around the samples.
 *
 * In the text format a family has the name of its samples. In OpenMetrics it has a name of its own, to which its type
 * adds suffixes ("_total", "_created", "_info") for the samples, and no two families may have samples of one name.
 */

#include "expose/expose.h"

#include "expose/escape.h"
#include "expose/family-walk.h"

#include <errno.h>

struct exposition {
	struct buf *out;
	struct buf name;    /* of the family's samples */
	struct buf created; /* name of the samples with the time at which its counters began; empty: there are none */
	bool shows_created;
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

/* "# TYPE name text\n"; the text needs no escaping. */
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
	/* The format has no type "info". */
	add_comment(e->out, "# TYPE ", e->name.data, e->name.len, family->type == FAMILY_COUNTER ? "counter" : "gauge");
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Does the name end in the suffix of a type, so that it could be a sample of another family? The config can give such
 * names to events. */
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
	/* Such a family has the type "unknown", which adds no suffix, and the full name of its samples. */
	bool ambiguous = is_ambiguous(family);
	size_t n;

	name_samples(e, family);
	n = ambiguous ? e->name.len : strlen(family->name);
	add_comment(e->out, "# TYPE ", e->name.data, n, ambiguous ? "unknown" : types[family->type]);
	if (*family->unit && !ambiguous)
		add_comment(e->out, "# UNIT ", e->name.data, n, family->unit);
	add_help(e->out, e->name.data, n, family->help, escape_label);

	e->created.len = 0;
	if (!e->shows_created || family->type != FAMILY_COUNTER || ambiguous)
		return;
	buf_str(&e->created, family->name);
	buf_str(&e->created, "_created");
	e->out->failed |= e->created.failed;
}

static char *put_bytes(char *p, const char *text, size_t n)
{
	memcpy(p, text, n);
	return p + n;
}

/* A sample without its value. */
static void add_series(struct buf *out, const struct buf *name, const struct series *series)
{
	size_t labels = series->target.len + series->own.len;
	char *p;

	/* One check of the buffer's size for the whole line: two braces and a space besides. */
	if (!buf_reserve(out, name->len + labels + 3))
		return;
	p = put_bytes(out->data + out->len, name->data, name->len);
	if (labels) {
		char *brace = put_bytes(put_bytes(p, series->target.text, series->target.len), series->own.text,
					series->own.len);

		*p = '{'; /* replaces the separator in front of the first label */
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
	(void)userdata; /* The format has no end mark. */
}

static void end_openmetrics(void *userdata)
{
	struct exposition *e = userdata;

	buf_str(e->out, "# EOF\n");
}

static int expose_families(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query,
			   const struct family_writer *writer)
{
	struct exposition e = { .out = out, .shows_created = snapshot->options.created };
	_cleanup_(walk_freep) struct walk *walk = NULL;
	int r = walk_new(&walk, snapshot, query);

	if (r == 0)
		r = walk_families(walk, writer, &e);
	buf_release(&e.name);
	buf_release(&e.created);
	return buf_finish(out, r);
}

int expose_prometheus(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	static const struct family_writer writer = {
		.label = add_label,
		.begin = begin_prometheus,
		.sample = add_sample,
		.measure = add_measure,
		.end = end_prometheus,
	};

	return expose_families(out, snapshot, query, &writer);
}

int expose_openmetrics(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	static const struct family_writer writer = {
		.label = add_label,
		.begin = begin_openmetrics,
		.sample = add_sample,
		.measure = add_measure,
		.end = end_openmetrics,
	};

	return expose_families(out, snapshot, query, &writer);
}
