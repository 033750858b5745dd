/* SPDX-License-Identifier: MIT */

#include "web/expose/family.h"

#include "base/util/escape.h"

#include <string.h>

/* --- the family of an event */

void family_event_name(struct buf *out, enum scope scope, const struct event *event)
{
	buf_str(out, "perf_");
	buf_str(out, scope_name(scope));
	buf_char(out, '_');
	event_series_name(out, event);
}

static const char *scope_help(const struct column *column, bool aggregate)
{
	if (column->scope == SCOPE_CGROUP)
		return "while tasks of the cgroup or of one below it ran (in /, the idle tasks too)";
	if (column->event->uncore)
		return aggregate ? "on all packages together" :
				   "for the unit that the CPU stands for: its package, a part of it, or a core";
	return aggregate ? "on all CPUs together, for all processes" : "on the CPU, for all processes";
}

void family_event_help(struct buf *out, const struct column *column, bool aggregate)
{
	const char *unit = event_unit_name(column->event->unit);
	const char *const parts[] = {
		"Event ",
		column->event->text,
		" of group ",
		column->group->name,
		*unit ? ", in " : "",
		unit,
		", counted ",
		scope_help(column, aggregate),
		".",
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		buf_str(out, parts[i]);
}

/* --- labels */

void family_label(struct buf *labels, const char *name, const char *value)
{
	buf_char(labels, ',');
	buf_str(labels, name);
	buf_add(labels, "=\"", 2);
	escape_label(labels, value);
	buf_char(labels, '"');
}

void family_number_label(struct buf *labels, const char *name, int number)
{
	char value[16];

	if (number < 0)
		return;
	(void)snprintf(value, sizeof(value), "%d", number);
	family_label(labels, name, value);
}

const char *family_label_value(struct buf *out, const char *quoted)
{
	for (; *quoted != '"'; quoted++) {
		if (*quoted == '\\')
			quoted++;
		buf_char(out, *quoted == 'n' && quoted[-1] == '\\' ? '\n' : *quoted);
	}
	return quoted + 1;
}

/* --- the beginning */

static const char *type_suffix(enum family_type type)
{
	static const char *const suffixes[] = {
		[FAMILY_COUNTER] = "_total",
		[FAMILY_GAUGE] = "",
		[FAMILY_INFO] = "_info",
	};

	return suffixes[type];
}

void family_sample_name(struct buf *out, const struct family *family)
{
	buf_str(out, family->name);
	buf_str(out, type_suffix(family->type));
}

static void name_samples(struct buf *out, struct buf *samples, const struct family *family)
{
	samples->len = 0;
	family_sample_name(samples, family);
	out->failed |= samples->failed;
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

void family_begin_prometheus(struct buf *out, struct buf *samples, const struct family *family)
{
	name_samples(out, samples, family);
	add_help(out, samples->data, samples->len, family->help, escape_help);
	/* The format has no type "info". */
	add_comment(out, "# TYPE ", samples->data, samples->len, family->type == FAMILY_COUNTER ? "counter" : "gauge");
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

bool family_begin_openmetrics(struct buf *out, struct buf *samples, const struct family *family)
{
	static const char *const types[] = {
		[FAMILY_COUNTER] = "counter",
		[FAMILY_GAUGE] = "gauge",
		[FAMILY_INFO] = "info",
	};
	/* Such a family has the type "unknown", which adds no suffix, and the full name of its samples. */
	bool ambiguous = is_ambiguous(family);
	size_t n;

	name_samples(out, samples, family);
	n = ambiguous ? samples->len : strlen(family->name);
	add_comment(out, "# TYPE ", samples->data, n, ambiguous ? "unknown" : types[family->type]);
	if (*family->unit && !ambiguous)
		add_comment(out, "# UNIT ", samples->data, n, family->unit);
	add_help(out, samples->data, n, family->help, escape_label);
	return !ambiguous;
}

/* --- samples */

static char *put_bytes(char *p, const char *text, size_t n)
{
	/* NULL where there is nothing. */
	if (n)
		memcpy(p, text, n);
	return p + n;
}

void family_series(struct buf *out, const struct buf *name, const struct series *series)
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
