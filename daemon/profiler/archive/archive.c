/* SPDX-License-Identifier: MIT */

#include "profiler/archive/archive.h"

#include "base/util/clock.h"
#include "base/util/text.h"
#include "profiler/archive/archive-internal.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

/* A segment has this share of the memory in samples, and at most so many bytes, so that dropping one loses little of
 * the reach. It is allocated at once: one that is dropped leaves room for just the next one, and pages that are not
 * used yet take no memory. */
#define SEGMENTS_OF_SAMPLES 32
#define SEGMENT_BYTES_MAX ((size_t)1 << 20)

/* By so much a sample can come too late for its place: it has waited for a table (profiler/stacks.h). */
#define LATE_NS (11 * (uint64_t)NS_PER_S)

#define TEXT_OVERHEAD 16

/* Of the bits of archive_frame.behind. */
#define BEHIND_MAX 0xffffffU

_Static_assert(sizeof(struct stored_sample) == 16, "a sample takes 16 bytes");

/* --- life */

int archive_new(struct archive **ret, size_t limit)
{
	_cleanup_(archive_freep) struct archive *archive = calloc(1, sizeof(*archive));

	if (!archive)
		return -ENOMEM;
	*archive = (struct archive){
		.limit = limit,
		.age = 1,
		.texts = TABLE_OF(struct archive_text, size, hash),
		.modules = TABLE_OF(struct archive_module, path, key),
		.frames = TABLE_OF(struct archive_frame, module, offset),
		.nodes = TABLE_OF(struct archive_node, parent, frame),
		.contexts = TABLE_OF(struct archive_context, event, end),
	};
	TAILQ_INIT(&archive->segments);
	/* Without randomness, texts could be made that look the same. */
	if (getrandom(archive->keys, sizeof(archive->keys), GRND_NONBLOCK) != sizeof(archive->keys))
		archive->keys[0] = clock_realtime_ns() ^ (uintptr_t)archive;
	*ret = steal_ptr(archive);
	return 0;
}

/* A text with its symbol, and what malloc(3) takes beside it. */
static size_t text_bytes(const struct archive_text *text)
{
	return text->size + text->symbol_size + TEXT_OVERHEAD;
}

static void text_leaving(void *userdata, void *entry)
{
	struct archive *archive = userdata;
	struct archive_text *text = entry;

	archive->text_bytes -= text_bytes(text);
	free(text->text);
	text->text = text->symbol = NULL;
}

static void segment_drop(struct archive *archive, struct segment *segment)
{
	TAILQ_REMOVE(&archive->segments, segment, in_all);
	archive->nr_segments--;
	archive->sample_bytes -= segment->cap * sizeof(*segment->samples);
	(void)munmap(segment->samples, segment->cap * sizeof(*segment->samples));
	free(segment);
}

struct archive *archive_free(struct archive *archive)
{
	if (!archive)
		return NULL;
	while (!TAILQ_EMPTY(&archive->segments))
		segment_drop(archive, TAILQ_FIRST(&archive->segments));
	table_sweep(&archive->texts, UINT32_MAX, text_leaving, archive);
	table_release(&archive->texts);
	table_release(&archive->modules);
	table_release(&archive->frames);
	table_release(&archive->nodes);
	table_release(&archive->contexts);
	free(archive);
	return NULL;
}

/* --- memory */

static size_t dictionary_bytes(const struct archive *archive)
{
	return archive->text_bytes + table_bytes(&archive->texts) + table_bytes(&archive->modules) +
	       table_bytes(&archive->frames) + table_bytes(&archive->nodes) + table_bytes(&archive->contexts);
}

size_t archive_bytes(const struct archive *archive)
{
	return sizeof(*archive) + archive->sample_bytes + archive->nr_segments * sizeof(struct segment) +
	       dictionary_bytes(archive);
}

static size_t left_of(size_t limit, size_t bytes)
{
	return bytes < limit ? limit - bytes : 0;
}

/* Bytes by which the archive may grow, … */
static size_t archive_budget(const struct archive *archive)
{
	return left_of(archive->limit, archive_bytes(archive));
}

/* … and its tables: half of the memory is for samples, since tables do not shrink after a time of many stacks. */
static size_t dictionary_budget(const struct archive *archive)
{
	size_t all = archive_budget(archive), half = left_of(archive->limit / 2, dictionary_bytes(archive));

	return all < half ? all : half;
}

static void touch(struct table *table, uint32_t number, uint32_t age)
{
	uint32_t last;
	void *entry;

	if (!number)
		return;
	entry = table_at(table, number);
	memcpy(&last, entry, sizeof(last));
	if (last < age)
		memcpy(entry, &age, sizeof(age));
}

/* Removes what only samples of earlier ages have used. An entry keeps those that it refers to. */
static void sweep_tables(struct archive *archive, uint32_t age)
{
	table_sweep(&archive->nodes, age, NULL, NULL);
	table_sweep(&archive->contexts, age, NULL, NULL);
	table_sweep(&archive->frames, age, NULL, NULL);
	for (uint32_t i = 1; i < archive->frames.nr; i++) {
		const struct archive_frame *frame = table_at(&archive->frames, i);

		if (!frame->last)
			continue;
		touch(&archive->modules, frame->module, age);
		touch(&archive->texts, frame->name, age);
	}
	table_sweep(&archive->modules, age, NULL, NULL);
	for (uint32_t i = 1; i < archive->modules.nr; i++) {
		const struct archive_module *module = table_at(&archive->modules, i);

		if (module->last)
			touch(&archive->texts, module->path, age);
	}
	for (uint32_t i = 1; i < archive->contexts.nr; i++) {
		const struct archive_context *context = table_at(&archive->contexts, i);

		if (!context->last)
			continue;
		touch(&archive->texts, context->event, age);
		touch(&archive->texts, context->cgroup, age);
		touch(&archive->texts, context->command, age);
		touch(&archive->texts, context->thread, age);
	}
	table_sweep(&archive->texts, age, text_leaving, archive);
}

static void release_tables(struct archive *archive)
{
	table_sweep(&archive->texts, UINT32_MAX, text_leaving, archive);
	table_release(&archive->texts);
	table_release(&archive->modules);
	table_release(&archive->frames);
	table_release(&archive->nodes);
	table_release(&archive->contexts);
}

bool archive_drop_oldest(struct archive *archive)
{
	struct segment *segment = TAILQ_FIRST(&archive->segments);

	if (!segment)
		return false;
	segment_drop(archive, segment);
	segment = TAILQ_FIRST(&archive->segments);
	archive->sweeps++;
	/* With no sample left, the tables begin anew, without the room that they have grown to. */
	if (segment)
		sweep_tables(archive, segment->age);
	else
		release_tables(archive);
	return true;
}

void archive_set_limit(struct archive *archive, size_t limit)
{
	archive->limit = limit;
	/* Tables do not shrink, so in the end everything goes. */
	while (archive_bytes(archive) > limit && archive_drop_oldest(archive))
		;
}

/* --- adding */

/* FNV-1a, from a secret start. */
static uint64_t hash_text(uint64_t key, const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ key;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash ^ (hash >> 31) ^ key;
}

/* An entry without its text, to find it by. */
static struct archive_text text_entry(const struct archive *archive, const char *text)
{
	struct archive_text entry = { .size = (uint32_t)strlen(text) + 1 };

	for (int i = 0; i < 2; i++)
		entry.hash[i] = hash_text(archive->keys[i] + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15), text);
	return entry;
}

uint32_t archive_find_text(const struct archive *archive, const char *text)
{
	const struct archive_text entry = text_entry(archive, text);

	return table_find(&archive->texts, &entry);
}

int archive_put_name(struct archive *archive, const char *name, const char *symbol, size_t *budget, uint32_t *ret)
{
	struct archive_text entry = text_entry(archive, name);
	_cleanup_(freep) char *copy = NULL;
	bool new;
	int r;

	*ret = table_find(&archive->texts, &entry);
	if (*ret) {
		struct archive_text *known = table_at(&archive->texts, *ret);

		touch(&archive->texts, *ret, archive->age);
		if (symbol && known->symbol && strcmp(symbol, known->symbol) != 0)
			known->symbol = NULL;
		return 0;
	}
	entry.symbol_size = symbol ? (uint32_t)strlen(symbol) + 1 : 0;
	if (text_bytes(&entry) > *budget)
		return -ENOSPC;
	copy = malloc(entry.size + entry.symbol_size);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, entry.size);
	entry.text = copy;
	if (symbol)
		entry.symbol = memcpy(copy + entry.size, symbol, entry.symbol_size);
	*budget -= text_bytes(&entry);
	r = table_put(&archive->texts, &entry, archive->age, budget, ret, &new);
	if (r < 0)
		return r;
	copy = NULL; /* the table's */
	archive->text_bytes += text_bytes(&entry);
	return 0;
}

int archive_put_text(struct archive *archive, const char *text, size_t *budget, uint32_t *ret)
{
	return archive_put_name(archive, text, NULL, budget, ret);
}

/* Bytes of others' making become valid UTF-8. */
static int put_text(struct archive *archive, const char *bytes, size_t *budget, uint32_t *ret)
{
	_cleanup_(freep) char *text = NULL;

	if (utf8_is_printable(bytes))
		return archive_put_text(archive, bytes, budget, ret);
	text = utf8_printable(bytes);
	return text ? archive_put_text(archive, text, budget, ret) : -ENOMEM;
}

/* A place whose name is known beforehand. */
static int name_frame(struct archive *archive, uint32_t number, const char *name, size_t *budget)
{
	struct archive_frame *frame = table_at(&archive->frames, number);
	uint32_t text;
	int r;

	if (frame->name)
		return 0;
	r = put_text(archive, name, budget, &text);
	if (r == 0) {
		frame->name = text;
		frame->naming = NAMING_NAMED;
	}
	return r;
}

static int put_module(struct archive *archive, const struct archive_place *place, size_t *budget, uint32_t *ret)
{
	struct archive_module module = {};
	bool new;
	int r = put_text(archive, place->path, budget, &module.path);

	if (place->key)
		module.key = *place->key;
	return r < 0 ? r : table_put(&archive->modules, &module, archive->age, budget, ret, &new);
}

static int put_frame(struct archive *archive, const struct archive_place *place, uint32_t module, size_t *budget,
		     uint32_t *ret)
{
	struct archive_frame frame = {
		.module = module,
		.offset = place->offset,
		.naming = place->naming & 0xff,
	};
	bool new;
	int r = table_put(&archive->frames, &frame, archive->age, budget, ret, &new);

	if (r == 0 && new && place->naming == NAMING_UNTRIED)
		archive->nr_untried++;
	if (r == 0 && place->name)
		r = name_frame(archive, *ret, place->name, budget);
	return r;
}

static int put_stack(struct archive *archive, const struct archive_sample *sample, size_t *budget, uint32_t *ret)
{
	size_t nr = sample->nr < ARCHIVE_DEPTH_MAX ? sample->nr : ARCHIVE_DEPTH_MAX;
	uint32_t parent = 0, module = 0;
	int r = 0;

	for (size_t i = nr; r == 0 && i-- > 0;) {
		const struct archive_place *place = &sample->places[i];
		struct archive_node node = { .parent = parent };
		bool new;

		/* Neighbours mostly are in one file, whose path then is not hashed again. */
		if (i + 1 == nr || place[0].path != place[1].path || place[0].key != place[1].key)
			r = put_module(archive, place, budget, &module);
		if (r == 0)
			r = put_frame(archive, place, module, budget, &node.frame);
		if (r == 0)
			r = table_put(&archive->nodes, &node, archive->age, budget, &parent, &new);
	}
	*ret = parent;
	return r;
}

static int put_context(struct archive *archive, const struct archive_sample *sample, size_t *budget, uint32_t *ret)
{
	struct archive_context context = { .end = sample->end };
	bool new;
	int r = put_text(archive, sample->event, budget, &context.event);

	if (r == 0)
		r = put_text(archive, sample->cgroup, budget, &context.cgroup);
	if (r == 0)
		r = put_text(archive, sample->command, budget, &context.command);
	context.thread = context.command;
	if (r == 0 && sample->thread)
		r = put_text(archive, sample->thread, budget, &context.thread);
	return r < 0 ? r : table_put(&archive->contexts, &context, archive->age, budget, ret, &new);
}

static bool segment_is_full(const struct segment *segment, uint64_t time)
{
	return segment->is_closed || segment->nr == segment->cap || time < segment->base ||
	       (time - segment->base) / NS_PER_MS > UINT32_MAX;
}

/* Bytes of a segment: whole pages. */
static size_t segment_bytes(const struct archive *archive)
{
	size_t bytes = archive->limit / SEGMENTS_OF_SAMPLES, page = (size_t)sysconf(_SC_PAGESIZE);

	return ((bytes < SEGMENT_BYTES_MAX ? bytes : SEGMENT_BYTES_MAX) + page - 1) / page * page;
}

/* Samples are never changed, and their memory is unmapped, not used again. So it can be shared with a child that
 * answers a question: fork(2) need not copy its page tables, which takes a millisecond for each 40 MiB. */
static struct stored_sample *map_samples(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

void archive_close_segment(struct archive *archive)
{
	struct segment *segment = TAILQ_LAST(&archive->segments, segment_list);

	if (segment)
		segment->is_closed = true;
	archive->limit += segment_bytes(archive) + sizeof(*segment);
}

static int open_segment(struct archive *archive, uint64_t time, size_t *budget)
{
	size_t bytes = segment_bytes(archive);
	struct segment *segment;

	if (*budget < sizeof(*segment) + bytes)
		return -ENOSPC;
	segment = calloc(1, sizeof(*segment));
	if (!segment)
		return -ENOMEM;
	segment->samples = map_samples(bytes);
	if (!segment->samples) {
		free(segment);
		return -ENOMEM;
	}
	*budget -= sizeof(*segment) + bytes;
	segment->base = time > LATE_NS ? time - LATE_NS : 0;
	segment->base -= segment->base % NS_PER_MS;
	segment->first = segment->last = time - time % NS_PER_MS;
	segment->age = ++archive->age;
	segment->cap = (uint32_t)(bytes / sizeof(*segment->samples));
	archive->nr_segments++;
	archive->sample_bytes += bytes;
	TAILQ_INSERT_TAIL(&archive->segments, segment, in_all);
	return 0;
}

/* Room for a sample in the open segment. */
static int make_room(struct archive *archive, uint64_t time, size_t *budget)
{
	const struct segment *segment = TAILQ_LAST(&archive->segments, segment_list);

	return segment && !segment_is_full(segment, time) ? 0 : open_segment(archive, time, budget);
}

/* A larger weight, as of a clock's period that took long, is in units of 1024, with the highest bit set. */
#define COARSE UINT32_C(0x80000000)
#define COARSE_SHIFT 10

static uint32_t pack_weight(uint64_t weight)
{
	if (weight < COARSE)
		return (uint32_t)weight;
	weight >>= COARSE_SHIFT;
	return COARSE | (uint32_t)(weight < COARSE ? weight : COARSE - 1);
}

uint64_t archive_weight(const struct stored_sample *sample)
{
	return sample->weight & COARSE ? (uint64_t)(sample->weight & ~COARSE) << COARSE_SHIFT : sample->weight;
}

int archive_prepare(struct archive *archive, uint64_t time, size_t *ret_budget)
{
	size_t budget = archive_budget(archive);
	int r = make_room(archive, time, &budget);

	*ret_budget = dictionary_budget(archive);
	return r;
}

void archive_put_sample(struct archive *archive, uint64_t time, uint32_t context, uint32_t node, uint64_t weight)
{
	struct segment *segment = TAILQ_LAST(&archive->segments, segment_list);

	time -= time % NS_PER_MS;
	segment->samples[segment->nr++] = (struct stored_sample){
		.ms = (uint32_t)((time - segment->base) / NS_PER_MS),
		.context = context,
		.node = node,
		.weight = pack_weight(weight),
	};
	if (time < segment->first)
		segment->first = time;
	if (time > segment->last)
		segment->last = time;
	archive->samples++;
}

static int try_add(struct archive *archive, const struct archive_sample *sample)
{
	uint32_t context, node;
	size_t budget;
	int r = archive_prepare(archive, sample->time, &budget);

	if (r == 0)
		r = put_context(archive, sample, &budget, &context);
	if (r == 0)
		r = put_stack(archive, sample, &budget, &node);
	if (r == 0)
		archive_put_sample(archive, sample->time, context, node, sample->weight);
	return r;
}

int archive_add(struct archive *archive, const struct archive_sample *sample)
{
	int r = try_add(archive, sample);

	while (r == -ENOSPC && archive_drop_oldest(archive))
		r = try_add(archive, sample);
	if (r < 0)
		archive->dropped++;
	return r;
}

uint64_t archive_oldest(const struct archive *archive)
{
	const struct segment *segment;

	TAILQ_FOREACH(segment, &archive->segments, in_all)
		if (segment->nr)
			return segment->first;
	return 0;
}

struct archive_stats archive_stats(const struct archive *archive)
{
	struct archive_stats stats = {
		.limit = archive->limit,
		.samples = archive->samples,
		.dropped = archive->dropped,
		.sweeps = archive->sweeps,
	};
	const struct segment *segment;

	TAILQ_FOREACH(segment, &archive->segments, in_all)
		stats.nr += segment->nr;
	return stats;
}

/* --- reading */

static int walk_segment(const struct segment *segment, uint64_t from, uint64_t to, archive_take_t take, void *userdata)
{
	int r = 0;

	for (uint32_t i = 0; r >= 0 && i < segment->nr; i++) {
		const struct stored_sample *sample = &segment->samples[i];
		uint64_t time = segment->base + (uint64_t)sample->ms * NS_PER_MS;

		if (time >= from && time < to)
			r = take(userdata, sample, time);
	}
	return r;
}

int archive_walk(const struct archive *archive, uint64_t from, uint64_t to, archive_take_t take, void *userdata)
{
	const struct segment *segment;
	int r = 0;

	TAILQ_FOREACH(segment, &archive->segments, in_all)
		if (r >= 0 && segment->nr && segment->last >= from && segment->first < to)
			r = walk_segment(segment, from, to, take, userdata);
	return r < 0 ? r : 0;
}

const struct archive_module *archive_module(const struct archive *archive, uint32_t number)
{
	return table_at(&archive->modules, number);
}

const struct archive_frame *archive_frame(const struct archive *archive, uint32_t number)
{
	return table_at(&archive->frames, number);
}

const struct archive_node *archive_node(const struct archive *archive, uint32_t number)
{
	return table_at(&archive->nodes, number);
}

const struct archive_context *archive_context(const struct archive *archive, uint32_t number)
{
	return table_at(&archive->contexts, number);
}

uint32_t archive_contexts_end(const struct archive *archive)
{
	return table_end(&archive->contexts);
}

const char *archive_text(const struct archive *archive, uint32_t text)
{
	return ((const struct archive_text *)table_at(&archive->texts, text))->text;
}

const char *archive_symbol(const struct archive *archive, uint32_t text)
{
	return ((const struct archive_text *)table_at(&archive->texts, text))->symbol;
}

/* --- names */

bool archive_has_untried(const struct archive *archive)
{
	return archive->nr_untried > 0;
}

static bool is_nameless(const struct archive_frame *frame)
{
	return frame->last && (frame->naming == NAMING_UNTRIED || frame->naming == NAMING_ASKED);
}

size_t archive_next_nameless(struct archive *archive, uint32_t *at, struct archive_nameless *ret, size_t max)
{
	size_t nr = 0;

	if (*at == 0) {
		archive->nr_untried = 0;
		*at = 1;
	}
	for (; *at < archive->frames.nr && nr < max; ++*at) {
		struct archive_frame *frame = table_at(&archive->frames, *at);

		if (!is_nameless(frame))
			continue;
		ret[nr++] = (struct archive_nameless){
			.frame = *at,
			.module = frame->module,
			.offset = frame->offset,
			.is_new = frame->naming == NAMING_UNTRIED,
		};
		frame->naming = NAMING_ASKED;
	}
	return nr;
}

void archive_name(struct archive *archive, uint32_t number, enum naming naming, const char *name, const char *symbol,
		  uint64_t behind)
{
	struct archive_frame *frame = table_at(&archive->frames, number);
	size_t budget = dictionary_budget(archive);
	uint32_t text = 0;

	/* Without room for the name, there is none. */
	if (name && archive_put_name(archive, name, symbol, &budget, &text) < 0)
		naming = NAMING_FAILED;
	frame->name = text;
	frame->naming = naming & 0xff;
	/* A larger one than any function is left out. */
	frame->behind = text || behind > BEHIND_MAX ? 0 : behind & BEHIND_MAX;
}

bool archive_has_module(const struct archive *archive, const struct module_key *key, const char *path)
{
	const struct archive_module module = { .path = archive_find_text(archive, path), .key = *key };

	return module.path && table_find(&archive->modules, &module);
}
