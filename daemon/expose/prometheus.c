/* SPDX-License-Identifier: MIT */

/*
 * Prometheus's text format, version 0.0.4: a writer of the walk by family.
 */

#include "expose/expose.h"

#include "expose/escape.h"
#include "expose/family.h"

#include <errno.h>

struct prometheus {
	struct buf *out;
	struct buf name; /* of the family's samples */
};

static const char *type_name(enum family_type type)
{
	/* The format has no type for an info. */
	return type == FAMILY_COUNTER ? "counter" : "gauge";
}

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

static void begin_family(void *userdata, const struct family *family)
{
	struct prometheus *p = userdata;

	p->name.len = 0;
	buf_str(&p->name, family->name);
	buf_str(&p->name, type_suffix(family->type));
	p->out->failed |= p->name.failed;

	buf_str(p->out, "# HELP ");
	buf_add(p->out, p->name.data, p->name.len);
	buf_char(p->out, ' ');
	escape_help(p->out, family->help);
	buf_str(p->out, "\n# TYPE ");
	buf_add(p->out, p->name.data, p->name.len);
	buf_char(p->out, ' ');
	buf_str(p->out, type_name(family->type));
	buf_char(p->out, '\n');
}

static char *put(char *p, const char *text, size_t n)
{
	memcpy(p, text, n);
	return p + n;
}

static void add_sample(void *userdata, struct label_text target, struct label_text own, uint64_t count,
		       const struct scale *scale)
{
	struct prometheus *prometheus = userdata;
	struct buf *out = prometheus->out;
	size_t labels = target.len + own.len;
	char *p;

	/* One look at the buffer's size for all of it but the number: three braces and spaces. */
	if (!buf_reserve(out, prometheus->name.len + labels + 3))
		return;
	p = put(out->data + out->len, prometheus->name.data, prometheus->name.len);
	if (labels) {
		char *brace = put(put(p, target.text, target.len), own.text, own.len);

		*p = '{'; /* for the separator that is in front of the first label */
		*brace = '}';
		p = brace + 1;
	}
	*p++ = ' ';
	out->len = (size_t)(p - out->data);
	number_add(out, count, scale);
	buf_char(out, '\n');
}

static void end(void *userdata)
{
	(void)userdata; /* The format ends where it ends. */
}

int expose_prometheus(struct buf *out, const struct snapshot *snapshot)
{
	static const struct family_writer writer = {
		.label = add_label,
		.begin = begin_family,
		.sample = add_sample,
		.end = end,
	};
	_cleanup_(walk_freep) struct walk *walk = NULL;
	struct prometheus prometheus = { .out = out };
	int r = walk_new(&walk, snapshot, NULL);

	if (r == 0)
		r = walk_families(walk, &writer, &prometheus);
	buf_release(&prometheus.name);
	if (r < 0 || out->failed) {
		buf_release(out);
		return -ENOMEM;
	}
	return 0;
}
