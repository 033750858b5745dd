/* SPDX-License-Identifier: MIT */

#include "profiler/naming/kernel-list.h"

#include "base/util/buf.h"

#include <string.h>
#include <zlib.h>

#define PAGE 4096

#define BLOCK_SYMBOLS 256

/* More of a list is not read. */
#define SYMBOLS_MAX ((size_t)2 << 20)

/* Compressed: of each symbol the distance from the block's first, and the name with its NUL. "": no function. */
struct block {
	uint64_t first;
	uint32_t raw_size, size;
	unsigned char *data;
};

struct kernel_list {
	struct block *blocks; /* by first */
	size_t nr;
};

/* --- reading */

struct symbol {
	uint64_t address;
	uint32_t name; /* where it is in the texts */
	uint32_t module;
};

struct reading {
	struct symbol *symbols;
	size_t nr, cap;
	struct buf texts; /* each with its NUL */
	uint32_t module;  /* of the last symbol */
	bool shown;	  /* there is an address other than 0 */
	bool failed;
};

static void reading_release(struct reading *reading)
{
	free(reading->symbols);
	buf_release(&reading->texts);
}

static bool make_room(struct reading *reading)
{
	size_t cap = reading->cap ? reading->cap * 2 : 1024;
	struct symbol *symbols;

	if (reading->nr < reading->cap)
		return true;
	symbols = reallocarray(reading->symbols, cap, sizeof(*symbols));
	if (!symbols)
		return false;
	reading->symbols = symbols;
	reading->cap = cap;
	return true;
}

static uint32_t add_text(struct reading *reading, const char *text, size_t length)
{
	size_t at = reading->texts.len;

	buf_add(&reading->texts, text, length);
	buf_add(&reading->texts, "", 1);
	return (uint32_t)at;
}

/* Neighbours are mostly of one module. */
static uint32_t add_module(struct reading *reading, const char *module)
{
	size_t length = strcspn(module, " \t\n");
	const char *last = reading->texts.data + reading->module;

	if (strncmp(last, module, length) || last[length])
		reading->module = add_text(reading, module, length);
	return reading->module;
}

static void take_line(void *userdata, const struct kallsyms_line *line)
{
	struct reading *reading = userdata;
	size_t length = kallsyms_is_code(line) ? line->name_length : 0;
	struct symbol *symbol;

	reading->shown |= line->address != 0;
	if (!line->address || reading->nr >= SYMBOLS_MAX || length >= KALLSYMS_NAME_MAX)
		return;
	if (!make_room(reading) || reading->texts.failed) {
		reading->failed = true;
		return;
	}
	symbol = &reading->symbols[reading->nr++];
	symbol->address = line->address;
	symbol->module = add_module(reading, line->module);
	symbol->name = add_text(reading, line->name, length);
}

/* Of several names for one address the first one of the list goes first. */
static int compare_symbols(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* --- blocks */

struct packing {
	struct kernel_list *list;
	size_t cap;
	z_stream deflater; /* one for all blocks: it takes 256 KiB */
	struct buf raw;	   /* the block that is being filled */
	uint64_t first;
	size_t nr; /* symbols in it */
	bool failed;
};

static bool add_block(struct packing *packing, struct block block)
{
	struct kernel_list *list = packing->list;

	if (list->nr == packing->cap) {
		size_t cap = packing->cap ? packing->cap * 2 : 64;
		struct block *blocks = reallocarray(list->blocks, cap, sizeof(*blocks));

		if (!blocks)
			return false;
		list->blocks = blocks;
		packing->cap = cap;
	}
	list->blocks[list->nr++] = block;
	return true;
}

/* False: no memory. */
static bool compress_block(struct packing *packing, struct block *ret)
{
	z_stream *deflater = &packing->deflater;
	size_t bound = deflateBound(deflater, packing->raw.len);
	_cleanup_(freep) unsigned char *data = malloc(bound);

	if (!data || packing->raw.failed)
		return false;
	deflater->next_in = (Bytef *)packing->raw.data;
	deflater->avail_in = (uInt)packing->raw.len;
	deflater->next_out = data;
	deflater->avail_out = (uInt)bound;
	if (deflateReset(deflater) != Z_OK || deflate(deflater, Z_FINISH) != Z_STREAM_END)
		return false;
	*ret = (struct block){
		.first = packing->first,
		.raw_size = (uint32_t)packing->raw.len,
		.size = (uint32_t)deflater->total_out,
		.data = realloc(data, deflater->total_out),
	};
	if (ret->data)
		data = NULL;
	return ret->data;
}

static void close_block(struct packing *packing)
{
	struct block block;

	if (packing->nr && !packing->failed) {
		packing->failed = !compress_block(packing, &block);
		if (!packing->failed && !add_block(packing, block)) {
			free(block.data);
			packing->failed = true;
		}
	}
	packing->raw.len = 0;
	packing->nr = 0;
}

static void pack_symbol(struct packing *packing, uint64_t address, const char *name)
{
	uint32_t distance;

	if (packing->nr == BLOCK_SYMBOLS || address - packing->first > UINT32_MAX)
		close_block(packing);
	if (!packing->nr)
		packing->first = address;
	distance = (uint32_t)(address - packing->first);
	buf_add(&packing->raw, (const char *)&distance, sizeof(distance));
	buf_add(&packing->raw, name, strlen(name) + 1);
	packing->nr++;
}

/* Where the code of a module ends at the latest, if nothing of it follows its last symbol. */
static uint64_t end_of_module(uint64_t address)
{
	return (address / PAGE + 2) * PAGE;
}

static int pack_symbols(struct reading *reading, struct kernel_list *list)
{
	struct packing packing = { .list = list };
	const char *texts = reading->texts.data;

	if (deflateInit(&packing.deflater, Z_BEST_SPEED) != Z_OK)
		return -1;
	qsort(reading->symbols, reading->nr, sizeof(*reading->symbols), compare_symbols);
	for (size_t i = 0; i < reading->nr; i++) {
		const struct symbol *symbol = &reading->symbols[i], *next = symbol + 1;
		bool is_last = i + 1 == reading->nr;
		uint64_t end = end_of_module(symbol->address);

		if (i == 0 || symbol[-1].address != symbol->address)
			pack_symbol(&packing, symbol->address, texts + symbol->name);
		if (is_last || (strcmp(texts + symbol->module, texts + next->module) && end < next->address))
			pack_symbol(&packing, end, "");
	}
	close_block(&packing);
	buf_release(&packing.raw);
	(void)deflateEnd(&packing.deflater);
	return packing.failed ? -1 : 0;
}

/* NAMING_UNTRIED: the file can't be read. */
static enum naming read_file(struct kernel_list *list, const char *path)
{
	_cleanup_(reading_release) struct reading reading = {};

	buf_add(&reading.texts, "", 1);
	if (kallsyms_each(path, take_line, &reading) < 0)
		return NAMING_UNTRIED;
	if (!reading.shown)
		return NAMING_KERNEL;
	if (reading.failed || reading.texts.failed || pack_symbols(&reading, list) < 0)
		return NAMING_FAILED;
	return NAMING_NAMED;
}

enum naming kernel_list_read(struct kernel_list **ret, const char *const *paths, size_t nr)
{
	_cleanup_(kernel_list_freep) struct kernel_list *list = calloc(1, sizeof(*list));
	enum naming worst = NAMING_NO_KALLSYMS;

	if (!list)
		return NAMING_FAILED;
	for (size_t i = 0; i < nr; i++) {
		enum naming naming = read_file(list, paths[i]);

		if (naming == NAMING_NAMED)
			*ret = steal_ptr(list);
		if (naming == NAMING_NAMED || naming == NAMING_FAILED)
			return naming;
		if (naming == NAMING_KERNEL)
			worst = naming;
	}
	return worst;
}

struct kernel_list *kernel_list_free(struct kernel_list *list)
{
	if (!list)
		return NULL;
	for (size_t i = 0; i < list->nr; i++)
		free(list->blocks[i].data);
	free(list->blocks);
	free(list);
	return NULL;
}

/* --- finding */

/* The last block that begins at or below the address, or NULL. */
static const struct block *find_block(const struct kernel_list *list, uint64_t address)
{
	size_t low = 0, high = list->nr;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list->blocks[middle].first <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &list->blocks[low - 1] : NULL;
}

/* Names in the block's bytes; the end is left alone if no symbol follows there. */
static bool find_in_block(const struct block *block, const unsigned char *raw, uint64_t address,
			  struct kernel_symbol *ret)
{
	const char *name = "";
	uint32_t distance;

	for (size_t at = 0; at < block->raw_size;) {
		const char *next = (const char *)raw + at + sizeof(distance);

		memcpy(&distance, raw + at, sizeof(distance));
		if (block->first + distance > address) {
			ret->end = block->first + distance;
			break;
		}
		ret->start = block->first + distance;
		name = next;
		at += sizeof(distance) + strlen(next) + 1;
	}
	strcpy(ret->name, name);
	return name[0];
}

bool kernel_list_find(const struct kernel_list *list, uint64_t address, struct kernel_symbol *ret)
{
	const struct block *block = find_block(list, address);
	_cleanup_(freep) unsigned char *raw = block ? malloc(block->raw_size) : NULL;
	uLongf size = block ? block->raw_size : 0;

	if (!raw || uncompress(raw, &size, block->data, block->size) != Z_OK || size != block->raw_size)
		return false;
	ret->end = block + 1 < list->blocks + list->nr ? block[1].first : UINT64_MAX;
	return find_in_block(block, raw, address, ret);
}
