/* SPDX-License-Identifier: MIT */

/* The Prometheus text format 0.0.4 and its successor, OpenMetrics 1.0.0: two writers of the walk by family, which
 * differ in the lines around the samples. */

#include "web/expose/expose.h"

#include "web/expose/metrics.h"

#include <errno.h>

struct exposition {
	struct buf *out;
	struct buf name;    /* of the family's samples */
	struct buf created; /* name of the samples with the time at which its counters began; empty: there are none */
	bool shows_created;
};

static void begin_prometheus(void *userdata, const struct family *family)
{
	struct exposition *e = userdata;

	family_begin_prometheus(e->out, &e->name, family);
}

static void begin_openmetrics(void *userdata, const struct family *family)
{
	struct exposition *e = userdata;
	bool alone = !family_begin_openmetrics(e->out, &e->name, family);

	e->created.len = 0;
	if (!e->shows_created || family->type != FAMILY_COUNTER || alone)
		return;
	buf_str(&e->created, family->name);
	buf_str(&e->created, "_created");
	e->out->failed |= e->created.failed;
}

static void add_sample(void *userdata, const struct series *series, uint64_t count, const struct scale *scale)
{
	struct exposition *e = userdata;
	const struct scale ns = SCALE_NS;

	family_series(e->out, &e->name, series);
	number_add(e->out, count, scale);
	buf_char(e->out, '\n');
	if (e->created.len == 0 || series->since == 0)
		return;
	family_series(e->out, &e->created, series);
	number_add(e->out, series->since, &ns);
	buf_char(e->out, '\n');
}

static void add_measure(void *userdata, const struct series *series, double value)
{
	struct exposition *e = userdata;

	family_series(e->out, &e->name, series);
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
		.begin = begin_openmetrics,
		.sample = add_sample,
		.measure = add_measure,
		.end = end_openmetrics,
	};

	return expose_families(out, snapshot, query, &writer);
}
