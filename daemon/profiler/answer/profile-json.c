/* SPDX-License-Identifier: MIT */

/* The documents of /api/v1/profile: a tree in flat arrays, of which each has an element for each node. A tree of 50,000
 * nodes is some megabytes: it is written as it is gone through. Below it, the largest rows, the heat map, and
 * speedscope's format. */

#include "base/util/clock.h"
#include "base/util/escape.h"
#include "profiler/answer/profile.h"

#include <errno.h>
#include <inttypes.h>

static const char *const kinds[] = {
	[PROFILE_ROOT] = "all",	     [PROFILE_CGROUP] = "cgroup",     [PROFILE_COMMAND] = "command",
	[PROFILE_THREAD] = "thread", [PROFILE_FUNCTION] = "function", [PROFILE_PLACE] = "place",
};

static void append_seconds(struct buf *out, uint64_t ns)
{
	buf_double(out, (double)ns / NS_PER_S);
}

static void append_time(struct buf *out, const struct expose_profile *what, uint64_t time)
{
	append_seconds(out, expose_profile_shown(what, time));
}

/* The end of a stretch belongs to its last millisecond: if the clock was set just then, the time is still the one that
 * was shown before. */
static void append_end(struct buf *out, const struct expose_profile *what, uint64_t time)
{
	uint64_t last = time > NS_PER_MS ? time - NS_PER_MS : 0;

	append_seconds(out, expose_profile_shown(what, last) + (time - last));
}

/* In the event's unit. */
static void append_weight(struct buf *out, const struct expose_profile *what, uint64_t weight)
{
	buf_double(out, (double)weight * what->measure.scale);
}

static double share_of(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static void append_ratio(struct buf *out, uint64_t part, uint64_t whole)
{
	if (whole)
		buf_double(out, share_of(part, whole));
	else
		buf_str(out, "null");
}

static void append_share(struct buf *out, const char *name, uint64_t part, uint64_t whole)
{
	buf_printf(out, ",\"%s\":", name);
	append_ratio(out, part, whole);
}

/* What the weights were made to fit, and where that could not be. */
static void append_weights(struct buf *out, const struct profile *profile)
{
	buf_printf(out, ",\"weights\":\"%s\",\"not_counted\":", profile->counted ? "counted" : "sampled");
	if (profile->not_counted)
		buf_printf(out, "\"%s\"", profile->not_counted);
	else
		buf_str(out, "null");
	buf_str(out, ",\"uncounted\":[");
	for (size_t i = 0; i < profile->nr_uncounted; i++) {
		buf_str(out, i ? ",{\"cgroup\":" : "{\"cgroup\":");
		escape_json_string(out, archive_text(profile->archive, profile->uncounted[i].cgroup));
		buf_printf(out, ",\"why\":\"%s\"}", profile->uncounted[i].why);
	}
	buf_char(out, ']');
}

/* What can be asked for as event. */
static void append_events(struct buf *out, const struct profile_measure *measure)
{
	const char *const just_one[] = { measure->event, NULL };
	const char *const *events = measure->events ?: just_one;

	buf_str(out, ",\"events\":[");
	for (size_t i = 0; events[i]; i++)
		buf_printf(out, "%s\"%s\"", i ? "," : "", events[i]);
	buf_char(out, ']');
}

/* The members that all documents begin with. since: CLOCK_MONOTONIC ns */
static void append_stretch(struct buf *out, const struct expose_profile *what, uint64_t since)
{
	const struct profile *profile = what->profile;

	buf_printf(out, "{\"event\":\"%s\",\"unit\":\"%s\",\"from\":", what->measure.event, what->measure.unit);
	append_time(out, what, profile->from);
	buf_str(out, ",\"to\":");
	append_end(out, what, profile->to);
	buf_str(out, ",\"since\":");
	append_time(out, what, since);
}

/* Shares of the stacks, by how they end. */
static void append_ends(struct buf *out, const struct profile *profile)
{
	buf_str(out, ",\"stack_ends\":{");
	for (enum stack_end end = 0; end < _STACK_END_MAX; end++) {
		buf_printf(out, "%s\"%s\":", end ? "," : "", stack_end_name(end));
		append_ratio(out, profile->ends[end], profile->weight);
	}
	buf_str(out, "}");
}

/* … and those of a tree. */
static void append_head(struct buf *out, const struct expose_profile *what)
{
	const struct profile *profile = what->profile;

	append_stretch(out, what, what->measure.since);
	buf_str(out, ",\"reach_seconds\":");
	append_seconds(out, what->reach);
	buf_str(out, ",\"gap_seconds\":");
	append_seconds(out, what->measure.gaps);
	buf_str(out, ",\"period\":");
	if (expose_profile_period(what))
		append_weight(out, what, expose_profile_period(what));
	else
		buf_str(out, "null");
	buf_printf(out, ",\"samples\":%" PRIu32 ",\"total\":", profile->samples);
	append_weight(out, what, profile->weight);
	append_weights(out, profile);
	append_share(out, "unnamed_ratio", profile->unnamed, profile->weight);
	append_ends(out, profile);
	buf_printf(out, ",\"cut\":%s", profile->cut ? "true" : "false");
	append_events(out, &what->measure);
	buf_str(out, ",\"problem\":");
	if (what->measure.problem && what->measure.problem[0])
		escape_json_string(out, what->measure.problem);
	else
		buf_str(out, "null");
}

static void append_escaped(struct buf *out, struct buf *name)
{
	buf_char(name, '\0');
	out->failed |= name->failed;
	if (!name->failed)
		escape_json_string(out, name->data);
}

static void append_name(struct buf *out, const struct profile *profile, const struct profile_node *node)
{
	_cleanup_(buf_release) struct buf name = {};

	expose_profile_name(&name, profile, node);
	append_escaped(out, &name);
}

/* 0: null, as cgroups and commands have it. */
static void append_module(struct buf *out, const struct profile *profile, uint32_t number)
{
	const struct archive_module *module;

	if (!number) {
		buf_str(out, "null");
		return;
	}
	module = archive_module(profile->archive, number);
	escape_json_string(out, archive_text(profile->archive, module->path));
}

/* Why a place has no name; else null. */
static void append_missing(struct buf *out, const struct profile_node *node)
{
	if (node->kind != PROFILE_PLACE)
		buf_str(out, "null");
	else
		buf_printf(out, "\"%s\"", naming_text((enum naming)node->naming));
}

/* --- the tree */

/* The places in the document of the nodes that are shown, from 1; 0: it is left out. */
static uint32_t *choose_nodes(const struct expose_profile *what)
{
	const struct profile *profile = what->profile;
	uint32_t *places = calloc((size_t)profile_nr(profile) + 1, sizeof(*places));
	double least = what->min * (double)profile->weight;
	uint32_t nr = 0;

	for (uint32_t i = 1; places && i <= profile_nr(profile); i++) {
		const struct profile_node *node = profile_node(profile, i);

		if (i == 1 || (places[node->parent] && (double)node->total >= least))
			places[i] = ++nr;
	}
	return places;
}

enum part {
	PART_PARENT,
	PART_KIND,
	PART_NAME,
	PART_MODULE,
	PART_MISSING,
	PART_SELF,
	PART_TOTAL,
	PART_SAMPLES,
	_PART_MAX,
};

static const char *const parts[_PART_MAX] = {
	"parent", "kind", "name", "module", "missing", "self", "total", "samples"
};

static void append_part(struct buf *out, const struct expose_profile *what, const uint32_t *places,
			const struct profile_node *node, enum part part)
{
	switch (part) {
	case PART_PARENT:
		buf_printf(out, "%" PRId64, node->parent ? (int64_t)places[node->parent] - 1 : -1);
		break;
	case PART_KIND:
		buf_printf(out, "\"%s\"", kinds[node->kind]);
		break;
	case PART_NAME:
		append_name(out, what->profile, node);
		break;
	case PART_MODULE:
		append_module(out, what->profile, node->module);
		break;
	case PART_MISSING:
		append_missing(out, node);
		break;
	case PART_SELF:
		append_weight(out, what, node->self);
		break;
	case PART_TOTAL:
		append_weight(out, what, node->total);
		break;
	default:
		buf_printf(out, "%" PRIu32, node->samples);
		break;
	}
}

int expose_profile_json(struct buf *out, const struct expose_profile *what)
{
	const struct profile *profile = what->profile;
	_cleanup_(freep) uint32_t *places = choose_nodes(what);

	if (!places)
		return buf_finish(out, -ENOMEM);
	append_head(out, what);
	buf_str(out, ",\"nodes\":{");
	for (int part = 0; part < _PART_MAX; part++) {
		buf_printf(out, "%s\"%s\":[", part ? "," : "", parts[part]);
		for (uint32_t i = 1; i <= profile_nr(profile) && !out->failed; i++) {
			if (!places[i])
				continue;
			if (i > 1)
				buf_char(out, ',');
			append_part(out, what, places, profile_node(profile, i), (enum part)part);
		}
		buf_char(out, ']');
	}
	buf_str(out, "}}\n");
	return buf_finish(out, 0);
}

/* --- the top */

static void append_row(struct buf *out, const struct expose_profile *what, const struct profile_row *row)
{
	const struct profile *profile = what->profile;
	double share = share_of(row->self, profile->weight);

	buf_str(out, "{\"name\":");
	append_name(out, profile, row->node);
	buf_str(out, ",\"module\":");
	append_module(out, profile, row->node->module);
	buf_str(out, ",\"missing\":");
	append_missing(out, row->node);
	buf_str(out, ",\"self\":");
	append_weight(out, what, row->self);
	buf_str(out, ",\"total\":");
	append_weight(out, what, row->total);
	buf_printf(out, ",\"samples\":%" PRIu32 ",\"share\":", row->self_samples);
	buf_double(out, share);
	buf_str(out, ",\"error\":");
	buf_double(out, profile_error(share, profile->samples));
	buf_char(out, '}');
}

int expose_profile_top(struct buf *out, const struct expose_profile *what)
{
	_cleanup_(freep) struct profile_row *rows = NULL;
	size_t nr = 0;

	if (profile_top(&rows, &nr, what->profile, what->top_by) < 0)
		return buf_finish(out, -ENOMEM);
	append_head(out, what);
	buf_printf(out, ",\"rows_total\":%zu,\"rows\":[", nr);
	for (size_t i = 0; i < nr && (!what->limit || i < what->limit); i++) {
		if (i)
			buf_char(out, ',');
		append_row(out, what, &rows[i]);
	}
	buf_str(out, "]}\n");
	return buf_finish(out, 0);
}

/* --- the heat map */

int expose_profile_heat(struct buf *out, const struct expose_profile *what)
{
	const struct profile *profile = what->profile;

	/* Without a sample in memory, nothing is known until now. */
	append_stretch(out, what, profile->reach ? profile->reach : profile->to);
	buf_printf(out, ",\"columns\":%zu,\"rows\":%zu,\"column_seconds\":", what->columns, what->rows);
	buf_double(out, (double)(profile->to - profile->from) / NS_PER_S / (double)what->columns);
	buf_str(out, ",\"values\":[");
	for (size_t i = 0; i < profile->nr_slots && !out->failed; i++) {
		if (i)
			buf_char(out, ',');
		append_weight(out, what, profile->slots[i].weight);
	}
	buf_str(out, "],\"samples\":[");
	for (size_t i = 0; i < profile->nr_slots && !out->failed; i++)
		buf_printf(out, i ? ",%" PRIu32 : "%" PRIu32, profile->slots[i].samples);
	buf_str(out, "]}\n");
	return buf_finish(out, 0);
}

/* --- speedscope */

struct speedscope {
	const struct expose_profile *what;
	struct table frames;	/* struct profile_thing */
	uint32_t *first, *next; /* nodes with samples: the first one of each cgroup, and of each node the next one */
};

static void speedscope_release(struct speedscope *speedscope)
{
	table_release(&speedscope->frames);
	free(speedscope->first);
	free(speedscope->next);
}

/* The number of the cgroup's node above a node, or of the root. */
static uint32_t cgroup_above(const struct profile *profile, uint32_t number)
{
	while (profile_node(profile, number)->kind != PROFILE_CGROUP && profile_node(profile, number)->parent)
		number = profile_node(profile, number)->parent;
	return number;
}

static int sort_by_cgroup(struct speedscope *speedscope)
{
	const struct profile *profile = speedscope->what->profile;
	uint32_t nr = profile_nr(profile);

	speedscope->first = calloc((size_t)nr + 1, sizeof(*speedscope->first));
	speedscope->next = calloc((size_t)nr + 1, sizeof(*speedscope->next));
	if (!speedscope->first || !speedscope->next)
		return -ENOMEM;
	for (uint32_t i = nr; i > 0; i--) {
		uint32_t above;

		if (!profile_node(profile, i)->self_samples)
			continue;
		above = cgroup_above(profile, i);
		speedscope->next[i] = speedscope->first[above];
		speedscope->first[above] = i;
	}
	return 0;
}

static int put_frame(struct speedscope *speedscope, const struct profile_thing *thing, uint32_t *ret)
{
	size_t unlimited = SIZE_MAX;
	bool new;

	return table_put(&speedscope->frames, thing, 1, &unlimited, ret, &new);
}

/* The indices of the frames from below the cgroup's node down to the node. */
static int append_stack(struct buf *out, struct speedscope *speedscope, uint32_t number, uint32_t cgroup)
{
	const struct profile *profile = speedscope->what->profile;
	struct profile_thing thing = expose_profile_no_function(profile, profile_node(profile, number));
	uint32_t path[ARCHIVE_DEPTH_MAX + 4];
	size_t depth = 0;
	int r = 0;

	for (; r == 0 && number != cgroup && depth < ARRAY_SIZE(path); depth++) {
		thing = profile_thing_of(profile_node(profile, number));
		r = put_frame(speedscope, &thing, &path[depth]);
		number = profile_node(profile, number)->parent;
	}
	/* speedscope takes an empty stack for idle time. */
	if (r == 0 && depth == 0)
		r = put_frame(speedscope, &thing, &path[depth++]);
	if (r < 0)
		return r;
	buf_char(out, '[');
	while (depth-- > 0)
		buf_printf(out, depth ? "%" PRIu32 "," : "%" PRIu32, path[depth] - 1);
	buf_char(out, ']');
	return 0;
}

/* Weights have the unit, or none that speedscope knows. */
static int append_cgroup(struct buf *out, struct speedscope *speedscope, uint32_t cgroup)
{
	const struct profile *profile = speedscope->what->profile;
	const char *unit = speedscope->what->measure.unit;
	bool known = strcmp(unit, "seconds") == 0 || strcmp(unit, "bytes") == 0;
	uint64_t sum = 0;
	int r = 0;

	buf_str(out, "{\"type\":\"sampled\",\"name\":");
	append_name(out, profile, profile_node(profile, cgroup));
	buf_printf(out, ",\"unit\":\"%s\",\"samples\":[", known ? unit : "none");
	for (uint32_t i = speedscope->first[cgroup]; r == 0 && i; i = speedscope->next[i]) {
		r = append_stack(out, speedscope, i, cgroup);
		buf_str(out, speedscope->next[i] ? "," : "");
	}
	buf_str(out, "],\"weights\":[");
	for (uint32_t i = speedscope->first[cgroup]; i; i = speedscope->next[i]) {
		append_weight(out, speedscope->what, profile_node(profile, i)->self);
		buf_str(out, speedscope->next[i] ? "," : "");
		sum += profile_node(profile, i)->self;
	}
	buf_str(out, "],\"startValue\":0,\"endValue\":");
	append_weight(out, speedscope->what, sum);
	buf_char(out, '}');
	return r;
}

static void append_frames(struct buf *out, const struct speedscope *speedscope)
{
	for (uint32_t i = 1; i <= table_nr(&speedscope->frames) && !out->failed; i++) {
		const struct profile_thing *thing = table_at(&speedscope->frames, i);
		_cleanup_(buf_release) struct buf name = {};

		expose_profile_thing_name(&name, speedscope->what->profile, thing);
		buf_str(out, i > 1 ? ",{\"name\":" : "{\"name\":");
		append_escaped(out, &name);
		if (thing->module) {
			buf_str(out, ",\"file\":");
			append_module(out, speedscope->what->profile, thing->module);
		}
		buf_char(out, '}');
	}
}

int expose_profile_speedscope(struct buf *out, const struct expose_profile *what)
{
	_cleanup_(speedscope_release) struct speedscope speedscope = { .what = what, .frames = PROFILE_THINGS };
	int r = sort_by_cgroup(&speedscope);
	bool any = false;

	buf_printf(out,
		   "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"perfmond\","
		   "\"name\":\"%s\",\"profiles\":[",
		   what->measure.event);
	for (uint32_t i = 1; r == 0 && i <= profile_nr(what->profile); i++) {
		/* Without samples there is the root alone: speedscope opens no file without a profile. */
		if (!speedscope.first[i] && what->profile->samples)
			continue;
		buf_str(out, any ? "," : "");
		any = true;
		r = append_cgroup(out, &speedscope, i);
	}
	buf_str(out, "],\"shared\":{\"frames\":[");
	append_frames(out, &speedscope);
	buf_str(out, "]}}\n");
	return buf_finish(out, r);
}
