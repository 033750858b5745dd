/* SPDX-License-Identifier: MIT */

#include "profiler/stack/frame-table.h"

#include "base/util/file.h"
#include "base/util/memory.h"

#include <errno.h>
#include <sys/stat.h>

_Static_assert(sizeof(struct frame_rule) == 16 + 2 * FRAME_REGISTERS, "rules have no padding");

/* Bytes of a row: its offset and its rule's number. */
#define ROW_BYTES (sizeof(uint32_t) + sizeof(uint16_t))

static bool is_sound_rule(const struct frame_rule *rule)
{
	static const struct frame_rule nothing = {};
	bool has_cfa = rule->kind >= FRAME_CFA;

	for (int i = 0; !has_cfa && i < FRAME_REGISTERS; i++)
		if (rule->saved[i] != nothing.saved[i])
			return false;
	return rule->kind < _FRAME_KIND_MAX && rule->reg < FRAME_REGISTERS && rule->base < FRAME_REGISTERS &&
	       (rule->flags & ~(FRAME_SIGNAL | FRAME_POINTERS)) == 0 &&
	       (rule->added == 0 || rule->kind == FRAME_CFA_LOADED) &&
	       (rule->kind != FRAME_PLT || (rule->offset >= 0 && rule->offset < 16)) &&
	       (has_cfa || (rule->reg == 0 && rule->base == 0 && rule->offset == 0 && rule->from_base == 0));
}

static bool is_sound(const struct frame_table *table)
{
	for (uint32_t i = 0; i < table->nr_rules; i++)
		if (!is_sound_rule(&table->rules[i]))
			return false;
	for (uint32_t i = 0; i < table->nr_rows; i++)
		if (table->numbers[i] >= table->nr_rules || (i > 0 && table->offsets[i] <= table->offsets[i - 1]))
			return false;
	return true;
}

/* *ret_size: the bytes behind the header, which the file has exactly. */
static int read_header(struct frame_table *ret, int fd, size_t *ret_size)
{
	struct frame_table_header header;
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : read_exactly_at(fd, &header, sizeof(header), 0);

	if (r < 0)
		return r;
	if (header.magic != FRAME_TABLE_MAGIC || header.problem != 0 || header.nr_rows == 0 || header.nr_rules == 0 ||
	    header.nr_rows > FRAME_ROWS_MAX || header.nr_rules > FRAME_RULES_MAX)
		return -EBADMSG;
	ret->nr_rows = header.nr_rows;
	ret->nr_rules = header.nr_rules;
	*ret_size = header.nr_rules * sizeof(struct frame_rule) + header.nr_rows * ROW_BYTES;
	return st.st_size == (off_t)(sizeof(header) + *ret_size) ? 0 : -EBADMSG;
}

int frame_table_read(struct frame_table **ret, int fd, size_t max)
{
	_cleanup_(frame_table_freep) struct frame_table *table = NULL;
	struct frame_table head = {};
	size_t size;
	int r = read_header(&head, fd, &size);

	if (r < 0)
		return r;
	head.bytes = sizeof(*table) + size;
	if (head.bytes > max)
		return -EFBIG;
	/* A fork takes time for all memory that the child gets, and children do not need the table. */
	table = memory_map_own(head.bytes);
	if (!table)
		return -ENOMEM;
	*table = head;
	table->rules = (struct frame_rule *)(table + 1);
	table->offsets = (uint32_t *)(table->rules + table->nr_rules);
	table->numbers = (uint16_t *)(table->offsets + table->nr_rows);
	r = read_exactly_at(fd, table->rules, size, sizeof(struct frame_table_header));
	if (r < 0)
		return r;
	if (!is_sound(table))
		return -EBADMSG;
	*ret = steal_ptr(table);
	return 0;
}

struct frame_table *frame_table_free(struct frame_table *table)
{
	if (table)
		memory_unmap(table, table->bytes);
	return NULL;
}

const struct frame_rule *frame_table_find(const struct frame_table *table, uint64_t offset)
{
	uint32_t low = 0, high = table->nr_rows;
	const struct frame_rule *rule;

	/* The last row that begins at the offset or before. */
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (table->offsets[middle] <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	rule = low ? &table->rules[table->numbers[low - 1]] : NULL;
	return rule && rule->kind != FRAME_UNKNOWN ? rule : NULL;
}
