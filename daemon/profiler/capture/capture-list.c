/* SPDX-License-Identifier: MIT */

#include "profiler/capture/capture-list.h"

#include "base/util/clock.h"
#include "base/util/escape.h"
#include "base/util/number.h"

#include <inttypes.h>
#include <string.h>

static const char *const states[] = {
	[CAPTURE_RUNNING] = "running",
	[CAPTURE_NAMING] = "naming",
	[CAPTURE_FINISHED] = "kept",
};

static const char *const disk_states[] = {
	[CAPTURE_NOT_SAVED] = "no",
	[CAPTURE_TO_BE_SAVED] = "waiting",
	[CAPTURE_SAVED] = "yes",
	[CAPTURE_SAVE_FAILED] = "failed",
};

static void append_name(struct buf *out, const char *name)
{
	buf_printf(out, ",\"%s\":", name);
}

/* null for NULL. */
static void append_text(struct buf *out, const char *name, const char *text)
{
	append_name(out, name);
	if (text)
		escape_json_string(out, text);
	else
		buf_str(out, "null");
}

/* null for "". */
static void append_sentence(struct buf *out, const char *name, const char *text)
{
	append_text(out, name, *text ? text : NULL);
}

static void append_u64(struct buf *out, const char *name, uint64_t value)
{
	append_name(out, name);
	buf_u64(out, value);
}

static void append_measure(struct buf *out, const char *name, double value)
{
	append_name(out, name);
	measure_add(out, value);
}

/* A time of CLOCK_MONOTONIC, in seconds since 1970; null for 0 and for one that is still to come. */
static void append_time(struct buf *out, const char *name, const struct capture_cause *cause, uint64_t time)
{
	append_name(out, name);
	if (time == 0 || time == UINT64_MAX)
		buf_str(out, "null");
	else
		buf_double(out, (double)capture_shown(cause, time) / NS_PER_S);
}

static const struct told_values *find_values(const struct told_captures *told, const char *id)
{
	for (size_t i = 0; i < told->nr_values; i++)
		if (strcmp(told->values[i].capture, id) == 0)
			return &told->values[i];
	return NULL;
}

/* Without values, an empty list. */
static void append_values(struct buf *out, const struct told_values *values)
{
	buf_str(out, ",\"values\":[");
	for (size_t i = 0; values && i < values->nr; i++) {
		buf_str(out, i ? ",{\"time\":" : "{\"time\":");
		number_add(out, values->rates[i].end, &SCALE_NS);
		append_measure(out, "rate", values->rates[i].rate);
		buf_char(out, '}');
	}
	buf_char(out, ']');
}

static void append_rules(struct buf *out, const struct told_captures *told)
{
	buf_str(out, ",\"rules\":[");
	for (size_t i = 0; i < told->nr_rules; i++) {
		const struct told_rule *rule = &told->rules[i];

		buf_str(out, i ? ",{\"name\":" : "{\"name\":");
		escape_json_string(out, rule->name);
		append_text(out, "when", rule->when);
		append_sentence(out, "problem", rule->problem);
		append_u64(out, "captures", rule->captures);
		append_u64(out, "passed_over", rule->passed_over);
		buf_char(out, '}');
	}
	buf_char(out, ']');
}

static void append_capture(struct buf *out, const struct capture *capture, const struct told_captures *told)
{
	const struct capture_cause *cause = &capture->cause;

	buf_printf(out, "{\"state\":\"%s\"", states[capture->state]);
	append_text(out, "id", capture->id);
	append_text(out, "name", cause->rule);
	append_text(out, "when", cause->when);
	append_text(out, "cgroup", cause->cgroup);
	append_text(out, "reason", cause->reason);
	append_text(out, "counter", cause->counter);
	append_text(out, "unit", cause->unit);
	append_measure(out, "value", cause->value);
	append_measure(out, "threshold", cause->threshold);
	append_time(out, "time", cause, cause->time);
	append_time(out, "from", cause, cause->from);
	append_time(out, "to", cause, cause->to);
	append_text(out, "event", cause->measure.event);
	append_u64(out, "samples", capture_samples(capture));
	append_u64(out, "samples_dropped", capture_samples_dropped(capture));
	append_u64(out, "bytes", capture_bytes(capture));
	append_time(out, "raised_from", cause, capture->extract.finer_from);
	append_time(out, "raised_to", cause, capture->extract.finer_to);
	append_sentence(out, "raise_problem", capture->raise_problem.text);
	append_text(out, "saved", disk_states[capture->disk]);
	append_sentence(out, "save_problem", capture->disk_problem.text);
	append_values(out, find_values(told, capture->id));
	buf_char(out, '}');
}

void capture_list_json(struct buf *out, const struct captures *captures, const struct capture_saved *files,
		       size_t nr_files, const struct told_captures *told)
{
	const struct capture *capture;

	buf_printf(out, "{\"bytes\":%zu,\"limit\":%zu,\"dropped\":%" PRIu64 ",\"captures\":[", captures_bytes(captures),
		   captures->limit, captures->dropped);
	TAILQ_FOREACH(capture, &captures->all, in_all) {
		if (capture != TAILQ_FIRST(&captures->all))
			buf_char(out, ',');
		append_capture(out, capture, told);
	}
	buf_str(out, "],\"files\":[");
	for (size_t i = 0; i < nr_files; i++) {
		buf_str(out, i ? ",{\"id\":" : "{\"id\":");
		escape_json_string(out, files[i].id);
		append_u64(out, "bytes", files[i].bytes);
		buf_char(out, '}');
	}
	buf_char(out, ']');
	append_rules(out, told);
	buf_str(out, "}\n");
}
