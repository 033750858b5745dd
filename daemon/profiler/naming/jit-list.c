/* SPDX-License-Identifier: MIT */

#include "profiler/naming/jit-list.h"

#include "base/util/cleanup.h"

#include <string.h>

/* The functions of a jitdump have ages from here on; those of a perf map have lower ages. */
#define DUMP_AGE ((uint32_t)JIT_ENTRIES_MAX)

/* Bytes of a name that are read: more of them would make no difference, and take time. */
#define NAME_READ_MAX ((size_t)16 << 10)
#define NAME_ROOM (NAME_READ_MAX + 1)
#define NAMES 3

/* --- entries */

void jit_entries_release(struct jit_entries *entries)
{
	free(entries->items);
	free(entries->names);
	*entries = (struct jit_entries){};
}

/* NULL: there is no room. */
static struct jit_entry *add_entry(struct jit_entries *entries)
{
	size_t cap = entries->cap ? entries->cap * 2 : 1024;
	struct jit_entry *items;

	if (entries->nr < entries->cap)
		return &entries->items[entries->nr++];
	if (entries->nr >= JIT_ENTRIES_MAX)
		return NULL;
	items = reallocarray(entries->items, cap, sizeof(*items));
	if (!items) {
		entries->failed = true;
		return NULL;
	}
	entries->items = items;
	entries->cap = cap;
	return &entries->items[entries->nr++];
}

/* --- perf maps */

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* A number in hex, with or without 0x, and the blank behind it. Moves *at behind the blank. */
static bool read_hex(const char **at, const char *end, uint64_t *ret)
{
	const char *p = *at;
	size_t digits = 0;

	if (end - p > 2 && p[0] == '0' && p[1] == 'x')
		p += 2;
	*ret = 0;
	for (; p < end && digit_of(*p) >= 0; p++, digits++)
		*ret = *ret << 4 | (uint64_t)digit_of(*p);
	if (!digits || digits > 16 || p == end || *p != ' ')
		return false;
	*at = p + 1;
	return true;
}

static bool read_line(const char *line, const char *end, struct jit_entry *ret)
{
	uint64_t size;

	if (!read_hex(&line, end, &ret->start) || !read_hex(&line, end, &size) || !size ||
	    __builtin_add_overflow(ret->start, size, &ret->end))
		return false;
	ret->name = line;
	ret->length = (uint32_t)((size_t)(end - line) < NAME_READ_MAX ? (size_t)(end - line) : NAME_READ_MAX);
	return true;
}

/* Goes from the last line to the first: of too many lines, the last ones count. */
void jit_read_map(struct jit_entries *entries, struct elf_bytes file)
{
	const char *text = (const char *)file.data;
	const char *end = file.size ? memrchr(text, '\n', file.size) : NULL;
	uint32_t age = DUMP_AGE;

	while (end && age) {
		const char *before = memrchr(text, '\n', (size_t)(end - text));
		struct jit_entry found = { .age = --age }, *entry;

		if (read_line(before ? before + 1 : text, end, &found)) {
			entry = add_entry(entries);
			if (!entry)
				return;
			*entry = found;
		}
		end = before;
	}
}

/* --- jitdumps */

#define DUMP_MAGIC 0x4a695444 /* "JiTD" as a number in the order of the machine that writes it */
#define DUMP_HEADER 40
#define RECORD_HEADER 16

enum { RECORD_LOAD, RECORD_MOVE };

/* The bodies of records, which follow the record's header. */
struct load_body {
	uint32_t pid, tid;
	uint64_t vma, address, size, index;
};

struct move_body {
	uint32_t pid, tid;
	uint64_t vma, from, to, size, index;
};

_Static_assert(sizeof(struct load_body) == 40 && sizeof(struct move_body) == 48, "bodies have no padding");

struct dump_reader {
	struct jit_entries *entries;
	uint32_t *slots; /* number of the last entry with an index in this slot, plus 1; 0: none */
	size_t nr_slots; /* a power of two */
	uint32_t age;
};

static uint32_t number_at(const unsigned char *at)
{
	uint32_t number;

	memcpy(&number, at, sizeof(number));
	return number;
}

static uint32_t *slot_of(const struct dump_reader *reader, uint64_t index)
{
	return &reader->slots[(index * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (reader->nr_slots - 1)];
}

static void add_function(struct dump_reader *reader, uint64_t index, uint64_t start, uint64_t size, const char *name,
			 uint32_t length)
{
	uint32_t *slot = slot_of(reader, index);
	struct jit_entry *entry;
	uint64_t end;

	if (!size || __builtin_add_overflow(start, size, &end))
		return;
	entry = add_entry(reader->entries);
	if (!entry)
		return;
	*entry = (struct jit_entry){
		.start = start,
		.end = end,
		.name = name,
		.length = length,
		.age = reader->age++,
		.index = (uint32_t)index,
		.next = *slot,
	};
	*slot = (uint32_t)reader->entries->nr;
}

static void take_load(struct dump_reader *reader, const unsigned char *body, size_t size)
{
	struct load_body load;
	const char *name = (const char *)body + sizeof(load);
	size_t left, length;

	if (size <= sizeof(load))
		return;
	memcpy(&load, body, sizeof(load));
	left = size - sizeof(load);
	length = strnlen(name, left < NAME_READ_MAX ? left : NAME_READ_MAX);
	if (length < left)
		add_function(reader, load.index, load.address, load.size, name, (uint32_t)length);
}

/* Many functions have indexes in one slot only on purpose: the search ends after so many. */
#define SLOT_STEPS 256

static void take_move(struct dump_reader *reader, const unsigned char *body, size_t size)
{
	const struct jit_entry *items = reader->entries->items;
	struct move_body move;
	const char *name = NULL;
	uint32_t number, length = 0;

	if (size < sizeof(move))
		return;
	memcpy(&move, body, sizeof(move));
	number = *slot_of(reader, move.index);
	for (size_t i = 0; number && i < SLOT_STEPS && !name; i++, number = items[number - 1].next) {
		if (items[number - 1].index != (uint32_t)move.index || !items[number - 1].length)
			continue;
		name = items[number - 1].name;
		length = items[number - 1].length;
	}
	/* No function is at the old place any more, but the new place may overlap it. */
	add_function(reader, move.index, move.from, move.size, NULL, 0);
	add_function(reader, move.index, move.to, move.size, name, length);
}

static void read_records(struct dump_reader *reader, struct elf_bytes file, size_t at)
{
	while (file.size - at >= RECORD_HEADER) {
		const unsigned char *record = file.data + at;
		uint32_t id = number_at(record), size = number_at(record + 4);

		if (size < RECORD_HEADER || size > file.size - at)
			return;
		if (id == RECORD_LOAD)
			take_load(reader, record + RECORD_HEADER, size - RECORD_HEADER);
		else if (id == RECORD_MOVE)
			take_move(reader, record + RECORD_HEADER, size - RECORD_HEADER);
		at += size;
	}
}

/* A load takes at least so many bytes. */
#define LOAD_MIN (RECORD_HEADER + sizeof(struct load_body) + 1)

bool jit_read_dump(struct jit_entries *entries, struct elf_bytes file, uint32_t pid)
{
	struct dump_reader reader = { .entries = entries, .nr_slots = 1024, .age = DUMP_AGE };
	uint32_t header;

	if (file.size < DUMP_HEADER || number_at(file.data) != DUMP_MAGIC || number_at(file.data + 20) != pid)
		return false;
	header = number_at(file.data + 8);
	if (header < DUMP_HEADER || header > file.size)
		return false;
	while (reader.nr_slots < file.size / LOAD_MIN && reader.nr_slots < JIT_ENTRIES_MAX)
		reader.nr_slots *= 2;
	reader.slots = calloc(reader.nr_slots, sizeof(*reader.slots));
	if (reader.slots)
		read_records(&reader, file, header);
	entries->failed |= !reader.slots;
	free(reader.slots);
	return true;
}

/* --- the list: a sweep over the addresses, with a heap of the functions that reach there, the youngest on top */

struct sweep {
	const struct jit_entry **heap;
	size_t nr;
	const struct jit_entry *last; /* the last one that was added to the list; NULL: no function is there */
	char *names;		      /* room for NAMES names, used in turn: the writer borrows the last two */
	size_t turn;
	struct function_list_writer *writer;
};

static void push(struct sweep *sweep, const struct jit_entry *entry)
{
	size_t at = sweep->nr++;

	while (at && sweep->heap[(at - 1) / 2]->age < entry->age) {
		sweep->heap[at] = sweep->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	sweep->heap[at] = entry;
}

static void pop(struct sweep *sweep)
{
	const struct jit_entry *last = sweep->heap[--sweep->nr];
	size_t at = 0, child;

	for (; (child = 2 * at + 1) < sweep->nr; at = child) {
		if (child + 1 < sweep->nr && sweep->heap[child + 1]->age > sweep->heap[child]->age)
			child++;
		if (sweep->heap[child]->age <= last->age)
			break;
		sweep->heap[at] = sweep->heap[child];
	}
	sweep->heap[at] = last;
}

/* A NUL in a name is replaced: it would end the name too early. */
static const char *copy_name(struct sweep *sweep, const struct jit_entry *entry)
{
	char *name = sweep->names + sweep->turn++ % NAMES * NAME_ROOM;

	for (size_t i = 0; i < entry->length; i++)
		name[i] = entry->name[i] ? entry->name[i] : '\1';
	name[entry->length] = '\0';
	return name;
}

/* From this address on, this function is there; NULL: no function. */
static void add_to_list(struct sweep *sweep, uint64_t address, const struct jit_entry *entry)
{
	if (entry == sweep->last)
		return;
	sweep->last = entry;
	function_list_add(sweep->writer, address, entry && entry->length ? copy_name(sweep, entry) : NULL,
			  FUNCTION_NONE);
}

static void drop_ended(struct sweep *sweep, uint64_t address)
{
	while (sweep->nr && sweep->heap[0]->end <= address)
		pop(sweep);
}

static void sweep_over(struct sweep *sweep, const struct jit_entries *entries)
{
	const struct jit_entry *next = entries->items, *end = entries->items + entries->nr;
	uint64_t at = 0;

	while (next < end || sweep->nr) {
		if (!sweep->nr && next->start > at)
			at = next->start;
		for (; next < end && next->start <= at; next++)
			push(sweep, next);
		drop_ended(sweep, at);
		add_to_list(sweep, at, sweep->nr ? sweep->heap[0] : NULL);
		if (!sweep->nr)
			continue;
		at = next < end && next->start < sweep->heap[0]->end ? next->start : sweep->heap[0]->end;
		drop_ended(sweep, at);
		if (!sweep->nr && (next == end || next->start > at))
			add_to_list(sweep, at, NULL);
	}
}

static int compare_entries(const void *a, const void *b)
{
	const struct jit_entry *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->age < y->age ? -1 : x->age > y->age;
}

bool jit_list(struct jit_entries *entries, struct function_list_writer *writer)
{
	struct sweep sweep = { .writer = writer };

	if (!entries->names)
		entries->names = malloc(NAMES * NAME_ROOM);
	sweep.names = entries->names;
	sweep.heap = calloc(entries->nr + 1, sizeof(*sweep.heap));
	if (!sweep.heap || !sweep.names) {
		free(sweep.heap);
		return false;
	}
	if (entries->nr) {
		qsort(entries->items, entries->nr, sizeof(*entries->items), compare_entries);
		sweep_over(&sweep, entries);
	}
	free(sweep.heap);
	return !entries->failed;
}
