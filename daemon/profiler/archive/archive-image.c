/* SPDX-License-Identifier: MIT */

#include "profiler/archive/archive-image.h"

#include "base/util/clock.h"
#include "base/util/pack.h"
#include "base/util/text.h"
#include "profiler/archive/archive-internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <zlib.h>

/* "PfMsampl" as a number of this machine's byte order. */
#define MAGIC 0x6c706d61734d6650U
/* Goes up with each change of what is written. */
#define FORMAT 3U

/* Magic, version, size of the whole, checksum of the rest. */
#define HEADER (4 * sizeof(uint64_t))

/* Entries as they are written, one after the other, without padding. Numbers begin at 1; 0 is none. */
struct written_module {
	uint32_t path, none;
	struct module_key key;
};

struct written_frame {
	uint32_t module, name, naming, behind;
	uint64_t offset;
};

struct written_node {
	uint32_t parent, frame;
};

struct written_context {
	uint32_t event, cgroup, command, thread, end;
};

_Static_assert(sizeof(struct written_module) == 48 && sizeof(struct written_frame) == 24, "there is no padding");

static uint64_t sum_of(const void *bytes, size_t size)
{
	return crc32_z(0, bytes, size);
}

/* --- writing */

/* Entries of the archive get their numbers in the image, and are written, when the first sample has them. */
struct writing {
	const struct archive *archive;
	uint32_t *numbers;				       /* of all of these, … */
	uint32_t *texts, *modules, *frames, *nodes, *contexts; /* … one behind the other */
	uint32_t nr_texts, nr_modules, nr_frames, nr_nodes, nr_contexts;
	struct buf text_bytes, module_bytes, frame_bytes, node_bytes, context_bytes;
};

static void writing_release(struct writing *writing)
{
	free(writing->numbers);
	buf_release(&writing->text_bytes);
	buf_release(&writing->module_bytes);
	buf_release(&writing->frame_bytes);
	buf_release(&writing->node_bytes);
	buf_release(&writing->context_bytes);
}

static int writing_new(struct writing *ret, const struct archive *archive)
{
	size_t nr = (size_t)archive->texts.nr + archive->modules.nr + archive->frames.nr + archive->nodes.nr +
		    archive->contexts.nr + 1;

	*ret = (struct writing){ .archive = archive, .numbers = calloc(nr, sizeof(*ret->numbers)) };
	if (!ret->numbers)
		return -ENOMEM;
	ret->texts = ret->numbers;
	ret->modules = ret->texts + archive->texts.nr;
	ret->frames = ret->modules + archive->modules.nr;
	ret->nodes = ret->frames + archive->frames.nr;
	ret->contexts = ret->nodes + archive->nodes.nr;
	return 0;
}

static void add_entry(struct buf *out, const void *entry, size_t size)
{
	buf_add(out, entry, size);
}

/* With its symbol behind it, or "". */
static uint32_t write_text(struct writing *writing, uint32_t text)
{
	uint32_t *number = &writing->texts[text];

	if (!*number) {
		const char *symbol = archive_symbol(writing->archive, text);

		buf_str(&writing->text_bytes, archive_text(writing->archive, text));
		buf_char(&writing->text_bytes, '\0');
		buf_str(&writing->text_bytes, symbol ? symbol : "");
		buf_char(&writing->text_bytes, '\0');
		*number = ++writing->nr_texts;
	}
	return *number;
}

static uint32_t write_module(struct writing *writing, uint32_t module)
{
	const struct archive_module *entry = table_at(&writing->archive->modules, module);
	struct written_module written = { .key = entry->key };
	uint32_t *number = &writing->modules[module];

	if (!*number) {
		written.path = write_text(writing, entry->path);
		add_entry(&writing->module_bytes, &written, sizeof(written));
		*number = ++writing->nr_modules;
	}
	return *number;
}

/* Nobody works any more at the name of one that was asked for. And the next profiler may see what this one did not: a
 * file, debug symbols, the kernel's list. */
static bool is_tried_again(const struct archive_frame *frame)
{
	switch ((enum naming)frame->naming) {
	case NAMING_NAMED:
		return !frame->name;
	case NAMING_ASKED:
	case NAMING_NO_FILE:
	case NAMING_OTHER_FILE:
	case NAMING_STRIPPED:
	case NAMING_COMPRESSED:
	case NAMING_KERNEL:
	case NAMING_NO_KALLSYMS:
	case NAMING_FAILED:
		return true;
	default:
		return false;
	}
}

static uint32_t write_frame(struct writing *writing, uint32_t frame)
{
	const struct archive_frame *entry = table_at(&writing->archive->frames, frame);
	struct written_frame written = { .naming = entry->naming, .behind = entry->behind, .offset = entry->offset };
	uint32_t *number = &writing->frames[frame];

	if (!*number) {
		written.module = write_module(writing, entry->module);
		written.name = entry->name ? write_text(writing, entry->name) : 0;
		if (is_tried_again(entry))
			written.naming = NAMING_UNTRIED;
		add_entry(&writing->frame_bytes, &written, sizeof(written));
		*number = ++writing->nr_frames;
	}
	return *number;
}

/* Callers come first. */
static void write_stack(struct writing *writing, uint32_t node)
{
	uint32_t path[ARCHIVE_DEPTH_MAX], parent = 0;
	size_t depth = 0;

	for (; node && depth < ARRAY_SIZE(path); depth++) {
		parent = writing->nodes[node];
		if (parent)
			break;
		path[depth] = node;
		node = ((const struct archive_node *)table_at(&writing->archive->nodes, node))->parent;
	}
	while (depth-- > 0) {
		const struct archive_node *entry = table_at(&writing->archive->nodes, path[depth]);
		const struct written_node written = { parent, write_frame(writing, entry->frame) };

		add_entry(&writing->node_bytes, &written, sizeof(written));
		parent = writing->nodes[path[depth]] = ++writing->nr_nodes;
	}
}

static void write_context(struct writing *writing, uint32_t context)
{
	const struct archive_context *entry = table_at(&writing->archive->contexts, context);
	struct written_context written;

	if (writing->contexts[context])
		return;
	written.event = write_text(writing, entry->event);
	written.cgroup = write_text(writing, entry->cgroup);
	written.command = write_text(writing, entry->command);
	written.thread = write_text(writing, entry->thread);
	written.end = entry->end;
	add_entry(&writing->context_bytes, &written, sizeof(written));
	writing->contexts[context] = ++writing->nr_contexts;
}

static int write_entries(struct writing *writing, const struct segment *first, uint64_t deadline)
{
	for (const struct segment *segment = first; segment; segment = TAILQ_NEXT(segment, in_all)) {
		for (uint32_t i = 0; i < segment->nr; i++) {
			const struct stored_sample *sample = &segment->samples[i];

			write_context(writing, sample->context);
			if (sample->node && !writing->nodes[sample->node])
				write_stack(writing, sample->node);
		}
		if (clock_monotonic_ns() >= deadline)
			return -ETIME;
	}
	return 0;
}

static int write_samples(const struct writing *writing, const struct segment *first, uint64_t deadline, struct buf *out)
{
	uint64_t nr = 0;

	for (const struct segment *segment = first; segment; segment = TAILQ_NEXT(segment, in_all))
		nr++;
	pack_u64(out, nr);
	for (const struct segment *segment = first; segment; segment = TAILQ_NEXT(segment, in_all)) {
		pack_u64(out, segment->base);
		pack_u64(out, segment->nr * sizeof(struct stored_sample));
		for (uint32_t i = 0; i < segment->nr; i++) {
			struct stored_sample sample = segment->samples[i];

			sample.context = writing->contexts[sample.context];
			sample.node = sample.node ? writing->nodes[sample.node] : 0;
			add_entry(out, &sample, sizeof(sample));
		}
		if (clock_monotonic_ns() >= deadline)
			return -ETIME;
	}
	return 0;
}

static void write_past(struct buf *out, const struct archive *archive, const struct archive_past *past)
{
	pack_u64(out, past->since);
	pack_u64(out, past->drained);
	pack_u64(out, past->gaps.ns);
	pack_bytes(out, past->gaps.latest, past->gaps.nr * sizeof(past->gaps.latest[0]));
	pack_u64(out, past->samples);
	pack_u64(out, past->lost);
	pack_u64(out, past->unfollowed);
	pack_u64(out, past->unsampled);
	pack_u64(out, past->throttled);
	pack_u64(out, archive->samples);
	pack_u64(out, archive->dropped);
}

/* The segment with which an image of at most max bytes can begin. An entry of the image takes less than one in memory,
 * so that what the archive has beside its samples is room enough for it; and a page for all that is of fixed size. */
static int first_segment(const struct archive *archive, size_t max, const struct segment **ret)
{
	size_t others = archive_bytes(archive) - archive->sample_bytes + 4096, bytes = others;
	const struct segment *segment;

	*ret = NULL;
	TAILQ_FOREACH_REVERSE(segment, &archive->segments, segment_list, in_all) {
		bytes += segment->nr * sizeof(struct stored_sample);
		if (bytes > max)
			break;
		*ret = segment;
	}
	return others > max || (bytes > max && !*ret) ? -EFBIG : 0;
}

int archive_write(const struct archive *archive, const struct archive_past *past, const struct archive_origin *origin,
		  size_t max, uint64_t deadline, struct buf *out)
{
	_cleanup_(writing_release) struct writing writing;
	const struct segment *first;
	uint64_t ends[2];
	int r = writing_new(&writing, archive);

	if (r == 0)
		r = first_segment(archive, max, &first);
	if (r == 0)
		r = write_entries(&writing, first, deadline);
	if (r < 0)
		return r;
	pack_u64(out, MAGIC);
	pack_u64(out, FORMAT);
	pack_u64(out, 0);
	pack_u64(out, 0);
	pack_text(out, origin->boot_id);
	pack_text(out, origin->visible);
	pack_u64(out, clock_monotonic_ns());
	write_past(out, archive, past);
	pack_bytes(out, writing.text_bytes.data, writing.text_bytes.len);
	pack_bytes(out, writing.module_bytes.data, writing.module_bytes.len);
	pack_bytes(out, writing.frame_bytes.data, writing.frame_bytes.len);
	pack_bytes(out, writing.node_bytes.data, writing.node_bytes.len);
	pack_bytes(out, writing.context_bytes.data, writing.context_bytes.len);
	r = write_samples(&writing, first, deadline, out);
	if (out->failed || writing.text_bytes.failed || writing.module_bytes.failed || writing.frame_bytes.failed ||
	    writing.node_bytes.failed || writing.context_bytes.failed)
		return -ENOMEM;
	if (r < 0 || out->len > max)
		return r < 0 ? r : -EFBIG;
	ends[0] = out->len;
	ends[1] = sum_of(out->data + HEADER, out->len - HEADER);
	memcpy(out->data + 2 * sizeof(uint64_t), ends, sizeof(ends));
	return 0;
}

/* --- reading: what is there */

struct section {
	const unsigned char *at;
	uint32_t nr;
};

/* The entries of an image, checked, and what they are in the archive by their numbers; 0: not known yet. All of that is
 * forgotten when the archive drops entries, or begins a segment, to which all entries that it uses have to be put
 * anew. */
struct reading {
	struct archive *to;
	const char **texts; /* behind each is its symbol, or "" */
	uint32_t nr_texts;
	struct section modules, frames, nodes, contexts;
	uint64_t saved_at;
	size_t budget; /* bytes by which the archive's tables may grow */
	uint64_t sweeps;
	uint32_t age;
	uint32_t *known;
	size_t nr_known;
	uint32_t *known_texts, *known_modules, *known_frames, *known_nodes, *known_contexts;
};

static void reading_release(struct reading *reading)
{
	free((void *)reading->texts);
	free(reading->known);
}

/* The bytes may stand anywhere. */
#define ENTRY(type, section, number)                                                                                   \
	({                                                                                                             \
		type entry_;                                                                                           \
		memcpy(&entry_, (section)->at + ((size_t)(number)-1) * sizeof(entry_), sizeof(entry_));                \
		entry_;                                                                                                \
	})

static void read_section(struct unpack *in, struct section *ret, size_t size)
{
	size_t n;

	ret->at = unpack_view(in, &n);
	in->bad |= n % size != 0 || n / size >= UINT32_MAX;
	ret->nr = in->bad ? 0 : (uint32_t)(n / size);
}

static const char *text_symbol(const char *text)
{
	return text + strlen(text) + 1;
}

/* -ENOMEM. Each is to be shown to people, and in JSON. */
static int read_texts(struct unpack *in, struct reading *reading)
{
	size_t n, nr = 0;
	const char *at = (const char *)unpack_view(in, &n), *end;

	if (in->bad || (n && at[n - 1]) || n >= UINT32_MAX) {
		in->bad = true;
		return 0;
	}
	end = at + n;
	for (const char *text = at; text < end; text += strlen(text) + 1)
		nr++;
	in->bad = nr % 2 != 0;
	reading->texts = calloc(nr / 2 + 1, sizeof(*reading->texts));
	if (!reading->texts)
		return -ENOMEM;
	for (const char *text = at; text < end && !in->bad; text = text_symbol(text) + strlen(text_symbol(text)) + 1) {
		reading->texts[++reading->nr_texts - 1] = text;
		in->bad = !utf8_is_printable(text) || !utf8_is_printable(text_symbol(text));
	}
	return 0;
}

static bool is_of(uint32_t number, uint32_t nr)
{
	return number > 0 && number <= nr;
}

static bool modules_are_sound(const struct reading *reading)
{
	for (uint32_t i = 1; i <= reading->modules.nr; i++) {
		const struct written_module module = ENTRY(struct written_module, &reading->modules, i);

		if (!is_of(module.path, reading->nr_texts) || module.key.build_id_size > MODULE_BUILD_ID_MAX)
			return false;
	}
	return true;
}

static bool frames_are_sound(const struct reading *reading)
{
	for (uint32_t i = 1; i <= reading->frames.nr; i++) {
		const struct written_frame frame = ENTRY(struct written_frame, &reading->frames, i);

		if (!is_of(frame.module, reading->modules.nr) || frame.name > reading->nr_texts ||
		    frame.naming >= _NAMING_MAX || frame.naming == NAMING_ASKED ||
		    (frame.naming == NAMING_NAMED) != (frame.name != 0) || frame.behind > 0xffffff)
			return false;
	}
	return true;
}

/* 1: they are; 0; -ENOMEM. */
static int nodes_are_sound(const struct reading *reading)
{
	_cleanup_(freep) uint16_t *depths = calloc((size_t)reading->nodes.nr + 1, sizeof(*depths));

	if (!depths)
		return -ENOMEM;
	for (uint32_t i = 1; i <= reading->nodes.nr; i++) {
		const struct written_node node = ENTRY(struct written_node, &reading->nodes, i);

		if (node.parent >= i || !is_of(node.frame, reading->frames.nr) ||
		    depths[node.parent] == ARCHIVE_DEPTH_MAX)
			return 0;
		depths[i] = (uint16_t)(depths[node.parent] + 1);
	}
	return 1;
}

static bool contexts_are_sound(const struct reading *reading)
{
	for (uint32_t i = 1; i <= reading->contexts.nr; i++) {
		const struct written_context context = ENTRY(struct written_context, &reading->contexts, i);

		if (!is_of(context.event, reading->nr_texts) || !is_of(context.cgroup, reading->nr_texts) ||
		    !is_of(context.command, reading->nr_texts) || !is_of(context.thread, reading->nr_texts) ||
		    context.end >= _STACK_END_MAX)
			return false;
	}
	return true;
}

/* -ENOMEM. */
static int read_entries(struct unpack *in, struct reading *reading)
{
	int r = read_texts(in, reading);

	if (r < 0)
		return r;
	read_section(in, &reading->modules, sizeof(struct written_module));
	read_section(in, &reading->frames, sizeof(struct written_frame));
	read_section(in, &reading->nodes, sizeof(struct written_node));
	read_section(in, &reading->contexts, sizeof(struct written_context));
	if (in->bad)
		return 0;
	in->bad = !modules_are_sound(reading) || !frames_are_sound(reading) || !contexts_are_sound(reading);
	r = in->bad ? 0 : nodes_are_sound(reading);
	in->bad |= r == 0;
	return r < 0 ? r : 0;
}

static void read_past(struct unpack *in, uint64_t saved_at, struct archive_past *ret, uint64_t ret_archived[static 2])
{
	const unsigned char *gaps;
	size_t n;

	ret->since = unpack_at_most(in, saved_at);
	ret->drained = unpack_at_most(in, saved_at);
	ret->gaps.ns = unpack_u64(in);
	gaps = unpack_view(in, &n);
	in->bad |= n > sizeof(ret->gaps.latest) || n % sizeof(ret->gaps.latest[0]) != 0;
	ret->gaps.nr = in->bad ? 0 : n / sizeof(ret->gaps.latest[0]);
	memcpy(ret->gaps.latest, gaps ?: (const unsigned char *)"", ret->gaps.nr * sizeof(ret->gaps.latest[0]));
	for (size_t i = 0; i < ret->gaps.nr; i++)
		in->bad |= ret->gaps.latest[i].from >= ret->gaps.latest[i].to || ret->gaps.latest[i].to > saved_at;
	ret->samples = unpack_u64(in);
	ret->lost = unpack_u64(in);
	ret->unfollowed = unpack_u64(in);
	ret->unsampled = unpack_u64(in);
	ret->throttled = unpack_u64(in);
	ret_archived[0] = unpack_u64(in);
	ret_archived[1] = unpack_u64(in);
}

/* --- reading: into the archive */

static int put_text(struct reading *reading, uint32_t text, uint32_t *ret)
{
	uint32_t *known = &reading->known_texts[text];
	const char *name = reading->texts[text - 1], *symbol = text_symbol(name);
	int r = 0;

	if (!*known)
		r = archive_put_name(reading->to, name, symbol[0] ? symbol : NULL, &reading->budget, known);
	*ret = *known;
	return r;
}

static int put_module(struct reading *reading, uint32_t module, uint32_t *ret)
{
	const struct written_module written = ENTRY(struct written_module, &reading->modules, module);
	struct archive_module entry = { .key = written.key };
	uint32_t *known = &reading->known_modules[module];
	bool new;
	int r = 0;

	if (!*known)
		r = put_text(reading, written.path, &entry.path);
	if (r == 0 && !*known)
		r = table_put(&reading->to->modules, &entry, reading->to->age, &reading->budget, known, &new);
	*ret = *known;
	return r;
}

static int put_frame(struct reading *reading, uint32_t frame, uint32_t *ret)
{
	const struct written_frame written = ENTRY(struct written_frame, &reading->frames, frame);
	struct archive_frame entry = {
		.offset = written.offset,
		.naming = written.naming & 0xff,
		.behind = written.behind & 0xffffff,
	};
	uint32_t *known = &reading->known_frames[frame];
	bool new = false;
	int r = 0;

	if (!*known)
		r = put_module(reading, written.module, &entry.module);
	if (r == 0 && !*known && written.name)
		r = put_text(reading, written.name, &entry.name);
	if (r == 0 && !*known)
		r = table_put(&reading->to->frames, &entry, reading->to->age, &reading->budget, known, &new);
	if (r == 0 && new &&entry.naming == NAMING_UNTRIED)
		reading->to->nr_untried++;
	*ret = *known;
	return r;
}

static int put_stack(struct reading *reading, uint32_t node, uint32_t *ret)
{
	uint32_t path[ARCHIVE_DEPTH_MAX], at = 0;
	size_t depth = 0;

	for (; node && depth < ARRAY_SIZE(path); depth++) {
		at = reading->known_nodes[node];
		if (at)
			break;
		path[depth] = node;
		node = ENTRY(struct written_node, &reading->nodes, node).parent;
	}
	while (depth-- > 0) {
		const struct written_node written = ENTRY(struct written_node, &reading->nodes, path[depth]);
		struct archive_node entry = { .parent = at };
		bool new;
		int r = put_frame(reading, written.frame, &entry.frame);

		if (r == 0)
			r = table_put(&reading->to->nodes, &entry, reading->to->age, &reading->budget, &at, &new);
		if (r < 0)
			return r;
		reading->known_nodes[path[depth]] = at;
	}
	*ret = at;
	return 0;
}

static int put_context(struct reading *reading, uint32_t context, uint32_t *ret)
{
	const struct written_context written = ENTRY(struct written_context, &reading->contexts, context);
	struct archive_context entry = { .end = written.end };
	uint32_t *known = &reading->known_contexts[context];
	bool new;
	int r = 0;

	if (!*known)
		r = put_text(reading, written.event, &entry.event);
	if (r == 0 && !*known)
		r = put_text(reading, written.cgroup, &entry.cgroup);
	if (r == 0 && !*known)
		r = put_text(reading, written.command, &entry.command);
	if (r == 0 && !*known)
		r = put_text(reading, written.thread, &entry.thread);
	if (r == 0 && !*known)
		r = table_put(&reading->to->contexts, &entry, reading->to->age, &reading->budget, known, &new);
	*ret = *known;
	return r;
}

static int try_put(struct reading *reading, const struct stored_sample *sample, uint64_t time)
{
	uint32_t context = 0, node = 0;
	int r = archive_prepare(reading->to, time, &reading->budget);

	if (reading->sweeps != reading->to->sweeps || reading->age != reading->to->age) {
		memset(reading->known, 0, reading->nr_known * sizeof(*reading->known));
		reading->sweeps = reading->to->sweeps;
		reading->age = reading->to->age;
	}
	if (r == 0)
		r = put_context(reading, sample->context, &context);
	if (r == 0)
		r = put_stack(reading, sample->node, &node);
	if (r == 0)
		archive_put_sample(reading->to, time, context, node, archive_weight(sample));
	return r;
}

static int put_sample(struct reading *reading, const struct stored_sample *sample, uint64_t time)
{
	int r = try_put(reading, sample, time);

	while (r == -ENOSPC && archive_drop_oldest(reading->to))
		r = try_put(reading, sample, time);
	return r == -ENOSPC ? 0 : r;
}

static int make_known(struct reading *reading)
{
	reading->nr_known = (size_t)reading->nr_texts + reading->modules.nr + reading->frames.nr + reading->nodes.nr +
			    reading->contexts.nr + 5;
	reading->known = calloc(reading->nr_known, sizeof(*reading->known));
	if (!reading->known)
		return -ENOMEM;
	reading->known_texts = reading->known;
	reading->known_modules = reading->known_texts + reading->nr_texts + 1;
	reading->known_frames = reading->known_modules + reading->modules.nr + 1;
	reading->known_nodes = reading->known_frames + reading->frames.nr + 1;
	reading->known_contexts = reading->known_nodes + reading->nodes.nr + 1;
	return 0;
}

/* Samples that the archive has no room for anyway are not put into it: *skip of them. */
static int read_segment(struct unpack *in, struct reading *reading, uint64_t *skip)
{
	uint64_t base = unpack_at_most(in, reading->saved_at);
	struct section samples;
	int r = 0;

	read_section(in, &samples, sizeof(struct stored_sample));
	for (uint32_t i = 1; r == 0 && !in->bad && i <= samples.nr; i++) {
		const struct stored_sample sample = ENTRY(struct stored_sample, &samples, i);
		uint64_t time = base + (uint64_t)sample.ms * NS_PER_MS;

		in->bad |= time > reading->saved_at || !is_of(sample.context, reading->contexts.nr) ||
			   sample.node > reading->nodes.nr;
		if (*skip)
			--*skip;
		else if (!in->bad)
			r = put_sample(reading, &sample, time);
	}
	return r;
}

static int read_samples(struct unpack *in, struct reading *reading)
{
	size_t nr = unpack_nr(in, 2 * sizeof(uint64_t));
	uint64_t all = in->left / sizeof(struct stored_sample);
	uint64_t room = reading->to->limit / sizeof(struct stored_sample), skip = all > room ? all - room : 0;
	int r = in->bad ? 0 : make_known(reading);

	for (size_t i = 0; r == 0 && !in->bad && i < nr; i++)
		r = read_segment(in, reading, &skip);
	in->bad |= in->left != 0;
	return r;
}

/* Leaves `in` behind what is of no sample. */
static int open_image(struct unpack *in, const struct archive_origin *origin, struct reason *why)
{
	_cleanup_(freep) char *boot_id = NULL, *visible = NULL;
	size_t size = in->left;
	uint64_t magic = unpack_u64(in), version = unpack_u64(in), length = unpack_u64(in), sum = unpack_u64(in);

	if (magic != MAGIC)
		return reason_set(why, -EPROTO, "they were not written by perfmond");
	if (version != FORMAT)
		return reason_set(why, -EPROTO,
				  "they were written by another version of perfmond, in another format (%" PRIu64
				  "; this one reads %u)",
				  version, FORMAT);
	if (in->bad || length != size || sum != sum_of(in->at, in->left))
		return reason_set(why, -EPROTO, "they are damaged");
	boot_id = unpack_text(in);
	visible = unpack_text(in);
	if (!boot_id || !visible)
		return reason_set(why, -EPROTO, "they are damaged");
	if (!*boot_id || strcmp(boot_id, origin->boot_id) != 0)
		return reason_set(why, -ESTALE, "they are from before the machine was started");
	if (strcmp(visible, origin->visible) != 0)
		return reason_set(why, -ESTALE, "include or exclude of [profiles] were others");
	return 0;
}

int archive_read(struct archive **ret, struct archive_past *ret_past, const struct archive_origin *origin,
		 const void *bytes, size_t len, size_t limit, struct reason *why)
{
	_cleanup_(archive_freep) struct archive *archive = NULL;
	_cleanup_(reading_release) struct reading reading = {};
	struct unpack in = { .at = bytes, .left = len };
	struct archive_past past = {};
	uint64_t archived[2];
	int r = open_image(&in, origin, why);

	if (r < 0)
		return r;
	reading.saved_at = unpack_at_most(&in, clock_monotonic_ns());
	read_past(&in, reading.saved_at, &past, archived);
	r = archive_new(&archive, limit);
	reading.to = archive;
	if (r == 0)
		r = read_entries(&in, &reading);
	if (r == 0)
		r = read_samples(&in, &reading);
	if (r < 0)
		return reason_set(why, r, "out of memory");
	if (in.bad)
		return reason_set(why, -EPROTO, "they make no sense");
	archive->samples = archived[0];
	archive->dropped = archived[1];
	*ret = steal_ptr(archive);
	*ret_past = past;
	return 0;
}
