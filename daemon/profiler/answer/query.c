/* SPDX-License-Identifier: MIT */

#include "profiler/answer/query.h"

#include "profiler/answer/selection.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

/* The node that a stack of the archive has below a node of the tree. */
struct known_stack {
	uint32_t last;
	uint32_t below, node;
	uint32_t found;
};

/* All samples of a context on a stack: far fewer than samples, mostly. */
struct alike {
	uint32_t last;
	uint32_t context, node;
	uint32_t samples;
	uint64_t weight;
};

struct asking {
	struct profile *profile;
	const struct archive *archive;
	const struct profile_query *query;
	struct table known;	 /* struct known_stack */
	struct table alike;	 /* struct alike */
	uint32_t jit;		 /* the module that stands for all of code that was made at run time; 0: none yet */
	struct weights *weights; /* NULL: as sampled */
	uint32_t *contexts;	 /* the tree's node of each context; 0: not yet */
	struct selection selection;
};

/* --- the tree */

static int add_node(struct profile *profile, const struct profile_node *node, uint32_t *ret)
{
	size_t unlimited = SIZE_MAX;
	bool new;

	if (table_nr(&profile->nodes) >= PROFILE_NODES_MAX && !table_find(&profile->nodes, node)) {
		profile->cut = true;
		*ret = node->parent;
		return 0;
	}
	return table_put(&profile->nodes, node, 1, &unlimited, ret, &new);
}

static struct profile_node *node_at(const struct profile *profile, uint32_t number)
{
	return table_at(&profile->nodes, number);
}

static const char *path_of(const struct asking *asking, uint32_t module)
{
	return archive_text(asking->archive, archive_module(asking->archive, module)->path);
}

/* An address of the kernel is a secret, as one of a process is, and an unknown place has none. */
static bool hides_offset(const char *path)
{
	return strcmp(path, ARCHIVE_KERNEL) == 0 || strcmp(path, ARCHIVE_UNKNOWN) == 0 ||
	       strcmp(path, ARCHIVE_JIT) == 0;
}

/* A frame as a node below another: by function, if that is known. */
static int add_frame(struct asking *asking, uint32_t below, uint32_t number, uint32_t *ret)
{
	const struct archive_frame *frame = archive_frame(asking->archive, number);
	struct profile_node node = {
		.parent = below,
		.kind = PROFILE_PLACE,
		.module = frame->module,
		.naming = frame->naming,
		.offset = frame->offset - frame->behind,
	};
	const char *path = path_of(asking, frame->module);

	/* Each process has modules of its own for it. */
	if (strcmp(path, ARCHIVE_JIT) == 0)
		node.module = asking->jit = asking->jit ?: frame->module;
	if (frame->name) {
		node.kind = PROFILE_FUNCTION;
		node.text = frame->name;
		node.naming = NAMING_NAMED;
		node.offset = 0;
	} else if (hides_offset(path)) {
		node.offset = 0;
	}
	return add_node(asking->profile, &node, ret);
}

/* The tree's node of a stack below another node. Each stack of the archive is gone through once. */
static int add_stack(struct asking *asking, uint32_t below, uint32_t stack, uint32_t *ret)
{
	uint32_t path[ARCHIVE_DEPTH_MAX];
	size_t depth = 0, unlimited = SIZE_MAX;
	uint32_t at = below;

	for (; stack; stack = archive_node(asking->archive, stack)->parent) {
		const struct known_stack key = { .below = below, .node = stack };
		uint32_t known = table_find(&asking->known, &key);

		if (known) {
			at = ((const struct known_stack *)table_at(&asking->known, known))->found;
			break;
		}
		assert(depth < ARCHIVE_DEPTH_MAX);
		path[depth++] = stack;
	}
	while (depth-- > 0) {
		const struct archive_node *node = archive_node(asking->archive, path[depth]);
		struct known_stack known = { .below = below, .node = path[depth] };
		uint32_t number;
		bool new;
		int r = add_frame(asking, at, node->frame, &at);

		known.found = at;
		if (r == 0)
			r = table_put(&asking->known, &known, 1, &unlimited, &number, &new);
		if (r < 0)
			return r;
	}
	*ret = at;
	return 0;
}

/* Goes from a node to the one of that text below it. */
static int add_level(struct asking *asking, enum profile_kind kind, uint32_t text, uint32_t *node)
{
	const struct profile_node level = { .parent = *node, .kind = kind, .text = text };

	return add_node(asking->profile, &level, node);
}

/* The node below which stacks of a context are. */
static int add_context(struct asking *asking, uint32_t number, uint32_t *ret)
{
	const struct archive_context *context = archive_context(asking->archive, number);
	const struct profile_node root = { .kind = PROFILE_ROOT };
	int r = add_node(asking->profile, &root, ret);

	if (r == 0 && asking->query->by & PROFILE_BY_CGROUP)
		r = add_level(asking, PROFILE_CGROUP, context->cgroup, ret);
	if (r == 0 && asking->query->by & PROFILE_BY_COMMAND)
		r = add_level(asking, PROFILE_COMMAND, context->command, ret);
	if (r == 0 && asking->query->by & PROFILE_BY_THREAD)
		r = add_level(asking, PROFILE_THREAD, context->thread, ret);
	return r;
}

/* --- samples */

/* Puts samples into the tree. */
static int add_alike(struct asking *asking, const struct alike *alike)
{
	const struct archive_context *context = archive_context(asking->archive, alike->context);
	uint64_t weight = asking->weights ? weights_fit(asking->weights, context->cgroup, alike->weight) :
					    alike->weight;
	struct profile_node *node;
	uint32_t number;
	int r = add_stack(asking, asking->contexts[alike->context], alike->node, &number);

	if (r < 0)
		return r;
	node = node_at(asking->profile, number);
	node->self += weight;
	node->self_samples += alike->samples;
	asking->profile->weight += weight;
	asking->profile->samples += alike->samples;
	asking->profile->ends[context->end] += weight;
	if (node->kind == PROFILE_PLACE)
		asking->profile->unnamed += weight;
	return 0;
}

static void note_weight(struct profile *profile, uint64_t weight)
{
	if (profile->period == 0 && !profile->weights_differ)
		profile->period = weight;
	if (profile->period != weight) {
		profile->weights_differ = true;
		profile->period = 0;
	}
}

static int add_sample(void *userdata, const struct stored_sample *sample, uint64_t time)
{
	struct asking *asking = userdata;
	const struct alike key = { .context = sample->context, .node = sample->node };
	uint32_t *context = &asking->contexts[sample->context], number;
	size_t unlimited = SIZE_MAX;
	struct alike *alike;
	bool new;
	int r = *context ? 0 : add_context(asking, sample->context, context);

	(void)time;
	note_weight(asking->profile, archive_weight(sample));
	if (r == 0)
		r = table_put(&asking->alike, &key, 1, &unlimited, &number, &new);
	if (r < 0)
		return r;
	alike = table_at(&asking->alike, number);
	alike->samples++;
	alike->weight += archive_weight(sample);
	return 0;
}

/* Children come after their parents. */
static void sum_up(struct profile *profile)
{
	for (uint32_t i = profile_nr(profile); i > 0; i--) {
		struct profile_node *node = node_at(profile, i), *parent;

		node->total += node->self;
		node->samples += node->self_samples;
		if (!node->parent)
			continue;
		parent = node_at(profile, node->parent);
		parent->total += node->total;
		parent->samples += node->samples;
	}
}

static void asking_release(struct asking *asking)
{
	table_release(&asking->known);
	table_release(&asking->alike);
	weights_free(asking->weights);
	free(asking->contexts);
	selection_release(&asking->selection);
}

static int make_tree(struct asking *asking)
{
	const struct profile_node root = { .kind = PROFILE_ROOT };
	uint32_t number;
	int r = add_node(asking->profile, &root, &number);

	if (r == 0)
		r = selection_walk(&asking->selection, asking->profile->from, asking->profile->to, add_sample, asking);
	for (uint32_t i = 1; r == 0 && i <= table_nr(&asking->alike); i++)
		r = add_alike(asking, table_at(&asking->alike, i));
	return r;
}

/* Cgroups in the answer that are not covered. */
static int note_uncounted(struct asking *asking)
{
	uint32_t end = archive_contexts_end(asking->archive);
	struct profile *profile = asking->profile;

	profile->counted = true;
	profile->uncounted = calloc((size_t)end + 1, sizeof(*profile->uncounted));
	if (!profile->uncounted)
		return -ENOMEM;
	for (uint32_t i = 1; i < end; i++) {
		const struct archive_context *context = archive_context(asking->archive, i);
		const char *why;
		size_t at = 0;

		if (!selection_has(&asking->selection, i))
			continue;
		why = weights_problem(asking->weights, context->cgroup);
		while (at < profile->nr_uncounted && profile->uncounted[at].cgroup != context->cgroup)
			at++;
		if (why && at == profile->nr_uncounted)
			profile->uncounted[profile->nr_uncounted++] =
				(struct profile_uncounted){ .cgroup = context->cgroup, .why = why };
	}
	return 0;
}

/* Finds out what cgroups have counted in the stretch, which becomes that of whole slots. */
static int use_counts(struct asking *asking)
{
	const struct profile_query *query = asking->query;
	struct profile *profile = asking->profile;

	if (!query->counts)
		return 0;
	profile->not_counted = query->counts->problem;
	if (!profile->not_counted && !profile_counts_narrow(query->counts, &profile->from, &profile->to))
		profile->not_counted = "no two readings of the counters are in the stretch";
	return profile->not_counted ? 0 :
				      weights_new(&asking->weights, asking->archive, query->counts, query->event,
						  profile->from, profile->to);
}

/* --- slots */

/* The slot of a time of the stretch, which has a length then. */
static size_t slot_of(const struct profile *profile, uint64_t time)
{
	uint64_t length = profile->to - profile->from;

	return (size_t)((unsigned __int128)(time - profile->from) * profile->nr_slots / length);
}

static int add_to_slot(void *userdata, const struct stored_sample *sample, uint64_t time)
{
	struct profile *profile = userdata;
	struct profile_slot *slot = &profile->slots[slot_of(profile, time)];
	uint64_t weight = archive_weight(sample);

	slot->weight += weight;
	slot->samples++;
	profile->weight += weight;
	profile->samples++;
	return 0;
}

static int fill_slots(struct asking *asking)
{
	struct profile *profile = asking->profile;

	profile->from = archive_moment(asking->query->from);
	profile->nr_slots = asking->query->nr_slots;
	profile->slots = calloc(profile->nr_slots, sizeof(*profile->slots));
	if (!profile->slots)
		return -ENOMEM;
	return selection_walk(&asking->selection, profile->from, profile->to, add_to_slot, profile);
}

/* --- the answer */

static int answer_with_tree(struct asking *asking)
{
	int r;

	asking->contexts = calloc((size_t)archive_contexts_end(asking->archive) + 1, sizeof(*asking->contexts));
	if (!asking->contexts)
		return -ENOMEM;
	r = use_counts(asking);
	if (r == 0)
		r = make_tree(asking);
	if (r == 0 && asking->weights)
		r = note_uncounted(asking);
	if (r == 0)
		sum_up(asking->profile);
	return r;
}

int profile_new(struct profile **ret, const struct archive *archive, const struct profile_query *query)
{
	_cleanup_(profile_freep) struct profile *profile = calloc(1, sizeof(*profile));
	_cleanup_(asking_release) struct asking asking = {
		.profile = profile,
		.archive = archive,
		.query = query,
		.known = TABLE_OF(struct known_stack, below, node),
		.alike = TABLE_OF(struct alike, context, node),
	};
	uint64_t oldest = archive_oldest(archive);
	int r = selection_init(&asking.selection, archive, query->event, query->cgroup, query->below, query->command);

	if (r < 0 || !profile)
		return -ENOMEM;
	profile->archive = archive;
	profile->nodes = (struct table)TABLE_OF(struct profile_node, parent, offset);
	profile->reach = query->since && !archive_stats(archive).sweeps ? query->since : oldest;
	profile->to = archive_moment(query->to);
	/* Of a stretch that has ended before there were samples, nothing is left but its end. */
	profile->from = query->from > profile->reach ? query->from :
			query->to < profile->reach   ? query->to :
						       profile->reach;
	profile->from = archive_moment(profile->from);
	profile->oldest = oldest;
	r = query->nr_slots ? fill_slots(&asking) : answer_with_tree(&asking);
	if (r < 0)
		return r;
	*ret = steal_ptr(profile);
	return 0;
}

struct profile *profile_free(struct profile *profile)
{
	if (!profile)
		return NULL;
	table_release(&profile->nodes);
	free(profile->slots);
	free(profile->uncounted);
	free(profile);
	return NULL;
}

void profile_stretch(const struct profile *profile, uint64_t *ret_from, uint64_t *ret_to)
{
	*ret_from = profile->from;
	*ret_to = profile->to;
}

uint32_t profile_nr(const struct profile *profile)
{
	return table_nr(&profile->nodes);
}

const struct profile_node *profile_node(const struct profile *profile, uint32_t number)
{
	return node_at(profile, number);
}

struct profile_thing profile_thing_of(const struct profile_node *node)
{
	return (struct profile_thing){
		.kind = node->kind,
		.text = node->text,
		.module = node->module,
		.naming = node->naming,
		.offset = node->offset,
	};
}

/* --- the largest */

/* A row, found by what it is about. */
struct counted_row {
	struct profile_thing thing;
	uint32_t node;
	uint32_t self_samples, samples;
	uint64_t self, total;
};

static bool is_about(const struct profile_node *node, enum profile_top_by by)
{
	switch (by) {
	case PROFILE_TOP_CGROUP:
		return node->kind == PROFILE_CGROUP;
	case PROFILE_TOP_COMMAND:
		return node->kind == PROFILE_COMMAND;
	case PROFILE_TOP_THREAD:
		return node->kind == PROFILE_THREAD;
	default:
		return node->kind == PROFILE_FUNCTION || node->kind == PROFILE_PLACE;
	}
}

static bool is_same_thing(const struct profile_node *a, const struct profile_node *b)
{
	return a->kind == b->kind && a->text == b->text && a->module == b->module && a->offset == b->offset &&
	       a->naming == b->naming;
}

/* Does it stand above itself? Then its total is counted there. */
static bool is_recursion(const struct profile *profile, const struct profile_node *node)
{
	for (uint32_t at = node->parent; at; at = node_at(profile, at)->parent)
		if (is_same_thing(node_at(profile, at), node))
			return true;
	return false;
}

static int count_row(struct table *rows, const struct profile *profile, uint32_t number, enum profile_top_by by)
{
	const struct profile_node *node = profile_node(profile, number);
	const struct counted_row key = { .thing = profile_thing_of(node), .node = number };
	size_t unlimited = SIZE_MAX;
	struct counted_row *row;
	bool new;
	int r = table_put(rows, &key, 1, &unlimited, &number, &new);

	if (r < 0)
		return r;
	row = table_at(rows, number);
	/* All that is in a cgroup, or of a command or thread, is its own. */
	row->self += by == PROFILE_TOP_FUNCTION ? node->self : node->total;
	row->self_samples += by == PROFILE_TOP_FUNCTION ? node->self_samples : node->samples;
	if (!is_recursion(profile, node)) {
		row->total += node->total;
		row->samples += node->samples;
	}
	return 0;
}

static int compare_rows(const void *a, const void *b)
{
	const struct profile_row *x = a, *y = b;

	if (x->self != y->self)
		return x->self < y->self ? 1 : -1;
	return x->total < y->total ? 1 : x->total > y->total ? -1 : 0;
}

int profile_top(struct profile_row **ret, size_t *ret_nr, const struct profile *profile, enum profile_top_by by)
{
	_cleanup_(table_release) struct table rows = TABLE_OF(struct counted_row, thing.kind, thing.offset);
	struct profile_row *items;
	uint32_t nr;
	int r = 0;

	for (uint32_t i = 1; r == 0 && i <= profile_nr(profile); i++)
		if (is_about(profile_node(profile, i), by))
			r = count_row(&rows, profile, i, by);
	if (r < 0)
		return r;
	nr = table_nr(&rows);
	items = calloc((size_t)nr + 1, sizeof(*items));
	if (!items)
		return -ENOMEM;
	for (uint32_t i = 0; i < nr; i++) {
		const struct counted_row *row = table_at(&rows, i + 1);

		items[i] = (struct profile_row){
			.node = profile_node(profile, row->node),
			.self = row->self,
			.total = row->total,
			.self_samples = row->self_samples,
			.samples = row->samples,
		};
	}
	qsort(items, nr, sizeof(*items), compare_rows);
	*ret = items;
	*ret_nr = nr;
	return 0;
}

double profile_error(double share, uint64_t n)
{
	return n ? 1.96 * sqrt(share * (1 - share) / (double)n) : 1;
}
