/* SPDX-License-Identifier: MIT */

/*
 * The protobuf format of Prometheus: a stream of messages io.prometheus.client.MetricFamily (metrics.proto of its
 * client model), each behind its length. Families have the names of the text format.
 */

#include "base/util/clock.h"
#include "base/util/escape.h"
#include "base/util/protobuf.h"
#include "web/expose/expose.h"
#include "web/expose/metrics.h"

#include <stdlib.h>
#include <string.h>

/* Fields of the messages. */
enum {
	FAMILY_NAME = 1,
	FAMILY_HELP = 2,
	FAMILY_TYPE = 3,
	FAMILY_METRIC = 4,
	FAMILY_UNIT = 5,
};

enum {
	METRIC_LABEL = 1,
	METRIC_GAUGE = 2,
	METRIC_COUNTER = 3,
};

enum {
	LABEL_NAME = 1,
	LABEL_VALUE = 2,
};

enum {
	VALUE = 1, /* of a counter or a gauge */
	COUNTER_CREATED = 3,
};

enum {
	TIMESTAMP_SECONDS = 1,
	TIMESTAMP_NANOS = 2,
};

/* Values of MetricFamily.type. */
enum {
	TYPE_COUNTER = 0,
	TYPE_GAUGE = 1,
};

struct messages {
	struct buf *out;
	struct buf family, metric, inner, timestamp, text; /* of what is being written */
	enum family_type type;
	bool begun; /* a family is being written */
	bool shows_created;
};

static void end_family(void *userdata)
{
	struct messages *m = userdata;

	if (m->begun)
		protobuf_delimited(m->out, &m->family);
	m->begun = false;
}

/* Escaping and back makes UTF-8 of it, which a text of the config need not be. */
static void add_help(struct messages *m, const char *help)
{
	m->text.len = 0;
	escape_label(&m->text, help);
	buf_char(&m->text, '"');
	if (m->text.failed)
		return;
	(void)family_label_value(&m->inner, m->text.data);
	protobuf_message(&m->family, FAMILY_HELP, &m->inner);
}

static void begin_family(void *userdata, const struct family *family)
{
	struct messages *m = userdata;

	end_family(m);
	m->begun = true;
	m->type = family->type;
	m->text.len = 0;
	family_sample_name(&m->text, family);
	protobuf_bytes(&m->family, FAMILY_NAME, m->text.data, m->text.len);
	add_help(m, family->help);
	protobuf_u64(&m->family, FAMILY_TYPE, family->type == FAMILY_COUNTER ? TYPE_COUNTER : TYPE_GAUGE);
	if (*family->unit)
		protobuf_bytes(&m->family, FAMILY_UNIT, family->unit, strlen(family->unit));
}

/* Labels as family_label() has written them. */
static void add_labels(struct messages *m, const struct label_text *labels)
{
	const char *at = labels->text, *end = labels->text + labels->len;

	while (at < end) {
		const char *name = at + 1, *equals = memchr(name, '=', (size_t)(end - name));

		protobuf_bytes(&m->inner, LABEL_NAME, name, (size_t)(equals - name));
		m->text.len = 0;
		at = family_label_value(&m->text, equals + 2);
		protobuf_bytes(&m->inner, LABEL_VALUE, m->text.data, m->text.len);
		protobuf_message(&m->metric, METRIC_LABEL, &m->inner);
	}
}

static void add_created(struct messages *m, uint64_t since)
{
	protobuf_u64(&m->timestamp, TIMESTAMP_SECONDS, since / NS_PER_S);
	protobuf_u64(&m->timestamp, TIMESTAMP_NANOS, since % NS_PER_S);
	protobuf_message(&m->inner, COUNTER_CREATED, &m->timestamp);
}

/* The value stands in m->text as the text format has it: so both formats have the same double. */
static void add_metric(struct messages *m, const struct series *series)
{
	buf_char(&m->text, '\0');
	if (m->text.failed) {
		m->out->failed = true;
		return;
	}
	protobuf_double(&m->inner, VALUE, strtod(m->text.data, NULL));
	if (m->type == FAMILY_COUNTER && m->shows_created && series->since)
		add_created(m, series->since);
	protobuf_message(&m->metric, m->type == FAMILY_COUNTER ? METRIC_COUNTER : METRIC_GAUGE, &m->inner);
	add_labels(m, &series->target);
	add_labels(m, &series->own);
	protobuf_message(&m->family, FAMILY_METRIC, &m->metric);
}

static void add_sample(void *userdata, const struct series *series, uint64_t count, const struct scale *scale)
{
	struct messages *m = userdata;

	m->text.len = 0;
	number_add(&m->text, count, scale);
	add_metric(m, series);
}

static void add_measure(void *userdata, const struct series *series, double value)
{
	struct messages *m = userdata;

	m->text.len = 0;
	measure_add(&m->text, value);
	add_metric(m, series);
}

int expose_protobuf(struct buf *out, const struct snapshot *snapshot, const struct expose_query *query)
{
	static const struct family_writer writer = {
		.begin = begin_family,
		.sample = add_sample,
		.measure = add_measure,
		.end = end_family,
	};
	struct messages m = { .out = out, .family.max = out->max, .shows_created = snapshot->options.created };
	struct buf *const bufs[] = { &m.family, &m.metric, &m.inner, &m.timestamp, &m.text };
	_cleanup_(walk_freep) struct walk *walk = NULL;
	int r = walk_new(&walk, snapshot, query);

	if (r == 0)
		r = walk_families(walk, &writer, &m);
	for (size_t i = 0; i < ARRAY_SIZE(bufs); i++) {
		out->failed |= bufs[i]->failed;
		out->is_full |= bufs[i]->is_full;
		buf_release(bufs[i]);
	}
	return buf_finish(out, r);
}
