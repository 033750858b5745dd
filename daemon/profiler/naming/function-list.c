/* SPDX-License-Identifier: MIT */

#include "profiler/naming/function-list.h"

#include "base/util/file.h"
#include "base/util/hash.h"
#include "base/util/memory.h"
#include "base/util/text.h"
#include "profiler/naming/demangle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define MAGIC 0x314c4650 /* "PFL1" */

#define BLOCK_ENTRIES 256

/* Bytes of the largest entry: its kind, a distance, name and symbol, each with its NUL. */
#define ENTRY_MAX (1 + 10 + 2 * FUNCTION_NAME_MAX)

/* The beginning of the file. The blocks follow, then their compressed bytes in the same order, and nothing else. */
struct list_header {
	uint32_t magic, naming, is_part, nr_blocks;
	char link[NAME_MAX + 1];
};

struct list_block {
	uint64_t first; /* place of its first entry */
	uint32_t at;	/* offset of its bytes from the end of all blocks */
	uint32_t size;	/* of its bytes */
};

_Static_assert(sizeof(struct list_block) == 16, "blocks have no padding");

struct function_list {
	size_t bytes, size;
	struct list_header header;
	struct list_block blocks[]; /* then their bytes */
};

enum entry_kind { ENTRY_NONE, ENTRY_NAMED, ENTRY_UNNAMED, _ENTRY_KIND_MAX };

/* --- reading */

static bool is_sound_header(const struct list_header *header, size_t size)
{
	return header->magic == MAGIC && header->naming > NAMING_NAMED && header->naming < _NAMING_MAX &&
	       header->is_part <= 1 && header->nr_blocks <= size / sizeof(struct list_block) &&
	       memchr(header->link, '\0', sizeof(header->link));
}

static bool is_sound(const struct function_list *list)
{
	size_t nr = list->header.nr_blocks, left = list->size - nr * sizeof(struct list_block), at = 0;

	for (size_t i = 0; i < nr; i++) {
		const struct list_block *block = &list->blocks[i];

		if (block->at != at || block->size > left - at || (i > 0 && block->first <= block[-1].first))
			return false;
		at += block->size;
	}
	return at == left;
}

static struct function_list *make_list(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (sizeof(struct function_list) + size + page - 1) / page * page;
	/* A fork takes time for all memory that the child gets, and children do not need most lists. */
	struct function_list *list = memory_map_own(bytes);

	if (list) {
		list->bytes = bytes;
		list->size = size;
	}
	return list;
}

int function_list_read(struct function_list **ret, int fd, size_t max)
{
	_cleanup_(function_list_freep) struct function_list *list = NULL;
	struct list_header header;
	struct stat st;
	size_t size;
	int r = fstat(fd, &st) < 0 ? -errno : read_exactly_at(fd, &header, sizeof(header), 0);

	if (r < 0)
		return r;
	size = (size_t)st.st_size - sizeof(header);
	if (!is_sound_header(&header, size))
		return -EBADMSG;
	if (size > max)
		return -EFBIG;
	list = make_list(size);
	if (!list)
		return -ENOMEM;
	list->header = header;
	r = read_exactly_at(fd, list->blocks, size, sizeof(header));
	if (r < 0)
		return r;
	if (!is_sound(list))
		return -EBADMSG;
	*ret = steal_ptr(list);
	return 0;
}

struct function_list *function_list_empty(enum naming naming)
{
	struct function_list *list = make_list(0);

	if (list)
		list->header.naming = naming;
	return list;
}

void function_list_share(struct function_list *list)
{
	memory_share(list, list->bytes);
}

struct function_list *function_list_free(struct function_list *list)
{
	if (list)
		memory_unmap(list, list->bytes);
	return NULL;
}

size_t function_list_bytes(const struct function_list *list)
{
	return list->bytes;
}

enum naming function_list_naming(const struct function_list *list)
{
	return (enum naming)list->header.naming;
}

bool function_list_is_part(const struct function_list *list)
{
	return list->header.is_part;
}

const char *function_list_link(const struct function_list *list)
{
	return list->header.link;
}

/* --- finding */

/* The number of the last block that begins at or below the place; nr_blocks: there is none. */
static uint32_t find_block(const struct function_list *list, uint64_t place)
{
	uint32_t low = 0, high = list->header.nr_blocks;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (list->blocks[middle].first <= place)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? low - 1 : list->header.nr_blocks;
}

/* A block that can't be unpacked is empty. */
static void unpack_block(const struct function_list *list, uint32_t number, struct function_block *ret)
{
	const unsigned char *data = (const unsigned char *)(list->blocks + list->header.nr_blocks);
	const struct list_block *block = &list->blocks[number];
	uLongf size = sizeof(ret->bytes);

	if (ret->list == list && ret->number == number)
		return;
	if (uncompress(ret->bytes, &size, data + block->at, block->size) != Z_OK)
		size = 0;
	ret->list = list;
	ret->number = number;
	ret->size = size;
}

struct entry {
	enum entry_kind kind;
	uint64_t place;
	uint64_t back; /* unnamed: the distance from the function's beginning to the place */
	const char *name;
	const char *symbol; /* "": equal to the name */
};

struct entry_reader {
	const unsigned char *bytes;
	size_t size, at;
	uint64_t place; /* of the last entry */
};

/* False: the number does not end in the block. */
static bool read_number(struct entry_reader *reader, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; shift < 64 && reader->at < reader->size; shift += 7) {
		uint64_t byte = reader->bytes[reader->at++];

		*ret |= (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

static bool read_name(struct entry_reader *reader, const char **ret)
{
	const unsigned char *name = reader->bytes + reader->at;
	size_t left = reader->size - reader->at;
	const unsigned char *end = memchr(name, '\0', left < FUNCTION_NAME_MAX ? left : FUNCTION_NAME_MAX);

	if (!end)
		return false;
	reader->at += (size_t)(end - name) + 1;
	*ret = (const char *)name;
	return true;
}

/* False: there are no more entries, or the next one is malformed. */
static bool read_entry(struct entry_reader *reader, struct entry *ret)
{
	uint64_t distance;

	if (reader->at >= reader->size || reader->bytes[reader->at] >= _ENTRY_KIND_MAX)
		return false;
	*ret = (struct entry){ .kind = (enum entry_kind)reader->bytes[reader->at++] };
	if (!read_number(reader, &distance) || __builtin_add_overflow(reader->place, distance, &reader->place))
		return false;
	ret->place = reader->place;
	if (ret->kind == ENTRY_NAMED)
		return read_name(reader, &ret->name) && read_name(reader, &ret->symbol);
	return ret->kind == ENTRY_NONE || (read_number(reader, &ret->back) && ret->back <= ret->place);
}

bool function_list_find(const struct function_list *list, uint64_t place, struct function_block *block,
			struct function *ret)
{
	uint32_t number = find_block(list, place);
	struct entry_reader reader = { .bytes = block->bytes };
	struct entry next, found = {};

	if (number == list->header.nr_blocks)
		return false;
	unpack_block(list, number, block);
	reader.size = block->size;
	reader.place = list->blocks[number].first;
	ret->end = number + 1 < list->header.nr_blocks ? list->blocks[number + 1].first : UINT64_MAX;
	while (read_entry(&reader, &next)) {
		if (next.place > place) {
			ret->end = next.place < ret->end ? next.place : ret->end;
			break;
		}
		found = next;
	}
	if (found.kind == ENTRY_NONE ||
	    (found.name && (!found.name[0] || !text_is_plain(found.name) || !text_is_plain(found.symbol))))
		return false;
	ret->start = found.place - found.back;
	ret->name = found.name;
	ret->symbol = found.symbol && found.symbol[0] ? found.symbol : NULL;
	return place < ret->end;
}

/* --- writing */

/* False: no memory. */
static bool prepare_deflater(struct function_list_writer *writer)
{
	z_stream *deflater = writer->deflater ? writer->deflater : calloc(1, sizeof(*deflater));

	if (deflater && !writer->deflater && deflateInit(deflater, Z_BEST_SPEED) != Z_OK) {
		free(deflater);
		deflater = NULL;
	}
	writer->deflater = deflater;
	return deflater && deflateReset(deflater) == Z_OK;
}

static bool compress_block(struct function_list_writer *writer)
{
	z_stream *deflater;
	size_t bound;

	if (writer->raw.failed || !prepare_deflater(writer))
		return false;
	deflater = writer->deflater;
	bound = deflateBound(deflater, writer->raw.len);
	if (!buf_reserve(&writer->data, bound))
		return false;
	deflater->next_in = (Bytef *)writer->raw.data;
	deflater->avail_in = (uInt)writer->raw.len;
	deflater->next_out = (Bytef *)writer->data.data + writer->data.len;
	deflater->avail_out = (uInt)bound;
	if (deflate(deflater, Z_FINISH) != Z_STREAM_END)
		return false;
	writer->data.len += deflater->total_out;
	return true;
}

static void close_block(struct function_list_writer *writer)
{
	struct list_block block = { .first = writer->first, .at = (uint32_t)writer->data.len };

	if (writer->nr && !writer->failed && !writer->is_full) {
		writer->failed = !compress_block(writer);
		block.size = (uint32_t)(writer->data.len - block.at);
		buf_add(&writer->blocks, (const char *)&block, sizeof(block));
		writer->failed |= writer->blocks.failed;
		writer->is_full = writer->max && writer->blocks.len + writer->data.len > writer->max;
	}
	writer->raw.len = 0;
	writer->nr = 0;
}

static void add_number(struct buf *out, uint64_t number)
{
	for (; number >= 0x80; number >>= 7)
		buf_char(out, (char)(number | 0x80));
	buf_char(out, (char)number);
}

/* FNV-1a with 64 bits. It needs no secret: nobody gains by two names with the same hash. */
static uint64_t hash_name(const char *name)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
	return hash;
}

/* Bytes that are no text are written as \xNN. A name that is too long is cut, and ends with a hash of the whole name,
 * so that two functions do not get the same name. */
static void add_name(struct buf *out, const char *name)
{
	size_t begin = out->len, max = FUNCTION_NAME_MAX - sizeof("...#0123456789abcdef");
	const char *p = name;

	while (*p && out->len - begin < FUNCTION_NAME_MAX + 4) {
		size_t n = plain_length(p);

		if (n)
			buf_add(out, p, n);
		else
			buf_printf(out, "\\x%02x", (unsigned char)*p);
		p += n ? n : 1;
	}
	if (out->len - begin >= FUNCTION_NAME_MAX && !out->failed) {
		out->len = begin + max;
		/* UTF-8 is not cut within a character. */
		while (out->len > begin && ((unsigned char)out->data[out->len] & 0xc0) == 0x80)
			out->len--;
		buf_printf(out, "...#%016llx", (unsigned long long)hash_name(name));
	}
	buf_char(out, '\0');
}

static void add_names(struct function_list_writer *writer, const char *symbol)
{
	struct buf *demangled = &writer->demangled;

	demangled->len = 0;
	if (demangle(demangled, symbol)) {
		buf_char(demangled, '\0');
		if (!demangled->failed) {
			add_name(&writer->raw, demangled->data);
			add_name(&writer->raw, symbol);
			return;
		}
		writer->failed = true;
	}
	add_name(&writer->raw, symbol);
	buf_char(&writer->raw, '\0');
}

/* An entry that is equal to the last one is left out. */
static void write_pending(struct function_list_writer *writer)
{
	const char *name = writer->pending_name;
	uint64_t place = writer->pending_place, start = writer->pending_start;

	if (!writer->has_pending || writer->failed || writer->is_full ||
	    (writer->has_written && writer->written_name == name && writer->written_start == start))
		return;
	if (writer->nr == BLOCK_ENTRIES || writer->raw.len + ENTRY_MAX > FUNCTION_BLOCK_BYTES)
		close_block(writer);
	if (!writer->nr)
		writer->first = writer->last = place;
	buf_char(&writer->raw, name ? ENTRY_NAMED : start == FUNCTION_NONE ? ENTRY_NONE : ENTRY_UNNAMED);
	add_number(&writer->raw, place - writer->last);
	if (name)
		add_names(writer, name);
	else if (start != FUNCTION_NONE)
		add_number(&writer->raw, place - start);
	writer->last = place;
	writer->nr++;
	writer->written_name = name;
	writer->written_start = start;
	writer->has_written = true;
}

void function_list_add(struct function_list_writer *writer, uint64_t place, const char *name, uint64_t start)
{
	if (writer->has_pending && place < writer->pending_place)
		return;
	if (writer->has_pending && place > writer->pending_place)
		write_pending(writer);
	writer->pending_place = place;
	writer->pending_name = name && name[0] ? name : NULL;
	writer->pending_start = start;
	writer->has_pending = true;
}

int function_list_write(struct function_list_writer *writer, int fd, enum naming naming, bool is_part, const char *link)
{
	struct list_header header = { .magic = MAGIC, .naming = naming, .is_part = is_part };
	int r;

	write_pending(writer);
	writer->has_pending = false;
	close_block(writer);
	if (writer->failed || writer->is_full)
		return writer->is_full ? -EFBIG : -ENOMEM;
	header.nr_blocks = (uint32_t)(writer->blocks.len / sizeof(struct list_block));
	if (link)
		(void)snprintf(header.link, sizeof(header.link), "%s", link);
	r = write_all(fd, (const char *)&header, sizeof(header));
	if (r == 0)
		r = write_all(fd, writer->blocks.data, writer->blocks.len);
	return r < 0 ? r : write_all(fd, writer->data.data, writer->data.len);
}

void function_list_writer_release(struct function_list_writer *writer)
{
	if (writer->deflater)
		(void)deflateEnd(writer->deflater);
	free(writer->deflater);
	buf_release(&writer->blocks);
	buf_release(&writer->data);
	buf_release(&writer->raw);
	buf_release(&writer->demangled);
	*writer = (struct function_list_writer){ .max = writer->max };
}
