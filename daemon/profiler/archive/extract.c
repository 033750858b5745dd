/* SPDX-License-Identifier: MIT */

#include "profiler/archive/extract.h"

#include "base/util/clock.h"
#include "profiler/archive/archive-internal.h"

#include <errno.h>
#include <string.h>

/* The clock is looked at after so many samples. */
#define SAMPLES_AT_ONCE 64

#define UNWANTED UINT32_MAX

/* What the entries of one archive are in the other, by their numbers; 0: not known yet. All is forgotten when the copy
 * drops entries, or begins a segment, to which all entries that it uses have to be put anew. */
struct copying {
	struct extract *extract;
	const struct archive *from;
	struct archive *to;
	size_t budget; /* bytes by which the copy's tables may grow */
	uint64_t sweeps;
	uint32_t age;
	uint32_t *known; /* of all of these, … */
	size_t nr_known;
	uint32_t *texts, *modules, *frames, *nodes, *contexts; /* … one behind the other */
};

bool extract_is_below(const char *label, const char *other)
{
	size_t n = other ? strlen(other) : 0;

	/* The top is "/", or "/." where the mount shows a part of the tree. */
	if (!other || strcmp(other, "/") == 0)
		return true;
	if (strcmp(other, "/.") == 0)
		return label[0] == '/';
	return strncmp(label, other, n) == 0 && (!label[n] || label[n] == '/');
}

/* --- entries */

static int copy_text(struct copying *copying, uint32_t number, uint32_t *ret)
{
	uint32_t *known = &copying->texts[number];
	int r = 0;

	if (!*known)
		r = archive_put_name(copying->to, archive_text(copying->from, number),
				     archive_symbol(copying->from, number), &copying->budget, known);
	*ret = *known;
	return r;
}

static int copy_module(struct copying *copying, uint32_t number, uint32_t *ret)
{
	const struct archive_module *module = table_at(&copying->from->modules, number);
	struct archive_module entry = { .key = module->key };
	uint32_t *known = &copying->modules[number];
	bool new;
	int r = 0;

	if (!*known)
		r = copy_text(copying, module->path, &entry.path);
	if (r == 0 && !*known)
		r = table_put(&copying->to->modules, &entry, copying->to->age, &copying->budget, known, &new);
	*ret = *known;
	return r;
}

static bool is_nameless(const struct archive_frame *frame)
{
	return frame->naming == NAMING_UNTRIED || frame->naming == NAMING_ASKED;
}

/* A name that has become known since the frame was copied is taken over, too. */
static int copy_frame(struct copying *copying, uint32_t number, uint32_t *ret)
{
	const struct archive_frame *frame = table_at(&copying->from->frames, number);
	struct archive_frame entry = { .offset = frame->offset, .naming = frame->naming, .behind = frame->behind };
	uint32_t *known = &copying->frames[number], name = 0;
	bool new;
	int r;

	*ret = *known;
	if (*known)
		return 0;
	r = copy_module(copying, frame->module, &entry.module);
	if (r == 0 && frame->name)
		r = copy_text(copying, frame->name, &name);
	if (r == 0)
		r = table_put(&copying->to->frames, &entry, copying->to->age, &copying->budget, ret, &new);
	if (r < 0)
		return r;
	if (!is_nameless(frame)) {
		struct archive_frame *copy = table_at(&copying->to->frames, *ret);

		copy->name = name;
		copy->naming = frame->naming;
		copy->behind = frame->behind;
	}
	*known = *ret;
	return 0;
}

static int copy_stack(struct copying *copying, uint32_t stack, uint32_t *ret)
{
	uint32_t path[ARCHIVE_DEPTH_MAX], at = 0;
	size_t depth = 0;

	for (; stack && depth < ARRAY_SIZE(path); depth++) {
		at = copying->nodes[stack];
		if (at)
			break;
		path[depth] = stack;
		stack = ((const struct archive_node *)table_at(&copying->from->nodes, stack))->parent;
	}
	while (depth-- > 0) {
		const struct archive_node *node = table_at(&copying->from->nodes, path[depth]);
		struct archive_node entry = { .parent = at };
		bool new;
		int r = copy_frame(copying, node->frame, &entry.frame);

		if (r == 0)
			r = table_put(&copying->to->nodes, &entry, copying->to->age, &copying->budget, &at, &new);
		if (r < 0)
			return r;
		copying->nodes[path[depth]] = at;
	}
	*ret = at;
	return 0;
}

static int copy_context(struct copying *copying, uint32_t number, uint32_t *ret)
{
	const struct archive_context *context = table_at(&copying->from->contexts, number);
	struct archive_context entry = { .end = context->end };
	bool new;
	int r;

	*ret = copying->contexts[number];
	if (*ret)
		return 0;
	r = archive_put_text(copying->to, copying->extract->as, &copying->budget, &entry.event);
	if (r == 0)
		r = copy_text(copying, context->cgroup, &entry.cgroup);
	if (r == 0)
		r = copy_text(copying, context->command, &entry.command);
	if (r == 0)
		r = copy_text(copying, context->thread, &entry.thread);
	if (r == 0)
		r = table_put(&copying->to->contexts, &entry, copying->to->age, &copying->budget, ret, &new);
	if (r == 0)
		copying->contexts[number] = *ret;
	return r;
}

/* --- samples */

static void forget_known(struct copying *copying)
{
	memset(copying->known, 0, copying->nr_known * sizeof(*copying->known));
	copying->sweeps = copying->to->sweeps;
	copying->age = copying->to->age;
}

static int try_copy(struct copying *copying, const struct stored_sample *sample, uint64_t time)
{
	uint32_t context, node;
	int r = archive_prepare(copying->to, time, &copying->budget);

	if (copying->sweeps != copying->to->sweeps || copying->age != copying->to->age)
		forget_known(copying);
	if (r == 0)
		r = copy_context(copying, sample->context, &context);
	if (r == 0)
		r = copy_stack(copying, sample->node, &node);
	if (r == 0)
		archive_put_sample(copying->to, time, context, node, archive_weight(sample));
	return r;
}

/* Most are of other cgroups: these put nothing into the copy. */
static bool is_wanted(struct copying *copying, const struct stored_sample *sample, uint64_t time)
{
	const struct extract *extract = copying->extract;
	const struct archive_context *context = table_at(&copying->from->contexts, sample->context);
	bool finer = extract->finer && time >= extract->finer_from && time < extract->finer_to;
	uint32_t *known = &copying->contexts[sample->context];

	if (time < extract->from || time >= extract->to || *known == UNWANTED)
		return false;
	if (!*known && !extract_is_below(archive_text(copying->from, context->cgroup), extract->cgroup))
		*known = UNWANTED;
	return *known != UNWANTED &&
	       strcmp(archive_text(copying->from, context->event), finer ? extract->finer : extract->event) == 0;
}

static int copy_sample(struct copying *copying, const struct stored_sample *sample, uint64_t time)
{
	int r = is_wanted(copying, sample, time) ? try_copy(copying, sample, time) : 0;

	while (r == -ENOSPC && archive_drop_oldest(copying->to))
		r = try_copy(copying, sample, time);
	if (r < 0)
		copying->to->dropped++;
	return r == -ENOSPC ? 0 : r;
}

/* 1: the time is over. */
static int copy_segment(struct copying *copying, const struct segment *segment, uint64_t deadline)
{
	struct extract *extract = copying->extract;
	int r = 0;

	if (segment->age < extract->age)
		return 0;
	if (segment->age > extract->age) {
		extract->age = segment->age;
		extract->at = 0;
	}
	if (segment->nr && (segment->last < extract->from || segment->first >= extract->to))
		extract->at = segment->nr;
	while (r == 0 && extract->at < segment->nr) {
		const struct stored_sample *sample = &segment->samples[extract->at++];

		r = copy_sample(copying, sample, segment->base + (uint64_t)sample->ms * NS_PER_MS);
		if (r == 0 && extract->at % SAMPLES_AT_ONCE == 0 && clock_monotonic_ns() >= deadline)
			r = 1;
	}
	return r;
}

int extract_copy(struct extract *extract, struct archive *to, const struct archive *from, uint64_t budget)
{
	uint64_t deadline = clock_monotonic_ns() + budget;
	struct copying copying = {
		.extract = extract,
		.from = from,
		.to = to,
		.nr_known = (size_t)table_end(&from->texts) + table_end(&from->modules) + table_end(&from->frames) +
			    table_end(&from->nodes) + table_end(&from->contexts) + 1,
		.sweeps = to->sweeps,
		.age = to->age,
	};
	const struct segment *segment;
	int r = 0;

	copying.known = calloc(copying.nr_known, sizeof(*copying.known));
	if (!copying.known)
		return -ENOMEM;
	copying.texts = copying.known;
	copying.modules = copying.texts + table_end(&from->texts);
	copying.frames = copying.modules + table_end(&from->modules);
	copying.nodes = copying.frames + table_end(&from->frames);
	copying.contexts = copying.nodes + table_end(&from->nodes);
	TAILQ_FOREACH(segment, &from->segments, in_all)
		if (r == 0)
			r = copy_segment(&copying, segment, deadline);
	free(copying.known);
	return r;
}

/* --- names */

/* The number of the same module in the other archive, or 0. */
static uint32_t find_module(const struct archive *in, const struct archive *of, uint32_t number)
{
	const struct archive_module *module = table_at(&of->modules, number);
	struct archive_module key = { .path = archive_find_text(in, archive_text(of, module->path)),
				      .key = module->key };

	return key.path ? table_find(&in->modules, &key) : 0;
}

/* The other archive's frame of the same place, or NULL. */
static const struct archive_frame *find_frame(const struct archive *in, uint32_t module,
					      const struct archive_frame *frame)
{
	const struct archive_frame key = { .module = module, .offset = frame->offset };
	uint32_t number = module ? table_find(&in->frames, &key) : 0;

	return number ? table_at(&in->frames, number) : NULL;
}

size_t extract_names(struct archive *to, const struct archive *from)
{
	uint32_t module = 0, found_module = 0;
	size_t nameless = 0;

	for (uint32_t i = 1; i < table_end(&to->frames); i++) {
		const struct archive_frame *frame = table_at(&to->frames, i), *found;

		if (!frame->last || !is_nameless(frame))
			continue;
		/* Neighbours mostly are of one stack, and of one module. */
		if (frame->module != module) {
			module = frame->module;
			found_module = find_module(from, to, module);
		}
		found = find_frame(from, found_module, frame);
		if (found && !is_nameless(found))
			archive_name(to, i, found->naming, found->name ? archive_text(from, found->name) : NULL,
				     found->name ? archive_symbol(from, found->name) : NULL, found->behind);
		else
			nameless += found != NULL;
	}
	return nameless;
}
