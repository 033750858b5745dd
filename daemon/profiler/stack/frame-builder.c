/* SPDX-License-Identifier: MIT */

#include "profiler/stack/frame-builder.h"

#include "base/util/file.h"

#include <errno.h>
#include <string.h>

/* A power of two, twice as large as the number of rules. */
#define SLOTS (2U * (FRAME_RULES_MAX + 1))

/* Room for the row that ends the last stretch. */
#define STRETCHES_MAX (FRAME_ROWS_MAX - 1)

#define UNKNOWN_NUMBER 0

struct stretch {
	uint32_t start, end; /* end: the last offset in it */
	uint32_t order;	     /* in which it was added */
	uint16_t number;     /* of its rule */
};

struct frame_builder {
	struct frame_rule *rules;
	uint32_t nr_rules, cap_rules;
	struct stretch *stretches;
	uint32_t nr_stretches, cap_stretches;
	uint16_t slots[SLOTS]; /* numbers of rules by their hash; 0: free */
};

/* --- rules */

/* FNV-1a */
static uint32_t hash_rule(const struct frame_rule *rule)
{
	const unsigned char *bytes = (const unsigned char *)rule;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < sizeof(*rule); i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return (uint32_t)(hash ^ hash >> 32);
}

/* Makes room for one more. */
static int make_room(void *items, uint32_t nr, uint32_t *cap, size_t size)
{
	uint32_t more = *cap ? *cap * 2 : 256;
	void **where = items, *grown;

	if (nr < *cap)
		return 0;
	grown = realloc(*where, more * size);
	if (!grown)
		return -ENOMEM;
	*where = grown;
	*cap = more;
	return 0;
}

static int number_rule(struct frame_builder *builder, const struct frame_rule *rule, uint16_t *ret)
{
	uint32_t at = hash_rule(rule) % SLOTS;
	int r;

	*ret = UNKNOWN_NUMBER;
	if (rule->kind == FRAME_UNKNOWN)
		return 0;
	for (; builder->slots[at]; at = (at + 1) % SLOTS)
		if (memcmp(&builder->rules[builder->slots[at]], rule, sizeof(*rule)) == 0) {
			*ret = builder->slots[at];
			return 0;
		}
	if (builder->nr_rules == FRAME_RULES_MAX)
		return -EFBIG;
	r = make_room(&builder->rules, builder->nr_rules, &builder->cap_rules, sizeof(*rule));
	if (r < 0)
		return r;
	*ret = builder->slots[at] = (uint16_t)builder->nr_rules;
	builder->rules[builder->nr_rules++] = *rule;
	return 0;
}

int frame_builder_new(struct frame_builder **ret)
{
	_cleanup_(frame_builder_freep) struct frame_builder *builder = calloc(1, sizeof(*builder));
	int r = builder ? make_room(&builder->rules, 0, &builder->cap_rules, sizeof(*builder->rules)) : -ENOMEM;

	if (r < 0)
		return r;
	builder->rules[builder->nr_rules++] = (struct frame_rule){ .kind = FRAME_UNKNOWN };
	*ret = steal_ptr(builder);
	return 0;
}

struct frame_builder *frame_builder_free(struct frame_builder *builder)
{
	if (!builder)
		return NULL;
	free(builder->rules);
	free(builder->stretches);
	free(builder);
	return NULL;
}

/* --- stretches */

int frame_builder_add(struct frame_builder *builder, uint64_t start, uint64_t end, const struct frame_rule *rule)
{
	struct stretch *last = builder->nr_stretches ? &builder->stretches[builder->nr_stretches - 1] : NULL;
	uint16_t number;
	int r;

	if (start >= end)
		return 0;
	if (end > UINT32_MAX)
		return -EFBIG;
	r = number_rule(builder, rule, &number);
	if (r < 0)
		return r;
	if (last && last->end + 1 == start && last->number == number) {
		last->end = (uint32_t)end - 1;
		return 0;
	}
	if (builder->nr_stretches == STRETCHES_MAX)
		return -EFBIG;
	r = make_room(&builder->stretches, builder->nr_stretches, &builder->cap_stretches, sizeof(*last));
	if (r < 0)
		return r;
	builder->stretches[builder->nr_stretches] = (struct stretch){
		(uint32_t)start,
		(uint32_t)end - 1,
		builder->nr_stretches,
		number,
	};
	builder->nr_stretches++;
	return 0;
}

static int compare_stretches(const void *a, const void *b)
{
	const struct stretch *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* --- rows */

struct rows {
	uint32_t *offsets;
	uint16_t *numbers;
	uint32_t nr;
};

static void release_rows(struct rows *rows)
{
	free(rows->offsets);
	free(rows->numbers);
}

static void add_row(struct rows *rows, uint32_t offset, uint16_t number)
{
	if (rows->nr && rows->numbers[rows->nr - 1] == number)
		return;
	rows->offsets[rows->nr] = offset;
	rows->numbers[rows->nr++] = number;
}

/* Each stretch makes at most two rows, and the end of the last one makes another. */
static int make_rows(struct rows *ret, const struct frame_builder *builder)
{
	uint64_t max = 2 * (uint64_t)builder->nr_stretches + 1, at = 0;

	if (max > FRAME_ROWS_MAX)
		max = FRAME_ROWS_MAX;
	ret->offsets = malloc(max * sizeof(*ret->offsets));
	ret->numbers = malloc(max * sizeof(*ret->numbers));
	if (!ret->offsets || !ret->numbers)
		return -ENOMEM;
	for (uint32_t i = 0; i < builder->nr_stretches && ret->nr + 3 <= max; i++) {
		const struct stretch *stretch = &builder->stretches[i];

		if (stretch->end < at)
			continue;
		if (stretch->start > at)
			add_row(ret, (uint32_t)at, UNKNOWN_NUMBER);
		add_row(ret, stretch->start > at ? stretch->start : (uint32_t)at, stretch->number);
		at = (uint64_t)stretch->end + 1;
	}
	add_row(ret, (uint32_t)at, UNKNOWN_NUMBER);
	return 0;
}

static int write_rows(const struct frame_builder *builder, const struct rows *rows, int fd)
{
	const struct frame_table_header header = { FRAME_TABLE_MAGIC, rows->nr, builder->nr_rules, 0 };
	size_t rules = builder->nr_rules * sizeof(*builder->rules), offsets = rows->nr * sizeof(*rows->offsets);
	int r = write_all_at(fd, builder->rules, rules, sizeof(header));

	if (r == 0)
		r = write_all_at(fd, rows->offsets, offsets, (off_t)(sizeof(header) + rules));
	if (r == 0)
		r = write_all_at(fd, rows->numbers, rows->nr * sizeof(*rows->numbers),
				 (off_t)(sizeof(header) + rules + offsets));
	return r == 0 ? write_all_at(fd, &header, sizeof(header), 0) : r;
}

int frame_builder_write(struct frame_builder *builder, int fd)
{
	_cleanup_(release_rows) struct rows rows = {};
	int r;

	if (builder->nr_rules == 1)
		return -ENODATA;
	qsort(builder->stretches, builder->nr_stretches, sizeof(*builder->stretches), compare_stretches);
	r = make_rows(&rows, builder);
	return r < 0 ? r : write_rows(builder, &rows, fd);
}
